//! Effective settings as plain structs, and the rules by which user, database and global options combine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_rules::StatementList;

use crate::cluster::{Cluster, HostTables};
use crate::options::{
    Database, Global, Host, Listener, Opt, Peer, PoolOptions, Scope, UserSettings,
};
use crate::raw::{Raw, Values};
use crate::rules::QueryRule;
use crate::state::{FunctionName, StateCheck};
use crate::tls::ServerTls;
use crate::types::{
    HostAddr, LoadBalanceHosts, MaxPinned, PoolMode, PoolSize, Secret, SequenceValues,
    SessionState, SizingGoal, SizingMode, StatementPolicy,
};
use crate::value::{Dialect, Value};

/// Name of the database entry that stands for every database without an entry.
pub const FALLBACK: &str = "*";
/// Longest database name, PostgreSQL's NAMEDATALEN - 1.
const NAME_LEN_MAX: usize = 63;

/// The effective configuration. Put it in an `Arc` to share it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Global options.
    pub global: Global,
    /// `[databases]` by name; `*` is the fallback.
    pub databases: BTreeMap<String, Database>,
    /// Tables of single hosts, `[databases.NAME.hosts.ADDRESS]`, by the database's name. Never empty ones.
    pub hosts: BTreeMap<String, HostTables>,
    /// `[pools]` by database and user; `*` stands for the databases of the fallback. Never empty ones.
    pub pools: BTreeMap<String, BTreeMap<String, PoolOptions>>,
    /// `[listeners]` by name.
    pub listeners: BTreeMap<String, Listener>,
    /// `[users]` by name.
    pub users: BTreeMap<String, UserSettings>,
    /// `[peers]` by id.
    pub peers: BTreeMap<u32, Peer>,
    /// `[[rules]]` in the order of the file.
    pub rules: Vec<QueryRule>,
    /// Lists of statements by user, from the files of `statement_list_dir`.
    pub statement_lists: BTreeMap<String, Arc<StatementList>>,
    /// True only for `weir run --upstream`: clients need no password, the server sees the name that they give, and
    /// `auth_file` is ignored. The listeners are on loopback then, but code that accepts connections must still check
    /// that the client's address is loopback.
    pub trust_loopback: bool,
    /// User of `weir run --upstream` whose password is known without `auth_file`.
    pub upstream_user: Option<String>,
}

/// Settings of one (database, client user) pair: pool before user before database before global. The last three are in
/// PgBouncer's order.
///
/// Counts of connections: 0 = unlimited. Times: `None` = off.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSettings {
    /// Name of the database as the client knows it.
    pub database: String,
    /// True if the `*` entry was used.
    pub is_auto: bool,
    /// Name of the database on the server.
    pub dbname: String,
    /// Hosts, at least one unless neither `host` nor `unix_socket_dir` is set.
    pub hosts: Vec<HostAddr>,
    /// Port on each host.
    pub port: u16,
    /// Several hosts with roles; `None` if `hosts` are alternatives of one host. With a cluster, `hosts` and `port` are
    /// those of its first host.
    pub cluster: Option<Arc<Cluster>>,
    /// Rule by which new connections spread over the hosts.
    pub load_balance_hosts: LoadBalanceHosts,
    /// User on the server: the forced one, else the client's.
    pub user: String,
    /// True if `user` is forced by the database.
    pub is_user_forced: bool,
    /// Password of the forced user, if the entry holds one.
    pub password: Option<Secret>,
    /// Pool mode.
    pub pool_mode: PoolMode,
    /// Treatment of session state when clients change servers.
    pub session_state: SessionState,
    /// Frequency of checks of a server before its release.
    pub session_state_check: StateCheck,
    /// Functions that change session state from within.
    pub session_state_functions: Vec<FunctionName>,
    /// Treatment of values that a client got from sequences.
    pub sequence_values: SequenceValues,
    /// Clients of this pool that may be pinned to a server; 0 = no limit.
    pub max_pinned: u32,
    /// True if clients beyond `max_pinned` may be pinned for a short time (`auto`), instead of never.
    pub has_short_pins: bool,
    /// Clients of this pool that may wait for a server at once; 0 = no limit.
    pub max_waiting: u32,
    /// Number of repetitions after which an unnamed statement is treated as a named one; 0 = never.
    pub prepare_unnamed_after: u32,
    /// Servers of this pool; their maximum if the pool finds its own size.
    pub pool_size: u32,
    /// Rules for a pool that finds its own size.
    pub sizing: Sizing,
    /// Servers kept open.
    pub min_pool_size: u32,
    /// Extra servers (0 means none here); none in a pool that finds its own size.
    pub reserve_pool_size: u32,
    /// Servers of the database over all pools.
    pub max_db_connections: u32,
    /// Clients of the database.
    pub max_db_client_connections: u32,
    /// Servers of the server user over all databases.
    pub max_user_connections: u32,
    /// Clients of the client user over all databases.
    pub max_user_client_connections: u32,
    /// Longest wait for a server.
    pub query_wait_timeout: Option<Duration>,
    /// Age at which a server is closed; zero = after each use.
    pub server_lifetime: Duration,
    /// Maximum difference of a server's lifetime from `server_lifetime`; `None`: it is up to a tenth longer.
    pub server_lifetime_jitter: Option<Duration>,
    /// Time after which an unused server is closed.
    pub server_idle_timeout: Option<Duration>,
    /// Time for which clients wait for the only host of the database after it has gone; zero = they fail at once.
    pub failover_hold: Duration,
    /// An outage that begins sooner than this after the end of the one before lets nobody wait.
    pub min_time_between_holds: Duration,
    /// True if clients that lose their server in a transaction block keep their session.
    pub keep_client: bool,
    /// True if hints in comments of statements count.
    pub comment_hints: bool,
    /// Treatment of statements that are not in the client user's list.
    pub statement_policy: StatementPolicy,
    /// Statement for each new server.
    pub connect_query: Option<String>,
    /// Startup values for the server: `client_encoding`, `datestyle`, `timezone`, `application_name`, as set.
    pub startup: Vec<(&'static str, String)>,
    /// Longest query.
    pub query_timeout: Option<Duration>,
    /// Longest transaction.
    pub transaction_timeout: Option<Duration>,
    /// Longest idle time inside a transaction.
    pub idle_transaction_timeout: Option<Duration>,
    /// Longest idle time outside a transaction.
    pub client_idle_timeout: Option<Duration>,
    /// TLS of server connections for all purposes: queries, cancels, checks, `auth_query`.
    pub tls: ServerTls,
    /// Look-up of the secrets of clients that are not in `auth_file`; `None` = no look-up.
    pub auth: Option<AuthLookup>,
}

/// Rules by which a pool finds its own size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// Off in session mode, and if `pool_size` is a number.
    pub mode: SizingMode,
    /// Benefit that a larger pool must bring.
    pub goal: SizingGoal,
    /// Assigned servers at the start.
    pub start: u32,
    /// Minimum number of assigned servers.
    pub min: u32,
    /// Maximum number of servers.
    pub max: u32,
}

/// Look-up of the secret of a user who is not in `auth_file`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuthLookup {
    /// The user that runs the query. Never empty; its own secret is in `auth_file`, or the server needs none.
    pub user: String,
    /// The query with the parameter `$1`. Never empty.
    pub query: String,
    /// The database to query, by its name in `[databases]`. It may be missing there, or be served by `*`. It is never
    /// the console's.
    pub dbname: String,
}

impl Settings {
    /// Resolves the settings of a client with this database and user; `None` if there is no such database.
    ///
    /// Settings of the pool (mode, sizes, waiting) look up the user on the server. Settings of the client (timeouts,
    /// client limit) look up the user who logged in, both in `[pools]` and in `[users]`. These differ if the database forces a user.
    #[must_use]
    pub fn pool(&self, database: &str, user: &str) -> Option<PoolSettings> {
        self.pool_in(database, user, None)
    }

    /// As [`Settings::pool`], for a client whose listener sets the pool mode.
    #[must_use]
    #[expect(clippy::too_many_lines, reason = "a flat table, one row per setting")]
    pub fn pool_in(
        &self,
        database: &str,
        user: &str,
        mode: Option<PoolMode>,
    ) -> Option<PoolSettings> {
        let (entry, is_auto) = self.database(database)?;
        let server_user = entry.user.as_deref().unwrap_or(user);
        let server = self.users.get(server_user);
        let client = self.users.get(user);
        let entry_name = if is_auto { FALLBACK } else { database };
        let own = self.pool_options(database, entry_name, server_user);
        let own_client = self.pool_options(database, entry_name, user);
        let global = &self.global;
        let count =
            |user: Option<&UserSettings>,
             own: fn(&UserSettings) -> Option<u32>,
             entry: Option<u32>,
             global: u32| user.and_then(own).or(entry).unwrap_or(global);
        let time = |pool: fn(&PoolOptions) -> Option<Duration>,
                    own: fn(&UserSettings) -> Option<Duration>,
                    global: Option<Duration>| {
            let pool = own_client.and_then(pool);
            pick_time(pool.or_else(|| client.and_then(own)), global)
        };
        let pool_mode = mode
            .or_else(|| own.and_then(|p| p.pool_mode))
            .or_else(|| server.and_then(|u| u.pool_mode))
            .or(entry.pool_mode)
            .unwrap_or(global.pool_mode);
        let pool_size = own
            .and_then(|p| p.pool_size)
            .or_else(|| server.and_then(|u| u.pool_size))
            .or(entry.pool_size)
            .unwrap_or(global.default_pool_size);
        let sizing = global.sizing(entry, pool_size, pool_mode);
        let size = match sizing.mode {
            SizingMode::Off => pool_size.or(sizing.start),
            SizingMode::Advise | SizingMode::On => sizing.max,
        };
        let max_pinned = own
            .and_then(|p| p.max_pinned)
            .or_else(|| server.and_then(|u| u.max_pinned))
            .or(entry.max_pinned)
            .unwrap_or(global.max_pinned);
        let dbname = entry.dbname.clone().unwrap_or_else(|| database.to_owned());
        let cluster = self.cluster(entry_name, entry, server, &dbname);
        let (hosts, port) = self.contacts(entry, cluster.as_ref());
        Some(PoolSettings {
            database: database.to_owned(),
            is_auto,
            dbname,
            hosts,
            port,
            cluster: cluster.map(Arc::new),
            load_balance_hosts: entry.load_balance_hosts,
            user: server_user.to_owned(),
            is_user_forced: entry.user.is_some(),
            password: entry.user.as_ref().and_then(|_| entry.password.clone()),
            pool_mode,
            session_state: server
                .and_then(|u| u.session_state)
                .or(entry.session_state)
                .unwrap_or(global.session_state),
            session_state_check: entry
                .session_state_check
                .unwrap_or(global.session_state_check),
            session_state_functions: entry
                .session_state_functions
                .clone()
                .unwrap_or_else(|| global.session_state_functions.clone()),
            sequence_values: server
                .and_then(|u| u.sequence_values)
                .or(entry.sequence_values)
                .unwrap_or(global.sequence_values),
            max_pinned: max_pinned.of(size),
            has_short_pins: max_pinned == MaxPinned::Auto,
            max_waiting: own.and_then(|p| p.max_waiting).unwrap_or_else(|| {
                count(
                    server,
                    |u| u.max_waiting,
                    entry.max_waiting,
                    global.max_waiting,
                )
            }),
            prepare_unnamed_after: entry
                .prepare_unnamed_after
                .unwrap_or(global.prepare_unnamed_after),
            pool_size: size,
            sizing,
            min_pool_size: own
                .and_then(|p| p.min_pool_size)
                .or(entry.min_pool_size)
                .unwrap_or(global.min_pool_size),
            reserve_pool_size: match sizing.mode {
                SizingMode::Off => own.and_then(|p| p.reserve_pool_size).unwrap_or_else(|| {
                    count(
                        server,
                        |u| u.reserve_pool_size,
                        entry.reserve_pool_size,
                        global.reserve_pool_size,
                    )
                }),
                // Assigned servers have a limit of their own.
                SizingMode::Advise | SizingMode::On => 0,
            },
            max_db_connections: entry
                .max_db_connections
                .unwrap_or(global.max_db_connections),
            max_db_client_connections: entry
                .max_db_client_connections
                .unwrap_or(global.max_db_client_connections),
            max_user_connections: count(
                server,
                |u| u.max_user_connections,
                None,
                global.max_user_connections,
            ),
            max_user_client_connections: count(
                client,
                |u| u.max_user_client_connections,
                None,
                global.max_user_client_connections,
            ),
            query_wait_timeout: pick_time(
                own.and_then(|p| p.query_wait_timeout)
                    .or_else(|| server.and_then(|u| u.query_wait_timeout))
                    .or(entry.query_wait_timeout),
                global.query_wait_timeout,
            ),
            server_lifetime: own
                .and_then(|p| p.server_lifetime)
                .or(entry.server_lifetime)
                .unwrap_or(global.server_lifetime),
            server_lifetime_jitter: pick_time(
                own.and_then(|p| p.server_lifetime_jitter)
                    .or(entry.server_lifetime_jitter),
                global.server_lifetime_jitter,
            ),
            server_idle_timeout: pick_time(
                own.and_then(|p| p.server_idle_timeout)
                    .or(entry.server_idle_timeout),
                global.server_idle_timeout,
            ),
            failover_hold: entry.failover_hold.unwrap_or(global.failover_hold),
            min_time_between_holds: entry
                .min_time_between_holds
                .unwrap_or(global.min_time_between_holds),
            keep_client: entry.keep_client.unwrap_or(global.keep_client),
            comment_hints: server
                .and_then(|u| u.comment_hints)
                .or(entry.comment_hints)
                .unwrap_or(global.comment_hints),
            statement_policy: client.and_then(|u| u.statement_policy).unwrap_or_default(),
            connect_query: entry
                .connect_query
                .clone()
                .filter(|query| !query.is_empty()),
            startup: entry.startup(),
            query_timeout: time(
                |p| p.query_timeout,
                |u| u.query_timeout,
                global.query_timeout,
            ),
            transaction_timeout: time(
                |p| p.transaction_timeout,
                |u| u.transaction_timeout,
                global.transaction_timeout,
            ),
            idle_transaction_timeout: time(
                |p| p.idle_transaction_timeout,
                |u| u.idle_transaction_timeout,
                global.idle_transaction_timeout,
            ),
            client_idle_timeout: time(
                |p| p.client_idle_timeout,
                |u| u.client_idle_timeout,
                global.client_idle_timeout,
            ),
            tls: global.server_tls_of(entry),
            auth: self.auth_lookup(database),
        })
    }

    /// Returns the look-up for users who name this database, which may be one of `[databases]`, the console or unknown.
    /// The entry's options come before the global ones. `None` if no `auth_user` is set, `auth_query` is empty, or
    /// there is no database to query.
    #[must_use]
    pub fn auth_lookup(&self, database: &str) -> Option<AuthLookup> {
        let entry = self.database(database).map(|(entry, _)| entry);
        let pick = |own: fn(&Database) -> &Option<String>, global: &String| {
            let own = entry.and_then(|entry| own(entry).clone());
            Some(own.unwrap_or_else(|| global.clone())).filter(|text| !text.is_empty())
        };
        let own_name = || entry.map(|_| database.to_owned());
        Some(AuthLookup {
            user: pick(|d| &d.auth_user, &self.global.auth_user)?,
            query: pick(|d| &d.auth_query, &self.global.auth_query)?,
            dbname: pick(|d| &d.auth_dbname, &self.global.auth_dbname).or_else(own_name)?,
        })
    }

    /// Returns all TLS settings of server connections: the global ones under an empty name, then those of each database
    /// that differs.
    #[must_use]
    pub fn server_tls(&self) -> Vec<(String, ServerTls)> {
        let global = self.global.server_tls();
        let own = self.databases.iter().filter_map(|(name, entry)| {
            let tls = self.global.server_tls_of(entry);
            (tls != global).then(|| (name.clone(), tls))
        });
        let own: Vec<_> = own.collect();
        [(String::new(), global)].into_iter().chain(own).collect()
    }

    /// Returns the listener with this port, if it is one of `[listeners]`.
    #[must_use]
    pub fn listener(&self, port: u16) -> Option<&Listener> {
        let mut listeners = self.listeners.values();
        listeners.find(|listener| listener.listen_port == port)
    }

    /// Returns the pool mode that one of `[listeners]` sets for the clients of this port.
    #[must_use]
    pub fn pool_mode_of_port(&self, port: u16) -> Option<PoolMode> {
        self.listener(port)?.pool_mode
    }

    /// Returns the options for opening sockets: the global ones, then those of each of `[listeners]`.
    #[must_use]
    pub fn listening(&self) -> Vec<Global> {
        let own = self.listeners.values().map(|own| self.listening_as(own));
        std::iter::once(self.global.clone()).chain(own).collect()
    }

    /// Returns the global options with those of a listener.
    pub(crate) fn listening_as(&self, listener: &Listener) -> Global {
        let mut global = self.global.clone();
        global.listen_port = listener.listen_port;
        if let Some(addresses) = &listener.listen_addr {
            global.listen_addr.clone_from(addresses);
        }
        if let Some(directory) = &listener.unix_socket_dir {
            global.unix_socket_dir.clone_from(directory);
        }
        global
    }

    /// True if a database has several hosts.
    pub(crate) fn has_clusters(&self) -> bool {
        let mut databases = self.databases.iter();
        databases.any(|(name, entry)| !self.cluster_hosts(name, entry).is_empty())
    }

    /// Returns the entry of `[pools]` for this user of a database: by the name that the client uses, else by that of the
    /// database's entry.
    fn pool_options(&self, database: &str, entry: &str, user: &str) -> Option<&PoolOptions> {
        let find = |name: &str| self.pools.get(name)?.get(user);
        find(database).or_else(|| find(entry))
    }

    /// Returns the entry for this name, and true if it is the fallback.
    fn database(&self, name: &str) -> Option<(&Database, bool)> {
        if name.is_empty() || name.len() > NAME_LEN_MAX || name == crate::check::CONSOLE {
            return None;
        }
        match self.databases.get(name) {
            Some(entry) if name != FALLBACK => Some((entry, false)),
            _ => self.databases.get(FALLBACK).map(|entry| (entry, true)),
        }
    }

    /// Returns the hosts and the port to connect to for code that knows nothing of clusters.
    fn contacts(&self, entry: &Database, cluster: Option<&Cluster>) -> (Vec<HostAddr>, u16) {
        match cluster.and_then(|cluster| cluster.hosts.first()) {
            Some(first) => (vec![first.address.clone()], first.port),
            None if entry.host.is_empty() => {
                let socket = self.global.unix_socket();
                (socket.into_iter().collect(), entry.port)
            }
            None => (entry.host.clone(), entry.port),
        }
    }

    /// Combines the sources. Call it only if they hold no mistakes.
    pub(crate) fn build(raw: &Raw, format: Format, path: &str) -> Self {
        let mut global =
            Global::from_values(&|name| value_of(&raw.global, Scope::Global, name, format));
        if global.conffile.is_empty() {
            path.clone_into(&mut global.conffile);
        }
        let databases = raw.databases.iter().map(|(name, (values, _))| {
            let get = |key: &str| value_of(values, Scope::Database, key, format);
            (name.clone(), Database::from_values(&get))
        });
        let hosts = raw.hosts.iter().map(|(name, tables)| {
            let tables = tables.iter().map(|(point, (values, _))| {
                let get = |key: &str| value_of(values, Scope::Host, key, format);
                (point.clone(), Host::from_values(&get))
            });
            (name.clone(), tables.collect())
        });
        let pools = raw.pools.iter().map(|(name, tables)| {
            let tables = tables.iter().map(|(user, (values, _))| {
                let get = |key: &str| value_of(values, Scope::Pool, key, format);
                (user.clone(), PoolOptions::from_values(&get))
            });
            (name.clone(), tables.collect())
        });
        let listeners = raw.listeners.iter().map(|(name, (values, _))| {
            let get = |key: &str| value_of(values, Scope::Listener, key, format);
            (name.clone(), Listener::from_values(&get))
        });
        let users = raw.users.iter().map(|(name, (values, _))| {
            let get = |key: &str| value_of(values, Scope::User, key, format);
            (name.clone(), UserSettings::from_values(&get))
        });
        let peers = raw.peers.iter().map(|(id, (values, _))| {
            let get = |key: &str| value_of(values, Scope::Peer, key, format);
            (*id, Peer::from_values(&get))
        });
        Self {
            databases: databases.collect(),
            hosts: hosts.collect(),
            pools: pools.collect(),
            listeners: listeners.collect(),
            users: users.collect(),
            peers: peers.collect(),
            rules: crate::rules::finished(raw.rules.clone()),
            statement_lists: (raw.statement_lists.iter())
                .map(|(user, list)| (user.clone(), Arc::new(list.clone())))
                .collect(),
            global,
            trust_loopback: false,
            upstream_user: None,
        }
    }
}

impl Global {
    /// Number of connections to a peer without `pool_size`.
    #[must_use]
    pub fn peer_connections(&self) -> u32 {
        self.default_pool_size.or(self.pool_size_start)
    }

    /// Returns the sizing rules for pools of this database.
    fn sizing(&self, entry: &Database, size: PoolSize, pool_mode: PoolMode) -> Sizing {
        let max = entry.pool_size_max.unwrap_or(self.pool_size_max);
        let min = entry.pool_size_min.unwrap_or(self.pool_size_min).min(max);
        let start = entry.pool_size_start.unwrap_or(self.pool_size_start);
        let mode = entry.pool_size_mode.unwrap_or(self.pool_size_mode);
        let is_fixed = size != PoolSize::Auto || pool_mode == PoolMode::Session;
        Sizing {
            mode: if is_fixed { SizingMode::Off } else { mode },
            goal: entry.pool_size_goal.unwrap_or(self.pool_size_goal),
            start: start.clamp(min, max),
            min,
            max,
        }
    }

    /// The unix socket's directory or abstract name, or `None` for no socket.
    #[must_use]
    pub fn unix_socket(&self) -> Option<HostAddr> {
        match self.unix_socket_dir.strip_prefix('@') {
            _ if self.unix_socket_dir.is_empty() => None,
            Some(name) => Some(HostAddr::Abstract(name.to_owned())),
            None => Some(HostAddr::UnixDir(PathBuf::from(&self.unix_socket_dir))),
        }
    }

    /// The statement that checks a server: `None` = no check, empty = an empty query.
    #[must_use]
    pub fn check_query(&self) -> Option<&str> {
        match self.server_check_query.as_str() {
            "" => None,
            "<empty>" => Some(""),
            query => Some(query),
        }
    }

    /// Number of worker threads on a machine with this many cores; at least one.
    #[must_use]
    pub fn worker_count(&self, cores: usize) -> usize {
        match self.workers {
            0 => cores.max(1),
            workers => usize::try_from(workers).unwrap_or(1),
        }
    }
}

impl Database {
    /// Returns the startup values that are set, by the name of the parameter.
    fn startup(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("client_encoding", &self.client_encoding),
            ("datestyle", &self.datestyle),
            ("timezone", &self.timezone),
            ("application_name", &self.application_name),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value.clone()?)))
            .collect()
    }
}

/// Applies an override; zero switches the limit off.
pub(crate) fn pick_time(over: Option<Duration>, global: Option<Duration>) -> Option<Duration> {
    over.map_or(global, |time| (!time.is_zero()).then_some(time))
}

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Ini,
    Native,
}

/// Returns the default of a row in a format.
pub(crate) fn default_of(opt: &Opt, format: Format) -> Value {
    let text = match format {
        Format::Native => opt.default_native.or(opt.default),
        Format::Ini => opt.default,
    };
    // The table's own defaults parse; a test checks this.
    text.and_then(|text| opt.parse(text, Dialect::Ini).ok())
        .unwrap_or(Value::Unset)
}

fn value_of(values: &Values, scope: Scope, name: &str, format: Format) -> Value {
    match (values.get(name), scope.find(name)) {
        (Some((value, _)), _) => value.clone(),
        (None, Some(opt)) => default_of(opt, format),
        (None, None) => Value::Unset,
    }
}
