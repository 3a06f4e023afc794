//! Events about roles and writes, with the names of the hosts.

use std::sync::Arc;

use crate::election;
use crate::election::Incumbent;
use crate::election::Proof;
use crate::election::Says;
use crate::election::Seat;
use crate::event::Event;
use crate::event::Evidence;
use crate::event::Lost;
use crate::health::Health;
use crate::rules::Configured;
use crate::snapshot::Role;
use crate::watch::Term;
use crate::watch::Watch;

impl Watch {
    /// Tells that a host has another role or life than before.
    pub(super) fn changed(&mut self, host: usize) {
        let Some(member) = self.members.get(host) else {
            return;
        };
        let (name, role) = (Arc::clone(&member.host.name), member.facts.role());
        let configured = member.host.role;
        let timeline = member.facts.timeline();
        if role != member.shown.role {
            self.events.push(Event::Role {
                host: Arc::clone(&name),
                role,
                timeline,
            });
        }
        let is_wrong = matches!(
            (configured, role),
            (Configured::Primary, Role::Replica) | (Configured::Replica, Role::Primary)
        );
        if is_wrong {
            self.events.push(Event::Misconfigured {
                host: name,
                configured,
            });
        }
    }

    pub(super) fn name(&self, host: usize) -> Arc<str> {
        let member = self.members.get(host);
        member.map_or_else(|| "".into(), |member| Arc::clone(&member.host.name))
    }

    pub(super) fn evidence(&self, proof: Proof) -> Evidence {
        match proof {
            Proof::InRecovery => Evidence::InRecovery,
            Proof::Named => Evidence::Named,
            Proof::Only => Evidence::Only,
            Proof::Returned => Evidence::Returned,
            Proof::Rule(rule) => Evidence::Rule(rule),
            Proof::Silent => Evidence::Silent,
            Proof::Streams(standby) => Evidence::Streams(self.name(standby)),
        }
    }

    pub(super) fn split_brain(&self, seats: &[Seat]) -> Event {
        let claim = |claim: Incumbent| (self.name(claim.host), claim.timeline);
        Event::SplitBrain {
            claims: election::claims(seats).map(claim).collect(),
            hold: self.rules.hold,
        }
    }

    /// Warns if the timeline of the primary has gone back: below that of the last term, or, in the first one, below that of
    /// standbys.
    pub(super) fn tell_step_back(
        &mut self,
        elected: Incumbent,
        before: Option<Term>,
        seats: &[Seat],
    ) {
        let of_standby = |seat: &Seat| match seat.says {
            Some(Says::Standby(timeline) | Says::Streams(timeline)) => Some(timeline),
            Some(Says::Primary(_)) | None => None,
        };
        let known = match before {
            Some(term) => Some(term.elected.timeline),
            None => seats.iter().filter_map(of_standby).max(),
        };
        if let Some(known) = known.filter(|known| *known > elected.timeline) {
            self.events.push(Event::SetBack {
                host: self.name(elected.host),
                timeline: elected.timeline,
                known,
            });
        }
    }

    pub(super) fn no_primary(&self) -> Event {
        let lost = |term: Term| {
            let member = self.members.get(term.elected.host)?;
            let lost = match (member.vitals.health(), member.facts.role()) {
                (Health::Up, Role::Replica) => Lost::InRecovery,
                (Health::Up, _) => Lost::Unusable,
                _ => Lost::Failed(member.last_error.clone()),
            };
            Some((Arc::clone(&member.host.name), lost))
        };
        Event::NoPrimary {
            before: self.term.and_then(lost),
        }
    }
}
