//! Answers of the pool to the engine, and actions that the pool asks of it.

use std::time::Duration;

use crate::moment::{ClientId, Moment, ServerId};
use crate::shared::ConnectToken;

/// The answer to a client that wants a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Checkout {
    /// Granted, but the server was unused for longer than `check_delay`. Run the check first (state "tested"), then
    /// call `test_passed`, or `closed` and `checkout_since` if it failed.
    Check(ServerId),
    /// Logins to the server have been failing and no server is connected: fail the client now.
    FailFast,
    /// The server is assigned to the client.
    Granted(ServerId),
    /// The client waits; the ticket removes it from the queue again.
    Queued(Ticket),
}

/// Next step for a server that has just become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Checkin {
    /// The server is assigned to this client, the longest waiter of this lane.
    Assigned(ClientId),
    /// As `Assigned`, but the server was unused for longer than `check_delay`: check it first. Only from `adopt`.
    AssignedCheck(ClientId),
    /// Close it, then call `closed`.
    Close(CloseReason),
    /// A client of another lane has waited longer: `detach` the server and send it to that lane.
    HandOver {
        /// The lane whose waiter is served.
        lane: usize,
    },
    /// The server waits for the next client.
    Idle,
}

/// A place in the queue of one shard. Ordered by waiting time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(crate) since: Moment,
    pub(crate) number: u64,
}

impl Ticket {
    /// Moment since which the client has been waiting.
    #[must_use]
    pub const fn since(self) -> Moment {
        self.since
    }
}

/// Reason for which a server is closed. `Display` is PgBouncer's log text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// Another pool of the same database or user needed the place.
    #[error("evicted")]
    Evicted,
    /// `server_idle_timeout`.
    #[error("server idle timeout")]
    IdleTimeout,
    /// `server_lifetime`.
    #[error("server lifetime over")]
    Lifetime,
    /// A client that wants a fresh server needs the place.
    #[error("a client needs a new session")]
    NewSession,
    /// RECONNECT or a reload made older connections obsolete.
    #[error("obsolete connection")]
    Obsolete,
    /// PAUSE.
    #[error("pause mode")]
    Paused,
    /// The pool needs far fewer servers than it has.
    #[error("more servers than the pool needs")]
    Surplus,
    /// The pool size was lowered.
    #[error("too many servers in the pool")]
    TooMany,
}

/// Kind of a failed login to PostgreSQL; decides which pools and clients are affected (hazard COR-50).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Weir lacks file descriptors or memory: the host is not to blame, so only a short pause follows.
    Local,
    /// The host cannot be reached or refuses the connection.
    Refused,
    /// The host answered, and rejects this user or database (28xxx, 3D000). Only this pool is affected.
    Rejected,
    /// The host answered that it cannot take a login now: it starts up, shuts down, or has too many clients. Waiters
    /// and new clients keep waiting while logins back off, because the condition passes.
    Temporary,
    /// `server_connect_timeout`.
    Timeout,
}

/// Reason for which a waiting client is failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// No server is available: logins fail and none is connected. The caller adds the last error.
    #[error("server login has been failing")]
    ServerDown,
    /// `query_wait_timeout`.
    #[error("query_wait_timeout")]
    Timeout,
}

/// Limit that is full of other pools' servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `max_db_connections`.
    Database,
    /// `pool_size`, for an annex of the pool ([`Shared::beside`](crate::Shared::beside)).
    Pool,
    /// `max_user_connections`.
    User,
}

/// Beginning or end of the time for which clients wait for a host that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldNews {
    /// No host can be reached: clients wait until this moment at most.
    Began(Moment),
    /// A host can be reached again, after this time.
    Ended(Duration),
}

/// Task for the engine. Drain with `poll` after each command.
#[derive(Debug)]
#[must_use]
pub enum Action {
    /// Assigns an idle server to a waiting client, as the limit on assigned servers now allows it. If `check`, the
    /// server was unused for longer than `check_delay`: check it first.
    Assign {
        /// The client; it has left the queue.
        client: ClientId,
        /// The server.
        server: ServerId,
        /// True if the server has to be checked first.
        check: bool,
    },
    /// Ask this lane for an idle server: call `asked` there. Back here, call `adopt` if a server came, and
    /// `ask_answered` in every case.
    Ask {
        /// The lane to ask.
        lane: usize,
    },
    /// Close this idle server, then call `closed`.
    Close {
        /// The server.
        server: ServerId,
        /// Reason for the log.
        reason: CloseReason,
    },
    /// Open a server connection: `connect_started`, or `connect_abandoned` if it cannot be tried.
    Connect(ConnectToken),
    /// Only this limit refuses a new server. Find the shard with the oldest `coldest_idle` among the other pools in
    /// scope, and call `evict` there; for [`Scope::Pool`] among the shards that count in the
    /// same size. If none is idle there, close one that is in use as soon as it is free: the annex has claimed its place.
    Evict {
        /// The limit that is full.
        scope: Scope,
    },
    /// Fail this waiting client; it has left the queue.
    Fail {
        /// The client.
        client: ClientId,
        /// Reason for the error message.
        error: WaitError,
    },
    /// Say in the log that clients wait for a host that is gone, or that it is back.
    Hold(HoldNews),
    /// Tell this client that it is being queued; it stays in the queue.
    Notify {
        /// The client.
        client: ClientId,
    },
    /// A client waits, and this server is kept by a client that has no transaction on it ([`Shard::keep`]). Check the
    /// server in, or call `reclaim_refused` if its client has started to use it again.
    ///
    /// [`Shard::keep`]: crate::Shard::keep
    Reclaim {
        /// The server.
        server: ServerId,
    },
    /// A place that a shard was refused has been released. Call `retry` on every shard that has waiters, on all workers
    /// and in all pools, this one included.
    WakeOthers,
}
