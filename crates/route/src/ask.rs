//! Question to the router: a transaction, its session, and the hosts at this moment.

use std::time::Duration;

use weir_pool::HostId;
use weir_pool::Moment;
use weir_sql::Access;
use weir_sql::Isolation;
use weir_sql::Modes;
use weir_watch::Snapshot;
use weir_watch::TimelinePosition;

use crate::ready::Ready;
use crate::rules::Consistency;
use crate::rules::Split;

/// Role that a session or a hint asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// The router decides.
    #[default]
    Auto,
    /// The primary.
    Primary,
    /// A replica, for everything that the session sends: a write fails there.
    Replica,
}

/// Position, from another session, that the reads of a session must see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Token {
    /// Position in the WAL of a timeline.
    At(TimelinePosition),
    /// A value that is no position: only the primary is sure to show what it means.
    Malformed,
    /// The session named none.
    #[default]
    None,
}

/// Facts about a session that decide which hosts are fresh enough, and which it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteState {
    /// Time at which the session's last commit was acknowledged; zero if there was none.
    pub last_write: Moment,
    /// Likewise for the last commit with `synchronous_commit = off`.
    pub last_async_write: Moment,
    /// Choice of the session (`SET weir.role`).
    pub role: Wanted,
    /// Mode of the split chosen by the session (`SET weir.read_write_split`); none = the database's.
    pub split: Option<Split>,
    /// Consistency chosen by the session (`SET weir.read_consistency`); none = the database's.
    pub consistency: Option<Consistency>,
    /// Maximum age of a replica's data, from a hint; none = the database's alone.
    pub max_staleness: Option<Duration>,
    /// Replica that a query rule asks for; none = any.
    pub only: Option<HostId>,
    /// Isolation level of the session's transactions, unless their BEGIN names another; none if it is READ COMMITTED.
    pub isolation: Option<Isolation>,
    /// Position that the session's reads must see (`SET weir.min_lsn`), beside its own commits.
    pub token: Token,
    /// True if the session's transactions are READ ONLY by default.
    pub is_read_only: bool,
}

/// Load of a pool at one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Servers in use.
    pub in_use: u32,
    /// Clients that wait.
    pub waiting: u32,
    /// Maximum number of servers; 0 = unlimited.
    pub size: u32,
}

impl Load {
    /// Returns the number of clients that have a server or wait for one.
    pub(crate) fn clients(self) -> u64 {
        u64::from(self.in_use) + u64::from(self.waiting)
    }
}

/// Question to the router: where does this transaction run?
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Hosts on which the first batch may run.
    pub access: &'a Access,
    /// Facts about the session.
    pub session: &'a RouteState,
    /// Hosts of the database.
    pub hosts: &'a Snapshot,
    /// Readers among these hosts.
    pub ready: &'a Ready,
    /// Latest commit of any client, for [`Consistency::Global`]; zero if there was none.
    pub last_write_of_all: Moment,
    /// Likewise for commits with `synchronous_commit = off`.
    pub last_async_write_of_all: Moment,
    /// Time since which the request waits for a host; equal to `now` at the first question.
    pub since: Moment,
    /// Current time.
    pub now: Moment,
    /// True if a guard can precede the batch: the batch is whole, reads only, and will be kept.
    pub may_guard: bool,
    /// Random number.
    pub dice: u64,
}

impl Ask<'_> {
    /// Returns true if the transaction is SERIALIZABLE, which no standby accepts.
    pub(crate) fn is_serializable(&self) -> bool {
        let modes = match self.access {
            Access::Begin(modes) => *modes,
            Access::Anywhere | Access::Primary(_) | Access::Read { .. } => Modes::default(),
        };
        self.session.isolation == Some(Isolation::Serializable) || modes.is_serializable()
    }

    /// Returns true if the session's token says nothing about the hosts' positions: it belongs to another timeline than
    /// the primary's, or is none.
    #[must_use]
    pub fn has_foreign_token(&self) -> bool {
        match self.session.token {
            Token::At(position) => self.hosts.positions.timeline() != Some(position.timeline),
            Token::Malformed => true,
            Token::None => false,
        }
    }
}
