//! Waiters of a lane, in the form in which it publishes them.

use crate::moment::Moment;
use crate::shared::HEADS_PUBLISHED;

/// State of a lane's queue as published to the other lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Number of waiters that a server of another lane can help.
    pub(crate) count: usize,
    /// Number of waiters that no login in progress is meant for.
    pub(crate) unmet: usize,
    /// Moment since which the first of these waits; NEVER if there is none.
    pub(crate) unmet_since: Moment,
    /// Number of logins in progress less the number of waiters.
    pub(crate) balance: isize,
    /// Number of waiters that rely on servers that come to other lanes.
    pub(crate) relying: usize,
    /// Moments since which the first of those that a server can help wait.
    pub(crate) heads: [Moment; HEADS_PUBLISHED],
}

impl Line {
    pub(crate) const EMPTY: Self = Self {
        count: 0,
        unmet: 0,
        unmet_since: Moment::NEVER,
        balance: 0,
        relying: 0,
        heads: [Moment::NEVER; HEADS_PUBLISHED],
    };

    pub(crate) fn head(&self) -> Moment {
        self.heads.first().copied().unwrap_or(Moment::NEVER)
    }
}
