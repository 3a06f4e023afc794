//! Cases of pools without waiting clients, and of their clients.

use weir_stats::{Activity, Blame, SizingRow, Snapshot};

use crate::conditions::tests::Pair;
use crate::fixture::{application, holder, pool, with, with_pool};

pub(super) const CASES: &[Pair] = &[
    ("pool_too_large", |s| sizing(s, 16), |s| sizing(s, 17)),
    (
        "pool_violation",
        |s| violation(s, true),
        // A snapshot may fall between two changes of the books.
        |s| violation(s, s.is_multiple_of(2)),
    ),
    ("session_pooling_idle", |s| session(s, 1), |s| session(s, 2)),
    (
        "long_transaction",
        |s| long_transaction(s, 330),
        |s| long_transaction(s, 300),
    ),
    (
        "server_churn",
        |s| with_pool(s, |row| row.totals.server_logins = s),
        |s| with_pool(s, |row| row.totals.server_logins = s / 2),
    ),
    (
        "prepared_statement_thrash",
        |s| with_pool(s, |row| row.totals.server_parses = s * 40),
        |s| with_pool(s, |row| row.totals.server_parses = s * 10),
    ),
    (
        "servers_lost",
        // Lost servers are opened again: that alone would be churn.
        |s| {
            with_pool(s, |row| {
                row.totals.servers_lost = s;
                row.totals.server_logins = s;
            })
        },
        |s| with_pool(s, |row| row.totals.servers_lost = s / 30),
    ),
    ("client_churn", |s| churn(s, 31), |s| churn(s, 10)),
    (
        "slow_reader",
        |s| slow_reader(s, 3 << 20),
        |s| slow_reader(s, 1 << 20),
    ),
    (
        "client_logins_fail",
        |s| errors(s, Blame::Pooler, "28P01", s / 5),
        |s| errors(s, Blame::Pooler, "28P01", s / 15),
    ),
    (
        "listen_overflow",
        |s| with_pool(s, |row| row.totals.listen_overflows = s / 30),
        |s| with_pool(s, |row| row.totals.listen_overflows = 3),
    ),
    (
        "read_only_errors",
        |s| errors(s, Blame::Server, "25006", s),
        |s| errors(s, Blame::Server, "25006", 9),
    ),
    ("error_storm", |s| storm(s, 20), |s| storm(s, 4)),
    (
        "serialization_errors",
        |s| errors(s, Blame::Server, "40P01", s / 30),
        |s| errors(s, Blame::Server, "40001", s / 7),
    ),
];

fn sizing(second: u64, size: u64) -> Snapshot {
    with(second, |snapshot| {
        snapshot.sizings.push(SizingRow {
            database: "shop".to_owned(),
            user: "app".to_owned(),
            mode: "advise",
            size,
            limit: 20,
            knee: Some((14, 16)),
            ..SizingRow::default()
        });
    })
}

fn violation(second: u64, is_broken: bool) -> Snapshot {
    with_pool(second, |row| {
        if is_broken {
            "3 leases of 2 servers".clone_into(&mut row.violation);
        }
        row.counts.sv_idle = 2;
    })
}

/// 20 clients in session pooling hold a server each, and some of them are in a query.
fn session(second: u64, in_query: u64) -> Snapshot {
    with_pool(second, |row| {
        row.pool_mode = "session";
        (row.size, row.servers, row.leased, row.pinned) = (20, 20, 20, 18);
        row.activity.in_query = in_query;
        row.activity.in_transaction = 1;
        row.activity.pinned = 18;
    })
}

fn long_transaction(second: u64, seconds: u64) -> Snapshot {
    with(second, |snapshot| {
        let mut row = holder(17, Activity::InTransaction, seconds);
        row.activity_us = 120_000_000;
        snapshot.holders.push(row);
    })
}

fn churn(second: u64, logins: u64) -> Snapshot {
    with(second, |snapshot| {
        pool(snapshot).totals.client_logins = second * logins;
        application(snapshot, "billing", 3).logins = second * logins;
        application(snapshot, "web", 3).logins = 3;
    })
}

fn slow_reader(second: u64, unsent: u64) -> Snapshot {
    with(second, |snapshot| {
        let mut row = holder(17, Activity::InQuery, 8);
        row.unsent = unsent;
        snapshot.holders.push(row);
    })
}

fn errors(second: u64, blame: Blame, code: &'static str, count: u64) -> Snapshot {
    with(second, |snapshot| {
        snapshot.errors.insert((blame, code), count);
    })
}

/// Two errors a second for six minutes, then this many.
fn storm(second: u64, errors_per_second: u64) -> Snapshot {
    let count = second.min(360) * 2 + second.saturating_sub(360) * errors_per_second;
    let mut snapshot = errors(second, Blame::Server, "42P01", count);
    application(&mut snapshot, "billing", 3).counters.errors = count;
    snapshot
}
