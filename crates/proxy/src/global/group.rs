//! Groups of servers and their pools, as all workers share them.
//!
//! ```text
//!   GlobalGroup (database, user, purpose)      settings, rules for logins, what clients are told
//!     `-- GlobalPool, one for each host        servers, queue and limits; last error; size
//!           `-- a lane on each worker          `Lane` in `worker/slots.rs`
//! ```
//!
//! A list of alternatives (`host=a,b`) counts as one host here: its servers serve the same clients.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use weir_auth::scram::PassThrough;
use weir_auth::stored::StoredSecret;
use weir_auth::userlist::UserList;
use weir_config::{PoolSettings, Settings, SizingMode};
use weir_pool::{Policy, Shared};
use weir_session::settings::{Reported, Settings as Asked};
use weir_session::statement::Proven;
use weir_wire::backend::ErrorFields;
use weir_wire::sqlstate::SqlState;

use super::{DatabaseState, Purpose, lock};
use crate::hosts::HostId;
use crate::postponed::Postponed;
use crate::sizing::Sizing;
use crate::worker::{Retired, Standing, Trials};

/// Key of a group. `SHOW POOLS` has a row for each group of clients.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    /// Name of the database, as in SHOW POOLS; `user` likewise.
    pub(crate) database: Arc<str>,
    pub(crate) user: Arc<str>,
    pub(crate) purpose: Purpose,
}

impl GroupKey {
    /// Returns the key of the group that these settings belong to.
    pub(crate) fn of(settings: &PoolSettings, purpose: Purpose) -> Self {
        Self {
            database: settings.database.as_str().into(),
            user: settings.user.as_str().into(),
            purpose,
        }
    }
}

/// Key of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    pub(super) group: GroupKey,
    /// Host of the pool; see [`GlobalPool::host`].
    pub(super) host: Option<HostId>,
}

/// State of one group, shared by all workers. Nothing in here depends on the host of a server.
pub(crate) struct GlobalGroup {
    pub(crate) key: GroupKey,
    pub(crate) settings: RwLock<Arc<PoolSettings>>,
    pub(crate) standing: Mutex<Standing>,
    /// Parameters that servers reported, by the settings that a client asked for. A client with known settings is
    /// greeted without a server.
    pub(crate) welcomes: Mutex<HashMap<Arc<Asked>, Arc<Reported>>>,
    /// Number of workers that know the group.
    pub(crate) workers: AtomicUsize,
    /// Number of clients that are pinned to their servers, on all workers.
    pub(crate) pinned: AtomicU32,
    /// Time for which clients may keep others waiting. Touched only by clients on trial while others wait.
    pub(crate) trials: Mutex<Trials>,
    /// Statements that servers of the group have prepared.
    pub(crate) proven: Arc<Proven>,
    /// State shared by all groups of the database.
    pub(crate) database_state: Arc<DatabaseState>,
    /// SCRAM keys from the last client's own login, for our logins to servers.
    pub(crate) pass_through: Mutex<Option<PassThrough>>,
    /// Secret that the last client of this user logged in with, if it is not in the auth_file.
    pub(crate) learnt: Mutex<Option<StoredSecret>>,
    /// Counters of workers that have since forgotten the group.
    pub(crate) retired: Mutex<Retired>,
    /// Version of PostgreSQL that clients are told, if the database has several hosts: the primary's, once it is known.
    version: Mutex<Option<Box<str>>>,
}

impl GlobalGroup {
    /// Makes a group that no worker knows yet.
    pub(super) fn new(
        key: GroupKey,
        settings: PoolSettings,
        database_state: Arc<DatabaseState>,
    ) -> Self {
        Self {
            key,
            settings: RwLock::new(Arc::new(settings)),
            standing: Mutex::default(),
            welcomes: Mutex::default(),
            workers: AtomicUsize::new(0),
            pinned: AtomicU32::new(0),
            trials: Mutex::default(),
            proven: Arc::default(),
            database_state,
            pass_through: Mutex::default(),
            learnt: Mutex::default(),
            retired: Mutex::default(),
            version: Mutex::default(),
        }
    }

    pub(crate) fn settings(&self) -> Arc<PoolSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the version that clients are told, whichever host they use.
    pub(crate) fn shown_version(
        &self,
        version: Option<Box<str>>,
        is_primary: bool,
    ) -> Option<Box<str>> {
        let mut shown = lock(&self.version);
        if is_primary || shown.is_none() {
            *shown = version;
        }
        shown.clone()
    }

    /// Forgets the keys and the secret that clients left for our logins. The server refused them; the next client may
    /// bring better ones.
    pub(crate) fn forget_proofs(&self) {
        *lock(&self.pass_through) = None;
        *lock(&self.learnt) = None;
    }

    /// Stores secrets for our logins, unless a client has left newer ones.
    pub(crate) fn take_proofs(
        &self,
        pass_through: Option<PassThrough>,
        learnt: Option<StoredSecret>,
    ) {
        let mut known = lock(&self.pass_through);
        if known.is_none() {
            *known = pass_through;
        }
        let mut known = lock(&self.learnt);
        if known.is_none() {
            *known = learnt;
        }
    }

    /// Drops SCRAM keys that do not match the user's verifier in the auth_file any more (hazard SEC-64).
    pub(super) fn keep_proofs_of(&self, users: &UserList) {
        if let Some(StoredSecret::Scram(verifier)) = users.get(self.key.user.as_bytes()) {
            let mut kept = lock(&self.pass_through);
            *kept = kept.take().filter(|keys| keys.matches(verifier));
        }
    }
}

/// State of one pool, shared by all workers: the servers of a group at one host, or at the hosts of one list.
pub(crate) struct GlobalPool {
    pub(crate) group: Arc<GlobalGroup>,
    pub(crate) shared: Arc<Shared>,
    /// Host of the servers, if the database has several hosts with roles. The pool of such a database without a host is
    /// its waiting room, which never has a server.
    pub(crate) host: Option<HostId>,
    /// Error of the last login to the server that failed for good.
    pub(crate) last_error: Mutex<Option<LastError>>,
    pub(crate) postponed: Mutex<Option<Postponed>>,
    /// Controller of the pool's size; made when the pool first finds its own size.
    pub(super) sizing: OnceLock<Arc<Sizing>>,
}

impl GlobalPool {
    /// Makes a pool without servers.
    pub(super) fn new(group: Arc<GlobalGroup>, shared: Arc<Shared>, host: Option<HostId>) -> Self {
        Self {
            group,
            shared,
            host,
            last_error: Mutex::default(),
            postponed: Mutex::default(),
            sizing: OnceLock::new(),
        }
    }

    /// Makes a pool beside another one, for the replication connection of one client.
    pub(super) fn beside(pool: &Self, shared: Arc<Shared>) -> Self {
        Self::new(Arc::clone(&pool.group), shared, pool.host)
    }

    /// Returns the policy of the pool. A replication connection serves one client and is never kept for another, so it has
    /// neither a minimum nor a lifetime, and its client does not wait for a host that is gone.
    pub(crate) fn policy(&self, settings: &Settings) -> Arc<Policy> {
        let policy = policy(&self.group.settings(), settings);
        match self.shared.is_annex() {
            false => policy,
            true => Arc::new(Policy {
                min: 0,
                keep_min_without_clients: false,
                lifetime: None,
                idle_timeout: None,
                hold: Duration::ZERO,
                limits_assigned: false,
                ..Policy::clone(&policy)
            }),
        }
    }

    /// True if the pool has no servers and only lets clients wait for a host.
    pub(crate) fn is_waiting_room(&self) -> bool {
        self.host.is_none() && self.group.settings().cluster.is_some()
    }

    /// Returns the controller of the pool's size; `None` if the size is configured.
    pub(crate) fn sizing(&self) -> Option<Arc<Sizing>> {
        self.sizing
            .get()
            .filter(|_| finds_size(&self.group.settings()))
            .map(Arc::clone)
    }
}

/// Error of a failed login to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastError {
    /// Error text.
    pub(crate) text: String,
    /// Body of the server's own ErrorResponse, if it sent one.
    pub(crate) body: Option<Box<[u8]>>,
}

impl LastError {
    /// True if the server has no database of the name that it was asked for.
    pub(crate) fn is_about_the_database(&self) -> bool {
        let fields = self.body.as_deref().map(ErrorFields::parse);
        let code = fields.and_then(|fields| fields.ok()?.sqlstate());
        code == Some(SqlState::INVALID_CATALOG_NAME)
    }
}

/// True if the pool finds its size by itself.
pub(crate) fn finds_size(pool: &PoolSettings) -> bool {
    pool.sizing.mode != SizingMode::Off
}

/// Derives the policy of a pool from the settings.
pub(crate) fn policy(pool: &PoolSettings, settings: &Settings) -> Arc<Policy> {
    let global = &settings.global;
    let size = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    Arc::new(Policy {
        size: size(pool.pool_size),
        min: size(pool.min_pool_size),
        reserve: size(pool.reserve_pool_size),
        reserve_timeout: global.reserve_pool_timeout.unwrap_or_default(),
        lifetime: Some(pool.server_lifetime),
        lifetime_jitter: pool.server_lifetime_jitter,
        idle_timeout: pool.server_idle_timeout,
        check_delay: global.server_check_delay,
        wait_timeout: pool.query_wait_timeout,
        wait_notify: global.query_wait_notify,
        login_retry: global.server_login_retry,
        // Clients of several hosts wait in a room of their own.
        hold: match pool.cluster {
            Some(_) => Duration::ZERO,
            None => pool.failover_hold,
        },
        between_holds: pool.min_time_between_holds,
        round_robin: global.server_round_robin,
        limits_assigned: finds_size(pool),
        keep_min_without_clients: pool.is_user_forced,
    })
}
