//! Description of the hosts to watch, derived from the configuration.

use std::sync::Arc;

use weir_auth::stored::StoredSecret;
use weir_config::{ClusterHost, Fence, Global, HostAddr, HostRole, ServerTls};
use weir_watch::{Configured, Host, Rules, SplitBrain};

use crate::global::{Cluster, Clusters};
use crate::hosts::Hosts;
use crate::settled::Settled;
use crate::transport::{NoSuchSettings, Outgoing};

/// Host of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HostSpec {
    /// Facts on which the decisions about the host are based.
    pub(crate) host: Host,
    pub(crate) address: HostAddr,
    pub(crate) port: u16,
}

/// Login of the watching thread's connections.
#[derive(Clone)]
pub(crate) struct WatchLogin {
    pub(crate) user: String,
    pub(crate) dbname: String,
    pub(crate) secret: Option<StoredSecret>,
    pub(crate) tls: ServerTls,
    /// TLS for these settings. An error is never a reason to go without.
    pub(crate) outgoing: Result<Option<Arc<Outgoing>>, NoSuchSettings>,
    /// `scram_iterations_max`.
    pub(crate) iterations_max: u32,
}

/// Database entry with several hosts.
#[derive(Clone)]
pub(crate) struct ClusterSpec {
    /// Name of the entry.
    pub(crate) database: Arc<str>,
    pub(crate) hosts: Vec<HostSpec>,
    pub(crate) rules: Rules,
    pub(crate) login: WatchLogin,
    /// True if the leader that sources of hints name is a witness for a new primary.
    pub(crate) is_fenced: bool,
    /// Place for the results.
    pub(crate) cluster: Arc<Cluster>,
}

impl ClusterSpec {
    /// True if what is known by the other description, and its connections, may be kept for this one. Secrets and
    /// certificates may differ: connections keep those that they were made with.
    pub(super) fn continues(&self, other: &Self) -> bool {
        let login = |spec: &Self| {
            let login = &spec.login;
            (login.user.clone(), login.dbname.clone(), login.tls.clone())
        };
        self.database == other.database
            && self.hosts == other.hosts
            && self.rules == other.rules
            && login(self) == login(other)
            && Arc::ptr_eq(&self.cluster, &other.cluster)
    }
}

/// Describes all database entries with several hosts.
pub(crate) fn specs(settled: &Settled, hosts: &Hosts, clusters: &Clusters) -> Vec<ClusterSpec> {
    let entries = settled.settings.databases.keys();
    let specs = entries.filter_map(|name| spec(settled, hosts, clusters, name));
    specs.collect()
}

/// Describes a database entry; none if it has one host.
fn spec(settled: &Settled, hosts: &Hosts, clusters: &Clusters, entry: &str) -> Option<ClusterSpec> {
    // A user's settings decide about the split only, and watching has nothing to do with it.
    let pool = settled.settings.pool(entry, "")?;
    let cluster = pool.cluster.as_deref()?;
    let global = &settled.settings.global;
    let watch = &cluster.watch;
    let configured = watch.password.as_ref();
    let secret = configured.map(|secret| StoredSecret::parse(secret.expose().as_bytes()));
    let in_file = || settled.users.get(watch.user.as_bytes()).cloned();
    let host = |host: &ClusterHost| HostSpec {
        host: facts(host, hosts),
        address: host.address.clone(),
        port: host.port,
    };
    Some(ClusterSpec {
        database: entry.into(),
        hosts: cluster.hosts.iter().map(host).collect(),
        rules: rules(global, cluster),
        login: WatchLogin {
            user: watch.user.clone(),
            dbname: watch.dbname.clone(),
            secret: secret.or_else(in_file),
            outgoing: settled.outgoing(&pool.tls),
            tls: pool.tls,
            iterations_max: global.scram_iterations_max,
        },
        is_fenced: cluster.fence == Fence::Patroni,
        cluster: clusters.of(entry),
    })
}

fn facts(host: &ClusterHost, hosts: &Hosts) -> Host {
    Host {
        id: hosts.id_of(Some(&host.address), host.port),
        name: host.name().into(),
        az: host.az.as_str().into(),
        role: match host.role {
            HostRole::Auto => Configured::Auto,
            HostRole::Primary => Configured::Primary,
            HostRole::Replica => Configured::Replica,
        },
        weight: host.weight,
        reads: host.reads,
    }
}

fn rules(global: &Global, cluster: &weir_config::Cluster) -> Rules {
    Rules {
        probe_interval: global.probe_interval,
        probe_timeout: global.probe_timeout,
        fall: global.probe_fall,
        rise: global.probe_rise,
        max_lag: cluster.max_lag,
        max_staleness: cluster.max_staleness,
        slow_start: global.replica_slow_start,
        split_brain: match cluster.split_brain {
            weir_config::SplitBrain::Keep => SplitBrain::Keep,
            weir_config::SplitBrain::Newest => SplitBrain::Newest,
            weir_config::SplitBrain::Refuse => SplitBrain::Refuse,
        },
        hold: cluster.failover_hold,
    }
}
