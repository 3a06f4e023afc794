//! Servers of ProxySQL as hosts of the entry for all databases, and the user that watches them.

use super::facts::{Facts, Part, Row, address, column, key};
use super::{VERSION, table};
use crate::apply::{How, apply, point, push, replica, secret, set, set_other, shares};
use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;
use crate::leaf::{Leaf, Scalar};

/// User, password and database of the monitor, by default.
const MONITOR: &str = "monitor";

/// Appends the defaults of the servers that are used.
pub(super) fn add_defaults(leaves: &mut Vec<Leaf>) {
    let facts = Facts::gather(leaves);
    for ((file, number), server) in &facts.servers {
        if !matches!(facts.part(server), Part::Writer | Part::Reader) {
            continue;
        }
        for (name, value) in [("max_connections", 1000), ("use_ssl", 0)] {
            if !server.contains_key(name) {
                leaves.push(Leaf {
                    path: vec![
                        "pgsql_servers".to_owned(),
                        number.to_string(),
                        name.to_owned(),
                    ],
                    value: Scalar::Number(value),
                    file: file.clone(),
                    line: 0,
                });
            }
        }
    }
}

pub(super) fn setting(leaf: &Leaf, name: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    let Some(server) = key(leaf).and_then(|key| facts.servers.get(&key)) else {
        return Outcome::Unknown(VERSION);
    };
    match facts.part(server) {
        Part::Offline => return Outcome::NoMeaning("the server is offline"),
        Part::Elsewhere if matches!(name, "hostname" | "address") => {
            return Outcome::NotMapped(
                "no user begins in its host group: give the server an entry in [databases]"
                    .to_owned(),
            );
        }
        Part::Elsewhere => return Outcome::NoMeaning("its server is not mapped"),
        Part::Writer | Part::Reader => {}
    }
    match name {
        "hostname" | "address" | "port" => host(server, facts, draft),
        "hostgroup" | "hostgroup_id" => Outcome::NoMeaning("Weir asks each host for its role"),
        "status" => Outcome::NoMeaning("the server is used"),
        "weight" => weight(server, facts, draft),
        "max_connections" => connections(facts, draft),
        "max_replication_lag" if leaf.number() == Some(0) || !facts.has_roles() => {
            Outcome::NoMeaning("not set")
        }
        "max_replication_lag" => apply(How::Seconds("max_staleness"), leaf, table(), draft),
        "use_ssl" => tls(facts, draft),
        "compression" | "max_latency_ms" | "comment" => {
            Outcome::NoMeaning("Weir has nothing of this kind, and clients notice nothing")
        }
        _ => Outcome::Unknown(VERSION),
    }
}

fn host(server: &Row, facts: &Facts, draft: &mut Draft) -> Outcome {
    let used = facts.used();
    let Some(first) = used.first() else {
        return Outcome::Unknown(VERSION);
    };
    let (host, port) = address(server);
    if address(first) == (host.clone(), port.clone()) {
        draft.set(table(), "port", Term::Number(port.parse().unwrap_or(5432)));
        return match facts.has_roles() || used.len() == 1 {
            true => set(draft, table(), "host", Term::Text(host)),
            false => push(draft, table(), "host", host),
        };
    }
    if facts.has_roles() {
        let watcher = facts.variable("monitor_username", MONITOR);
        return replica(point(&host, &port), Some(&watcher), table(), draft);
    }
    // Alternatives of one host share its port.
    match address(first).1 == port {
        true => push(draft, table(), "host", host),
        false => {
            Outcome::NotMapped("alternatives of one host have one port; see replicas".to_owned())
        }
    }
}

fn weight(server: &Row, facts: &Facts, draft: &mut Draft) -> Outcome {
    let used = facts.used();
    let is_first = used
        .first()
        .is_some_and(|first| address(first) == address(server));
    let weights: Vec<String> = used
        .iter()
        .map(|server| column(server, "weight", "1"))
        .collect();
    if !facts.has_roles() {
        return match weights.iter().all(|weight| Some(weight) == weights.first()) {
            true => Outcome::NoMeaning("new connections take the hosts in turn"),
            false => Outcome::NotMapped("hosts without roles have no weights".to_owned()),
        };
    }
    if is_first {
        return Outcome::NoMeaning("the primary takes reads only if no replica can");
    }
    let weight = |server: &Row| column(server, "weight", "1").parse().unwrap_or(1);
    let place = |server: &Row| {
        let (host, port) = address(server);
        point(&host, &port)
    };
    let replicas = used
        .iter()
        .skip(1)
        .map(|server| (place(server), weight(server)));
    shares(replicas, Some(&place(server)), draft)
}

/// Writes the limit of a server: per pool and host in Weir, and over all hosts of a database.
fn connections(facts: &Facts, draft: &mut Draft) -> Outcome {
    let used = facts.used();
    let limits = used.iter().filter_map(|server| {
        column(server, "max_connections", "1000")
            .parse::<i64>()
            .ok()
    });
    let sum = limits.clone().fold(0_i64, i64::saturating_add);
    let largest = limits.max().unwrap_or(1000);
    draft.set(table(), "max_db_connections", Term::Number(sum));
    let why = format!(
        "and max_db_connections = {sum}: limits are per database here, not over all of them; transactions that run at \
         once need far fewer servers"
    );
    set_other(draft, table(), "pool_size", Term::Number(largest), why)
}

fn tls(facts: &Facts, draft: &mut Draft) -> Outcome {
    let used = facts.used();
    let mut modes = used.iter().map(|server| column(server, "use_ssl", "0"));
    let first = modes.next().unwrap_or_default();
    if modes.any(|mode| mode != first) {
        return Outcome::NotMapped(
            "all hosts of a database have one server_tls_sslmode".to_owned(),
        );
    }
    let mode = if first == "1" { "require" } else { "disable" };
    set(draft, Table::Global, "server_tls_sslmode", Term::text(mode))
}

/// Maps the variables of the monitor.
pub(super) fn monitor(leaf: &Leaf, name: &str, facts: &Facts, draft: &mut Draft) -> Outcome {
    const KNOWN: [&str; 12] = [
        "monitor_connect_",
        "monitor_enabled",
        "monitor_history",
        "monitor_local_dns_",
        "monitor_ping_",
        "monitor_query_",
        "monitor_read_only_",
        "monitor_replication_lag_",
        "monitor_threads",
        "monitor_wait_",
        "monitor_writer_",
        "monitor_slave_",
    ];
    if KNOWN.iter().any(|known| name.starts_with(known)) {
        return Outcome::NoMeaning(
            "hosts are watched all the time; see probe_interval, probe_timeout, probe_fall",
        );
    }
    if !facts.has_roles() {
        return Outcome::NoMeaning("hosts without roles are not watched");
    }
    match name {
        "monitor_username" => set(draft, table(), "watch_user", Term::Text(leaf.text())),
        "monitor_password" => secret(leaf, &facts.variable("monitor_username", MONITOR), draft),
        "monitor_dbname" => set(draft, table(), "watch_dbname", Term::Text(leaf.text())),
        _ => Outcome::Unknown(VERSION),
    }
}
