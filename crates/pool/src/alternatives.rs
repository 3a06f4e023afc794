//! Hosts at which the servers of a pool may be, and logins that go from one of them to the next.

use std::sync::Arc;

use crate::atomic::AtomicUsize;
use crate::atomic::Ordering::Relaxed;
use crate::gate::Connecting;
use crate::gate::GateShut;
use crate::gate::HostGate;
use crate::moment::HostId;
use crate::moment::Moment;

/// Hosts of a pool, in the order in which logins try them: PgBouncer's `host=a,b,c`. Mostly there is one.
///
/// Each login is counted at the gate of the host that it tries at that moment, so a limit per host is exact however
/// many lists name the host. A host whose gate admits no login is passed over; a pool waits only if all its hosts
/// admit none.
#[derive(Debug)]
pub struct Alternatives {
    gates: Box<[Arc<HostGate>]>,
    /// Logins begin at each host in turn instead of at the first.
    spreads: bool,
    /// Number of logins begun, if they begin at each host in turn.
    begun: AtomicUsize,
}

impl Alternatives {
    /// Hosts that each login tries from the first one on.
    #[must_use]
    pub fn in_order(gates: impl IntoIterator<Item = Arc<HostGate>>) -> Self {
        let gates: Box<[_]> = gates.into_iter().collect();
        debug_assert!(!gates.is_empty(), "a pool has a host");
        Self {
            gates,
            spreads: false,
            begun: AtomicUsize::new(0),
        }
    }

    /// Hosts at which logins begin in turn.
    #[must_use]
    pub fn in_turn(gates: impl IntoIterator<Item = Arc<HostGate>>) -> Self {
        Self {
            spreads: true,
            ..Self::in_order(gates)
        }
    }

    /// The hosts, in order.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> {
        self.gates.iter().map(|gate| gate.host())
    }

    /// True if logins to the other list go to the same hosts, in the same order.
    #[must_use]
    pub fn equals(&self, other: &Self) -> bool {
        self.spreads == other.spreads && self.hosts().eq(other.hosts())
    }

    pub(crate) fn gates(&self) -> &[Arc<HostGate>] {
        &self.gates
    }

    /// Checks that a login could start now at one of the hosts. If gates are busy, marks them so that the end of a
    /// login is reported.
    pub(crate) fn look(&self, now: Moment) -> Result<(), GateShut> {
        let mut refusal = GateShut::Busy;
        for gate in &self.gates {
            match gate.look(now) {
                Ok(()) => return Ok(()),
                Err(shut) => refusal = refusal.sooner(shut),
            }
        }
        Err(refusal)
    }

    /// Starts a login at the first host that admits one.
    pub(crate) fn enter(self: &Arc<Self>, now: Moment) -> Result<Box<Login>, GateShut> {
        let first = match self.spreads {
            true => self.begun.fetch_add(1, Relaxed),
            false => 0,
        };
        self.enter_from(first, self.gates.len(), now)
    }

    /// Starts a login at the first of `count` hosts from place `first` on that admits one.
    fn enter_from(
        self: &Arc<Self>,
        first: usize,
        count: usize,
        now: Moment,
    ) -> Result<Box<Login>, GateShut> {
        let mut refusal = GateShut::Busy;
        let gates = self.gates.iter().cycle();
        let gates = gates.skip(first % self.gates.len().max(1)).take(count);
        for (passed, gate) in gates.enumerate() {
            match gate.enter(now) {
                Ok(connecting) => {
                    return Ok(Box::new(Login {
                        alternatives: Arc::clone(self),
                        gate: Arc::clone(gate),
                        next: first.wrapping_add(passed + 1),
                        left: count - passed - 1,
                        since: now,
                        connecting,
                    }));
                }
                Err(shut) => refusal = refusal.sooner(shut),
            }
        }
        Err(refusal)
    }
}

impl GateShut {
    /// Returns the refusal that ends first. The end of a busy gate is reported, so a moment counts more.
    fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Until(one), Self::Until(two)) => Self::Until(one.min(two)),
            (Self::Until(moment), Self::Busy) | (Self::Busy, Self::Until(moment)) => {
                Self::Until(moment)
            }
            (Self::Busy, Self::Busy) => Self::Busy,
        }
    }
}

/// A login in progress: a place at the gate of the host that it tries, and the hosts that are left.
#[derive(Debug)]
pub(crate) struct Login {
    alternatives: Arc<Alternatives>,
    gate: Arc<HostGate>,
    /// Place of the next host in the list.
    next: usize,
    /// Number of hosts from there on that this login may still try.
    left: usize,
    /// Moment at which the host of `gate` was first tried.
    pub(crate) since: Moment,
    connecting: Connecting,
}

impl Login {
    /// The gate of the host that is tried now.
    pub(crate) const fn gate(&self) -> &Arc<HostGate> {
        &self.gate
    }

    /// Goes on to the next host that admits a login, if there is one. Returns the login at the host before, which the
    /// caller ends.
    pub(crate) fn advance(&mut self, now: Moment) -> Option<Self> {
        let next = self.alternatives.enter_from(self.next, self.left, now);
        next.ok().map(|next| std::mem::replace(self, *next))
    }

    /// Ends the login. Returns true if a shard waits for the gate.
    pub(crate) fn release(self) -> bool {
        self.connecting.release()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::random::Random;

    const RETRY: Duration = Duration::from_secs(15);

    fn gates(count: u32) -> Vec<Arc<HostGate>> {
        let gates = (0..count).map(|host| Arc::new(HostGate::new(HostId(host), 1)));
        gates.collect()
    }

    fn hosts(alternatives: &Arc<Alternatives>, logins: usize) -> Vec<u32> {
        let begin = || alternatives.enter(Moment(1)).unwrap().gate().host().0;
        (0..logins).map(|_| begin()).collect()
    }

    #[test]
    fn logins_begin_at_the_first_host_or_at_each_in_turn() {
        let list = Arc::new(Alternatives::in_order(gates(3)));
        assert_eq!(hosts(&list, 4), [0, 0, 0, 0]);
        let list = Arc::new(Alternatives::in_turn(gates(3)));
        assert_eq!(hosts(&list, 4), [0, 1, 2, 0]);
    }

    #[test]
    fn a_host_that_admits_no_login_is_passed_over() {
        let gates = gates(3);
        let list = Arc::new(Alternatives::in_order(gates.clone()));
        gates[0].failed(Moment(1), Moment(1), RETRY, &mut Random::new(1));
        let at_second = list.enter(Moment(2)).unwrap();
        assert_eq!(at_second.gate().host(), HostId(1));
        let at_third = list.enter(Moment(2)).unwrap();
        assert_eq!(at_third.gate().host(), HostId(2));
        // The others are busy, and tell of their end; the moment has to be waited for.
        let reopens = gates[0].closed_until().unwrap();
        let shut = list.enter(Moment(2)).unwrap_err();
        assert_eq!(shut, GateShut::Until(reopens));
        assert_eq!(list.look(Moment(2)), Err(shut));
        assert!(at_second.release(), "a login waits for the gate");
        assert_eq!(list.look(Moment(2)), Ok(()));
    }

    #[test]
    fn a_login_tries_each_host_once_and_holds_a_place_at_one() {
        let gates = gates(3);
        let list = Arc::new(Alternatives::in_turn(gates.clone()));
        let places = || -> Vec<usize> { gates.iter().map(|gate| gate.logins()).collect() };
        drop(list.enter(Moment(1)));
        let mut login = list.enter(Moment(1)).unwrap();
        let mut seen = vec![(login.gate().host().0, places())];
        while let Some(before) = login.advance(Moment(2)) {
            before.release();
            seen.push((login.gate().host().0, places()));
        }
        let one_each = [(1, vec![0, 1, 0]), (2, vec![0, 0, 1]), (0, vec![1, 0, 0])];
        assert_eq!(seen, one_each);
        drop(login);
        assert_eq!(places(), [0, 0, 0]);
    }
}
