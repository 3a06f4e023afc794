//! Columns of the views of clients and servers.

use std::borrow::Cow;

use weir_proxy::blocking::Table;

use super::{Column, Direction, Sheet, Source, WIDE, count, id, seconds, text};
use crate::cell::Format;
use crate::data::field;
use crate::question::Question;

/// Clients.
pub(crate) const CLIENTS: &[Sheet] = &[Sheet {
    table: |data| data.table(Question::Clients).map(Cow::Borrowed),
    question: Question::Clients,
    columns: &[
        id("id", &["id", "ptr"], 0),
        text("application", &["application_name"], 0),
        text("user", &["user"], 1),
        text("database", &["database"], 0),
        text("state", &["activity", "state"], 0),
        Column::new("time", Source::Timed, Format::Duration, 0),
        text("waits for", &["wait_reason"], 2),
        text("pinned by", &["pin"], 3),
        text("address", &["addr"], 2),
        id("port", &["port"], 5),
        id("server", &["link"], 6),
        Column::new("age", Source::Age("connect_time"), Format::Duration, 6),
        text("tls", &["tls"], 8),
        seconds("pin age", "pin_age", WIDE),
        count("prepared", "prepared_statements", WIDE),
        id("pid", &["remote_pid"], WIDE),
        count("worker", "worker", WIDE),
        text("ptr", &["ptr"], WIDE),
    ],
    key: &["ptr"],
    sort: ("time", Direction::Falling),
    is_idle,
    note: "",
    empty: "No clients. Connect one to this address, for example by psql, and look again.",
}];

/// Column of the client that holds a server.
const fn of_client(heading: &'static str, field: &'static str, format: Format, rank: u8) -> Column {
    let source = Source::Joined {
        question: Question::Clients,
        on: &[("link", "ptr")],
        field,
    };
    Column::new(heading, source, format, rank)
}

/// Servers, with the clients that hold them.
pub(crate) const SERVERS: &[Sheet] = &[Sheet {
    table: |data| data.table(Question::Servers).map(Cow::Borrowed),
    question: Question::Servers,
    columns: &[
        id("pid", &["remote_pid"], 0),
        text("database", &["database"], 0),
        text("user", &["user"], 1),
        Column::new("state", Source::ServerState, Format::Text, 0),
        Column::new("time", Source::Timed, Format::Duration, 0),
        text("application", &["application_name"], 0),
        of_client("client", "id", Format::Id, 2),
        of_client("pinned by", "pin", Format::Text, 2),
        text("address", &["addr"], 3),
        id("port", &["port"], 3),
        of_client("from", "addr", Format::Text, 5),
        Column::new("age", Source::Age("connect_time"), Format::Duration, 4),
        count("closing", "close_needed", 6),
        count("prepared", "prepared_statements", 7),
        text("tls", &["tls"], 8),
        id("id", &["id"], WIDE),
        count("worker", "worker", WIDE),
        text("ptr", &["ptr"], WIDE),
    ],
    key: &["ptr"],
    sort: ("time", Direction::Falling),
    is_idle,
    note: "",
    empty: "No server connections: no client has needed one lately. View 3 shows the clients.",
}];

/// A client is idle by its activity where the console tells that, else by its state; a server by its state.
fn is_idle(table: &Table, row: &[Option<String>]) -> bool {
    let state = field(table, row, "activity").or_else(|| field(table, row, "state"));
    matches!(state, Some("idle" | "used" | "tested"))
}
