//! Measures the time that `Watch::observe` takes: `cargo run --release -p weir-diagnosis --example observe_cost`.

use std::time::{Duration, Instant};

use weir_diagnosis::Watch;
use weir_stats::{Activity, HolderRow, PoolRow, Snapshot, Times, WaitReason, WorkerRow};

/// Samples of a measurement.
const SAMPLES: u64 = 4_000;

#[expect(clippy::print_stdout, reason = "the output of an example")]
fn main() {
    for (pools, share_waiting) in [(10, 0), (200, 0), (200, 4), (10_000, 0)] {
        let samples = if pools > 1_000 { 200 } else { SAMPLES };
        let mut watch = Watch::new();
        let mut times = Vec::new();
        let mut snapshot = snapshot(pools, share_waiting);
        for second in 0..samples {
            advance(&mut snapshot, second);
            times.push(observe(&mut watch, &snapshot));
        }
        times.sort_unstable();
        // The median: on a busy machine, others take the processor away from the slowest samples.
        let [p10, p50, p90] = [10, 50, 90].map(|share| {
            let time = times.get(times.len() * share / 100);
            time.copied().unwrap_or_default()
        });
        println!(
            "{pools} pools, {} conditions: p10 {p10:?}, median {p50:?}, p90 {p90:?}",
            watch.conditions().len()
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "measures")]
fn observe(watch: &mut Watch, snapshot: &Snapshot) -> Duration {
    let start = Instant::now();
    std::hint::black_box(watch.observe(snapshot));
    start.elapsed()
}

/// Snapshot with histograms, applications and holders; each `share_waiting`-th pool has waiting clients.
fn snapshot(pools: usize, share_waiting: usize) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for number in 0..pools {
        let (database, user) = (format!("database{number}"), "application".to_owned());
        let mut row = PoolRow {
            pool_mode: "transaction",
            size: 20,
            servers: 20,
            leased: 20,
            clients: 100,
            times: Some(Box::default()),
            ..PoolRow::default()
        };
        if share_waiting > 0 && number.is_multiple_of(share_waiting) {
            row.counts.cl_waiting = 5;
            row.maxwait_us = 3_000_000;
            row.activity.waits.insert(WaitReason::PoolFull, 5);
            snapshot.holders.extend((0..15).map(|client| HolderRow {
                client,
                server: client,
                backend_pid: 1,
                database: database.clone(),
                user: user.clone(),
                application: "billing".to_owned(),
                activity: Activity::InTransaction,
                activity_us: 48_000_000,
                transaction_us: 48_000_000,
                pin: String::new(),
                unsent: 0,
            }));
        }
        let key = (database.clone(), user.clone(), "billing".to_owned());
        snapshot.applications.entry(key).or_default().clients = 100;
        snapshot.pools.insert((database, user), row);
    }
    snapshot.workers = (0..4)
        .map(|worker| WorkerRow {
            worker,
            ..WorkerRow::default()
        })
        .collect();
    snapshot
}

/// Moves the counters on by a second.
fn advance(snapshot: &mut Snapshot, second: u64) {
    snapshot.unix = 1_795_000_000 + i64::try_from(second).unwrap_or_default();
    for (number, row) in snapshot.pools.values_mut().enumerate() {
        let rate = 100 + number as u64 % 7;
        row.totals.transactions += rate;
        row.totals.queries += rate * 3;
        row.totals.query_us += rate * 3_000;
        row.totals.bytes_sent += rate * 400;
        let times = row.times.get_or_insert_with(Box::<Times>::default);
        times.query.record_many(1_000 + second % 100, rate);
        times.wait.record_many(10 + second % 10, rate);
    }
}
