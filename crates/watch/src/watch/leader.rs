//! Leader that a tool names: what was said, when, and for how long it counts.
//!
//! A report is a witness in the election for [`LEADER_FOR`] from the time at which the tool was asked. It says nothing about
//! terms that began later: who was the leader before the last failover does not decide the next one.

use weir_pool::Moment;

use crate::rules::LEADER_FOR;
use crate::rules::SUSPECT_FOR;
use crate::watch::Watch;

/// Reports about the leader.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leaders {
    /// Newest report; none if it is withdrawn.
    named: Option<Named>,
    /// Time at which the tool was asked for the newest report of all. Earlier ones come late and are ignored.
    asked: Moment,
}

/// Report that a host is the leader.
#[derive(Clone, Copy, Debug)]
struct Named {
    host: usize,
    asked: Moment,
    /// Time at which the host was first named.
    since: Moment,
}

impl Watch {
    /// Takes the report of a tool that makes failovers: this host is the leader. `host` is an index in the order of the
    /// configuration; `asked` is a time before the answer that says so, and it is true at some time since.
    ///
    /// Counts for [`LEADER_FOR`] from `asked` on. A report that was asked for before the last one is ignored.
    pub fn hear_leader(&mut self, now: Moment, host: usize, asked: Moment) {
        // A time in the future would count for too long.
        let asked = asked.min(now);
        if asked <= self.leaders.asked || host >= self.members.len() {
            return;
        }
        let before = self.leader_at(now);
        let since = match self.leaders.named {
            Some(named) if named.host == host => named.since,
            _ => now,
        };
        self.leaders.asked = asked;
        self.leaders.named = Some(Named { host, asked, since });
        if self.leader_at(now) != before {
            self.decide(now);
            self.publish(now);
        }
    }

    /// Withdraws the last report: the tool names no leader or another one that is not watched, or it cannot be asked.
    pub fn forget_leader(&mut self) {
        self.leaders.named = None;
    }

    /// Returns the host that is the leader by a report that counts now.
    pub(super) fn leader_at(&self, now: Moment) -> Option<usize> {
        let named = self.leaders.named?;
        let term = self.term.map_or(Moment(0), |term| term.from);
        let counts = named.asked >= term && named.counts_at(now);
        counts.then_some(named.host)
    }

    /// True if a host that was probed at `last` was named as leader shortly before, and is not the primary yet: it is
    /// about to be promoted.
    pub(super) fn is_leader_to_be(&self, host: usize, last: Moment) -> bool {
        let is_primary = self.term.is_some_and(|term| term.elected.host == host);
        let is_news = |since: Moment| last < since.plus(SUSPECT_FOR);
        let named = self.leaders.named.filter(|named| named.host == host);
        !is_primary && named.is_some_and(|named| is_news(named.since) && named.counts_at(last))
    }
}

impl Named {
    /// True if the report is not too old.
    fn counts_at(&self, now: Moment) -> bool {
        now.since(self.asked) < LEADER_FOR
    }
}
