//! `SHOW CLIENTS`, `SHOW SERVERS` and `SHOW SOCKETS`: one row per connection.

use std::collections::HashMap;

use weir_config::PgBouncerVersion as Version;
use weir_stats::{Activity, Buffers, ClientRow, ClientState, Endpoint, ServerRow, ServerState};

use super::{
    Context, Heading, Row, Show, filled, int, int4, int8, long, seconds, some, text, timestamp,
};

/// Columns of both tables.
macro_rules! headings {
    ($($ours:expr),*) => {
        &[
            text("type"),
            text("user"),
            text("database"),
            text("replication").since(Version::V1_23),
            text("state"),
            text("addr"),
            int4("port"),
            text("local_addr"),
            int4("local_port"),
            text("connect_time"),
            text("request_time"),
            int4("wait"),
            int4("wait_us"),
            int4("close_needed"),
            text("ptr"),
            text("link"),
            int4("remote_pid"),
            text("tls"),
            text("application_name"),
            int4("prepared_statements").since(Version::V1_21),
            // PgBouncer has an int4, which a busy pooler outgrows in days.
            int8("id").since(Version::V1_24),
            $($ours),*
        ] as &'static [Heading]
    };
}

/// `SHOW CLIENTS`.
pub(crate) static CLIENTS: Show = Show {
    headings: headings!(
        text("pin").ours(),
        int8("pin_age").ours(),
        int4("worker").ours(),
        text("activity").ours(),
        int8("activity_us").ours(),
        text("wait_reason").ours(),
        int8("transactions").ours(),
        int8("queries").ours(),
        int8("errors").ours(),
        int8("transaction_us").ours(),
        int8("waited_us").ours(),
        int8("bytes_received").ours(),
        int8("bytes_sent").ours()
    ),
    is_live: true,
    rows: |context| {
        let clients = context.snapshot.clients.iter();
        let row = |row| client(row, context.compat());
        clients.map(row).collect()
    },
};

/// `SHOW SERVERS`.
pub(crate) static SERVERS: Show = Show {
    headings: headings!(int4("worker").ours()),
    is_live: true,
    rows: |context| context.snapshot.servers.iter().map(server).collect(),
};

/// `SHOW SOCKETS`.
pub(crate) static SOCKETS: Show = Show {
    headings: SOCKET_HEADINGS,
    is_live: true,
    rows: |context| sockets(context, |_| true),
};

/// `SHOW ACTIVE_SOCKETS`.
pub(crate) static ACTIVE_SOCKETS: Show = Show {
    headings: SOCKET_HEADINGS,
    is_live: true,
    rows: |context| sockets(context, |has_link| has_link),
};

const SOCKET_HEADINGS: &[Heading] = headings!(
    int4("recv_pos"),
    int4("pkt_pos"),
    int4("pkt_remain"),
    int4("send_pos"),
    int4("send_remain"),
    int4("pkt_avail"),
    int4("send_avail"),
    int4("worker").ours()
);

/// Columns that clients and servers share.
struct Connection<'a> {
    kind: &'static str,
    user: &'a str,
    database: &'a str,
    replication: &'static str,
    state: &'static str,
    ends: [&'a Endpoint; 2],
    times: [u64; 2],
    wait_us: u64,
    close_needed: bool,
    id: u64,
    link: Option<u64>,
    remote_pid: u32,
    tls: &'a str,
    application_name: &'a str,
    prepared_statements: u64,
}

impl Connection<'_> {
    fn row(&self) -> Row {
        let [remote, local] = self.ends;
        let [connect, request] = self.times;
        let [wait, wait_us] = seconds(self.wait_us);
        vec![
            some(self.kind),
            some(self.user),
            some(self.database),
            some(self.replication),
            some(self.state),
            some(&remote.address),
            int(remote.port),
            some(&local.address),
            int(local.port),
            some(time(connect)),
            // PgBouncer sets the request time at the start, so it is never empty.
            some(time(request.max(connect))),
            wait,
            wait_us,
            int(u8::from(self.close_needed)),
            some(pointer(self.id)),
            some(self.link.map(pointer).unwrap_or_default()),
            int(self.remote_pid),
            some(self.tls),
            some(self.application_name),
            int(self.prepared_statements),
            long(self.id),
        ]
    }
}

/// Word of this version of PgBouncer for the state of a client. Before 1.25 clients without a server are active.
pub(super) fn state(client: &ClientRow, version: Version) -> &'static str {
    match client.state {
        ClientState::Active => "active",
        ClientState::ActiveCancelRequest => "active_cancel_req",
        ClientState::Idle if !version.has(Version::V1_25) => "active",
        ClientState::Idle => "idle",
        ClientState::Login => "login",
        ClientState::Waiting => "waiting",
        ClientState::WaitingCancelRequest => "waiting_cancel_req",
    }
}

fn client(client: &ClientRow, version: Version) -> Row {
    let mut row = client_connection(client, state(client, version)).row();
    let pin = filled(&client.pin);
    let age = pin.as_ref().and_then(|_| long(client.pin_age_seconds));
    let reason = match client.activity {
        Some(Activity::Waiting(reason)) => some(reason.name()),
        _ => None,
    };
    let activity = client.activity.map(|activity| activity.name().to_owned());
    let lasts = client.activity.and_then(|_| long(client.activity_us));
    row.extend([pin, age, int(client.worker), activity, lasts, reason]);
    let counters = &client.counters;
    row.extend(
        [
            counters.transactions,
            counters.queries,
            counters.errors,
            counters.transaction_us,
            counters.wait_us,
            counters.bytes_received,
            counters.bytes_sent,
        ]
        .map(long),
    );
    row
}

fn client_connection<'a>(client: &'a ClientRow, state: &'static str) -> Connection<'a> {
    Connection {
        kind: "C",
        user: &client.user,
        database: &client.database,
        replication: client.replication,
        state,
        ends: [&client.remote, &client.local],
        times: [client.connect_time, client.request_time],
        wait_us: client.wait_us,
        close_needed: false,
        id: client.id,
        link: client.link,
        remote_pid: client.remote_pid,
        tls: &client.tls,
        application_name: &client.application_name,
        prepared_statements: client.prepared_statements,
    }
}

fn server(server: &ServerRow) -> Row {
    let state = match server.state {
        ServerState::Active => "active",
        ServerState::ActiveCancel => "active_cancel",
        ServerState::BeingCanceled => "being_canceled",
        ServerState::Idle => "idle",
        ServerState::Login => "new",
        ServerState::Tested => "tested",
        ServerState::Used => "used",
    };
    let mut row = server_connection(server, state).row();
    row.push(int(server.worker));
    row
}

fn server_connection<'a>(server: &'a ServerRow, state: &'static str) -> Connection<'a> {
    Connection {
        kind: "S",
        user: &server.user,
        database: &server.database,
        replication: server.replication,
        state,
        ends: [&server.remote, &server.local],
        times: [server.connect_time, server.request_time],
        wait_us: 0,
        close_needed: server.close_needed,
        id: server.id,
        link: server.link,
        remote_pid: server.remote_pid,
        tls: &server.tls,
        application_name: &server.application_name,
        prepared_statements: server.prepared_statements,
    }
}

/// Rows of the socket tables. PgBouncer shows positions in the buffer that a connection receives into and sends from.
/// Weir has no such buffer: it keeps only bytes that it cannot forward at once. All bytes kept for a connection
/// therefore count as received, from position 0 on; bytes that the other end has not taken yet count as left to send.
fn sockets(context: &Context<'_>, wanted: fn(bool) -> bool) -> Vec<Row> {
    let snapshot = context.snapshot;
    let clients = snapshot.clients.iter().map(|row| (row.id, row.buffers));
    let servers = snapshot.servers.iter().map(|row| (row.id, row.buffers));
    let unsent: HashMap<u64, u64> = clients
        .chain(servers)
        .map(|(id, buffers)| (id, buffers.unsent))
        .collect();
    let row = |connection: Connection<'_>, buffers: &Buffers, worker: usize| {
        let link = connection.link.and_then(|id| unsent.get(&id));
        let left = link.copied().unwrap_or_default();
        let mut row = connection.row();
        row.extend([buffers.received, 0, 0, 0, left, buffers.received, left].map(int));
        row.push(int(worker));
        row
    };
    let clients = snapshot.clients.iter();
    let clients = clients.filter(|client| wanted(client.state == ClientState::Active));
    let clients = clients.map(|client| {
        let state = match client.state {
            ClientState::Active | ClientState::Idle => "cl_active",
            ClientState::ActiveCancelRequest => "cl_active_cancel_req",
            ClientState::Login => "cl_login",
            ClientState::Waiting => "cl_waiting",
            ClientState::WaitingCancelRequest => "cl_waiting_cancel_req",
        };
        row(
            client_connection(client, state),
            &client.buffers,
            client.worker,
        )
    });
    let servers = snapshot.servers.iter();
    let servers = servers.filter(|server| wanted(server.state == ServerState::Active));
    let servers = servers.map(|server| {
        let state = match server.state {
            ServerState::Active => "sv_active",
            ServerState::ActiveCancel => "sv_active_cancel",
            ServerState::BeingCanceled => "sv_being_canceled",
            ServerState::Idle => "sv_idle",
            ServerState::Login => "sv_login",
            ServerState::Tested => "sv_tested",
            ServerState::Used => "sv_used",
        };
        row(
            server_connection(server, state),
            &server.buffers,
            server.worker,
        )
    });
    clients.chain(servers).collect()
}

/// Value of the columns `ptr` and `link`. PgBouncer shows memory addresses, which tools only compare with each other.
/// These are made from the id: equally unique, and they reveal nothing about the process.
fn pointer(id: u64) -> String {
    format!("{id:#x}")
}

/// Unix seconds in PgBouncer's format.
fn time(seconds: u64) -> String {
    i64::try_from(seconds).map_or_else(|_| String::new(), timestamp)
}
