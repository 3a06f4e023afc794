//! Rows of a `[databases]` entry. `None` inherits the global value.

use std::time::Duration;

use super::{
    Field, Kind, Opt, flag, int, of_kind, pool_size, ranged, seconds, section, size, text, word,
};
use crate::hint::HintPoint;
use crate::options::LAG_MAX;
use crate::pattern::FunctionPattern;
use crate::point::HostPoint;
use crate::routing::{
    Fence, ReadConsistency, ReadFallback, ReadWriteSplit, SplitBegin, SplitBrain, Target,
};
use crate::state::{FunctionName, StateCheck};
use crate::types::{
    ChannelBinding, HostAddr, LoadBalanceHosts, MaxPinned, PoolMode, PoolSize, Secret,
    SequenceValues, SessionState, SizingGoal, SizingMode, SslMode, SslNegotiation,
};
use crate::value::Value;

section! {
    /// A `[databases]` entry as written; `Settings::pool` combines it with users and globals.
    ///
    /// In the two time overrides `Some(Duration::ZERO)` means "off here"; `None` inherits the global option.
    Database, DATABASE {
        /// Name of the database on the server; the entry's own name by default.
        dbname: Option<String> = text("").unset().longest(63);
        /// Server host: name, address, unix socket directory, `@abstract`, or several by comma; empty uses the unix socket in `unix_socket_dir`.
        host: Vec<HostAddr> = of_kind(Kind::Hosts, "");
        /// Server port, and suffix of the unix socket.
        port: u16 = ranged("5432", 1, 65_535);
        /// More hosts of the same cluster, each with a port or the entry's: primary and replicas, whose roles Weir finds out; each address of `host` is a host of its own then.
        replicas: Vec<HostPoint> = of_kind(Kind::HostPoints, "");
        /// Forced user: every client of this database shares this user's servers.
        user: Option<String> = text("").unset().longest(127);
        /// Password of the forced user; without it the one in `auth_file` is used.
        password: Option<Secret> = of_kind(Kind::Secret, "").unset().longest(65_530);
        /// File that holds `password` as its only line; read again by every reload.
        password_file: Option<String> = text("").unset();
        /// Overrides the global `auth_user`.
        auth_user: Option<String> = text("").unset().longest(127);
        /// Overrides the global `auth_query`.
        auth_query: Option<String> = text("").unset();
        /// Overrides the global `auth_dbname`.
        auth_dbname: Option<String> = text("").unset().longest(63);
        /// Servers per pool of this database; 0 = unlimited, `auto` = each finds its size by itself.
        pool_size: Option<PoolSize> = pool_size("0").unset();
        /// Overrides the global `pool_size_mode`.
        pool_size_mode: Option<SizingMode> = word(SizingMode::NAMES, "on").unset();
        /// Overrides the global `pool_size_goal`.
        pool_size_goal: Option<SizingGoal> = word(SizingGoal::NAMES, "balanced").unset();
        /// Overrides the global `pool_size_start`.
        pool_size_start: Option<u32> = ranged("20", 1, 1_000_000).unset();
        /// Overrides the global `pool_size_min`.
        pool_size_min: Option<u32> = ranged("1", 1, 1_000_000).unset();
        /// Overrides the global `pool_size_max`.
        pool_size_max: Option<u32> = ranged("100", 1, 1_000_000).unset();
        /// Servers to keep open per pool of this database.
        min_pool_size: Option<u32> = int("0").unset();
        /// Extra servers per pool once a client has waited `reserve_pool_timeout`.
        reserve_pool_size: Option<u32> = int("0").unset().alias(&["reserve_pool"]);
        /// Statement sent once on every new server connection before its first use.
        connect_query: Option<String> = text("").unset();
        /// Overrides the global `pool_mode`.
        pool_mode: Option<PoolMode> = word(PoolMode::NAMES, "session").unset();
        /// Overrides the global `session_state`.
        session_state: Option<SessionState> = word(SessionState::NAMES, "track").unset();
        /// Overrides the global `session_state_check`.
        session_state_check: Option<StateCheck> = of_kind(Kind::StateCheck, "off").unset();
        /// Replaces the global `session_state_functions`.
        session_state_functions: Option<Vec<FunctionName>> = of_kind(Kind::Functions, "").unset();
        /// Overrides the global `sequence_values`.
        sequence_values: Option<SequenceValues> = word(SequenceValues::NAMES, "learn").unset();
        /// Clients per pool of this database that may keep their server beyond the transaction; `auto` = all servers but one, 0 = no limit.
        max_pinned: Option<MaxPinned> = pool_size("0").unset();
        /// Overrides the global `max_waiting`; 0 = no limit.
        max_waiting: Option<u32> = int("0").unset();
        /// Overrides the global `prepare_unnamed_after`; 0 = never.
        prepare_unnamed_after: Option<u32> = ranged("0", 0, 1_000_000).unset();
        /// Overrides the global `query_wait_timeout`; 0 = off.
        query_wait_timeout: Option<Duration> = seconds("0").unset();
        /// Order in which new connections try several hosts.
        load_balance_hosts: LoadBalanceHosts = word(LoadBalanceHosts::NAMES, "round-robin");
        /// Hosts on which sessions run: `read-write` and `primary` use the primary, `read-only` and `standby` use replicas, `prefer-standby` uses the primary only without a replica. Needs several hosts.
        target: Target = word(Target::NAMES, "read-write");
        /// Overrides the global `read_write_split`. Needs several hosts, as all options down to `watch_dbname`.
        read_write_split: Option<ReadWriteSplit> = word(ReadWriteSplit::NAMES, "off").unset();
        /// Overrides the global `comment_hints`.
        comment_hints: Option<bool> = flag("0").unset();
        /// Overrides the global `split_begin`.
        split_begin: Option<SplitBegin> = word(SplitBegin::NAMES, "conservative").unset();
        /// Overrides the global `read_consistency`.
        read_consistency: Option<ReadConsistency> = word(ReadConsistency::NAMES, "session").unset();
        /// Overrides the global `max_staleness`; 0 = no limit.
        max_staleness: Option<Duration> = seconds("0").unset();
        /// Overrides the global `max_lag`; 0 = no limit.
        max_lag: Option<u64> = size("0", 0, LAG_MAX).unset();
        /// Overrides the global `read_wait`.
        read_wait: Option<Duration> = seconds("0").unset();
        /// Overrides the global `read_guard`.
        read_guard: Option<bool> = flag("0").unset();
        /// Overrides the global `read_fallback`.
        read_fallback: Option<ReadFallback> = word(ReadFallback::NAMES, "primary").unset();
        /// Overrides the global `fallback_max_share`.
        fallback_max_share: Option<u32> = ranged("100", 1, 100).unset();
        /// Functions whose callers belong on the primary, although their definition does not show that they write.
        primary_functions: Vec<FunctionPattern> = of_kind(Kind::Patterns, "");
        /// Functions that may run on a replica, although nothing in their definition says that they only read.
        read_functions: Vec<FunctionPattern> = of_kind(Kind::Patterns, "");
        /// Overrides the global `split_brain`.
        split_brain: Option<SplitBrain> = word(SplitBrain::NAMES, "newest").unset();
        /// Overrides the global `failover_hold`; 0 = clients are not held.
        failover_hold: Option<Duration> = seconds("0").unset();
        /// Overrides the global `min_time_between_holds`.
        min_time_between_holds: Option<Duration> = seconds("0").unset();
        /// Overrides the global `keep_client`.
        keep_client: Option<bool> = flag("0").unset();
        /// Places that tell of failovers, whose news have all hosts probed at once: `patroni:http://HOST:PORT` or `etcd:http://HOST:PORT/NAMESPACE/SCOPE`, or with `https`; `repmgr:postgresql://HOST:PORT/DATABASE` or `pg_auto_failover:postgresql://HOST:PORT/DATABASE`. Elements without a tool are further servers of the one before.
        failover_hints: Vec<HintPoint> = of_kind(Kind::Hints, "");
        /// User at the places of `failover_hints`; without it they are asked anonymously. Needed for `postgresql`.
        failover_hints_user: Option<String> = text("").unset().longest(127);
        /// Password of `failover_hints_user`. A server of `postgresql` on another machine gets it by SCRAM only.
        failover_hints_password: Option<Secret> = of_kind(Kind::Secret, "").unset().longest(1024);
        /// CA certificates for places of `failover_hints` with `https`; without it those of the operating system.
        failover_hints_ca_file: Option<String> = text("").unset();
        /// Witness for a new primary while the former one still answers as a primary: with `patroni` the leader that `failover_hints` name, if its host says itself that it is the primary and has the higher timeline. Needs a place of `patroni` or `etcd` in `failover_hints`.
        fence: Fence = word(Fence::NAMES, "none");
        /// Overrides the global `watch_user`.
        watch_user: Option<String> = text("").unset().longest(127);
        /// Overrides the global `watch_password`.
        watch_password: Option<Secret> = of_kind(Kind::Secret, "").unset().longest(65_530);
        /// Database to which the watching connection logs in; `dbname` by default.
        watch_dbname: Option<String> = text("").unset().longest(63);
        /// Servers of this database over all its pools; 0 = unlimited.
        max_db_connections: Option<u32> = int("0").unset();
        /// Clients of this database; 0 = unlimited.
        max_db_client_connections: Option<u32> = int("0").unset();
        /// Overrides the global `server_lifetime`; 0 = close after each use.
        server_lifetime: Option<Duration> = seconds("0").unset();
        /// Overrides the global `server_lifetime_jitter`; 0 = off.
        server_lifetime_jitter: Option<Duration> = seconds("0").unset();
        /// Overrides the global `server_idle_timeout`; 0 = off.
        server_idle_timeout: Option<Duration> = seconds("0").unset();
        /// Overrides the global `server_tls_sslmode`.
        server_tls_sslmode: Option<SslMode> = word(SslMode::NAMES, "prefer").unset();
        /// Overrides the global `server_tls_key_file`.
        server_tls_key_file: Option<String> = text("").unset();
        /// Overrides the global `server_tls_cert_file`.
        server_tls_cert_file: Option<String> = text("").unset();
        /// Overrides the global `server_tls_ca_file`.
        server_tls_ca_file: Option<String> = text("").unset();
        /// Overrides the global `server_tls_crl_file`.
        server_tls_crl_file: Option<String> = text("").unset();
        /// Overrides the global `server_tls_protocols`.
        server_tls_protocols: Option<String> = text("").unset();
        /// Overrides the global `server_tls_ciphers`.
        server_tls_ciphers: Option<String> = text("").unset();
        /// Overrides the global `server_tls13_ciphers`.
        server_tls13_ciphers: Option<String> = text("").unset();
        /// Overrides the global `server_tls_sslnegotiation`.
        server_tls_sslnegotiation: Option<SslNegotiation> = word(SslNegotiation::NAMES, "postgres").unset();
        /// Overrides the global `server_channel_binding`.
        server_channel_binding: Option<ChannelBinding> = word(ChannelBinding::NAMES, "prefer").unset();
        /// Startup value of client_encoding on the server.
        client_encoding: Option<String> = text("").unset();
        /// Startup value of DateStyle on the server.
        datestyle: Option<String> = text("").unset();
        /// Startup value of TimeZone on the server.
        timezone: Option<String> = text("").unset();
        /// Startup value of application_name on the server.
        application_name: Option<String> = text("").unset();
    }
}
