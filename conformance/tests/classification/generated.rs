//! Generated and listed texts that must be for the primary, and what a hot standby says to them.

use anyhow::{Result, ensure};
use weir_conformance::random::Random;
use weir_conformance::{Cluster, Raw, frontend};
use weir_sql::{Access, Cause, Names, access};

use super::mirror::Outcome;
use super::objects::Catalogue;

const SCHEMA: &str = "
    CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t SELECT g, g FROM generate_series(1, 10) g;
    CREATE TABLE u (a int, b int); CREATE SEQUENCE s; CREATE UNLOGGED TABLE quick (a int);
    CREATE TABLE parent (a int); CREATE UNLOGGED TABLE child () INHERITS (parent);
    CREATE VIEW counting AS SELECT nextval('s') AS a; CREATE VIEW outer_view AS SELECT * FROM counting;
    CREATE VIEW locking AS SELECT * FROM t FOR UPDATE; CREATE VIEW plain AS SELECT * FROM t;
    CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS 'INSERT INTO u VALUES (1, 1) RETURNING 1';
    CREATE PROCEDURE proc() LANGUAGE sql AS 'INSERT INTO u VALUES (1, 1)';
    SELECT nextval('s');";

/// A primary with a schema, its standby, and the names of its objects.
struct World {
    cluster: Cluster,
    names: Names,
    primary: Raw,
    standby: Raw,
}

impl World {
    fn start() -> Result<Self> {
        let cluster = Cluster::start(1, &[])?;
        let mut primary = cluster.primary().connect("postgres")?;
        primary.query(SCHEMA)?;
        cluster.wait_until_replayed(1)?;
        Ok(Self {
            names: Catalogue::of(cluster.primary().port(), "postgres")?.load()?,
            standby: cluster.replica(1).connect("postgres")?,
            primary,
            cluster,
        })
    }

    /// Runs a text on the standby, and leaves the transaction block that it may have begun.
    fn on_standby(&mut self, text: &str) -> Result<Outcome> {
        let outcome = Outcome::of(&self.standby.ask(&frontend::query(text))?)?;
        self.standby.query("ROLLBACK; DEALLOCATE ALL")?;
        Ok(outcome)
    }

    /// Checks that a text is for the primary. Returns the answer of the standby.
    fn for_primary(&mut self, text: &str) -> Result<Outcome> {
        let verdict = access(text.as_bytes(), &self.names);
        ensure!(matches!(verdict, Access::Primary(_)), "{text}: {verdict:?}");
        self.on_standby(text)
    }
}

const WRITES: [&str; 5] = [
    "INSERT INTO u VALUES (1, 1) RETURNING a",
    "UPDATE t SET b = 1 RETURNING a",
    "UPDATE t SET b = 1 WHERE false RETURNING a",
    "DELETE FROM t RETURNING a",
    "INSERT INTO t SELECT * FROM u ON CONFLICT (a) DO UPDATE SET b = 2 RETURNING t.a",
];

/// A query of one column `a` with a write inside, `depth` levels down.
fn tree(random: &mut Random, depth: usize) -> String {
    let Some(below) = depth.checked_sub(1) else {
        return WRITES
            .get(random.below(WRITES.len()))
            .copied()
            .unwrap_or_default()
            .to_owned();
    };
    let inner = tree(random, below);
    let with = match random.below(4) {
        0 => format!("WITH c AS ({inner}) SELECT a FROM c"),
        1 => format!(
            "WITH r AS (SELECT 1 AS a), c AS ({inner}) SELECT a FROM r UNION SELECT a FROM c"
        ),
        2 => format!("WITH RECURSIVE c AS ({inner}) SELECT c.a FROM c JOIN t USING (a)"),
        _ => format!(
            "WITH \"C\" (a) AS MATERIALIZED ({inner}) SELECT 1 AS a WHERE EXISTS (SELECT FROM \"C\")"
        ),
    };
    match random.below(5) {
        0 => format!("SELECT a FROM ({with}) AS x"),
        1 => format!("SELECT 1 AS a WHERE 1 IN ({with})"),
        2 => format!("({with}) UNION ALL SELECT 2"),
        _ => with,
    }
}

/// PostgreSQL takes a write inside WITH at the top level only. Deeper ones are refused by each host, and must be for the
/// primary all the same: a later version may take them.
#[test]
fn rt_01_a_write_inside_with_at_any_depth_is_for_the_primary() -> Result<()> {
    let mut world = World::start()?;
    let mut random = Random::new(1);
    let mut refused = 0;
    for round in 0..400 {
        let query = tree(&mut random, 1 + round % 4);
        for text in [
            query.clone(),
            format!("EXPLAIN ANALYZE {query}"),
            format!("COPY ({query}) TO STDOUT"),
        ] {
            let outcome = world.for_primary(&text)?;
            ensure!(!outcome.succeeded(), "the standby executes {text}");
            refused += usize::from(outcome.is_refusal());
        }
    }
    ensure!(refused > 100, "only {refused} texts were valid");
    ensure!(!world.cluster.primary().log_contains("PANIC"));
    Ok(())
}

#[test]
fn rt_02_locks_at_any_depth_and_statements_that_write_are_for_the_primary() -> Result<()> {
    let mut world = World::start()?;
    for strength in ["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"] {
        for tail in ["", " OF t NOWAIT", " SKIP LOCKED"] {
            let lock = format!("SELECT a FROM t FOR {strength}{tail}");
            for text in [
                lock.clone(),
                format!("SELECT * FROM ({lock}) AS x"),
                format!("SELECT 1 WHERE 1 IN ({lock})"),
                format!("WITH x AS ({lock}) SELECT * FROM x"),
                format!("SELECT 1 UNION ALL ({lock})"),
                format!("COPY ({lock}) TO STDOUT"),
                format!("EXPLAIN ANALYZE {lock}"),
                format!("SELECT ARRAY({lock})"),
                format!(
                    "SELECT (SELECT count(*) FROM ({lock}) AS x) FROM u RIGHT JOIN t USING (a)"
                ),
            ] {
                let outcome = world.for_primary(&text)?;
                // PostgreSQL's grammar knows no lock in a set operation.
                ensure!(
                    outcome.is_refusal() || text.contains("UNION"),
                    "{text}: {outcome:?}"
                );
            }
            let declare = format!("BEGIN; DECLARE c CURSOR FOR {lock}; FETCH c");
            let outcome = world.for_primary(&declare)?;
            ensure!(outcome.is_refusal(), "{declare}: {outcome:?}");
        }
    }
    for text in [
        "SELECT * INTO made FROM t",
        "SELECT 1 AS a INTO TEMP made",
        "CREATE TABLE made AS SELECT 1",
        "CREATE TEMP TABLE made (a int)",
        "EXPLAIN ANALYZE INSERT INTO u VALUES (1, 1)",
        "EXPLAIN ANALYZE CREATE TABLE made AS SELECT 1",
        "COPY (DELETE FROM t RETURNING a) TO STDOUT",
        "COPY u FROM STDIN",
        "SELECT * FROM locking",
        "SELECT * FROM counting",
        "SELECT * FROM outer_view",
        "SELECT * FROM quick",
        "SELECT * FROM parent",
        "TABLE quick",
        "COPY quick TO STDOUT",
        "SELECT writes()",
        "CALL proc()",
        "SELECT 1; DELETE FROM t",
        "PREPARE p AS DELETE FROM t; EXECUTE p",
        "BEGIN READ WRITE",
        "SET transaction_read_only = off",
        "LISTEN x",
        "NOTIFY x",
        "VACUUM t",
        "ANALYZE t",
        "REFRESH MATERIALIZED VIEW m",
        "LOCK t IN EXCLUSIVE MODE",
    ] {
        let outcome = match access(text.as_bytes(), &world.names) {
            Access::Begin(modes) if modes.read_only == Some(false) => world.on_standby(text)?,
            _ => world.for_primary(text)?,
        };
        ensure!(!outcome.succeeded(), "the standby executes {text}");
    }
    ensure!(access(b"SELECT * FROM plain", &world.names).is_read());
    ensure!(world.on_standby("SELECT * FROM plain")?.succeeded());
    Ok(())
}

/// Ways to write the name of a function of `pg_catalog`.
fn spellings(name: &str) -> [String; 7] {
    let unicode: String = name
        .bytes()
        .map(|byte| format!("\\{:04x}", u32::from(byte)))
        .collect();
    [
        name.to_owned(),
        name.to_ascii_uppercase(),
        format!("\"{name}\""),
        format!("pg_catalog.{name}"),
        format!("\"pg_catalog\" . \"{name}\" "),
        format!("PG_CATALOG/* x */.{name}\n"),
        format!("U&\"{unicode}\""),
    ]
}

#[test]
fn rt_03_functions_that_write_are_for_the_primary_in_every_spelling() -> Result<()> {
    let mut world = World::start()?;
    for (name, arguments) in [
        ("nextval", "'s'"),
        ("setval", "'s', 1"),
        ("txid_current", ""),
        ("pg_current_xact_id", ""),
        ("lo_create", "0"),
        ("lo_creat", "-1"),
        ("lo_from_bytea", "0, 'x'"),
        ("pg_notify", "'a', 'b'"),
        ("pg_logical_emit_message", "true, 'a', 'b'"),
        ("pg_switch_wal", ""),
        ("pg_create_restore_point", "'x'"),
        ("currval", "'s'"),
        ("lastval", ""),
    ] {
        for spelling in spellings(name) {
            for text in [
                format!("SELECT {spelling}({arguments})"),
                format!("SELECT * FROM {spelling}({arguments})"),
                format!("SELECT a FROM t ORDER BY {spelling}({arguments})"),
                format!(
                    "SELECT CASE WHEN a > 0 THEN {spelling}({arguments})::text END FROM t LIMIT 1"
                ),
            ] {
                let outcome = world.for_primary(&text)?;
                ensure!(!outcome.succeeded(), "the standby executes {text}");
            }
        }
    }
    Ok(())
}

/// A standby grants advisory locks of its own, so nothing but the verdict keeps two clients from holding one lock.
#[test]
fn rt_04_every_advisory_function_is_for_the_primary() -> Result<()> {
    let mut world = World::start()?;
    let sql = "SELECT DISTINCT proname, pronargs FROM pg_proc WHERE proname LIKE '%advisory%'";
    let functions = world.primary.query(sql)?;
    ensure!(functions.len() >= 20, "{functions:?}");
    let mut granted = 0;
    for function in functions {
        let mut values = function.into_iter().flatten();
        let (name, count) = (
            values.next().unwrap_or_default(),
            values.next().unwrap_or_default(),
        );
        let arguments = match count.as_str() {
            "0" => "",
            "1" => "1",
            _ => "1, 2",
        };
        for spelling in spellings(&name) {
            let outcome = world.for_primary(&format!("SELECT {spelling}({arguments})"))?;
            granted += usize::from(outcome.succeeded());
        }
    }
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    ensure!(granted > 0, "the standby granted nothing");
    ensure!(world.primary.query_one(locks)? == "0");
    Ok(())
}

#[test]
fn rt_10_texts_beyond_reading_are_for_the_primary() -> Result<()> {
    let mut world = World::start()?;
    // Whoever answers, a text that no host understands has the same answer.
    for text in [
        "SELEC 1",
        "SELECT 1 FROM",
        "SELECT )",
        "SELECT 'a",
        "WITH x SELECT 1",
        "FROM t",
    ] {
        let here = Outcome::of(&world.primary.ask(&frontend::query(text))?)?;
        let there = world.on_standby(text)?;
        let verdict = access(text.as_bytes(), &world.names);
        ensure!(!here.succeeded(), "{text} is understood");
        ensure!(
            here == there || !verdict.is_read(),
            "{text}: {}",
            here.difference(&there)
        );
    }
    for text in [
        "SELECT 'a\\' FROM t",
        "SELECT 1; UPDATE t SET b = 1",
        "SELECT 1; SELECT nextval('s'); SELECT 2",
    ] {
        world.for_primary(text)?;
    }
    let values: Vec<String> = (0..150_000).map(|number| number.to_string()).collect();
    let long = format!(
        "SELECT count(*) FROM t WHERE pg_column_size(a) IN ({})",
        values.join(", ")
    );
    ensure!(long.len() > 1024 * 1024);
    // Longer than what is parsed, unless its words alone prove it.
    let verdict = access(
        format!("WITH x AS ({long}) SELECT * FROM x").as_bytes(),
        &world.names,
    );
    ensure!(verdict == Access::Primary(Cause::Long), "{verdict:?}");
    let deep = format!("SELECT {}1{}", "(".repeat(2_000), ")".repeat(2_000));
    let verdict = access(deep.as_bytes(), &world.names);
    let there = world.on_standby(&deep)?;
    ensure!(!verdict.is_read() || !there.is_refusal(), "{verdict:?}");
    Ok(())
}

/// Functions without arguments that are held to read are the same on each host.
#[test]
fn functions_of_the_host_are_for_the_primary() -> Result<()> {
    let mut world = World::start()?;
    let sql = "SELECT proname FROM pg_proc WHERE pronargs = 0 AND pronamespace = 'pg_catalog'::regnamespace \
               AND prokind = 'f' AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, \
               'internal'::regtype) ORDER BY 1";
    let mut other = world.cluster.primary().connect("postgres")?;
    let mut compared = 0;
    for row in world.primary.query(sql)? {
        let name = row.into_iter().flatten().next().unwrap_or_default();
        let text = format!("SELECT * FROM pg_catalog.{name}()");
        if !access(text.as_bytes(), &world.names).is_read() {
            continue;
        }
        let first = Outcome::of(&world.primary.ask(&frontend::query(&text))?)?;
        let second = Outcome::of(&other.ask(&frontend::query(&text))?)?;
        let there = world.on_standby(&text)?;
        ensure!(!there.is_refusal(), "{text}: {there:?}");
        // A value that another session on the same host does not have either says nothing of hosts.
        ensure!(
            first != second || first == there,
            "{text}: {}",
            first.difference(&there)
        );
        compared += 1;
    }
    ensure!(compared > 20, "{compared}");
    Ok(())
}
