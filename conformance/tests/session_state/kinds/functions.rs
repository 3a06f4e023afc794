//! Settings changed by functions: by name in the text, hidden in a body, at every place where a call
//! may stand.

#![expect(clippy::too_many_lines, reason = "a flat table of scripts")]

use anyhow::Result;

use crate::script::on_one_server;
use crate::script::on_two_servers;
use crate::world::check;

const FIXTURE: &str = "
    create function sets_work_mem(text) returns void language plpgsql as
      $$ begin perform set_config('work_mem', $1, false); end $$;
    create function sets_datestyle(text) returns void language plpgsql as
      $$ begin perform set_config('datestyle', $1, false); end $$;
    create function sets_in_sql(text) returns text language sql as
      $$ select set_config('timezone', $1, false) $$;
    create function restores() returns text language sql set datestyle to 'German' as
      $$ select '2001-02-03'::date::text $$;
    create procedure sets_and_commits() language plpgsql as $$ begin
      set timezone to 'Asia/Tokyo'; commit; set datestyle to 'German'; rollback; set intervalstyle to 'iso_8601'; end $$;
    create function by_trigger() returns trigger language plpgsql as
      $$ begin set datestyle to 'German'; return new; end $$;
    create table watched(a int);
    create trigger t before insert on watched for each row execute function by_trigger()";

#[test]
fn set_config_follows() -> Result<()> {
    let scripts = [
        on_one_server(
            "false",
            "A: select set_config('work_mem', '5MB', false)
             B: show work_mem
             A: show work_mem
             B: select set_config('work_mem', '6MB', false)
             A: show work_mem",
        ),
        on_one_server(
            "true",
            "A: select set_config('work_mem', '5MB', true)
             A: show work_mem
             B: show work_mem
             A: begin
             A: select set_config('work_mem', '5MB', true)
             A: show work_mem
             A: commit
             A: show work_mem
             B: show work_mem",
        ),
        on_one_server(
            "in a WITH",
            "A: with s as materialized (select set_config('work_mem', '5MB', false) as v) select v from s
             B: show work_mem
             A: show work_mem",
        ),
        on_one_server(
            "quoted and qualified",
            "A: select \"pg_catalog\".\"set_config\"('work_mem', '5MB', false)
             B: show work_mem
             A: select pg_catalog . set_config('datestyle', 'German', false)
             B: show datestyle
             A: select u&\"set!005fconfig\" uescape '!' ('timezone', 'Asia/Tokyo', false)
             B: show timezone
             A: show work_mem
             A: show datestyle
             A: show timezone",
        ),
        on_one_server(
            "rolled back",
            "A: begin
             A: select set_config('work_mem', '5MB', false)
             A: rollback
             A: show work_mem
             B: show work_mem",
        ),
        on_two_servers(
            "name and value as parameters",
            "A parse s: select set_config($1, $2, $3)
             A bind - s work_mem 5MB false
             A execute -
             A sync
             B simple: show work_mem
             A simple: show work_mem
             A bind - s datestyle German false
             A execute -
             A sync
             B simple: show datestyle
             A simple: show datestyle
             A simple: show work_mem",
        ),
        on_two_servers(
            "a custom name as parameter",
            "A parse s: select set_config($1, $2, false)
             A bind - s my.var x
             A execute -
             A sync
             B simple: select nullif(current_setting('my.var', true), '')
             C simple: select nullif(current_setting('my.var', true), '')
             A simple: select current_setting('my.var', true)
             A simple: begin
             A bind - s my.other y
             A execute -
             A sync
             A simple: rollback
             B simple: select nullif(current_setting('my.other', true), '')
             C simple: select nullif(current_setting('my.other', true), '')
             A simple: select current_setting('my.var', true)",
        ),
        on_two_servers(
            "custom names made up",
            "A: select set_config('my.' || v, v, false) from (values ('a'), ('b')) as t(v)
             B: select nullif(current_setting('my.a', true), '')
             C: select nullif(current_setting('my.b', true), '')
             A: select current_setting('my.a', true), current_setting('my.b', true)
             A: do $$ begin execute 'set my.c to ' || quote_literal('c'); end $$
             B: select nullif(current_setting('my.c', true), '')
             C: select nullif(current_setting('my.c', true), '')
             A: select current_setting('my.c', true)",
        ),
    ];
    check("set_config", FIXTURE, &scripts)
}

#[test]
fn set_config_is_seen_wherever_a_call_can_stand() -> Result<()> {
    // Code whose text is not in the statement may change any setting: the client may be pinned for it.
    let hidden = |name: &str, set: &str| {
        on_two_servers(
            name,
            &format!(
                "A: {set}
                 B: show work_mem
                 C: show work_mem
                 A: show work_mem"
            ),
        )
    };
    let one = |name: &str, set: &str| {
        on_one_server(
            name,
            &format!(
                "A: {set}
                 B: show work_mem
                 A: show work_mem"
            ),
        )
    };
    let call = "set_config('work_mem', '5MB', false)";
    let scripts = [
        one(
            "explain analyze",
            &format!(
                "explain (analyze, costs off, timing off, summary off, buffers off) select {call}"
            ),
        ),
        one(
            "create table as",
            &format!("create table made as select {call} as v"),
        ),
        one(
            "insert",
            &format!("insert into watched select 1 where {call} = '5MB'"),
        ),
        one(
            "update",
            "update pg_settings set setting = '5MB' where name = 'work_mem'",
        ),
        one("values", &format!("values ({call})")),
        one("order by", &format!("select 1 order by {call}")),
        one(
            "returning",
            &format!("insert into plain values (1) returning {call}"),
        ),
        one("from", &format!("select * from {call}")),
        hidden("do", &format!("do $$ begin perform {call}; end $$")),
        hidden("do with set", "do 'begin set work_mem to ''5MB''; end'"),
        hidden(
            "execute in do",
            "do $$ begin execute 'set work_' || 'mem to ''5MB'''; end $$",
        ),
        hidden(
            "query_to_xml",
            "select query_to_xml('select set_config(''work_mem'', ''5MB'', false)', true, true, '')",
        ),
    ];
    let fixture = "create table plain(a int);
        create table watched(a int);
        create view unused as select set_config('work_mem', '5MB', false)";
    check("calls", fixture, &scripts)
}

#[test]
fn a_cursor_that_sets_follows_when_it_is_fetched() -> Result<()> {
    let scripts = [on_one_server(
        "fetch",
        "A: begin
         A: declare c cursor for select set_config('work_mem', v, false) from (values ('5MB'), ('6MB')) as t(v)
         A: fetch 1 from c
         A: commit
         B: show work_mem
         A: show work_mem",
    ),
    on_one_server(
        "copy",
        "A: copy (select 1) to '/dev/null'
         A: copy (select set_config('work_mem', '5MB', false)) to '/dev/null'
         B: show work_mem
         A: show work_mem",
    )];
    check("fetched", "", &scripts)
}

/// Changes of reported settings cannot be hidden in a body.
#[test]
fn a_reported_setting_made_by_a_function_is_always_seen() -> Result<()> {
    let scripts = [
        on_one_server(
            "function",
            "A: select sets_datestyle('German')
             B: show datestyle
             B: select '2001-02-03'::date
             A: show datestyle
             A: select '2001-02-03'::date
             B: select sets_datestyle('SQL')
             A: show datestyle
             B: show datestyle",
        ),
        on_one_server(
            "sql function",
            "A: select sets_in_sql('Asia/Tokyo')
             B: show timezone
             A: show timezone
             A: begin
             A: select sets_in_sql('America/New_York')
             A: rollback
             A: show timezone
             B: show timezone",
        ),
        on_one_server(
            "function that restores",
            "A: select restores()
             B: show datestyle
             A: show datestyle",
        ),
        on_one_server(
            "procedure",
            "A: call sets_and_commits()
             B: show timezone
             B: show datestyle
             A: show timezone
             A: show datestyle
             A: show intervalstyle
             B: show intervalstyle",
        ),
        on_one_server(
            "trigger",
            "A: insert into watched values (1)
             B: show datestyle
             A: show datestyle",
        ),
    ];
    check("reported_by_function", FIXTURE, &scripts)
}
