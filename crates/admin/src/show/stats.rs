//! `SHOW STATS` and related tables: counters by database and in total.

use weir_stats::{Averages, Counters, Totals};

use super::{CONSOLE, Context, Row, Show, is_console, numeric, some, text};

/// `SHOW STATS`.
pub(crate) static STATS: Show = Show {
    headings: &[
        text("database"),
        numeric("total_server_assignment_count"),
        numeric("total_xact_count"),
        numeric("total_query_count"),
        numeric("total_received"),
        numeric("total_sent"),
        numeric("total_xact_time"),
        numeric("total_query_time"),
        numeric("total_wait_time"),
        numeric("total_client_parse_count"),
        numeric("total_server_parse_count"),
        numeric("total_bind_count"),
        numeric("total_client_login_count"),
        numeric("avg_server_assignment_count"),
        numeric("avg_xact_count"),
        numeric("avg_query_count"),
        numeric("avg_recv"),
        numeric("avg_sent"),
        numeric("avg_xact_time"),
        numeric("avg_query_time"),
        numeric("avg_wait_time"),
        numeric("avg_client_parse_count"),
        numeric("avg_server_parse_count"),
        numeric("avg_bind_count"),
        numeric("avg_client_login_count"),
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
        numeric("server_assignment_count"),
        numeric("xact_count"),
        numeric("query_count"),
        numeric("bytes_received"),
        numeric("bytes_sent"),
        numeric("xact_time"),
        numeric("query_time"),
        numeric("wait_time"),
        numeric("client_parse_count"),
        numeric("server_parse_count"),
        numeric("bind_count"),
        numeric("client_login_count"),
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
        numeric("server_assignment_count"),
        numeric("xact_count"),
        numeric("query_count"),
        numeric("bytes_received"),
        numeric("bytes_sent"),
        numeric("xact_time"),
        numeric("query_time"),
        numeric("wait_time"),
        numeric("avg_client_parse_count"),
        numeric("avg_server_parse_count"),
        numeric("avg_bind_count"),
        numeric("avg_client_login_count"),
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
        let mut all = Totals::default();
        for totals in context.snapshot.databases.values() {
            all.totals += totals.totals;
            all.period += totals.period;
            all.period_us = all.period_us.max(totals.period_us);
        }
        let averages = Averages::of(&all.period, all.period_us);
        let totals = TOTAL_NAMES.iter().zip(totals_of(&all.totals));
        let averages = TOTAL_NAMES.iter().zip(averages_of(&averages));
        let totals = totals.map(|(name, value)| vec![some(format!("total_{name}")), some(value)]);
        let averages = averages.map(|(name, value)| vec![some(format!("avg_{name}")), some(value)]);
        totals.chain(averages).collect()
    },
};

/// Names of the values in SHOW TOTALS, in the order of [`totals_of`].
const TOTAL_NAMES: [&str; 12] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "client_bytes",
    "server_bytes",
    "xact_time",
    "query_time",
    "wait_time",
    "ps_client_parse_count",
    "ps_server_parse_count",
    "ps_bind_count",
    "client_login_count",
];

/// Rows of all used databases, and of the console, whose counters are zero.
fn by_database(context: &Context<'_>, values: impl Fn(&Totals) -> Vec<u64>) -> Vec<Row> {
    let own = Totals::default();
    let databases = context.snapshot.databases.iter();
    let mut all: Vec<_> = databases
        .filter(|(name, _)| !is_console(name))
        .map(|(name, totals)| (name.as_str(), totals))
        .chain([(CONSOLE, &own)])
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
