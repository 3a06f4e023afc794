//! Columns of the views of diagnoses, pins, errors, hosts and statements.

use std::borrow::Cow;

use super::{
    Column, Direction, Sheet, Source, WIDE, count, id, micros, never_idle, rate, seconds, text,
};
use crate::cell::Format;
use crate::findings;
use crate::question::Question;

/// Diagnoses of the pooler, else what can be seen without them.
pub(crate) const DIAGNOSES: &[Sheet] = &[
    Sheet {
        table: |data| data.table(Question::Diagnosis).map(Cow::Borrowed),
        question: Question::Diagnosis,
        columns: CONDITIONS,
        key: &["condition", "scope"],
        sort: ("severity", Direction::Falling),
        is_idle: never_idle,
        note: "",
        empty: "No condition needs you. View 2 shows the pools.",
    },
    Sheet {
        table: |data| findings::table(data).map(Cow::Owned),
        question: Question::Databases,
        columns: CONDITIONS,
        key: &["condition", "scope"],
        sort: ("lasts", Direction::Falling),
        is_idle: never_idle,
        note: "waits, pauses, limits",
        empty: "No client waits, nothing is paused or disabled, and no limit of servers is near. View 2 shows the pools.",
    },
];

const CONDITIONS: &[Column] = &[
    Column::new(
        "severity",
        Source::Field(&["severity"]),
        Format::Severity,
        0,
    ),
    text("condition", &["condition"], 0),
    text("scope", &["scope"], 0),
    seconds("lasts", "seconds", 1),
    text("evidence", &["evidence"], 0).flexible(),
    text("advice", &["advice"], 7),
    text("command", &["command"], 8),
    text("since", &["since"], WIDE),
];

/// Pinned clients.
pub(crate) const PINS: &[Sheet] = &[Sheet {
    table: |data| data.table(Question::Pins).map(Cow::Borrowed),
    question: Question::Pins,
    columns: &[
        id("id", &["id"], 0),
        text("database", &["database"], 0),
        text("user", &["user"], 1),
        text("reason", &["reason"], 0).flexible(),
        seconds("age", "age", 0),
        text("state", &["state"], 2),
        text("address", &["addr"], 3),
        id("port", &["port"], 4),
        id("server pid", &["server_pid"], 2),
    ],
    key: &["id"],
    sort: ("age", Direction::Falling),
    is_idle: never_idle,
    note: "",
    empty: "No client keeps a server beyond its transaction: nothing stands in the way of pooling.",
}];

/// Errors by origin and code.
pub(crate) const ERRORS: &[Sheet] = &[Sheet {
    table: |data| data.table(Question::Errors).map(Cow::Borrowed),
    question: Question::Errors,
    columns: &[
        text("origin", &["origin"], 0),
        text("sqlstate", &["sqlstate"], 0),
        count("count", "count", 0),
        rate("per second", "count", 0),
        text("condition", &["condition"], 0).flexible(),
    ],
    key: &["origin", "sqlstate"],
    sort: ("count", Direction::Falling),
    is_idle: never_idle,
    note: "",
    empty: "No client has received an error since the start.",
}];

/// Hosts of databases with replicas, else the host of each database.
pub(crate) const HOSTS: &[Sheet] = &[
    Sheet {
        table: |data| data.table(Question::Hosts).map(Cow::Borrowed),
        question: Question::Hosts,
        columns: &[
            text("database", &["database"], 0),
            text("host", &["host"], 0),
            text("role", &["role"], 0),
            text("state", &["state"], 0),
            text("writes", &["writes"], 1),
            text("reads", &["reads"], 1),
            seconds("for", "since_seconds", 2),
            Column::new("lag", Source::Count("lag_ms", 1e3), Format::Duration, 1),
            Column::new(
                "lag bytes",
                Source::Count("lag_bytes", 1.0),
                Format::Bytes,
                3,
            ),
            count("servers", "servers", 3),
            micros("probe", "probe_us", 4),
            text("last error", &["last_error"], 2).flexible(),
            count("weight", "weight", 6),
            text("zone", &["az"], 7),
            count("timeline", "timeline", 8),
        ],
        key: &["database", "host"],
        sort: ("database", Direction::Rising),
        is_idle: never_idle,
        note: "",
        empty: "No hosts of databases with replicas.",
    },
    Sheet {
        table: |data| data.table(Question::Databases).map(Cow::Borrowed),
        question: Question::Databases,
        columns: &[
            text("database", &["name"], 0),
            text("host", &["host"], 0),
            id("port", &["port"], 0),
            text("on server", &["database"], 1),
            count("servers", "current_connections", 0),
            count("max servers", "max_connections", 1),
            count("clients", "current_client_connections", 2),
            count("pool size", "pool_size", 2),
            count("reserve", "reserve_pool_size", 5),
            text("mode", &["pool_mode"], 6),
            text("force user", &["force_user"], 4),
            count("paused", "paused", 1),
            count("disabled", "disabled", 1),
        ],
        key: &["name"],
        sort: ("database", Direction::Rising),
        is_idle: never_idle,
        note: "without replicas",
        empty: "No databases: the configuration names none.",
    },
];

/// Digests.
pub(crate) const STATEMENTS: &[Sheet] = &[Sheet {
    table: |data| data.table(Question::Digests).map(Cow::Borrowed),
    question: Question::Digests,
    columns: &[
        micros("total", "server_us", 0),
        count("calls", "calls", 0),
        rate("per second", "calls", 3),
        micros("p50", "p50_us", 4),
        micros("p95", "p95_us", 5),
        micros("p99", "p99_us", 1),
        micros("avg", "avg_us", 1).unless("p99_us"),
        count("errors", "errors", 1),
        count("rows", "rows", 2),
        Column::new("bytes", Source::Count("bytes", 1.0), Format::Bytes, 6),
        micros("waits", "wait_us", 5),
        text("database", &["database"], 2),
        text("user", &["user"], 6),
        text("statement", &["statement"], 0).flexible(),
        text("last error", &["last_error"], 7),
        text("fingerprint", &["fingerprint"], 8),
        text("first seen", &["first_seen"], WIDE),
        text("last seen", &["last_seen"], WIDE),
    ],
    key: &["database", "user", "fingerprint"],
    sort: ("total", Direction::Falling),
    is_idle: never_idle,
    note: "",
    empty: "No statements yet: none has run since the start or RESET DIGESTS, or digests are off.",
}];
