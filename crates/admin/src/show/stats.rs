//! `SHOW STATS` and related tables: counters by database and in total.

use weir_config::PgBouncerVersion as Version;
use weir_stats::{Averages, Counters, Totals};

use super::{CONSOLE, Context, Row, Show, is_console, numeric, some, text};

/// `SHOW STATS`.
pub(crate) static STATS: Show = Show {
    headings: &[
        text("database"),
        numeric("total_server_assignment_count").since(Version::V1_23),
        numeric("total_xact_count"),
        numeric("total_query_count"),
        numeric("total_received"),
        numeric("total_sent"),
        numeric("total_xact_time"),
        numeric("total_query_time"),
        numeric("total_wait_time"),
        numeric("total_client_parse_count").since(Version::V1_24),
        numeric("total_server_parse_count").since(Version::V1_24),
        numeric("total_bind_count").since(Version::V1_24),
        numeric("total_client_login_count").ours(),
        numeric("avg_server_assignment_count").since(Version::V1_23),
        numeric("avg_xact_count"),
        numeric("avg_query_count"),
        numeric("avg_recv"),
        numeric("avg_sent"),
        numeric("avg_xact_time"),
        numeric("avg_query_time"),
        numeric("avg_wait_time"),
        numeric("avg_client_parse_count").since(Version::V1_24),
        numeric("avg_server_parse_count").since(Version::V1_24),
        numeric("avg_bind_count").since(Version::V1_24),
        numeric("avg_client_login_count").ours(),
        numeric("total_error_count").ours(),
        numeric("total_pin_count").ours(),
        numeric("total_state_question_count").ours(),
        numeric("total_state_miss_count").ours(),
        numeric("total_notification_count").ours(),
        numeric("total_listen_overflow_count").ours(),
    ],
    is_live: true,
    rows: |context| {
        by_database(context, |totals| {
            let averages = Averages::of(&totals.period, totals.period_us);
            let mut values = totals_of(&totals.totals).to_vec();
            values.extend(averages_of(&averages));
            values.extend(ours_of(&totals.totals));
            values
        })
    },
};

/// `SHOW STATS_TOTALS`.
pub(crate) static STATS_TOTALS: Show = Show {
    headings: &[
        text("database"),
        numeric("server_assignment_count").since(Version::V1_23),
        numeric("xact_count"),
        numeric("query_count"),
        numeric("bytes_received"),
        numeric("bytes_sent"),
        numeric("xact_time"),
        numeric("query_time"),
        numeric("wait_time"),
        numeric("client_parse_count").since(Version::V1_24),
        numeric("server_parse_count").since(Version::V1_24),
        numeric("bind_count").since(Version::V1_24),
        numeric("client_login_count").ours(),
        numeric("error_count").ours(),
        numeric("pin_count").ours(),
        numeric("state_question_count").ours(),
        numeric("state_miss_count").ours(),
        numeric("notification_count").ours(),
        numeric("listen_overflow_count").ours(),
    ],
    is_live: true,
    rows: |context| {
        by_database(context, |totals| {
            let mut values = totals_of(&totals.totals).to_vec();
            values.extend(ours_of(&totals.totals));
            values
        })
    },
};

/// `SHOW STATS_AVERAGES`; as in PgBouncer only the last four columns are named as averages.
pub(crate) static STATS_AVERAGES: Show = Show {
    headings: &[
        text("database"),
        numeric("server_assignment_count").since(Version::V1_23),
        numeric("xact_count"),
        numeric("query_count"),
        numeric("bytes_received"),
        numeric("bytes_sent"),
        numeric("xact_time"),
        numeric("query_time"),
        numeric("wait_time"),
        numeric("avg_client_parse_count").since(Version::V1_24),
        numeric("avg_server_parse_count").since(Version::V1_24),
        numeric("avg_bind_count").since(Version::V1_24),
        numeric("avg_client_login_count").ours(),
    ],
    is_live: true,
    rows: |context| {
        by_database(context, |totals| {
            averages_of(&Averages::of(&totals.period, totals.period_us)).to_vec()
        })
    },
};

/// `SHOW TOTALS`.
pub(crate) static TOTALS: Show = Show {
    headings: &[text("name"), numeric("value")],
    is_live: true,
    rows: |context| {
        let snapshot = context.snapshot;
        let mut all = Totals::default();
        for totals in snapshot.databases.values().chain([&snapshot.console]) {
            all.totals += totals.totals;
            all.period += totals.period;
            all.period_us = all.period_us.max(totals.period_us);
        }
        let averages = Averages::of(&all.period, all.period_us);
        let figures = [
            ("total", totals_of(&all.totals)),
            ("avg", averages_of(&averages)),
        ];
        let each = figures.into_iter().flat_map(|(prefix, values)| {
            let named = TOTAL_NAMES.iter().zip(values);
            named.map(move |((name, since), value)| {
                let name = format!("{prefix}_{name}");
                (since, vec![some(name), some(value)])
            })
        });
        let mut rows: Vec<_> = each.collect();
        // Rows that the version does not have come last, as its columns do.
        let is_later = |since: &Option<Version>| !since.is_some_and(|it| context.compat().has(it));
        rows.sort_by_key(|(since, _)| is_later(since));
        rows.into_iter().map(|(_, row)| row).collect()
    },
};

/// Names of the values in SHOW TOTALS, in the order of [`totals_of`], with the first version that has them.
const TOTAL_NAMES: [(&str, Option<Version>); 12] = [
    ("server_assignment_count", Some(Version::V1_23)),
    ("xact_count", Some(Version::V1_18)),
    ("query_count", Some(Version::V1_18)),
    ("client_bytes", Some(Version::V1_18)),
    ("server_bytes", Some(Version::V1_18)),
    ("xact_time", Some(Version::V1_18)),
    ("query_time", Some(Version::V1_18)),
    ("wait_time", Some(Version::V1_18)),
    ("ps_client_parse_count", Some(Version::V1_24)),
    ("ps_server_parse_count", Some(Version::V1_24)),
    ("ps_bind_count", Some(Version::V1_24)),
    // 1.26 will have it.
    ("client_login_count", None),
];

/// Rows of all used databases and of the console.
fn by_database(context: &Context<'_>, values: impl Fn(&Totals) -> Vec<u64>) -> Vec<Row> {
    let snapshot = context.snapshot;
    let databases = snapshot.databases.iter();
    let mut all: Vec<_> = databases
        .filter(|(name, _)| !is_console(name))
        .map(|(name, totals)| (name.as_str(), totals))
        .chain([(CONSOLE, &snapshot.console)])
        .collect();
    all.sort_by_key(|(name, _)| *name);
    all.into_iter()
        .map(|(name, totals)| {
            let mut row = vec![some(name)];
            row.extend(values(totals).into_iter().map(some));
            row
        })
        .collect()
}

/// Totals in PgBouncer's order.
fn totals_of(counted: &Counters) -> [u64; 12] {
    [
        counted.server_assignments,
        counted.transactions,
        counted.queries,
        counted.bytes_received,
        counted.bytes_sent,
        counted.transaction_us,
        counted.query_us,
        counted.wait_us,
        counted.client_parses,
        counted.server_parses,
        counted.binds,
        counted.client_logins,
    ]
}

/// Counters that PgBouncer does not have.
fn ours_of(counted: &Counters) -> [u64; 6] {
    [
        counted.errors,
        counted.pins,
        counted.state_questions,
        counted.state_misses,
        counted.notifications,
        counted.listen_overflows,
    ]
}

/// Averages in PgBouncer's order.
fn averages_of(averages: &Averages) -> [u64; 12] {
    [
        averages.server_assignments,
        averages.transactions,
        averages.queries,
        averages.bytes_received,
        averages.bytes_sent,
        averages.transaction_us,
        averages.query_us,
        averages.wait_us,
        averages.client_parses,
        averages.server_parses,
        averages.binds,
        averages.client_logins,
    ]
}
