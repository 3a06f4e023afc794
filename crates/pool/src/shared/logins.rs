//! Hosts of a pool, and the effects that logins there have on all lanes.

use std::sync::Arc;
use std::sync::PoisonError;

use super::Connected;
use super::Shared;
use crate::alternatives::Alternatives;
use crate::atomic::Ordering::Relaxed;
use crate::atomic::Ordering::SeqCst;
use crate::gate::HostGate;
use crate::moment::Moment;

/// Number of servers that come to a lane and that none of its waiters needs.
pub(crate) fn surplus(balance: isize, deliveries: usize) -> usize {
    usize::try_from(balance.saturating_add_unsigned(deliveries)).unwrap_or(0)
}

impl Shared {
    /// Number of servers that come to other lanes, from logins or other lanes, and that none of the waiters there needs.
    pub(crate) fn spare_elsewhere(&self, own: usize) -> usize {
        let (mut spare, mut relying) = (0, 0);
        for (number, lane) in self.others(own) {
            let balance = lane.waiting.0.balance.load(SeqCst);
            spare += surplus(balance, self.deliveries(number));
            relying += lane.waiting.0.relying.load(SeqCst);
        }
        spare.saturating_sub(relying)
    }

    /// Replaces the hosts of the pool (reload); does nothing if they are the same. Failures at the hosts before say
    /// nothing of others: clients wait again. Lanes use the new hosts after [`set_policy`], which the engine calls
    /// together with whatever else changes for their servers.
    ///
    /// [`set_policy`]: crate::Shard::set_policy
    pub fn set_hosts(&self, hosts: Alternatives) {
        let mut current = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        if current.equals(&hosts) {
            return;
        }
        *current = Arc::new(hosts);
        self.forget_hold();
        self.unreachable_at.store(0, SeqCst);
        self.failing_until.store(0, SeqCst);
        self.rejected_until.store(0, SeqCst);
    }

    /// The hosts of the pool.
    #[must_use]
    pub fn hosts(&self) -> Arc<Alternatives> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&hosts)
    }

    /// Moment until which no login to any host starts; None if the last login to one of them succeeded.
    #[must_use]
    pub fn host_closed_until(&self) -> Option<Moment> {
        let hosts = self.hosts();
        let mut earliest = Moment::NEVER;
        for gate in hosts.gates() {
            earliest = earliest.min(gate.closed_until()?);
        }
        Some(earliest)
    }

    /// Forgets failed logins: the administrator has changed something, or knows that the hosts are back.
    pub fn forgive(&self) {
        self.unreachable_at.store(0, SeqCst);
        self.failing_until.store(0, SeqCst);
        self.rejected_until.store(0, SeqCst);
        for gate in self.hosts().gates() {
            gate.forgive();
        }
    }

    // === logins ===

    /// True if new clients fail fast: a login failed, and no server is left to wait for.
    pub(crate) fn is_failing(&self, now: Moment) -> bool {
        now.0 < self.failing_until.load(SeqCst) && !self.has_lasting() && !self.is_host_back()
    }

    /// True if the host was out of reach and has answered since, even if only to say that it is starting up. Clients
    /// wait again then. A login that was rejected for good (a password, a missing database) still counts.
    fn is_host_back(&self) -> bool {
        let at = self.unreachable_at.load(SeqCst);
        let has_answered = |gate: &Arc<HostGate>| gate.has_answered_since(Moment(at));
        at != 0 && self.hosts().gates().iter().any(has_answered)
    }

    pub(crate) fn rejected_until(&self) -> Moment {
        Moment(self.rejected_until.load(SeqCst))
    }

    pub(crate) fn make_obsolete(&self, before: Moment) {
        self.obsolete_before.fetch_max(before.0, SeqCst);
    }

    /// Records that a host answered a login with "not now": clients wait again.
    pub(crate) fn host_is_back(&self, gate: &HostGate, now: Moment) {
        gate.answered(now);
        if self.unreachable_at.swap(0, SeqCst) != 0 {
            self.failing_until.store(0, SeqCst);
        }
    }

    /// Makes clients fail fast, because a login was rejected for good.
    pub(crate) fn set_failing(&self, until: Moment) {
        self.unreachable_at.store(0, SeqCst);
        self.failing_until.store(until.0, SeqCst);
    }

    /// Makes clients fail fast until the host answers a login.
    pub(crate) fn set_unreachable(&self, now: Moment, until: Moment) {
        // A host that rejects logins answers them too, so only a successful login clears an earlier rejection.
        if now.0 >= self.rejected_until.load(SeqCst) {
            self.unreachable_at.store(now.0, SeqCst);
        }
        self.failing_until.store(until.0, SeqCst);
    }

    pub(crate) fn set_rejected(&self, until: Moment) {
        self.rejected_until.store(until.0, SeqCst);
    }

    /// Records a login that was not rejected. The flag is true if that ends a pause that other shards are waiting out.
    pub(crate) fn login_succeeded(self: &Arc<Self>, started: Moment) -> (Connected, bool) {
        self.failing_until.store(0, SeqCst);
        let was_rejected = self.rejected_until.swap(0, SeqCst) != 0;
        self.connected.fetch_add(1, SeqCst);
        *self.ages().entry(started).or_default() += 1;
        (
            Connected {
                shared: Arc::clone(self),
                started,
            },
            was_rejected,
        )
    }

    pub(crate) fn obsolete_before(&self) -> Moment {
        Moment(self.obsolete_before.load(Relaxed))
    }
}
