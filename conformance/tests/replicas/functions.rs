//! Functions, views and tables that a replica cannot use, and what their clients see.

use std::time::Duration;

use anyhow::{Result, ensure};
use weir_conformance::random::Random;
use weir_conformance::{frontend, wait_until};

use super::support::{NOTICED, World, marked, state};

/// A function that is declared STABLE and writes through another one.
const SLY: &str = "CREATE TABLE calls (a int); CREATE TABLE t AS SELECT 7 AS a;
    CREATE FUNCTION hidden() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO calls VALUES (1); RETURN 42; END';
    CREATE FUNCTION sly() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN hidden(); END'";

#[test]
fn rt_05_a_function_runs_where_its_volatility_says() -> Result<()> {
    let world = World::start(1, "")?;
    let mut client = world.client()?;
    client.query("CREATE FUNCTION seven() RETURNS int LANGUAGE sql AS 'SELECT 7'")?;
    world.prepare("SELECT 1")?;
    world.runs_on_primary(&mut client, "SELECT seven()", "volatile")?;
    client.query("ALTER FUNCTION seven() STABLE")?;
    let served = |mark: &str| world.on_replicas(mark).iter().sum::<usize>() > 0;
    wait_until("a read on a replica after ALTER FUNCTION", NOTICED, || {
        client.query(&marked("SELECT seven()", "stable"))?;
        Ok(served("stable"))
    })?;
    world.prepare("ALTER FUNCTION seven() VOLATILE")?;
    // Nobody has told Weir: it looks once a minute.
    let mut round = 0;
    wait_until(
        "the primary after ALTER FUNCTION elsewhere",
        Duration::from_secs(90),
        || {
            round += 1;
            let mark = format!("volatile-{round}");
            client.query(&marked("SELECT seven()", &mark))?;
            Ok(world.on_primary(&mark) == 1)
        },
    )
}

#[test]
fn rt_06_a_stable_function_that_writes_is_repeated_on_the_primary_once() -> Result<()> {
    let world = World::start(1, "")?;
    world.prepare(SLY)?;
    let mut client = world.client()?;
    // Weir has to know the function first.
    wait_until(
        "a refusal by the replica",
        NOTICED.saturating_mul(9),
        || {
            ensure!(client.query_one(&marked("SELECT sly()", "first"))? == "42");
            Ok(world.on_replicas("first") == [1])
        },
    )?;
    // The same text is learnt.
    for _ in 0..5 {
        ensure!(client.query_one(&marked("SELECT sly()", "first"))? == "42");
    }
    ensure!(
        world.on_replicas("first") == [1],
        "the verdict was not learnt"
    );
    let calls = world.on_primary("first");
    ensure!(
        world
            .cluster
            .primary()
            .query_one("SELECT count(*) FROM calls")?
            == calls.to_string()
    );
    Ok(())
}

#[test]
fn rt_07_after_rows_were_forwarded_the_error_is_passed_on() -> Result<()> {
    let world = World::start(1, "")?;
    world.prepare(SLY)?;
    let mut client = world.client()?;
    let sql = "SELECT CASE WHEN g = 900 THEN sly() ELSE g END, repeat('x', 1000) FROM generate_series(1, 1000) g";
    let mut round = 0;
    wait_until(
        "an attempt on the replica",
        NOTICED.saturating_mul(9),
        || {
            round += 1;
            let mark = format!("late-{round}");
            let messages = client.ask(&frontend::query(&marked(sql, &mark)))?;
            if world.on_replicas(&mark) == [0] {
                return Ok(false);
            }
            let rows = messages
                .iter()
                .filter(|message| message.tag == b'D')
                .count();
            let error = messages.iter().find(|message| message.tag == b'E');
            let code = error.and_then(|error| error.field(b'C'));
            ensure!(
                code.as_deref() == Some("25006"),
                "{code:?} after {rows} rows"
            );
            ensure!(rows == 899, "{rows} rows");
            ensure!(world.on_primary(&mark) == 0, "rows were shown twice");
            Ok(true)
        },
    )?;
    // The same text is learnt all the same.
    let mark = format!("late-{round}");
    let rows = client.query(&marked(sql, &mark))?;
    ensure!(rows.len() == 1000 && world.on_replicas(&mark) == [1]);
    Ok(())
}

#[test]
fn rt_08_what_a_replica_cannot_read_is_read_on_the_primary() -> Result<()> {
    let world = World::start(1, "")?;
    let mut client = world.client()?;
    client.query(
        "CREATE SEQUENCE s; CREATE VIEW counting AS SELECT nextval('s') AS a; CREATE VIEW outer_view AS TABLE counting;
         CREATE UNLOGGED TABLE quick AS SELECT 1 AS a; CREATE TABLE t AS SELECT 1 AS a",
    )?;
    world.prepare("SELECT 1")?;
    for (number, sql) in [
        "SELECT * FROM counting",
        "SELECT * FROM outer_view",
        "SELECT * FROM quick",
    ]
    .iter()
    .enumerate()
    {
        ensure!(
            world
                .runs_on_primary(&mut client, sql, &format!("own-{number}"))?
                .len()
                == 1
        );
    }
    wait_until("a read of t on the replica", NOTICED, || {
        client.query(&marked("SELECT * FROM t", "logged"))?;
        Ok(world.on_replicas("logged").iter().sum::<usize>() > 0)
    })?;
    client.query("ALTER TABLE t SET UNLOGGED")?;
    world.prepare("SELECT 1")?;
    for _ in 0..20 {
        ensure!(client.query_one("SELECT a FROM t")? == "1");
    }
    Ok(())
}

#[test]
fn rt_09_a_temporary_table_hides_a_permanent_one() -> Result<()> {
    let world = World::start(2, "")?;
    world.prepare("CREATE TABLE p AS SELECT 1000 AS a")?;
    let steps = [
        "CREATE TEMP TABLE p (a int)",
        "INSERT INTO pg_temp.p VALUES (1)",
        "DROP TABLE IF EXISTS pg_temp.p",
        "SELECT sum(a) FROM p",
        "SELECT sum(a) FROM public.p",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "DISCARD TEMP",
    ];
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (mut client, mut direct) = (
            world.client()?,
            world.cluster.primary().connect("postgres")?,
        );
        for _ in 0..12 {
            let step = steps
                .get(random.below(steps.len()))
                .copied()
                .unwrap_or_default();
            ensure!(
                state(&mut client, step)? == state(&mut direct, step)?,
                "seed {seed}: {step}"
            );
            if step.starts_with("SELECT") && state(&mut direct, step)?.is_none() {
                ensure!(
                    client.query(step)? == direct.query(step)?,
                    "seed {seed}: {step}"
                );
            }
        }
        client.terminate();
        direct.terminate();
    }
    Ok(())
}
