//! Enumerations of the options about databases with several hosts: roles, targets, read/write split, consistency.

use std::fmt;

use crate::options::Field;
use crate::types::enumeration;
use crate::value::Value;

enumeration! {
    /// Role that a host may have (`role` of a host).
    HostRole {
        /// Either; the host itself is asked.
        #[default]
        Auto = "auto",
        /// The primary only: the host takes no statement while it is in recovery.
        Primary = "primary",
        /// A replica only: the host takes no writes, even if it was promoted.
        Replica = "replica",
    }
}

enumeration! {
    /// Hosts on which the sessions of a database may run (`target`). Names as in libpq's `target_session_attrs`.
    Target {
        /// Any host.
        Any = "any",
        /// A host that accepts writes. The split may send reads to replicas.
        #[default]
        ReadWrite = "read-write",
        /// A host that accepts no writes.
        ReadOnly = "read-only",
        /// The primary only.
        Primary = "primary",
        /// A replica only.
        Standby = "standby",
        /// A replica if one can be used, else the primary.
        PreferStandby = "prefer-standby",
    }
}

impl Target {
    /// True if sessions may run on the primary only.
    #[must_use]
    pub fn needs_primary(self) -> bool {
        matches!(self, Self::Primary | Self::ReadWrite)
    }

    /// True if sessions may run on replicas only.
    #[must_use]
    pub fn needs_replica(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Standby)
    }
}

enumeration! {
    /// Mode of the read/write split (`read_write_split`).
    ReadWriteSplit {
        /// Every statement runs on the host that `target` names.
        #[default]
        Off = "off",
        /// Transactions that say so run on replicas.
        Hint = "hint",
        /// Statements that are proved to read run on replicas.
        Auto = "auto",
    }
}

enumeration! {
    /// Host for a `BEGIN` that says nothing about its transaction (`split_begin`).
    SplitBegin {
        /// The primary.
        #[default]
        Conservative = "conservative",
        /// A replica, until the transaction's first write.
        UntilWrite = "until-write",
    }
}

enumeration! {
    /// Commits that a read on a replica must see (`read_consistency`).
    ReadConsistency {
        /// None in particular: the replica may be as old as `max_staleness` and `max_lag` allow.
        Eventual = "eventual",
        /// Commits of the same session.
        #[default]
        Session = "session",
        /// Commits of every client of this Weir.
        Global = "global",
        /// All of them: reads run on the primary.
        Primary = "primary",
    }
}

enumeration! {
    /// Treatment of a read if no replica can be used (`read_fallback`).
    ReadFallback {
        /// The read runs on the primary.
        #[default]
        Primary = "primary",
        /// The read fails.
        Error = "error",
    }
}

enumeration! {
    /// Choice between two hosts that both say that they are primary, if no third one decides (`split_brain`).
    SplitBrain {
        /// The host with the higher timeline.
        #[default]
        Newest = "newest",
        /// The host that was the primary before.
        Keep = "keep",
        /// Neither: writes are refused.
        Refuse = "refuse",
    }
}

enumeration! {
    /// Tool whose leader decides between two hosts that both say that they are primary (`fence`).
    Fence {
        /// None: the hosts' own answers decide.
        #[default]
        None = "none",
        /// Patroni, as `failover_hints` report its leader.
        Patroni = "patroni",
    }
}
