//! Replicas that get reads, found once for each snapshot instead of for each request.

use weir_pool::Moment;
use weir_watch::Snapshot;

use crate::candidates::Condition;
use crate::candidates::Floor;
use crate::choice::Places;
use crate::course::Among;

/// Replicas of a snapshot that qualify for every read whose commits are old enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    places: Places,
    /// Each of them shows all commits that were acknowledged before this moment.
    fresh_to: Moment,
    /// Likewise for commits with `synchronous_commit = off`.
    fresh_to_async: Moment,
}

impl Ready {
    /// Finds them.
    #[must_use]
    pub fn of(hosts: &Snapshot) -> Self {
        let condition = Condition {
            among: Among::Replicas,
            writes: hosts.writes,
            max_staleness: None,
            only: None,
            floor: Floor::default(),
        };
        let all = || hosts.hosts.iter().filter(|host| condition.admits(host));
        let fresh_to = all().map(|host| host.fresh_to).min();
        let fresh_to_async = all().map(|host| host.fresh_to_async).min();
        Self {
            places: Places::of(&hosts.hosts, &|host| condition.admits(host)),
            fresh_to: fresh_to.unwrap_or(Moment(0)),
            fresh_to_async: fresh_to_async.unwrap_or(Moment(0)),
        }
    }

    /// Returns the places of all hosts that fulfil a condition; none if each host has to be asked.
    pub(crate) fn places(&self, condition: &Condition) -> Option<Places> {
        let is_of_replicas = condition.among == Among::Replicas;
        let is_ready = is_of_replicas
            && !self.places.is_empty()
            && condition.max_staleness.is_none()
            && condition.only.is_none()
            && condition.floor.is_below(self.fresh_to, self.fresh_to_async);
        is_ready.then_some(self.places)
    }
}
