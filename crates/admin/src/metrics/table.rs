//! The table of metrics.

mod diagnosis;
mod digests;
mod hosts;
mod rules;
mod statements;

use std::fmt;

use weir_stats::{Blame, Counters, Histogram, PoolRow, SizingRow, Times};

use super::figures::Figures;
use super::{Kind, Metric, OF_POOL, Out, Source, seconds};

/// Labels of values by pool and state.
const OF_POOL_STATE: &[&str] = &["database", "user", "state"];

const fn metric(
    kind: Kind,
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    source: Source,
) -> Metric {
    Metric {
        name,
        kind,
        labels,
        help,
        source,
    }
}

const fn pool_count(name: &'static str, help: &'static str, of: fn(&Counters) -> u64) -> Metric {
    metric(Kind::Counter, name, OF_POOL, help, Source::PoolCount(of))
}

const fn pool_value(name: &'static str, help: &'static str, of: fn(&PoolRow) -> f64) -> Metric {
    metric(Kind::Gauge, name, OF_POOL, help, Source::PoolValue(of))
}

const fn pool_times(
    name: &'static str,
    help: &'static str,
    of: fn(&Times) -> &Histogram,
) -> Metric {
    metric(Kind::Histogram, name, OF_POOL, help, Source::PoolTimes(of))
}

/// Function that writes the samples of one metric.
type Write = fn(&Figures, &mut Out<'_, '_>) -> fmt::Result;

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    write: Write,
) -> Metric {
    metric(Kind::Gauge, name, labels, help, Source::Samples(write))
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    write: Write,
) -> Metric {
    metric(Kind::Counter, name, labels, help, Source::Samples(write))
}

/// Returns all metrics, in the order of the page.
pub(super) fn metrics() -> impl Iterator<Item = &'static Metric> {
    METRICS
        .iter()
        .chain(diagnosis::DIAGNOSIS)
        .chain(hosts::HOSTS)
        .chain(digests::DIGESTS)
        .chain(rules::RULES)
        .chain(statements::STATEMENTS)
}

static METRICS: &[Metric] = &[
    // --- pools ---
    metric(
        Kind::Gauge,
        "weir_pool_clients",
        OF_POOL_STATE,
        "Clients by state: active clients have a server, waiting clients wait for one.",
        Source::PoolStates(|row| {
            let waiting = row.counts.cl_waiting;
            let idle = row.clients.saturating_sub(row.leased + waiting);
            vec![("active", row.leased), ("idle", idle), ("waiting", waiting)]
        }),
    ),
    metric(
        Kind::Gauge,
        "weir_pool_servers",
        OF_POOL_STATE,
        "Server connections by state.",
        Source::PoolStates(|row| {
            vec![
                ("active", row.counts.sv_active),
                ("being_canceled", row.counts.sv_being_canceled),
                ("idle", row.counts.sv_idle),
                ("login", row.counts.sv_login),
                ("tested", row.counts.sv_tested),
            ]
        }),
    ),
    pool_value(
        "weir_pool_size",
        "Servers that the pool may have (`pool_size`); 0 = unlimited.",
        |row| whole(row.size),
    ),
    pool_value(
        "weir_pool_places_taken",
        "Server connections that count against `weir_pool_size`.",
        |row| whole(row.servers),
    ),
    pool_value(
        "weir_pool_oldest_wait_seconds",
        "Time for which the oldest waiter has waited for a server.",
        |row| seconds(row.maxwait_us),
    ),
    pool_value(
        "weir_pool_pinned_clients",
        "Pinned clients: they keep their server beyond the transaction.",
        |row| whole(row.pinned),
    ),
    pool_value(
        "weir_pool_inconsistent",
        "1 if the counts of the pool contradict each other, which is a bug of Weir.",
        |row| whole(u64::from(!row.violation.is_empty())),
    ),
    pool_times(
        "weir_pool_wait_seconds",
        "Time that clients waited for a server, also if they did not get one.",
        |times| &times.wait,
    ),
    pool_times(
        "weir_pool_transaction_seconds",
        "Length of transactions, from the lease of a server to the end.",
        |times| &times.transaction,
    ),
    pool_times(
        "weir_pool_query_seconds",
        "Time from a request to the end of its answer.",
        |times| &times.query,
    ),
    pool_count(
        "weir_pool_leases_total",
        "Servers assigned to clients.",
        |counters| counters.server_assignments,
    ),
    pool_count(
        "weir_pool_transactions_total",
        "Transactions that ended.",
        |counters| counters.transactions,
    ),
    pool_count(
        "weir_pool_queries_total",
        "Requests that were answered: a Query, or everything up to a Sync.",
        |counters| counters.queries,
    ),
    pool_count(
        "weir_pool_client_received_bytes_total",
        "Bytes from clients.",
        |counters| counters.bytes_received,
    ),
    pool_count(
        "weir_pool_client_sent_bytes_total",
        "Bytes to clients.",
        |counters| counters.bytes_sent,
    ),
    pool_count(
        "weir_pool_errors_total",
        "Errors sent to clients of the pool, from servers and from Weir.",
        |counters| counters.errors,
    ),
    pool_count(
        "weir_pool_client_logins_total",
        "Clients that logged in.",
        |counters| counters.client_logins,
    ),
    pool_count(
        "weir_pool_client_parses_total",
        "Parse messages of clients for named statements.",
        |counters| counters.client_parses,
    ),
    pool_count(
        "weir_pool_server_parses_total",
        "Parse messages sent to servers for named statements of clients.",
        |counters| counters.server_parses,
    ),
    pool_count(
        "weir_pool_binds_total",
        "Bind messages of clients.",
        |counters| counters.binds,
    ),
    pool_count(
        "weir_pool_notifications_total",
        "Notifications sent to clients that listen.",
        |counters| counters.notifications,
    ),
    pool_count(
        "weir_pool_listen_overflows_total",
        "Clients disconnected because too many notifications waited for them (`listen_queue_bytes`).",
        |counters| counters.listen_overflows,
    ),
    pool_count(
        "weir_pool_state_questions_total",
        "Queries to servers about session state.",
        |counters| counters.state_questions,
    ),
    pool_count(
        "weir_pool_state_misses_total",
        "Session state that only `session_state_check` found.",
        |counters| counters.state_misses,
    ),
    // --- events of clients ---
    counter(
        "weir_pins_total",
        &["database", "reason"],
        "Clients that were pinned to their server, by reason.",
        |figures, out| {
            let mut pins = figures.pins.iter();
            pins.try_for_each(|((database, reason), count)| out.count(&[database, reason], *count))
        },
    ),
    counter(
        "weir_errors_total",
        &["origin", "sqlstate"],
        "Errors sent to clients, by origin: `server` (PostgreSQL) or `pooler` (Weir). Codes that PostgreSQL does not have are `other`.",
        |figures, out| {
            let mut errors = figures.rest.errors.iter();
            errors.try_for_each(|((blame, code), count)| {
                let origin = match blame {
                    Blame::Pooler => "pooler",
                    Blame::Server => "server",
                };
                out.count(&[origin, code], *count)
            })
        },
    ),
    gauge(
        "weir_clients_logging_in",
        &[],
        "Clients that have not finished their login.",
        |figures, out| out.count(&[], figures.rest.login_clients),
    ),
    gauge(
        "weir_clients_listening",
        &[],
        "Clients that listen to channels.",
        |figures, out| {
            let listening = figures.rest.workers.iter().map(|worker| worker.listening);
            out.count(&[], listening.sum())
        },
    ),
    gauge(
        "weir_cancel_requests",
        &[],
        "Cancel requests on their way to servers.",
        |figures, out| out.count(&[], figures.rest.cancels),
    ),
    // --- limits ---
    gauge(
        "weir_limit_used",
        &["limit", "scope"],
        "Current use of a limit. The scope is a database or user, or empty for a limit of the process.",
        |figures, out| {
            let mut limits = figures.rest.limits.iter();
            limits.try_for_each(|row| out.count(&[row.name, &row.scope], row.used))
        },
    ),
    gauge(
        "weir_limit_max",
        &["limit", "scope"],
        "Value of a limit. A limit that is switched off has no row.",
        |figures, out| {
            let mut limits = figures.rest.limits.iter();
            limits.try_for_each(|row| out.count(&[row.name, &row.scope], row.max))
        },
    ),
    // --- pools that determine their own size ---
    gauge(
        "weir_pool_assigned_limit",
        OF_POOL,
        "Servers that a pool with `pool_size = auto` may currently assign at once.",
        |figures, out| sizes(figures, out, |row| row.limit),
    ),
    gauge(
        "weir_pool_assigned_servers",
        OF_POOL,
        "Servers that a pool with `pool_size = auto` has assigned.",
        |figures, out| sizes(figures, out, |row| row.assigned),
    ),
    gauge(
        "weir_pool_found_size",
        OF_POOL,
        "Size that a pool with `pool_size = auto` holds or, in mode advise, recommends.",
        |figures, out| sizes(figures, out, |row| row.size),
    ),
    counter(
        "weir_pool_size_comparisons_total",
        OF_POOL,
        "Comparisons of two sizes by a pool with `pool_size = auto`.",
        |figures, out| sizes(figures, out, |row| row.pairs),
    ),
    counter(
        "weir_pool_size_moves_total",
        OF_POOL,
        "Comparisons that changed the size of a pool with `pool_size = auto`.",
        |figures, out| sizes(figures, out, |row| row.moves),
    ),
    counter(
        "weir_pool_size_stalls_total",
        OF_POOL,
        "Times that the limit was raised because every server waited for its client or a lock while clients waited.",
        |figures, out| sizes(figures, out, |row| row.stalls),
    ),
    counter(
        "weir_pool_size_cuts_total",
        OF_POOL,
        "Times that the size was cut because the host refused connections or memory, or transactions deadlocked.",
        |figures, out| sizes(figures, out, |row| row.cuts),
    ),
    // --- TLS ---
    gauge(
        "weir_tls_clients",
        &["protection"],
        "Clients that use TLS, by protocol and cipher.",
        |figures, out| {
            let mut protected = figures.rest.protected.iter();
            protected.try_for_each(|(protection, count)| out.count(&[protection], *count))
        },
    ),
    gauge(
        "weir_tls_certificate_days_left",
        &["side", "database", "file", "subject"],
        "Whole days until a certificate in use expires; negative once it has.",
        |figures, out| {
            let mut rows = figures.rest.tls.iter();
            rows.try_for_each(|row| {
                let labels = [&*row.side, &row.database, &row.file, &row.subject];
                out.value(&labels, signed(row.days_left))
            })
        },
    ),
    gauge(
        "weir_tls_certificate_not_after_seconds",
        &["side", "database", "file", "subject"],
        "Unix time at which a certificate in use expires.",
        |figures, out| {
            let mut rows = figures.rest.tls.iter();
            rows.try_for_each(|row| {
                let labels = [&*row.side, &row.database, &row.file, &row.subject];
                out.value(&labels, signed(row.not_after))
            })
        },
    ),
    // --- workers ---
    gauge(
        "weir_worker_clients",
        &["worker"],
        "Client connections of a worker.",
        |figures, out| by_worker(figures, |worker, row| out.count(&[worker], row.clients)),
    ),
    gauge(
        "weir_worker_servers",
        &["worker"],
        "Server connections of a worker.",
        |figures, out| by_worker(figures, |worker, row| out.count(&[worker], row.servers)),
    ),
    counter(
        "weir_worker_cpu_seconds_total",
        &["worker"],
        "Processor time of a worker's thread; at a rate of 1 the worker is saturated.",
        |figures, out| {
            by_worker(figures, |worker, row| {
                out.value(&[worker], seconds(row.cpu_us))
            })
        },
    ),
    counter(
        "weir_worker_turns_total",
        &["worker"],
        "Turns of a worker's loop.",
        |figures, out| by_worker(figures, |worker, row| out.count(&[worker], row.turns)),
    ),
    gauge(
        "weir_worker_messages",
        &["worker"],
        "Messages from other threads that a worker has not read.",
        |figures, out| by_worker(figures, |worker, row| out.count(&[worker], row.messages)),
    ),
    // --- names ---
    gauge(
        "weir_dns_names",
        &[],
        "Host names in the cache of the resolver.",
        |figures, out| out.count(&[], figures.rest.dns_names),
    ),
    gauge(
        "weir_dns_pending",
        &[],
        "Server connections that wait for a host name.",
        |figures, out| out.count(&[], figures.rest.dns_pending),
    ),
    // --- process ---
    counter(
        "weir_broken_lookups_total",
        &[],
        "Look-ups that did not find an object that must exist, which is a bug of Weir. The log has a line about the \
         first of each kind; please report it.",
        |figures, out| out.count(&[], figures.rest.broken_lookups),
    ),
    gauge(
        "weir_build_info",
        &["version"],
        "Always 1; the version is its label.",
        |figures, out| out.count(&[&figures.version], 1),
    ),
    gauge(
        "weir_io_driver",
        &["driver"],
        "Always 1; the interface to the kernel through which workers use their sockets is its label (`io`).",
        |figures, out| match &figures.rest.driver {
            Some(driver) => out.count(&[driver.name.as_str()], 1),
            None => Ok(()),
        },
    ),
    counter(
        "process_cpu_seconds_total",
        &[],
        "Processor time of the process.",
        |figures, out| out.value(&[], seconds(figures.rest.process.cpu_us)),
    ),
    gauge(
        "process_resident_memory_bytes",
        &[],
        "Memory of the process that is in use.",
        |figures, out| out.count(&[], figures.rest.process.resident_bytes),
    ),
    gauge(
        "process_open_fds",
        &[],
        "Open file descriptors, sockets among them.",
        |figures, out| out.count(&[], figures.rest.process.open_files),
    ),
    gauge(
        "process_max_fds",
        &[],
        "File descriptors that the process may open.",
        |figures, out| out.count(&[], figures.rest.process.open_files_max),
    ),
    gauge(
        "process_start_time_seconds",
        &[],
        "Unix time at which the process began.",
        |figures, out| out.count(&[], figures.rest.process.started_at),
    ),
];

fn by_worker(
    figures: &Figures,
    mut write: impl FnMut(&str, &weir_stats::WorkerRow) -> fmt::Result,
) -> fmt::Result {
    let mut workers = figures.rest.workers.iter();
    workers.try_for_each(|row| write(&row.worker.to_string(), row))
}

/// Converts to the floating point numbers that Prometheus uses.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn whole(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn signed(number: i64) -> f64 {
    number as f64
}

/// Writes a value of each pool that determines its own size.
fn sizes(figures: &Figures, out: &mut Out<'_, '_>, of: fn(&SizingRow) -> u64) -> fmt::Result {
    let mut pools = figures.rest.sizings.iter();
    pools.try_for_each(|row| out.count(&[&row.database, &row.user], of(row)))
}
