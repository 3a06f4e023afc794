//! Decision of the rules about one text.

use std::sync::Arc;
use std::time::Duration;

use crate::bulkhead::Bulkhead;
use crate::rule::{Mirroring, Rejection, RouteTo};

/// Moment at which the rules are asked about a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The statement is prepared. Only rules that reject it, or send it to another database, whenever they are asked have an
    /// effect; nothing is counted but what they reject.
    Prepare,
    /// The statement is about to run.
    Run,
}

/// Something that a rule asks for, with the name of the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish<T> {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// The thing asked for.
    pub value: T,
}

/// Treatment of a statement that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    /// Time after which the statement is cancelled.
    pub timeout: Option<Wish<Duration>>,
    /// Time from which on the statement is logged.
    pub log: Option<Wish<Duration>>,
    /// The statement without literals, if it may be logged.
    pub text: Option<Arc<str>>,
    /// Database that gets the statement too.
    pub mirror: Option<Wish<Arc<Mirroring>>>,
}

impl Watch {
    /// True if nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.timeout.is_none() && self.log.is_none() && self.mirror.is_none()
    }
}

/// A bulkhead in front of a statement.
#[derive(Debug, Clone)]
pub struct Limit {
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Number of statements that may run at once.
    pub max: u32,
    /// The bulkhead.
    pub bulkhead: Arc<Bulkhead>,
}

/// Decision of the rules about one text.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Error of the rule that rejects the text.
    pub rejection: Option<Arc<Rejection>>,
    /// Treatment while the text runs.
    pub watch: Watch,
    /// Host of the transaction that the text begins.
    pub route: Option<Wish<RouteTo>>,
    /// Time for which the transaction waits before it gets a server.
    pub delay: Option<Wish<Duration>>,
    /// Bulkhead in front of the text.
    pub limit: Option<Limit>,
}

impl Verdict {
    /// True if no rule asks for anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rejection.is_none()
            && self.watch.is_empty()
            && self.route.is_none()
            && self.delay.is_none()
            && self.limit.is_none()
    }

    /// True if something has to be done before the transaction gets a server.
    #[must_use]
    pub fn comes_before_lease(&self) -> bool {
        self.route.is_some() || self.delay.is_some() || self.limit.is_some()
    }
}
