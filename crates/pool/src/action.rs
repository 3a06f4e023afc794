//! What the pool answers and what it asks of the engine.

use crate::moment::{ClientId, ServerId};
use crate::shared::ConnectToken;

/// The answer to a client that wants a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Checkout {
    /// Granted, but unused for longer than `check_delay`: run the check first (state "tested"), then
    /// call `test_passed`, or `closed` and `checkout_since` when it failed.
    Check(ServerId),
    /// Logins to the server have been failing and no server is connected: fail the client now.
    FailFast,
    /// The server is the client's.
    Granted(ServerId),
    /// The client waits; the ticket takes it out of the queue again.
    Queued(Ticket),
}

/// What becomes of a server that has just become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Checkin {
    /// It belongs to this client now: the longest waiter here.
    Assigned(ClientId),
    /// As `Assigned`, but it was unused for longer than `check_delay`: check it first. Only from `adopt`.
    AssignedCheck(ClientId),
    /// Close it, then call `closed`.
    Close(CloseReason),
    /// Another lane's client has waited longer: `detach` it and send the parcel to that lane.
    HandOver {
        /// The lane whose waiter is served.
        lane: usize,
    },
    /// It waits for the next client.
    Idle,
}

/// A place in the queue of one shard. Ordered by waiting time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(crate) since: crate::moment::Moment,
    pub(crate) number: u64,
}

impl Ticket {
    /// Since when the client has been waiting.
    #[must_use]
    pub const fn since(self) -> crate::moment::Moment {
        self.since
    }
}

/// Why a server is closed. `Display` is PgBouncer's log text.
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
    /// RECONNECT or a reload made connections of before obsolete.
    #[error("obsolete connection")]
    Obsolete,
    /// PAUSE.
    #[error("pause mode")]
    Paused,
    /// The pool found that it needs far fewer.
    #[error("more servers than the pool needs")]
    Surplus,
    /// The pool was made smaller.
    #[error("too many servers in the pool")]
    TooMany,
}

/// How a login to PostgreSQL failed; decides who hears of it (hazard COR-50).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Our own shortage (file descriptors, memory): the host is not to blame; a short pause.
    Local,
    /// The host cannot be reached or refuses the connection.
    Refused,
    /// The host answered, and will not have this user or database (28xxx, 3D000): this pool only.
    Rejected,
    /// The host answered that it cannot take a login now (starting up, shutting down, too many clients): it will pass.
    /// Waiters keep waiting while logins back off, and those who come meanwhile wait with them.
    Temporary,
    /// `server_connect_timeout`.
    Timeout,
}

/// Why a waiting client is failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// No server can be had: logins fail and none is connected. The caller adds the last error.
    #[error("server login has been failing")]
    ServerDown,
    /// `query_wait_timeout`.
    #[error("query_wait_timeout")]
    Timeout,
}

/// Which limit is full of other pools' servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `max_db_connections`.
    Database,
    /// `max_user_connections`.
    User,
}

/// Something the engine must do. Drain with `poll` after each command.
#[derive(Debug)]
#[must_use]
pub enum Action {
    /// The limit on assigned servers has let this waiting client have this server. If `check`, it was unused for
    /// longer than `check_delay`: check it first.
    Assign {
        /// The client; it has left the queue.
        client: ClientId,
        /// The server.
        server: ServerId,
        /// Whether it has to be checked.
        check: bool,
    },
    /// Ask this lane for an idle server: there, `asked`; back here, `adopt` if one came, and in
    /// every case `ask_answered`.
    Ask {
        /// The lane to ask.
        lane: usize,
    },
    /// Close this idle server, then call `closed`.
    Close {
        /// The server.
        server: ServerId,
        /// Why.
        reason: CloseReason,
    },
    /// Open a server connection: `connect_started`, or `connect_abandoned` if it cannot be tried.
    Connect(ConnectToken),
    /// Only this limit refuses: find the shard with the oldest `coldest_idle` among the other pools
    /// in scope and call `evict` there.
    Evict {
        /// The limit that is full.
        scope: Scope,
    },
    /// Fail this waiting client; it has left the queue.
    Fail {
        /// The client.
        client: ClientId,
        /// Why.
        error: WaitError,
    },
    /// Tell this client that it is being queued; it stays in the queue.
    Notify {
        /// The client.
        client: ClientId,
    },
    /// A client waits, and the client of this server keeps it only while nobody does ([`Shard::keep`]): check the server
    /// in, or call `reclaim_refused` if its client has gone on with it.
    ///
    /// [`Shard::keep`]: crate::Shard::keep
    Reclaim {
        /// The server.
        server: ServerId,
    },
    /// A place that somebody was refused has been released: call `retry` on every shard that has
    /// waiters, on all workers and in all pools, this one included.
    WakeOthers,
}
