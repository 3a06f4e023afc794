//! DISCARD and its variants: they end the client's own state and no other client's.

#![expect(clippy::too_many_lines, reason = "a flat table of scripts")]

use anyhow::Result;

use crate::script::on_one_server;
use crate::script::on_two_servers;
use crate::script::waiting_for_one_server;
use crate::world::check;

#[test]
fn discard_all_is_for_one_client() -> Result<()> {
    let scripts = [
        on_one_server(
            "settings",
            "A: set work_mem to '5MB'
             A: set datestyle to 'German'
             A: set role pg_monitor
             B: set work_mem to '6MB'
             B: set datestyle to 'SQL'
             A: discard all
             A: show work_mem
             A: show datestyle
             A: select current_user
             B: show work_mem
             B: show datestyle
             B: discard all
             B: show work_mem",
        ),
        on_one_server(
            "not in a transaction",
            "A: set work_mem to '5MB'
             A: begin
             A: discard all
             A: rollback
             A: show work_mem
             B: show work_mem
             A simple: select 1; discard all
             A: show work_mem",
        ),
        on_one_server(
            "at every step, as session pools do",
            "A: discard all
             B: discard all
             A: set work_mem to '5MB'
             B: discard all
             A: show work_mem
             A: discard all
             A: discard all
             A: show work_mem",
        ),
        on_two_servers(
            "what pins",
            "A: create temp table tt(a int)
             A: select pg_advisory_lock(1)
             A: declare c cursor with hold for select 1
             A: prepare p as select 1
             A: listen news
             A: select nextval('s')
             B: select pg_try_advisory_lock(1)
             A: discard all
             B: select pg_try_advisory_lock(1)
             A: select a from tt
             A: fetch 1 from c
             A: execute p
             A: select currval('s')
             B: notify news
             A: select 1
             A heard
             B: select pg_advisory_unlock(1)",
        ),
        waiting_for_one_server(
            "pins until then",
            "A: create temp table tt(a int)
             A: select pg_advisory_lock(1)
             A: prepare p as select 1
             B sends: select 'waited'
             A: execute p
             A: discard all
             B receives
             A: select 1
             B: select a from tt",
        ),
    ];
    check("discard_all", "create sequence s", &scripts)
}

#[test]
fn discard_of_a_part() -> Result<()> {
    let scripts = [
        on_one_server(
            "plans",
            "A parse s: select 'of a'
             A sync
             B parse s: select 'of b'
             B sync
             A: discard plans
             A bind - s
             A execute -
             A sync
             B bind - s
             B execute -
             B sync
             A: set work_mem to '5MB'
             A: discard plans
             A: show work_mem
             B: show work_mem",
        ),
        on_two_servers(
            "temp",
            "A: create temp table tt(a int)
             B: create temp table tt(a int)
             A: discard temporary
             A: select a from tt
             B: select a from tt
             B: begin
             B: discard temp
             B: rollback
             B: select a from tt
             B: discard temp
             B: select a from tt",
        ),
        on_two_servers(
            "sequences",
            "A: select nextval('s') > 0
             B: select nextval('s') > 0
             A: discard sequences
             A: select lastval()
             B may 55000: select lastval() > 0",
        ),
    ];
    check("discard_part", "create sequence s", &scripts)
}
