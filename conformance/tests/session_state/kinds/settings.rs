//! Settings of a session that follow their client.

use anyhow::Result;

use crate::script::Script;
use crate::script::on_one_server;
use crate::world::check;

/// A and B set different values, read them by turns, and reset them.
fn taken_in_turns(name: &str, ours: &str, theirs: &str, probe: &str) -> Script {
    on_one_server(
        name,
        &format!(
            "A: show {name}
             A: set {name} to {ours}
             B: show {name}
             B: {probe}
             A: show {name}
             A: {probe}
             B: set {name} to {theirs}
             A: show {name}
             A: {probe}
             B: {probe}
             A: reset {name}
             B: show {name}
             A: show {name}
             A: {probe}
             B: set {name} to default
             B: show {name}"
        ),
    )
}

#[test]
fn reported_settings_follow() -> Result<()> {
    let date = "select '2001-02-03'::date, '2001-02-03 04:05:06+00'::timestamptz";
    let scripts = [
        taken_in_turns("datestyle", "'SQL, DMY'", "'German'", date),
        taken_in_turns("timezone", "'America/New_York'", "'Asia/Tokyo'", date),
        taken_in_turns(
            "intervalstyle",
            "'sql_standard'",
            "'iso_8601'",
            "select '1 day 2 hours'::interval",
        ),
        taken_in_turns(
            "client_encoding",
            "'LATIN1'",
            "'SQL_ASCII'",
            "select chr(233)",
        ),
        taken_in_turns("application_name", "'of a'", "'of b'", "select 1"),
        taken_in_turns("standard_conforming_strings", "off", "on", r"select 'a\nb'"),
        taken_in_turns(
            "default_transaction_read_only",
            "on",
            "off",
            "create table should_not_be(a int)",
        ),
    ];
    check("reported", "", &scripts)
}

#[test]
fn unreported_settings_follow() -> Result<()> {
    let scripts = [
        taken_in_turns(
            "work_mem",
            "'5MB'",
            "'6MB'",
            "select current_setting('work_mem')",
        ),
        taken_in_turns("statement_timeout", "'60s'", "'70s'", "select 1"),
        taken_in_turns(
            "search_path",
            "one, public",
            "two, public",
            "select of from place",
        ),
        taken_in_turns(
            "enable_seqscan",
            "off",
            "on",
            "explain (costs off) select from place",
        ),
        taken_in_turns(
            "extra_float_digits",
            "0",
            "-3",
            "select 0.1::float8 + 0.2::float8",
        ),
        taken_in_turns("bytea_output", "escape", "hex", r"select '\x0102ff'::bytea"),
        taken_in_turns("lock_timeout", "1234", "'2min'", "select 1"),
        taken_in_turns(
            "default_transaction_isolation",
            "serializable",
            "'repeatable read'",
            "show transaction_isolation",
        ),
        taken_in_turns(
            "client_min_messages",
            "error",
            "warning",
            "do $$ begin raise warning 'heard'; end $$",
        ),
        taken_in_turns("row_security", "off", "on", "select 1"),
        taken_in_turns(
            "default_text_search_config",
            "english",
            "french",
            "select to_tsvector('the horses')",
        ),
        taken_in_turns("lc_monetary", "'C'", "'POSIX'", "select 12.3::money"),
        taken_in_turns("session_replication_role", "replica", "local", "select 1"),
        taken_in_turns("synchronous_commit", "off", "local", "select 1"),
        taken_in_turns("xmloption", "document", "content", "select 1"),
    ];
    let fixture = "create schema one; create schema two; create table one.place(of text);
        create table two.place(of text); create table place(of text);
        insert into one.place values ('one'); insert into two.place values ('two');
        insert into place values ('public')";
    check("unreported", fixture, &scripts)
}

#[test]
fn a_setting_takes_effect_where_it_belongs() -> Result<()> {
    let scripts = [
        on_one_server(
            "statement_timeout",
            "A: set statement_timeout to '500ms'
             B: select pg_sleep(0.7)
             A: select pg_sleep(10)
             B: select pg_sleep(0.7)
             A: set statement_timeout to 0
             A: select pg_sleep(0.7)",
        ),
        on_one_server(
            "read_only",
            "A: set default_transaction_read_only to on
             B: insert into t values (1)
             A: insert into t values (2)
             A: begin read write
             A: insert into t values (3)
             A: commit
             B: select a from t order by a",
        ),
        on_one_server(
            "datestyle in data",
            "A: set datestyle to 'ISO, DMY'
             B: set datestyle to 'ISO, MDY'
             A: select '03/02/2001'::text::date
             B: select '03/02/2001'::text::date
             A: select '03/02/2001'::date
             B: select '03/02/2001'::date",
        ),
    ];
    check("effects", "create table t(a int)", &scripts)
}

/// A server remembers that a custom name was once set, in PostgreSQL after a rollback as well: it then reads
/// as empty.
#[test]
fn settings_of_the_applications_own_follow() -> Result<()> {
    let scripts = [
        on_one_server(
            "custom",
            "A: set my.var to 'of a'
             B: select nullif(current_setting('my.var', true), '')
             B: set my.var to 'of b'
             A: show my.var
             A: select current_setting('my.var')
             B: show my.var
             A: reset my.var
             B: show my.var
             A: show my.var",
        ),
        on_one_server(
            "quoted",
            r#"A: set "My"."Var" to 'it''s'
             B: select nullif(current_setting('my.var', true), '')
             A: select current_setting('my.var')
             A: set "a.b.c" to e'one\ttwo\\three\nfour "five"'
             B: select nullif(current_setting('a.b.c', true), '')
             A: select current_setting('a.b.c')"#,
        ),
        on_one_server(
            "unicode",
            r#"A: set u&"m\0079.v\0061r" to 'unicode'
             B: select nullif(current_setting('my.var', true), '')
             A: select current_setting('my.var')"#,
        ),
        on_one_server(
            "long value",
            &format!(
                "A: set my.long to '{}'
                 B: select nullif(current_setting('my.long', true), '')
                 A: select md5(current_setting('my.long'))",
                "long ".repeat(5_000)
            ),
        ),
        on_one_server(
            "claims of a request",
            r#"A: select set_config('request.claims', '{"sub": "a"}', false)
             B: select nullif(current_setting('request.claims', true), '')
             B: select set_config('request.claims', '{"sub": "b"}', false)
             A: select current_setting('request.claims')
             B: select current_setting('request.claims')"#,
        ),
    ];
    check("custom", "", &scripts)
}

#[test]
fn every_way_to_write_a_setting_is_seen() -> Result<()> {
    let one = |name: &str, set: &str, show: &str| {
        let text = format!(
            "A: {set}
             B: {show}
             A: {show}
             B: {set}
             A: {show}"
        );
        on_one_server(name, &text)
    };
    let scripts = [
        one("session", "set session work_mem = '5MB'", "show work_mem"),
        one("time zone", "set time zone 'Asia/Tokyo'", "show timezone"),
        one("time zone number", "set time zone -7", "show timezone"),
        one(
            "time zone interval",
            "set time zone interval '-08:00' hour to minute",
            "show timezone",
        ),
        one("time zone local", "set time zone local", "show timezone"),
        one("names", "set names 'latin1'", "show client_encoding"),
        one("schema", "set schema 'pg_catalog'", "show search_path"),
        one("xml option", "set xml option document", "show xmloption"),
        one(
            "list",
            "set search_path to pg_catalog, \"$user\", 'public'",
            "show search_path",
        ),
        one("empty list", "set search_path to ''", "show search_path"),
        one(
            "comments",
            "/* a /* b */ c */ set -- work_mem⏎ work_mem to '7MB'",
            "show work_mem",
        ),
        one("case", "SeT WORK_MEM tO '7MB'", "show work_mem"),
        one("from current", "set work_mem from current", "show work_mem"),
        one(
            "characteristics",
            "set session characteristics as transaction read only, deferrable",
            "select current_setting('default_transaction_read_only'), current_setting('default_transaction_deferrable')",
        ),
        one(
            "isolation",
            "set session characteristics as transaction isolation level serializable",
            "show default_transaction_isolation",
        ),
        one(
            "update of pg_settings",
            "update pg_settings set setting = '4097' where name = 'work_mem'",
            "show work_mem",
        ),
        one("units", "set work_mem = 5000", "show work_mem"),
        one("float", "set seq_page_cost = 1.5", "show seq_page_cost"),
        one(
            "enum",
            "set constraint_exclusion = on",
            "show constraint_exclusion",
        ),
    ];
    check("written", "", &scripts)
}

#[test]
fn reset_all_is_for_one_client() -> Result<()> {
    let scripts = [
        on_one_server(
            "reset all",
            "A: set work_mem to '5MB'
             A: set datestyle to 'German'
             A: set my.var to 'a'
             B: set work_mem to '6MB'
             B: set timezone to 'Asia/Tokyo'
             A: reset all
             A: show work_mem
             A: show datestyle
             A: select nullif(current_setting('my.var', true), '')
             B: show work_mem
             B: show timezone
             B: reset all
             B: show timezone
             A: show work_mem",
        ),
        on_one_server(
            "of the database",
            "A: show work_mem
             A: set work_mem to '5MB'
             B: show work_mem
             A: reset work_mem
             A: show work_mem
             B: set work_mem to '6MB'
             A: show work_mem
             B: reset all
             B: show work_mem",
        ),
        on_one_server(
            "unknown names",
            "A: set no_such_setting to 1
             B: show no_such_setting
             A: reset no_such_setting
             A: set work_mem to 'much'
             A: show work_mem
             A: set server_version to '1'
             B: show work_mem",
        ),
    ];
    check(
        "reset_all",
        "alter database {database} set work_mem to '9MB'",
        &scripts,
    )
}
