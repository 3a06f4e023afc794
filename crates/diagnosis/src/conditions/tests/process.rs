//! Cases of limits, workers, and the state of the process.

use weir_stats::{Activity, Draining, FailedReload, Snapshot, TlsRow};

use crate::conditions::tests::Pair;
use crate::fixture::{START, application, holder, limit, with, with_pool};

pub(super) const CASES: &[Pair] = &[
    ("client_limit_near", |s| clients(s, 95), |s| clients(s, 90)),
    (
        "pool_limit_near",
        |s| {
            with(s, |all| {
                all.limits.push(limit("max_pools", "", 9_500, 10_000))
            })
        },
        |s| {
            with(s, |all| {
                all.limits.push(limit("max_pools", "", 9_000, 10_000))
            })
        },
    ),
    (
        "file_descriptors_near",
        |s| with(s, |all| all.process.open_files = 900),
        |s| with(s, |all| all.process.open_files = 800),
    ),
    ("memory_near_limit", |s| memory(s, 900), |s| memory(s, 800)),
    (
        "worker_full",
        |s| loads(s, [950_000, 200_000]),
        |s| loads(s, [950_000, 600_000]),
    ),
    (
        "workers_full",
        |s| loads(s, [950_000, 930_000]),
        |s| loads(s, [950_000, 890_000]),
    ),
    (
        "worker_stalled",
        |s| with(s, |all| all.workers[1].turn_max_us = 240_000),
        |s| with(s, |all| all.workers[1].turn_max_us = 100_000),
    ),
    (
        "cpu_throttled",
        |s| with(s, |all| all.process.throttled = s),
        |s| with(s, |all| all.process.throttled = s / 3),
    ),
    (
        "broken_lookups",
        |s| with(s, |all| all.broken_lookups = s / 50),
        |s| with(s, |all| all.broken_lookups = 9),
    ),
    (
        "certificate_ends",
        |s| certificate(s, 2),
        |s| certificate(s, 14),
    ),
    (
        "cancels_pile_up",
        |s| with_pool(s, |row| row.counts.cl_waiting_cancel_req = 2),
        |s| with_pool(s, |row| row.counts.cl_waiting_cancel_req = s % 2),
    ),
    (
        "halt_forgotten",
        |s| halted(s, true),
        |s| halted(s, !s.is_multiple_of(300)),
    ),
    (
        "reload_failed",
        |s| {
            with(s, |all| {
                all.failed_reload = Some(FailedReload {
                    at: START,
                    error: "weir.toml:7: unknown option `pool_sise`".to_owned(),
                });
            })
        },
        |s| with(s, |_| {}),
    ),
    ("draining", |s| draining(s, 600), |s| draining(s, 1200)),
];

fn clients(second: u64, used: u64) -> Snapshot {
    with(second, |snapshot| {
        // At second 5 there were two more.
        let used = if second == 5 && used > 90 {
            used + 2
        } else {
            used
        };
        snapshot.limits = vec![limit("max_client_conn", "", used, 100)];
        application(snapshot, "billing", 60);
        application(snapshot, "", 30);
    })
}

fn memory(second: u64, mebibytes: u64) -> Snapshot {
    with(second, |snapshot| {
        snapshot.process.resident_bytes = mebibytes << 20;
        let mut row = holder(17, Activity::InQuery, 8);
        row.unsent = 512 << 10;
        snapshot.holders.push(row);
    })
}

/// Workers use this much processor time a second.
fn loads(second: u64, us: [u64; 2]) -> Snapshot {
    with(second, |snapshot| {
        for (row, us) in snapshot.workers.iter_mut().zip(us) {
            row.cpu_us = second * us;
        }
    })
}

fn certificate(second: u64, days_left: i64) -> Snapshot {
    with(second, |snapshot| {
        snapshot.tls.push(TlsRow {
            side: "client".to_owned(),
            file: "/etc/weir/server.crt".to_owned(),
            subject: "CN=pooler.example".to_owned(),
            not_after: START + days_left * 86_400,
            days_left,
            ..TlsRow::default()
        });
    })
}

fn halted(second: u64, is_halted: bool) -> Snapshot {
    with(second, |snapshot| {
        if is_halted {
            let halts = &mut snapshot.halts;
            halts.paused.insert("shop".to_owned());
            halts.disabled.insert("shop".to_owned());
        }
    })
}

fn draining(second: u64, seconds: i64) -> Snapshot {
    with(second, |snapshot| {
        snapshot.draining = Some(Draining {
            since: START,
            until: START + seconds,
        });
    })
}
