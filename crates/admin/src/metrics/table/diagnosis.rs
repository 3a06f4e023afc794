//! Metrics of the diagnosis, and of what it looks at: rows of `SHOW DIAGNOSIS` and `SHOW LOGINS` as numbers.

use weir_stats::WaitReason;

use super::super::{Kind, Metric, Source, seconds};
use super::{by_worker, counter, gauge, metric, pool_count};

/// Reasons of waits, as in `SHOW WAITS`.
const REASONS: [WaitReason; 9] = [
    WaitReason::PoolFull,
    WaitReason::UserLimit,
    WaitReason::DatabaseLimit,
    WaitReason::SizeLimit,
    WaitReason::Connecting,
    WaitReason::LoginsFail,
    WaitReason::Paused,
    WaitReason::NoHost,
    WaitReason::Server,
];

/// Metrics of the diagnosis, in the order of the page.
pub(super) static DIAGNOSIS: &[Metric] = &[
    gauge(
        "weir_condition",
        &["condition", "severity", "scope"],
        "1 for each condition of `SHOW DIAGNOSIS` that holds; 0, without severity and scope, for one that does not.",
        |figures, out| {
            let held = &figures.rest.conditions;
            let mut rows = held.iter();
            rows.try_for_each(|row| {
                let severity = row.severity.name();
                out.count(&[row.condition, severity, &row.scope], 1)
            })?;
            let mut names = weir_diagnosis::CONDITIONS
                .iter()
                .map(|condition| condition.name)
                .filter(|name| held.iter().all(|row| row.condition != *name));
            names.try_for_each(|name| out.count(&[name, "", ""], 0))
        },
    ),
    metric(
        Kind::Gauge,
        "weir_pool_activity",
        &["database", "user", "activity"],
        "Clients by activity. Whoever is `idle_in_transaction` or `pinned` has a server that waits for the client.",
        Source::PoolStates(|row| {
            let activity = &row.activity;
            vec![
                ("idle", activity.idle),
                ("idle_in_transaction", activity.in_transaction),
                ("in_query", activity.in_query),
                ("pinned", activity.pinned),
            ]
        }),
    ),
    metric(
        Kind::Gauge,
        "weir_pool_waiting",
        &["database", "user", "reason"],
        "Clients that wait for a server, by the reason of `SHOW WAITS`.",
        Source::PoolStates(|row| {
            let waits = &row.activity.waits;
            let of = |reason: WaitReason| waits.get(&reason).copied().unwrap_or_default();
            REASONS.map(|reason| (reason.name(), of(reason))).into()
        }),
    ),
    pool_count(
        "weir_pool_wait_timeouts_total",
        "Clients that gave up waiting for a server (`query_wait_timeout`).",
        |counters| counters.wait_timeouts,
    ),
    pool_count(
        "weir_pool_statement_evictions_total",
        "Statements that servers had to forget to make room (`max_prepared_statements`).",
        |counters| counters.statement_evictions,
    ),
    pool_count(
        "weir_pool_server_logins_total",
        "Server connections that were opened.",
        |counters| counters.server_logins,
    ),
    pool_count(
        "weir_pool_servers_lost_total",
        "Server connections that ended without Weir having closed them.",
        |counters| counters.servers_lost,
    ),
    counter(
        "weir_logins_total",
        &["host", "outcome"],
        "Logins at servers by host, `succeeded` or `failed`.",
        |figures, out| {
            let mut hosts = figures.rest.logins.iter();
            hosts.try_for_each(|(host, row)| {
                out.count(&[host, "succeeded"], row.succeeded)?;
                out.count(&[host, "failed"], row.failed)
            })
        },
    ),
    gauge(
        "weir_worker_statements",
        &["worker"],
        "Distinct statements that the clients of a worker have prepared.",
        |figures, out| by_worker(figures, |worker, row| out.count(&[worker], row.statements)),
    ),
    gauge(
        "weir_worker_turn_max_seconds",
        &["worker"],
        "Longest turn of a worker's loop in this `stats_period` and the last: all its connections waited for so long.",
        |figures, out| {
            by_worker(figures, |worker, row| {
                out.value(&[worker], seconds(row.turn_max_us))
            })
        },
    ),
];
