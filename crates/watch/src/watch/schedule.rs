//! Schedule of probes: which host is due, and what makes it due sooner.
//!
//! Every wish shortens the pause after the last probe of a host, never below [`DIRTY_INTERVAL`]. So a host gets at most
//! 50 probes per second, however many clients report errors or commits.

use std::time::Duration;

use weir_pool::Moment;

use crate::member::Member;
use crate::member::Probe;
use crate::rules::DIRTY_INTERVAL;
use crate::rules::FAST_INTERVAL;
use crate::rules::SUSPECT_FOR;
use crate::snapshot::Role;
use crate::watch::Watch;

/// Shortest pause between two probes, whatever the configuration says.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Time after a commit for which replicas are probed at [`DIRTY_INTERVAL`] until they have replayed it.
const CHASE_FOR: Duration = Duration::from_secs(1);

/// Time after a commit for which they are probed at [`FAST_INTERVAL`].
const CHASE_SLOWLY_FOR: Duration = Duration::from_secs(5);

/// Reasons to probe sooner than the configuration says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Haste {
    /// End of the time in which all hosts are probed often.
    fast_until: Moment,
    /// Time of the last suspicion: each host is probed at least once after it.
    suspected: Moment,
    /// Time of the first commit that no sample bounds yet.
    dirty_from: Option<Moment>,
    /// Time of the last commit.
    wrote: Option<Moment>,
    /// Time at which a decision is due without any answer.
    wake: Moment,
}

impl Haste {
    pub(super) const fn new(now: Moment) -> Self {
        Self {
            fast_until: now,
            suspected: now,
            dirty_from: None,
            wrote: None,
            wake: Moment::NEVER,
        }
    }

    pub(super) fn suspect(&mut self, now: Moment) {
        self.suspected = self.suspected.max(now);
        self.hurry_until(now.plus(SUSPECT_FOR));
    }

    pub(super) fn hurry_until(&mut self, until: Moment) {
        self.fast_until = self.fast_until.max(until);
    }

    pub(super) fn wrote(&mut self, now: Moment) {
        self.dirty_from.get_or_insert(now);
        self.wrote = Some(self.wrote.map_or(now, |wrote| wrote.max(now)));
    }

    /// Notes a sample of the primary: it bounds all commits that were acknowledged before `sent`.
    pub(super) fn sampled(&mut self, sent: Moment) {
        if self.wrote.is_some_and(|wrote| wrote >= sent) {
            self.dirty_from = self.dirty_from.map(|from| from.max(sent));
        } else {
            self.dirty_from = None;
        }
    }

    /// Asks for a decision at `at`, unless that time has come.
    pub(super) fn wake_at(&mut self, now: Moment, at: Moment) {
        self.wake = if at > now { at } else { Moment::NEVER };
    }

    pub(super) const fn wake_never(&mut self) {
        self.wake = Moment::NEVER;
    }
}

impl Watch {
    /// Returns the index of a host to probe now. Its probe is under way until
    /// [`handle_answer`](Self::handle_answer) or [`handle_failure`](Self::handle_failure) is called for it.
    pub fn poll_probe(&mut self, now: Moment) -> Option<usize> {
        if now >= self.haste.wake {
            self.decide(now);
            self.publish(now);
        }
        let dues = (0..self.members.len()).filter_map(|host| Some((self.due(host)?, host)));
        let (due, host) = dues.min()?;
        let member = self.members.get_mut(host).filter(|_| due <= now)?;
        member.probe = Probe::UnderWay(now);
        Some(host)
    }

    /// Returns the time at which [`poll_probe`](Self::poll_probe) should be called next. After that has returned none,
    /// this is later than its `now`.
    #[must_use]
    pub fn next_probe(&self) -> Moment {
        let dues = (0..self.members.len()).filter_map(|host| self.due(host));
        dues.chain([self.haste.wake]).min().unwrap_or(Moment::NEVER)
    }

    /// Returns the time at which a host is to be probed; none while a probe is under way.
    fn due(&self, host: usize) -> Option<Moment> {
        let member = self.members.get(host)?;
        let last = match member.probe {
            Probe::Idle(None) => return Some(Moment(0)),
            Probe::Idle(Some(last)) => last,
            Probe::UnderWay(_) => return None,
        };
        let soonest = last.plus(DIRTY_INTERVAL);
        let interval = self.rules.probe_interval.max(INTERVAL_MIN);
        let mut due = last.plus(interval);
        let fast = last.plus(FAST_INTERVAL);
        if fast <= self.haste.fast_until {
            due = due.min(fast);
        }
        if self.haste.suspected >= last {
            due = due.min(soonest.max(self.haste.suspected));
        }
        let is_leader_to_be = member.is_answering() && self.is_leader_to_be(host, last);
        if member.vitals.is_returning() || is_leader_to_be {
            due = due.min(soonest);
        }
        let is_primary = self.term.is_some_and(|term| term.elected.host == host);
        let wish = if is_primary {
            self.due_sample(member, soonest)
        } else {
            self.due_chase(member, last)
        };
        Some(wish.map_or(due, |wish| due.min(wish)))
    }

    /// Returns the time at which the primary is to be sampled for the sake of freshness.
    fn due_sample(&self, member: &Member, soonest: Moment) -> Option<Moment> {
        if !member.is_answering() || member.facts.role() != Role::Primary {
            return None;
        }
        if self.flushed.newest().is_none() {
            return Some(soonest);
        }
        // A sample bounds only commits that were acknowledged before it was sent.
        let after = self.haste.dirty_from?.plus(Duration::from_micros(1));
        Some(after.max(soonest))
    }

    /// Returns the time at which a replica is to be asked if it has replayed the last commit.
    fn due_chase(&self, member: &Member, last: Moment) -> Option<Moment> {
        let is_in_use = member.facts.role() == Role::Replica && member.shown.reads == Some(true);
        if !member.is_answering() || !is_in_use {
            return None;
        }
        let wrote = self.haste.wrote?;
        let newest = self.flushed.newest()?;
        let fresh = self
            .flushed
            .replayed(member.facts.proven()?)
            .map_or(Moment(0), |sample| sample.sent);
        if fresh > wrote || fresh >= newest.sent {
            return None;
        }
        match last.since(wrote) {
            late if late < CHASE_FOR => Some(last.plus(DIRTY_INTERVAL)),
            late if late < CHASE_SLOWLY_FOR => Some(last.plus(FAST_INTERVAL)),
            _ => None,
        }
    }
}
