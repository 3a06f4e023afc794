//! Hosts that say that they are the primary, beside one that is (RT-35, RT-36).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, ensure};
use weir_conformance::cluster::Shutdown;
use weir_conformance::{Cluster, Raw, frontend, wait_until};

use super::failover::{APART, Ledger, write};
use super::support::{NOTICED, World, marked};

/// Number of writes, and of reads, that look for a host that must not get one.
const TRIES: usize = 40;

/// Writes and reads, and checks that the primary has executed all writes. Marks are `mark-w` and `mark-r`.
fn use_all(world: &World, client: &mut Raw, mark: &str) -> Result<()> {
    let (writes, reads) = (format!("{mark}-w"), format!("{mark}-r"));
    for _ in 0..TRIES {
        client.query(&marked("INSERT INTO t VALUES (-1)", &writes))?;
        client.query(&marked("SELECT count(*) FROM t", &reads))?;
    }
    let on_primary = world.on_primary(&writes);
    ensure!(
        on_primary == TRIES,
        "{on_primary} of {TRIES} on the primary"
    );
    Ok(())
}

/// A copy has the system identifier and the timeline of its original, so that nothing but the order of events tells them
/// apart.
#[test]
fn rt_36_a_copy_of_the_primary_gets_no_statement() -> Result<()> {
    let mut cluster = Cluster::start(1, &["log_statement = all"])?;
    cluster.primary().query("CREATE TABLE t (a bigint)")?;
    cluster.stop(0, Shutdown::Fast)?;
    let copy = cluster.clone_of(0)?;
    cluster.start_host(0)?;
    cluster.wait_streaming(1)?;
    let mut world = World::start_before(cluster)?;
    let mut client = world.client()?;
    use_all(&world, &mut client, "alone")?;

    world.cluster.start_host(copy)?;
    world.until(copy, "state", "fenced")?;
    use_all(&world, &mut client, "beside")?;
    let host = world.cluster.host(copy);
    ensure!(host.count_statements("beside-") == 0, "{}", host.log());
    let port = host.port();
    world
        .weir
        .wait_log(&format!("host 127.0.0.1:{port} is fenced"))?;

    // Not even without the primary: its rows are those of another time.
    world.cluster.stop(0, Shutdown::Fast)?;
    world.until(0, "writes", "no")?;
    client.send(&frontend::query(&marked(
        "INSERT INTO t VALUES (-2)",
        "held",
    )))?;
    world.weir.wait_pool("shop", "cl_waiting", 1)?;
    world.cluster.start_host(0)?;
    client.read_until_ready()?;
    let counts = [0, copy].map(|number| world.cluster.host(number).count_statements("held."));
    ensure!(
        counts == [1, 0],
        "{counts:?} on the primary and on its copy"
    );
    Ok(())
}

#[test]
fn rt_36_a_host_of_another_cluster_gets_no_statement() -> Result<()> {
    let stranger = Cluster::start(0, &["log_statement = all"])?;
    stranger.primary().query("CREATE TABLE t (a bigint)")?;
    let world = World::start_with_stranger(2, stranger.primary().port())?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    world.until(2, "state", "foreign")?;
    let mut client = world.client()?;
    use_all(&world, &mut client, "own")?;
    let host = stranger.primary();
    ensure!(host.count_statements("own-") == 0, "{}", host.log());
    world.weir.wait_log("belongs to cluster")
}

/// Rows of a host.
fn rows(world: &World, number: usize) -> Result<BTreeSet<i64>> {
    let rows = world.cluster.host(number).query("SELECT a FROM t")?;
    let numbers = rows.iter().flatten().flatten();
    numbers.map(|number| Ok(number.parse()?)).collect()
}

/// Neither host knows of the other, and both accept writes from then on. Until Weir notices, writes go where they went;
/// from then on they wait, and when another host follows the promoted one they go there. So no client's write is on the
/// former primary behind one that is on the other.
#[test]
fn rt_35_of_two_writable_primaries_one_gets_writes_at_a_time() -> Result<()> {
    const WRITERS: i64 = 4;
    let mut world = World::start(2, "")?;
    world.prepare("CREATE TABLE t (a bigint)")?;
    let (is_over, port) = (AtomicBool::new(false), world.port());
    let ledgers = thread::scope(|scope| -> Result<Vec<Ledger>> {
        let is_over = &is_over;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(port, writer * APART, is_over)))
            .collect();
        let mut change = || {
            let count = "SELECT count(DISTINCT a / 1000000) FROM t";
            wait_until("rows of all writers", NOTICED, || {
                Ok(world.cluster.host(0).query_one(count)? == WRITERS.to_string())
            })?;
            world.cluster.promote(1)?;
            world.until(0, "writes", "no")?;
            ensure!(world.shows(1, "writes")? == "no", "nobody agrees with it");
            // It has received what the former primary wrote since.
            world.cluster.rejoin(2)?;
            world.until(1, "writes", "yes")?;
            world.until(0, "state", "fenced")
        };
        let changed = change();
        is_over.store(true, Ordering::Relaxed);
        let ledgers = writers
            .into_iter()
            .map(|writer| writer.join().expect("a writer does not panic"));
        let ledgers = ledgers.collect();
        changed.and(ledgers)
    })?;
    let (former, present) = (rows(&world, 0)?, rows(&world, 1)?);
    for (writer, ledger) in (0..).zip(&ledgers) {
        ensure!(ledger.errors.is_empty(), "{ledger:?}");
        let is_own = |number: &&i64| **number / APART == writer;
        let last_former = former.difference(&present).filter(is_own).max();
        let first_present = present.difference(&former).filter(is_own).min();
        ensure!(first_present.is_some(), "{writer} wrote nothing later");
        ensure!(
            last_former < first_present,
            "{writer}: {last_former:?} on the former primary, {first_present:?} on the present one"
        );
        let is_there = |number: &&i64| former.contains(number) || present.contains(number);
        let lost = ledger.acknowledged.iter().find(|it| !is_there(it));
        ensure!(lost.is_none(), "{lost:?} is nowhere");
    }
    Ok(())
}
