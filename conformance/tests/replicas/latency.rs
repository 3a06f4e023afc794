//! Latencies beside a fault, measured by hand (`REPLICA_SAMPLES`): without it a short run shows that all statements succeed.

#![allow(
    clippy::print_stdout,
    reason = "the figures are for whoever runs the tests"
)]

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_conformance::{Fault, Raw, clock};

use super::support::{Reads, World, marked};

/// Number of statements of each kind, in each state, without `REPLICA_SAMPLES`.
const SAMPLES: usize = 50;

fn samples() -> Result<usize> {
    match env::var("REPLICA_SAMPLES") {
        Ok(samples) => samples.parse().context(samples),
        Err(_) => Ok(SAMPLES),
    }
}

/// Times of a statement, shortest first.
fn times(client: &mut Raw, sql: &str, count: usize) -> Result<Vec<Duration>> {
    let time = |_| {
        let start = clock::now();
        client.query(sql)?;
        let elapsed = start.elapsed();
        // Keeps the logs of the hosts short: they hold every statement.
        thread::park_timeout(Duration::from_millis(1));
        Ok(elapsed)
    };
    let mut times = (0..count).map(time).collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times)
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let last = times.len().saturating_sub(1);
    times.get(last * percent / 100).copied().unwrap_or_default()
}

/// Prints the median and the p99 of reads and of writes in a state of the hosts.
fn print(world: &World, state: &str) -> Result<()> {
    let count = samples()?;
    let mut client = world.client()?;
    let read = marked("SELECT count(*) FROM t WHERE a < 0", state);
    for (kind, sql) in [("reads", &*read), ("writes", "INSERT INTO t VALUES (1)")] {
        let times = times(&mut client, sql, count)?;
        let [p50, p99] = [50, 99].map(|percent| percentile(&times, percent));
        println!("{state}: {kind} p50 {p50:.1?} p99 {p99:.1?}");
    }
    client.terminate();
    Ok(())
}

#[test]
fn rt_30_other_statements_keep_their_times_beside_a_fault() -> Result<()> {
    let world = World::start_with_paths(2, "read_consistency=eventual")?;
    world.prepare("CREATE TABLE t (a int)")?;
    print(&world, "no fault")?;
    for fault in [Fault::Refuse, Fault::Reset, Fault::Hang] {
        world.path(1)?.set(fault)?;
        world.until_reads(1, Reads::None)?;
        print(&world, &format!("{fault:?}"))?;
        world.path(1)?.set(Fault::None)?;
        world.until_reads(1, Reads::Some)?;
        print(&world, &format!("after {fault:?}"))?;
    }
    Ok(())
}

/// Counts reads on the primary in each interval while the only replica comes and goes.
#[test]
fn rt_31_a_replica_that_flaps_loads_the_primary_with_its_reads_and_no_more() -> Result<()> {
    let rounds = if samples()? > SAMPLES { 6 } else { 2 };
    let world = World::start_with_paths(1, "read_consistency=eventual")?;
    world.prepare("CREATE TABLE t (a int)")?;
    print(&world, "steady")?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<Vec<Duration>> {
            let (mut client, mut all) = (world.client()?, Vec::new());
            while !is_over.load(Ordering::Relaxed) {
                all.extend(times(&mut client, &marked("SELECT 7", "flap"), 1)?);
            }
            Ok(all)
        });
        let flap = || -> Result<()> {
            for round in 0..rounds {
                for (fault, reads) in [(Fault::Refuse, Reads::None), (Fault::None, Reads::Some)] {
                    let before = (world.on_primary("flap"), world.on_replicas("flap"));
                    world.path(1)?.set(fault)?;
                    let mut writer = world.client()?;
                    let sql = marked("INSERT INTO t VALUES (1)", "write");
                    let writes = times(&mut writer, &sql, samples()?)?;
                    world.until_reads(1, reads)?;
                    let after = (world.on_primary("flap"), world.on_replicas("flap"));
                    let p99 = percentile(&writes, 99);
                    let on_primary = after.0 - before.0;
                    let on_replica = after.1.first().copied().unwrap_or_default()
                        - before.1.first().copied().unwrap_or_default();
                    println!(
                        "round {round}, {fault:?}: {on_primary} reads on the primary, {on_replica} on the replica; writes p99 {p99:.1?}"
                    );
                }
            }
            Ok(())
        };
        let outcome = flap();
        is_over.store(true, Ordering::Relaxed);
        let reads = reader.join().expect("the reader does not panic");
        outcome?;
        ensure!(!reads?.is_empty(), "no read ran");
        Ok(())
    })
}
