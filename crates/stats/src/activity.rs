//! Activity: what clients do and wait for, who holds the servers, and how logins at the hosts go.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Present activity of a client that has logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Rests outside of transactions, and nothing pins it.
    Idle,
    /// Waits, for one of these reasons.
    Waiting(WaitReason),
    /// Has a server that works on a request.
    InQuery,
    /// Has an open transaction, and its server waits for the next request.
    InTransaction,
    /// Rests outside of transactions, and a reason of `SHOW PINS` keeps its server.
    Pinned,
}

impl Activity {
    /// Words for people and scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Waiting(_) => "waiting",
            Self::InQuery => "in query",
            Self::InTransaction => "idle in transaction",
            Self::Pinned => "pinned",
        }
    }
}

/// Reason why a client waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// All servers that `pool_size` allows are taken.
    PoolFull,
    /// `max_user_connections` allows no further server.
    UserLimit,
    /// `max_db_connections` allows no further server.
    DatabaseLimit,
    /// The pool finds its own size, and its limit now is reached.
    SizeLimit,
    /// A server is being opened.
    Connecting,
    /// No server could be opened, and the next attempt has not come yet.
    LoginsFail,
    /// PAUSE.
    Paused,
    /// No host may take the transaction now.
    NoHost,
    /// A query rule lets the client wait.
    Rule,
    /// A server is on its way: free on another worker, or being checked.
    Server,
}

impl WaitReason {
    /// Words for people and scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PoolFull => "pool full",
            Self::UserLimit => "user limit",
            Self::DatabaseLimit => "database limit",
            Self::SizeLimit => "size limit",
            Self::Connecting => "connecting",
            Self::LoginsFail => "logins fail",
            Self::Paused => "paused",
            Self::NoHost => "no host",
            Self::Rule => "rule",
            Self::Server => "server",
        }
    }
}

/// Clients of a pool by activity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolActivity {
    /// Clients that neither have a server nor wait for one; also those that a query rule delays.
    pub idle: u64,
    /// Clients whose server works on a request.
    pub in_query: u64,
    /// Clients with an open transaction, whose server waits.
    pub in_transaction: u64,
    /// Clients that keep a server outside of transactions.
    pub pinned: u64,
    /// Waiting clients by reason.
    pub waits: BTreeMap<WaitReason, u64>,
}

impl PoolActivity {
    /// Sets the number of idle clients to the rest of all `clients`.
    pub fn rest_of(&mut self, clients: u64) {
        let waiting: u64 = self.waits.values().sum();
        let others = waiting + self.in_query + self.in_transaction + self.pinned;
        self.idle = clients.saturating_sub(others);
    }
}

impl AddAssign for PoolActivity {
    fn add_assign(&mut self, other: Self) {
        self.idle += other.idle;
        self.in_query += other.in_query;
        self.in_transaction += other.in_transaction;
        self.pinned += other.pinned;
        for (reason, count) in other.waits {
            *self.waits.entry(reason).or_default() += count;
        }
    }
}

/// Server that a client has held for long, and what is done with it. Durations in microseconds.
///
/// Only what lasts is in a snapshot: an activity of at least a second, a transaction of that age, or a client that is
/// slow to read. So a pool of short transactions has no such rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderRow {
    /// Number of the client.
    pub client: u64,
    /// Number of the server connection.
    pub server: u64,
    /// Process id of the backend.
    pub backend_pid: u32,
    /// Database of the pool that the server belongs to.
    pub database: String,
    /// Role of that pool.
    pub user: String,
    /// The client's application_name; may be empty.
    pub application: String,
    /// Activity of the client.
    pub activity: Activity,
    /// Duration of that activity.
    pub activity_us: u64,
    /// Duration of the open transaction; 0 outside of one.
    pub transaction_us: u64,
    /// Reasons of a pin, separated by commas; empty without a pin.
    pub pin: String,
    /// Bytes that the client has not read yet.
    pub unsent: u64,
}

/// Counters of one client, or of the clients of one application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Transactions that ended.
    pub transactions: u64,
    /// Requests that were answered.
    pub queries: u64,
    /// Errors sent to the client.
    pub errors: u64,
    /// Time that servers spent in its transactions, in microseconds.
    pub transaction_us: u64,
    /// Time for which the client waited for one, in microseconds.
    pub wait_us: u64,
    /// Bytes from the client.
    pub bytes_received: u64,
    /// Bytes to the client.
    pub bytes_sent: u64,
}

impl AddAssign for ClientCounters {
    fn add_assign(&mut self, other: Self) {
        self.transactions += other.transactions;
        self.queries += other.queries;
        self.errors += other.errors;
        self.transaction_us += other.transaction_us;
        self.wait_us += other.wait_us;
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
    }
}

/// Key of an application: database, user and application_name.
pub type ApplicationKey = (String, String, String);

/// Clients of one application_name in one pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApplicationRow {
    /// Clients now.
    pub clients: u64,
    /// Clients that have come with this name, or taken it, since the process began.
    pub logins: u64,
    /// Counters of its clients, also of those that have left.
    pub counters: ClientCounters,
}

impl AddAssign for ApplicationRow {
    fn add_assign(&mut self, other: Self) {
        self.clients += other.clients;
        self.logins += other.logins;
        self.counters += other.counters;
    }
}

/// Attempts to log in at one host. Times in Unix seconds; 0 if there was none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostLogins {
    /// Attempts that led to a server connection.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Time of the last success.
    pub last_success: i64,
    /// Failures since the last success.
    pub failed_since: u64,
    /// Time of the last failure.
    pub last_failure: i64,
    /// SQLSTATE of the last failure; empty if PostgreSQL did not answer.
    pub code: String,
    /// Reason of the last failure: PostgreSQL's own text, or the system's.
    pub reason: String,
}

/// Importance of a condition or an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nothing has to be done now.
    Info,
    /// Something should be done soon.
    Warning,
    /// Clients suffer, or will do so in a moment.
    Critical,
}

impl Severity {
    /// Word for people and scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Condition that holds now, with its evidence and with advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionRow {
    /// Name of the condition.
    pub condition: &'static str,
    /// Importance.
    pub severity: Severity,
    /// Object that is concerned, such as a pool or a host; empty for the whole process.
    pub scope: String,
    /// Time since which the condition holds, in Unix seconds.
    pub since: i64,
    /// Figures that show the condition.
    pub evidence: String,
    /// Cause, and remedy.
    pub advice: String,
    /// Command of the console, option or query to use; empty if there is none.
    pub command: String,
}

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// The process began or is about to end.
    Process,
    /// The configuration was read again, or an option was set.
    Reload,
    /// An administrator has given an order.
    Order,
    /// Another host takes the writes, or a host has changed its role or state.
    Failover,
    /// A certificate was replaced.
    Certificate,
    /// A query rule was changed.
    Rule,
    /// A condition began.
    Began,
    /// A condition ended.
    Ended,
}

impl EventKind {
    /// Word for people and scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Reload => "reload",
            Self::Order => "order",
            Self::Failover => "failover",
            Self::Certificate => "certificate",
            Self::Rule => "rule",
            Self::Began => "began",
            Self::Ended => "ended",
        }
    }
}

/// Event in the life of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Time in Unix seconds.
    pub at: i64,
    /// Kind of the event.
    pub kind: EventKind,
    /// Sentence about the event, with who caused it if somebody did.
    pub text: String,
}

/// Last attempt to read the configuration again, if it failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailedReload {
    /// Time in Unix seconds.
    pub at: i64,
    /// Error with file, line and text.
    pub error: String,
}

/// Shutdown or upgrade for which the process still waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Draining {
    /// Time at which it began, in Unix seconds.
    pub since: i64,
    /// Time at which the clients that are left are ended, in Unix seconds.
    pub until: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_added_by_reason_and_the_rest_is_idle() {
        let mut pool = PoolActivity {
            in_query: 1,
            waits: [(WaitReason::Paused, 2)].into(),
            ..PoolActivity::default()
        };
        pool.rest_of(5);
        pool += pool.clone();
        assert_eq!(pool.waits, [(WaitReason::Paused, 4)].into());
        assert_eq!((pool.idle, pool.in_query), (4, 2));
    }
}
