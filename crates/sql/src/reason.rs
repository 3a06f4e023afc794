//! Reasons for which the state of a session cannot move to another server.

use std::fmt;

/// Reason for which state cannot move, or kind of state that a transaction may have left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A session advisory lock (manual 9.28.10).
    AdvisoryLock,
    /// A cursor WITH HOLD.
    Cursor,
    /// A function with effects on the session that the server cannot report: one that the administrator lists, or a
    /// built-in one such as `dblink_connect`.
    Function,
    /// A library that LOAD has loaded, or a setting that a library would remove when it is loaded.
    Library,
    /// LISTEN.
    Listen,
    /// A statement prepared by SQL's PREPARE.
    Prepared,
    /// The seed of `random()`.
    Seed,
    /// Values that `currval` and `lastval` return.
    Sequence,
    /// A setting whose name is unknown: the server does not list settings that no extension defines.
    Setting,
    /// A temporary table, view, sequence, function or type.
    TemporaryObject,
    /// A text that could not be understood.
    Unknown,
}

impl Reason {
    /// All reasons, in alphabetical order.
    pub const ALL: [Self; 11] = [
        Self::AdvisoryLock,
        Self::Cursor,
        Self::Function,
        Self::Library,
        Self::Listen,
        Self::Prepared,
        Self::Seed,
        Self::Sequence,
        Self::Setting,
        Self::TemporaryObject,
        Self::Unknown,
    ];

    /// Returns the words for SHOW CLIENTS and the log.
    pub const fn words(self) -> &'static str {
        match self {
            Self::AdvisoryLock => "advisory lock",
            Self::Cursor => "cursor with hold",
            Self::Function => "function",
            Self::Library => "load",
            Self::Listen => "listen",
            Self::Prepared => "prepare",
            Self::Seed => "seed",
            Self::Sequence => "sequence",
            Self::Setting => "setting of an unknown name",
            Self::TemporaryObject => "temporary object",
            Self::Unknown => "unknown",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of reasons.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Reasons(u16);

impl Reasons {
    /// Empty set.
    pub const EMPTY: Self = Self(0);

    /// Creates a set of one reason.
    pub const fn of(reason: Reason) -> Self {
        Self(reason.bit())
    }

    /// Adds a reason.
    pub const fn insert(&mut self, reason: Reason) {
        self.0 |= reason.bit();
    }

    /// Removes a reason.
    pub const fn remove(&mut self, reason: Reason) {
        self.0 &= !reason.bit();
    }

    /// True if the set contains the reason.
    pub const fn contains(self, reason: Reason) -> bool {
        self.0 & reason.bit() != 0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the reasons in alphabetical order.
    pub fn iter(self) -> impl Iterator<Item = Reason> {
        Reason::ALL
            .into_iter()
            .filter(move |reason| self.contains(*reason))
    }
}

impl fmt::Debug for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<Reason> for Reasons {
    fn from_iter<I: IntoIterator<Item = Reason>>(reasons: I) -> Self {
        reasons
            .into_iter()
            .fold(Self::EMPTY, |all, one| all.union(Self::of(one)))
    }
}
