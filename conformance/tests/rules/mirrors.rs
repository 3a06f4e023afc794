//! Mirrors: statements that go to another database too, and whose clients notice nothing.

use std::collections::HashMap;
use std::net::TcpListener;
use std::thread;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Postgres, Raw, frontend, tools, wait_until};

use super::{World, batch, query};

/// Longest time that a test waits for something to happen.
const NOTICED: std::time::Duration = std::time::Duration::from_secs(60);

impl World {
    /// Starts Weir with a rule that mirrors a database to another one with the same tables.
    fn mirrored(name: &str, more: &str) -> Result<(Self, Raw)> {
        let next = format!("{name}_next");
        let rules = format!(
            "[[rules]]\nname = \"next\"\nmatch.database = \"{name}\"\naction = \"mirror\"\nto = \"database:{next}\"\n\
             then = \"next\"\n{more}"
        );
        let world = Self::with_rules(name, &rules)?;
        Postgres::shared()?.create_database(&next)?;
        let mut mirror = Raw::connect(world.port, &next)?;
        let mut direct = Raw::connect(world.port, name)?;
        mirror.query("create table report (id int, name text)")?;
        for side in [&mut mirror, &mut direct] {
            side.query("insert into report select i, 'name ' || i from generate_series(1, 9) i")?;
        }
        Ok((world, mirror))
    }

    fn mirror(&self) -> Result<HashMap<String, String>> {
        let mut console = self.weir.connect("pgbouncer")?;
        let rows = console.query_named("SHOW MIRRORS")?;
        rows.into_iter().next().context("no mirror")
    }

    /// Waits until the mirror has answered this many statements, and returns its row.
    fn wait_sent(&self, sent: u64) -> Result<HashMap<String, String>> {
        wait_until("the mirror to answer", NOTICED, || {
            Ok(self.mirror()?["sent"] == sent.to_string())
        })
        .with_context(|| format!("{:?}", self.mirror()))?;
        self.mirror()
    }
}

fn counts(row: &HashMap<String, String>) -> String {
    let kinds = [
        "sent",
        "same",
        "other_rows",
        "other_counts",
        "other_errors",
        "skipped",
        "failed",
        "dropped",
    ];
    kinds.map(|kind| row[kind].as_str()).join(" ")
}

#[test]
fn reads_are_mirrored_and_their_answers_compared() -> Result<()> {
    let (world, mut mirror) = World::mirrored("mirror_reads", "compare = \"rows\"")?;
    let mut client = world.weir.connect(&world.database)?;
    for request in [query, batch] {
        client.ask(&request("select * from report where id < 5 order by id"))?;
        client.ask(&request("select count(*) from report"))?;
        client.ask(&request("select 1 / 0"))?;
        client.ask(&request("select * from report where name = 'none'"))?;
    }
    let row = world.wait_sent(8)?;
    assert_eq!(counts(&row), "8 8 0 0 0 0 0 0", "{row:?}");
    // What differs is told by its kind.
    mirror.query("update report set name = 'other' where id = 2")?;
    client.query("select * from report where id < 5")?;
    let row = world.wait_sent(9)?;
    assert_eq!(counts(&row), "9 8 1 0 0 0 0 0", "{row:?}");
    assert_eq!(
        row["last_difference"],
        "other rows: select * from report where id < ?"
    );
    mirror.query("delete from report where id = 3")?;
    client.query("select name from report")?;
    let row = world.wait_sent(10)?;
    assert_eq!(
        row["last_difference"],
        "8 rows instead of 9: select name from report"
    );
    mirror.query("drop table report")?;
    client.query("select id from report")?;
    let row = world.wait_sent(11)?;
    assert_eq!(counts(&row), "11 8 1 1 1 0 0 0", "{row:?}");
    let told =
        "42P01: relation \"report\" does not exist instead of no error: select id from report";
    assert_eq!(row["last_difference"], told);
    let statements = world
        .weir
        .connect("pgbouncer")?
        .query_named("SHOW MIRROR_STATEMENTS")?;
    assert_eq!(statements[0]["sent"], "1");
    Ok(())
}

#[test]
fn a_mirror_of_reads_writes_nothing() -> Result<()> {
    let (world, mut mirror) = World::mirrored("mirror_no_writes", "")?;
    let mut direct = Raw::connect(world.port, &world.database)?;
    for side in [&mut mirror, &mut direct] {
        side.query(
            "create function adds() returns int language sql as \
             $$ insert into report values (99, 'f') returning id $$",
        )?;
    }
    let mut client = world.weir.connect(&world.database)?;
    client.query("insert into report values (10, 'ten')")?;
    client.query("select adds()")?;
    client.query("with a as (delete from report returning id) select count(*) from a")?;
    client.query("select id from report for update")?;
    client.query("select 1; select 2")?;
    client.query("begin")?;
    client.query("set local work_mem = '1MB'")?;
    client.query("select id from report")?;
    client.query("update report set name = 'x'")?;
    client.query("commit")?;
    client.query("select 1")?;
    let row = world.wait_sent(2)?;
    // All rows of the client are gone, and none of the mirror.
    assert_eq!(counts(&row), "2 1 0 1 0 6 0 0", "{row:?}");
    assert_eq!(mirror.query_one("select count(*) from report")?, "9");
    Ok(())
}

#[test]
fn a_mirror_that_may_write_gets_whole_transactions() -> Result<()> {
    let more = "writes = true\ncompare = \"rows\"";
    let (world, mut mirror) = World::mirrored("mirror_writes", more)?;
    let mut client = world.weir.connect(&world.database)?;
    let transaction = |client: &mut Raw, end: &str| -> Result<()> {
        client.query("begin")?;
        client.query("insert into report values (10, 'ten')")?;
        client.ask(&batch(
            "insert into report values (11, 'eleven') returning id",
        ))?;
        client.query(end)?;
        Ok(())
    };
    transaction(&mut client, "commit")?;
    world.wait_sent(2)?;
    assert_eq!(mirror.query_one("select count(*) from report")?, "11");
    transaction(&mut client, "rollback")?;
    let row = world.wait_sent(4)?;
    assert_eq!(counts(&row), "4 4 0 0 0 0 0 0", "{row:?}");
    // Of a transaction that went back to a savepoint, nobody knows here what is left.
    client.query("begin")?;
    client.query("insert into report values (12, 'twelve')")?;
    client.query("savepoint a")?;
    client.query("insert into report values (13, 'thirteen')")?;
    client.query("rollback to a")?;
    client.query("commit")?;
    client.query("select count(*) from report where id < 12")?;
    let row = world.wait_sent(5)?;
    assert_eq!(counts(&row), "5 5 0 0 0 2 0 0", "{row:?}");
    assert_eq!(mirror.query_one("select count(*) from report")?, "11");
    Ok(())
}

#[test]
fn statements_with_names_settings_and_users_are_those_of_the_client() -> Result<()> {
    let (world, mut mirror) = World::mirrored("mirror_sessions", "compare = \"rows\"")?;
    let mut direct = Raw::connect(world.port, &world.database)?;
    for side in [&mut mirror, &mut direct] {
        side.query("create schema other; create table other.report as select 1 as id")?;
    }
    let mut client = world.weir.connect(&world.database)?;
    client.query("set search_path = other")?;
    let mut parse = frontend::parse("s", "select id from report where id = $1", &[23]);
    parse.extend(frontend::sync());
    client.ask(&parse)?;
    for value in ["1", "2"] {
        let mut run = frontend::bind("", "s", &[Some(value.as_bytes())]);
        run.extend(frontend::execute("", 0));
        run.extend(frontend::sync());
        client.ask(&run)?;
    }
    let row = world.wait_sent(2)?;
    assert_eq!(counts(&row), "2 2 0 0 0 0 0 0", "{row:?}");
    Ok(())
}

/// Runs statements of some clients, which a mirror must not keep from being answered.
fn run(world: &World) -> Result<()> {
    const CLIENTS: usize = 4;
    const TURNS: usize = 500;
    let clients: Vec<Raw> = (0..CLIENTS)
        .map(|_| world.weir.connect(&world.database))
        .collect::<Result<_>>()?;
    let run = |mut client: Raw| -> Result<()> {
        for turn in 0..TURNS {
            let text = format!("select {turn}");
            let request = if turn % 2 == 0 {
                query(&text)
            } else {
                batch(&text)
            };
            let answer = client.ask(&request)?;
            ensure!(
                answer.iter().any(|message| message.tag == b'D'),
                "{answer:?}"
            );
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(|| run(client)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// Starts Weir with a rule that mirrors a database to a server on this port.
fn mirror_to(name: &str, port: u16) -> Result<World> {
    let rules = format!(
        "[databases.elsewhere]\nhost = \"127.0.0.1\"\nport = {port}\nuser = \"postgres\"\n\
         [[rules]]\nname = \"next\"\nmatch.database = \"{name}\"\naction = \"mirror\"\nto = \"database:elsewhere\"\n\
         connections = 2\n"
    );
    World::with_rules(name, &rules)
}

#[test]
fn rt_49_a_mirror_that_stalls_delays_nobody_and_drops_at_its_bound() -> Result<()> {
    // Connections come in, and nothing ever answers.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let world = mirror_to("mirror_stalls", silent.local_addr()?.port())?;
    run(&world)?;
    let row = world.mirror()?;
    let number = |name: &str| row[name].parse::<u64>();
    // Each lane has one transaction, and 256 that wait.
    ensure!(number("waiting")? <= 2 * 256, "{row:?}");
    ensure!(number("waiting_bytes")? <= 16 << 20, "{row:?}");
    ensure!(number("dropped")? >= 2000 - 2 * 257, "{row:?}");
    assert_eq!((&*row["sent"], &*row["failed"]), ("0", "0"), "{row:?}");
    Ok(())
}

#[test]
fn rt_49_a_mirror_that_refuses_is_counted_and_delays_nobody() -> Result<()> {
    let world = mirror_to("mirror_refuses", tools::free_port()?)?;
    run(&world)?;
    // Hardly any wakes a thread: each lane tries once a second.
    wait_until("all statements to fail or to be dropped", NOTICED, || {
        let row = world.mirror()?;
        let gone = row["failed"].parse::<u64>()? + row["dropped"].parse::<u64>()?;
        Ok(gone == 2000)
    })?;
    let row = world.mirror()?;
    assert_eq!(row["sent"], "0", "{row:?}");
    ensure!(!row["last_failure"].is_empty(), "{row:?}");
    Ok(())
}

#[test]
fn rt_49_a_mirror_whose_connections_die_goes_on() -> Result<()> {
    let (world, mut mirror) = World::mirrored("mirror_dies", "connections = 1")?;
    let mut client = world.weir.connect(&world.database)?;
    client.query("select 1")?;
    world.wait_sent(1)?;
    mirror.query(
        "select pg_terminate_backend(pid) from pg_stat_activity \
         where datname = current_database() and pid <> pg_backend_pid()",
    )?;
    // One of these may find the dead server, the others find a new one.
    let before = world.mirror()?["failed"].parse::<u64>()?;
    for _ in 0..20 {
        client.query("select 2")?;
    }
    wait_until("the mirror to go on", NOTICED, || {
        let row = world.mirror()?;
        let failed = row["failed"].parse::<u64>()? - before;
        Ok(row["sent"].parse::<u64>()? + failed == 21 && failed < 20)
    })
    .with_context(|| format!("{:?}", world.mirror()))?;
    Ok(())
}

#[test]
fn a_sample_has_whole_sessions() -> Result<()> {
    const CLIENTS: u64 = 40;
    let (world, _) = World::mirrored("mirror_sample", "sample = \"50%\"")?;
    let mut sent = 0;
    let mut whole = 0;
    for _ in 0..CLIENTS {
        let mut client = world.weir.connect(&world.database)?;
        for _ in 0..5 {
            client.query("select 1")?;
        }
        let rules = world.rules()?;
        let hits: u64 = rules[0].rsplit(' ').next().context("no hits")?.parse()?;
        ensure!(hits == sent || hits == sent + 5, "{hits} behind {sent}");
        whole += (hits - sent) / 5;
        sent = hits;
    }
    ensure!((5..=35).contains(&whole), "{whole} of {CLIENTS} sessions");
    world.wait_sent(sent)?;
    Ok(())
}

#[test]
fn a_mirror_ends_with_its_rule_and_with_the_process() -> Result<()> {
    let (world, _) = World::mirrored("mirror_ends", "")?;
    let mut client = world.weir.connect(&world.database)?;
    client.query("select 1")?;
    world.wait_sent(1)?;
    let mut console = world.weir.connect("pgbouncer")?;
    let clients = |console: &mut Raw| -> Result<usize> {
        let rows = console.query_named("SHOW CLIENTS")?;
        let of_mirror = rows.iter().filter(|row| row["addr"] == "mirror");
        Ok(of_mirror.count())
    };
    assert_eq!(clients(&mut console)?, 1);
    console.query("RULE DROP next")?;
    wait_until("the mirror's client to leave", NOTICED, || {
        Ok(clients(&mut console)? == 0)
    })?;
    ensure!(console.query_named("SHOW MIRRORS")?.is_empty());
    client.query("select 1")?;
    Ok(())
}
