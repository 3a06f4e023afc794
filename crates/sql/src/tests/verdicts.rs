//! Tests of step 2 by tables of texts.

use super::functions;
use crate::is_harmless;
use crate::judge::judge;
use crate::{Asks, Channel, Effects, Reason, Reasons, Resets, Return, Sequences};

fn effects(text: &str) -> Effects {
    super::check(text);
    judge(text.as_bytes(), &functions())
}

fn names(names: &[&str]) -> Box<[Box<str>]> {
    names.iter().map(|name| (*name).into()).collect()
}

#[track_caller]
fn asks(text: &str, expected: &[&str]) {
    let effects = effects(text);
    assert_eq!(effects.asks, Asks::of(expected), "{text}");
    assert!(effects.reasons.is_empty(), "{text}");
}

#[track_caller]
fn reasons(text: &str, askable: &[Reason], certain: &[Reason]) {
    let effects = effects(text);
    let all: Reasons = askable.iter().chain(certain).copied().collect();
    assert_eq!(effects.reasons, all, "{text}");
    assert_eq!(effects.certain, certain.iter().copied().collect(), "{text}");
    // A reason that the server cannot confirm always asks for all settings.
    assert!(certain.is_empty() || effects.asks.all, "{text}");
}

#[test]
fn every_form_of_set_names_its_setting() {
    asks("SET a = 1", &["a"]);
    asks("SET Search_Path TO x, y", &["search_path"]);
    asks("SET SESSION \"Work_Mem\" = '1MB'", &["work_mem"]);
    asks("SET a.B = 'x'", &["a.b"]);
    asks("SET \"a b\".\"c d\" = 'x'", &["a b.c d"]);
    asks("SET local.a = 1", &["local.a"]);
    asks("SET TIME ZONE 'UTC'", &["timezone"]);
    asks("SET TIME ZONE LOCAL", &["timezone"]);
    asks("SET NAMES 'utf8'", &["client_encoding"]);
    asks("SET SCHEMA 'x'", &["search_path"]);
    asks("SET ROLE x", &["role"]);
    asks("SET ROLE NONE", &["role"]);
    asks(
        "SET SESSION AUTHORIZATION x",
        &["session_authorization", "role"],
    );
    asks(
        "SET SESSION AUTHORIZATION DEFAULT",
        &["session_authorization", "role"],
    );
    asks("SET XML OPTION DOCUMENT", &["xmloption"]);
    asks(
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        &["default_transaction_read_only"],
    );
    asks(
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, DEFERRABLE",
        &[
            "default_transaction_isolation",
            "default_transaction_deferrable",
        ],
    );
    asks("SET sort_mem = '1MB'", &["sort_mem", "work_mem"]);
    asks(
        "SET a = 1; UPDATE t SET b = 2; SET c = DEFAULT; SET a = 2",
        &["a", "c"],
    );
    asks("SELECT set_limit(0.5)", &["pg_trgm.similarity_threshold"]);
}

#[test]
fn what_ends_with_the_transaction_asks_for_nothing() {
    for text in [
        "SET LOCAL a = 1",
        "SET TRANSACTION READ ONLY",
        "SET CONSTRAINTS ALL DEFERRED",
        "SELECT set_config('a', 'b', true)",
        "SELECT set_config('request.claims', '{\"a\": [1, 2]}', TRUE), set_config('b', (c(1, 2))[1], true)",
        "CREATE TEMP TABLE t () ON COMMIT DROP",
        "CREATE TEMP TABLE t ON COMMIT DROP AS SELECT 1",
        "SELECT pg_advisory_xact_lock(1)",
        "SELECT 1",
    ] {
        assert!(effects(text).is_harmless_while_pinned(), "{text}");
    }
}

#[test]
fn set_config_names_its_setting_if_it_is_constant() {
    asks("SELECT set_config('A.b', $1, false)", &["a.b"]);
    asks(
        "SELECT 1, (SELECT pg_catalog.set_config('a', x, false) FROM t)",
        &["a"],
    );
    for text in [
        "SELECT set_config($1, 'x', false)",
        "SELECT set_config(setting_name => 'a', new_value => 'x', is_local => false)",
        "SELECT set_config(name, setting, false) FROM t",
    ] {
        reasons(text, &[], &[Reason::Setting]);
    }
    for text in [
        "SELECT set_config('a', 'x', $1)",
        "SELECT set_config('a', 'x', 'f')",
        "SELECT set_config('a', 'x', NOT true)",
        "SELECT set_config('a', 'x', true AND false)",
    ] {
        asks(text, &["a"]);
    }
}

#[test]
fn it_is_told_where_settings_return_to_where_they_started() {
    let returns = |text: &str| -> Vec<_> {
        let of = |found: &Return| (found.end, found.nth, found.is_local);
        effects(text).returns.iter().map(of).collect()
    };
    assert_eq!(returns("RESET a"), [(7, 0, false)]);
    assert_eq!(
        returns("begin; RESET a ; SET b = 1; reset all"),
        [(14, 0, false), (37, 2, false)]
    );
    assert_eq!(returns("SET LOCAL a TO DEFAULT; select 1"), [(22, 0, true)]);
    assert_eq!(returns("SET LOCAL TIME ZONE LOCAL"), [(25, 0, true)]);
    assert_eq!(
        returns("set names; set constraints all deferred; reset role"),
        [(9, 0, false), (51, 2, false)]
    );
    assert_eq!(returns("SET LOCAL a TO 1; SET a TO 1"), []);
    // The end of the string depends on standard_conforming_strings.
    assert_eq!(returns(r"select '\'; reset a; --'"), []);
}

#[test]
fn resets_are_told_apart() {
    let resets = |text: &str| effects(text).resets;
    assert_eq!(resets("RESET A.b"), Resets::Names(names(&["a.b"])));
    assert_eq!(
        resets("RESET TIME ZONE"),
        Resets::Names(names(&["timezone"]))
    );
    assert_eq!(resets("RESET ROLE"), Resets::Names(names(&["role"])));
    assert_eq!(
        resets("RESET SESSION AUTHORIZATION"),
        Resets::Names(names(&["session_authorization"]))
    );
    assert_eq!(resets("SET a TO DEFAULT"), Resets::Names(names(&["a"])));
    assert_eq!(
        resets("SET a = DEFAULT; RESET b"),
        Resets::Names(names(&["a", "b"]))
    );
    assert_eq!(resets("RESET ALL"), Resets::All);
    assert_eq!(resets("DISCARD ALL"), Resets::Session);
    assert_eq!(resets("SET LOCAL a TO DEFAULT"), Resets::Nothing);
    let locally = effects("SET LOCAL a TO DEFAULT").resets_locally;
    assert_eq!(locally, Resets::Names(names(&["a"])));
    assert_eq!(resets("DISCARD TEMP"), Resets::Nothing);
    assert_eq!(resets("SET a = 1"), Resets::Nothing);
}

#[test]
fn reasons_are_told_apart() {
    use Reason::{
        AdvisoryLock, Cursor, Function, Library, Listen, Prepared, Seed, TemporaryObject, Unknown,
    };
    reasons("SELECT pg_advisory_lock(1)", &[AdvisoryLock], &[]);
    reasons(
        "SELECT pg_try_advisory_lock_shared(1, 2)",
        &[AdvisoryLock],
        &[],
    );
    reasons("DECLARE c CURSOR WITH HOLD FOR SELECT 1", &[Cursor], &[]);
    reasons("LOAD 'x'", &[Library], &[]);
    reasons("LISTEN x", &[Listen], &[]);
    reasons("PREPARE p AS SELECT 1", &[Prepared], &[]);
    reasons("PREPARE p AS SELECT setseed(0.1)", &[Prepared], &[Seed]);
    reasons("SELECT setseed(0.1)", &[], &[Seed]);
    reasons("SET seed = 0.1", &[], &[Seed]);
    reasons("SET LOCAL seed = 0.1", &[], &[Seed]);
    reasons("SELECT set_config('Seed', '0.1', true)", &[], &[Seed]);
    reasons("SELECT dblink_connect('x')", &[], &[Function]);
    reasons("SELECT set_tenant(1)", &[], &[Function]);
    reasons("SELECT app.become(1)", &[], &[Function]);
    reasons("SELECT web.become(1)", &[], &[]);
    reasons("CREATE TEMP TABLE t (a serial)", &[TemporaryObject], &[]);
    reasons("CREATE TABLE pg_temp.t ()", &[TemporaryObject], &[]);
    reasons("CREATE TYPE pg_temp.t AS ENUM ()", &[TemporaryObject], &[]);
    reasons(
        "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS ''",
        &[TemporaryObject],
        &[],
    );
    reasons("SELECT * INTO pg_temp.t FROM s", &[TemporaryObject], &[]);
    reasons(
        "SELECT * INTO U&\"pg\\005ftemp\".t FROM s",
        &[TemporaryObject],
        &[],
    );
    reasons(
        "CREATE TEMP TABLE t ON COMMIT DELETE ROWS AS SELECT 1",
        &[TemporaryObject],
        &[],
    );
    reasons("SELECT * FROM pg_temp.t", &[], &[]);
    reasons("INSERT INTO pg_temp.t VALUES ('pg_temp')", &[], &[]);
    reasons("FROBNICATE x", &[Unknown], &[]);
}

#[test]
fn code_that_runs_unseen_asks_for_everything() {
    for text in [
        "DO $$ BEGIN SET a = 1; END $$",
        "DO LANGUAGE plpgsql 'BEGIN END'",
        "CALL p(1)",
        "SELECT query_to_xml('select 1', true, true, '')",
    ] {
        let effects = effects(text);
        assert!(effects.asks.all, "{text}");
        assert!(effects.unseen && effects.reasons.is_empty(), "{text}");
    }
    assert!(effects("DEALLOCATE p").unseen, "what EXECUTE did");
    assert!(!effects("DISCARD ALL; SET a = 1; SELECT pg_advisory_lock(1)").unseen);
}

/// The words of a body count, in whatever language and quotes.
#[test]
fn words_in_the_body_of_a_block_count() {
    reasons(
        "DO $$ BEGIN PERFORM pg_advisory_lock(1); END $$",
        &[Reason::AdvisoryLock],
        &[],
    );
    reasons(
        "DO $$ BEGIN EXECUTE 'LOAD ''x'''; END $$",
        &[],
        &[Reason::Library],
    );
    reasons(
        "DO $$ BEGIN CREATE TEMP TABLE t(); END $$",
        &[Reason::TemporaryObject],
        &[],
    );
    reasons("DO 'BEGIN PERFORM setseed(1); END'", &[], &[Reason::Seed]);
    reasons(
        "DO $$ BEGIN PERFORM app.become('x'); END $$",
        &[],
        &[Reason::Function],
    );
    reasons("CALL app.become('x')", &[], &[Reason::Function]);
}

/// PostgreSQL loads the library to check the function, and the library may keep state in the session.
#[test]
fn functions_in_c_load_their_library() {
    let text = "CREATE FUNCTION f() RETURNS trigger AS 'lib' LANGUAGE C";
    reasons(text, &[], &[Reason::Library]);
    reasons(
        "CREATE FUNCTION f() RETURNS int LANGUAGE 'c' AS 'lib'",
        &[],
        &[Reason::Library],
    );
    reasons(
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        &[],
        &[],
    );
}

#[test]
fn what_an_older_session_answers_in_another_way_wants_a_new_one() {
    for text in [
        "SET plpgsql.extra_foo_warnings = true",
        "SELECT set_config('plperl.a', 'b', false)",
        "SELECT pg_stat_force_next_flush()",
        "SET search_path TO 'pg_temp'",
        "set session search_path = pg_temp, public",
        "SET Search_Path TO \"pg_temp\"",
    ] {
        assert!(effects(text).wants_new, "{text}");
    }
    for text in [
        "SET plpgsql.extra_warnings = 'all'",
        "SET search_path TO public, pg_temp",
        "SET app.search_path = 'pg_temp'",
        "SELECT set_config('app.a', 'b', false)",
        "LOAD 'x'",
    ] {
        assert!(!effects(text).wants_new, "{text}");
    }
}

#[test]
fn who_reads_what_sessions_counted_is_known() {
    for text in [
        "SELECT seq_scan FROM pg_stat_user_tables",
        "CREATE TEMP TABLE t AS SELECT * FROM Pg_Catalog.PG_STATIO_USER_TABLES",
        "SELECT pg_stat_get_function_calls(1)",
        "SELECT sessions FROM \"pg_stat_database\"",
    ] {
        assert!(effects(text).reads_statistics, "{text}");
    }
    for text in [
        "SELECT * FROM pg_stat_activity",
        "SELECT * FROM pg_stats",
        "SELECT 'pg_stat_user_tables'",
        "SET a = 1",
    ] {
        assert!(!effects(text).reads_statistics, "{text}");
    }
    let reads = effects("SELECT seq_scan FROM pg_stat_user_tables");
    assert!(reads.reasons.is_empty() && reads.asks.is_nothing());
}

#[test]
fn who_reads_the_list_of_statements_is_known() {
    for text in [
        "TABLE pg_prepared_statements",
        "SELECT count(*) FROM Pg_Catalog.\"pg_prepared_statements\" p",
        "SELECT name FROM pg_prepared_statement()",
        "CREATE TEMP TABLE t AS SELECT * FROM pg_prepared_statements",
        "DO $$ BEGIN PERFORM 1 FROM pg_prepared_statements; END $$",
    ] {
        let effects = effects(text);
        assert!(effects.lists_statements && effects.names, "{text}");
    }
    for text in [
        "SELECT 'pg_prepared_statements'",
        "SELECT * FROM pg_prepared_xacts",
    ] {
        assert!(!effects(text).lists_statements, "{text}");
    }
    let reads = effects("TABLE pg_prepared_statements");
    assert!(reads.reasons.is_empty() && reads.asks.is_nothing());
}

#[test]
fn what_a_library_would_take_away_cannot_move() {
    reasons("SET plpgsql.foo = 1", &[], &[Reason::Library]);
    reasons("RESET plpgsql.foo", &[], &[Reason::Library]);
    asks(
        "SET plpgsql.extra_warnings = 'all'",
        &["plpgsql.extra_warnings"],
    );
}

#[test]
fn settings_can_be_set_by_update() {
    let text = "UPDATE pg_settings SET setting = '5MB' WHERE name = 'work_mem'";
    assert!(effects(text).asks.all);
}

#[test]
fn sequences_are_told_apart() {
    let sequences = |text: &str| effects(text).sequences;
    assert_eq!(sequences("SELECT nextval('s')"), Sequences::Moves);
    assert_eq!(sequences("SELECT setval('s', 1)"), Sequences::Moves);
    assert_eq!(
        sequences("INSERT INTO t VALUES (nextval('s')) RETURNING lastval()"),
        Sequences::Reads
    );
    assert_eq!(sequences("SELECT currval('s')"), Sequences::Reads);
    assert_eq!(sequences("SELECT 1"), Sequences::Untouched);
    assert!(effects("SELECT nextval('s')").asks.is_nothing());
}

#[test]
fn channels_are_named_if_they_are_all_that_a_text_is_about() {
    let channels = |text: &str| effects(text).channels;
    let listen = |name: &str| Channel::Listen(name.as_bytes().into());
    let long = "x".repeat(80);
    assert_eq!(channels("LISTEN Orders;"), [listen("orders")]);
    assert_eq!(channels("LISTEN \"Orders\""), [listen("Orders")]);
    assert_eq!(
        channels("/* x */ UNLISTEN a"),
        [Channel::Unlisten(b"a".as_slice().into())]
    );
    assert_eq!(channels("UNLISTEN *"), [Channel::UnlistenAll]);
    let cut = &long[..63];
    assert_eq!(channels(&format!("LISTEN {long}")), [listen(cut)]);
    assert_eq!(
        channels("LISTEN a;; UNLISTEN *; LISTEN \"B\""),
        [listen("a"), Channel::UnlistenAll, listen("B")]
    );
    for text in ["BEGIN; LISTEN a", "LISTEN a; SELECT 1", "SELECT 1"] {
        assert_eq!(channels(text), [], "{text}");
    }
    assert_eq!(judge(b"LISTEN gr\xfcn", &functions()).channels, []);
    // Beyond the limit of parsed statements.
    assert_eq!(channels(&"LISTEN a;".repeat(200)), []);
}

#[test]
fn who_asks_for_its_channels_is_known() {
    for text in [
        "SELECT pg_listening_channels()",
        "select * from pg_catalog.PG_LISTENING_CHANNELS ( ) AS c",
        "SELECT EXISTS (SELECT FROM \"pg_listening_channels\"())",
    ] {
        assert!(effects(text).lists_channels, "{text}");
    }
    assert!(!effects("SELECT 'pg_listening_channels()'").lists_channels);
}

#[test]
fn every_unlisten_is_told() {
    let a = || Channel::Unlisten(b"a".as_slice().into());
    let told = |text: &str| effects(text).unlistens;
    assert_eq!(told("UNLISTEN a"), [a()]);
    assert_eq!(
        told("BEGIN; UNLISTEN *; SELECT 1; UNLISTEN a"),
        [Channel::UnlistenAll, a()]
    );
    assert_eq!(told("LISTEN a"), []);
    // The UNLISTEN may be part of a constant.
    assert_eq!(told("SELECT '\\'; UNLISTEN *; --'"), []);
}

#[test]
fn what_may_end_a_pin_is_told() {
    for text in [
        "DROP TABLE t",
        "DROP OWNED BY x",
        "CLOSE c",
        "DISCARD ALL",
        "DISCARD TEMP",
        "DISCARD SEQUENCES",
        "DEALLOCATE p",
        "UNLISTEN x",
        "SELECT pg_advisory_unlock_all()",
    ] {
        assert!(effects(text).frees, "{text}");
    }
    for text in ["DISCARD PLANS", "COMMIT", "SET a = 1", "SELECT 1"] {
        assert!(!effects(text).frees, "{text}");
    }
}

#[test]
fn statements_are_counted() {
    let count = |text: &str| effects(text).statements;
    assert_eq!(count(""), 0);
    assert_eq!(count(";;"), 0);
    assert_eq!(count("SET a = 1;"), 1);
    assert_eq!(count("SELECT nextval('s')"), 1);
    assert_eq!(count("SET a = 1; SELECT ';' ; -- ;\n LISTEN b"), 3);
}

/// With `standard_conforming_strings` on, the text sets `a`; with it off, `b`.
#[test]
fn both_readings_of_a_backslash_count() {
    let text = "SELECT '\\'; SET a = 1; --'\n; SET b = 1";
    assert_eq!(effects(text).asks, Asks::of(["a", "b"]));
    let text = "SELECT '\\'; --'; LOAD 'x'";
    assert!(
        effects(text).reasons.contains(Reason::Library),
        "one reading of two"
    );
}

#[test]
fn texts_in_other_encodings_lose_nothing() {
    let functions = functions();
    let effects = judge(b"SET a = 'gr\xfcn'", &functions);
    assert_eq!(effects.asks, Asks::of(["a"]));
    let effects = judge(b"SET gr\xfcn.a = 'x'", &functions);
    assert!(effects.asks.all);
    let effects = judge(b"SELECT E'\x83\\'; SET a = 1; --'", &functions);
    assert!(effects.certain.contains(Reason::Unknown));
}

#[test]
fn beyond_the_limits_words_decide() {
    let padding = format!("/* {} */", "x".repeat(10_000));
    let text =
        format!("SET TIME ZONE {padding} 'UTC'; CREATE TEMP TABLE {padding} t () ON COMMIT DROP");
    let effects = effects(&text);
    assert_eq!(effects.asks, Asks::of(["timezone"]));
    assert!(effects.reasons.contains(Reason::TemporaryObject));
    assert!(effects.certain.is_empty());
    let many = "SET a = 1; RESET b; SET ROLE x;".repeat(1000);
    let effects = judge(many.as_bytes(), &functions());
    assert_eq!(effects.asks, Asks::of(["a", "b", "role"]));
    assert_eq!(effects.resets, Resets::Names(names(&["b"])));
    assert_eq!(effects.statements, 3000);
}

#[test]
fn a_mistake_in_one_statement_hides_none_of_the_others() {
    let effects = effects("SET a = 1; SELECT FROM WHERE; RESET b; LISTEN");
    assert_eq!(effects.resets, Resets::Names(names(&["b"])));
    assert!(effects.reasons.contains(Reason::Listen));
}

#[test]
fn definitions_of_code_are_looked_at() {
    let harmless = [
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET search_path = a AS 'select 1'",
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END",
        "CREATE OR REPLACE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$",
        "ALTER FUNCTION f() RENAME TO g",
    ];
    for text in harmless {
        assert!(!is_harmless(text.as_bytes(), &functions()), "{text}");
        assert!(effects(text).asks.is_nothing(), "{text}");
        assert!(effects(text).reasons.is_empty(), "{text}");
    }
    let text =
        "CREATE FUNCTION s.f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN SET a.b = 1; END $$";
    let defined = &effects(text).defines;
    assert_eq!(defined.len(), 1);
    assert_eq!(defined[0].names, [b"f".as_slice().into()]);
    assert_eq!(defined[0].effects.asks, Asks::of(["a.b"]));
}
