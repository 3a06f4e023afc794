//! Hold: clients go on waiting while no host of their pool can be reached, because one of them has served before and is
//! likely to come back.

use std::time::Duration;

use super::Shared;
use crate::atomic::AtomicU64;
use crate::atomic::Ordering::SeqCst;
use crate::moment::Moment;
use crate::policy::Policy;

/// Longest pause between logins during a hold. PostgreSQL restarts within a second or two, and clients wait for it.
pub(crate) const HOLD_PAUSE_MAX: Duration = Duration::from_millis(200);

/// Answer to the question whether clients wait on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// A hold has begun just now, and lasts until this moment.
    Began(Moment),
    /// They wait on.
    Goes,
    /// They do not.
    No,
}

/// Hold of a pool.
#[derive(Debug)]
pub(super) struct Holding {
    /// When clients stop waiting for the end of the present outage; 0 = there is none.
    until: AtomicU64,
    /// When the present outage began, for the log.
    since: AtomicU64,
    /// When the last outage ended; 0 = there was none.
    ended: AtomicU64,
}

impl Holding {
    pub(super) const fn new() -> Self {
        Self {
            until: AtomicU64::new(0),
            since: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }
}

impl Shared {
    /// Decides whether clients wait on although every host fails: for `hold` from the first failure on, unless no login
    /// has ever succeeded at one of them, or the last outage ended less than `between_holds` ago.
    pub(crate) fn hold(&self, now: Moment, policy: &Policy) -> Hold {
        if policy.hold.is_zero() || !self.has_served() {
            return Hold::No;
        }
        let Holding {
            until,
            since,
            ended,
        } = &self.holding;
        let last = ended.load(SeqCst);
        let is_soon = last != 0 && now < Moment(last).plus(policy.between_holds);
        let end = if is_soon { now } else { now.plus(policy.hold) };
        match until.compare_exchange(0, end.0.max(1), SeqCst, SeqCst) {
            Ok(_) if is_soon => Hold::No,
            Ok(_) => {
                since.store(now.0, SeqCst);
                Hold::Began(end)
            }
            Err(end) if now.0 < end => Hold::Goes,
            Err(_) => Hold::No,
        }
    }

    /// Ends the outage, because a login has succeeded. Returns the moment at which it began, if clients were held.
    pub(crate) fn end_hold(&self, now: Moment) -> Option<Moment> {
        let Holding {
            until,
            since,
            ended,
        } = &self.holding;
        if until.load(SeqCst) == 0 || until.swap(0, SeqCst) == 0 {
            return None;
        }
        ended.store(now.0, SeqCst);
        match since.swap(0, SeqCst) {
            0 => None,
            since => Some(Moment(since)),
        }
    }

    /// Forgets the outage: the pool has other hosts now, or the administrator knows that they are back.
    pub(super) fn forget_hold(&self) {
        self.holding.until.store(0, SeqCst);
        self.holding.ended.store(0, SeqCst);
    }

    /// Moment until which clients wait for a host that is gone; None if no host is. It may be over.
    #[must_use]
    pub fn held_until(&self) -> Option<Moment> {
        let until = self.holding.until.load(SeqCst);
        (until != 0).then_some(Moment(until))
    }

    /// Lets the hosts count as if they had served: the process before this one has used them.
    pub fn trust_hosts(&self) {
        for gate in self.hosts().gates() {
            gate.trust();
        }
    }

    fn has_served(&self) -> bool {
        let hosts = self.hosts();
        hosts.gates().iter().any(|gate| gate.has_served())
    }
}
