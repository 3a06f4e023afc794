//! Start-up values of a client: RESET returns to them (COR-38).

#![expect(clippy::too_many_lines, reason = "a flat table of scripts")]

use anyhow::Result;

use crate::script::on_one_server;
use crate::world::check;

#[test]
fn cor_38_reset_returns_to_the_clients_own_start() -> Result<()> {
    let scripts = [
        on_one_server(
            "reported",
            "A connects: DateStyle=German; TimeZone=Asia/Tokyo; application_name=of a
             B connects: DateStyle=SQL, DMY
             A: show datestyle
             B: show datestyle
             A: set datestyle to 'ISO, YMD'
             A: set timezone to 'America/New_York'
             B: show timezone
             A: reset datestyle
             A: show datestyle
             B: show datestyle
             A: set timezone to default
             A: show timezone
             A: set application_name to 'another'
             B: show application_name
             A: reset application_name
             A: show application_name",
        ),
        on_one_server(
            "unreported",
            "A connects: work_mem=5MB; search_path=one, public
             B: show work_mem
             A: show work_mem
             A: set work_mem to '6MB'
             A: set search_path to pg_catalog
             B: show search_path
             A: reset work_mem
             A: show work_mem
             A: reset search_path
             A: show search_path
             B: show work_mem",
        ),
        on_one_server(
            "options",
            "A connects: options=-c work_mem=5MB -c datestyle=German --search-path=one,public
             B: show work_mem
             B: show datestyle
             A: show work_mem
             A: show search_path
             A: set work_mem to '6MB'
             A: set datestyle to 'SQL'
             B: show work_mem
             A: reset work_mem
             A: reset datestyle
             A: reset search_path
             A: show work_mem
             A: show datestyle
             A: show search_path
             B: show search_path",
        ),
        on_one_server(
            "custom in options",
            "A connects: options=-c my.var=start
             B: select nullif(current_setting('my.var', true), '')
             A: show my.var
             A: set my.var to 'other'
             B: select nullif(current_setting('my.var', true), '')
             A: reset my.var
             A: show my.var
             B: select nullif(current_setting('my.var', true), '')",
        ),
        on_one_server(
            "reset all",
            "A connects: DateStyle=German; options=-c work_mem=5MB -c statement_timeout=1h
             A: set datestyle to 'ISO'
             A: set work_mem to '6MB'
             A: set statement_timeout to 0
             B: set work_mem to '7MB'
             A: reset all
             A: show datestyle
             A: show work_mem
             A: show statement_timeout
             B: show work_mem
             B: show statement_timeout",
        ),
        on_one_server(
            "discard all",
            "A connects: DateStyle=German; options=-c work_mem=5MB
             A: set datestyle to 'ISO'
             A: set work_mem to '6MB'
             B: show work_mem
             A: discard all
             A: show datestyle
             A: show work_mem
             B: show datestyle",
        ),
    ];
    check("startup", "create schema one", &scripts)
}

#[test]
fn cor_38_reset_in_a_transaction_returns_to_the_clients_own_start() -> Result<()> {
    let scripts = [
        on_one_server(
            "reset and rollback",
            "A connects: DateStyle=German; options=-c work_mem=5MB
             A: set datestyle to 'ISO'
             A: begin
             A: reset datestyle
             A: show datestyle
             A: rollback
             A: show datestyle
             B: show datestyle
             A: begin
             A: reset all
             A: show datestyle
             A: show work_mem
             A: commit
             B: show work_mem
             A: show datestyle",
        ),
        on_one_server(
            "set local to default",
            "A connects: DateStyle=German; options=-c work_mem=5MB
             A: set datestyle to 'ISO'
             A: set work_mem to '6MB'
             A: begin
             A: set local datestyle to default
             A: set local work_mem to default
             A: show datestyle
             A: show work_mem
             A: commit
             A: show datestyle
             B: show work_mem
             A: show work_mem",
        ),
        on_one_server(
            "several in one message",
            "A connects: DateStyle=German; options=-c work_mem=5MB
             A simple: set work_mem = '6MB'; reset work_mem; show work_mem
             A simple: set datestyle to 'ISO'; reset all; show datestyle
             B: show datestyle
             A: show datestyle
             A: show work_mem",
        ),
        on_one_server(
            "in a pipeline",
            "A connects: DateStyle=German; options=-c work_mem=5MB
             A simple: set datestyle to 'ISO'
             A parse -: reset datestyle
             A bind - -
             A execute -
             A parse -: show datestyle
             A bind - -
             A execute -
             A sync
             B simple: show datestyle
             A simple: show datestyle",
        ),
    ];
    check("startup_reset", "", &scripts)
}

#[test]
fn a_new_connection_begins_anew() -> Result<()> {
    let scripts = [
        on_one_server(
            "leaves",
            "A connects: application_name=first
             A: set work_mem to '5MB'
             A: set my.var to 'first'
             A: set role taker
             A leaves
             A connects: application_name=second
             A: show work_mem
             A: show application_name
             A: select current_user, nullif(current_setting('my.var', true), '')
             B: show application_name",
        ),
        on_one_server(
            "vanishes",
            "A: set datestyle to 'German'
             A: set session authorization taker
             A vanishes
             A: show datestyle
             A: select current_user, session_user
             B: show datestyle",
        ),
    ];
    let fixture = "do $$ begin create role taker; exception when duplicate_object or unique_violation then null; end $$";
    check("anew", fixture, &scripts)
}
