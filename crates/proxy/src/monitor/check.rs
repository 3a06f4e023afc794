//! Health checks of load balancers: `/primary`, `/replica` and `/read-only`, with the status codes of Patroni's REST
//! interface.
//!
//! A pooler has no role of its own, so a check tells if Weir can serve a database: its writes, its reads on replicas, or
//! its reads on any host. Answers come from the snapshot of the hosts, never from a worker. A database with one host
//! has no snapshot; its server is asked as for `/readyz`.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use weir_config::{PoolSettings, Settings, Target};
use weir_route::Why;
use weir_stats::DatabaseHostRow;
use weir_watch::{Held, HostView, Role, Snapshot, Writes};

use super::Desk;
use super::http::{Page, Status};
use super::query::pairs;
use crate::console::DATABASES;
use crate::global::{cluster_name, host_rows};

/// Units of `lag`, as PostgreSQL and Patroni write them.
const UNITS: [(&str, u64); 6] = [
    ("", 1),
    ("B", 1),
    ("kB", 1 << 10),
    ("MB", 1 << 20),
    ("GB", 1 << 30),
    ("TB", 1 << 40),
];

/// Answer to a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Database entry that was checked.
    pub database: String,
    /// Reason for the status, in words.
    pub reason: String,
    /// Hosts of the entry; none if it has one host, which is not watched.
    pub hosts: Vec<DatabaseHostRow>,
}

/// Service that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Writes: `/primary`.
    Writes,
    /// Reads on a replica: `/replica`.
    Replica,
    /// Reads on any host: `/read-only`.
    Reads,
}

/// Parameters of a check.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted<'a> {
    database: Option<Cow<'a, str>>,
    /// Most bytes of WAL that the replica may lack.
    lag_max: Option<u64>,
}

impl Desk {
    /// Answers a health check with these parameters.
    pub(super) fn check(&self, service: Service, query: &str) -> Page {
        let wanted = match Wanted::parse(service, query) {
            Ok(wanted) => wanted,
            Err(why) => return Page::text(Status::BadRequest, &why),
        };
        let settled = self.global.settled();
        let pool = match entry(&settled.settings, wanted.database.as_deref()) {
            Ok(pool) => pool,
            Err((status, why)) => return Page::text(status, &why),
        };
        let (verdict, hosts) = self.judge(service, &wanted, &pool);
        let (status, reason) = match verdict {
            Ok(reason) => (Status::Ok, reason),
            Err(reason) => (Status::Unavailable, reason),
        };
        let checked = Checked {
            database: pool.database,
            reason,
            hosts,
        };
        Page {
            status,
            content_type: "application/json",
            body: self.pages.checked(&checked).into(),
        }
    }

    /// Returns the verdict with its reason, and the hosts on which it is based.
    fn judge(
        &self,
        service: Service,
        wanted: &Wanted<'_>,
        pool: &PoolSettings,
    ) -> (Result<String, String>, Vec<DatabaseHostRow>) {
        let global = &self.global;
        let (snapshot, hosts) = match &pool.cluster {
            None => (None, Vec::new()),
            Some(_) => {
                let snapshot = global.clusters.of(cluster_name(pool)).snapshot();
                let hosts = host_rows(&pool.database, &snapshot, global.clock.now());
                (Some(snapshot), hosts)
            }
        };
        let verdict = if global.halting.is_draining.load(Ordering::SeqCst) {
            Err("draining".to_owned())
        } else if global.is_disabled(&pool.database) {
            Err(format!("database {} is disabled", pool.database))
        } else if let (Some(snapshot), Some(cluster)) = (&snapshot, &pool.cluster) {
            judge_hosts(service, wanted.lag_max, cluster.target, snapshot)
        } else if service == Service::Replica {
            Err(format!(
                "database {} has one host, and no replica",
                pool.database
            ))
        } else {
            let answers = || format!("the server of database {} answers", pool.database);
            self.probes.check_database(global, pool).map(|()| answers())
        };
        (verdict, hosts)
    }
}

impl<'a> Wanted<'a> {
    fn parse(service: Service, query: &'a str) -> Result<Self, String> {
        let mut wanted = Self::default();
        for (key, value) in pairs(query) {
            match &*key {
                "database" => wanted.database = Some(value),
                "lag" if service == Service::Replica => {
                    let bytes = lag(&value).ok_or_else(|| {
                        format!(
                            "lag = {value} is no number of bytes, such as 1048576, 16kB or 10MB"
                        )
                    })?;
                    wanted.lag_max = Some(bytes);
                }
                _ => return Err(format!("unknown parameter: {key}")),
            }
        }
        Ok(wanted)
    }
}

/// Parses a number of bytes with an optional unit.
fn lag(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// Returns the settings of the named database. Without a name: those of the only database with several hosts, else of
/// the only one.
pub(super) fn entry(
    settings: &Settings,
    named: Option<&str>,
) -> Result<PoolSettings, (Status, String)> {
    let name = match named {
        Some(name) => name,
        None => only(settings).ok_or_else(|| {
            let why = "several databases are configured: name one with ?database=";
            (Status::BadRequest, why.to_owned())
        })?,
    };
    let known = (!DATABASES.contains(&name)).then(|| settings.pool(name, ""));
    let missing = || (Status::NotFound, format!("no such database: {name}"));
    known.flatten().ok_or_else(missing)
}

fn only(settings: &Settings) -> Option<&str> {
    let mut several = settings.databases.keys().filter(|name| {
        let pool = settings.pool(name, "");
        pool.is_some_and(|pool| pool.cluster.is_some())
    });
    match (several.next(), several.next()) {
        (Some(only), None) => Some(only),
        (Some(_), Some(_)) => None,
        _ => {
            let mut all = settings.databases.keys();
            all.next()
                .filter(|_| all.next().is_none())
                .map(String::as_str)
        }
    }
}

/// Judges a database with several hosts.
fn judge_hosts(
    service: Service,
    lag_max: Option<u64>,
    target: Target,
    snapshot: &Snapshot,
) -> Result<String, String> {
    match service {
        Service::Writes if !(target.needs_primary() || target == Target::Any) => {
            let target = target.as_str();
            Err(format!("target = {target}: the entry takes no writes"))
        }
        Service::Writes => writer(snapshot),
        Service::Replica => reading_replica(snapshot, lag_max),
        Service::Reads if target.needs_replica() => reading_replica(snapshot, None),
        Service::Reads => {
            let reader = snapshot.hosts.iter().find(|host| host.takes_reads);
            match reader {
                Some(host) => Ok(format!("{} takes reads", host.name)),
                // Without a host for reads, they run where writes do.
                None => writer(snapshot),
            }
        }
    }
}

fn writer(snapshot: &Snapshot) -> Result<String, String> {
    let why = match snapshot.writes {
        Writes::To(id) => {
            let host = snapshot.host(id);
            return Ok(format!(
                "{} takes writes",
                host.map_or("a host", |host| &host.name)
            ));
        }
        Writes::Held(Held::NoPrimary) => Why::NoPrimary.to_string(),
        Writes::Held(Held::SplitBrain) => Why::SplitBrain.to_string(),
        Writes::Unknown => "no host was probed yet".to_owned(),
    };
    Err(why)
}

fn reading_replica(snapshot: &Snapshot, lag_max: Option<u64>) -> Result<String, String> {
    let is_near = |host: &&HostView| {
        lag_max.is_none_or(|max| host.lag_bytes.is_some_and(|bytes| bytes <= max))
    };
    let mut replicas = snapshot.hosts.iter();
    let found =
        replicas.find(|host| host.role == Role::Replica && host.takes_reads && is_near(host));
    match (found, lag_max) {
        (Some(host), _) => Ok(format!("{} takes reads", host.name)),
        (None, None) => Err(Why::NoReplica.to_string()),
        (None, Some(max)) => Err(format!("{} within {max} bytes of lag", Why::NoReplica)),
    }
}

#[cfg(test)]
mod tests;
