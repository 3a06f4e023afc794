//! Counting for SHOW, and the invariants that tests and SHOW check.

use std::time::Duration;

use crate::moment::{Moment, ServerId};

use crate::shard::Entry;
use crate::shard::Shard;
use crate::shard::State;
use crate::shared::Shared;

/// Number of servers and waiters of one lane by state. Add up the lanes for `SHOW POOLS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `cl_waiting`: clients in the queue.
    pub cl_waiting: usize,
    /// `sv_active`: servers assigned to a client, including those about to move to another lane.
    pub sv_active: usize,
    /// `sv_idle`: servers ready for use.
    pub sv_idle: usize,
    /// `sv_used`: servers idle for longer than `check_delay`.
    pub sv_used: usize,
    /// `sv_tested`: servers running a check or reset query.
    pub sv_tested: usize,
    /// `sv_login`: servers logging in, including those about to begin.
    pub sv_login: usize,
    /// Servers being closed; PgBouncer has no column for them.
    pub closing: usize,
    /// `maxwait`: time for which the longest waiter has waited.
    pub maxwait: Duration,
}

/// Inconsistent counts: a defect of the pool, never of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A server is in state idle but not in the idle list, or the reverse.
    #[error("{listed} servers listed as idle, {idle} in state idle")]
    IdleList {
        /// Entries of the idle list.
        listed: usize,
        /// Servers in state idle.
        idle: usize,
    },
    /// An idle server and a waiter that may use it in one shard.
    #[error("{waiting} clients wait beside {idle} idle servers")]
    IdleBesideWaiters {
        /// Idle servers.
        idle: usize,
        /// Waiting clients.
        waiting: usize,
    },
    /// A server is in state kept but not in the list of kept servers, or the reverse.
    #[error("{listed} servers listed as kept, {kept} in state kept")]
    KeptList {
        /// Entries of the list.
        listed: usize,
        /// Servers in state kept.
        kept: usize,
    },
    /// Servers logging in do not match their count.
    #[error("{counted} logins counted, {found} found")]
    Logins {
        /// The running count.
        counted: usize,
        /// Servers in state connecting.
        found: usize,
    },
    /// The permits of all lanes do not add up to the places taken in the pool.
    #[error("lanes hold {held} permits, {used} places are taken")]
    Permits {
        /// Sum over the lanes and the servers in transit.
        held: usize,
        /// Places taken.
        used: usize,
    },
    /// The servers that are not being closed do not match their count.
    #[error("{counted} servers counted as staying, {found} found")]
    Staying {
        /// The running count.
        counted: usize,
        /// Servers of all lanes and in transit, without those being closed.
        found: usize,
    },
}

impl Shard {
    /// The counts of this lane.
    #[must_use]
    pub fn counts(&self, now: Moment) -> Counts {
        let mut counts = Counts {
            cl_waiting: self.waiting(),
            sv_login: self.tokens,
            maxwait: self.longest_wait(now),
            ..Counts::default()
        };
        for entry in self.servers.values() {
            match &entry.state {
                State::Active | State::Kept | State::Leaving(_) => counts.sv_active += 1,
                State::Closing => counts.closing += 1,
                State::Connecting(_) => counts.sv_login += 1,
                State::Idle if self.is_long_idle_entry(entry, now) => counts.sv_used += 1,
                State::Idle => counts.sv_idle += 1,
                State::Testing => counts.sv_tested += 1,
            }
        }
        counts
    }

    /// True if this server has been idle for longer than `check_delay`: `sv_used`.
    #[must_use]
    pub fn is_long_idle(&self, server: ServerId, now: Moment) -> bool {
        let entry = self.servers.get(&server);
        entry.is_some_and(|entry| self.is_long_idle_entry(entry, now))
    }

    /// True if this server has to be closed when it is released, because of RECONNECT or a reload.
    #[must_use]
    pub fn is_obsolete(&self, server: ServerId) -> bool {
        let entry = self.servers.get(&server);
        entry.is_some_and(|entry| self.is_obsolete_entry(entry))
    }

    fn is_long_idle_entry(&self, entry: &Entry, now: Moment) -> bool {
        matches!(entry.state, State::Idle) && now.since(entry.used_at) > self.policy.check_delay
    }

    /// Number of idle servers of this lane.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Number of permits held: servers of this lane in any state, and connects that the engine has not yet begun.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.servers.len() + self.tokens
    }

    /// Number of logins in progress on this lane, including connects that the engine has not yet begun.
    #[must_use]
    pub const fn connecting(&self) -> usize {
        self.connecting + self.tokens
    }

    /// Number of clients waiting on this lane.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Number of clients waiting on all lanes, other lanes' as last published.
    #[must_use]
    pub fn waiting_anywhere(&self) -> usize {
        self.waiting() + self.shared.waiting_beside(self.lane)
    }

    /// Time for which the longest waiter of this lane has waited; zero if no client waits.
    #[must_use]
    pub fn longest_wait(&self, now: Moment) -> Duration {
        self.queue
            .head_since()
            .map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Checks that this lane's counts are consistent. O(servers).
    pub fn check_invariant(&self) -> Result<(), Violation> {
        let idle = self.count(|state| matches!(state, State::Idle));
        if idle != self.idle.len() {
            return Err(Violation::IdleList {
                listed: self.idle.len(),
                idle,
            });
        }
        let is_usable = self.waiting() > 0 && self.next_for_waiters_here().is_some();
        if idle > 0 && is_usable && !self.policy.limits_assigned {
            return Err(Violation::IdleBesideWaiters {
                idle,
                waiting: self.waiting(),
            });
        }
        let kept = self.count(|state| matches!(state, State::Kept));
        if kept != self.kept.len() {
            return Err(Violation::KeptList {
                listed: self.kept.len(),
                kept,
            });
        }
        let found = self.count(|state| matches!(state, State::Connecting(_)));
        if found != self.connecting {
            return Err(Violation::Logins {
                counted: self.connecting,
                found,
            });
        }
        Ok(())
    }

    fn count(&self, wanted: fn(&State) -> bool) -> usize {
        let states = self.servers.values().map(|entry| &entry.state);
        states.filter(|state| wanted(state)).count()
    }
}

impl Shared {
    /// Checks that the counts of all lanes together are consistent. Exact only while no lane is at work.
    pub fn check(&self, shards: &[&Shard]) -> Result<(), Violation> {
        self.check_with(shards, 0)
    }

    /// Checks as [`Shared::check`] a pool that has this number of servers in annexes.
    pub fn check_with(&self, shards: &[&Shard], annexed: usize) -> Result<(), Violation> {
        for shard in shards {
            shard.check_invariant()?;
        }
        let held = shards.iter().map(|shard| shard.servers()).sum::<usize>() + self.in_transit();
        let used = self.servers();
        if !self.is_annex() && held + annexed != used {
            let held = held + annexed;
            return Err(Violation::Permits { held, used });
        }
        let closing = |shard: &&Shard| shard.count(|state| matches!(state, State::Closing));
        let found = held - shards.iter().map(closing).sum::<usize>();
        let counted = self.staying();
        if counted != found {
            return Err(Violation::Staying { counted, found });
        }
        Ok(())
    }
}
