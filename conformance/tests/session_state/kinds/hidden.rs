//! State that cannot be queried from a server: it pins according to the statement's text.

use anyhow::Result;

use crate::script::on_one_server;
use crate::script::on_servers;
use crate::script::on_two_servers;
use crate::world::ALWAYS_ASKED;
use crate::world::check;
use crate::world::check_with;

#[test]
fn sequences_remember_for_their_own_client() -> Result<()> {
    let scripts = [
        on_servers(
            "currval",
            3,
            "A: select nextval('s')
             B: select currval('s')
             B: select nextval('s')
             A may 55000: select currval('s')
             A may 55000: select lastval()
             B may 55000: select lastval()
             C: select lastval()
             A: select nextval('u')
             A may 55000: select lastval(), currval('s'), currval('u')
             B may 55000: select lastval()
             B: select currval('u')
             A: select setval('s', 1, false)
             A may 55000: select currval('s')",
        ),
        on_two_servers(
            "setval",
            "A: select setval('s', 70)
             B: select currval('s')
             A may 55000: select currval('s')
             A: select setval('s', 1, false)",
        ),
        on_two_servers(
            "serial",
            "A simple: insert into with_serial(a) values (1); select currval('with_serial_id_seq'), lastval()
             B: select lastval()
             A: begin
             A: insert into with_serial(a) values (2)
             A: select currval(pg_get_serial_sequence('with_serial', 'id'))
             A: select lastval()
             A: commit
             A: select setval('with_serial_id_seq', 1, false)",
        ),
        on_servers(
            "across transactions",
            3,
            "A: insert into with_serial(a) values (1)
             B: insert into with_serial(a) values (2)
             A may 55000: select lastval()
             B may 55000: select currval('with_serial_id_seq')
             C: select lastval()
             A: select setval('with_serial_id_seq', 1, false)",
        ),
        on_two_servers(
            "discard sequences",
            "A: select nextval('s')
             A may 55000: select lastval()
             A: discard sequences
             A: select lastval()
             B: select lastval()
             A: select setval('s', 1, false)
             A: discard all
             A: select currval('s')",
        ),
        on_two_servers(
            "left behind",
            "A: select nextval('s')
             A leaves
             B: select lastval()
             C: select lastval()
             A: select lastval()
             A: select setval('s', 1, false)",
        ),
    ];
    let fixture = "create sequence s; create sequence u start 100;
        create table with_serial(id serial, a int)";
    check("sequences", fixture, &scripts)
}

#[test]
fn a_sequence_on_one_server_leaks_to_nobody() -> Result<()> {
    let scripts = [
        on_servers(
            "serial",
            2,
            "A: insert into with_serial(a) values (1)
             B may 55000: select lastval()
             A may 55000: select lastval()",
        ),
        on_servers(
            "in a transaction of one's own",
            2,
            "A: select nextval('with_serial_id_seq') > 0
             B: begin
             B: select lastval()
             B: rollback
             A: begin
             A: insert into with_serial(a) values (1)
             A: select lastval() = currval('with_serial_id_seq')
             A: commit
             A: begin
             A: select nextval('with_serial_id_seq') - currval('with_serial_id_seq')
             A: commit",
        ),
        on_one_server(
            "returning needs no memory",
            "A: insert into with_serial(a) values (1) returning a
             B: insert into with_serial(a) values (2) returning a
             A: select count(*) from with_serial",
        ),
    ];
    check(
        "serial",
        "create table with_serial(id serial, a int)",
        &scripts,
    )
}

#[test]
fn a_seed_stays_with_its_client() -> Result<()> {
    let scripts = [
        on_two_servers(
            "setseed",
            "A: select setseed(0.5)
             B: select random() between 0 and 1
             A: select random()
             B: select random() between 0 and 1
             C: select random() between 0 and 1
             C leaves
             A: select random(), random()
             B: select setseed(0.25)
             A: select random()
             B: select random()",
        ),
        on_two_servers(
            "set seed",
            "A: set seed to 0.5
             B: select random() between 0 and 1
             A: select random()
             A: select random()",
        ),
        on_two_servers(
            "hidden in a WITH",
            "A: with s as materialized (select setseed(0.5)) select count(*) from s where s is not null
             B: select random() between 0 and 1
             A: select random()",
        ),
    ];
    check("seed", "", &scripts)
}

#[test]
fn a_library_is_loaded_for_its_own_client() -> Result<()> {
    let scripts = [
        on_two_servers(
            "load",
            "A: load 'auto_explain'
             B: show auto_explain.log_min_duration
             A: show auto_explain.log_min_duration
             A: set auto_explain.log_min_duration to '1h'
             B: select 1
             A: show auto_explain.log_min_duration",
        ),
        on_two_servers(
            "load left behind",
            "A: load 'auto_explain'
             A: show auto_explain.log_min_duration
             A leaves
             B: show auto_explain.log_min_duration
             C: show auto_explain.log_min_duration",
        ),
        on_two_servers(
            "load that fails",
            "A: load 'no_such_library'
             A free
             B: select 1
             C: select 1
             A: select 1",
        ),
    ];
    check("library", "", &scripts)
}

/// Functions of PostgreSQL and its extensions with state that no catalogue shows.
#[test]
fn other_functions_with_a_memory_pin() -> Result<()> {
    let scripts = [
        on_two_servers(
            "replication origin",
            "A: select pg_replication_origin_session_is_setup()
             A: select pg_replication_origin_session_setup('origin')
             B: select pg_replication_origin_session_is_setup()
             A: select pg_replication_origin_session_is_setup()
             C: select pg_replication_origin_session_is_setup()
             A: select pg_replication_origin_session_reset()
             A: select pg_replication_origin_session_is_setup()",
        ),
        on_two_servers(
            "dblink",
            "A: select dblink_connect('c', 'dbname=postgres user=postgres port=' || current_setting('port') || ' host=127.0.0.1')
             B: select dblink_get_connections()
             A: select dblink_get_connections()
             A: select dblink_disconnect('c')
             A: select dblink_get_connections()",
        ),
        on_two_servers(
            "set_limit",
            "A: select set_limit(0.7)
             B: select show_limit()
             A: select show_limit()
             B: select set_limit(0.9)
             A: select show_limit()",
        ),
    ];
    let fixture = "create extension dblink; create extension pg_trgm;
        do $$ begin perform pg_replication_origin_create('origin'); exception when others then null; end $$";
    check("memory", fixture, &scripts)
}

/// With `session_state_check = always` the server is queried after every transaction.
#[test]
fn a_setting_hidden_in_a_function_is_found_by_asking() -> Result<()> {
    let scripts = [
        on_one_server(
            "setting",
            "A: select sets_work_mem('5MB')
             B: show work_mem
             A: show work_mem
             B: select sets_work_mem('6MB')
             A: show work_mem
             B: show work_mem
             A: begin
             A: select sets_work_mem('7MB')
             A: rollback
             B: show work_mem
             A: show work_mem",
        ),
        on_one_server(
            "view",
            "A: select * from a_view
             B: show work_mem
             A: show work_mem",
        ),
        on_one_server(
            "default of a column",
            "A: insert into with_default default values
             B: show work_mem
             A: show work_mem",
        ),
        on_two_servers(
            "temporary table",
            "A: select makes_temp()
             B: select a from tt
             A: select a from tt
             B: select a from tt
             A: drop table tt",
        ),
    ];
    let fixture = "create function sets_work_mem(text) returns void language plpgsql as
          $$ begin perform set_config('work_mem', $1, false); end $$;
        create table with_default(a text default set_config('work_mem', '5MB', false));
        create view a_view as select set_config('work_mem', '5MB', false);
        create function makes_temp() returns void language plpgsql as
          $$ begin create temp table tt(a int); end $$";
    check_with("asked", fixture, ALWAYS_ASKED, &scripts)
}

/// A setting of the application is in no catalogue: its function must be listed.
#[test]
fn a_function_on_the_list_pins() -> Result<()> {
    let scripts = [
        on_two_servers(
            "custom",
            "A: select sets_own('of a')
             A pinned: function
             B: select nullif(current_setting('my.var', true), '')
             A: select current_setting('my.var', true)
             B: select public.sets_own('of b')
             A: select current_setting('my.var', true)
             B: select current_setting('my.var', true)
             A: discard all
             A free
             B: select current_setting('my.var', true)",
        ),
        on_two_servers(
            "in a block and quoted",
            "A: do $$ begin perform \"sets_own\"('of a'); end $$
             B: select nullif(current_setting('my.var', true), '')
             A: select current_setting('my.var', true)",
        ),
    ];
    let fixture = "create function sets_own(text) returns void language plpgsql as
          $$ begin perform set_config('my.var', $1, false); end $$";
    let settings = [("session_state_functions", "sets_own")];
    check_with("listed", fixture, &settings, &scripts)
}
