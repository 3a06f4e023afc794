//! `SHOW PEERS` and `SHOW PEER_POOLS`: other poolers that cancel requests are forwarded to.

use super::{Context, Show, filled, int, int4, text};

/// `SHOW PEERS`.
pub(crate) static PEERS: Show = Show {
    headings: &[
        int4("peer_id"),
        text("host"),
        int4("port"),
        int4("pool_size"),
    ],
    is_live: false,
    rows: |context| {
        let default = context.settings.global.peer_connections();
        let peers = context.settings.peers.iter();
        let rows = peers.map(|(id, peer)| {
            let hosts: Vec<_> = peer.host.iter().map(ToString::to_string).collect();
            vec![
                int(*id),
                filled(&hosts.join(",")),
                int(peer.port),
                int(peer.pool_size.unwrap_or(default)),
            ]
        });
        rows.collect()
    },
};

/// `SHOW PEER_POOLS`. Each request has a connection of its own, which carries nothing else.
pub(crate) static PEER_POOLS: Show = Show {
    headings: &[
        int4("peer_id"),
        int4("cl_active_cancel_req"),
        int4("cl_waiting_cancel_req"),
        int4("sv_active_cancel"),
        int4("sv_login"),
    ],
    is_live: true,
    rows: |context| {
        let rows = others(context).map(|id| {
            let row = context.snapshot.peers.get(&id).copied().unwrap_or_default();
            let mut values = vec![int(id)];
            values.extend([row.active, row.waiting, row.active, row.waiting].map(int));
            values
        });
        rows.collect()
    },
};

/// Ids of all peers except this process.
fn others(context: &Context<'_>) -> impl Iterator<Item = u32> {
    let own = context.settings.global.peer_id;
    let ids = context.settings.peers.keys().copied();
    ids.filter(move |id| *id != own)
}

/// Number of peer pools.
pub(super) fn count(context: &Context<'_>) -> usize {
    others(context).count()
}
