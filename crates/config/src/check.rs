//! Checks across options: contradictions, and notes on settings without effect. An option whose neglect would weaken
//! security is refused here, never only noted.

use crate::error::ErrorKind;
use crate::network::Network;
use crate::options::{Database, Global};
use crate::raw::{Origin, Raw, error_at};
use crate::settings::{FALLBACK, PoolSettings, Settings};
use crate::types::{AuthType, PoolMode, PoolSize, SizingMode, StatementPolicy};

mod auth;
mod cluster;
mod dashboard;
mod listeners;
mod pools;
mod rules;
mod state;
mod tls;

/// The console's database, which no entry may take.
pub(crate) const CONSOLE: &str = "pgbouncer";

/// Linux's `sun_path` without its NUL byte (unix(7)).
const SOCKET_NAME_LEN_MAX: usize = 107;

/// Checks the whole configuration, adding to the mistakes and notes of `raw`. Mistakes without a line name `file`.
pub(crate) fn check(raw: &mut Raw, settings: &Settings, file: &Origin) {
    check_listeners(raw, settings, file);
    tls::check(raw, settings, file);
    auth::check(raw, settings, file);
    check_databases(raw, settings);
    cluster::check(raw, settings, file);
    dashboard::check(raw, settings, file);
    listeners::check(raw, settings);
    pools::check(raw, settings);
    note_sizes(raw, settings);
    note_peers(raw, settings);
    state::check(raw, settings);
    rules::check(raw, settings);
    check_lists(raw, settings);
    // Sorted as in the file, like every other list of mistakes.
    raw.errors
        .sort_by_key(|error| (error.line.is_none(), error.line));
}

/// Records a contradiction about a global option, at its line or for the file as a whole.
fn conflict(raw: &mut Raw, key: &str, file: &Origin, kind: ErrorKind, message: impl Into<String>) {
    let at = raw.global.get(key).map_or(file, |(_, origin)| origin);
    let mut error = error_at(at, kind, message);
    error.key = Some(key.to_owned());
    raw.fail(error);
}

/// As `conflict`, for an option that a database may inherit: at the entry's own line, else at the global one.
fn conflict_in(raw: &mut Raw, database: &str, key: &str, file: &Origin, message: String) {
    let entry = raw.databases.get(database);
    let own = entry.and_then(|(values, _)| values.get(key));
    let at = own.map(|(_, origin)| origin);
    let Some(at) = at.or_else(|| entry.map(|(_, at)| at)) else {
        return conflict(raw, key, file, ErrorKind::Conflict, message);
    };
    let mut error = error_at(at, ErrorKind::Conflict, message);
    error.key = Some(key.to_owned());
    raw.fail(error);
}

/// Refuses to enforce a list that does not exist, and notes lists that are not used.
fn check_lists(raw: &mut Raw, settings: &Settings) {
    for (name, user) in &settings.users {
        let enforces = user.statement_policy == Some(StatementPolicy::Enforce);
        if !enforces || settings.statement_lists.contains_key(name) {
            continue;
        }
        let Some((values, at)) = raw.users.get(name) else {
            continue;
        };
        let key = "statement_policy";
        let at = values.get(key).map_or(at, |(_, at)| at).clone();
        let message = format!(
            "statement_policy = enforce needs a list of statements for user {name:?}, and no file in statement_list_dir has one; \
             begin with learn, write the list by `weir statements export`, and review it"
        );
        let mut error = error_at(&at, ErrorKind::Conflict, message);
        error.key = Some(key.to_owned());
        raw.fail(error);
    }
    for name in settings.statement_lists.keys() {
        let user = settings.users.get(name);
        let policy = user.and_then(|user| user.statement_policy);
        if policy.unwrap_or_default() == StatementPolicy::Off {
            raw.note(format!(
                "statement_list_dir has a list for user {name:?}, whose statement_policy is off"
            ));
        }
    }
}

fn check_listeners(raw: &mut Raw, settings: &Settings, file: &Origin) {
    let global = &settings.global;
    if global.listen_addr.is_empty() && global.unix_socket_dir.is_empty() {
        let message = "listen_addr and unix_socket_dir are both empty, so no client can connect";
        conflict(raw, "listen_addr", file, ErrorKind::Conflict, message);
    }
    if !global.metrics_listen.iter().all(|at| at.addr.is_loopback()) {
        let message =
            "metrics_listen shows the names of databases and users to every host that reaches it";
        raw.note(message.into());
    }
    if global
        .proxy_protocol_from
        .iter()
        .any(Network::is_everything)
    {
        let message =
            "proxy_protocol_from lets every host that reaches Weir choose its own address";
        raw.note(message.into());
    }
    let name = format!("{}/.s.PGSQL.{}", global.unix_socket_dir, global.listen_port);
    if global.unix_socket_dir == "@" || name.len() > SOCKET_NAME_LEN_MAX {
        let message =
            format!("unix_socket_dir must give a name of at most {SOCKET_NAME_LEN_MAX} bytes");
        conflict(raw, "unix_socket_dir", file, ErrorKind::BadValue, message);
    }
}

fn check_databases(raw: &mut Raw, settings: &Settings) {
    if settings.databases.is_empty() {
        raw.note("no databases are configured, so only the console can be reached".into());
    }
    let origins: Vec<_> = raw
        .databases
        .iter()
        .map(|(name, (_, at))| (name.clone(), at.clone()))
        .collect();
    for (name, at) in origins {
        let Some(entry) = settings.databases.get(&name) else {
            continue;
        };
        if name == CONSOLE {
            let message = "the database name \"pgbouncer\" is reserved for the console";
            raw.fail_at(&at, ErrorKind::Conflict, message);
        }
        let is_local = entry.host.is_empty() && settings.cluster_hosts(&name, entry).is_empty();
        if is_local && settings.global.unix_socket_dir.is_empty() {
            let message =
                format!("database \"{name}\" has no host, and unix_socket_dir is empty as well");
            raw.fail_at(&at, ErrorKind::Conflict, message);
        }
        if entry.user.is_none() && entry.password.is_some() {
            raw.note(format!(
                "{at}: database \"{name}\" has a password without a user; not used"
            ));
        }
        let any = settings.global.auth_type == AuthType::Any && !settings.trust_loopback;
        if any && entry.user.is_none() {
            raw.note(format!(
                "{at}: auth_type any needs a user in database \"{name}\"; its clients are refused"
            ));
        }
    }
}

fn note_sizes(raw: &mut Raw, settings: &Settings) {
    let global = &settings.global;
    let too_many = |min: u32, size: u32| size > 0 && min > size;
    if too_many(
        global.min_pool_size,
        global.default_pool_size.or(global.pool_size_max),
    ) {
        raw.note("min_pool_size is above default_pool_size; pools keep at most default_pool_size servers open".into());
    }
    for name in settings.databases.keys() {
        let lookup = if name == FALLBACK { "x" } else { name };
        let Some(pool) = settings.pool(lookup, "") else {
            continue;
        };
        note_sizing(raw, settings, name, &pool);
        let own = settings
            .databases
            .get(name)
            .is_some_and(|d| d.min_pool_size.is_some());
        if own && too_many(pool.min_pool_size, pool.pool_size) {
            raw.note(format!(
                "database \"{name}\": min_pool_size is above its pool size; its pools keep at most that many servers open"
            ));
        }
    }
}

/// Notes where `pool_size = auto` has no or limited effect.
fn note_sizing(raw: &mut Raw, settings: &Settings, name: &str, pool: &PoolSettings) {
    let global = &settings.global;
    let Some(entry) = settings.databases.get(name) else {
        return;
    };
    if entry.pool_size.unwrap_or(global.default_pool_size) != PoolSize::Auto {
        return;
    }
    if pool.pool_mode == PoolMode::Session {
        raw.note(format!(
            "database \"{name}\": pool_size auto does nothing in session pooling; its pools have {} servers",
            pool.pool_size
        ));
    } else if pool.sizing.mode != SizingMode::Off && wants_reserve(entry, global) {
        raw.note(format!(
            "database \"{name}\": reserve_pool_size is not used by a pool that finds its own size"
        ));
    }
    let max = entry.pool_size_max.unwrap_or(global.pool_size_max);
    if entry.pool_size_min.unwrap_or(global.pool_size_min) > max {
        raw.note(format!(
            "database \"{name}\": pool_size_min is above pool_size_max and counts as {max}"
        ));
    }
}

fn wants_reserve(entry: &Database, global: &Global) -> bool {
    entry.reserve_pool_size.unwrap_or(global.reserve_pool_size) > 0
}

fn note_peers(raw: &mut Raw, settings: &Settings) {
    if settings.peers.is_empty() {
        return;
    }
    if settings.global.peer_id == 0 {
        raw.note("[peers] without peer_id: cancel requests are not forwarded".into());
    }
    for (id, peer) in &settings.peers {
        if *id != settings.global.peer_id && peer.host.is_empty() {
            raw.note(format!(
                "peer {id} has no host; cancel requests for it are dropped"
            ));
        }
    }
}
