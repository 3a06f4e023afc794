//! The primary goes, and another one or the same one comes: who waits, who is told what, and where writes go.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_conformance::cluster::Shutdown;
use weir_conformance::{Fault, Raw, clock, frontend, process, tools, wait_until};

use super::support::{NOTICED, World, marked, state};

/// Number of clients that write while the primary changes.
const WRITERS: i64 = 8;

/// Interval between the numbers of two writers.
pub(super) const APART: i64 = 1_000_000;

/// Outcome of one client's requests: numbers that were acknowledged, and errors by SQLSTATE.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) acknowledged: Vec<i64>,
    pub(super) errors: BTreeMap<String, usize>,
}

/// Writes rows with numbers from `first` on, each in a statement of its own, until told to stop and once more.
pub(super) fn write(port: u16, first: i64, is_over: &AtomicBool) -> Result<Ledger> {
    let mut ledger = Ledger::default();
    let mut client = Raw::connect(port, "shop")?;
    for number in first.. {
        let was_over = is_over.load(Ordering::Relaxed);
        match state(&mut client, &format!("INSERT INTO t VALUES ({number})"))? {
            None => ledger.acknowledged.push(number),
            Some(code) => {
                *ledger.errors.entry(code).or_default() += 1;
                client = Raw::connect(port, "shop")?;
            }
        }
        if was_over {
            break;
        }
        // Keeps the logs of the hosts short.
        thread::park_timeout(Duration::from_millis(2));
    }
    Ok(ledger)
}

/// Lets clients write while `change` changes the primary, until each has been served after it. Checks that each
/// acknowledged row is there once, and that only requests under way have failed, with one of `codes`.
fn under_load(
    world: &mut World,
    codes: &[&str],
    change: impl FnOnce(&mut World) -> Result<()>,
) -> Result<()> {
    world.prepare("CREATE TABLE t (a bigint)")?;
    let (is_over, port) = (AtomicBool::new(false), world.port());
    let ledgers = thread::scope(|scope| -> Result<Vec<Ledger>> {
        let is_over = &is_over;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(port, writer * APART, is_over)))
            .collect();
        let began = wait_until("rows of all writers", NOTICED, || {
            let count = "SELECT count(DISTINCT a / 1000000) FROM t";
            Ok(world.cluster.primary().query_one(count)? == WRITERS.to_string())
        });
        let changed = began.and_then(|()| change(world));
        is_over.store(true, Ordering::Relaxed);
        let ledgers = writers.into_iter().map(|writer| {
            let ledger = writer.join();
            ledger.expect("a writer does not panic")
        });
        let ledgers = ledgers.collect();
        changed.and(ledgers)
    })?;
    let rows = world.cluster.primary().query("SELECT a FROM t")?;
    let found: Vec<i64> = rows
        .iter()
        .flatten()
        .flatten()
        .map(|number| Ok(number.parse()?))
        .collect::<Result<_>>()?;
    let distinct: BTreeSet<i64> = found.iter().copied().collect();
    ensure!(distinct.len() == found.len(), "a row is there twice");
    for ledger in &ledgers {
        let lost = ledger.acknowledged.iter();
        let lost: Vec<_> = lost.filter(|number| !distinct.contains(number)).collect();
        ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let is_known = |code: &String| codes.contains(&&**code);
        let log = || world.weir.log();
        ensure!(ledger.errors.keys().all(is_known), "{ledger:?}\n{}", log());
    }
    // A server that ends meets one request at most. A client that comes back at once may get another one that is about to end.
    let errors: usize = ledgers
        .iter()
        .flat_map(|ledger| ledger.errors.values())
        .sum();
    let log = world.weir.log();
    // A client that has read why its server ends may leave before the server does.
    const LOST: [&str; 2] = ["server c", "client disconnect before everything"];
    let is_lost = |line: &&str| {
        let (_, reason) = line.split_once(" closing because: ").unwrap_or_default();
        line.contains(" S-0x") && LOST.iter().any(|lost| reason.starts_with(lost))
    };
    let lost = log.lines().filter(is_lost).count();
    ensure!(
        errors <= lost,
        "{errors} errors, {lost} servers lost: {ledgers:?}\n{log}"
    );
    Ok(())
}

#[test]
fn rt_32_only_requests_under_way_fail_and_rt_38_no_server_of_the_former_primary_is_used()
-> Result<()> {
    let mut world = World::start(2, "")?;
    under_load(&mut world, &["57P01", "08007"], |world| {
        world.cluster.stop(0, Shutdown::Fast)?;
        world.cluster.promote(1)?;
        world.cluster.follow(2)
    })?;
    // It comes back as a replica.
    world.cluster.start_host(0)?;
    world.cluster.rejoin(0)?;
    world.until(0, "role", "replica")?;
    let mut client = world.client()?;
    for _ in 0..40 {
        client.query(&marked("INSERT INTO t VALUES (-1)", "later"))?;
    }
    let on_primary = world.on_primary("later");
    ensure!(on_primary == 40, "{on_primary} of 40 on the primary");
    Ok(())
}

#[test]
fn a_switchover_with_paused_writes_fails_no_request() -> Result<()> {
    let mut world = World::start(2, "")?;
    let mut console = Raw::connect(world.port(), "pgbouncer")?;
    under_load(&mut world, &[], |world| {
        let mut reader = world.client()?;
        console.query("PAUSE WRITES shop")?;
        // No server of the primary is in use, and reads go on.
        reader.query("SELECT count(*) FROM t")?;
        world.cluster.stop(0, Shutdown::Fast)?;
        reader.query("SELECT count(*) FROM t")?;
        world.cluster.promote(1)
    })?;
    let over = state(&mut console, "RESUME shop")?;
    ensure!(over.as_deref() == Some("08P01"), "still paused: {over:?}");
    let again = state(&mut console, "PAUSE WRITES nobody")?;
    ensure!(again.as_deref() == Some("08P01"), "{again:?}");
    console.query("PAUSE WRITES shop")?;
    console.query("RESUME shop")?;
    world.client()?.query("INSERT INTO t VALUES (-1)")?;
    Ok(())
}

#[test]
fn rt_34_a_primary_that_restarts_in_recovery_shows_nobody_that_it_takes_no_writes() -> Result<()> {
    let mut world = World::start(1, "")?;
    under_load(&mut world, &["57P02", "08007"], |world| {
        world.cluster.restart_in_recovery(0)?;
        // The writes of everybody wait.
        let mut newcomer = world.client()?;
        newcomer.send(&frontend::query("INSERT INTO t VALUES (-1)"))?;
        world.until(0, "writes", "no")?;
        world.cluster.promote(0)?;
        let answer = newcomer.read_until_ready()?;
        let is_done = answer.iter().any(|message| message.tag == b'C');
        ensure!(
            is_done,
            "{:?}",
            answer.iter().map(|it| it.tag).collect::<Vec<_>>()
        );
        Ok(())
    })
}

/// The primary goes with its machine: nothing says goodbye.
#[test]
fn rt_33_clients_that_waited_for_a_new_primary_are_served_in_the_order_in_which_they_came()
-> Result<()> {
    const CLIENTS: i64 = 30;
    let mut world = World::start_for_many(2, 1)?;
    world.prepare("CREATE TABLE t (id bigserial, a bigint)")?;
    world.client()?.query("INSERT INTO t (a) VALUES (-1)")?;
    world.cluster.kill_9(0)?;
    let clients = (0..CLIENTS).map(|number| -> Result<Raw> {
        let mut client = world.client()?;
        let insert = format!("INSERT INTO t (a) VALUES ({number})");
        client.send(&frontend::query(&insert))?;
        world.weir.wait_pool("shop", "cl_waiting", number + 1)?;
        Ok(client)
    });
    let mut clients = clients.collect::<Result<Vec<_>>>()?;
    world.cluster.promote(1)?;
    for client in &mut clients {
        client.read_until_ready()?;
    }
    let order = "SELECT abs(a - row_number() OVER (ORDER BY id) + 1) FROM t WHERE a >= 0";
    let most = format!("SELECT max(abs) FROM ({order}) AS moved");
    let most = world.cluster.primary().query_one(&most)?;
    // Of two that came within a turn of an event loop, at two workers, either may be served first.
    ensure!(most.parse::<i64>()? <= 2, "moved by {most} places");
    Ok(())
}

/// The primary has carried it out, and its answer gets lost.
#[test]
fn rt_39_a_commit_whose_answer_is_lost_is_not_repeated_and_its_outcome_is_unknown() -> Result<()> {
    let world = World::start_with_path_to_primary(1, "")?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    for (number, mark, before, last) in [
        (1, "block", "BEGIN; INSERT INTO t VALUES (1)", "COMMIT"),
        (2, "alone", "SELECT 1", "INSERT INTO t VALUES (2)"),
    ] {
        let mut client = world.client()?;
        client.query(before)?;
        world.path(0)?.set(Fault::Mute)?;
        client.send(&frontend::query(&marked(last, mark)))?;
        let count = format!("SELECT count(*) FROM t WHERE a = {number}");
        let count = || world.cluster.primary().query_one(&count);
        wait_until("the commit", NOTICED, || Ok(count()? == "1"))?;
        world.path(0)?.set(Fault::Reset)?;
        let words = client.read_until_ready()?;
        let told = words.iter().find_map(|message| message.field(b'C'));
        ensure!(told.as_deref() == Some("08007"), "{mark}: {told:?}");
        world.path(0)?.set(Fault::None)?;
        // Whoever would repeat it could do so now. Without this wait, the second loss within `min_time_between_holds` would
        // fail the request.
        world.until(0, "writes", "yes")?;
        world.client()?.query("INSERT INTO t VALUES (0)")?;
        ensure!(count()? == "1", "{mark}: {} rows", count()?);
        let runs = world.on_primary(mark);
        ensure!(runs == 1, "{mark} ran {runs} times");
    }
    Ok(())
}

#[test]
fn rt_40_a_transaction_is_lost_with_the_primary_and_rt_43_logins_are_greeted_without_one()
-> Result<()> {
    let mut world = World::start(2, "")?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    let mut client = world.client()?;
    client.query("BEGIN")?;
    client.query("INSERT INTO t VALUES (1)")?;
    world.cluster.stop(0, Shutdown::Fast)?;
    let told = state(&mut client, "INSERT INTO t VALUES (2)")?;
    let told = told.context("the transaction goes on")?;
    ensure!(["57P01", "08006"].contains(&&*told), "{told}");
    // No host takes writes.
    let mut next = world.client()?;
    world.cluster.promote(1)?;
    next.query("INSERT INTO t VALUES (3)")?;
    let rows = world
        .cluster
        .primary()
        .query_one("SELECT string_agg(a::text, ' ') FROM t")?;
    ensure!(rows == "3", "{rows}");
    Ok(())
}

#[test]
fn rt_41_writes_fail_after_failover_hold_and_reads_go_on() -> Result<()> {
    let mut world = World::start(
        1,
        "failover_hold=1 read_consistency=eventual max_staleness=600",
    )?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    let (mut client, mut reader) = (world.client()?, world.client()?);
    world.cluster.stop(0, Shutdown::Fast)?;
    world.until(0, "writes", "no")?;
    let told = state(&mut client, "INSERT INTO t VALUES (1)")?;
    ensure!(told.as_deref() == Some("57P03"), "{told:?}");
    ensure!(reader.query_one("SELECT count(*) FROM t")? == "0");
    Ok(())
}

#[test]
fn rt_44_a_primary_whose_transactions_only_read_is_no_failover() -> Result<()> {
    let world = World::start(1, "")?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    world
        .cluster
        .set(0, "default_transaction_read_only", "on")?;
    let mut client = world.client()?;
    let refused = wait_until("the setting", NOTICED, || {
        Ok(state(&mut client, "INSERT INTO t VALUES (1)")?.as_deref() == Some("25006"))
    });
    refused?;
    ensure!(world.shows(0, "writes")? == "yes");
    ensure!(world.shows(0, "state")? == "up");
    Ok(())
}

/// Value of an environment variable, or the default.
fn number(variable: &str, default: usize) -> usize {
    let text = env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// By hand: HELD=10000 HOLD=30, with a higher `ulimit -Hn`.
#[test]
fn rt_42_clients_that_waited_for_a_new_primary_are_all_served_by_it() -> Result<()> {
    const POOL: usize = 20;
    let (held, seconds) = (number("HELD", 200), number("HOLD", 1));
    tools::require_open_files(held as u64 + 1_000)?;
    let mut world = World::start_for_many(2, POOL)?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    let clients = (0..held).map(|_| world.client());
    let mut clients: Vec<Raw> = clients.collect::<Result<_>>()?;
    let first = clients.first_mut().context("no client")?;
    first.query("INSERT INTO t VALUES (-1)")?;
    let idle = process::rss(world.weir.pid())?;
    world.cluster.stop(0, Shutdown::Immediate)?;
    for (client, number) in clients.iter_mut().zip(0..) {
        let insert = format!("INSERT INTO t VALUES ({number})");
        client.send(&frontend::query(&insert))?;
    }
    let waiting = i64::try_from(held)?;
    world.weir.wait_pool("shop", "cl_waiting", waiting)?;
    thread::park_timeout(Duration::from_secs(seconds as u64));
    let waited = process::rss(world.weir.pid())?;
    let logins = world.weir.log().matches("new connection to server").count();
    let promoted = clock::now();
    world.cluster.promote(1)?;
    let mut first = None;
    for client in &mut clients {
        let answer = client.read_until_ready()?;
        let error = answer.iter().find(|message| message.tag == b'E');
        ensure!(error.is_none(), "{error:?}");
        first.get_or_insert_with(clock::now);
    }
    let last = clock::now();
    let first = first.context("no client")?;
    println!(
        "{held} clients waited {seconds} s: {} KiB more for all, the first answer {:?} after the promotion, the last {:?} later",
        waited.saturating_sub(idle) / 1024,
        first.duration_since(promoted),
        last.duration_since(first),
    );
    let rows = world
        .cluster
        .primary()
        .query_one("SELECT count(DISTINCT a) FROM t WHERE a >= 0")?;
    ensure!(rows == held.to_string(), "{rows} rows of {held}");
    let all = world.weir.log().matches("new connection to server").count();
    // Of the pool at the new primary; a few may have met the promotion.
    ensure!(all - logins <= 2 * POOL, "{} logins", all - logins);
    Ok(())
}
