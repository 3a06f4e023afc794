//! Rows of a `[pools]` entry: one user of one database. `None` inherits.

use std::time::Duration;

use super::{Field, Opt, int, pool_size, seconds, section, word};
use crate::types::{MaxPinned, PoolMode, PoolSize};
use crate::value::Value;

section! {
    /// A `[pools]` entry as written; `None` inherits, `Some(Duration::ZERO)` means "off for this pool", except in
    /// `server_lifetime`.
    PoolOptions, POOL {
        /// Overrides the pool mode of user, database and globals.
        pool_mode: Option<PoolMode> = word(PoolMode::NAMES, "session").unset();
        /// Servers of this pool; 0 = unlimited, `auto` = it finds its size by itself.
        pool_size: Option<PoolSize> = pool_size("0").unset();
        /// Servers to keep open in this pool.
        min_pool_size: Option<u32> = int("0").unset();
        /// Extra servers once a client has waited `reserve_pool_timeout`.
        reserve_pool_size: Option<u32> = int("0").unset().alias(&["reserve_pool"]);
        /// Clients of this pool that may keep their server beyond the transaction; `auto` = all servers but one, 0 = no limit.
        max_pinned: Option<MaxPinned> = pool_size("0").unset();
        /// Overrides `max_waiting` of user, database and globals; 0 = no limit.
        max_waiting: Option<u32> = int("0").unset();
        /// Overrides `query_wait_timeout` of user, database and globals; 0 = off.
        query_wait_timeout: Option<Duration> = seconds("0").unset();
        /// Overrides `server_lifetime` of database and globals; 0 = close after each use.
        server_lifetime: Option<Duration> = seconds("0").unset();
        /// Overrides `server_lifetime_jitter` of database and globals; 0 = off.
        server_lifetime_jitter: Option<Duration> = seconds("0").unset();
        /// Overrides `server_idle_timeout` of database and globals; 0 = off.
        server_idle_timeout: Option<Duration> = seconds("0").unset();
        /// Overrides `transaction_timeout` of user and globals; 0 = off.
        transaction_timeout: Option<Duration> = seconds("0").unset();
        /// Overrides `idle_transaction_timeout` of user and globals; 0 = off.
        idle_transaction_timeout: Option<Duration> = seconds("0").unset();
        /// Overrides `query_timeout` of user and globals; 0 = off.
        query_timeout: Option<Duration> = seconds("0").unset();
        /// Overrides `client_idle_timeout` of user and globals; 0 = off.
        client_idle_timeout: Option<Duration> = seconds("0").unset();
    }
}
