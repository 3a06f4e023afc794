//! `SHOW LISTS`: numbers of objects of each kind.

use weir_config::PgBouncerVersion as Version;

use super::{Context, Row, Show, databases, int, int4, is_console, peers, some, text, users};

/// `SHOW LISTS`.
pub(crate) static LISTS: Show = Show {
    headings: &[text("list"), int4("items")],
    is_live: true,
    rows,
};

fn rows(context: &Context<'_>) -> Vec<Row> {
    let snapshot = context.snapshot;
    let pools = snapshot.pools.keys().filter(|key| !is_console(&key.0));
    let mut rows = [
        ("databases", int(databases::count(context))),
        ("users", int(users::names(context).len())),
        ("peers", int(context.settings.peers.len())),
        ("pools", int(pools.count() + 1)),
        ("peer_pools", int(peers::count(context))),
        // PgBouncer keeps the memory of closed connections and counts it here; Weir keeps none.
        ("free_clients", int(0)),
        ("used_clients", int(snapshot.clients.len())),
        ("login_clients", int(snapshot.login_clients)),
        ("free_servers", int(0)),
        ("used_servers", int(snapshot.servers.len())),
        ("dns_names", int(snapshot.dns_names)),
        ("dns_zones", int(0)),
        ("dns_queries", int(snapshot.dns_pending)),
        ("dns_pending", int(0)),
    ]
    .to_vec();
    if !context.compat().has(Version::V1_19) {
        // Without peers their rows come last, as columns of later versions do.
        rows.sort_by_key(|(list, _)| list.starts_with("peer"));
    }
    rows.into_iter()
        .map(|(list, items)| vec![some(list), items])
        .collect()
}
