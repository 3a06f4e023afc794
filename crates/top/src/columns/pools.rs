//! Columns of the view of pools.

use std::borrow::Cow;

use weir_proxy::blocking::Table;

use super::{Column, Direction, Sheet, Source, WIDE, count, micros, rate, text};
use crate::cell::Format;
use crate::data::{Data, number};
use crate::question::Question;

/// Pools with percentiles, else PgBouncer's.
pub(crate) const SHEETS: &[Sheet] = &[
    sheet(Question::ExtendedPools, |data| {
        data.table(Question::ExtendedPools).map(Cow::Borrowed)
    }),
    sheet(Question::Pools, |data| {
        data.table(Question::Pools).map(Cow::Borrowed)
    }),
];

const fn sheet(question: Question, table: fn(&Data) -> Option<Cow<'_, Table>>) -> Sheet {
    Sheet {
        table,
        question,
        columns: COLUMNS,
        key: &["database", "user"],
        sort: ("max wait", Direction::Falling),
        is_idle,
        note: "",
        empty: "No pools yet: they appear with the first client. Connect one, for example by psql.",
    }
}

/// Average of a database from SHOW STATS, for poolers without percentiles.
const fn average(heading: &'static str, field: &'static str, rank: u8) -> Column {
    let source = Source::Joined {
        question: Question::Stats,
        on: &[("database", "database")],
        field,
    };
    Column::new(heading, source, Format::Duration, rank).unless("wait_p99")
}

/// Rate of a database from SHOW STATS, for poolers that do not count by pool.
const fn database_rate(
    heading: &'static str,
    field: &'static str,
    unless: &'static str,
    rank: u8,
) -> Column {
    let source = Source::RateOf {
        question: Question::Stats,
        on: ("database", "database"),
        field,
    };
    Column::new(heading, source, Format::Rate, rank).unless(unless)
}

const WAITS_FOR: Source = Source::Joined {
    question: Question::Waits,
    on: &[("database", "database"), ("user", "user")],
    field: "reason",
};

const COLUMNS: &[Column] = &[
    text("database", &["database"], 0),
    text("user", &["user"], 0),
    count("waiting", "cl_waiting", 0),
    Column::new(
        "max wait",
        Source::Wait(["maxwait", "maxwait_us"]),
        Format::Duration,
        0,
    ),
    Column::new("waits for", WAITS_FOR, Format::Text, 1),
    count("clients", "cl_active", 1),
    count("busy", "sv_active", 0),
    count("idle", "sv_idle", 1),
    count("login", "sv_login", 4),
    count("size", "size", 1),
    count("pinned", "cl_pinned", 3),
    rate("xact/s", "xact_count", 2),
    database_rate("db xact/s", "total_xact_count", "xact_count", 2),
    rate("query/s", "query_count", 4),
    database_rate("db query/s", "total_query_count", "query_count", 4),
    rate("error/s", "error_count", 5),
    micros("wait p99", "wait_p99", 3),
    micros("xact p99", "xact_p99", 4),
    micros("query p99", "query_p99", 3),
    average("db avg wait", "avg_wait_time", 3),
    average("db avg xact", "avg_xact_time", 4),
    average("db avg query", "avg_query_time", 3),
    text("mode", &["pool_mode"], 5),
    text("violation", &["violation"], 6),
    text("pins", &["pins"], 7),
    micros("wait p95", "wait_p95", 7),
    micros("xact p95", "xact_p95", 7),
    micros("query p95", "query_p95", 7),
    micros("wait p50", "wait_p50", 8),
    micros("xact p50", "xact_p50", 8),
    micros("query p50", "query_p50", 8),
    count("used", "sv_used", WIDE),
    count("tested", "sv_tested", WIDE),
    count("servers", "servers", WIDE),
    count("cancels", "cl_active_cancel_req", WIDE),
    count("cancels waiting", "cl_waiting_cancel_req", WIDE),
    count("paused", "paused", WIDE),
];

/// A pool is idle if none of its clients waits or has a server.
fn is_idle(table: &Table, row: &[Option<String>]) -> bool {
    let columns = ["cl_waiting", "sv_active", "cl_waiting_cancel_req"];
    columns
        .iter()
        .all(|column| number(table, row, column).unwrap_or_default() == 0.0)
}
