//! Tests of step 1 by tables of texts.

use super::functions;
use crate::{is_harmless, is_harmless_while_pinned, judge};

#[track_caller]
fn harmless(texts: &[&str]) {
    for text in texts {
        assert!(is_harmless(text.as_bytes(), &functions()), "{text}");
        super::check(text);
    }
}

#[track_caller]
fn suspicious(texts: &[&str]) {
    for text in texts {
        assert!(!is_harmless(text.as_bytes(), &functions()), "{text}");
        super::check(text);
    }
}

#[test]
fn pgbench_is_harmless() {
    harmless(&[
        "BEGIN;",
        "END;",
        "UPDATE pgbench_accounts SET abalance = abalance + -4711 WHERE aid = 17;",
        "SELECT abalance FROM pgbench_accounts WHERE aid = 17;",
        "UPDATE pgbench_tellers SET tbalance = tbalance + 3 WHERE tid = 5;",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 2, 3, 4, CURRENT_TIMESTAMP);",
        "select count(*) from pgbench_branches",
        "vacuum pgbench_branches",
        "truncate pgbench_history",
    ]);
}

#[test]
fn nothing_at_all_is_harmless() {
    harmless(&[
        "",
        ";",
        " ;; ",
        "-- SET a = 1",
        "/* SET a = 1; */",
        "\n\t\r",
    ]);
}

#[test]
fn transactions_and_their_settings_are_harmless() {
    harmless(&[
        "begin isolation level serializable",
        "START TRANSACTION READ ONLY",
        "commit and chain",
        "rollback to savepoint a",
        "SAVEPOINT set",
        "release a",
        "abort",
        "PREPARE TRANSACTION 'x'",
        "commit prepared 'x'",
        "rollback prepared 'x'",
        "SET LOCAL search_path = a",
        "set local time zone 'UTC'",
        "set local role x",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET TRANSACTION SNAPSHOT '1'",
        "set constraints all deferred",
        "set constraints \"a\" immediate",
    ]);
}

#[test]
fn settings_of_the_session_are_not() {
    suspicious(&[
        "SET a = 1",
        "set a.b to 'x'",
        "SET SESSION a = 1",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET TIME ZONE 'UTC'",
        "SET NAMES 'utf8'",
        "SET SCHEMA 'x'",
        "SET ROLE x",
        "SET SESSION AUTHORIZATION x",
        "SET XML OPTION DOCUMENT",
        "RESET a",
        "RESET ALL",
        "sElEcT 1; sEt a = 1",
        "BEGIN; SELECT 1;; SET a = 1; COMMIT",
        "/**/SET a = 1",
        "-- x\nSET a = 1",
        "-- x\rSET a = 1",
    ]);
}

#[test]
fn a_setting_named_like_a_scope_is_one_of_the_session() {
    suspicious(&[
        "SET local.a = 1",
        "SET local . a = 1",
        "SET transaction.a = 1",
        "SET constraints.a = 1",
        "SET session.a = 1",
        "SET LOCAL seed = 0.5",
        "SET LOCAL \"SEED\" = 0.5",
        "PREPARE transaction AS SELECT 1",
        "PREPARE transaction (int) AS SELECT $1",
    ]);
}

#[test]
fn set_elsewhere_is_harmless() {
    harmless(&[
        "UPDATE t SET a = 1",
        "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING",
        "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2",
        "ALTER TABLE t SET (fillfactor = 70)",
        "ALTER TABLE t ALTER a SET DEFAULT 1",
        "ALTER ROLE r SET search_path = a",
        "ALTER DATABASE d RESET ALL",
        "ALTER SYSTEM SET work_mem = '1GB'",
        "ALTER SYSTEM RESET ALL",
        "MERGE INTO t USING s ON true WHEN MATCHED THEN UPDATE SET a = 1",
        "SELECT 'SET a = 1; LISTEN x'",
        "SELECT set, reset, prepare, listen FROM discard",
    ]);
}

#[test]
fn calls_are_found_wherever_they_stand() {
    suspicious(&[
        "SELECT set_config('a', 'b', false)",
        "SELECT set_config('a', 'b', true)",
        "SELECT pg_catalog.set_config('a', 'b', false)",
        "SELECT \"set_config\"('a', 'b', false)",
        "SELECT \"pg_catalog\" . \"set_config\" /* x */ -- y\n ('a', 'b', false)",
        "SELECT Set_Config('a', 'b', false)",
        "SELECT U&\"set\\005fconfig\"('a', 'b', false)",
        "INSERT INTO t VALUES (nextval('s'))",
        "SELECT setval('s', 1)",
        "WITH x AS (SELECT lastval()) SELECT * FROM x",
        "UPDATE t SET a = currval('s')",
        "SELECT 1 WHERE pg_try_advisory_lock(1)",
        "SELECT * FROM pg_advisory_lock_shared(1)",
        "EXPLAIN ANALYZE SELECT pg_advisory_lock(1)",
        "COPY (SELECT setseed(0.5)) TO STDOUT",
        "CREATE TABLE t AS SELECT set_config('a', 'b', false)",
        "DECLARE c CURSOR FOR SELECT set_config('a', 'b', false)",
        "SELECT dblink_connect('x')",
        "SELECT pg_backup_start('x')",
        "SELECT pg_stat_force_next_flush()",
        "SELECT query_to_xml('select 1', true, true, '')",
        "SELECT 1=1AND setseed(1)IS NULL",
        "SELECT $1setseed(1)",
        "SELECT a$$nextval('s')$$, setval('s', 1)",
        "VALUES (setseed(0.1))",
        "(SELECT setseed(0.1))",
        "SELECT set_limit(0.5)",
    ]);
}

#[test]
fn names_that_only_look_like_calls_are_harmless() {
    harmless(&[
        "SELECT nextval, currval FROM lastval",
        "SELECT set_configuration('a')",
        "SELECT \"SET_CONFIG\" FROM t",
        "SELECT pg_advisory_xact_lock(1), pg_try_advisory_xact_lock(2)",
        "SELECT 'nextval(''s'')', $$setseed(1)$$, $a$ set_config( $a$",
        "SELECT E'\\'nextval(', B'1', X'1F', N'lastval('",
        "SELECT a /* nextval( */ FROM t -- currval(",
        "SELECT current_setting('a')",
        "SELECT myset_config('a'), set_config_('b')",
    ]);
}

#[test]
fn an_odd_schema_does_not_hide_a_function() {
    suspicious(&[
        "SELECT other.set_config('a', 'b', false)",
        "SELECT d.s.nextval('a')",
    ]);
}

#[test]
fn listed_functions_are_found_with_or_without_a_parenthesis() {
    suspicious(&[
        "SELECT set_tenant(1)",
        "SELECT x.SET_TENANT(1)",
        "SELECT t.set_tenant FROM t",
        "SELECT app.become('x')",
        "SELECT become('x')",
        "SELECT \"become\"('x')",
    ]);
}

#[test]
fn temporary_objects_are_found() {
    suspicious(&[
        "CREATE TEMP TABLE t ()",
        "create temporary table t ()",
        "CREATE LOCAL TEMP TABLE t ()",
        "CREATE GLOBAL TEMPORARY TABLE t ()",
        "CREATE TEMP SEQUENCE s",
        "CREATE TEMP VIEW v AS SELECT 1",
        "CREATE OR REPLACE TEMP VIEW v AS SELECT 1",
        "CREATE OR REPLACE TEMPORARY RECURSIVE VIEW v (a) AS SELECT 1",
        "CREATE TEMP TABLE t AS SELECT 1",
        "CREATE TABLE pg_temp.t ()",
        "CREATE TABLE \"pg_temp\".t ()",
        "CREATE TABLE pg_temp_3.t ()",
        "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'select 1'",
        "CREATE TYPE pg_temp.t AS (a int)",
        "CREATE DOMAIN pg_temp.d AS int",
        "SELECT 1 INTO TEMP t",
        "SELECT 1 INTO TEMPORARY TABLE t",
        "SELECT 1 INTO LOCAL TEMP t",
        "SELECT 1 INTO pg_temp.t",
        "EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1",
        "CREATE SCHEMA s CREATE TEMP TABLE t ()",
        "CREATE/**/TEMP/**/TABLE t ()",
        "CREATE TABLE U&\"pg\\005ftemp\".t ()",
    ]);
}

#[test]
fn columns_named_temp_are_harmless() {
    harmless(&[
        "SELECT temp, t.temp FROM weather WHERE temp > 20",
        "UPDATE weather SET temp = 20",
        "INSERT INTO weather (place, temp) VALUES ('x', 1)",
        "SELECT temporary FROM t",
        "SELECT 'pg_temp'",
    ]);
}

#[test]
fn other_commands_with_effects_are_found() {
    suspicious(&[
        "LISTEN x",
        "UNLISTEN *",
        "LOAD 'x'",
        "DO $$ BEGIN END $$",
        "CALL p()",
        "PREPARE p AS SELECT 1",
        "DEALLOCATE p",
        "DEALLOCATE ALL",
        "DISCARD ALL",
        "DISCARD TEMP",
        "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
        "DECLARE c SCROLL CURSOR WITH /**/ HoLd FOR SELECT 1",
        "FOO BAR",
        "\"select\" 1",
        "1",
        "'x'",
        "SELECT 1; FOO",
    ]);
}

#[test]
fn other_commands_without_effects_are_harmless() {
    harmless(&[
        "DECLARE c CURSOR FOR SELECT 1",
        "DECLARE c CURSOR WITHOUT HOLDS FOR SELECT 1",
        "FETCH ALL FROM c",
        "MOVE 1 c",
        "CLOSE c",
        "DROP TABLE t",
        "NOTIFY x, 'y'",
        "COPY t FROM STDIN",
        "COPY t TO PROGRAM 'x'",
        "LOCK TABLE t IN SHARE MODE",
        "SHOW search_path",
        "EXPLAIN SELECT 1",
        "(((SELECT 1)))",
        "TABLE t",
        "VALUES (1), (2)",
        "IMPORT FOREIGN SCHEMA a FROM SERVER b INTO c",
        "CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; NOTIFY x)",
    ]);
}

#[test]
fn what_may_end_a_pin_is_found_while_pinned() {
    for text in ["DROP TABLE t", "CLOSE ALL", "SELECT 1; DROP VIEW v"] {
        assert!(is_harmless(text.as_bytes(), &functions()), "{text}");
        assert!(
            !is_harmless_while_pinned(text.as_bytes(), &functions()),
            "{text}"
        );
    }
    assert!(is_harmless_while_pinned(b"COMMIT; SELECT 1", &functions()));
}

#[test]
fn quotes_hide_nothing_behind_them() {
    suspicious(&[
        "SELECT ''; SET a = 1",
        "SELECT ''''; SET a = 1",
        "SELECT E'\\\\'; SET a = 1",
        "SELECT E'\\''; SET a = 1 --'",
        "SELECT 'a' \n 'b'; SET a = 1",
        "SELECT E'a' \n 'b\\'c'; SET a = 1 --'",
        "SELECT $$'$$; SET a = 1",
        "SELECT $a$ $b$ $$ $a$; SET a = 1",
        "SELECT $a$ $A$ $a$; SET a = 1",
        "SELECT a$b$; SET a = 1; SELECT c$b$",
        "SELECT \"a\"\"'\"; SET a = 1",
        "SELECT /* /* */ ' */ 1; SET a = 1 --'",
        "SELECT 1 -- '\n; SET a = 1",
        "SELECT 1 --/*\n; SET a = 1 --*/",
        "SELECT 1 +-- '\n 1; SET a = 1",
        "SELECT 1 */* ' */ 1; SET a = 1",
        "SELECT U&'\\'; SET a = 1; --'",
        "SELECT e'\\'';SET a = 1--'",
        "SELECT b'1'';SET a = 1; SELECT '';SET a = 1",
        "SELECT é'x'; SET a = 1",
        "SELECT $é$'$é$; SET a = 1",
        "SELECT 0x'; SET a = 1; '; SET a = 1",
    ]);
}

/// With `standard_conforming_strings` off, the constant ends later.
#[test]
fn a_backslash_with_two_readings_is_not_cleared() {
    suspicious(&[
        "SELECT 'a\\'; SET a = 1; --'",
        "SELECT '\\' || '; SET a = 1; --'",
        "SELECT 'C:\\'",
    ]);
    harmless(&["SELECT 'C:\\dir\\file', 'a\\\\', '\\n'"]);
}

/// In SJIS the two bytes are one character.
#[test]
fn a_backslash_that_may_be_half_a_letter_is_not_cleared() {
    for text in [
        &b"SELECT E'\x83\\'; SET a = 1; --'"[..],
        b"SELECT '\x83\\\\'; SET a = 1; --'",
        b"SELECT $\x83\\$ ' $\x83\\$; SET a = 1; --'",
    ] {
        assert!(!is_harmless(text, &functions()), "{text:?}");
    }
    assert!(is_harmless(
        "SELECT 'é', E'é \\n' AS grüße".as_bytes(),
        &functions()
    ));
}

#[test]
fn what_has_no_end_is_not_cleared() {
    suspicious(&[
        "SELECT 'a",
        "SELECT \"a",
        "SELECT $$a",
        "SELECT $a$ $$",
        "SELECT /* /* */",
        "SELECT E'a\\'",
        "SELECT 1 /*",
    ]);
    assert!(!is_harmless(b"SELECT 1\0; SET a = 1", &functions()));
}

#[test]
fn names_too_long_to_compare_are_not_cleared() {
    let name = "a".repeat(64);
    suspicious(&[&format!("SELECT {name}(1)")]);
    harmless(&[&format!("SELECT {}(1)", "a".repeat(62))]);
}

#[test]
fn what_deals_with_statements_by_name_is_looked_at() {
    for text in [
        "EXECUTE p(1, 'set')",
        "EXPLAIN (ANALYZE) EXECUTE p",
        "CREATE TABLE t AS EXECUTE \"P q\"(1)",
        "PREPARE p AS SELECT 1",
        "DEALLOCATE p",
        "SELECT 1; EXECUTE p",
        "DO $$ BEGIN EXECUTE 'EXECUTE p'; END $$",
        "DO $$ BEGIN EXECUTE 'DEALLOCATE p'; END $$",
    ] {
        assert!(!is_harmless(text.as_bytes(), &functions()), "{text}");
        assert!(judge(text.as_bytes(), &functions()).names, "{text}");
    }
    for text in [
        "GRANT EXECUTE ON FUNCTION f() TO r",
        "CREATE TRIGGER g BEFORE INSERT ON t EXECUTE FUNCTION f()",
        "CREATE TRIGGER g BEFORE INSERT ON t EXECUTE PROCEDURE f()",
        "PREPARE TRANSACTION 'x'",
        "SELECT 'EXECUTE p'",
    ] {
        assert!(is_harmless(text.as_bytes(), &functions()), "{text}");
        assert!(!judge(text.as_bytes(), &functions()).names, "{text}");
    }
}
