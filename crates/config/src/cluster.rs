//! Databases with several hosts: the hosts of an entry, and the options that apply to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::hint::{self, Hints};
use crate::options::{Database, Global, Host, UserSettings};
use crate::pattern::FunctionPattern;
use crate::point::HostPoint;
use crate::routing::{
    Fence, HostRole, ReadConsistency, ReadFallback, ReadWriteSplit, SplitBegin, SplitBrain, Target,
};
use crate::settings::{Settings, pick_time};
use crate::tls::SYSTEM_ROOTS;
use crate::types::{HostAddr, Secret};

/// Options of a database that need several hosts.
pub(crate) const OPTIONS: [&str; 22] = [
    "failover_hints",
    "failover_hints_ca_file",
    "failover_hints_password",
    "failover_hints_user",
    "fallback_max_share",
    "fence",
    "max_lag",
    "max_staleness",
    "primary_functions",
    "read_consistency",
    "read_fallback",
    "read_functions",
    "read_guard",
    "read_wait",
    "read_write_split",
    "replicas",
    "split_begin",
    "split_brain",
    "target",
    "watch_dbname",
    "watch_password",
    "watch_user",
];

/// Tables of a database's hosts by the host's name.
pub(crate) type HostTables = BTreeMap<HostPoint, Host>;

/// Rules of a database with several hosts, resolved for one user.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// The hosts: those of `host`, those of `replicas`, then those that have a table only. At least one, none twice.
    pub hosts: Vec<ClusterHost>,
    /// Hosts on which sessions run.
    pub target: Target,
    /// Mode of the read/write split for this user.
    pub split: ReadWriteSplit,
    /// Host for a `BEGIN` that says nothing about its transaction.
    pub split_begin: SplitBegin,
    /// Commits that a read on a replica must see.
    pub consistency: ReadConsistency,
    /// Largest age of a replica's data; `None` = no limit.
    pub max_staleness: Option<Duration>,
    /// Most bytes of WAL that a replica may lack; `None` = no limit.
    pub max_lag: Option<u64>,
    /// Time for which a read waits for a replica that is fresh enough.
    pub read_wait: Duration,
    /// True if replicas may compare their position themselves in front of a read.
    pub read_guard: bool,
    /// Treatment of a read without a replica.
    pub fallback: ReadFallback,
    /// Maximum share of the primary's pool for such reads, from 1 to 100 per cent.
    pub fallback_max_share: u32,
    /// Functions that belong on the primary.
    pub primary_functions: Vec<FunctionPattern>,
    /// Functions that may run on a replica.
    pub read_functions: Vec<FunctionPattern>,
    /// Choice between two primaries.
    pub split_brain: SplitBrain,
    /// Time for which clients wait for a new primary; zero = not at all.
    pub failover_hold: Duration,
    /// Tool whose leader is a witness for a new primary.
    pub fence: Fence,
    /// Places that tell of failovers.
    pub hints: Hints,
    /// Login of the connections that watch the hosts.
    pub watch: WatchLogin,
}

/// Host of a database with several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterHost {
    /// The address.
    pub address: HostAddr,
    /// The port.
    pub port: u16,
    /// Role that the host may have.
    pub role: HostRole,
    /// Share of reads relative to the other hosts; 0 = none.
    pub weight: u32,
    /// Availability zone; empty if none is configured.
    pub az: String,
    /// False if the host gets no reads while it is a replica.
    pub reads: bool,
}

/// Login of the connections that watch the hosts of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchLogin {
    /// The user. Never empty.
    pub user: String,
    /// Password of the user; `None` = the one in `auth_file`, if any.
    pub password: Option<Secret>,
    /// Name of the database on the server.
    pub dbname: String,
}

/// Identity of a host: names are the same in any case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostKey(HostAddr, u16);

impl HostKey {
    pub(crate) fn new(address: &HostAddr, port: u16) -> Self {
        let address = match address {
            HostAddr::Name(name) => HostAddr::Name(name.to_ascii_lowercase()),
            address => address.clone(),
        };
        Self(address, port)
    }

    pub(crate) fn of(point: &HostPoint, port: u16) -> Self {
        Self::new(&point.address, point.port.unwrap_or(port))
    }
}

impl ClusterHost {
    fn new(address: HostAddr, port: u16, options: Option<&Host>) -> Self {
        Self {
            address,
            port,
            role: options.map_or_else(HostRole::default, |own| own.role),
            weight: options.map_or(100, |own| own.weight),
            az: options.map_or_else(String::new, |own| own.az.clone()),
            reads: options.is_none_or(|own| own.reads),
        }
    }

    /// Returns `address:port`. IPv6 addresses have brackets; a unix socket is `directory:port`.
    #[must_use]
    pub fn name(&self) -> String {
        self.to_string()
    }

    /// True if the host may serve reads as a replica.
    #[must_use]
    pub fn takes_reads(&self) -> bool {
        self.role != HostRole::Primary && self.reads && self.weight > 0
    }

    pub(crate) fn key(&self) -> HostKey {
        HostKey::new(&self.address, self.port)
    }
}

impl fmt::Display for ClusterHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let point = HostPoint {
            address: self.address.clone(),
            port: Some(self.port),
        };
        point.fmt(f)
    }
}

/// Returns the addresses that `host` and `replicas` list, with their ports.
pub(crate) fn listed(entry: &Database) -> impl Iterator<Item = (HostAddr, u16)> + '_ {
    let own = entry.host.iter().map(|host| (host.clone(), entry.port));
    let more = entry.replicas.iter();
    own.chain(more.map(|point| point.resolved(entry.port)))
}

/// Returns the hosts of an entry, each once; empty if the entry has one host, or alternatives of one.
pub(crate) fn hosts_of(entry: &Database, tables: &HostTables) -> Vec<ClusterHost> {
    if entry.replicas.is_empty() && tables.is_empty() {
        return Vec::new();
    }
    let options: BTreeMap<HostKey, &Host> = tables
        .iter()
        .map(|(point, own)| (HostKey::of(point, entry.port), own))
        .collect();
    let tabled = tables.keys().map(|point| point.resolved(entry.port));
    let mut seen = BTreeSet::new();
    let mut hosts = Vec::new();
    for (address, port) in listed(entry).chain(tabled) {
        let key = HostKey::new(&address, port);
        let own = options.get(&key).copied();
        if seen.insert(key) {
            hosts.push(ClusterHost::new(address, port, own));
        }
    }
    hosts
}

/// Returns the places that tell of failovers of an entry.
fn hints_of(entry: &Database) -> Hints {
    let ca_file = entry.failover_hints_ca_file.as_deref();
    let ca_file = ca_file.filter(|file| !file.is_empty());
    let ca_file = ca_file.unwrap_or(SYSTEM_ROOTS);
    Hints {
        // A mistake is refused by the check of the entry.
        sources: hint::sources(&entry.failover_hints).unwrap_or_default(),
        user: entry.failover_hints_user.clone().unwrap_or_default(),
        password: entry.failover_hints_password.clone().unwrap_or_default(),
        ca_file: ca_file.to_owned(),
    }
}

impl Settings {
    /// Returns the rules for several hosts. `None` if the entry has one host. `server` is the entry of the user on the
    /// server.
    pub(crate) fn cluster(
        &self,
        name: &str,
        entry: &Database,
        server: Option<&UserSettings>,
        dbname: &str,
    ) -> Option<Cluster> {
        let hosts = self.cluster_hosts(name, entry);
        if hosts.is_empty() {
            return None;
        }
        let global = &self.global;
        let max_lag = entry.max_lag.unwrap_or(global.max_lag);
        Some(Cluster {
            hosts,
            target: entry.target,
            split: server
                .and_then(|user| user.read_write_split)
                .or(entry.read_write_split)
                .unwrap_or(global.read_write_split),
            split_begin: entry.split_begin.unwrap_or(global.split_begin),
            consistency: entry.read_consistency.unwrap_or(global.read_consistency),
            max_staleness: pick_time(entry.max_staleness, global.max_staleness),
            max_lag: (max_lag > 0).then_some(max_lag),
            read_wait: entry.read_wait.unwrap_or(global.read_wait),
            read_guard: entry.read_guard.unwrap_or(global.read_guard),
            fallback: entry.read_fallback.unwrap_or(global.read_fallback),
            fallback_max_share: entry
                .fallback_max_share
                .unwrap_or(global.fallback_max_share),
            primary_functions: entry.primary_functions.clone(),
            read_functions: entry.read_functions.clone(),
            split_brain: entry.split_brain.unwrap_or(global.split_brain),
            failover_hold: entry.failover_hold.unwrap_or(global.failover_hold),
            fence: entry.fence,
            hints: hints_of(entry),
            watch: global.watch_login(entry, dbname)?,
        })
    }

    /// Returns the hosts of the entry with this name, as [`hosts_of`].
    pub(crate) fn cluster_hosts(&self, name: &str, entry: &Database) -> Vec<ClusterHost> {
        match self.hosts.get(name) {
            Some(tables) => hosts_of(entry, tables),
            None => hosts_of(entry, &HostTables::new()),
        }
    }
}

impl Global {
    /// Returns the login that watches the hosts of an entry; `None` if no user is configured for it. A password goes
    /// with the user that it was set for.
    pub(crate) fn watch_login(&self, entry: &Database, dbname: &str) -> Option<WatchLogin> {
        let given = |secret: &Secret| (!secret.is_empty()).then(|| secret.clone());
        let own = entry.watch_password.as_ref().and_then(given);
        let watch = entry.watch_user.as_ref().unwrap_or(&self.watch_user);
        let forced = entry.user.as_deref().unwrap_or_default();
        let asker = entry.auth_user.as_ref().unwrap_or(&self.auth_user);
        let (user, password) = if *watch == self.watch_user && !watch.is_empty() {
            (watch.as_str(), own.or_else(|| given(&self.watch_password)))
        } else if !watch.is_empty() {
            (watch.as_str(), own)
        } else if !forced.is_empty() {
            (forced, entry.password.clone())
        } else {
            (asker.as_str(), None)
        };
        let own_name = entry
            .watch_dbname
            .as_deref()
            .filter(|name| !name.is_empty());
        (!user.is_empty()).then(|| WatchLogin {
            user: user.to_owned(),
            password,
            dbname: own_name.unwrap_or(dbname).to_owned(),
        })
    }
}
