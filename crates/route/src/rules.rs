//! Rules of a database's router, as the configuration gives them. Checked by the configuration, never here.

use std::fmt;
use std::time::Duration;

/// Hosts on which the sessions of a database entry may run (`target`). Names as in libpq's `target_session_attrs`.
///
/// `Primary`, `ReadOnly` and `Standby` are bounds that no session can leave. Under the others a session may ask for a
/// role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Any host for texts that read, else the primary.
    Any,
    /// The primary only.
    Primary,
    /// A replica if one qualifies, else the primary. A write on a replica fails there.
    PreferStandby,
    /// A host that accepts no writes: a replica. A write fails there.
    ReadOnly,
    /// A host that accepts writes: the primary. The split may send reads to replicas.
    #[default]
    ReadWrite,
    /// A replica only. A write fails there.
    Standby,
}

/// Mode of the read/write split (`read_write_split`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Statements that are proved to read go to replicas.
    Auto,
    /// Only transactions that say so go to replicas: READ ONLY, and hints.
    Hint,
    /// Everything goes to the host that `target` names. Hints count for nothing.
    #[default]
    Off,
}

/// Consistency of reads on replicas (`read_consistency`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// A replica may be as old as `max_staleness` and `max_lag` allow.
    Eventual,
    /// A read sees every commit that any client of this Weir had seen acknowledged before.
    Global,
    /// Reads go to the primary. If `target` allows replicas only, [`Self::Global`] is in force.
    Primary,
    /// A read sees every commit that its own session had seen acknowledged before.
    #[default]
    Session,
}

/// Destination of reads if no replica qualifies (`read_fallback`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The read fails.
    Error,
    /// The read goes to the primary.
    #[default]
    Primary,
}

/// Rules of a database's router, from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Hosts for sessions of this entry.
    pub target: Target,
    /// Mode of the split.
    pub split: Split,
    /// True if a bare BEGIN may begin on a replica and moves to the primary with the first write
    /// (`split_begin = until-write`).
    pub until_write: bool,
    /// Consistency of reads.
    pub consistency: Consistency,
    /// Time for which a read may wait for a replica that is fresh enough. A read that must not fall back to the primary
    /// waits as long for any replica.
    pub read_wait: Duration,
    /// Destination of reads of the split if no replica qualifies.
    pub fallback: Fallback,
    /// Maximum share of the primary's pool that is in use when such a read is let in, in percent; 100 = no limit.
    /// Smaller shares leave the rest to writes. Any share is rounded up to at least one server.
    pub fallback_max_share: u32,
    /// Time for which a request may wait for a primary.
    pub failover_hold: Duration,
    /// Maximum age of a replica's data, for explanations; none = unlimited. The watcher applies it.
    pub max_staleness: Option<Duration>,
    /// Maximum lag of a replica in bytes, for explanations; none = unlimited. The watcher applies it.
    pub max_lag: Option<u64>,
    /// True if a replica that may be too old may compare its position itself, in front of the batch.
    pub read_guard: bool,
    /// True if comments of texts may have hints. Whoever asks the router reads them.
    pub comment_hints: bool,
    /// Availability zone of this Weir; empty if none is configured.
    pub az: Box<str>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            target: Target::default(),
            split: Split::default(),
            until_write: false,
            consistency: Consistency::default(),
            read_wait: Duration::ZERO,
            fallback: Fallback::default(),
            fallback_max_share: 100,
            failover_hold: Duration::from_secs(60),
            max_staleness: None,
            max_lag: None,
            read_guard: false,
            comment_hints: false,
            az: Box::default(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Primary => "primary",
            Self::PreferStandby => "prefer-standby",
            Self::ReadOnly => "read-only",
            Self::ReadWrite => "read-write",
            Self::Standby => "standby",
        })
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Hint => "hint",
            Self::Off => "off",
        })
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eventual => "eventual",
            Self::Global => "global",
            Self::Primary => "primary",
            Self::Session => "session",
        })
    }
}
