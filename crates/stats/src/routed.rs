//! Counts of a router: by host for the metrics, and by text for `SHOW ROUTES`; counts of query rules.

use std::ops::AddAssign;

/// Counts of one host of a database that has several, since the process began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Requests sent to the host that only read there.
    pub reads: u64,
    /// Requests sent to the host that may write there.
    pub writes: u64,
    /// Batches that did not succeed on this replica and ran on another host instead.
    pub retries: u64,
}

impl AddAssign for HostCounters {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.retries += other.retries;
    }
}

/// Statement and its route: key of a row of `SHOW ROUTES`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteKey {
    /// Name of the entry in `[databases]`.
    pub database: String,
    /// Beginning of the text, with `?` for literals.
    pub statement: String,
    /// `primary`, `replica`, or `refused`.
    pub verdict: &'static str,
    /// Reason for the verdict.
    pub reason: String,
}

/// Counts of a row of `SHOW ROUTES`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteCounts {
    /// Number of requests, too high by `error` at most.
    pub count: u64,
    /// Requests that may belong to other statements, because there are more statements than places.
    pub error: u64,
    /// Requests that a replica refused or lost, and that ran on another host.
    pub retries: u64,
}

impl AddAssign for RouteCounts {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.error += other.error;
        self.retries += other.retries;
    }
}

/// A query rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleRow {
    /// Name of the rule.
    pub name: String,
    /// Name of the action.
    pub action: &'static str,
    /// `in force`, `dry run` or `expired`.
    pub state: &'static str,
    /// Unix time in seconds at which the rule ends.
    pub expires: Option<i64>,
    /// Share of the statements for which the rule is in force, in parts of a million.
    pub sample: u32,
    /// True if later rules may be met too.
    pub goes_on: bool,
    /// `shape` if the rule is decided once for each shape of statements, `text` if each text is looked at.
    pub cost: &'static str,
    /// File and line, or `console`.
    pub place: String,
    /// Counts of the rule.
    pub counts: RuleCounts,
    /// Number of statements that run now, if the rule limits it.
    pub running: Option<u32>,
    /// Number of clients that wait for their turn, if the rule limits how many run.
    pub waiting: Option<u32>,
    /// Number of statements that did not get their turn, likewise.
    pub refused: Option<u64>,
}

/// Counts of a query rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Statements that met the rule while it was in force.
    pub hits: u64,
    /// Statements that met the rule while it only counted.
    pub dry_hits: u64,
    /// Unix time in seconds of the last of either; 0 without one.
    pub last_hit: i64,
}

impl AddAssign for RuleCounts {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.dry_hits += other.dry_hits;
        self.last_hit = self.last_hit.max(other.last_hit);
    }
}
