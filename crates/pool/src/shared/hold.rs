//! Hold: while no host of their pool can be reached and one of them has served before, logins are tried often, because it is
//! likely to come back. Clients that have waited through all of the hold fail at its end.

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
    /// A hold has ended just now: those who wait have waited for long enough.
    Ended,
    /// There is none.
    No,
}

/// Stands for the end of an outage's hold that is over, or that was none.
const OVER: u64 = 1;

/// Hold of a pool.
#[derive(Debug)]
pub(super) struct Holding {
    /// When clients stop waiting for the end of the present outage; 0 = there is none, [`OVER`] = they have stopped.
    until: AtomicU64,
    /// When the last hold ended without an answer of a host; 0 = none did.
    gave_up: AtomicU64,
    /// When the present outage began, for the log.
    since: AtomicU64,
    /// When the last outage ended; 0 = there was none.
    ended: AtomicU64,
}

impl Holding {
    pub(super) const fn new() -> Self {
        Self {
            until: AtomicU64::new(0),
            gave_up: AtomicU64::new(0),
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
            gave_up,
            since,
            ended,
        } = &self.holding;
        let last = ended.load(SeqCst);
        let is_soon = last != 0 && now < Moment(last).plus(policy.between_holds);
        let end = match is_soon {
            true => OVER,
            false => now.plus(policy.hold).0.max(OVER + 1),
        };
        match until.compare_exchange(0, end, SeqCst, SeqCst) {
            Ok(_) if is_soon => Hold::No,
            Ok(_) => {
                since.store(now.0, SeqCst);
                Hold::Began(Moment(end))
            }
            Err(end) if now.0 < end => Hold::Goes,
            Err(OVER) => Hold::No,
            Err(end) => match until.compare_exchange(end, OVER, SeqCst, SeqCst) {
                Ok(_) => {
                    gave_up.store(now.0, SeqCst);
                    Hold::Ended
                }
                // Another lane has ended it, or a host is back.
                Err(_) => Hold::No,
            },
        }
    }

    /// Moment at which the last hold ended without an answer of a host. Who has waited since before then has waited for
    /// long enough.
    pub(crate) fn gave_up(&self) -> Moment {
        Moment(self.holding.gave_up.load(SeqCst))
    }

    /// Ends the outage, because a login has succeeded. Returns the moment at which it began, if clients were held.
    pub(crate) fn end_hold(&self, now: Moment) -> Option<Moment> {
        let Holding {
            until,
            gave_up,
            since,
            ended,
        } = &self.holding;
        if until.load(SeqCst) == 0 || until.swap(0, SeqCst) == 0 {
            return None;
        }
        ended.store(now.0, SeqCst);
        // A lane that has not failed its waiters yet serves them.
        gave_up.store(0, SeqCst);
        match since.swap(0, SeqCst) {
            0 => None,
            since => Some(Moment(since)),
        }
    }

    /// Forgets the outage: the pool has other hosts now, or the administrator knows that they are back.
    pub(super) fn forget_hold(&self) {
        self.holding.until.store(0, SeqCst);
        self.holding.gave_up.store(0, SeqCst);
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
