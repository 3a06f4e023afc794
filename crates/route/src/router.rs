//! Router: the second step of a decision, the host among those that are allowed.

#[cfg(test)]
mod tests;

use std::time::Duration;

use weir_pool::HostId;
use weir_pool::Moment;
use weir_watch::Held;
use weir_watch::HostView;
use weir_watch::TimelinePosition;
use weir_watch::Writes;

use crate::ask::Ask;
use crate::ask::Load;
use crate::candidates::Condition;
use crate::candidates::Floor;
use crate::candidates::Obstacle;
use crate::choice;
use crate::choice::Places;
use crate::course::Course;
use crate::course::Readers;
use crate::explain::Explanation;
use crate::rules::Fallback;
use crate::rules::Rules;
use crate::verdict::Verdict;
use crate::verdict::Why;

/// Percentage of a near host's pool beyond which hosts of other zones count as well.
const NEAR_SHARE_MAX: u64 = 80;

/// Lag of a replica, in bytes of WAL and in time, beyond which a guard is likely to be in vain.
const GUARD_LAG_MAX: (u64, Duration) = (1024 * 1024, Duration::from_secs(1));

/// Router of one database entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Router {
    rules: Rules,
}

impl Router {
    /// Creates a router from the rules of the configuration.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules }
    }

    /// Returns the rules of the configuration.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Decides where a transaction runs. `load` returns the load of this group's pool at a host. Allocates nothing.
    #[must_use]
    pub fn ask(&self, ask: &Ask<'_>, load: &dyn Fn(HostId) -> Load) -> Verdict {
        match Course::of(&self.rules, ask) {
            Course::Primary(why) => self.primary(ask, why),
            Course::Readers(readers) => self.reader(ask, load, readers),
        }
    }

    /// Decides as [`Router::ask`] does, and says for each host why it qualifies or not.
    #[must_use]
    pub fn explain(&self, ask: &Ask<'_>, load: &dyn Fn(HostId) -> Load) -> Explanation {
        Explanation::new(self, ask, load)
    }

    fn primary(&self, ask: &Ask<'_>, why: Why) -> Verdict {
        match ask.hosts.primary() {
            Some(primary) => Verdict::Go {
                host: primary.host,
                why,
                has_net: false,
            },
            None => self.without_primary(ask),
        }
    }

    fn without_primary(&self, ask: &Ask<'_>) -> Verdict {
        let why = match ask.hosts.writes {
            Writes::Held(Held::SplitBrain) => Why::SplitBrain,
            Writes::Held(Held::NoPrimary) | Writes::To(_) | Writes::Unknown => Why::NoPrimary,
        };
        hold(ask, self.rules.failover_hold, why).unwrap_or(Verdict::Refuse(why))
    }

    fn reader(&self, ask: &Ask<'_>, load: &dyn Fn(HostId) -> Load, readers: Readers) -> Verdict {
        let condition = self.condition(ask, readers);
        let hosts = &ask.hosts.hosts;
        let admitted = match ask.ready.places(&condition) {
            Some(places) => places,
            None => Places::of(hosts, &|host| condition.admits(host)),
        };
        let near = match self.rules.az.is_empty() {
            true => None,
            false => {
                let near = Places::of(hosts, &|host| self.is_near(host, load));
                choice::choose(hosts, admitted.and(near), load, ask.dice)
            }
        };
        let chosen = near.or_else(|| choice::choose(hosts, admitted, load, ask.dice));
        match chosen {
            Some(host) => Verdict::Go {
                host,
                why: readers.why,
                has_net: readers.has_net,
            },
            None => match self.guarded(ask, load, readers, &condition) {
                Some(host) => Verdict::Go {
                    host,
                    why: Why::Guarded,
                    has_net: true,
                },
                None => self.without_reader(ask, load, readers.otherwise, &condition),
            },
        }
    }

    /// Returns a replica that was too old when it was asked last, and may be fresh enough by now.
    fn guarded(
        &self,
        ask: &Ask<'_>,
        load: &dyn Fn(HostId) -> Load,
        readers: Readers,
        condition: &Condition,
    ) -> Option<HostId> {
        let is_read = ask.access.is_read() && readers.has_net;
        if !self.rules.read_guard || !ask.may_guard || !is_read {
            return None;
        }
        let guard = self.guard(ask)?;
        let may_have_caught_up = |host: &HostView| {
            matches!(condition.obstacle(host), Some(Obstacle::Stale(_)))
                && host.timeline == guard.timeline
                && host.lag_bytes.is_some_and(|bytes| bytes <= GUARD_LAG_MAX.0)
                && host.lag.is_some_and(|lag| lag <= GUARD_LAG_MAX.1)
        };
        let hosts = &ask.hosts.hosts;
        choice::choose(
            hosts,
            Places::of(hosts, &may_have_caught_up),
            load,
            ask.dice,
        )
    }

    /// Returns the position that a guard compares; none if it is not known.
    #[must_use]
    pub fn guard(&self, ask: &Ask<'_>) -> Option<TimelinePosition> {
        Floor::of(&self.rules, ask).position(&ask.hosts.positions)
    }

    fn without_reader(
        &self,
        ask: &Ask<'_>,
        load: &dyn Fn(HostId) -> Load,
        otherwise: Fallback,
        condition: &Condition,
    ) -> Verdict {
        let is_stale = condition.is_only_stale(ask.hosts);
        let why = if is_stale {
            Why::TooFresh
        } else {
            Why::NoReplica
        };
        let wait = match otherwise {
            Fallback::Error | Fallback::Primary if is_stale => self.rules.read_wait,
            // Before the first probe no host has a role. That is no reason to fail.
            Fallback::Error if ask.hosts.writes == Writes::Unknown => self.rules.failover_hold,
            Fallback::Error => self.rules.read_wait,
            Fallback::Primary => Duration::ZERO,
        };
        hold(ask, wait, why).unwrap_or_else(|| match otherwise {
            Fallback::Error => Verdict::Refuse(why),
            Fallback::Primary => self.fall_back(ask, load, why),
        })
    }

    /// Sends a read to the primary, or holds it while the primary's pool is loaded to the share of such reads. Snapshots
    /// come with every probe, so that the request is asked for again.
    fn fall_back(&self, ask: &Ask<'_>, load: &dyn Fn(HostId) -> Load, why: Why) -> Verdict {
        match ask.hosts.primary() {
            Some(primary) if !self.has_place(load(primary.host)) => Verdict::Hold {
                until: Moment::NEVER,
                why: Why::Share,
            },
            Some(_) | None => self.primary(ask, why),
        }
    }

    /// Returns true if a read may fall back to a primary with this load.
    fn has_place(&self, load: Load) -> bool {
        let share = u64::from(self.rules.fallback_max_share);
        let places = u64::from(load.size) * share / 100;
        load.size == 0 || share >= 100 || load.clients() < places.max(1)
    }

    /// Returns the condition that hosts fulfil for a request.
    pub(crate) fn condition(&self, ask: &Ask<'_>, readers: Readers) -> Condition {
        Condition {
            among: readers.among,
            writes: ask.hosts.writes,
            max_staleness: ask.session.max_staleness,
            only: ask.session.only,
            floor: Floor::of(&self.rules, ask),
        }
    }

    /// Returns true if a host is in the zone of this Weir and its pool has room.
    pub(crate) fn is_near(&self, host: &HostView, load: &dyn Fn(HostId) -> Load) -> bool {
        if self.rules.az.is_empty() || *host.az != *self.rules.az {
            return false;
        }
        let load = load(host.host);
        load.size == 0 || load.clients() * 100 <= u64::from(load.size) * NEAR_SHARE_MAX
    }
}

/// Returns the verdict to wait, unless a request has waited this long already.
fn hold(ask: &Ask<'_>, wait: Duration, why: Why) -> Option<Verdict> {
    let until = ask.since.plus(wait);
    (ask.now < until).then_some(Verdict::Hold { until, why })
}
