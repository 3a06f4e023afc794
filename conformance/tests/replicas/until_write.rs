//! `split_begin = until-write`: a block begins on a replica and goes to the primary with its first write.

use anyhow::{Result, ensure};
use weir_conformance::frontend::{bind, describe, execute, parse, query, sync};
use weir_conformance::random::Random;
use weir_conformance::raw::Message;
use weir_conformance::wait_until;

use super::support::{NOTICED, World, marked};

fn world(replicas: usize) -> Result<World> {
    let world = World::start(replicas, "split_begin=until-write")?;
    // The isolation of the roles is known with the first look at the catalogue.
    let mut client = world.client()?;
    wait_until("a block on a replica", NOTICED, || {
        for text in ["BEGIN", &marked("SELECT 1", "begun"), "COMMIT"] {
            client.query(text)?;
        }
        Ok(world.on_replicas("begun").iter().sum::<usize>() > 0)
    })?;
    client.terminate();
    Ok(world)
}

/// Number of statements with this mark on (the primary, all replicas).
fn served(world: &World, mark: &str) -> (usize, usize) {
    (world.on_primary(mark), world.on_replicas(mark).iter().sum())
}

/// Types and details of messages that matter here: rows, tags, errors, and the state of the transaction.
fn outline(messages: &[Message]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for message in messages {
        match message.tag {
            b'D' => lines.push(format!("{:?}", message.row()?)),
            b'C' => lines.push(String::from_utf8_lossy(&message.body).into_owned()),
            b'E' => lines.push(message.field(b'C').unwrap_or_default()),
            b'Z' => lines.push(format!("Z {}", message.body.first().copied().unwrap_or(0))),
            _ => {}
        }
    }
    Ok(lines)
}

#[test]
fn a_block_reads_from_a_replica_until_its_first_write() -> Result<()> {
    let world = world(1)?;
    world.prepare("CREATE TABLE t (a int)")?;
    let mut client = world.client()?;
    for (round, end) in ["COMMIT", "ROLLBACK"].into_iter().enumerate() {
        // The last round's write keeps the session on the primary until the replica shows it.
        let mut client = world.client()?;
        let mark = |what: &str| format!("{what}-{round}");
        client.query("BEGIN")?;
        client.query(&marked("SELECT count(*) FROM t", &mark("read")))?;
        client.query(&marked("INSERT INTO t VALUES (1)", &mark("write")))?;
        let seen = client.query_one(&marked("SELECT count(*) FROM t", &mark("behind")))?;
        ensure!(seen == (round + 1).to_string(), "{seen} rows");
        client.query(end)?;
        ensure!(served(&world, &mark("read")) == (0, 1));
        ensure!(served(&world, &mark("write")) == (1, 0));
        ensure!(served(&world, &mark("behind")) == (1, 0));
        let rows = client.query_one("SELECT count(*) FROM t")?;
        ensure!(rows == "1", "{end}: {rows} rows");
    }
    // Nothing is left open on the replica, and its servers are used again.
    let open = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    wait_until("the end of the block on the replica", NOTICED, || {
        Ok(world.cluster.replica(1).query_one(open)? == "0")
    })?;
    client.query("SELECT 1")?;
    Ok(())
}

#[test]
fn a_block_in_one_batch_with_its_first_statement_goes_too() -> Result<()> {
    let world = world(1)?;
    world.prepare("CREATE TABLE t (a int)")?;
    let mut client = world.client()?;
    // As JDBC drivers do.
    let step = |sql: &str| {
        [
            parse("", sql, &[]),
            bind("", "", &[]),
            describe(b'P', ""),
            execute("", 0),
        ]
        .concat()
    };
    let read = marked("SELECT count(*) FROM t", "read");
    let first = [step("BEGIN"), step(&read), sync()].concat();
    ensure!(outline(&client.ask(&first)?)?.last() == Some(&"Z 84".to_owned()));
    ensure!(served(&world, "read") == (0, 1));
    let insert = [step("INSERT INTO t VALUES (1)"), sync()].concat();
    ensure!(outline(&client.ask(&insert)?)?.last() == Some(&"Z 84".to_owned()));
    let end = [step("COMMIT"), sync()].concat();
    ensure!(outline(&client.ask(&end)?)?.last() == Some(&"Z 73".to_owned()));
    ensure!(client.query_one("SELECT count(*) FROM t")? == "1");
    // A cursor that reads in parts keeps its host, so it begins on the primary.
    let parts = [
        step("BEGIN"),
        parse("", &marked("SELECT generate_series(1, 6)", "parts"), &[]),
        bind("", "", &[]),
        execute("", 2),
        sync(),
    ];
    client.ask(&parts.concat())?;
    ensure!(served(&world, "parts") == (1, 0));
    client.query("ROLLBACK")?;
    Ok(())
}

#[test]
fn what_a_replica_refuses_in_a_block_runs_on_the_primary() -> Result<()> {
    let world = world(1)?;
    world.prepare(
        "CREATE TABLE calls (a int);
         CREATE FUNCTION hidden() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO calls VALUES (1); RETURN 42; END';
         CREATE FUNCTION sly() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN hidden(); END'",
    )?;
    // Weir has to know the function first.
    let mut client = world.client()?;
    let mut round = 0;
    wait_until(
        "a refusal by the replica",
        NOTICED.saturating_mul(9),
        || {
            round += 1;
            let mark = format!("sly-{round}");
            client.query("BEGIN")?;
            client.query("SELECT 1")?;
            // A text of its own each time: refused ones are learnt.
            ensure!(client.query_one(&marked("SELECT sly()", &mark))? == "42");
            client.query("INSERT INTO calls VALUES (2)")?;
            client.query("COMMIT")?;
            Ok(world.on_replicas(&mark) == [1])
        },
    )?;
    let calls = world
        .cluster
        .primary()
        .query_one("SELECT count(*) FROM calls")?;
    ensure!(
        calls == (2 * round).to_string(),
        "{calls} calls in {round} rounds"
    );
    // In one batch with the BEGIN, too.
    let batch = |mark: &str| {
        let sql = marked("SELECT sly()", mark);
        let step = |sql: &str| [parse("", sql, &[]), bind("", "", &[]), execute("", 0)].concat();
        [step("BEGIN"), step(&sql), sync()].concat()
    };
    wait_until("a refusal of a batch", NOTICED, || {
        round += 1;
        let mark = format!("batch-{round}");
        let said = outline(&client.ask(&batch(&mark))?)?;
        ensure!(said.last() == Some(&"Z 84".to_owned()), "{said:?}");
        client.query("COMMIT")?;
        Ok(world.on_replicas(&mark) == [1])
    })
}

#[test]
fn only_read_committed_blocks_begin_on_a_replica() -> Result<()> {
    let world = world(1)?;
    world.prepare("CREATE ROLE strict LOGIN SUPERUSER")?;
    let mut client = world.client()?;
    for (number, begin) in [
        "BEGIN ISOLATION LEVEL REPEATABLE READ",
        "SET default_transaction_isolation = 'repeatable read'; BEGIN",
        "BEGIN READ WRITE",
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = world.client()?;
        for text in begin.split("; ") {
            client.query(text)?;
        }
        world.runs_on_primary(&mut client, "SELECT 1", &format!("strict-{number}"))?;
        client.query("COMMIT")?;
    }
    client.query("BEGIN ISOLATION LEVEL READ COMMITTED")?;
    client.query(&marked("SELECT 1", "loose"))?;
    client.query("COMMIT")?;
    ensure!(served(&world, "loose") == (0, 1));
    // A role with another default ends it for the database.
    world.prepare("ALTER ROLE strict SET default_transaction_isolation = 'repeatable read'")?;
    let mut round = 0;
    wait_until("blocks on the primary", NOTICED.saturating_mul(9), || {
        round += 1;
        let mark = format!("role-{round}");
        client.query("BEGIN")?;
        client.query(&marked("SELECT 1", &mark))?;
        client.query("COMMIT")?;
        Ok(served(&world, &mark) == (1, 0))
    })
}

#[test]
fn settings_outlive_a_rollback_of_a_block_that_has_moved() -> Result<()> {
    let world = world(1)?;
    world.prepare("CREATE TABLE t (a int)")?;
    let mut clients = [world.client()?, world.client()?];
    for (number, client) in clients.iter_mut().enumerate() {
        client.query(&format!("SET work_mem = '{}MB'", number + 7))?;
    }
    for round in 0..20 {
        let number = round % 2;
        let client = &mut clients[number];
        client.query("BEGIN")?;
        client.query("SELECT 1")?;
        client.query("INSERT INTO t VALUES (1)")?;
        client.query("ROLLBACK")?;
        let value = client.query_one("SELECT current_setting('work_mem')")?;
        ensure!(
            value == format!("{}MB", number + 7),
            "{value} in round {round}"
        );
    }
    Ok(())
}

/// Steps of random blocks.
const STEPS: [&str; 22] = [
    "BEGIN",
    "BEGIN",
    "BEGIN",
    "START TRANSACTION",
    "COMMIT",
    "COMMIT",
    "ROLLBACK",
    "END",
    "SELECT count(*) FROM t",
    "SELECT coalesce(max(a), 0) FROM t",
    "SELECT a FROM t ORDER BY a",
    "SELECT 1/0",
    "INSERT INTO t VALUES (7)",
    "INSERT INTO t SELECT count(*) FROM t",
    "DELETE FROM t WHERE a > 5",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "SET LOCAL work_mem = '9MB'",
    "SELECT current_setting('work_mem')",
    "DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a",
    "FETCH 1 FROM c",
    "SELECT nothing FROM t",
];

/// Number of random sessions.
const SESSIONS: u64 = 25;

#[test]
fn random_blocks_answer_as_on_one_server() -> Result<()> {
    let world = world(2)?;
    world.prepare("CREATE TABLE t (a int)")?;
    world.prepare("CREATE DATABASE plain")?;
    let direct = world.cluster.primary();
    let mut plain = direct.connect("plain")?;
    plain.query("CREATE TABLE t (a int)")?;
    for seed in 0..SESSIONS {
        let mut random = Random::new(seed);
        plain.query("TRUNCATE t")?;
        world.prepare("TRUNCATE t")?;
        let (mut one, mut other) = (direct.connect("plain")?, world.client()?);
        let mut program = Vec::new();
        for _ in 0..30 {
            // Sometimes several statements without waiting.
            let count = 1 + random.below(3);
            let texts: Vec<&str> = (0..count)
                .map(|_| STEPS[random.below(STEPS.len())])
                .collect();
            program.push(texts.join(" | "));
            let extended = random.below(2) == 0;
            let bytes: Vec<u8> = texts.iter().flat_map(|sql| sent(sql, extended)).collect();
            one.send(&bytes)?;
            other.send(&bytes)?;
            for _ in &texts {
                let expected = outline(&one.read_until_ready()?)?;
                let heard = outline(&other.read_until_ready()?)?;
                ensure!(
                    expected == heard,
                    "seed {seed}: {heard:?} instead of {expected:?} after {program:#?}"
                );
            }
        }
        one.terminate();
        other.terminate();
    }
    Ok(())
}

fn sent(sql: &str, extended: bool) -> Vec<u8> {
    match extended {
        false => query(sql),
        true => [
            parse("", sql, &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ]
        .concat(),
    }
}

#[test]
fn a_session_that_has_written_reads_its_rows_in_its_next_block() -> Result<()> {
    let world = world(1)?;
    world.prepare("CREATE TABLE t (a int)")?;
    world.cluster.delay(1, "1s")?;
    let mut client = world.client()?;
    for round in 1..=200 {
        client.query("BEGIN")?;
        client.query("SELECT 1")?;
        client.query("INSERT INTO t VALUES (1)")?;
        client.query("COMMIT")?;
        client.query("BEGIN")?;
        let seen = client.query_one("SELECT count(*) FROM t")?;
        client.query("COMMIT")?;
        ensure!(seen == round.to_string(), "{seen} rows after {round}");
    }
    Ok(())
}
