//! Conditions of pools whose clients wait for a server: who has the servers.

use std::cmp::Reverse;

use weir_stats::{Activity, HolderRow, Severity, WaitReason};

use crate::conditions::held::Held;
use crate::conditions::{Condition, Finding, first};
use crate::facts::{Facts, PoolFacts};
use crate::text;
use crate::windows::{ApplicationFigure, PoolFigure, Span};

/// Duration of a query from which on it counts as long.
const LONG_QUERY_US: u64 = 10_000_000;
/// Mean duration of queries from which on more servers are no remedy.
const SLOW_QUERY_US: u64 = 100_000;
/// Wait from which on a pool counts as crowded: a queue of milliseconds is pooling at work.
const WAIT_US: u64 = 100_000;

/// operator-ui.md 4, no. 1.
pub(super) const IDLE_TRANSACTIONS: Condition = Condition {
    name: "idle_transactions_fill_pool",
    severities: &[Severity::Critical],
    meaning: "Clients wait while most servers of their pool sit in open transactions that do \
              nothing.",
    evidence: "The pool has assigned all servers and clients wait; more than half of the assigned \
               servers have been idle in a transaction for a second or longer.",
    advice: "Number of such servers, the application that has most of them, and the oldest \
             client; a matter of the application.",
    sustain: 10,
    explains: &["pool_too_small", "application_hogs_pool"],
    find: idle_transactions,
};

fn idle_transactions(facts: &Facts<'_>) -> Vec<Finding> {
    let full = facts.pools.iter().filter(|pool| pool.waits_full() > 0);
    first(full.filter_map(|pool| {
        let is_idle = |row: &HolderRow| row.activity == Activity::InTransaction;
        let idle = Held::of(pool, is_idle, |row| row.activity_us)?;
        let age = text::micros(idle.oldest.activity_us);
        let client = idle.oldest.client;
        let finding = Finding::new(Severity::Critical, pool.scope())
            .evidence(format!(
                "{} waiting, the oldest for {}; {} of {} assigned servers idle in a transaction, \
                 the longest for {age}",
                text::count(pool.waits_full(), "client"),
                text::micros(pool.row.maxwait_us),
                idle.count,
                pool.row.leased
            ))
            .advice(format!(
                "{} of {} servers sit in open transactions, {} of them of {}; the oldest has been \
                 idle for {age} (client {client}, backend {}). The application's matter: it keeps \
                 transactions open while it does other work. End them with KILL_CLIENT, or bound \
                 all of them: SET idle_transaction_timeout = 30.",
                idle.count,
                pool.row.leased,
                idle.of_application,
                text::named(idle.application),
                idle.oldest.backend_pid,
            ))
            .command(format!("KILL_CLIENT {client}"));
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 2.
pub(super) const LONG_QUERIES: Condition = Condition {
    name: "long_queries_fill_pool",
    severities: &[Severity::Critical],
    meaning: "Clients wait while most servers of their pool run long statements.",
    evidence: "The pool has assigned all servers and clients wait; more than half of the assigned \
               servers have run a statement for 10 seconds or longer.",
    advice: "Number of such servers, the application that has most of them, and the process id of \
             the oldest statement for pg_stat_activity; a matter of the database or the \
             application.",
    sustain: 10,
    explains: &["pool_too_small", "application_hogs_pool"],
    find: long_queries,
};

fn long_queries(facts: &Facts<'_>) -> Vec<Finding> {
    let full = facts.pools.iter().filter(|pool| pool.waits_full() > 0);
    let is_long =
        |row: &HolderRow| row.activity == Activity::InQuery && row.activity_us >= LONG_QUERY_US;
    first(full.filter_map(|pool| {
        let long = Held::of(pool, is_long, |row| row.activity_us)?;
        let age = text::micros(long.oldest.activity_us);
        let pid = long.oldest.backend_pid;
        let finding = Finding::new(Severity::Critical, pool.scope())
            .evidence(format!(
                "{} waiting, the oldest for {}; {} of {} assigned servers in a statement for 10 s \
                 or longer, the longest for {age}",
                text::count(pool.waits_full(), "client"),
                text::micros(pool.row.maxwait_us),
                long.count,
                pool.row.leased
            ))
            .advice(format!(
                "{} of {} servers run statements older than 10 s, {} of them of {}; the oldest \
                 has run for {age} (client {}, backend {pid}). A matter of the database or the \
                 application: look for locks and plans in pg_stat_activity, and for the statement \
                 in SHOW DIGESTS. query_timeout bounds statements.",
                long.count,
                pool.row.leased,
                long.of_application,
                text::named(long.application),
                long.oldest.client,
            ))
            .command(format!(
                "SELECT pid, wait_event_type, wait_event, pg_blocking_pids(pid), query FROM \
                 pg_stat_activity WHERE pid = {pid}"
            ));
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 2 for statements that are slow, but not that slow.
pub(super) const SLOW_QUERIES: Condition = Condition {
    name: "slow_queries_fill_pool",
    severities: &[Severity::Warning],
    meaning: "Clients wait for servers that are busy with statements of 100 ms and more.",
    evidence: "The pool has assigned all servers, a client has waited for 100 ms or longer, and \
               queries took 100 ms or longer on average over 10 seconds.",
    advice: "Mean duration of the queries, and where to find the slow ones; a matter of the \
             database or the application.",
    sustain: 10,
    explains: &["pool_too_small"],
    find: slow_queries,
};

fn slow_queries(facts: &Facts<'_>) -> Vec<Finding> {
    let slow = crowded(facts).filter(|(_, mean_us)| *mean_us >= SLOW_QUERY_US);
    first(slow.map(|(pool, mean_us)| {
        Finding::new(Severity::Warning, pool.scope())
            .evidence(crowd(pool, mean_us))
            .advice(format!(
                "All {} servers are busy, and queries take {} on average. A matter of the \
                 database or the application: find the statements that take the time in SHOW \
                 DIGESTS, and their waits in pg_stat_activity. A larger pool helps only if the \
                 database has cores to spare.",
                pool.row.leased,
                text::micros(mean_us),
            ))
            .command(text::digests_of(pool.key))
    }))
}

/// operator-ui.md 4, no. 3.
pub(super) const TOO_SMALL: Condition = Condition {
    name: "pool_too_small",
    severities: &[Severity::Warning],
    meaning: "Clients wait although queries are short: the pool has too few servers for them.",
    evidence: "The pool has assigned all servers, a client has waited for 100 ms or longer, and \
               queries took less than 100 ms on average over 10 seconds. Pools that find their \
               own size are left out.",
    advice: "A larger `pool_size`, or `auto`; a matter of the pooler's configuration.",
    sustain: 10,
    explains: &[],
    find: too_small,
};

fn too_small(facts: &Facts<'_>) -> Vec<Finding> {
    let crowded = crowded(facts)
        .filter(|(pool, mean_us)| *mean_us < SLOW_QUERY_US && pool.waits(WaitReason::PoolFull) > 0);
    first(crowded.map(|(pool, mean_us)| {
        let (size, waiting) = (pool.size(), pool.waits(WaitReason::PoolFull));
        let advised = facts.now.sizings.iter().find(|sizing| {
            sizing.mode == "advise"
                && (&sizing.database, &sizing.user) == (&pool.key.0, &pool.key.1)
        });
        let (more, source) = match advised {
            Some(sizing) if sizing.size > size => (
                sizing.size,
                " (found by pool_size_mode = \
                                                                 advise)",
            ),
            _ => (size.saturating_add(waiting.clamp(1, (size / 2).max(1))), ""),
        };
        Finding::new(Severity::Warning, pool.scope())
            .evidence(crowd(pool, mean_us))
            .advice(format!(
                "Queries take {} on average, yet {} for one of {size} servers. A matter of the \
                 pooler's configuration: if the database has cores to spare, try pool_size = \
                 {more}{source} for {}, or pool_size = auto, which finds the size by itself.",
                text::micros(mean_us),
                text::count_verb(waiting, "client", "waits", "wait"),
                pool.key.0,
            ))
            .command(format!("pool_size = {more}"))
    }))
}

/// Pools whose clients wait for servers that all work, with the mean duration of a query.
fn crowded<'a, 'b>(facts: &'b Facts<'a>) -> impl Iterator<Item = (&'b PoolFacts<'a>, u64)> {
    let full = facts.pools.iter();
    let full = full.filter(|pool| pool.waits_full() > 0 && pool.row.maxwait_us >= WAIT_US);
    full.map(|pool| {
        let queries = pool.change(PoolFigure::Queries, Span::Short).max(1.0);
        let mean = pool.change(PoolFigure::QueryTime, Span::Short) / queries;
        (pool, text::whole(mean))
    })
}

fn crowd(pool: &PoolFacts<'_>, mean_us: u64) -> String {
    format!(
        "{} waiting, the oldest for {}; {} of {} servers assigned; mean query {} over 10 s",
        text::count(pool.waits_full(), "client"),
        text::micros(pool.row.maxwait_us),
        pool.row.leased,
        pool.size(),
        text::micros(mean_us),
    )
}

/// operator-ui.md 4, no. 6.
pub(super) const LIMIT_FULL: Condition = Condition {
    name: "server_limit_full",
    severities: &[Severity::Warning],
    meaning: "Clients wait while their pool has room: a limit over several pools allows no \
              further server.",
    evidence: "Clients wait because max_db_connections or max_user_connections is reached.",
    advice: "The limit with its usage, and the pools that have the servers; a matter of the \
             pooler's configuration.",
    sustain: 10,
    explains: &[],
    find: limit_full,
};

fn limit_full(facts: &Facts<'_>) -> Vec<Finding> {
    let limits = [
        (WaitReason::DatabaseLimit, "max_db_connections"),
        (WaitReason::UserLimit, "max_user_connections"),
    ];
    first(facts.pools.iter().filter_map(|pool| {
        let blocked = limits.iter().find(|(reason, _)| pool.waits(*reason) > 0);
        let (reason, name) = *blocked?;
        let is_database = reason == WaitReason::DatabaseLimit;
        let scope = if is_database {
            &pool.key.0
        } else {
            &pool.key.1
        };
        let mut limits = facts.now.limits.iter();
        let limit = limits.find(|limit| limit.name == name && limit.scope == *scope);
        let (used, max) = limit.map_or((0, 0), |limit| (limit.used, limit.max));
        let pools = facts.pools.iter();
        let shares = pools.filter(|other| {
            let of = if is_database {
                &other.key.0
            } else {
                &other.key.1
            };
            of == scope && other.row.servers > 0
        });
        let mut shares: Vec<_> = shares.collect();
        shares.sort_by_key(|other| Reverse(other.row.servers));
        let names = shares.iter().take(3);
        let names: Vec<_> = names
            .map(|other| format!("{} {}", other.scope(), other.row.servers))
            .collect();
        let waiting = pool.waits(reason);
        let finding = Finding::new(Severity::Warning, pool.scope())
            .evidence(format!(
                "{} waiting, the oldest for {}; {} of {} servers open; {name} of {scope}: {used} \
                 of {max}",
                text::count(waiting, "client"),
                text::micros(pool.row.maxwait_us),
                pool.row.servers,
                pool.size(),
            ))
            .advice(format!(
                "{name} of {scope} is full: {used} of {max} servers. Pools with the most of them: \
                 {}. A matter of the pooler's configuration: raise {name}, or lower pool_size or \
                 server_idle_timeout of these pools.",
                names.join(", "),
            ))
            .command(format!(
                "{name} = {}",
                max.saturating_add(waiting.clamp(1, max.max(1)))
            ));
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 12.
pub(super) const PINS: Condition = Condition {
    name: "pins_fill_pool",
    severities: &[Severity::Warning],
    meaning: "Pinned clients keep half of their pool's servers or more beyond their transactions.",
    evidence: "pinned >= 50 % of the pool's size, in transaction or statement pooling.",
    advice: "The most frequent reason with its remedy, and the application; a matter of the \
             application.",
    sustain: 10,
    explains: &["pool_too_small", "application_hogs_pool"],
    find: pins,
};

fn pins(facts: &Facts<'_>) -> Vec<Finding> {
    let full = facts.pools.iter().filter(|pool| {
        let (row, size) = (pool.row, pool.size());
        row.pool_mode != "session" && size > 0 && row.pinned >= size.div_ceil(2)
    });
    first(full.map(|pool| {
        let pinned = pool.holders.iter().filter(|row| !row.pin.is_empty());
        let reasons = pinned
            .clone()
            .flat_map(|row| row.pin.split(',').map(str::trim));
        let totals = facts.now.databases.get(&pool.key.0);
        let usual = totals.and_then(|row| row.pins.iter().max_by_key(|(_, count)| **count));
        let reason = text::most(reasons).map(|(reason, _)| reason);
        let reason = reason
            .or_else(|| usual.map(|(reason, _)| *reason))
            .unwrap_or("unknown");
        let application = text::most(pinned.clone().map(|row| row.application.as_str()));
        let of = application.map_or(String::new(), |(name, _)| {
            format!(", most often from {}", text::named(name))
        });
        let command = pinned.max_by_key(|row| row.activity_us);
        let command = command.map_or_else(
            || "SHOW PINS".to_owned(),
            |row| {
                format!(
                    "KILL_CLIENT \
                                              {}",
                    row.client
                )
            },
        );
        Finding::new(Severity::Warning, pool.scope())
            .evidence(format!(
                "{} of {} servers pinned; {} waiting",
                pool.row.pinned,
                pool.size(),
                text::count(pool.row.counts.cl_waiting, "client"),
            ))
            .advice(format!(
                "{} of {} servers are pinned, mostly by {reason}{of}. The application's matter: \
                 {} max_pinned bounds pinned clients; SHOW PINS lists them.",
                pool.row.pinned,
                pool.size(),
                remedy(reason),
            ))
            .command(command)
    }))
}

/// Remedy for the reason of a pin.
fn remedy(reason: &str) -> &'static str {
    match reason {
        "advisory lock" => "use pg_advisory_xact_lock, which ends with the transaction.",
        "cursor with hold" => "close cursors WITH HOLD, or read them within their transaction.",
        "listen" => "send UNLISTEN when notifications are no longer wanted.",
        "prepare" => "use the driver's prepared statements instead of PREPARE, or DEALLOCATE them.",
        "sequence" => {
            "use INSERT ... RETURNING instead of currval and lastval, or sequence_values = learn."
        }
        "setting of an unknown name" => "use SET LOCAL within the transaction.",
        "temporary object" => "create temporary tables ON COMMIT DROP, or drop them.",
        _ => "end the state that keeps the server, or reconnect.",
    }
}

/// operator-ui.md 4, no. 18.
pub(super) const HOG: Condition = Condition {
    name: "application_hogs_pool",
    severities: &[Severity::Warning],
    meaning: "An application takes most of the time of a pool's servers while others wait for \
              them.",
    evidence: "The pool has assigned all servers and clients wait; one of several applications \
               has more than 60 % of the servers' time of the last minute.",
    advice: "The application with its share, and how to separate it; a matter of the application.",
    sustain: 10,
    explains: &["pool_too_small"],
    find: hog,
};

fn hog(facts: &Facts<'_>) -> Vec<Finding> {
    let full = facts.pools.iter().filter(|pool| pool.waits_full() > 0);
    first(full.filter_map(|pool| {
        let busy = |key| {
            facts
                .windows
                .application(key, ApplicationFigure::BusyTime, Span::Long)
        };
        let rows = facts.applications(pool).filter(|(_, row)| row.clients > 0);
        let rows: Vec<_> = rows.map(|(key, row)| (busy(key), key, row)).collect();
        let all: f64 = rows.iter().map(|(busy, ..)| busy).sum();
        let (most, key, row) = *rows.iter().max_by(|(a, ..), (b, ..)| a.total_cmp(b))?;
        if rows.len() < 2 || most <= all * 0.6 {
            return None;
        }
        let (share, name) = (text::whole(most * 100.0 / all), text::named(&key.2));
        let finding = Finding::new(Severity::Warning, pool.scope())
            .evidence(format!(
                "{name} has {share} % of the servers' time of the last minute, with {} of {}; {} \
                 waiting",
                row.clients,
                text::count(pool.row.clients, "client"),
                text::count(pool.waits_full(), "client"),
            ))
            .advice(format!(
                "{name} uses {share} % of the pool's servers, {} the rest. The application's \
                 matter: give it a user of its own with its own pool_size, or bound it by a query \
                 rule with max_concurrency.",
                text::count_verb(rows.len() as u64 - 1, "other application", "uses", "use"),
            ))
            .command(text::digests_of(pool.key));
        Some(finding)
    }))
}

/// operator-ui.md 4, no. 19.
pub(super) const WAIT_TIMEOUTS: Condition = Condition {
    name: "wait_timeouts",
    severities: &[Severity::Critical],
    meaning: "Clients have given up waiting for a server.",
    evidence: "Waits that ended with query_wait_timeout in the last minute.",
    advice: "Number of clients; the cause is another condition of the same pool or of a host.",
    sustain: 1,
    explains: &[],
    find: wait_timeouts,
};

fn wait_timeouts(facts: &Facts<'_>) -> Vec<Finding> {
    first(facts.pools.iter().filter_map(|pool| {
        let count = text::whole(pool.change(PoolFigure::WaitTimeouts, Span::Long));
        if count == 0 {
            return None;
        }
        let reason = pool
            .row
            .activity
            .waits
            .iter()
            .max_by_key(|(_, count)| **count);
        let reason = reason.map_or(String::new(), |(reason, count)| {
            let waits = text::count_verb(*count, "client", "waits", "wait");
            format!(" Now {waits} for the reason \"{}\".", reason.name())
        });
        let finding = Finding::new(Severity::Critical, pool.scope())
            .evidence(format!(
                "{} within a minute by query_wait_timeout",
                text::count_verb(count, "wait", "was ended", "were ended")
            ))
            .advice(format!(
                "{count} waits of clients ended with an error (53300) within a minute.{reason} \
                 The cause is another condition of this pool or of its host; a longer \
                 query_wait_timeout only delays the error.",
            ))
            .command("SHOW WAITS");
        Some(finding)
    }))
}
