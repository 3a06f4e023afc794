//! Tokens that pass what a session has written to another session, and reads for which no replica is fresh enough.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_conformance::frontend::{bind, execute, parse, query, sync};
use weir_conformance::raw::Message;
use weir_conformance::{Raw, clock, wait_until};

use super::support::{NOTICED, World, marked, state};

const SHOW: &str = "SHOW weir.lsn";

/// Number of rows with this value in the table `t`.
fn rows(client: &mut Raw, value: u32, mark: &str) -> Result<String> {
    client.query_one(&marked(
        &format!("SELECT count(*) FROM t WHERE a = {value}"),
        mark,
    ))
}

/// Value of the only row of an answer without an error.
fn value(messages: &[Message]) -> Result<String> {
    let has_error = messages.iter().any(|message| message.tag == b'E');
    ensure!(!has_error, "{messages:?}");
    let row = messages.iter().find(|message| message.tag == b'D');
    let row = row.context("no row")?.row()?;
    row.into_iter().next().flatten().context("no value")
}

/// Position of a token on timeline 1.
fn position(token: &str) -> Result<String> {
    let position = token.strip_prefix("1/");
    Ok(position.with_context(|| token.to_owned())?.to_owned())
}

/// Checks that a token is not below a position that the session has read behind its last commit.
fn ensure_covers(world: &World, token: &str, floor: &str) -> Result<()> {
    let sql = format!("SELECT '{}'::pg_lsn >= '{floor}'", position(token)?);
    let covers = world.cluster.primary().query_one(&sql)?;
    ensure!(covers == "t", "{token} is below {floor}");
    Ok(())
}

/// Runs a write and returns a position behind its commit.
fn floor_of(client: &mut Raw, sql: &str) -> Result<String> {
    client.query(sql)?;
    // Runs on the primary and counts as a write: the next token is above it.
    client.query_one("SELECT pg_current_wal_flush_lsn()")
}

#[test]
fn rt_23_a_token_lets_another_session_see_a_commit() -> Result<()> {
    let world = World::start(1, "max_staleness=60")?;
    world.prepare("CREATE TABLE t (a int)")?;
    world.cluster.delay(1, "1min")?;
    for number in 1..=20 {
        let (mut writer, mut reader) = (world.client()?, world.client()?);
        writer.query(&format!("INSERT INTO t VALUES ({number})"))?;
        let token = writer.query_one(SHOW)?;
        reader.query(&format!("SET weir.min_lsn = '{token}'"))?;
        let seen = rows(&mut reader, number, "with-token")?;
        ensure!(seen == "1", "{seen} rows with {token}");
        writer.terminate();
        reader.terminate();
    }
    // The token is what made the difference.
    let mut writer = world.client()?;
    writer.query("INSERT INTO t VALUES (1000)")?;
    let mut without = world.client()?;
    ensure!(rows(&mut without, 1000, "without-token")? == "0");
    // A replica that has replayed the position serves the session again.
    let token = writer.query_one(SHOW)?;
    let options = format!("-c weir.min_lsn={token}");
    let startup = [
        ("user", "postgres"),
        ("database", "shop"),
        ("options", &*options),
    ];
    let mut reader = Raw::connect_with(world.weir.port(), &startup)?;
    ensure!(rows(&mut reader, 1000, "startup")? == "1");
    world.cluster.delay(1, "0")?;
    world.until_replica_serves(&mut reader, "later")?;
    reader.query("RESET weir.min_lsn")?;
    ensure!(rows(&mut reader, 1000, "reset")? == "1");
    Ok(())
}

#[test]
fn rt_23_a_token_of_another_timeline_reads_from_the_primary() -> Result<()> {
    let world = World::start(1, "")?;
    world.prepare("CREATE TABLE t (a int)")?;
    let mut client = world.client()?;
    client.query("SET weir.min_lsn = '7/0/1'")?;
    for _ in 0..20 {
        client.query(&marked("SELECT 1", "foreign"))?;
    }
    ensure!(world.on_replicas("foreign") == [0] && world.on_primary("foreign") == 20);
    let line = "weir.min_lsn is malformed, or of another timeline than the primary's";
    let count = || world.weir.log().matches(line).count();
    // The log is written beside the answers.
    wait_until("the line in the log", NOTICED, || Ok(count() > 0))?;
    ensure!(count() == 1);
    client.query("RESET weir.min_lsn")?;
    world.until_replica_serves(&mut client, "own")
}

#[test]
fn the_position_is_shown_in_each_protocol_and_covers_the_last_commit() -> Result<()> {
    let world = World::start(1, "")?;
    world.prepare("CREATE TABLE t (a int)")?;
    let mut client = world.client()?;
    ensure!(client.query_one(SHOW)? == "0/0/0");
    let prepare = [parse("show", SHOW, &[]), sync()].concat();
    client.ask(&prepare)?;
    let ask = [bind("", "show", &[]), execute("", 0), sync()].concat();
    let write = "INSERT INTO t VALUES (1)";
    for _ in 0..10 {
        let floor = floor_of(&mut client, write)?;
        ensure_covers(&world, &client.query_one(SHOW)?, &floor)?;
        let floor = floor_of(&mut client, write)?;
        ensure_covers(&world, &value(&client.ask(&ask)?)?, &floor)?;
        // A write and the question in one go.
        client.send(&[query(write), query(SHOW)].concat())?;
        client.read_until_ready()?;
        let token = value(&client.read_until_ready()?)?;
        let position = position(&token)?;
        let above = format!("SELECT '{position}'::pg_lsn > '{floor}'");
        let is_above = world.cluster.primary().query_one(&above)?;
        ensure!(is_above == "t", "{token} is not above the last write");
    }
    Ok(())
}

#[test]
fn a_session_that_keeps_its_server_gets_its_newest_position() -> Result<()> {
    let world = World::start(1, "")?;
    world.prepare("CREATE TABLE t (a int)")?;
    let mut client = world.client()?;
    client.query("CREATE TEMP TABLE own (a int)")?;
    let mut last = String::new();
    for number in 1..=10 {
        let write = format!("INSERT INTO t VALUES ({number})");
        let floor = floor_of(&mut client, &write)?;
        let token = client.query_one(SHOW)?;
        ensure_covers(&world, &token, &floor)?;
        ensure!(token != last, "{token} was shown before the last commit");
        last = token;
    }
    Ok(())
}

/// Fault of the only replica.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The replica takes reads, and replays commits late.
    Delayed,
    /// Replay is paused: the replica takes no reads as soon as it lacks something.
    Paused,
}

/// Reads what the session has just written, and returns the code of the error and the time until the answer.
fn stale_read(fault: Fault, options: &str) -> Result<(World, Option<String>, Duration)> {
    let world = World::start(1, &format!("max_staleness=0 max_lag=0 {options}"))?;
    world.prepare("CREATE TABLE t (a int)")?;
    let mut client = world.client()?;
    match fault {
        Fault::Delayed => world.cluster.delay(1, "1h")?,
        Fault::Paused => world.cluster.pause_replay(1)?,
    }
    client.query("INSERT INTO t VALUES (1)")?;
    if matches!(fault, Fault::Paused) {
        world.weir.wait_log("gets no reads")?;
    }
    let start = clock::now();
    let error = state(&mut client, &marked("SELECT count(*) FROM t", "stale"))?;
    Ok((world, error, start.elapsed()))
}

#[test]
fn rt_25_a_read_without_a_fresh_replica_falls_back_waits_or_fails() -> Result<()> {
    // Machines are busy; without load the wait ends within milliseconds.
    let slack = Duration::from_millis(500);
    for (fault, options, wait, expect) in [
        (Fault::Delayed, "read_wait=0", 0, None),
        (Fault::Delayed, "read_wait=1", 1_000, None),
        (
            Fault::Delayed,
            "read_wait=0 read_fallback=error",
            0,
            Some("57P03"),
        ),
        (
            Fault::Delayed,
            "read_wait=1 read_fallback=error",
            1_000,
            Some("57P03"),
        ),
        (Fault::Paused, "read_wait=1", 0, None),
        (
            Fault::Paused,
            "read_wait=1 read_fallback=error",
            1_000,
            Some("57P03"),
        ),
    ] {
        let (world, error, took) = stale_read(fault, options)?;
        let wait = Duration::from_millis(wait);
        ensure!(error.as_deref() == expect, "{fault:?} {options}: {error:?}");
        let is_in_time = took >= wait && took < wait + slack;
        ensure!(is_in_time, "{fault:?} {options}: {took:?}");
        ensure!(world.on_replicas("stale") == [0], "{fault:?} {options}");
        let ran = usize::from(expect.is_none());
        ensure!(world.on_primary("stale") == ran, "{fault:?} {options}");
    }
    Ok(())
}

#[test]
fn rt_25_a_read_that_waits_runs_on_a_replica_that_catches_up() -> Result<()> {
    let world = World::start(1, "max_staleness=0 max_lag=0 read_wait=30")?;
    world.prepare("CREATE TABLE t (a int)")?;
    world.cluster.delay(1, "1h")?;
    let mut client = world.client()?;
    client.query("INSERT INTO t VALUES (1)")?;
    client.send(&query(&marked("SELECT count(*) FROM t", "caught-up")))?;
    world.weir.wait_pool("shop", "cl_waiting", 1)?;
    world.cluster.delay(1, "0")?;
    let answer = client.read_until_ready()?;
    ensure!(value(&answer)? == "1");
    ensure!(world.on_replicas("caught-up") == [1]);
    Ok(())
}

#[test]
fn wrong_values_of_weirs_settings_are_refused_in_each_protocol() -> Result<()> {
    let world = World::start(1, "")?;
    let mut client = world.client()?;
    for (sql, code) in [
        ("SET weir.read_write_split = 'maybe'", "22023"),
        ("SET weir.min_lsn = '0/1A2B'", "22023"),
        ("SET weir.rolle = 'primary'", "42602"),
        ("SET weir.lsn = '1/0/0'", "55P02"),
        ("SELECT set_config('weir.role', 'standby', false)", "22023"),
    ] {
        ensure!(state(&mut client, sql)?.as_deref() == Some(code), "{sql}");
        for name in ["", "named"] {
            let batch = [
                parse(name, sql, &[]),
                bind("", name, &[]),
                execute("", 0),
                sync(),
            ];
            let answer = client.ask(&batch.concat())?;
            let error = answer.iter().find(|message| message.tag == b'E');
            let found = error.and_then(|error| error.field(b'C'));
            ensure!(found.as_deref() == Some(code), "{sql}, {name}: {found:?}");
        }
        client.query("SELECT 1")?;
    }
    // The transaction fails as with any error.
    client.query("BEGIN")?;
    ensure!(state(&mut client, "SET weir.role = 'x'")?.as_deref() == Some("22023"));
    ensure!(state(&mut client, "SELECT 1")?.as_deref() == Some("25P02"));
    client.query("ROLLBACK")?;
    client.query("SET weir.role = 'Replica'; SET weir.read_write_split = auto; RESET weir.role")?;
    Ok(())
}
