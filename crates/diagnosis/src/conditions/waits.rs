//! Conditions of pools whose clients wait for a server: who has the servers.

use weir_stats::{Activity, HolderRow, Severity};

use crate::conditions::{Condition, Finding, first};
use crate::facts::{Facts, PoolFacts};
use crate::text;

/// Duration of a query from which on it counts as long.
const LONG_QUERY_US: u64 = 10_000_000;

/// operator-ui.md 4, no. 1.
pub(super) const IDLE_TRANSACTIONS: Condition = Condition {
    name: "idle_transactions_fill_pool",
    severities: &[Severity::Critical],
    meaning: "Clients wait while most servers of their pool sit in open transactions that do nothing.",
    evidence: "The pool has assigned all servers and clients wait; more than half of the assigned servers have been idle in a \
               transaction for a second or longer.",
    advice: "Number of such servers, the application that has most of them, and the oldest client; a matter of the \
             application.",
    sustain: 10,
    explains: &["pool_too_small", "application_hogs_pool"],
    find: idle_transactions,
};

fn idle_transactions(facts: &Facts<'_>) -> Vec<Finding> {
    let full = facts.pools.iter().filter(|pool| pool.waits_full() > 0);
    first(full.filter_map(|pool| {
        let idle = Held::of(pool, |row| row.activity == Activity::InTransaction, |row| row.activity_us)?;
        let age = text::micros(idle.oldest.activity_us);
        let client = idle.oldest.client;
        let finding = Finding::new(Severity::Critical, pool.scope())
            .evidence(format!(
                "{} waiting, the oldest for {}; {} of {} assigned servers idle in a transaction, the longest for {age}",
                text::count(pool.waits_full(), "client"),
                text::micros(pool.row.maxwait_us),
                idle.count,
                pool.row.leased
            ))
            .advice(format!(
                "{} of {} servers sit in open transactions, {} of them of {}; the oldest has been idle for {age} \
                 (client {client}, backend {}). The application's matter: it keeps transactions open while it does other \
                 work. End them with KILL_CLIENT, or set idle_transaction_timeout.",
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
    evidence: "The pool has assigned all servers and clients wait; more than half of the assigned servers have run a \
               statement for 10 seconds or longer.",
    advice: "Number of such servers, the application that has most of them, and the process id of the oldest statement for \
             pg_stat_activity; a matter of the database or the application.",
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
                "{} waiting, the oldest for {}; {} of {} assigned servers in a statement for 10 s or longer, the longest for \
                 {age}",
                text::count(pool.waits_full(), "client"),
                text::micros(pool.row.maxwait_us),
                long.count,
                pool.row.leased
            ))
            .advice(format!(
                "{} of {} servers run statements older than 10 s, {} of them of {}; the oldest has run for {age} (client {}, \
                 backend {pid}). A matter of the database or the application: look for locks and plans in \
                 pg_stat_activity, and for the statement in SHOW DIGESTS. query_timeout bounds statements.",
                long.count,
                pool.row.leased,
                long.of_application,
                text::named(long.application),
                long.oldest.client,
            ))
            .command(format!(
                "SELECT pid, wait_event_type, wait_event, pg_blocking_pids(pid), query FROM pg_stat_activity WHERE pid = {pid}"
            ));
        Some(finding)
    }))
}

/// Holders that share an activity, and make up more than half of the assigned servers of a pool.
pub(super) struct Held<'a> {
    pub(super) count: u64,
    pub(super) oldest: &'a HolderRow,
    /// Application with the most of them, and their number.
    pub(super) application: &'a str,
    pub(super) of_application: u64,
}

impl<'a> Held<'a> {
    fn of(
        pool: &PoolFacts<'a>,
        is_meant: impl Fn(&HolderRow) -> bool,
        age: impl Fn(&HolderRow) -> u64,
    ) -> Option<Self> {
        let held = Self::all(&pool.holders, is_meant, age)?;
        (held.count * 2 > pool.row.leased).then_some(held)
    }

    /// Returns all such holders of a pool; none if there are none.
    pub(super) fn all(
        holders: &[&'a HolderRow],
        is_meant: impl Fn(&HolderRow) -> bool,
        age: impl Fn(&HolderRow) -> u64,
    ) -> Option<Self> {
        let meant = holders.iter().copied().filter(|row| is_meant(row));
        let meant: Vec<_> = meant.collect();
        let oldest = meant.iter().copied().max_by_key(|row| age(row))?;
        let names = meant.iter().map(|row| row.application.as_str());
        let (application, of_application) = text::most(names)?;
        Some(Self {
            count: meant.len() as u64,
            oldest,
            application,
            of_application,
        })
    }
}
