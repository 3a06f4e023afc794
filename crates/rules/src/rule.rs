//! A rule: conditions, an action, and what else happens to the statements that meet it.

use std::sync::Arc;
use std::time::Duration;

use crate::conditions::Conditions;
use crate::rewrite::Rewriting;

/// Parts of a million that stand for every statement.
pub const ALWAYS: u32 = 1_000_000;

/// Error that a rule gives in place of a statement's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Message of the error.
    pub message: String,
    /// SQLSTATE of the error.
    pub code: [u8; 5],
    /// Hint of the error; empty without one.
    pub hint: String,
}

/// Place to which a rule sends a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RouteTo {
    /// Another entry of `[databases]`.
    Database(Arc<str>),
    /// The primary.
    Primary,
    /// A replica, or the primary if none qualifies.
    Replica,
    /// The host with this address, as the configuration names it.
    Host(Arc<str>),
}

/// Way in which the statements of some sessions are sent to another database too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mirroring {
    /// Entry in `[databases]` that gets the statements.
    pub database: Arc<str>,
    /// True if the rows of the two answers are compared, other than their number.
    pub compares_rows: bool,
    /// True if statements that write are sent too.
    pub writes: bool,
    /// Number of connections, which run one transaction each at a time.
    pub connections: u32,
}

/// Effect of a rule on the statements that meet it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The transaction waits for this time before it gets a server.
    Delay(Duration),
    /// The statement is logged ([`Rule::log`]).
    Log,
    /// The statement is sent to another database too.
    Mirror(Arc<Mirroring>),
    /// No effect of its own: later rules are not asked.
    Pass,
    /// The statement fails.
    Reject(Arc<Rejection>),
    /// The statement gets the text of the first of these that is like it.
    Rewrite(Arc<[Rewriting]>),
    /// The transaction runs on this host.
    Route(RouteTo),
}

/// Limit on the statements of a rule that run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    /// Number of statements, on all workers together.
    pub max: u32,
    /// Number of clients that may wait for their turn.
    pub queue_max: u32,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Name, unique among the rules.
    pub name: Arc<str>,
    /// Conditions about the statement.
    pub conditions: Conditions,
    /// Effect of the rule.
    pub action: Action,
    /// Time after which the statement is cancelled.
    pub timeout: Option<Duration>,
    /// Statements that take at least this time are logged; zero stands for all.
    pub log: Option<Duration>,
    /// Limit on the statements that run at once.
    pub concurrency: Option<Concurrency>,
    /// True if the rule only counts what it would do.
    pub is_dry: bool,
    /// Unix time in seconds at which the rule ends.
    pub expires: Option<i64>,
    /// Share of the statements for which the rule is in force, in parts of a million.
    pub sample: u32,
    /// True if later rules may be met too.
    pub goes_on: bool,
}

impl Rule {
    /// Creates a rule that is always in force, without a limit.
    #[must_use]
    pub fn new(name: &str, conditions: Conditions, action: Action) -> Self {
        Self {
            name: name.into(),
            conditions,
            action,
            timeout: None,
            log: None,
            concurrency: None,
            is_dry: false,
            expires: None,
            sample: ALWAYS,
            goes_on: false,
        }
    }

    /// True if the rule wants something before the transaction gets a server.
    #[must_use]
    pub fn comes_before_lease(&self) -> bool {
        matches!(self.action, Action::Delay(_) | Action::Route(_)) || self.concurrency.is_some()
    }

    /// True if the rule sends transactions to another database.
    #[must_use]
    pub fn leaves(&self) -> bool {
        matches!(self.action, Action::Route(RouteTo::Database(_)))
    }

    /// True if the rule changes texts, before all other rules are asked.
    #[must_use]
    pub fn rewrites(&self) -> bool {
        matches!(self.action, Action::Rewrite(_))
    }
}
