//! Parts of [`Global`](super::Global), by subject.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};

use lru::LruCache;
use weir_auth::account_cache::AccountCache;
use weir_auth::kdf::ScramKeys;
use weir_auth::secret::ServerSecret;
use weir_auth::throttle::{Rules, Throttle};
use weir_config::CONSOLE_RESERVE;
use weir_pool::Quota;
use weir_stats::{Halts, Snapshot};

use super::bulkheads::Bulkheads;
use super::live_rules::LiveRules;
use super::statement_records::StatementRecords;
use super::{GREETERS_MAX, KEYS_MAX, Quotas, random};
use crate::mailbox::Mailbox;
use crate::neighbours::Neighbours;
use crate::offload::{Kind, Offload};
use crate::running::{Arrivals, Staying};

/// Facts that all threads know of each worker, by its number.
pub(crate) struct Workers {
    pub(crate) mailboxes: OnceLock<Vec<Mailbox>>,
    /// Number of clients.
    pub(crate) loads: Vec<AtomicUsize>,
    /// Number of the last `Pulse` that the worker has answered.
    pub(crate) pulses: Vec<AtomicU64>,
    /// Number of messages with notifications that the worker has not read yet.
    pub(crate) unheard: Vec<AtomicUsize>,
    /// Number of connections with bytes left to send, while the pooler is suspended.
    pub(crate) unsent: Vec<AtomicUsize>,
    /// Number of workers that have not ended all their connections.
    pub(crate) at_work: AtomicUsize,
    /// Figures of the worker when it ended. Totals must not fall while other workers finish.
    pub(crate) last_figures: Vec<OnceLock<Box<Snapshot>>>,
}

impl Workers {
    pub(super) fn new(count: usize) -> Self {
        fn each<T: Default>(count: usize) -> Vec<T> {
            (0..count).map(|_| T::default()).collect()
        }
        Self {
            mailboxes: OnceLock::new(),
            loads: each(count),
            pulses: each(count),
            unheard: each(count),
            unsent: each(count),
            at_work: AtomicUsize::new(count),
            last_figures: each(count),
        }
    }
}

/// Threads for work that would block a worker.
pub(crate) struct Helpers {
    /// Helpers that derive keys.
    pub(crate) derivers: Offload,
    /// Helpers that check passwords by LDAP or PAM.
    pub(crate) directories: Offload,
    /// Helpers for TLS handshakes.
    pub(crate) handshakers: Offload,
    /// Helpers that resolve names.
    pub(crate) resolvers: Offload,
}

impl Helpers {
    pub(super) fn start() -> std::io::Result<Self> {
        Ok(Self {
            derivers: Offload::new("kdf", Kind::Computes)?,
            directories: Offload::new("dir", Kind::Waits)?,
            handshakers: Offload::new("tls", Kind::Computes)?,
            resolvers: Offload::new("dns", Kind::Waits)?,
        })
    }
}

/// Limits that all workers share.
pub(crate) struct Limits {
    /// `max_client_conn`.
    pub(crate) clients: Arc<Quota>,
    /// Clients of the console that found `max_client_conn` reached.
    pub(crate) consoles: Arc<Quota>,
    /// Open consoles, without a limit.
    pub(crate) open_consoles: Arc<Quota>,
    /// Connections that have not logged in yet count here, too.
    pub(crate) greeters: Arc<Quota>,
    pub(super) database_servers: Quotas,
    pub(super) database_clients: Quotas,
    pub(super) user_servers: Quotas,
    pub(super) user_clients: Quotas,
    /// Limits on connections to peers, by peer id.
    pub(super) peers: Quotas,
}

impl Limits {
    pub(super) fn new(clients_max: usize) -> Self {
        Self {
            clients: Arc::new(Quota::new(clients_max)),
            open_consoles: Arc::new(Quota::new(0)),
            consoles: Arc::new(Quota::new(CONSOLE_RESERVE)),
            greeters: Arc::new(Quota::new(
                clients_max.saturating_add(GREETERS_MAX + CONSOLE_RESERVE),
            )),
            database_servers: Quotas::default(),
            database_clients: Quotas::default(),
            user_servers: Quotas::default(),
            user_clients: Quotas::default(),
            peers: Quotas::default(),
        }
    }
}

/// Counts by source address.
pub(crate) struct Sources {
    /// Failed logins (hazard SEC-67).
    pub(crate) failures: Mutex<Throttle>,
    /// Cancel requests sent on to peers (hazard SEC-66).
    pub(super) cancels: Mutex<Throttle>,
}

impl Sources {
    pub(super) fn new(failures: Rules, cancels: Rules) -> Self {
        Self {
            failures: Mutex::new(Throttle::new(failures)),
            cancels: Mutex::new(Throttle::new(cancels)),
        }
    }
}

/// Secrets and what was computed from them.
pub(crate) struct Secrets {
    pub(crate) server: ServerSecret,
    /// Accounts from auth_query.
    pub(super) accounts: Mutex<AccountCache>,
    /// Derived keys, by a keyed hash of what they were derived from.
    pub(super) keys: Mutex<LruCache<[u8; 32], ScramKeys>>,
    /// Key of that hash.
    pub(super) keys_name: [u8; 32],
    /// Seed of the shapes of statements.
    pub(crate) shapes: u64,
}

impl Secrets {
    pub(super) fn new(accounts: AccountCache) -> std::io::Result<Self> {
        let keys_max = NonZeroUsize::new(KEYS_MAX).unwrap_or(NonZeroUsize::MIN);
        Ok(Self {
            server: ServerSecret::new(random()?),
            accounts: Mutex::new(accounts),
            keys: Mutex::new(LruCache::new(keys_max)),
            keys_name: random()?,
            shapes: u64::from_ne_bytes(random()?),
        })
    }
}

/// Orders that keep work from going on.
#[derive(Default)]
pub(crate) struct Halting {
    /// True if the process is about to stop and wants no new clients.
    pub(crate) is_draining: AtomicBool,
    /// Pauses, suspension and disabled databases, as ordered by the administrator.
    pub(crate) halts: Mutex<Halts>,
    /// True once writes of a database were paused.
    pub(crate) has_paused_writes: AtomicBool,
    /// Copy of `halts.suspended` that is cheap to read.
    pub(crate) is_suspended: AtomicBool,
    /// Changes of query rules.
    pub(crate) rules: Mutex<LiveRules>,
    /// Limits of query rules on statements that run at once.
    pub(crate) bulkheads: Mutex<Bulkheads>,
    /// Statements that are not in the lists of their users.
    pub(crate) statements: Mutex<StatementRecords>,
}

/// Other processes during an upgrade: the one that hands clients over, and the one that takes them.
#[derive(Default)]
pub(crate) struct Succession {
    pub(crate) neighbours: Neighbours,
    pub(crate) arrivals: Arrivals,
    /// Clients that stay with this process, which another one follows.
    pub(crate) staying: Staying,
}
