//! State shared by all workers. A transaction in steady state touches only atomics in here. The locks are taken when
//! clients log in or leave, when connections are made, and for cancels.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_auth::account_cache::{AccountCache, Clocks};
use weir_auth::fetched::{self, FetchError};
use weir_auth::kdf::ScramKeys;
use weir_auth::login::Account;
use weir_auth::secret::Secret;
use weir_auth::stored::StoredSecret;
use weir_auth::throttle::{Rules, Source};
use weir_auth::userlist::UserList;
use weir_config::{AuthLookup, CONSOLE_RESERVE, PoolSettings, QueryRule, Settings};
use weir_pool::{Moment, Quota, Shared};
use weir_rules::Bulkhead;
use weir_sql::Names;
use weir_stats::{Halts, LimitRow, Snapshot};

use crate::clock::Clock;
use crate::console::{Command, Console, DATABASES};
use crate::diagnosing::Diagnosing;
use crate::hints;
use crate::hosts::{HostId, Hosts};
use crate::mailbox::{Mailbox, Message};
use crate::mirrors::{Mirror, Mirrors, Newcomer};
use crate::orders::{self, Refusal, RuleOrder};
use crate::resolve::Resolver;
use crate::settled::Settled;
use crate::watching::Watching;
use crate::worker::{Broken, ClientId, routing_names};

mod annexes;
mod bulkheads;
mod cluster;
mod database;
mod facts;
mod group;
mod hint;
mod host_rows;
mod live_rules;
mod logins;
mod parts;
mod purpose;
mod shown;
mod sizes;
mod statement_records;

use annexes::Annexes;
pub(crate) use cluster::{
    Cluster, Clusters, FreshnessWaiter, LeaderReport, LeaderReporter, cluster_name,
};
pub(crate) use database::DatabaseState;
use facts::Facts;
use group::PoolKey;
pub(crate) use group::{GlobalGroup, GlobalPool, GroupKey, LastError, finds_size, policy};
pub(crate) use host_rows::host_rows;
use logins::Logins;
pub(crate) use logins::host_name;
use parts::{Halting, Helpers, Limits, Secrets, Sources, Succession, Workers};
pub(crate) use purpose::Purpose;
pub(crate) use shown::{balance_name, mode_name};

/// Maximum number of accounts from auth_query that are kept.
const ACCOUNTS_MAX: usize = 10_000;
/// Longest delay of the answer to a failed login, unless `auth_failure_delay` is longer.
const DELAY_MAX: Duration = Duration::from_secs(5);
/// Burst of cancel requests, in seconds of `cancel_requests_per_second`.
const CANCEL_BURST: u32 = 5;
/// Maximum number of derived keys that are kept.
const KEYS_MAX: usize = 4096;
/// Number of connections allowed beyond `max_client_conn`, for clients that have not named their user yet and for
/// cancels.
const GREETERS_MAX: usize = 256;

/// Locks a mutex, even a poisoned one. These mutexes guard only plain data, which stays usable after a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Client that can be cancelled.
struct Cancellable {
    key: Secret,
    place: Place,
}

/// Location of a client: its worker, and its id there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) worker: usize,
    pub(crate) client: ClientId,
}

/// Limits on clients and servers, by the name of a database or user.
type Quotas = Mutex<HashMap<String, Arc<Quota>>>;

type Pools = HashMap<PoolKey, Arc<GlobalPool>>;

/// See the module's page.
pub(crate) struct Global {
    pub(crate) clock: Clock,
    /// Lookups that failed where an entry had to exist.
    pub(crate) broken: Arc<Broken>,
    pub(crate) console: Arc<dyn Console>,
    pub(crate) commands: crossbeam_channel::Sender<Command>,
    /// Listening sockets of `metrics_listen`.
    pub(crate) monitors: Mutex<Vec<std::net::TcpListener>>,
    pub(crate) workers: Workers,
    pub(crate) helpers: Helpers,
    pub(crate) resolver: Resolver,
    pub(crate) limits: Limits,
    pub(crate) sources: Sources,
    pub(crate) secrets: Secrets,
    pub(crate) halting: Halting,
    pub(crate) succession: Succession,
    pub(crate) mirrors: Mirrors,
    pub(crate) logins: Logins,
    pub(crate) facts: Facts,
    pub(crate) diagnosing: Diagnosing,
    settled: RwLock<Arc<Settled>>,
    ids: AtomicU64,
    /// Number of client transactions that have changed roles or defaults of sessions.
    pub(crate) role_changes: AtomicU64,
    pub(crate) hosts: Hosts,
    /// Hosts of databases that have several.
    pub(crate) clusters: Clusters,
    pub(crate) watching: Watching,
    /// Threads that hear of failovers.
    pub(crate) hint_sources: hints::Sources,
    /// Pools of each group: one, or one for each host of a database that has several and a waiting room.
    pools: Mutex<Pools>,
    annexes: Mutex<Annexes>,
    /// Clients by process number. Peers leave few numbers, so several clients may share one.
    cancellable: Mutex<HashMap<u32, Vec<Cancellable>>>,
}

/// Error: `max_pools` is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyPools;

impl Global {
    pub(crate) fn new(
        settled: Settled,
        console: Arc<dyn Console>,
        workers: usize,
        commands: crossbeam_channel::Sender<Command>,
    ) -> std::io::Result<Self> {
        let global = &settled.settings.global;
        let clients_max = usize::try_from(global.max_client_conn).unwrap_or(usize::MAX);
        let failures = failure_rules(&settled.settings);
        let cancels = cancel_rules(&settled.settings);
        let accounts = AccountCache::new(
            ACCOUNTS_MAX,
            global.auth_query_cache_ttl.unwrap_or_default(),
        );
        Ok(Self {
            clock: Clock::new(),
            console,
            resolver: Resolver::default(),
            commands,
            monitors: Mutex::default(),
            hosts: Hosts::new(logins_max(&settled.settings)),
            settled: RwLock::new(Arc::new(settled)),
            ids: AtomicU64::new(1),
            broken: Arc::default(),
            role_changes: AtomicU64::new(0),
            clusters: Clusters::default(),
            watching: Watching::default(),
            hint_sources: hints::Sources::default(),
            pools: Mutex::default(),
            annexes: Mutex::default(),
            cancellable: Mutex::default(),
            workers: Workers::new(workers),
            helpers: Helpers::start()?,
            limits: Limits::new(clients_max),
            sources: Sources::new(failures, cancels),
            secrets: Secrets::new(accounts)?,
            halting: Halting::default(),
            succession: Succession::default(),
            mirrors: Mirrors::default(),
            logins: Logins::default(),
            facts: Facts::default(),
            diagnosing: Diagnosing::default(),
        })
    }

    /// Returns the configuration in force.
    pub(crate) fn settled(&self) -> Arc<Settled> {
        Arc::clone(&self.settled.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the query rules in force, in the order in which they are asked.
    pub(crate) fn query_rules(&self) -> Vec<QueryRule> {
        let settled = self.settled();
        lock(&self.halting.rules).effective(&settled.settings.rules)
    }

    /// Returns the limits of query rules on statements that run at once.
    pub(crate) fn bulkheads(&self) -> Vec<Arc<Bulkhead>> {
        lock(&self.halting.bulkheads).all()
    }

    /// Returns the mirrors of the query rules in force.
    pub(crate) fn settle_mirrors(&self) -> Vec<Arc<Mirror>> {
        self.mirrors.settle(|| self.query_rules())
    }

    /// Returns the functions of which the configuration says where they run in a database.
    pub(crate) fn names_of(&self, database: &str, user: &str) -> Names {
        let pool = self.settled().settings.pool(database, user);
        pool.as_ref().map_or_else(Names::default, routing_names)
    }

    /// Gives a client of a mirror to the worker with the fewest clients.
    pub(crate) fn welcome_mirror(&self, newcomer: Newcomer) -> Result<(), &'static str> {
        let worker = self.least_loaded(0);
        let (Some(load), Some(mailbox)) = (self.workers.loads.get(worker), self.mailbox(worker))
        else {
            return Err("no worker");
        };
        load.fetch_add(1, Ordering::Relaxed);
        mailbox
            .send(Message::Mirror(Box::new(newcomer)))
            .map_err(|_| {
                load.fetch_sub(1, Ordering::Relaxed);
                "a worker has too many messages"
            })
    }

    /// Changes the query rules at this Unix time in seconds.
    pub(crate) fn order_rule(&self, order: RuleOrder, unix: i64) -> Result<(), Refusal> {
        let settled = self.settled();
        lock(&self.halting.rules).apply(order, &settled.settings.rules, unix)
    }

    /// Puts another configuration in force. Limits change at once, pools when the workers learn of it.
    pub(crate) fn settle(&self, settled: Arc<Settled>) {
        let global = &settled.settings.global;
        let clients_max = usize::try_from(global.max_client_conn).unwrap_or(usize::MAX);
        self.limits.clients.set_max(clients_max);
        self.limits
            .greeters
            .set_max(clients_max.saturating_add(GREETERS_MAX + CONSOLE_RESERVE));
        self.hosts.set_logins_max(logins_max(&settled.settings));
        let (halts, pools) = self.halts_and_pools();
        for pool in pools.values() {
            let group = &pool.group;
            let key = &group.key;
            group.keep_proofs_of(&settled.users);
            let new = (key.purpose).settings(&settled.settings, &key.database, &key.user);
            if let Some(new) = new {
                self.quotas_of(&new);
                let hosts = self.hosts.alternatives(&new, pool.host);
                *group
                    .settings
                    .write()
                    .unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                pool.shared.set_hosts(hosts);
                pool.shared.forgive();
                orders::pause(pool, &halts);
                self.settle_sizing(pool);
            }
        }
        self.settle_annexes(&halts);
        drop((halts, pools));
        lock(&self.sources.failures).set_rules(failure_rules(&settled.settings));
        lock(&self.sources.cancels).set_rules(cancel_rules(&settled.settings));
        // A new cache: accounts belong to the configuration whose query found them.
        let ttl = global.auth_query_cache_ttl.unwrap_or_default();
        *lock(&self.secrets.accounts) = AccountCache::new(ACCOUNTS_MAX, ttl);
        *self.settled.write().unwrap_or_else(PoisonError::into_inner) = settled;
    }

    /// Returns the next connection number. Clients and servers share the counter, as in PgBouncer.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn mailbox(&self, worker: usize) -> Option<&Mailbox> {
        self.workers
            .mailboxes
            .get()
            .and_then(|boxes| boxes.get(worker))
    }

    pub(crate) fn worker_count(&self) -> usize {
        self.workers.loads.len()
    }

    /// Returns the worker with the fewest clients; `own` on a tie.
    pub(crate) fn least_loaded(&self, own: usize) -> usize {
        let load = |worker: &usize| {
            self.workers
                .loads
                .get(*worker)
                .map_or(usize::MAX, |n| n.load(Ordering::Relaxed))
        };
        let best = (0..self.worker_count()).min_by_key(|worker| (load(worker), *worker != own));
        best.unwrap_or(own)
    }

    /// Tells every worker that a place was released, for which a waiter may be waiting.
    pub(crate) fn wake_all(&self) {
        for mailbox in self.workers.mailboxes.get().into_iter().flatten() {
            mailbox.retry();
        }
    }

    // --- limits ---

    /// Returns the limits on clients of a database and of a user.
    pub(crate) fn client_quotas(
        &self,
        pool: &PoolSettings,
        user: &str,
    ) -> (Arc<Quota>, Arc<Quota>) {
        (
            quota(
                &self.limits.database_clients,
                &pool.database,
                pool.max_db_client_connections,
            ),
            quota(
                &self.limits.user_clients,
                user,
                pool.max_user_client_connections,
            ),
        )
    }

    /// Returns the limits on clients of the console and of a user.
    pub(crate) fn console_quotas(&self, user: &str) -> (Arc<Quota>, Arc<Quota>) {
        let settled = self.settled();
        let global = &settled.settings.global;
        let of_user = settled.settings.users.get(user);
        let of_user = of_user.and_then(|user| user.max_user_client_connections);
        let [console, _] = DATABASES;
        (
            quota(
                &self.limits.database_clients,
                console,
                global.max_db_client_connections,
            ),
            quota(
                &self.limits.user_clients,
                user,
                of_user.unwrap_or(global.max_user_client_connections),
            ),
        )
    }

    fn quotas_of(&self, pool: &PoolSettings) -> (Arc<Quota>, Arc<Quota>) {
        (
            quota(
                &self.limits.database_servers,
                &pool.database,
                pool.max_db_connections,
            ),
            quota(
                &self.limits.user_servers,
                &pool.user,
                pool.max_user_connections,
            ),
        )
    }

    /// Returns the pool of a database and server user; creates it on first use.
    pub(crate) fn pool(&self, settings: PoolSettings) -> Result<Arc<GlobalPool>, TooManyPools> {
        self.pool_for(settings, Purpose::Clients)
    }

    /// Returns the pool that queries secrets and roles as `user` (hazard SEC-43). Clients never use this pool, even if
    /// they log in as the same user.
    pub(crate) fn private_pool(
        &self,
        settings: PoolSettings,
        user: &str,
        purpose: Purpose,
    ) -> Result<Arc<GlobalPool>, TooManyPools> {
        self.pool_for(purpose.apply(settings, user), purpose)
    }

    /// Returns the pool of the connection that listens for the clients of a database. The keys and the secret for our
    /// logins are copied from the pool `clients`.
    pub(crate) fn listener_pool(
        &self,
        clients: &GlobalPool,
    ) -> Result<Arc<GlobalPool>, TooManyPools> {
        let purpose = Purpose::Listener;
        let clients = &clients.group;
        let settings = PoolSettings::clone(&clients.settings());
        let user = settings.user.clone();
        let pool = self.pool_for(purpose.apply(settings, &user), purpose)?;
        let (pass_through, learnt) = (
            lock(&clients.pass_through).clone(),
            lock(&clients.learnt).clone(),
        );
        *lock(&pool.group.pass_through) = pass_through;
        *lock(&pool.group.learnt) = learnt;
        Ok(pool)
    }

    fn pool_for(
        &self,
        settings: PoolSettings,
        purpose: Purpose,
    ) -> Result<Arc<GlobalPool>, TooManyPools> {
        let group = GroupKey::of(&settings, purpose);
        let key = PoolKey { group, host: None };
        let (halts, mut pools) = self.halts_and_pools();
        if let Some(pool) = pools.get(&key) {
            return Ok(Arc::clone(pool));
        }
        let settled = self.settled();
        let max = usize::try_from(settled.settings.global.max_pools).unwrap_or(usize::MAX);
        if pools.len() >= max {
            pools.retain(|_, pool| Arc::strong_count(pool) > 1);
            if pools.len() >= max {
                return Err(TooManyPools);
            }
        }
        let name = &key.group.database;
        let of_database = pools.values().find(|pool| pool.group.key.database == *name);
        if settings.is_auto && of_database.is_none() {
            tracing::info!("registered new auto-database: {name}");
        }
        let database_state =
            of_database.map_or_else(Arc::default, |pool| Arc::clone(&pool.group.database_state));
        let group = Arc::new(GlobalGroup::new(
            key.group.clone(),
            settings,
            database_state,
        ));
        Ok(self.new_pool(&mut pools, group, None, &halts))
    }

    /// Returns the pool of a group at one host of a database that has several; creates it on first use.
    pub(crate) fn pool_at(&self, group: &Arc<GlobalGroup>, host: HostId) -> Arc<GlobalPool> {
        let key = PoolKey {
            group: group.key.clone(),
            host: Some(host),
        };
        let (halts, mut pools) = self.halts_and_pools();
        match pools
            .get(&key)
            .filter(|pool| Arc::ptr_eq(&pool.group, group))
        {
            Some(pool) => Arc::clone(pool),
            None => self.new_pool(&mut pools, Arc::clone(group), Some(host), &halts),
        }
    }

    /// Returns the pool of the same group at the primary, if the database has several hosts; its waiting room if none of
    /// them is the primary.
    pub(crate) fn pool_of_primary(&self, pool: &Arc<GlobalPool>) -> Arc<GlobalPool> {
        let group = &pool.group;
        if group.settings().cluster.is_none() {
            return Arc::clone(pool);
        }
        let hosts = self.clusters.of(cluster_name(&group.settings())).snapshot();
        if let Some(primary) = hosts.primary() {
            return self.pool_at(group, primary.host);
        }
        let key = PoolKey {
            group: group.key.clone(),
            host: None,
        };
        lock(&self.pools)
            .get(&key)
            .map_or_else(|| Arc::clone(pool), Arc::clone)
    }

    /// Locks the orders to pause, then the pools: in this order only, as PAUSE does.
    fn halts_and_pools(&self) -> (MutexGuard<'_, Halts>, MutexGuard<'_, Pools>) {
        let halts = lock(&self.halting.halts);
        (halts, lock(&self.pools))
    }

    fn new_pool(
        &self,
        pools: &mut Pools,
        group: Arc<GlobalGroup>,
        host: Option<HostId>,
        halts: &Halts,
    ) -> Arc<GlobalPool> {
        let settings = group.settings();
        let (database, user) = self.quotas_of(&settings);
        let hosts = self.hosts.alternatives(&settings, host);
        let policy = policy(&settings, &self.settled().settings);
        let workers = self.worker_count();
        let shared = Arc::new(Shared::new(&policy, workers, database, user, hosts));
        let key = PoolKey {
            group: group.key.clone(),
            host,
        };
        let pool = Arc::new(GlobalPool::new(group, shared, host));
        orders::pause(&pool, halts);
        self.settle_sizing(&pool);
        pools.insert(key, Arc::clone(&pool));
        pool
    }

    pub(crate) fn all_pools(&self) -> Vec<Arc<GlobalPool>> {
        let mut all: Vec<_> = lock(&self.pools).values().map(Arc::clone).collect();
        all.extend(self.annexes());
        all
    }

    /// Returns each group once. Every group has a pool without a host.
    fn all_groups(&self) -> Vec<Arc<GlobalGroup>> {
        let pools = lock(&self.pools);
        let first = pools.values().filter(|pool| pool.host.is_none());
        first.map(|pool| Arc::clone(&pool.group)).collect()
    }

    /// Returns what is known of the objects of a database, if a client has used it.
    pub(crate) fn database_state_of(&self, database: &str) -> Option<Arc<DatabaseState>> {
        let groups = self.all_groups();
        let mut groups = groups
            .iter()
            .filter(|group| *group.key.database == *database);
        groups.next().map(|group| Arc::clone(&group.database_state))
    }

    /// Adds the totals of workers that have since forgotten their pool.
    pub(crate) fn show_retired_totals(&self, snapshot: &mut Snapshot) {
        for group in self.all_groups() {
            lock(&group.retired).show_totals(snapshot, &group.key.database);
        }
    }

    /// Adds a row per pool for workers that have since forgotten it.
    pub(crate) fn show_retired_rows(&self, snapshot: &mut Snapshot) {
        for group in self.all_groups() {
            let name = (&*group.key.database, &*group.key.user);
            let size = group.settings().pool_size;
            lock(&group.retired).show_row(snapshot, name, size);
        }
    }

    /// Returns the limits in force that do not belong to one pool. Limits that are switched off have no row.
    pub(crate) fn limits(&self) -> Vec<LimitRow> {
        let mut rows = Vec::new();
        let mut add = |name, scope: &str, used: usize, max: usize| {
            if max > 0 {
                let (used, max) = (used as u64, max as u64);
                let scope = scope.to_owned();
                rows.push(LimitRow {
                    name,
                    scope,
                    used,
                    max,
                    peak: None,
                });
            }
        };
        add(
            "max_client_conn",
            "",
            self.limits.clients.used(),
            self.limits.clients.max(),
        );
        let pools_max = self.settled().settings.global.max_pools;
        let pools_max = usize::try_from(pools_max).unwrap_or(usize::MAX);
        add("max_pools", "", lock(&self.pools).len(), pools_max);
        let tables = [
            ("max_db_connections", &self.limits.database_servers),
            ("max_db_client_connections", &self.limits.database_clients),
            ("max_user_connections", &self.limits.user_servers),
            ("max_user_client_connections", &self.limits.user_clients),
        ];
        for (name, quotas) in tables {
            for (scope, quota) in lock(quotas).iter() {
                add(name, scope, quota.used(), quota.max());
            }
        }
        rows.sort_unstable_by(|a, b| (a.name, &a.scope).cmp(&(b.name, &b.scope)));
        rows
    }

    // --- cancelling ---

    /// Registers a client for cancels under a random number and key. Returns false if that pair is taken.
    pub(crate) fn register(&self, pid: u32, key: Secret, place: Place) -> bool {
        let mut known = lock(&self.cancellable);
        let same = known.entry(pid).or_default();
        if same.iter().any(|client| client.key.ct_eq(key.expose())) {
            return false;
        }
        same.push(Cancellable { key, place });
        true
    }

    pub(crate) fn unregister(&self, pid: u32, place: Place) {
        let mut known = lock(&self.cancellable);
        if let Entry::Occupied(mut same) = known.entry(pid) {
            same.get_mut().retain(|client| client.place != place);
            if same.get().is_empty() {
                same.remove();
            }
        }
    }

    /// Returns the cancel key that a client was given.
    pub(crate) fn cancel_key(&self, pid: u32, place: Place) -> Option<Secret> {
        let known = lock(&self.cancellable);
        let mut same = known.get(&pid)?.iter();
        same.find(|client| client.place == place)
            .map(|client| client.key.clone())
    }

    /// Number of clients that can be cancelled.
    #[cfg(test)]
    pub(crate) fn cancellables(&self) -> usize {
        lock(&self.cancellable).values().map(Vec::len).sum()
    }

    /// Returns the client that a cancel request names, if the key is right (compared in constant time).
    pub(crate) fn cancellable(&self, pid: u32, key: &[u8]) -> Option<Place> {
        let known = lock(&self.cancellable);
        let mut same = known.get(&pid)?.iter();
        same.find(|client| client.key.ct_eq(key))
            .map(|client| client.place)
    }

    /// Returns the limit on connections to a peer; 0 = none.
    pub(crate) fn peer_quota(&self, peer_id: u32, max: u32) -> Arc<Quota> {
        quota(&self.limits.peers, &peer_id.to_string(), max)
    }

    /// True if one more cancel request from `source` may be sent on to a peer.
    pub(crate) fn grants_forward(&self, source: Source, now: Moment) -> bool {
        lock(&self.sources.cancels)
            .take(source, since_start(now))
            .is_ok()
    }

    // --- accounts ---

    /// Returns the cached auth_query account of a user, if it is still valid.
    pub(crate) fn cached_account(
        &self,
        lookup: &AuthLookup,
        user: &str,
        now: Moment,
    ) -> Option<Account> {
        let name = account_name(lookup);
        lock(&self.secrets.accounts).get(name.as_bytes(), user.as_bytes(), clocks(now))
    }

    /// Builds the account of a user from rows of auth_query, and caches it. Fails if the rows cannot be used.
    pub(crate) fn account_of(
        &self,
        lookup: &AuthLookup,
        user: &str,
        rows: &[Vec<Option<Vec<u8>>>],
        now: Moment,
    ) -> Result<Account, FetchError> {
        let clocks = clocks(now);
        let rows: Vec<Vec<_>> = rows
            .iter()
            .map(|row| row.iter().map(Option::as_deref).collect())
            .collect();
        let rows = rows.iter().map(Vec::as_slice);
        let fetched = fetched::account(user.as_bytes(), rows, clocks.wall)?;
        let name = account_name(lookup);
        lock(&self.secrets.accounts).insert(name.as_bytes(), user.as_bytes(), &fetched, clocks);
        Ok(fetched.account)
    }

    /// Drops a cached account: a login with it has failed, so the secret may have been changed.
    pub(crate) fn forget_account(&self, lookup: &AuthLookup, user: &str) {
        let name = account_name(lookup);
        lock(&self.secrets.accounts).forget(name.as_bytes(), user.as_bytes());
    }

    // --- derived keys ---

    pub(crate) fn cached_keys(&self, request: &weir_auth::kdf::KdfRequest) -> Option<ScramKeys> {
        let name = request.cache_key(&self.secrets.keys_name)?;
        lock(&self.secrets.keys).get(&name).cloned()
    }

    pub(crate) fn cache_keys(&self, request: &weir_auth::kdf::KdfRequest, keys: &ScramKeys) {
        if let Some(name) = request.cache_key(&self.secrets.keys_name) {
            lock(&self.secrets.keys).put(name, keys.clone());
        }
    }
}

/// Returns the cache key of a lookup: database, user and query.
fn account_name(lookup: &AuthLookup) -> String {
    [&*lookup.dbname, &*lookup.user, &*lookup.query].join("\n")
}

fn clocks(now: Moment) -> Clocks {
    Clocks {
        now: since_start(now),
        wall: crate::clock::wall(),
    }
}

/// Converts a moment to the time that throttles and caches count in.
pub(crate) fn since_start(now: Moment) -> Duration {
    Duration::from_micros(now.0)
}

fn quota(quotas: &Quotas, name: &str, max: u32) -> Arc<Quota> {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let mut quotas = lock(quotas);
    if let Some(known) = quotas.get(name) {
        known.set_max(max);
        return Arc::clone(known);
    }
    // Clients choose the names: forget unused ones before the table doubles.
    if quotas.len() == quotas.capacity() {
        quotas.retain(|_, quota| Arc::strong_count(quota) > 1 || quota.used() > 0);
    }
    let quota = Arc::new(Quota::new(max));
    quotas.insert(name.to_owned(), Arc::clone(&quota));
    quota
}

/// Returns bytes of the system's random generator.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// Returns the secret of a server user: from the configuration, from the auth_file, or from a client's login.
pub(crate) fn secret_of(
    group: &GlobalGroup,
    settings: &PoolSettings,
    users: &UserList,
) -> Option<StoredSecret> {
    if let Some(password) = &settings.password {
        return Some(StoredSecret::parse(password.expose().as_bytes()));
    }
    let in_file = users.get(settings.user.as_bytes()).cloned();
    match in_file {
        Some(StoredSecret::Empty) | None => lock(&group.learnt).clone().or(in_file),
        secret => secret,
    }
}

/// Returns the source of a client, by which failed logins and cancels are limited.
pub(crate) fn source(remote: &weir_stats::Endpoint, uid: Option<u32>) -> Source {
    match remote.address.parse::<std::net::IpAddr>() {
        Ok(address) => Source::from_ip(address),
        Err(_) => Source::Unix(uid.unwrap_or(u32::MAX)),
    }
}

/// Returns the maximum number of simultaneous logins at a host.
fn logins_max(settings: &Settings) -> usize {
    usize::try_from(settings.global.server_connect_concurrency).unwrap_or(usize::MAX)
}

/// Returns the rules of `auth_failures_per_minute` and `auth_failure_delay`.
fn failure_rules(settings: &Settings) -> Rules {
    let global = &settings.global;
    let minute = Duration::from_secs(60);
    Rules {
        burst: global.auth_failures_per_minute.max(1),
        interval: minute
            .checked_div(global.auth_failures_per_minute)
            .unwrap_or_default(),
        delay_first: global.auth_failure_delay,
        delay_max: global.auth_failure_delay.max(DELAY_MAX),
        ..Rules::for_failed_logins()
    }
}

/// Returns the rules of `cancel_requests_per_second`, with a burst.
fn cancel_rules(settings: &Settings) -> Rules {
    let rate = settings.global.cancel_requests_per_second;
    Rules {
        burst: rate.saturating_mul(CANCEL_BURST).max(1),
        interval: Duration::from_secs(1).checked_div(rate).unwrap_or_default(),
        ..Rules::for_cancels()
    }
}
