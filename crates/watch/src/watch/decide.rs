//! Decision who belongs to the cluster and who is the primary, and what follows from it.

use std::sync::Arc;

use weir_pool::Moment;

use crate::election;
use crate::election::Incumbent;
use crate::election::Patience;
use crate::election::Proof;
use crate::election::Ruling;
use crate::election::Says;
use crate::election::Seat;
use crate::event::Event;
use crate::identity;
use crate::identity::Identity;
use crate::member::Exclusion;
use crate::member::Member;
use crate::snapshot::Held;
use crate::snapshot::Role;
use crate::snapshot::Writes;
use crate::watch::Term;
use crate::watch::Watch;

impl Watch {
    /// Decides who belongs to the cluster and who is the primary.
    pub(super) fn decide(&mut self, now: Moment) {
        if !self.is_settled() {
            return;
        }
        self.identify();
        let mut seats: Vec<Seat> = self.members.iter().map(Member::seat).collect();
        let leader = self.leader_at(now);
        self.readmit(&mut seats, leader);
        let ruling = if self.identity == Identity::Disputed {
            Ruling::Contested
        } else {
            let before = self.term.map(|term| term.elected);
            election::elect(&seats, before, leader, self.patience(now))
        };
        if ruling == Ruling::Contested {
            let since = *self.contested_since.get_or_insert(now);
            self.haste.wake_at(now, since.plus(self.rules.hold));
        } else {
            self.contested_since = None;
            self.haste.wake_never();
        }
        match ruling {
            Ruling::Contested => self.set_writes(now, Writes::Held(Held::SplitBrain), |watch| {
                watch.split_brain(&seats)
            }),
            Ruling::Nobody => {
                self.set_writes(now, Writes::Held(Held::NoPrimary), Self::no_primary);
            }
            Ruling::Elected(elected, proof) => self.install(now, elected, proof, &seats),
        }
    }

    fn patience(&self, now: Moment) -> Patience {
        match self.contested_since {
            Some(since) if now >= since.plus(self.rules.hold) => {
                Patience::Over(self.rules.split_brain)
            }
            _ => Patience::Waits,
        }
    }

    /// Finds the cluster's identity and marks hosts of other clusters.
    fn identify(&mut self) {
        let tells = |member: &Member| {
            member.facts.answer()?;
            Some(identity::Member {
                system: member.facts.system()?,
                is_primary: member.facts.role() == Role::Primary,
            })
        };
        let told: Vec<_> = self.members.iter().filter_map(tells).collect();
        let before = self.identity;
        self.identity = self.identity.find(&told, self.members.len());
        let expected = self.identity.system();
        let is_new_dispute = self.identity == Identity::Disputed && before != Identity::Disputed;
        for member in &mut self.members {
            let (Some(system), Some(_)) = (member.facts.system(), member.facts.answer()) else {
                continue;
            };
            let was_foreign = member.exclusion == Exclusion::Foreign;
            let is_foreign = expected.is_some_and(|expected| expected != system);
            if is_foreign && !was_foreign || is_new_dispute {
                self.events.push(Event::Foreign {
                    host: Arc::clone(&member.host.name),
                    system,
                    expected,
                });
            }
            if is_foreign {
                member.exclusion = Exclusion::Foreign;
            } else if was_foreign {
                member.exclusion = Exclusion::None;
            }
        }
    }

    /// Admits a fenced host to the election again if there is a witness: its timeline is a later one, and a standby streams
    /// on it or a tool names the host as leader; or the host that won against it follows it. The host was made the primary
    /// again while nobody saw it in recovery.
    fn readmit(&self, seats: &mut [Seat], leader: Option<usize>) {
        let Some(elected) = self.term.map(|term| term.elected) else {
            return;
        };
        let winner = seats.get(elected.host).and_then(|seat| seat.says);
        for (host, member) in self.members.iter().enumerate() {
            let Some(timeline) = member.fenced_claim() else {
                continue;
            };
            let is_later = timeline > elected.timeline;
            let has_witness = election::witness(seats, timeline).is_some() || leader == Some(host);
            if (is_later && has_witness || winner == Some(Says::Streams(timeline)))
                && let Some(seat) = seats.get_mut(host)
            {
                seat.says = Some(Says::Primary(timeline));
            }
        }
    }

    /// Puts an elected host in force, and fences all others that say that they are the primary.
    fn install(&mut self, now: Moment, elected: Incumbent, proof: Proof, seats: &[Seat]) {
        let Some(member) = self.members.get_mut(elected.host) else {
            return;
        };
        member.exclusion = Exclusion::None;
        let (id, started) = (member.host.id, member.facts.started());
        if let (Some(system), false) = (
            member.facts.system(),
            matches!(self.identity, Identity::Fixed(_)),
        ) {
            self.identity = Identity::Fixed(system);
        }
        let before = self.term;
        let is_same = before.is_some_and(|it| it.elected == elected && it.started == started);
        if !is_same {
            self.begin_term(now, elected, started);
        }
        for claim in election::claims(seats) {
            if claim.host != elected.host {
                self.exclude(claim.host);
            }
        }
        let other = before
            .map(|it| it.elected)
            .filter(|it| it.host != elected.host);
        if let Some(other) = other {
            self.exclude(other.host);
        }
        let name = |watch: &Self, host| watch.name(host);
        let event = move |watch: &Self| Event::Primary {
            host: name(watch, elected.host),
            timeline: elected.timeline,
            before: other.map(|it| (name(watch, it.host), it.timeline)),
            why: watch.evidence(proof),
        };
        if self.writes == Writes::To(id) && !is_same {
            let event = event(self);
            self.events.push(event);
        }
        self.set_writes(now, Writes::To(id), event);
        self.tell_step_back(elected, before, seats);
    }

    /// Begins a term: what was proved by samples of another one counts no longer.
    fn begin_term(&mut self, now: Moment, elected: Incumbent, started: Option<i64>) {
        let from = if self.term.is_some() { now } else { Moment(0) };
        self.term = Some(Term {
            elected,
            started,
            from,
        });
        self.flushed = Arc::default();
        self.inserted = Arc::default();
        for member in &mut self.members {
            member.facts.drop_proven();
        }
        self.haste.suspect(now);
    }

    fn exclude(&mut self, host: usize) {
        if let Some(member) = self.members.get_mut(host)
            && member.exclusion == Exclusion::None
        {
            member.exclusion = Exclusion::Fenced;
        }
    }

    /// Changes the host that takes writes, and tells it if it is another one.
    fn set_writes(&mut self, now: Moment, writes: Writes, event: impl FnOnce(&Self) -> Event) {
        if self.writes == writes {
            return;
        }
        let event = event(self);
        self.events.push(event);
        self.writes = writes;
        self.writes_since = now;
        if matches!(writes, Writes::Held(_)) {
            self.haste.hurry_until(now.plus(self.rules.hold));
        }
        self.haste.suspect(now);
    }
}
