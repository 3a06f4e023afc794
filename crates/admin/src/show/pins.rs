//! `SHOW PINS` and `SHOW PINS_TOTALS`: clients that keep a server beyond the transaction, and the reasons, now and
//! since the start.

use std::cmp::Reverse;

use weir_stats::ClientRow;

use super::{
    Context, Row, Show, connections, int, int4, int8, is_console, long, numeric, some, text,
};

/// `SHOW PINS`, the oldest first.
pub(crate) static PINS: Show = Show {
    headings: &[
        text("database").ours(),
        text("user").ours(),
        text("addr").ours(),
        int4("port").ours(),
        text("reason").ours(),
        int8("age").ours(),
        text("state").ours(),
        int8("id").ours(),
        int4("server_pid").ours(),
    ],
    is_live: true,
    rows: |context| {
        let clients = context.snapshot.clients.iter();
        let mut pinned: Vec<_> = clients.filter(|client| !client.pin.is_empty()).collect();
        pinned.sort_by_key(|client| (Reverse(client.pin_age_seconds), client.id));
        pinned
            .into_iter()
            .map(|client| row(context, client))
            .collect()
    },
};

/// `SHOW PINS_TOTALS`.
pub(crate) static PINS_TOTALS: Show = Show {
    headings: &[
        text("database").ours(),
        text("reason").ours(),
        numeric("count").ours(),
    ],
    is_live: true,
    rows: |context| {
        let databases = context.snapshot.databases.iter();
        let reasons = databases
            .filter(|(name, _)| !is_console(name))
            .flat_map(|(name, totals)| totals.pins.iter().map(move |pin| (name, pin)));
        reasons
            .map(|(name, (reason, count))| vec![some(name), some(reason), some(count)])
            .collect()
    },
};

fn row(context: &Context<'_>, client: &ClientRow) -> Row {
    let mut servers = context.snapshot.servers.iter();
    let server = client
        .link
        .and_then(|id| servers.find(|server| server.id == id));
    vec![
        some(&client.database),
        some(&client.user),
        some(&client.remote.address),
        int(client.remote.port),
        some(&client.pin),
        long(client.pin_age_seconds),
        some(connections::state(client, context.compat())),
        long(client.id),
        server.and_then(|server| int(server.remote_pid)),
    ]
}
