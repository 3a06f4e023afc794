//! `SHOW DATABASES`: destination and limits of each database.

use weir_config::PgBouncerVersion as Version;
use weir_config::{Database, FALLBACK, Settings};

use super::{
    CONSOLE, CONSOLE_POOL_SIZE, Context, Row, Show, filled, int, int4, is_console, some, text,
};

/// `SHOW DATABASES`.
pub(crate) static DATABASES: Show = Show {
    headings: &[
        text("name"),
        text("host"),
        int4("port"),
        text("database"),
        text("force_user"),
        int4("pool_size"),
        int4("min_pool_size"),
        int4("reserve_pool_size").called("reserve_pool", Version::V1_24),
        int4("server_lifetime").since(Version::V1_23),
        text("pool_mode"),
        text("load_balance_hosts").since(Version::V1_24),
        int4("max_connections"),
        int4("current_connections"),
        int4("max_client_connections").since(Version::V1_24),
        int4("current_client_connections").since(Version::V1_24),
        int4("paused"),
        int4("disabled"),
    ],
    is_live: true,
    rows: |context| {
        let names = context.databases();
        names
            .into_iter()
            .filter_map(|name| row(context, name))
            .collect()
    },
};

/// Row of a database; none if a reload has removed its entry.
fn row(context: &Context<'_>, name: &str) -> Option<Row> {
    if name == CONSOLE {
        return Some(own(context));
    }
    let settings = context.settings;
    let entry = settings.databases.get(name);
    let entry = entry.or_else(|| settings.databases.get(FALLBACK))?;
    // No user has an empty name, so no user's rule applies: these are the values of the database
    // itself.
    let pool = settings.pool(name, "")?;
    let hosts: Vec<_> = entry.host.iter().map(ToString::to_string).collect();
    let balance = match hosts.len() {
        0 | 1 => None,
        _ => some(entry.load_balance_hosts),
    };
    let halts = &context.snapshot.halts;
    let counted = context.snapshot.databases.get(name);
    let (servers, clients) = counted.map_or((0, 0), |totals| {
        (
            totals.current_connections,
            totals.current_client_connections,
        )
    });
    Some(vec![
        some(name),
        filled(&hosts.join(",")),
        int(pool.port),
        some(&pool.dbname),
        entry.user.clone(),
        int(pool_size(settings, entry)),
        int(pool.min_pool_size),
        int(entry
            .reserve_pool_size
            .unwrap_or(settings.global.reserve_pool_size)),
        int(pool.server_lifetime.as_secs()),
        entry.pool_mode.and_then(some),
        balance,
        int(pool.max_db_connections),
        int(servers),
        int(pool.max_db_client_connections),
        int(clients),
        int(u8::from(halts.all || halts.paused.contains(name))),
        int(u8::from(halts.disabled.contains(name))),
    ])
}

/// Row of the console itself.
fn own(context: &Context<'_>) -> Row {
    let global = &context.settings.global;
    vec![
        some(CONSOLE),
        None,
        int(global.listen_port),
        some(CONSOLE),
        some(CONSOLE),
        int(CONSOLE_POOL_SIZE),
        int(0),
        int(0),
        int(global.server_lifetime.as_secs()),
        some("statement"),
        None,
        int(0),
        int(0),
        int(global.max_db_client_connections),
        int(i32::try_from(context.console_clients()).unwrap_or(i32::MAX)),
        int(0),
        int(0),
    ]
}

/// Number of rows.
pub(super) fn count(context: &Context<'_>) -> usize {
    let names = context.databases();
    debug_assert!(names.iter().filter(|name| is_console(name)).count() == 1);
    names
        .into_iter()
        .filter(|name| row(context, name).is_some())
        .count()
}

/// Configured size; for pools that determine their own size, its maximum.
fn pool_size(settings: &Settings, entry: &Database) -> u32 {
    let global = &settings.global;
    let max = entry.pool_size_max.unwrap_or(global.pool_size_max);
    entry.pool_size.unwrap_or(global.default_pool_size).or(max)
}
