//! Prepared statements and portals: of the protocol, named and unnamed, and of SQL.

#![expect(clippy::too_many_lines, reason = "a flat table of scripts")]

use anyhow::Result;

use crate::script::on_one_server;
use crate::script::on_two_servers;
use crate::world::check;

#[test]
fn names_of_two_clients_do_not_meet() -> Result<()> {
    let scripts = [
        on_one_server(
            "same name",
            "A parse s: select 'of a'
             A sync
             B parse s: select 'of b', 2
             B sync
             A describe S s
             A bind - s
             A execute -
             A sync
             B describe S s
             B bind - s
             B execute -
             B sync
             B close S s
             B sync
             A bind - s
             A execute -
             A sync
             B bind - s
             B execute -
             B sync",
        ),
        on_one_server(
            "name unknown to the other",
            "A parse s: select 'of a'
             A sync
             B bind - s
             B execute -
             B sync
             B describe S s
             B sync
             B close S s
             B sync
             A bind - s
             A execute -
             A sync",
        ),
        on_one_server(
            "name taken",
            "A parse s: select 1
             A parse s: select 2
             A sync
             A bind - s
             A execute -
             A sync
             A close S s
             A parse s: select 2
             A bind - s
             A execute -
             A sync
             B parse s: select 3
             B bind - s
             B execute -
             B sync
             A bind - s
             A execute -
             A sync",
        ),
        on_one_server(
            "same text, other types",
            "A parse s int4: select $1
             A bind - s 7
             A describe P -
             A execute -
             A sync
             B parse s text: select $1
             B bind - s seven
             B describe P -
             B execute -
             B sync
             A describe S s
             A bind - s 8
             A execute -
             A sync
             B describe S s
             B sync",
        ),
        on_one_server(
            "names of Weir's kind and long names",
            &format!(
                "A parse weir_1: select 'of a'
                 A parse {long}x: select 'long'
                 A sync
                 B parse weir_1: select 'of b'
                 B sync
                 A bind - weir_1
                 A execute -
                 A bind - {long}x
                 A execute -
                 A sync
                 A parse {long}y: select 'longer'
                 A sync
                 B bind - {long}x
                 B execute -
                 B sync",
                long = "n".repeat(63)
            ),
        ),
        on_one_server(
            "failed parse leaves no name",
            "A parse s: select from nowhere
             A sync
             A bind - s
             A sync
             A parse s: select 'now'
             A bind - s
             A execute -
             A sync
             B parse s: select from nowhere
             B sync
             A bind - s
             A execute -
             A sync",
        ),
        on_one_server(
            "skipped parse leaves no name",
            "A parse bad: select 1/0
             A bind - bad
             A execute -
             A parse s: select 'skipped'
             A sync
             A bind - s
             A execute -
             A sync
             B parse s: select 'of b'
             B bind - s
             B execute -
             B sync",
        ),
        on_one_server(
            "a name outlives a rollback",
            "A simple: begin
             A parse s: select 'kept'
             A sync
             A simple: rollback
             B simple: select 1
             A bind - s
             A execute -
             A sync",
        ),
    ];
    check("names", "", &scripts)
}

#[test]
fn the_unnamed_statement_is_each_clients_own() -> Result<()> {
    let scripts = [
        on_one_server(
            "across sync",
            "A parse - int4: select $1 + 100
             A sync
             B parse - int4: select $1 - 10
             B sync
             A bind - - 5
             A execute -
             A sync
             B bind - - 5
             B execute -
             B sync
             A describe S -
             A sync",
        ),
        on_one_server(
            "destroyed by a simple query",
            "A parse -: select 'unnamed'
             A sync
             A simple: select 1
             A bind - -
             A execute -
             A sync
             B parse -: select 'of b'
             B sync
             A bind - -
             A sync",
        ),
        on_one_server(
            "not destroyed by another's",
            "A parse -: select 'unnamed'
             A sync
             B simple: select 1
             B parse s: select 2
             B bind - s
             B execute -
             B sync
             A bind - -
             A execute -
             A sync
             B bind - -
             B sync",
        ),
        on_one_server(
            "closed",
            "A parse -: select 'unnamed'
             A close S -
             A sync
             B parse -: select 'of b'
             B sync
             A bind - -
             A execute -
             A sync",
        ),
        on_one_server(
            "failed parse",
            "A parse -: select 'unnamed'
             A sync
             A parse -: select from nowhere
             A sync
             B parse -: select 'of b'
             B sync
             A bind - -
             A execute -
             A sync",
        ),
        on_one_server(
            "in a transaction",
            "A simple: begin
             A parse -: select 'unnamed'
             A sync
             A bind - -
             A execute -
             A sync
             A simple: rollback
             B parse -: select 'of b'
             B sync
             A bind - -
             A sync",
        ),
    ];
    check("unnamed", "", &scripts)
}

#[test]
fn sql_prepare_is_each_clients_own() -> Result<()> {
    let scripts = [
        on_two_servers(
            "same name",
            "A: prepare p as select 'of a'
             B: execute p
             B: prepare p as select 'of b'
             A: execute p
             A pinned: prepare
             B: execute p
             A: deallocate p
             A free
             A: execute p
             B: execute p
             B: deallocate p
             B: execute p
             A: prepare p(int) as select $1 + 1
             A: execute p(1)
             B: execute p(2)
             A: deallocate prepare p
             A: deallocate p",
        ),
        on_two_servers(
            "one namespace with the protocol's",
            "A simple: prepare p(int) as select $1 + 1
             A bind - p 5
             A execute -
             A sync
             A parse p: select 'taken'
             A sync
             A parse q int4: select $1 + 2
             A sync
             B simple: execute q(1)
             A simple: execute q(1)
             A simple: prepare q as select 1
             A simple: deallocate q
             A bind - q 5
             A sync
             A close S p
             A sync
             A simple: execute p(1)",
        ),
        on_two_servers(
            "outlives a rollback",
            "A: begin
             A: prepare p as select 'kept'
             A: rollback
             B: execute p
             A: execute p
             A: deallocate all
             A: execute p",
        ),
        on_two_servers(
            "seen in its view",
            "A: prepare p(int) as select $1
             B: select count(*) from pg_prepared_statements where from_sql
             A: select name, statement, parameter_types, from_sql from pg_prepared_statements where from_sql
             A: deallocate p
             A: select count(*) from pg_prepared_statements where from_sql",
        ),
        on_two_servers(
            "of a table as source",
            "A: prepare p(int) as insert into t values ($1) returning a
             A: execute p(1)
             B: select a from t
             A: explain (costs off) execute p(2)
             A: create table made as execute q
             A: prepare q as select a from t
             A: create table made as execute q
             B: select a from made
             B: drop table made
             A: delete from t",
        ),
    ];
    check("sql_prepare", "create table t(a int)", &scripts)
}

/// No state outlives its transaction, so B uses the same server in between.
#[test]
fn sql_deals_with_statements_of_the_protocol() -> Result<()> {
    let scripts = [
        on_one_server(
            "execute",
            "A parse p int4: select $1 + 1
             A parse P: select 'capital'
             A sync
             B parse p int4: select $1 + 100
             B sync
             A simple: execute p(1)
             B simple: execute p(1)
             A: execute p(2)
             B: execute p(2)
             A simple: execute \"P\"
             B simple: execute \"P\"
             A simple: explain (costs off) execute p(3)
             A simple: create table made as execute p(4)
             A: table made
             A simple: begin; execute p(5); commit; execute p(6)
             A free
             B free
             A bind - p 7
             A execute -
             A sync
             A simple: execute p('x')
             A simple: begin
             A simple: execute nothing
             A simple: execute p(1)
             A simple: rollback
             A simple: execute p(1)
             B simple: execute p(3)",
        ),
        on_one_server(
            "deallocate among others",
            "A parse p: select 'p of a'
             A parse q: select 'q of a'
             A sync
             B parse p: select 'p of b'
             B sync
             A simple: deallocate p; select 1
             A bind - p
             A sync
             A bind - q
             A execute -
             A sync
             A parse p: select 'p again'
             A sync
             A simple: execute p; deallocate p; execute p
             A parse p: select 'third'
             A sync
             B bind - p
             B execute -
             B sync
             A simple: do $$ begin execute 'deallocate q'; end $$
             A bind - q
             A sync
             B simple: execute p",
        ),
        on_one_server(
            "a name is taken",
            "A parse p: select 'p of a'
             A sync
             B: select 1
             A simple: prepare p as select 2
             B: select 2
             A simple: begin; prepare x as select 3; deallocate x; commit
             B: select 3
             A simple: begin
             A simple: prepare x as select 4
             A parse x: select 5
             A sync
             A simple: rollback; deallocate x
             B: select 4
             A parse x: select 6
             A bind - x
             A execute -
             A sync",
        ),
        on_one_server(
            "in one batch",
            "A parse p int4: select $1 + 1
             A parse -: execute p(1)
             A describe S -
             A bind - -
             A execute -
             A sync
             B: select 1
             A bind - p 1
             A execute -
             A sync
             A parse e: execute p(2)
             A sync
             B: select 2
             A describe S e
             A bind - e
             A describe P -
             A execute -
             A close S p
             A sync
             B: select 3
             A bind - e
             A execute -
             A sync
             A parse p int4: select $1 + 10
             A bind - e
             A execute -
             A sync",
        ),
        on_one_server(
            "what it does",
            "A parse p: select set_config('work_mem', '5MB', false)
             A sync
             A simple: execute p
             B: show work_mem
             A: show work_mem
             A: reset work_mem
             A: deallocate p",
        ),
    ];
    check("shared_names", "", &scripts)
}

#[test]
fn a_notice_about_a_text_is_for_everybody_who_prepares_it() -> Result<()> {
    let name = "n".repeat(70);
    let script = format!(
        "A parse s: select 1 as {name}
         A sync
         B parse s: select 1 as {name}
         B sync
         B parse t: select 1 as {name}
         B bind - t
         B execute -
         B sync"
    );
    check("notices", "", &[on_one_server("of a Parse", &script)])
}

#[test]
fn deallocate_all_takes_the_clients_own_only() -> Result<()> {
    let scripts = [
        on_two_servers(
            "deallocate all",
            "A parse s: select 'of a'
             A sync
             B parse s: select 'of b'
             B sync
             A simple: deallocate all
             A bind - s
             A execute -
             A sync
             B bind - s
             B execute -
             B sync
             A parse s: select 'again'
             A bind - s
             A execute -
             A sync
             B simple: deallocate s
             B simple: deallocate s
             A bind - s
             A execute -
             A sync",
        ),
        on_one_server(
            "discard all",
            "A parse s: select 'of a'
             A sync
             B parse s: select 'of b'
             B sync
             A simple: discard all
             A bind - s
             A execute -
             A sync
             B bind - s
             B execute -
             B sync",
        ),
        on_one_server(
            "in the extended protocol",
            "A parse s: select 'of a'
             A parse d: deallocate s
             A parse e: deallocate all
             A sync
             B parse s: select 'of b'
             B sync
             A bind - d
             A execute -
             A sync
             A bind - s
             A sync
             A bind - e
             A execute -
             A sync
             A bind - e
             A sync
             B bind - s
             B execute -
             B sync",
        ),
    ];
    check("deallocate", "", &scripts)
}

#[test]
fn portals_live_as_long_as_their_transaction() -> Result<()> {
    let scripts = [
        on_one_server(
            "across sync",
            "A simple: begin
             A parse s: select * from generate_series(1, 5)
             A bind p s
             A execute p 2
             A sync
             A execute p 2
             A sync
             A execute p 0
             A sync
             A execute p 0
             A sync
             A simple: commit
             A execute p 0
             A sync
             B execute p 0
             B sync",
        ),
        on_one_server(
            "end of the transaction",
            "A simple: begin
             A parse s: select * from generate_series(1, 5)
             A bind p s
             A execute p 2
             A sync
             A simple: commit
             B simple: begin
             B execute p 1
             B sync
             B simple: rollback
             A simple: begin
             A execute p 1
             A sync
             A simple: rollback",
        ),
        on_one_server(
            "suspended outside of a transaction",
            "A parse s: select * from generate_series(1, 5)
             A bind p s
             A execute p 2
             A execute p 2
             A sync
             A execute p 1
             A sync
             B parse s: select 'of b'
             B bind p s
             B execute p 1
             B sync
             A bind - s
             A execute - 1
             A sync",
        ),
        on_one_server(
            "several at a time",
            "A simple: begin
             A parse s: select * from generate_series(1, 5)
             A parse t: select 'x' || i from generate_series(1, 3) i
             A bind p s
             A bind q t
             A execute p 1
             A execute q 1
             A execute p 1
             A sync
             A bind p s
             A sync
             A simple: rollback
             B simple: select 1",
        ),
        on_one_server(
            "closed",
            "A simple: begin
             A parse s: select 1
             A bind p s
             A close P p
             A execute p
             A sync
             A simple: rollback
             A close P p
             A close S s
             A sync
             B parse s: select 2
             B sync",
        ),
        on_one_server(
            "portal of a closed statement",
            "A simple: begin
             A parse s: select * from generate_series(1, 3)
             A bind p s
             A execute p 1
             A close S s
             A sync
             A execute p 1
             A sync
             A bind q s
             A sync
             A simple: rollback",
        ),
    ];
    check("portals", "", &scripts)
}

/// The pool's cache of statements is shared; an invalid copy of one client does not affect others.
#[test]
fn more_statements_than_a_server_may_keep() -> Result<()> {
    let mut text = String::new();
    for number in 0..130 {
        for client in ["A", "B"] {
            text.push_str(&format!(
                "{client} parse s{number}: select '{client} {number}'\n{client} sync\n"
            ));
        }
    }
    for number in [0, 129, 1, 64, 0] {
        for client in ["A", "B"] {
            text.push_str(&format!(
                "{client} bind - s{number}\n{client} execute -\n{client} sync\n"
            ));
        }
    }
    check("many", "", &[on_one_server("130 each", &text)])
}
