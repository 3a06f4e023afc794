//! `pg_prepared_statements`: the client's own statements under its own names, and no others.

#![expect(clippy::too_many_lines, reason = "a flat table of scripts")]

use anyhow::Result;

use crate::script::on_one_server;
use crate::script::on_two_servers;
use crate::script::waiting_for_one_server;
use crate::world::check;

/// All columns except the time and the counts of plans, which belong to the server's copy.
const FIXTURE: &str = "create table t(a int, b text); create table altered(a int); \
    create view listed as select name, statement from pg_prepared_statements; \
    create function names() returns setof text language sql as 'select name from pg_prepared_statements order by 1'; \
    create function count_names() returns bigint language plpgsql as \
      $$ begin return (select count(*) from pg_prepared_statements); end $$";

const LIST: &str =
    "select name, statement, parameter_types, from_sql from pg_prepared_statements order by name";

#[test]
fn pg_prepared_statements_lists_the_clients_own() -> Result<()> {
    let script = |name: &str, text: &str| on_one_server(name, &text.replace("LIST", LIST));
    let scripts = [
        script(
            "two clients, one server",
            "A: LIST
             A parse a: select a from t where a = $1 and b = $2
             A parse shared int8: select $1
             A sync
             B: LIST
             B parse b: insert into t values ($1, $2) returning b
             B parse shared int8: select $1
             B sync
             A: LIST
             B: LIST
             B bind - b 1 x
             B execute -
             B sync
             A bind - a 1 x
             A execute -
             A sync
             A: LIST
             A close S shared
             A sync
             A: LIST
             B: LIST
             A: deallocate a
             A: LIST
             B: LIST
             B: deallocate all
             B: LIST",
        ),
        script(
            "in a transaction",
            "B parse b: select 'of b'
             B sync
             A: begin
             A parse a: select a from t
             A sync
             A: LIST
             A parse c: select 2
             A sync
             A: LIST
             A: commit
             B: LIST
             A: LIST
             A: begin
             A: select 1 / 0
             A: LIST
             A: rollback
             A: LIST",
        ),
        script(
            "in the batch that prepares",
            "B parse b: select 'of b'
             B sync
             A parse a: select 1
             A bind - a
             A execute -
             A parse l: LIST
             A bind - l
             A execute -
             A parse c: select 2
             A bind - l
             A execute -
             A sync
             B: LIST
             A bind - l
             A execute -
             A sync
             A simple: execute l
             B simple: select 1; LIST; select 2",
        ),
        script(
            "unnamed",
            "A parse a: select 1
             A sync
             B parse b: select 2
             B sync
             A parse -: LIST
             A sync
             B bind - b
             B execute -
             B sync
             A bind - -
             A execute -
             A sync",
        ),
        script(
            "by a view, functions and other texts",
            "A parse a: select 1
             A sync
             B parse b: select 2
             B sync
             A: select * from listed order by 1
             B: select * from names()
             A: select count_names()
             A: select name from pg_prepared_statement() order by 1
             B: select \"name\" from \"pg_catalog\".\"pg_prepared_statements\" order by 1
             A: copy (select name from pg_prepared_statements order by 1) to stdout
             B: explain (costs off) select 1 from pg_prepared_statements",
        ),
        // A Parse for which no server is free, as during their replacement, is resolved at its first
        // use.
        waiting_for_one_server(
            "columns have changed",
            &"A parse a: select * from altered
             A sync
             B parse b: select 2
             B sync
             B: alter table altered add c int
             A: LIST
             A bind - a
             A sync
             A: LIST
             A: select 'still here'
             B: alter table altered drop c"
                .replace("LIST", LIST),
        ),
        script(
            "what is listed has not run",
            "A parse a: select set_config('work_mem', '1MB', false), setseed(0.5)
             A sync
             A: LIST
             A free
             B: show work_mem
             A: show work_mem",
        ),
        script(
            "no names of ours",
            "A parse a: select 1
             A sync
             B: select count(*) from pg_prepared_statements where name like 'weir%'
             B: select name from pg_prepared_statements where name !~ '^w'
             B: do $$ begin if (select count(*) from pg_prepared_statements where name = 'a') > 0 then raise 'seen'; end if; end $$",
        ),
    ];
    check("listed", FIXTURE, &scripts)
}

#[test]
fn pg_prepared_statements_lists_those_of_sql() -> Result<()> {
    let script = |name: &str, text: &str| on_two_servers(name, &text.replace("LIST", LIST));
    let scripts = [script(
        "both kinds",
        "A parse a int4: select $1
         A sync
         A simple: prepare s(int) as select $1
         B parse b: select 2
         B sync
         A: LIST
         B: LIST
         A parse c: select 3
         A sync
         A: LIST
         A: deallocate s
         A: LIST
         B: LIST",
    )];
    check("listed_sql", FIXTURE, &scripts)
}
