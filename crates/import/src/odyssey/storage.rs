//! Storages of Odyssey as hosts of the databases that use them.

use super::facts::{Facts, Route, Storage};
use super::{VERSION, protocols};
use crate::apply::{How, apply, point, replica, secret, set};
use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;
use crate::leaf::Leaf;

const MODES: &[(&str, &str)] = &[
    ("disable", "disable"),
    ("allow", "allow"),
    ("prefer", "prefer"),
    ("require", "require"),
    ("verify_ca", "verify-ca"),
    ("verify_full", "verify-full"),
];

/// Maps a setting of a storage, for each database that uses it.
pub(super) fn setting(leaf: &Leaf, rest: &[&str], facts: &Facts, draft: &mut Draft) -> Outcome {
    let key = (
        leaf.file.clone(),
        leaf.path.get(..2).unwrap_or_default().to_vec(),
    );
    let Some(storage) = facts.storages.get(&key) else {
        return Outcome::Unknown(VERSION);
    };
    let tables = facts.databases_of(&storage.name);
    match *rest {
        ["name"] => Outcome::NoMeaning("its databases have its hosts"),
        ["type"] => match leaf.text().as_str() {
            "remote" => Outcome::NoMeaning("its databases have its hosts"),
            "local" => Outcome::Differs(
                "the console".to_owned(),
                "its database is weir or pgbouncer".to_owned(),
            ),
            _ => Outcome::Unknown(VERSION),
        },
        ["watchdog", _, name] => watchdog(leaf, name, storage, &tables, draft),
        _ if tables.is_empty() => Outcome::NoMeaning("no database uses this storage"),
        ["host" | "port"] => Outcome::Mapped(names(&tables, "host")),
        ["tls"] => all(&tables, |table| {
            apply(How::Word("server_tls_sslmode", MODES), leaf, table, draft)
        }),
        ["tls_ca_file"] => all(&tables, |table| {
            apply(How::Copy("server_tls_ca_file"), leaf, table, draft)
        }),
        ["tls_cert_file"] => all(&tables, |table| {
            apply(How::Copy("server_tls_cert_file"), leaf, table, draft)
        }),
        ["tls_key_file"] => all(&tables, |table| {
            apply(How::Copy("server_tls_key_file"), leaf, table, draft)
        }),
        ["tls_protocols"] => all(&tables, |table| {
            protocols(leaf, table, "server_tls_protocols", draft)
        }),
        ["server_max_routing"] => {
            Outcome::NoMeaning("logins to a host are limited by server_connect_concurrency")
        }
        ["endpoints_status_poll_interval"] => Outcome::NoMeaning("see probe_interval"),
        ["balancing", ..] => Outcome::NoMeaning("replicas share reads by weight"),
        _ => Outcome::Unknown(VERSION),
    }
}

/// Does the same for each table; the first outcome counts for all.
fn all(tables: &[Table], mut each: impl FnMut(Table) -> Outcome) -> Outcome {
    let mut outcomes = tables.iter().map(|table| each(table.clone()));
    let first = outcomes.next();
    outcomes.for_each(drop);
    first.unwrap_or(Outcome::Unknown(VERSION))
}

fn names(tables: &[Table], name: &str) -> String {
    let all: Vec<String> = tables.iter().map(|table| table.path(name)).collect();
    all.join(", ")
}

/// The watchdog of a storage asks its hosts, as Weir's watching connections do.
fn watchdog(
    leaf: &Leaf,
    name: &str,
    storage: &Storage,
    tables: &[Table],
    draft: &mut Draft,
) -> Outcome {
    if storage.endpoints("").len() < 2 {
        return Outcome::NoMeaning("a single host is not watched");
    }
    match (name, &storage.watch_user) {
        ("storage_user", _) => Outcome::Mapped(names(tables, "watch_user")),
        ("storage_password", Some(user)) => secret(leaf, user, draft),
        ("storage_db", _) => all(tables, |table| {
            set(draft, table, "watch_dbname", Term::Text(leaf.text()))
        }),
        _ => {
            Outcome::NoMeaning("hosts are watched all the time; see watch_user and probe_interval")
        }
    }
}

/// Writes the hosts of a route's storage into the entry of its database.
pub(super) fn hosts(route: &Route, facts: &Facts, draft: &mut Draft) -> Outcome {
    let table = route.table();
    let name = route.value("storage");
    let Some(storage) = facts.storage(&name) else {
        return Outcome::NotMapped("there is no storage of this name".to_owned());
    };
    if facts.storage_of(&table).as_ref() != Some(&name) {
        let why = "another route of this database has another storage: give it an entry of its own";
        return Outcome::NotMapped(why.to_owned());
    }
    let socket = facts
        .global
        .get("unix_socket_dir")
        .filter(|directory| !directory.is_empty());
    let endpoints = storage.endpoints(socket.map_or("/tmp", String::as_str));
    let Some(([host, port, _], others)) = endpoints.split_first() else {
        return Outcome::NotMapped("the storage has no host".to_owned());
    };
    draft.set(
        table.clone(),
        "port",
        Term::Number(port.parse().unwrap_or(5432)),
    );
    let mut outcome = set(draft, table.clone(), "host", Term::text(host));
    let watcher = watcher(route, storage, facts);
    for [host, port, _] in others {
        outcome = replica(point(host, port), watcher.as_ref(), table.clone(), draft);
    }
    if let (Table::Database(database), false) = (&table, others.is_empty() || watcher.is_none()) {
        for [host, port, zone] in endpoints.iter().filter(|[.., zone]| !zone.is_empty()) {
            let host = Table::Host(database.clone(), point(host, port));
            draft.set(host, "az", Term::text(zone));
        }
        draft.set(table, "target", Term::Text(facts.target(route)));
    }
    outcome
}

/// Returns the user that asks hosts for their roles: that of the watchdog, else one that logs in to servers.
fn watcher(route: &Route, storage: &Storage, facts: &Facts) -> Option<String> {
    let forced = Some(route.value("storage_user")).filter(|user| !user.is_empty());
    let of_storage = facts
        .served()
        .filter(|other| other.value("storage") == storage.name);
    let named = of_storage
        .filter(|other| !other.is_group)
        .filter_map(|other| other.user.clone());
    storage
        .watch_user
        .clone()
        .or(forced)
        .or_else(|| named.into_iter().next())
}
