//! Temporary objects pin their client until they are gone.

#![expect(clippy::too_many_lines, reason = "a flat table of scripts")]

use anyhow::Result;

use crate::script::Script;
use crate::script::on_one_server;
use crate::script::on_two_servers;
use crate::script::waiting_for_one_server;
use crate::world::check;

/// A creates an object; B does not see it; A sees it; A drops it. Then A may be on a server that never had a temporary
/// object, so that it has no schema for them (3F000), and B on the one that had it: there is a schema, and no function
/// in it (42883).
fn made(name: &str, make: &str, probe: &str, drop: &str) -> Script {
    on_two_servers(
        name,
        &format!(
            "A: {make}
             A pinned: temporary object
             B: {probe}
             A: {probe}
             C: {probe}
             B: select 1
             A: {probe}
             A: {drop}
             A free
             A may 3F000: {probe}
             B may 42883: {probe}"
        ),
    )
}

#[test]
fn temporary_objects_pin() -> Result<()> {
    let scripts = [
        made(
            "table",
            "create temporary table tt as select 1 as a",
            "select a from tt",
            "drop table tt",
        ),
        made(
            "temp",
            "create temp table if not exists tt(a int)",
            "select a from tt",
            "drop table tt",
        ),
        made(
            "local temporary",
            "create local temporary table tt(a int)",
            "select a from tt",
            "drop table tt",
        ),
        made(
            "global temp",
            "create global temp table tt(a int)",
            "select a from tt",
            "drop table tt",
        ),
        made(
            "pg_temp",
            "create table pg_temp.tt(a int)",
            "select a from tt",
            "drop table pg_temp.tt",
        ),
        made(
            "quoted pg_temp",
            "create table \"pg_temp\".tt(a int)",
            "select a from tt",
            "drop table tt",
        ),
        made(
            "select into",
            "select 7 as a into temp tt",
            "select a from tt",
            "drop table tt",
        ),
        made(
            "select into temporary table",
            "select 7 as a into temporary table tt",
            "select a from tt",
            "drop table tt",
        ),
        made(
            "view",
            "create temp view tt as select 5 as a",
            "select a from tt",
            "drop view tt",
        ),
        made(
            "or replace view",
            "create or replace temporary view tt as select 5 as a",
            "select a from tt",
            "drop view tt",
        ),
        made(
            "sequence",
            "create temp sequence tt",
            "select last_value from tt",
            "drop sequence tt",
        ),
        made(
            "function",
            "create function pg_temp.tt() returns int language sql as 'select 9'",
            "select pg_temp.tt()",
            "drop function pg_temp.tt()",
        ),
        made(
            "type",
            "create type pg_temp.tt as enum ('x')",
            "select to_regtype('pg_temp.tt') is null",
            "drop type pg_temp.tt",
        ),
        made(
            "by a block",
            "do $$ begin create temp table tt(a int); end $$",
            "select a from tt",
            "drop table tt",
        ),
        made(
            "delete rows",
            "create temp table tt(a int) on commit delete rows",
            "select a from tt",
            "drop table tt",
        ),
        made(
            "over a table of the same name",
            "create temp table plain as select 'temporary' as a",
            "select a from plain",
            "drop table pg_temp.plain",
        ),
    ];
    let fixture = "create table plain(a text); insert into plain values ('permanent')";
    check("temporary", fixture, &scripts)
}

#[test]
fn temporary_objects_keep_their_rows() -> Result<()> {
    let scripts = [
        on_two_servers(
            "rows",
            "A: create temp table tt(a int)
             A: insert into tt values (1), (2)
             B: create temp table tt(a int)
             B: insert into tt values (10)
             A: select sum(a) from tt
             B: select sum(a) from tt
             A: insert into tt values (3)
             A: select sum(a) from tt
             B: drop table tt
             C: select sum(a) from tt
             A: select sum(a) from tt
             A: drop table tt
             A: select sum(a) from tt",
        ),
        on_two_servers(
            "two tables",
            "A: create temp table t1(a int)
             A: create temp table t2(a int)
             A: drop table t1
             B: select from t2
             A: select from t2
             A: drop table t2
             A: select from t2",
        ),
        on_two_servers(
            "view of a temporary table",
            "A: create temp table base as select 3 as a
             A: create view tt as select a from base
             B: select a from tt
             A: select a from tt
             A: drop view tt
             A: drop table base
             A free",
        ),
        on_two_servers(
            "rolled back drop",
            "A: create temp table tt(a int)
             A: begin
             A: drop table tt
             A: rollback
             B: select a from tt
             A: select a from tt
             A: begin
             A: drop table tt
             A: commit
             A: select a from tt",
        ),
        on_two_servers(
            "by search_path",
            "A: set search_path to pg_temp, public
             A: create table tt(a int)
             B: select a from tt
             A: select a from tt
             B: select a from tt
             A: drop table tt",
        ),
        on_two_servers(
            "discard temp",
            "A: create temp table tt(a int)
             B: select a from tt
             A: discard temp
             A: select a from tt
             B: select a from tt
             A: create temp table tt(a int)
             A: discard all
             A: select a from tt",
        ),
        on_two_servers(
            "left behind",
            "A: create temp table tt(a int)
             A leaves
             B: select a from tt
             C: select a from tt
             A: select a from tt
             A: create temp table tt(a int)
             A vanishes
             B: select a from tt
             A: select a from tt",
        ),
        on_two_servers(
            "with other state",
            "A: set datestyle to 'German'
             A: create temp table tt as select '2001-02-03'::date as a
             B: show datestyle
             A: select a from tt
             A: set work_mem to '5MB'
             B: show work_mem
             A: show work_mem
             A: drop table tt
             B: show work_mem
             A: show work_mem
             A: show datestyle",
        ),
    ];
    check("rows", "", &scripts)
}

/// A single server is enough if nothing outlives the transaction.
#[test]
fn temporary_objects_within_a_transaction_do_not_pin() -> Result<()> {
    let scripts = [
        on_one_server(
            "on commit drop",
            "A: begin
             A: create temp table tt(a int) on commit drop
             A: insert into tt values (1)
             A: commit
             B: select a from tt
             A: select a from tt",
        ),
        on_one_server(
            "dropped",
            "A: begin
             A: create temp table tt(a int)
             A: drop table tt
             A: commit
             B: select a from tt
             A: select a from tt",
        ),
        on_one_server(
            "rolled back",
            "A: begin
             A: create temp table tt(a int)
             A: rollback
             B: select a from tt
             A: select a from tt
             A: begin
             A: savepoint s
             A: create temp table tt(a int)
             A: rollback to s
             A: commit
             B: select a from tt",
        ),
        on_one_server(
            "failed",
            "A: create temp table plain as select 1/0
             B: select 1
             A: create temp table tt(a no_such_type)
             B: select 1
             A simple: create temp table tt(a int); select 1/0
             B: select 1",
        ),
        on_one_server(
            "at once",
            "A simple: create temp table tt(a int); drop table tt
             B: select a from tt
             A simple: create temp table tt(a int) on commit drop; insert into tt values (1); table tt
             B: select a from tt
             A: select a from tt",
        ),
        waiting_for_one_server("dropped later",
            "A: create temp table tt(a int)
             B sends: select 'waited'
             A: select a from tt
             A: drop table tt
             B receives
             A: select 1",
        ),
    ];
    check("unpinned", "", &scripts)
}
