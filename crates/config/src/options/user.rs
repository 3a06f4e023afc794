//! Rows of a `[users]` and a `[peers]` entry.

use std::time::Duration;

use super::{Field, Kind, Opt, flag, int, of_kind, pool_size, ranged, seconds, section, word};
use crate::routing::ReadWriteSplit;
use crate::types::{
    HostAddr, MaxPinned, PoolMode, PoolSize, SequenceValues, SessionState, StatementPolicy,
};
use crate::value::Value;

section! {
    /// A `[users]` entry as written; `None` inherits, `Some(Duration::ZERO)` means "off for this user".
    UserSettings, USER {
        /// Overrides the pool mode of database and globals.
        pool_mode: Option<PoolMode> = word(PoolMode::NAMES, "session").unset();
        /// Overrides `session_state` of database and globals.
        session_state: Option<SessionState> = word(SessionState::NAMES, "track").unset();
        /// Overrides `sequence_values` of database and globals.
        sequence_values: Option<SequenceValues> = word(SequenceValues::NAMES, "learn").unset();
        /// Overrides `read_write_split` of database and globals.
        read_write_split: Option<ReadWriteSplit> = word(ReadWriteSplit::NAMES, "off").unset();
        /// Overrides `comment_hints` of database and globals.
        comment_hints: Option<bool> = flag("0").unset();
        /// Treatment of statements that are not in the list of this user: `learn` records them, `warn` logs them too, `enforce` refuses them; `off` asks no list.
        statement_policy: Option<StatementPolicy> = word(StatementPolicy::NAMES, "off").unset();
        /// Clients per pool of this user that may keep their server beyond the transaction; `auto` = all servers but one, 0 = no limit.
        max_pinned: Option<MaxPinned> = pool_size("0").unset();
        /// Overrides `max_waiting` of database and globals; 0 = no limit.
        max_waiting: Option<u32> = int("0").unset();
        /// Servers per pool of this user; 0 = unlimited, `auto` = each finds its size by itself.
        pool_size: Option<PoolSize> = pool_size("0").unset();
        /// Extra servers per pool of this user.
        reserve_pool_size: Option<u32> = int("0").unset();
        /// Servers of this user over all databases; 0 = unlimited.
        max_user_connections: Option<u32> = int("0").unset();
        /// Clients of this user over all databases; 0 = unlimited.
        max_user_client_connections: Option<u32> = int("0").unset();
        /// Overrides the global `transaction_timeout`; 0 = off.
        transaction_timeout: Option<Duration> = seconds("0").unset();
        /// Overrides the global `idle_transaction_timeout`; 0 = off.
        idle_transaction_timeout: Option<Duration> = seconds("0").unset();
        /// Overrides the global `query_timeout`; 0 = off.
        query_timeout: Option<Duration> = seconds("0").unset();
        /// Overrides `query_wait_timeout` of database and globals; 0 = off.
        query_wait_timeout: Option<Duration> = seconds("0").unset();
        /// Overrides the global `client_idle_timeout`; 0 = off.
        client_idle_timeout: Option<Duration> = seconds("0").unset();
    }
}

section! {
    /// A `[peers]` entry: another pooler that cancel requests may be forwarded to.
    Peer, PEER {
        /// Where the peer listens: name, address, unix socket directory or `@abstract`.
        host: Vec<HostAddr> = of_kind(Kind::Hosts, "");
        /// The peer's port.
        port: u16 = ranged("6432", 1, 65_535);
        /// Connections to the peer at most; unset uses `default_pool_size`.
        pool_size: Option<u32> = int("0").unset();
    }
}
