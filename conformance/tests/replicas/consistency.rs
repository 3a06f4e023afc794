//! Reads never show less than their session, or any session, has written.

use std::env;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use weir_conformance::raw::Message;
use weir_conformance::{Raw, clock, frontend, wait_until};

use super::support::{NOTICED, World, marked};

/// Largest row of the table `t`.
fn largest(client: &mut Raw, mark: &str) -> Result<u64> {
    let value = client.query_one(&marked("SELECT coalesce(max(a), 0) FROM t", mark))?;
    value.parse().context(value)
}

/// Number of inserts, each with a read behind it.
const ROUNDS: u64 = 2_000;

/// Number of rounds between those in which the session reads on until a replica may answer.
const LONG_EACH: u64 = 50;

/// Way of a client to run its statements.
#[derive(Clone, Copy, Debug)]
enum Protocol {
    Prepared,
    Simple,
}

/// Session that writes numbers and reads the largest one.
struct Session {
    client: Raw,
    protocol: Protocol,
    read: String,
}

impl Session {
    fn begin(world: &World, protocol: Protocol, mark: &str) -> Result<Self> {
        let mut client = world.client()?;
        let read = marked("SELECT coalesce(max(a), 0) FROM t", mark);
        let statements = [
            frontend::parse("write", "INSERT INTO t VALUES ($1)", &[]),
            frontend::parse("read", &read, &[]),
            frontend::sync(),
        ];
        answered(&client.ask(&statements.concat())?)?;
        Ok(Self {
            client,
            protocol,
            read,
        })
    }

    fn write(&mut self, number: u64) -> Result<()> {
        let number = number.to_string();
        let request = match self.protocol {
            Protocol::Prepared => run("write", &[number.as_str()]),
            Protocol::Simple => frontend::query(&format!("INSERT INTO t VALUES ({number})")),
        };
        answered(&self.client.ask(&request)?)?;
        Ok(())
    }

    fn read(&mut self) -> Result<u64> {
        let request = match self.protocol {
            Protocol::Prepared => run("read", &[]),
            Protocol::Simple => frontend::query(&self.read),
        };
        let value = answered(&self.client.ask(&request)?)?.context("no row")?;
        value.parse().context(value)
    }
}

/// Execution of a named statement.
fn run(name: &str, values: &[&str]) -> Vec<u8> {
    let values: Vec<_> = values.iter().map(|value| Some(value.as_bytes())).collect();
    [
        frontend::bind("", name, &values),
        frontend::execute("", 0),
        frontend::sync(),
    ]
    .concat()
}

/// First column of an answer without an error.
fn answered(messages: &[Message]) -> Result<Option<String>> {
    if let Some(error) = messages.iter().find(|message| message.tag == b'E') {
        bail!("{}", error.error());
    }
    let row = messages.iter().find(|message| message.tag == b'D');
    let row = row.map(Message::row).transpose()?;
    Ok(row.and_then(|row| row.into_iter().next().flatten()))
}

/// Number of rounds: `REPLICA_ROUNDS`, or fewer for a run that takes seconds.
fn rounds() -> Result<u64> {
    match env::var("REPLICA_ROUNDS") {
        Ok(rounds) => rounds.parse().context(rounds),
        Err(_) => Ok(ROUNDS),
    }
}

/// World with replicas that replay at once, half a second and three seconds late.
fn late(options: &str) -> Result<World> {
    let world = World::start(3, &format!("max_staleness=10 {options}"))?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    world.cluster.delay(2, "500ms")?;
    world.cluster.delay(3, "3s")?;
    Ok(world)
}

/// Reads after a write, as many as the round has. Each must show the write.
fn reads_its_own(session: &mut Session, round: u64) -> Result<()> {
    let count = if round.is_multiple_of(LONG_EACH) {
        100
    } else {
        1
    };
    for turn in 0..count {
        let seen = session.read()?;
        ensure!(seen == round, "read {turn} shows {seen} after {round}");
    }
    Ok(())
}

#[test]
fn rt_19_a_session_reads_its_own_writes() -> Result<()> {
    let world = late("read_consistency=session")?;
    let rounds = rounds()?;
    for (commit, protocol) in [
        ("on", Protocol::Simple),
        ("off", Protocol::Simple),
        ("on", Protocol::Prepared),
        ("off", Protocol::Prepared),
    ] {
        let what = format!("{commit}-{protocol:?}");
        let mut session = Session::begin(&world, protocol, &what)?;
        session
            .client
            .query(&format!("SET synchronous_commit = {commit}; TRUNCATE t"))?;
        for round in 1..=rounds {
            session.write(round)?;
            reads_its_own(&mut session, round).context(what.clone())?;
        }
        let served: usize = world.on_replicas(&what).iter().sum();
        // The WAL of an asynchronous commit is flushed later, so few of those reads go to replicas.
        let is_expected = served > 0 || commit == "off";
        ensure!(is_expected, "{what}: no read on a replica among the writes");
        for number in [1, 2, 3] {
            world.cluster.wait_until_replayed(number)?;
        }
        world.until_replica_serves(&mut session.client, &format!("calm-{what}"))?;
        let mut calm = Session::begin(&world, protocol, &format!("share-{what}"))?;
        for _ in 0..200 {
            ensure!(calm.read()? == rounds, "{what}");
        }
        let served: usize = world.on_replicas(&format!("share-{what}")).iter().sum();
        ensure!(served > 180, "{what}: {served} of 200 reads on replicas");
    }
    Ok(())
}

/// The test above would show an old read if there was one.
#[test]
fn rt_19_without_consistency_reads_are_old() -> Result<()> {
    let world = late("read_consistency=eventual")?;
    for protocol in [Protocol::Simple, Protocol::Prepared] {
        let mut session = Session::begin(&world, protocol, "eventual")?;
        session.client.query("TRUNCATE t")?;
        let mut old = 0;
        for round in 1..=100 {
            session.write(round)?;
            old += usize::from(reads_its_own(&mut session, round).is_err());
        }
        ensure!(old > 10, "{protocol:?}: {old} of 100 reads are old");
    }
    Ok(())
}

/// A batch that follows a read of the pipeline on the primary is not judged, and may write.
#[test]
fn a_write_behind_a_read_on_the_primary_is_read_by_its_session() -> Result<()> {
    let world = World::start(1, "target=any max_staleness=60")?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    // A session that has written reads from the primary at first, so each round has a session of its own.
    world.cluster.delay(1, "2s")?;
    // A replica that Weir has just found gets few reads at first.
    for round in 1.. {
        let mut session = world.client()?;
        let read = marked("SELECT 1", "first");
        let write = format!("INSERT INTO t VALUES ({round})");
        session.send(&[frontend::query(&read), frontend::query(&write)].concat())?;
        session.read_until_ready()?;
        session.read_until_ready()?;
        let seen = largest(&mut session, "second")?;
        ensure!(seen == round, "{seen} after {round}");
        session.terminate();
        if round % 40 == 0 && world.on_primary("first") > 0 && world.on_replicas("first") != [0] {
            break;
        }
        ensure!(round < 4_000, "all first reads run on one host");
    }
    Ok(())
}

#[test]
fn rt_20_a_foreign_transaction_does_not_keep_reads_from_replicas() -> Result<()> {
    let world = World::start(1, "")?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    let mut foreign = world.cluster.primary().connect("postgres")?;
    foreign.query("BEGIN; INSERT INTO t SELECT generate_series(1, 1000)")?;
    let mut client = world.client()?;
    client.query("INSERT INTO t VALUES (5000)")?;
    let start = clock::now();
    wait_until("a read on the replica", NOTICED, || {
        ensure!(largest(&mut client, "dirty")? == 5000);
        Ok(world.on_replicas("dirty") != [0])
    })?;
    ensure!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    foreign.query("ROLLBACK")?;
    Ok(())
}

#[test]
fn rt_21_under_global_each_connection_sees_all_that_was_committed_before() -> Result<()> {
    let world = World::start(2, "read_consistency=global")?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    world.cluster.delay(2, "1s")?;
    for round in 1..=ROUNDS / 4 {
        let mut writer = world.client()?;
        writer.query(&format!("INSERT INTO t VALUES ({round})"))?;
        writer.terminate();
        let mut reader = world.client()?;
        let seen = largest(&mut reader, "global")?;
        ensure!(seen == round, "{seen} after {round}");
        reader.terminate();
    }
    Ok(())
}

#[test]
fn rt_22_a_replica_that_was_killed_shows_nothing_older_than_before() -> Result<()> {
    let mut world = World::start(2, "")?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    let mut client = world.client()?;
    let mut round = 0;
    for _ in 0..5 {
        world.cluster.kill_9(1)?;
        for _ in 0..100 {
            round += 1;
            client.query(&format!("INSERT INTO t VALUES ({round})"))?;
            let seen = largest(&mut client, "killed")?;
            ensure!(seen == round, "{seen} after {round}");
        }
        world.cluster.start_host(1)?;
        for _ in 0..100 {
            let seen = largest(&mut client, "restarted")?;
            ensure!(seen == round, "{seen} after {round}");
        }
    }
    Ok(())
}
