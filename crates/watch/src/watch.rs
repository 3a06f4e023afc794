//! Watch of one database: takes answers and failures of probes, decides, and publishes snapshots.

mod decide;
mod leader;
mod publish;
mod schedule;
mod tell;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use weir_pool::Moment;

use crate::answer::Answer;
use crate::answer::Position;
use crate::election;
use crate::event::Event;
use crate::event::Events;
use crate::facts::Change;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::member::Exclusion;
use crate::member::Member;
use crate::member::Probe;
use crate::rules::Host;
use crate::rules::Rules;
use crate::samples::Sample;
use crate::samples::Samples;
use crate::snapshot::Role;
use crate::snapshot::Snapshot;
use crate::snapshot::Writes;
use crate::watch::leader::Leaders;
use crate::watch::schedule::Haste;

/// Watch of the hosts of one database.
///
/// - World to us: [`handle_answer`](Self::handle_answer), [`handle_failure`](Self::handle_failure).
/// - Commands: [`suspect`](Self::suspect), [`wrote`](Self::wrote), [`hear_leader`](Self::hear_leader),
///   [`forget_leader`](Self::forget_leader).
/// - Us to world: [`poll_probe`](Self::poll_probe) until it returns none, then [`poll_event`](Self::poll_event) until it
///   returns none, then [`snapshot`](Self::snapshot). The caller calls again at [`next_probe`](Self::next_probe).
#[derive(Debug)]
pub struct Watch {
    rules: Rules,
    members: Vec<Member>,
    identity: Identity,
    term: Option<Term>,
    /// Time since which hosts contradict each other.
    contested_since: Option<Moment>,
    writes: Writes,
    writes_since: Moment,
    // Shared with snapshots; a sample copies what the last snapshot has.
    flushed: Arc<Samples>,
    inserted: Arc<Samples>,
    leaders: Leaders,
    haste: Haste,
    events: Events,
    snapshot: Arc<Snapshot>,
}

/// Term of the host that was elected last. It lasts while the host has the same life and timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    elected: election::Incumbent,
    /// Start time of its postmaster.
    started: Option<i64>,
    /// Samples that were sent earlier do not count.
    from: Moment,
}

impl Watch {
    /// Creates the watch of some hosts. All of them are to be probed now.
    #[must_use]
    pub fn new(rules: Rules, hosts: Vec<Host>, now: Moment) -> Self {
        let members = hosts.into_iter().map(|host| Member::new(host, now));
        let mut watch = Self {
            rules,
            members: members.collect(),
            identity: Identity::Unknown,
            term: None,
            contested_since: None,
            writes: Writes::Unknown,
            writes_since: now,
            flushed: Arc::default(),
            inserted: Arc::default(),
            leaders: Leaders::default(),
            haste: Haste::new(now),
            events: Events::default(),
            snapshot: Arc::default(),
        };
        watch.publish(now);
        watch
    }

    /// Takes the answer of a host to the probe that was ordered last.
    ///
    /// `host` is an index from [`poll_probe`](Self::poll_probe); `sent` is a time between that order and the moment at
    /// which the statement was given to the socket. Answers to earlier orders, and second answers, are ignored.
    pub fn handle_answer(&mut self, now: Moment, host: usize, sent: Moment, answer: &Answer) {
        let (reference, rise) = (self.reference(), self.rules.rise);
        let Some(member) = self.members.get_mut(host) else {
            return;
        };
        let Probe::UnderWay(ordered) = member.probe else {
            return;
        };
        if sent < ordered {
            return;
        }
        // A time in the future would claim commits that the sample has not seen.
        let sent = sent.min(now);
        member.probe = Probe::Idle(Some(ordered));
        let was_read_only = member.facts.answer().is_some_and(|it| it.is_read_only);
        member.pace.probed(now.since(sent));
        let change = member.answered(now, answer, reference, rise);
        if change != Change::None {
            self.changed(host);
        }
        self.decide(now);
        self.sample(host, sent, answer, was_read_only);
        self.publish(now);
    }

    /// Takes the failure of a host's probe, or of the connection on which it is probed.
    pub fn handle_failure(&mut self, now: Moment, host: usize, failure: &Failure) {
        let fall = self.rules.fall;
        let Some(member) = self.members.get_mut(host) else {
            return;
        };
        if !member.is_news(failure.kind) {
            return;
        }
        if let Probe::UnderWay(ordered) = member.probe {
            member.probe = Probe::Idle(Some(ordered));
        }
        let before = member.vitals.health();
        let was_answering = member.failed(failure, fall);
        if was_answering || member.vitals.health() != before {
            self.haste.suspect(now);
        }
        self.decide(now);
        self.publish(now);
    }

    /// Suspects that a host has failed or changed its role: a client's server said 57P01, 57P02 or 25006 or died, or a
    /// hint came from outside. All hosts are probed now, and often for a while.
    pub fn suspect(&mut self, now: Moment) {
        self.haste.suspect(now);
    }

    /// Notes that a session committed at `now`. The primary is sampled as soon as [`DIRTY_INTERVAL`] allows, then the
    /// replicas are, until they have replayed a sample that was sent later.
    ///
    /// [`DIRTY_INTERVAL`]: crate::DIRTY_INTERVAL
    pub fn wrote(&mut self, now: Moment) {
        self.haste.wrote(now);
    }

    /// Returns the next change that an operator should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Returns the newest snapshot: the same until something changed.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    /// True once every host had a first result. Before, no host is elected, because the next one may contradict it.
    fn is_settled(&self) -> bool {
        self.members.iter().all(|member| member.is_heard)
    }

    /// Timeline that standbys must follow: the one of the last primary; if none was elected, the highest of all standbys.
    fn reference(&self) -> Option<u32> {
        if let Some(term) = self.term {
            return Some(term.elected.timeline);
        }
        let standbys = self.members.iter().filter(|member| {
            member.facts.role() == Role::Replica
                && member.facts.answer().is_some()
                && member.exclusion == Exclusion::None
        });
        standbys
            .map(|member| member.facts.timeline())
            .max()
            .filter(|&timeline| timeline > 0)
    }

    /// Adds a sample if this host is the primary in its term.
    fn sample(&mut self, host: usize, sent: Moment, answer: &Answer, was_read_only: bool) {
        let Some(term) = self.term.filter(|term| term.elected.host == host) else {
            return;
        };
        let Position::Primary {
            flushed,
            inserted,
            timeline,
        } = answer.position
        else {
            return;
        };
        let is_same = timeline == term.elected.timeline && term.started == Some(answer.started);
        if !is_same || sent < term.from {
            return;
        }
        Arc::make_mut(&mut self.flushed).push(Sample { sent, lsn: flushed });
        // Nothing is flushed before it is inserted; the two were read one after the other.
        let inserted = inserted.max(flushed);
        Arc::make_mut(&mut self.inserted).push(Sample {
            sent,
            lsn: inserted,
        });
        self.haste.sampled(sent);
        if answer.is_read_only != was_read_only {
            let (host, is_on) = (self.name(host), answer.is_read_only);
            self.events.push(Event::ReadOnly { host, is_on });
        }
    }
}
