//! `SHOW CLIENTS` and `SHOW SERVERS`: one row per connection.

use weir_stats::{ClientRow, ClientState, Endpoint, ServerRow, ServerState};

use super::{
    Heading, Row, Show, filled, int, int4, int8, is_console, long, seconds, some, text, timestamp,
};

/// The columns that both tables have.
macro_rules! headings {
    ($($ours:expr),*) => {
        &[
            text("type"),
            text("user"),
            text("database"),
            text("replication"),
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
            int4("prepared_statements"),
            int8("id"),
            $($ours),*
        ] as &'static [Heading]
    };
}

/// `SHOW CLIENTS`.
pub(crate) static CLIENTS: Show = Show {
    headings: headings!(
        text("pin").ours(),
        int8("pin_age").ours(),
        int4("worker").ours()
    ),
    is_live: true,
    rows: |context| context.snapshot.clients.iter().map(client).collect(),
};

/// `SHOW SERVERS`.
pub(crate) static SERVERS: Show = Show {
    headings: headings!(int4("worker").ours()),
    is_live: true,
    rows: |context| context.snapshot.servers.iter().map(server).collect(),
};

/// What the two kinds of rows share.
struct Connection<'a> {
    kind: &'static str,
    user: &'a str,
    database: &'a str,
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
            some("none"),
            some(self.state),
            some(&remote.address),
            int(remote.port),
            some(&local.address),
            int(local.port),
            some(time(connect)),
            // PgBouncer sets it at the start, so it never looks empty.
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

/// PgBouncer's word for what a client does.
pub(super) fn state(client: &ClientRow) -> &'static str {
    match client.state {
        ClientState::Active => "active",
        // A client of the console never has a server; PgBouncer calls it active all the same.
        ClientState::Idle if is_console(&client.database) => "active",
        ClientState::Idle => "idle",
        ClientState::Login => "login",
        ClientState::Waiting => "waiting",
    }
}

fn client(client: &ClientRow) -> Row {
    let mut row = Connection {
        kind: "C",
        user: &client.user,
        database: &client.database,
        state: state(client),
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
    .row();
    let pin = filled(&client.pin);
    let age = pin.as_ref().and_then(|_| long(client.pin_age_seconds));
    row.extend([pin, age, int(client.worker)]);
    row
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
    let mut row = Connection {
        kind: "S",
        user: &server.user,
        database: &server.database,
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
    .row();
    row.push(int(server.worker));
    row
}

/// PgBouncer shows addresses in memory, which tools only compare: with `link`, and with each other. Ours are made of
/// the id, so they are as unique and tell nothing about the process.
fn pointer(id: u64) -> String {
    format!("{id:#x}")
}

/// Unix seconds as PgBouncer prints them.
fn time(seconds: u64) -> String {
    i64::try_from(seconds).map_or_else(|_| String::new(), timestamp)
}
