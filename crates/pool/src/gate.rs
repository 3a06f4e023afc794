//! Limits on new logins at one host: a cap on logins in progress, and back-off after failures.

use std::sync::Arc;
use std::time::Duration;

use crate::atomic::AtomicBool;
use crate::atomic::AtomicU32;
use crate::atomic::AtomicU64;
use crate::atomic::Ordering::SeqCst;
use crate::moment::HostId;
use crate::moment::Moment;
use crate::quota::Quota;
use crate::random::Random;

/// The pause after the first failed login; doubled by each further failure up to `login_retry`.
pub const LOGIN_BACKOFF_MIN: Duration = Duration::from_millis(50);

/// Maximum number of concurrent logins while the last one failed. More than one is allowed, because a login without an
/// answer must not keep Weir from noticing that the host is back.
pub const PROBES_MAX: usize = 4;

/// A PostgreSQL instance, shared by all pools that log in there.
///
/// After a failed login, a new one is tried after each pause, even if earlier ones have not ended, and few run at once.
/// So a host that comes back is found soon and is not overloaded (hazard COR-43). The back-off is per host, not per
/// pool; a wrong password concerns only its pool.
#[derive(Debug)]
pub struct HostGate {
    host: HostId,
    logins: Quota,
    /// No login starts before this moment; 0 = no pause.
    until: AtomicU64,
    /// Failures since the last success; logins that fail together count once.
    failures: AtomicU32,
    /// When the last of these failures was counted.
    failed_at: AtomicU64,
    /// The pause after that failure, in microseconds.
    pause: AtomicU64,
    /// When the host last answered a login, even with an error: it was reachable then.
    answered_at: AtomicU64,
    /// True if a login has ever succeeded there, in this process or in the one before.
    has_served: AtomicBool,
}

/// Reason for which the gate refuses a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateShut {
    Busy,
    Until(Moment),
}

impl HostGate {
    /// The gate of a host, which admits `logins_max` concurrent logins; 0 = unlimited.
    #[must_use]
    pub const fn new(host: HostId, logins_max: usize) -> Self {
        let logins = Quota::new(logins_max);
        Self {
            host,
            logins,
            until: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            failed_at: AtomicU64::new(0),
            pause: AtomicU64::new(0),
            answered_at: AtomicU64::new(0),
            has_served: AtomicBool::new(false),
        }
    }

    /// The host that the gate belongs to.
    #[must_use]
    pub const fn host(&self) -> HostId {
        self.host
    }

    /// The maximum number of concurrent logins; 0 = unlimited.
    #[must_use]
    pub fn logins_max(&self) -> usize {
        self.logins.max()
    }

    /// Changes the cap (reload); 0 = unlimited.
    pub fn set_logins_max(&self, logins_max: usize) {
        self.logins.set_max(logins_max);
    }

    /// Number of logins in progress.
    #[must_use]
    pub fn logins(&self) -> usize {
        self.logins.used()
    }

    /// Moment before which no login starts after a failure.
    #[must_use]
    pub fn closed_until(&self) -> Option<Moment> {
        let until = self.until.load(SeqCst);
        (until != 0).then_some(Moment(until))
    }

    /// Checks that a login could start now. If the gate is busy, marks it so that the end of a login is reported.
    pub(crate) fn look(&self, now: Moment) -> Result<(), GateShut> {
        self.peek(now).or_else(|shut| {
            if shut == GateShut::Busy {
                self.logins.starve();
            }
            self.peek(now)
        })
    }

    /// Starts a login.
    pub(crate) fn enter(self: &Arc<Self>, now: Moment) -> Result<Connecting, GateShut> {
        self.look(now)?;
        if self.try_take() {
            self.pace(now);
            return Ok(Connecting {
                gate: Some(Arc::clone(self)),
            });
        }
        self.logins.starve();
        if self.try_take() {
            self.pace(now);
            return Ok(Connecting {
                gate: Some(Arc::clone(self)),
            });
        }
        Err(GateShut::Busy)
    }

    fn try_take(&self) -> bool {
        let ceiling = if self.is_failing() {
            PROBES_MAX
        } else {
            usize::MAX
        };
        self.logins.try_take_below(ceiling)
    }

    /// Delays the next login while logins fail: it starts one pause after this one began.
    fn pace(&self, now: Moment) {
        if self.is_failing() {
            let pause = Duration::from_micros(self.pause.load(SeqCst));
            self.until.store(now.plus(pause).0, SeqCst);
        }
    }

    /// Records that a login begun at `started` failed for a reason that lies with the host.
    pub(crate) fn failed(
        &self,
        started: Moment,
        now: Moment,
        longest: Duration,
        random: &mut Random,
    ) {
        // Logins that began before the last failure was known fail together with it: that is one failure.
        let is_known = started.0 < self.failed_at.load(SeqCst);
        if self.failures.load(SeqCst) > 0 && is_known {
            return;
        }
        let failures = self.failures.fetch_add(1, SeqCst).min(20);
        let longest = longest.max(LOGIN_BACKOFF_MIN);
        let pause = LOGIN_BACKOFF_MIN.saturating_mul(1 << failures).min(longest);
        let pause = pause / 2 + random.up_to(pause / 2);
        let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        self.pause.store(micros, SeqCst);
        self.failed_at.store(now.0, SeqCst);
        self.until.store(now.plus(pause).0, SeqCst);
    }

    /// Records that the host answered a login, with success or an error.
    pub(crate) fn answered(&self, now: Moment) {
        self.answered_at.fetch_max(now.0, SeqCst);
    }

    /// True if the host has answered a login since this moment: results of earlier logins are out of date.
    pub(crate) fn has_answered_since(&self, moment: Moment) -> bool {
        self.answered_at.load(SeqCst) > moment.0
    }

    /// Records that a login succeeded. Returns true if that ends a series of failures.
    pub(crate) fn succeeded(&self) -> bool {
        self.trust();
        self.forgive()
    }

    /// Forgets the failures. Returns true if there were any.
    pub(crate) fn forgive(&self) -> bool {
        self.until.store(0, SeqCst);
        self.failures.swap(0, SeqCst) > 0
    }

    fn peek(&self, now: Moment) -> Result<(), GateShut> {
        let until = self.until.load(SeqCst);
        if now.0 < until {
            return Err(GateShut::Until(Moment(until)));
        }
        let busy = if self.is_failing() {
            self.logins.used() >= PROBES_MAX || !self.logins.has_room(0)
        } else {
            !self.logins.has_room(0)
        };
        if busy { Err(GateShut::Busy) } else { Ok(()) }
    }

    /// Lets the host count as one that has served: the process before this one has used it.
    pub(crate) fn trust(&self) {
        if !self.has_served.load(SeqCst) {
            self.has_served.store(true, SeqCst);
        }
    }

    /// True if a login has ever succeeded there.
    pub(crate) fn has_served(&self) -> bool {
        self.has_served.load(SeqCst)
    }

    /// True if the last login failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failures.load(SeqCst) > 0
    }
}

/// A login in progress. Ends with the login, whatever its outcome.
#[derive(Debug)]
#[must_use]
pub(crate) struct Connecting {
    gate: Option<Arc<HostGate>>,
}

impl Connecting {
    /// Ends the login. Returns true if a shard waits for the gate.
    pub(crate) fn release(mut self) -> bool {
        self.gate.take().is_some_and(|gate| gate.logins.give_back())
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.logins.give_back_silently();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_logins_fail_the_next_one_waits_a_pause_after_the_one_before_began() {
        let gate = Arc::new(HostGate::new(HostId(1), 4));
        let longest = Duration::from_secs(15);
        gate.failed(Moment(1), Moment(2), longest, &mut Random::new(1));
        let reopens = gate.closed_until().unwrap();
        let first = gate.enter(reopens).unwrap();
        let shut = gate.enter(reopens).unwrap_err();
        let GateShut::Until(next) = shut else {
            panic!("{shut:?}")
        };
        assert!(next > reopens);
        let second = gate.enter(next).unwrap();
        assert!(gate.succeeded(), "that ends the pauses");
        assert!(gate.enter(next).is_ok());
        drop((first, second));
    }
}
