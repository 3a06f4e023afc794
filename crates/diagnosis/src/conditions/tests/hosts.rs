//! Cases of hosts: logins, names, roles.

use weir_stats::{HostRow, Snapshot, WaitReason};

use crate::conditions::tests::Pair;
use crate::fixture::{fail_logins, host, pool, with};

pub(super) const CASES: &[Pair] = &[
    (
        "server_logins_fail",
        |s| {
            failing(
                s,
                "28P01",
                "password authentication failed for user \"app\"",
            )
        },
        succeeded_since,
    ),
    (
        "server_connections_exhausted",
        |s| failing(s, "53300", "sorry, too many clients already"),
        succeeded_since,
    ),
    (
        "server_not_ready",
        |s| failing(s, "57P03", "the database system is starting up"),
        succeeded_since,
    ),
    (
        "host_unreachable",
        |s| failing(s, "", "Connection refused (os error 111)"),
        succeeded_since,
    ),
    ("dns_fails", |s| names(s, 0), |s| names(s, 1)),
    (
        "replica_lag",
        |s| replica(s, 12_000_000, (s + 1) << 20),
        // Data that is old because nothing was written since is no lag.
        |s| replica(s, 12_000_000, 0),
    ),
    (
        "two_primaries",
        |s| {
            hosts(
                s,
                &[
                    ("db1:5432", "primary", true),
                    ("db2:5432", "primary", false),
                ],
            )
        },
        |s| {
            hosts(
                s,
                &[
                    ("db1:5432", "primary", true),
                    ("db2:5432", "unknown", false),
                ],
            )
        },
    ),
    (
        "no_writer",
        |s| {
            hosts(
                s,
                &[
                    ("db1:5432", "unknown", false),
                    ("db2:5432", "replica", false),
                ],
            )
        },
        // A failover of two samples.
        |s| {
            hosts(
                s,
                &[
                    ("db1:5432", "unknown", false),
                    ("db2:5432", "primary", s % 60 > 1),
                ],
            )
        },
    ),
];

/// Logins have failed since second 5, and two clients wait for them.
fn failing(second: u64, code: &str, reason: &str) -> Snapshot {
    with(second, |snapshot| {
        fail_logins(snapshot, second, code, reason);
        pool(snapshot)
            .activity
            .waits
            .insert(WaitReason::LoginsFail, 2);
    })
}

/// Logins fail now and then, but each failure is followed by a success.
fn succeeded_since(second: u64) -> Snapshot {
    with(second, |snapshot| {
        fail_logins(snapshot, second, "28P01", "password authentication failed");
        let row = snapshot.logins.get_mut("db1:5432").unwrap();
        (row.succeeded, row.failed_since) = (second, 0);
    })
}

fn names(second: u64, addresses: usize) -> Snapshot {
    with(second, |snapshot| {
        snapshot.hosts.push(HostRow {
            name: "db1.example".to_owned(),
            ttl_seconds: 9,
            addresses: vec!["192.0.2.1".to_owned(); addresses],
        });
        snapshot.dns_pending = u64::from(second.is_multiple_of(5));
    })
}

fn replica(second: u64, lag_us: u64, lag_bytes: u64) -> Snapshot {
    with(second, |snapshot| {
        let mut row = host("db2:5432", "replica", false);
        row.lag_us = Some(lag_us);
        row.lag_bytes = Some(lag_bytes);
        snapshot.database_hosts = vec![host("db1:5432", "primary", true), row];
    })
}

fn hosts(second: u64, rows: &[(&str, &'static str, bool)]) -> Snapshot {
    with(second, |snapshot| {
        let rows = rows.iter();
        let rows = rows.map(|(name, role, takes_writes)| host(name, role, *takes_writes));
        snapshot.database_hosts = rows.collect();
    })
}
