//! Number of file descriptors that a configuration may need.

use crate::settings::{FALLBACK, Settings};

/// Descriptors that do not grow with the load: standard streams, log, pid file, listeners, resolver.
const FIXED_COUNT: u64 = 32;
/// Per worker: event queue, wakeup, timer, spare.
const PER_WORKER_COUNT: u64 = 4;
/// Places for clients of the console beyond `max_client_conn`.
pub const CONSOLE_RESERVE: usize = 8;
/// Assumed if `workers` follows the number of cores, which this crate does not know.
const WORKER_COUNT_GUESS: u64 = 64;

/// Per host of a database with several: the connection that watches it.
const PER_WATCHED_COUNT: u64 = 1;
/// Per source of `failover_hints`: an idle connection, one in use, and a look-up of a name.
const PER_SOURCE_COUNT: u64 = 3;

/// Returns the maximum number of file descriptors that these settings should use at once: every client, every pool at
/// its full size with its reserve on each of its hosts, and a fixed part. Compare it with the limit of the process.
///
/// The users of a database are those of `[users]`, at least one, unless the database forces one. An unlimited pool
/// counts as one server per client.
#[must_use]
pub fn fd_budget(settings: &Settings) -> u64 {
    let clients = u64::from(settings.global.max_client_conn);
    let workers = match settings.global.workers {
        0 => WORKER_COUNT_GUESS,
        workers => u64::from(workers),
    };
    let servers: u64 = settings
        .databases
        .keys()
        .map(|name| servers_of(settings, name))
        .sum();
    clients + CONSOLE_RESERVE as u64 + servers + workers * PER_WORKER_COUNT + FIXED_COUNT
}

fn servers_of(settings: &Settings, name: &str) -> u64 {
    let clients = u64::from(settings.global.max_client_conn);
    // Any name without an entry of its own finds the fallback's.
    let name = if name == FALLBACK { "\u{1}" } else { name };
    let of_user = |user: &str| {
        settings
            .pool(name, user)
            .map_or(0, |pool| match pool.pool_size {
                0 => clients,
                size => u64::from(size) + u64::from(pool.reserve_pool_size),
            })
    };
    let Some(pool) = settings.pool(name, "") else {
        return 0;
    };
    let users: u64 = match pool.is_user_forced || settings.users.is_empty() {
        true => of_user(""),
        false => settings.users.keys().map(|user| of_user(user)).sum(),
    };
    let cluster = pool.cluster.as_ref();
    let hosts = cluster.map_or(0, |cluster| cluster.hosts.len());
    let hosts = u64::try_from(hosts).unwrap_or(u64::MAX);
    let sources = cluster.map_or(0, |cluster| cluster.hints.sources.len());
    let sources = u64::try_from(sources).unwrap_or(u64::MAX);
    // A user has a pool per host.
    let servers = users.saturating_mul(hosts.max(1));
    let servers = match pool.max_db_connections {
        0 => servers,
        max => servers.min(u64::from(max)),
    };
    servers.saturating_add(hosts * PER_WATCHED_COUNT + sources * PER_SOURCE_COUNT)
}
