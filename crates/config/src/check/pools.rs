//! Entries of `[pools]`: their databases exist, and their options can take effect.

use crate::check::CONSOLE;
use crate::error::ErrorKind;
use crate::options::{PoolOptions, nearest};
use crate::raw::{Origin, Raw, error_at, quoted};
use crate::settings::{FALLBACK, Settings};

/// Refuses entries of databases that do not exist, and notes options that nothing follows.
pub(super) fn check(raw: &mut Raw, settings: &Settings) {
    for (database, entries) in raw.pools.clone() {
        for (user, (_, at)) in entries {
            if is_possible(raw, settings, (&database, &user), &at) {
                note(raw, settings, (&database, &user), &at);
            }
        }
    }
}

/// True if a client can have this user and database; a mistake otherwise.
fn is_possible(
    raw: &mut Raw,
    settings: &Settings,
    (database, user): (&str, &str),
    at: &Origin,
) -> bool {
    let databases = &settings.databases;
    let is_known = databases.contains_key(database) || databases.contains_key(FALLBACK);
    let message = if database == CONSOLE {
        "the console \"pgbouncer\" has no pool; [pools] is about databases".to_owned()
    } else if user == FALLBACK {
        format!(
            "[pools] needs the name of a user; what is for all users of {} belongs in [databases]",
            quoted(database)
        )
    } else if is_known {
        return true;
    } else {
        format!("no database {} in [databases]", quoted(database))
    };
    let mut error = error_at(at, ErrorKind::Conflict, message);
    error.key = Some(format!("{database}/{user}"));
    if !is_known {
        let names = databases.keys().map(String::as_str);
        error.suggestion = nearest(database, names).map(str::to_owned);
    }
    raw.fail(error);
    false
}

/// Notes what has no effect.
fn note(raw: &mut Raw, settings: &Settings, (database, user): (&str, &str), at: &Origin) {
    let databases = &settings.databases;
    let entry = databases.get(database).or_else(|| databases.get(FALLBACK));
    let own = settings.pools.get(database).and_then(|all| all.get(user));
    let (Some(entry), Some(own)) = (entry, own) else {
        return;
    };
    let forced = entry.user.as_deref().filter(|forced| *forced != user);
    if let Some(forced) = forced
        && sets_the_pool(own)
    {
        raw.note(format!(
            "{at}: database {} forces user {}, so only time-outs of queries, transactions and idle clients count \
             in the pool of {}",
            quoted(database),
            quoted(forced),
            quoted(user)
        ));
        return;
    }
    let name = if database == FALLBACK { "x" } else { database };
    let Some(pool) = settings.pool(name, user) else {
        return;
    };
    if own.min_pool_size.is_some() && pool.pool_size > 0 && pool.min_pool_size > pool.pool_size {
        raw.note(format!(
            "{at}: min_pool_size is above the size of the pool, which keeps at most {} servers open",
            pool.pool_size
        ));
    }
}

/// True if the entry sets something that follows the user on the server.
fn sets_the_pool(own: &PoolOptions) -> bool {
    own.pool_mode.is_some()
        || own.pool_size.is_some()
        || own.min_pool_size.is_some()
        || own.reserve_pool_size.is_some()
        || own.max_pinned.is_some()
        || own.max_waiting.is_some()
        || own.query_wait_timeout.is_some()
        || own.server_lifetime.is_some()
        || own.server_lifetime_jitter.is_some()
        || own.server_idle_timeout.is_some()
}
