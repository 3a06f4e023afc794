//! Condition that a host fulfils to get a read. Never chooses among hosts.

use std::time::Duration;

use weir_pool::HostId;
use weir_pool::Moment;
use weir_watch::HostView;
use weir_watch::Lsn;
use weir_watch::Positions;
use weir_watch::Role;
use weir_watch::Snapshot;
use weir_watch::State;
use weir_watch::TimelinePosition;
use weir_watch::Writes;

use crate::ask::Ask;
use crate::ask::Token;
use crate::course::Among;
use crate::course::consistency;
use crate::rules::Consistency;
use crate::rules::Rules;

/// Reason for which a host does not get a read. In the order of the checks: [`Self::Stale`] fulfils all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The host takes writes, or its role is unknown.
    Role,
    /// The host is not up.
    State(State),
    /// A query rule asks for another replica.
    Other,
    /// The host takes no reads: by its configuration, or its lag.
    Reads,
    /// The host's data may be older than the request allows.
    Age,
    /// The host's weight is 0.
    Weight,
    /// The host does not show this commit yet.
    Stale(Commit),
}

/// Commit that a read must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// Latest commit of any client, at this time.
    Any(Moment),
    /// Last commit of the session, at this time.
    Own(Moment),
    /// Commits up to the session's `weir.min_lsn`.
    Token,
}

/// Commits that a read must see, by the time at which each was acknowledged; zero if there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Floor {
    own: Moments,
    any: Moments,
    token: Minimum,
}

/// Position that a host must have replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Minimum {
    /// Position on the primary's timeline.
    At(Lsn),
    /// Not comparable with the position of any replica.
    Foreign,
    #[default]
    None,
}

impl Minimum {
    fn of(ask: &Ask<'_>) -> Self {
        match ask.session.token {
            _ if ask.has_foreign_token() => Self::Foreign,
            Token::At(position) => Self::At(position.lsn),
            Token::Malformed | Token::None => Self::None,
        }
    }

    /// Returns true if a host does not show this position.
    fn is_missing_on(self, host: &HostView) -> bool {
        // The host that takes writes shows all that it has.
        host.fresh_to != Moment::NEVER
            && match self {
                Self::At(lsn) => host.replayed.is_none_or(|replayed| replayed < lsn),
                Self::Foreign => true,
                Self::None => false,
            }
    }
}

/// Time of a commit, and of one with `synchronous_commit = off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moments {
    flushed: Moment,
    unflushed: Moment,
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            flushed: Moment(0),
            unflushed: Moment(0),
        }
    }
}

impl Moments {
    /// Returns a commit that a host does not show yet.
    fn missing_on(self, host: &HostView) -> Option<Moment> {
        let is_missing = |commit: Moment, fresh_to| commit != Moment(0) && commit >= fresh_to;
        if is_missing(self.flushed, host.fresh_to) {
            Some(self.flushed)
        } else if is_missing(self.unflushed, host.fresh_to_async) {
            Some(self.unflushed)
        } else {
            None
        }
    }
}

impl Floor {
    /// Returns the commits that a request's reads must see.
    pub(crate) fn of(rules: &Rules, ask: &Ask<'_>) -> Self {
        let own = Moments {
            flushed: ask.session.last_write,
            unflushed: ask.session.last_async_write,
        };
        let any = Moments {
            flushed: ask.last_write_of_all,
            unflushed: ask.last_async_write_of_all,
        };
        // A session that names a position wants it under any consistency.
        let token = Minimum::of(ask);
        match consistency(rules, ask) {
            Consistency::Eventual => Self {
                token,
                ..Self::default()
            },
            // Replicas are asked under `primary` only if `target` forbids the primary. This is the strictest rule
            // that a replica can fulfil.
            Consistency::Global | Consistency::Primary => Self { own, any, token },
            Consistency::Session => Self {
                own,
                token,
                any: Moments::default(),
            },
        }
    }

    /// Returns a position above all these commits; none if the primary was not asked for its position since then, or if
    /// there are no commits.
    pub(crate) fn position(&self, positions: &Positions) -> Option<TimelinePosition> {
        let timeline = positions.timeline()?;
        let token = match self.token {
            Minimum::At(lsn) => Some(lsn),
            Minimum::Foreign => return None,
            Minimum::None => None,
        };
        let mut highest = token;
        for commits in [self.own, self.any] {
            if commits != Moments::default() {
                let above = positions.above(commits.flushed, commits.unflushed)?;
                highest = highest.max(Some(above.lsn));
            }
        }
        highest.map(|lsn| TimelinePosition { timeline, lsn })
    }

    /// Returns true if every host shows these commits that shows all which were acknowledged before `fresh_to`, or
    /// `fresh_to_async` with `synchronous_commit = off`.
    pub(crate) fn is_below(&self, fresh_to: Moment, fresh_to_async: Moment) -> bool {
        let is_below = |commits: Moments| {
            (commits.flushed == Moment(0) || commits.flushed < fresh_to)
                && (commits.unflushed == Moment(0) || commits.unflushed < fresh_to_async)
        };
        self.token == Minimum::None && is_below(self.own) && is_below(self.any)
    }

    fn missing_on(&self, host: &HostView) -> Option<Commit> {
        let own = self.own.missing_on(host).map(Commit::Own);
        let missing = own.or_else(|| self.any.missing_on(host).map(Commit::Any));
        missing.or_else(|| self.token.is_missing_on(host).then_some(Commit::Token))
    }
}

/// Condition for the hosts of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    /// Roles that count.
    pub(crate) among: Among,
    /// Host that takes writes.
    pub(crate) writes: Writes,
    /// Maximum age of the host's data, beside the database's limits.
    pub(crate) max_staleness: Option<Duration>,
    /// Host that a query rule asks for; none = any.
    pub(crate) only: Option<HostId>,
    /// Commits that must be visible.
    pub(crate) floor: Floor,
}

impl Condition {
    /// Returns the reason for which a host does not get the read; none if it qualifies.
    pub(crate) fn obstacle(&self, host: &HostView) -> Option<Obstacle> {
        if !self.has_role(host) {
            Some(Obstacle::Role)
        } else if self.only.is_some_and(|only| only != host.host) {
            Some(Obstacle::Other)
        } else if host.state != State::Up {
            Some(Obstacle::State(host.state))
        } else if !host.takes_reads {
            Some(Obstacle::Reads)
        } else if self.is_too_old(host) {
            Some(Obstacle::Age)
        } else if host.weight == 0 {
            Some(Obstacle::Weight)
        } else {
            self.floor.missing_on(host).map(Obstacle::Stale)
        }
    }

    /// Returns true if the age of a host's data exceeds the request's own limit, or is not known. The host that takes
    /// writes has no age.
    fn is_too_old(&self, host: &HostView) -> bool {
        let is_old = |max| host.lag.is_none_or(|lag| lag > max);
        self.writes != Writes::To(host.host) && self.max_staleness.is_some_and(is_old)
    }

    /// Returns true if a host qualifies.
    pub(crate) fn admits(&self, host: &HostView) -> bool {
        self.obstacle(host).is_none()
    }

    /// Returns true if some host fails for its age alone.
    pub(crate) fn is_only_stale(&self, hosts: &Snapshot) -> bool {
        let is_stale = |host| matches!(self.obstacle(host), Some(Obstacle::Stale(_)));
        hosts.hosts.iter().any(is_stale)
    }

    /// Returns true if the host's role counts. Of two hosts that say they are the primary, the one without writes may
    /// be a former primary whose data has ended: it gets no reads.
    fn has_role(&self, host: &HostView) -> bool {
        match (self.writes == Writes::To(host.host), self.among) {
            (true, Among::All) => true,
            (true, Among::Replicas) => false,
            (false, _) => host.role == Role::Replica,
        }
    }
}
