//! Rules about databases with several hosts, and about options that only these can use.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{conflict, conflict_in};
use crate::cluster::{ClusterHost, HostKey, OPTIONS, listed};
use crate::error::ErrorKind;
use crate::hint::{self, HintSource, HintTool};
use crate::options::Database;
use crate::point::HostPoint;
use crate::raw::{Origin, Raw, error_at};
use crate::routing::{Fence, HostRole, ReadWriteSplit, Target};
use crate::settings::{FALLBACK, Settings};
use crate::types::Secret;

mod reads;

/// Shortest interval and timeout of probes.
const PROBE_MIN: Duration = Duration::from_millis(10);
/// Maximum number of hosts of one database. Each worker keeps a pool per host, and each host is watched.
const HOST_COUNT_MAX: usize = 64;

/// A contradiction: the option at whose line it is reported, and the message.
type Conflict = (&'static str, String);

/// A database with several hosts.
struct Entry<'a> {
    settings: &'a Settings,
    name: &'a str,
    entry: &'a Database,
    hosts: Vec<ClusterHost>,
}

pub(super) fn check(raw: &mut Raw, settings: &Settings, file: &Origin) {
    let global = &settings.global;
    for (key, time) in [
        ("probe_interval", global.probe_interval),
        ("probe_timeout", global.probe_timeout),
    ] {
        if time < PROBE_MIN {
            let message = format!("{key} must be at least {} ms", PROBE_MIN.as_millis());
            conflict(raw, key, file, ErrorKind::BadValue, message);
        }
    }
    if !global.watch_password.is_empty() && global.watch_user.is_empty() {
        raw.note("watch_password is not used without watch_user".into());
    }
    for (name, entry) in &settings.databases {
        let entry = Entry {
            settings,
            name,
            entry,
            hosts: settings.cluster_hosts(name, entry),
        };
        if entry.hosts.is_empty() {
            entry.check_one_host(raw, file);
        } else {
            entry.check(raw, file);
        }
    }
}

impl Entry<'_> {
    /// Refuses options without effect: whoever sets them expects reads on replicas or a failover.
    fn check_one_host(&self, raw: &mut Raw, file: &Origin) {
        let Some((values, _)) = raw.databases.get(self.name) else {
            return;
        };
        let is_neutral = |key: &str| match key {
            "read_write_split" => self.entry.read_write_split == Some(ReadWriteSplit::Off),
            // May come from a variable that is empty here.
            "replicas" => true,
            "target" => matches!(self.entry.target, Target::Any | Target::ReadWrite),
            _ => false,
        };
        let given: Vec<&str> = OPTIONS
            .into_iter()
            .filter(|key| values.contains_key(key) && !is_neutral(key))
            .collect();
        for key in given {
            let message = format!(
                "database \"{}\" has one host: add replicas = HOST, or remove {key}",
                self.name
            );
            conflict_in(raw, self.name, key, file, message);
        }
    }

    fn check(&self, raw: &mut Raw, file: &Origin) {
        let conflicts = [
            self.lists_no_host(),
            self.lists_a_host_twice(),
            self.has_too_many_hosts(),
            self.has_no_name_to_watch(),
            self.has_nobody_to_watch(),
            self.has_a_password_without_user(),
            self.has_bad_hints(),
            self.has_half_a_login_for_hints(),
            self.has_no_leader_for_the_fence(),
            self.balances_hosts(raw),
            self.has_no_primary(),
            self.has_no_reader(),
            self.splits_sessions(),
            self.waits_too_long(),
            self.wants_fresher_data_than_known(),
            self.names_a_function_twice(),
        ];
        for (key, message) in conflicts.into_iter().flatten() {
            let message = format!("database \"{}\" {message}", self.name);
            conflict_in(raw, self.name, key, file, message);
        }
        self.check_tables(raw);
        self.check_roles(raw);
        self.check_users(raw);
        self.note_any_age(raw);
    }

    fn lists_no_host(&self) -> Option<Conflict> {
        let is_missing = self.entry.host.is_empty() && !self.entry.replicas.is_empty();
        is_missing.then(|| {
            (
                "replicas",
                "has replicas and no host: add host = HOST".into(),
            )
        })
    }

    fn lists_a_host_twice(&self) -> Option<Conflict> {
        let mut seen = BTreeSet::new();
        let (address, port) =
            listed(self.entry).find(|(host, port)| !seen.insert(HostKey::new(host, *port)))?;
        let key = match self.entry.replicas.is_empty() {
            true => "host",
            false => "replicas",
        };
        let port = Some(port);
        let host = HostPoint { address, port };
        Some((key, format!("lists the host {host} twice: remove one")))
    }

    fn has_too_many_hosts(&self) -> Option<Conflict> {
        let count = self.hosts.len();
        (count > HOST_COUNT_MAX).then(|| {
            let message = format!("has {count} hosts: at most {HOST_COUNT_MAX} are possible");
            ("replicas", message)
        })
    }

    fn has_no_name_to_watch(&self) -> Option<Conflict> {
        let own = self.entry.watch_dbname.as_deref().unwrap_or_default();
        (self.name == FALLBACK && own.is_empty()).then(|| {
            let message = "stands for many databases and has several hosts: \
                           set watch_dbname to the one in which they are watched";
            ("watch_dbname", message.into())
        })
    }

    fn has_nobody_to_watch(&self) -> Option<Conflict> {
        let global = &self.settings.global;
        global.watch_login(self.entry, "").is_none().then(|| {
            let message = "has several hosts and no user to watch them as: \
                           set watch_user, or user in the entry, or auth_user";
            ("watch_user", message.into())
        })
    }

    fn has_a_password_without_user(&self) -> Option<Conflict> {
        let global = &self.settings.global.watch_user;
        let user = self.entry.watch_user.as_ref().unwrap_or(global);
        (self.entry.watch_password.is_some() && user.is_empty()).then(|| {
            let message =
                "has watch_password and no watch_user: set both, or remove watch_password";
            ("watch_password", message.into())
        })
    }

    fn has_bad_hints(&self) -> Option<Conflict> {
        let refused = hint::sources(&self.entry.failover_hints).err();
        refused.map(|message| ("failover_hints", message))
    }

    fn has_half_a_login_for_hints(&self) -> Option<Conflict> {
        let entry = self.entry;
        let user = entry.failover_hints_user.as_deref().unwrap_or_default();
        let password = entry.failover_hints_password.as_ref();
        let password = password.map_or("", Secret::expose);
        let (key, needed) = if user.is_empty() && !password.is_empty() {
            ("failover_hints_password", "failover_hints_user")
        } else if !user.is_empty() && entry.failover_hints.is_empty() {
            ("failover_hints_user", "failover_hints")
        } else {
            return self.has_nobody_to_read_hints(user);
        };
        let message = format!("has {key} and no {needed}: set both, or remove {key}");
        Some((key, message))
    }

    fn has_no_leader_for_the_fence(&self) -> Option<Conflict> {
        // A mistake in the list has its own message.
        let sources = hint::sources(&self.entry.failover_hints).ok()?;
        let names_leader =
            |source: &HintSource| matches!(source.tool, HintTool::Etcd | HintTool::Patroni);
        let is_blind = self.entry.fence != Fence::None && !sources.iter().any(names_leader);
        is_blind.then(|| {
            let message = format!(
                "has fence = {} and no place that names the leader: \
                 add failover_hints = etcd:http://HOST:2379/service/SCOPE or patroni:http://HOST:8008, or remove fence",
                self.entry.fence
            );
            ("fence", message)
        })
    }

    fn has_nobody_to_read_hints(&self, user: &str) -> Option<Conflict> {
        let mut tools = self
            .entry
            .failover_hints
            .iter()
            .filter_map(|point| point.tool);
        let tool = tools.find(|tool| tool.is_sql() && user.is_empty())?;
        let message = format!(
            "has failover_hints of {tool} and no failover_hints_user: name a user who may read its tables"
        );
        Some(("failover_hints", message))
    }

    fn balances_hosts(&self, raw: &Raw) -> Option<Conflict> {
        let (values, _) = raw.databases.get(self.name)?;
        values.contains_key("load_balance_hosts").then(|| {
            let message = "has several hosts, to which load_balance_hosts does not apply: \
                           remove it, and give hosts a weight";
            ("load_balance_hosts", message.into())
        })
    }

    fn has_no_primary(&self) -> Option<Conflict> {
        let target = self.entry.target;
        let is_replica = |host: &ClusterHost| host.role == HostRole::Replica;
        (target.needs_primary() && self.hosts.iter().all(is_replica)).then(|| {
            let message = format!(
                "has target {target} and no host that may be primary: \
                 set role = auto for one, or target = standby"
            );
            ("target", message)
        })
    }

    /// Refuses two tables of one host, which differ in the spelling of its name only.
    fn check_tables(&self, raw: &mut Raw) {
        let tables = raw.hosts.get(self.name).into_iter().flatten();
        let mut seen = BTreeSet::new();
        let twice: Vec<_> = tables
            .filter(|(point, _)| !seen.insert(HostKey::of(point, self.entry.port)))
            .map(|(point, (_, at))| (point.to_string(), at.clone()))
            .collect();
        for (host, at) in twice {
            let message = format!(
                "database \"{}\" has two tables of the host {host}: remove one",
                self.name
            );
            raw.fail_at(&at, ErrorKind::Conflict, message);
        }
    }

    fn check_roles(&self, raw: &mut Raw) {
        let mut primaries = self
            .hosts
            .iter()
            .filter(|host| host.role == HostRole::Primary);
        let Some(first) = primaries.next() else {
            return;
        };
        let target = self.entry.target;
        if target.needs_replica() {
            let message = format!(
                "has target {target} and the host {first} with role primary, which is never used: \
                 set role = auto, or remove the host"
            );
            self.refuse_role(raw, first, &message);
        }
        for host in primaries {
            let message = format!(
                "has two hosts with role primary, {first} and {host}: set role = auto for one"
            );
            self.refuse_role(raw, host, &message);
        }
    }

    /// Reports a mistake at the role of a host.
    fn refuse_role(&self, raw: &mut Raw, host: &ClusterHost, message: &str) {
        let tables = raw.hosts.get(self.name).into_iter().flatten();
        let mut tables =
            tables.filter(|(point, _)| HostKey::of(point, self.entry.port) == host.key());
        let Some((_, (values, at))) = tables.next() else {
            return;
        };
        let at = values.get("role").map_or(at, |(_, at)| at);
        let message = format!("database \"{}\" {message}", self.name);
        let mut error = error_at(at, ErrorKind::Conflict, message);
        error.key = Some("role".to_owned());
        raw.fail(error);
    }
}
