//! Activity: what clients do, and what they wait for.

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
