//! Snapshot and events of hosts: shows what was decided, and tells what has changed.

use std::sync::Arc;
use std::time::Duration;

use weir_pool::Moment;

use crate::event::Barred;
use crate::event::Event;
use crate::facts::Follows;
use crate::identity::Identity;
use crate::member::Member;
use crate::pace;
use crate::position::Positions;
use crate::samples::Samples;
use crate::snapshot::HostView;
use crate::snapshot::Role;
use crate::snapshot::Snapshot;
use crate::snapshot::State;
use crate::snapshot::Writes;
use crate::watch::Watch;

impl Watch {
    /// Judges all hosts and replaces the snapshot if anything changed.
    pub(super) fn publish(&mut self, now: Moment) {
        let reference = self.reference();
        for member in &mut self.members {
            member.judge(now, &self.rules, &self.flushed, reference);
        }
        self.find_outliers(now);
        let outliers = self.outliers(now);
        for host in 0..self.members.len() {
            self.show(now, host, reference);
        }
        let views = self.members.iter().enumerate();
        let hosts: Vec<HostView> = views
            .map(|(host, member)| self.view(now, member, reference, outliers.contains(&host)))
            .collect();
        let positions = Positions {
            timeline: self.term.map_or(0, |term| term.elected.timeline),
            flushed: Arc::clone(&self.flushed),
            inserted: Arc::clone(&self.inserted),
        };
        let last = &self.snapshot;
        let is_same = last.writes == self.writes
            && last.writes_since == self.writes_since
            && last.positions == positions
            && last.hosts == hosts;
        if !is_same {
            self.snapshot = Arc::new(Snapshot {
                number: last.number.saturating_add(1),
                writes: self.writes,
                writes_since: self.writes_since,
                positions,
                hosts,
            });
        }
    }

    /// Compares the last probe of each host with those of the others.
    fn find_outliers(&mut self, now: Moment) {
        let times: Vec<Option<Duration>> = self
            .members
            .iter()
            .map(|member| member.pace.probe_time().filter(|_| member.is_answering()))
            .collect();
        for (host, member) in self.members.iter_mut().enumerate() {
            let others = times.iter().enumerate().filter(|(other, _)| *other != host);
            let median = pace::median(others.filter_map(|(_, time)| *time).collect());
            member.pace.compare(now, median);
        }
    }

    /// Returns the replicas with half their weight: those that have been slow longest, at most half of all that are up.
    fn outliers(&self, now: Moment) -> Vec<usize> {
        let members = self.members.iter().enumerate();
        let replicas = members
            .filter(|(_, member)| member.is_answering() && member.facts.role() == Role::Replica);
        let (mut slow, mut count) = (Vec::new(), 0);
        for (host, member) in replicas {
            count += 1;
            slow.extend(member.pace.outlier_since(now).map(|since| (since, host)));
        }
        slow.sort_unstable();
        slow.truncate(count / 2);
        slow.into_iter().map(|(_, host)| host).collect()
    }

    /// Notes what the snapshot will show of a host, and tells what is new.
    fn show(&mut self, now: Moment, host: usize, reference: Option<u32>) {
        let is_pending = self.is_pending();
        let Some(member) = self.members.get_mut(host) else {
            return;
        };
        let (role, state) = (member.facts.role(), member.state(reference));
        let before = (member.shown.role, member.shown.state);
        if (role, state) != before {
            member.shown.role = role;
            member.shown.state = state;
            member.shown.since = now;
        }
        let is_first = before.1 == State::Unknown && state == State::Up;
        if state != before.1 && !is_first {
            let why = matches!(state, State::Down | State::Refusing);
            self.events.push(Event::State {
                host: Arc::clone(&member.host.name),
                state,
                why: member.last_error.clone().filter(|_| why),
            });
        }
        if role != Role::Replica || state != State::Up {
            member.shown.reads = None;
            return;
        }
        let barred = member.barred(reference);
        let had = member.shown.reads;
        if is_pending || had == Some(barred.is_none()) {
            return;
        }
        member.shown.reads = Some(barred.is_none());
        // Before its first reads a replica has to prove its lag, which is no event.
        if had.is_some() || !matches!(barred, Some(Barred::Lag { .. })) {
            self.events.push(Event::Reads {
                host: Arc::clone(&member.host.name),
                barred,
            });
        }
    }

    /// True while it is not known which hosts belong to the cluster.
    fn is_pending(&self) -> bool {
        !self.is_settled() || self.identity == Identity::Disputed
    }

    fn view(
        &self,
        now: Moment,
        member: &Member,
        reference: Option<u32>,
        is_outlier: bool,
    ) -> HostView {
        let (role, state) = (member.shown.role, member.shown.state);
        let is_writer = self.writes == Writes::To(member.host.id);
        let is_up = state == State::Up;
        let is_allowed = member.host.reads && member.host.weight > 0;
        let takes_reads = is_up
            && !self.is_pending()
            && match role {
                Role::Primary => is_writer && is_allowed,
                Role::Replica => member.shown.reads == Some(true),
                Role::Unknown => false,
            };
        let follows = member.facts.follows(reference) == Follows::Primary;
        let replayed = member.facts.proven().filter(|_| is_up && follows);
        let fresh = |samples: &Samples| {
            if is_writer && is_up {
                return Moment::NEVER;
            }
            replayed
                .and_then(|proven| samples.replayed(proven))
                .map_or(Moment(0), |sample| sample.sent)
        };
        let full = member.host.weight;
        let weight = member.pace.weight(now, full, self.rules.slow_start);
        HostView {
            host: member.host.id,
            name: Arc::clone(&member.host.name),
            az: Arc::clone(&member.host.az),
            role,
            state,
            since: member.shown.since,
            generation: member.facts.generation(),
            timeline: member.facts.timeline(),
            fresh_to: fresh(&self.flushed),
            fresh_to_async: fresh(&self.inserted),
            replayed,
            lag_bytes: member.lag.bytes,
            lag: member.lag.age.known(),
            takes_reads,
            weight: if is_outlier {
                (weight / 2).max(weight.min(1))
            } else {
                weight
            },
            probe_time: member.pace.probe_time(),
            last_error: member.last_error.clone(),
        }
    }
}
