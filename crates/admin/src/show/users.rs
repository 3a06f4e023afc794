//! `SHOW USERS`: known users and their limits.

use std::collections::BTreeSet;

use weir_config::PgBouncerVersion as Version;

use super::{CONSOLE, Context, Row, Show, int, int4, some, text};

/// `SHOW USERS`.
pub(crate) static USERS: Show = Show {
    headings: &[
        text("name"),
        text("pool_size").since(Version::V1_23),
        text("reserve_pool_size").since(Version::V1_24),
        text("pool_mode"),
        int4("max_user_connections").since(Version::V1_23),
        int4("current_connections").since(Version::V1_23),
        int4("max_user_client_connections").since(Version::V1_24),
        int4("current_client_connections").since(Version::V1_24),
    ],
    is_live: true,
    rows: |context| {
        let names = names(context);
        names.into_iter().map(|name| row(context, name)).collect()
    },
};

/// Names of users of `auth_file`, of `[users]`, of forced users, and of connected ones.
pub(super) fn names<'a>(context: &Context<'a>) -> BTreeSet<&'a str> {
    let snapshot = context.snapshot;
    let settings = context.settings;
    let listed = context.users.iter().map(String::as_str);
    let configured = settings.users.keys().map(String::as_str);
    let forced = settings
        .databases
        .values()
        .filter_map(|entry| entry.user.as_deref());
    let servers = snapshot.servers.iter().map(|server| server.user.as_str());
    let clients = snapshot.clients.iter().map(|client| client.user.as_str());
    listed
        .chain(configured)
        .chain(forced)
        .chain(servers)
        .chain(clients)
        .chain([CONSOLE])
        .filter(|name| !name.is_empty())
        .collect()
}

fn row(context: &Context<'_>, name: &str) -> Row {
    let global = &context.settings.global;
    let user = context.settings.users.get(name);
    let servers = context.snapshot.servers.iter();
    let clients = context.snapshot.clients.iter();
    vec![
        some(name),
        some(
            user.and_then(|user| user.pool_size)
                .map_or_else(String::new, |size| format!("{:>9}", size.to_string())),
        ),
        some(padded(user.and_then(|user| user.reserve_pool_size))),
        user.and_then(|user| user.pool_mode).and_then(some),
        int(user
            .and_then(|user| user.max_user_connections)
            .unwrap_or(global.max_user_connections)),
        int(servers.filter(|server| server.user == name).count()),
        int(user
            .and_then(|user| user.max_user_client_connections)
            .unwrap_or(global.max_user_client_connections)),
        int(clients.filter(|client| client.user == name).count()),
    ]
}

/// PgBouncer's format of an override: padded to nine characters, or empty.
fn padded(size: Option<u32>) -> String {
    size.map_or_else(String::new, |size| format!("{size:9}"))
}
