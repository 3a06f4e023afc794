//! Cases of pools whose clients wait.

use weir_stats::{Activity, PoolRow, Snapshot, WaitReason};

use crate::conditions::tests::Pair;
use crate::fixture::{application, holder, limit, pool, wait, with, with_pool};

pub(super) const CASES: &[Pair] = &[
    (
        "idle_transactions_fill_pool",
        |s| idle_transactions(s, 3),
        |s| idle_transactions(s, 2),
    ),
    (
        "long_queries_fill_pool",
        |s| long_queries(s, 48),
        |s| long_queries(s, 9),
    ),
    (
        "slow_queries_fill_pool",
        |s| crowded(s, 340_000, 2_500_000),
        |s| crowded(s, 340_000, 99_000),
    ),
    (
        "pool_too_small",
        |s| crowded(s, 5_000, 2_500_000),
        |s| crowded(s, 5_000, 99_000),
    ),
    (
        "server_limit_full",
        |s| limit_full(s, WaitReason::DatabaseLimit),
        |s| limit_full(s, WaitReason::Server),
    ),
    ("pins_fill_pool", |s| pins(s, 2), |s| pins(s, 1)),
    ("application_hogs_pool", |s| hog(s, 71), |s| hog(s, 59)),
    (
        "wait_timeouts",
        |s| with_pool(s, |row| row.totals.wait_timeouts = s / 20),
        |s| with_pool(s, |row| row.totals.wait_timeouts = 7),
    ),
];

/// Four servers are assigned, some of them in idle transactions, and clients wait for short.
fn idle_transactions(second: u64, count: u64) -> Snapshot {
    with(second, |snapshot| {
        wait(snapshot, WaitReason::PoolFull, 6);
        pool(snapshot).maxwait_us = if count > 2 { 2_500_000 } else { 50_000 };
        snapshot.holders = (0..count)
            .map(|n| holder(17 + n, Activity::InTransaction, 48 - n))
            .collect();
        snapshot.holders.push(holder(30, Activity::InQuery, 2));
        let reporting = snapshot.holders.last_mut().unwrap();
        reporting.application = "reporting".to_owned();
    })
}

fn long_queries(second: u64, seconds: u64) -> Snapshot {
    with(second, |snapshot| {
        wait(snapshot, WaitReason::PoolFull, 6);
        pool(snapshot).maxwait_us = 50_000;
        snapshot.holders = (0..3)
            .map(|n| holder(17 + n, Activity::InQuery, seconds))
            .collect();
    })
}

fn crowded(second: u64, query_us: u64, maxwait_us: u64) -> Snapshot {
    with(second, |snapshot| {
        wait(snapshot, WaitReason::PoolFull, 2);
        let row = pool(snapshot);
        row.maxwait_us = maxwait_us;
        row.totals.query_us = row.totals.queries * query_us;
    })
}

fn limit_full(second: u64, reason: WaitReason) -> Snapshot {
    with(second, |snapshot| {
        let row = pool(snapshot);
        row.counts.cl_waiting = 3;
        row.maxwait_us = 1_200_000;
        row.servers = 2;
        row.activity.waits.insert(reason, 3);
        let other = PoolRow {
            servers: 8,
            size: 20,
            ..PoolRow::default()
        };
        let key = ("shop".to_owned(), "report".to_owned());
        snapshot.pools.insert(key, other);
        snapshot
            .limits
            .push(limit("max_db_connections", "shop", 10, 10));
    })
}

fn pins(second: u64, count: u64) -> Snapshot {
    with(second, |snapshot| {
        pool(snapshot).pinned = count;
        snapshot.holders = (0..count)
            .map(|n| holder(17 + n, Activity::Pinned, 10 + n))
            .collect();
        for holder in &mut snapshot.holders {
            holder.pin = "advisory lock".to_owned();
            holder.transaction_us = 0;
        }
    })
}

/// Two applications share the servers' time, the first has this many per cent of it.
fn hog(second: u64, percent: u64) -> Snapshot {
    with(second, |snapshot| {
        wait(snapshot, WaitReason::PoolFull, 3);
        pool(snapshot).maxwait_us = if percent > 60 { 2_500_000 } else { 50_000 };
        let busy = second * 40_000;
        application(snapshot, "billing", 6).counters.transaction_us = busy * percent;
        application(snapshot, "web", 4).counters.transaction_us = busy * (100 - percent);
    })
}
