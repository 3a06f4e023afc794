//! Tests of where texts may run, by tables of texts.

use std::sync::Arc;

use crate::access::{by_tree, by_words};
use crate::{
    Access, Called, Cause, Isolation, Modes, Names, Nature, Objects, Pattern, Relation, Why, access,
};

fn called(schema: &str, name: &str) -> Called {
    Called {
        schema: schema.into(),
        name: name.into(),
    }
}

fn names() -> Names {
    let mut objects = Objects::default();
    for (name, is_volatile) in [("steady", false), ("changes", true)] {
        let nature = Nature {
            is_volatile,
            is_built_in_too: false,
        };
        objects.add_function(&called("public", name), nature);
    }
    for (name, why) in [
        ("unlogged", Why::Unlogged),
        ("elsewhere", Why::Foreign),
        ("numbers", Why::Sequence),
    ] {
        let why = Some(why);
        let relation = Relation {
            why,
            ..Relation::default()
        };
        objects.add_relation(name, &relation);
    }
    for (name, schema, function) in [
        ("active_users", "pg_catalog", "pg_stat_get_activity"),
        ("changed", "public", "changes"),
        ("Changed", "public", "changes"),
        ("found", "app", "search"),
    ] {
        let relation = Relation {
            calls: [called(schema, function)].into(),
            ..Relation::default()
        };
        objects.add_relation(name, &relation);
    }
    let relation = Relation {
        reads_catalogue: true,
        ..Relation::default()
    };
    objects.add_relation("tables", &relation);
    let primary = vec![Pattern::read("billing.*").unwrap()];
    let read = vec![Pattern::read("app.search").unwrap()];
    Names::new(primary, read).with_objects(&Arc::new(objects))
}

/// Returns the verdict, and checks that words, where they decide, say the same as the grammar.
#[track_caller]
fn verdict(text: &str) -> Access {
    let names = names();
    let access = access(text.as_bytes(), &names);
    if let Some(by_words) = by_words(text.as_bytes(), &names) {
        // A comment behind an open quote keeps the words from deciding.
        let parsed = by_tree(text, &names);
        let is_same = |parsed: &Access| match (parsed, &by_words) {
            (Access::Primary(_), Access::Primary(_)) => true,
            (parsed, by_words) => parsed == by_words,
        };
        assert!(
            parsed.as_ref().is_none_or(is_same),
            "{text}: {by_words:?}, {parsed:?}"
        );
    }
    access
}

#[track_caller]
fn reads(text: &str) {
    let verdict = verdict(text);
    assert!(verdict.is_read(), "{text}: {verdict:?}");
}

#[track_caller]
fn primary(text: &str) -> Cause {
    match verdict(text) {
        Access::Primary(cause) => cause,
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn by_words_alone(text: &str) {
    let decided = by_words(text.as_bytes(), &names());
    assert!(decided.is_some_and(|access| access.is_read()), "{text}");
}

#[test]
fn plain_reads_need_no_parse() {
    for text in [
        "SELECT 1",
        "select a, b from t where c = $1 and d in ($2, $3) order by a limit 10",
        "SELECT count(*) FROM t",
        "SELECT coalesce(max(a), 0) FROM s.t AS x JOIN u USING (id) WHERE x.b BETWEEN 1 AND 2",
        "VALUES (1, 2), (3, 4)",
        "SELECT row_number() OVER (PARTITION BY a ORDER BY b), sum(c) FILTER (WHERE d) FROM t",
        "/* orders */ SELECT \"id\" FROM \"Orders\" WHERE \"name\" LIKE 'a; delete from t'",
        "SELECT 1; SELECT 2;",
        "(SELECT a FROM t) UNION ALL (SELECT a FROM u)",
        "SELECT steady(a) FROM t",
        "SELECT cast(a AS numeric(10, 2)) FROM t WHERE exists (SELECT 1 FROM u)",
    ] {
        by_words_alone(text);
        reads(text);
    }
}

#[test]
fn reads_that_only_the_grammar_proves() {
    for text in [
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a WHERE n < 9) SELECT n FROM a",
        "SELECT substring(a FROM 1 FOR 2) FROM t",
        "TABLE t",
        "SELECT * FROM (VALUES (1), (2)) AS v(a)",
        "SELECT app.search('x')",
        "SELECT pg_catalog.lower(a) FROM t",
        "EXPLAIN SELECT 1",
        "EXPLAIN (ANALYZE, BUFFERS) SELECT 1",
        "COPY t TO STDOUT",
        "COPY (SELECT 1) TO STDOUT",
        "DECLARE c CURSOR FOR SELECT 1",
        "PREPARE p AS SELECT 1",
        "SELECT a FROM t WHERE tenant = current_setting('app.tenant')",
        "SELECT EXTRACT(year FROM now()), a AT TIME ZONE 'UTC' FROM t",
    ] {
        reads(text);
    }
}

#[test]
fn rt_01_a_statement_that_writes_inside_with_is_for_the_primary() {
    for text in [
        "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d",
        "WITH a AS (SELECT 1), b AS (WITH c AS (UPDATE t SET a = 1 RETURNING a) SELECT * FROM c) SELECT * FROM b",
        "WITH i AS (INSERT INTO t VALUES (1) RETURNING a) SELECT 1 WHERE false",
        "WITH m AS (MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE RETURNING 1) SELECT 1",
        "COPY (WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d) TO STDOUT",
    ] {
        assert!(matches!(primary(text), Cause::Statement(_)), "{text}");
    }
}

#[test]
fn rt_02_locks_into_and_statements_that_execute_others_are_for_the_primary() {
    for clause in [
        "UPDATE",
        "NO KEY UPDATE",
        "SHARE",
        "KEY SHARE",
        "UPDATE OF t SKIP LOCKED",
    ] {
        for text in [
            format!("SELECT * FROM t FOR {clause}"),
            format!("SELECT * FROM (SELECT * FROM t FOR {clause}) AS x"),
            format!("WITH x AS (SELECT * FROM t FOR {clause}) SELECT * FROM x"),
            format!("SELECT 1 UNION ALL (SELECT a FROM t FOR {clause})"),
            format!("DECLARE c CURSOR FOR SELECT * FROM t FOR {clause}"),
        ] {
            assert_eq!(primary(&text), Cause::Locks, "{text}");
        }
    }
    assert_eq!(primary("SELECT * INTO x FROM t"), Cause::Into);
    for text in [
        "CREATE TABLE x AS SELECT 1",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
        "EXPLAIN UPDATE t SET a = 1",
        "EXPLAIN ANALYZE EXECUTE p",
        "COPY (DELETE FROM t RETURNING *) TO STDOUT",
        "COPY t FROM STDIN",
        "COPY t TO PROGRAM 'cat'",
        "COPY t TO '/tmp/x'",
        "PREPARE p AS INSERT INTO t VALUES (1)",
        "EXECUTE p",
        "LOCK t",
        "CALL p()",
        "DO 'begin end'",
        "CHECKPOINT",
        "LOAD 'x'",
        "LISTEN x",
        "NOTIFY x",
        "VACUUM",
        "REFRESH MATERIALIZED VIEW v",
        "ALTER SYSTEM SET work_mem = '1MB'",
        "PREPARE TRANSACTION 'x'",
        "COMMIT PREPARED 'x'",
        "ROLLBACK PREPARED 'x'",
    ] {
        primary(text);
    }
}

#[test]
fn rt_03_functions_that_write_or_lock_are_for_the_primary_in_every_spelling() {
    for call in [
        "nextval('s')",
        "NEXTVAL('s')",
        "\"nextval\"('s')",
        "pg_catalog.nextval('s')",
        "pg_catalog . nextval ( 's' )",
        "U&\"\\006eextval\"('s')",
        "setval('s', 1)",
        "currval('s')",
        "lastval()",
        "txid_current()",
        "pg_current_xact_id()",
        "lo_create(0)",
        "lo_import('/x')",
        "pg_notify('a', 'b')",
        "pg_advisory_lock(1)",
        "pg_try_advisory_xact_lock_shared(1, 2)",
        "pg_catalog.pg_advisory_unlock_all()",
        "pg_is_in_recovery()",
        "pg_backend_pid()",
        "inet_server_addr()",
        "set_config('a.b', 'c', false)",
        "setseed(0.5)",
        "query_to_xml('delete from t', true, true, '')",
        "dblink('host=x', 'delete from t')",
        "pg_export_snapshot()",
        "pg_sleep(1) + nextval('s')",
        "changes(1)",
        "s.changes(1)",
        "s.lower('x')",
        "\"Lower\"('x')",
        "billing.total()",
        "nobody_knows(1)",
        "current_setting('transaction_read_only')",
        "current_setting('In_Hot_Standby')",
        "current_setting(a)",
    ] {
        for text in [
            format!("SELECT {call}"),
            format!("SELECT 1 FROM t WHERE {call} IS NOT NULL"),
            format!("SELECT * FROM {call} AS x"),
            format!("SELECT (SELECT {call}) FROM t"),
            format!("VALUES ({call})"),
        ] {
            // PostgreSQL's grammar takes only calls after FROM, so some of these do not parse.
            primary(&text);
        }
    }
    assert_eq!(
        primary("SELECT changes(1)"),
        Cause::Function("changes".into(), Why::Volatile)
    );
}

#[test]
fn relations_that_a_replica_lacks_or_has_for_itself_are_for_the_primary() {
    for (text, why) in [
        ("SELECT * FROM unlogged", Why::Unlogged),
        ("SELECT * FROM s.unlogged AS x", Why::Unlogged),
        ("SELECT * FROM t JOIN elsewhere USING (a)", Why::Foreign),
        ("SELECT last_value FROM numbers", Why::Sequence),
        ("SELECT * FROM active_users", Why::Host),
        ("SELECT * FROM changed", Why::Volatile),
        ("SELECT * FROM \"Changed\"", Why::Volatile),
        ("SELECT * FROM pg_stat_activity", Why::Host),
        ("SELECT * FROM pg_locks", Why::Host),
        ("SELECT * FROM pg_catalog.pg_settings", Why::Host),
        ("SELECT * FROM pg_temp.x", Why::Session),
    ] {
        let cause = primary(text);
        assert!(
            matches!(cause, Cause::Relation(_, found) if found == why),
            "{text}: {cause:?}"
        );
    }
    // A list of the administrator counts for the functions of a view too.
    reads("SELECT * FROM found");
    // Case counts between quotes.
    reads("SELECT * FROM \"CHANGED\"");
    // A column or alias of such a name is none.
    reads("SELECT x.numbers FROM t AS x");
}

#[test]
fn tables_of_the_system_catalogue_are_told() {
    for text in [
        "SELECT * FROM pg_class",
        "SELECT * FROM information_schema.tables",
        "SELECT relname FROM pg_catalog.pg_class c JOIN t ON true",
        "SELECT * FROM tables",
    ] {
        let reads_catalogue = true;
        assert_eq!(verdict(text), Access::Read { reads_catalogue }, "{text}");
    }
}

#[test]
fn rt_10_what_cannot_be_read_is_for_the_primary() {
    assert_eq!(primary("SELEC 1"), Cause::Unparsed);
    assert_eq!(
        primary("SELECT 1; DELETE FROM t"),
        Cause::Statement("DELETE".into())
    );
    primary("SELECT 1; SELECT * FROM t FOR UPDATE");
    primary("DELETE FROM t; SELECT 1");
    for text in [
        "SET LOCAL a.b = 1; SELECT 1",
        "SELECT 1; COMMIT",
        "SELECT 1; DEALLOCATE ALL",
        "EXPLAIN SELECT 1; RESET ALL",
    ] {
        assert_eq!(primary(text), Cause::Mixed, "{text}");
    }
    let long = format!("WITH a AS (SELECT 1) SELECT {} 1", "1, ".repeat(4 * 1024));
    assert_eq!(primary(&long), Cause::Long);
    // With standard_conforming_strings off, the constant ends later.
    assert_eq!(
        primary("SELECT * FROM u, (SELECT '\\') AS a, (SELECT ';delete from t;--') AS b"),
        Cause::Doubtful
    );
    // A long read is known by its words.
    reads(&format!(
        "SELECT 1 FROM t WHERE a IN ({} 1)",
        "1, ".repeat(100_000)
    ));
    let deep = format!("SELECT {}1{}", "(".repeat(500), ")".repeat(500));
    reads(&deep);
    assert!(!access(b"SELECT \xff, '\\x'", &names()).is_read());
}

#[test]
fn begin_tells_its_modes_and_a_transaction_goes_on_where_it_is() {
    let modes = |read_only, isolation| {
        Access::Begin(Modes {
            read_only,
            isolation,
        })
    };
    for (text, expected) in [
        ("BEGIN", modes(None, None)),
        ("begin work", modes(None, None)),
        ("START TRANSACTION READ ONLY", modes(Some(true), None)),
        (
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
            modes(Some(true), Some(Isolation::RepeatableRead)),
        ),
        ("BEGIN TRANSACTION READ WRITE", modes(Some(false), None)),
        (
            "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
            modes(Some(true), Some(Isolation::Serializable)),
        ),
        ("COMMIT", Access::Anywhere),
        ("END", Access::Anywhere),
        ("ROLLBACK TO a", Access::Anywhere),
        ("SAVEPOINT a", Access::Anywhere),
        ("FETCH 5 FROM c", Access::Anywhere),
        ("SET search_path = a", Access::Anywhere),
        ("SHOW search_path", Access::Anywhere),
        ("RESET ALL", Access::Anywhere),
        ("DISCARD ALL", Access::Anywhere),
        ("", Access::Anywhere),
        (" -- nothing", Access::Anywhere),
        ("SET TRANSACTION READ ONLY", Access::Anywhere),
    ] {
        assert_eq!(verdict(text), expected, "{text}");
    }
    for text in [
        "SET TRANSACTION READ WRITE",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET transaction_read_only = off",
        "SET LOCAL default_transaction_read_only = off",
        "SHOW transaction_read_only",
        "SHOW in_hot_standby",
        "BEGIN; SELECT 1",
        "SELECT 1; BEGIN",
    ] {
        primary(text);
    }
}

#[test]
fn every_cause_says_what_it_is() {
    for (text, said) in [
        ("SELECT changes(1)", "function changes is declared VOLATILE"),
        (
            "SELECT * FROM unlogged",
            "relation unlogged is or contains an unlogged table",
        ),
        (
            "SELECT * FROM changed",
            "relation changed calls a function that is declared VOLATILE",
        ),
        ("SELECT * FROM t FOR UPDATE", "rows are locked"),
        ("CREATE TABLE x ()", "CREATE is for the primary"),
        (
            "SHOW in_hot_standby",
            "setting in_hot_standby is a matter of one host",
        ),
    ] {
        assert_eq!(primary(text).to_string(), said);
    }
}
