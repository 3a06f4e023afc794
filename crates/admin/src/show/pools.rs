//! `SHOW POOLS` and `SHOW EXTENDED POOLS`: waiting clients and states of servers, by database and
//! user.

use std::collections::BTreeMap;

use weir_config::PgBouncerVersion as Version;
use weir_stats::{Percentiles, PoolCounts, PoolRow};

use super::{
    CONSOLE, CONSOLE_POOL_SIZE, Context, Heading, Row, Show, filled, int, int4, int8, is_console,
    long, numeric, seconds, some, text,
};

/// Columns of SHOW POOLS, followed by additional ones.
macro_rules! headings {
    ($($more:expr),*) => {
        &[
            text("database"),
            text("user"),
            int4("cl_active"),
            int4("cl_waiting"),
            int4("cl_active_cancel_req"),
            int4("cl_waiting_cancel_req"),
            int4("sv_active"),
            int4("sv_active_cancel"),
            int4("sv_being_canceled"),
            int4("sv_idle"),
            int4("sv_used"),
            int4("sv_tested"),
            int4("sv_login"),
            int4("maxwait"),
            int4("maxwait_us"),
            text("pool_mode"),
            text("load_balance_hosts").since(Version::V1_24),
            int4("size").ours(),
            int4("servers").ours(),
            int4("cl_pinned").ours(),
            text("violation").ours(),
            $($more),*
        ] as &'static [Heading]
    };
}

/// `SHOW POOLS`.
pub(crate) static POOLS: Show = Show {
    headings: headings!(),
    is_live: true,
    rows,
};

/// `SHOW EXTENDED POOLS`. Percentiles are of the last `stats_period`, in microseconds.
pub(crate) static EXTENDED_POOLS: Show = Show {
    headings: headings!(
        text("pins").ours(),
        int4("paused").ours(),
        int8("wait_p50").ours(),
        int8("wait_p95").ours(),
        int8("wait_p99").ours(),
        int8("xact_p50").ours(),
        int8("xact_p95").ours(),
        int8("xact_p99").ours(),
        int8("query_p50").ours(),
        int8("query_p95").ours(),
        int8("query_p99").ours(),
        numeric("xact_count").ours(),
        numeric("query_count").ours(),
        numeric("error_count").ours()
    ),
    is_live: true,
    rows: extended_rows,
};

fn rows(context: &Context<'_>) -> Vec<Row> {
    with_each(context, row)
}

fn extended_rows(context: &Context<'_>) -> Vec<Row> {
    let halts = &context.snapshot.halts;
    with_each(context, |database, user, pool| {
        let mut row = row(database, user, pool);
        let is_paused = halts.all || halts.paused.contains(database);
        row.push(filled(&pins(context, database, user)));
        row.push(int(u8::from(is_paused && !is_console(database))));
        let times = pool.percentiles();
        for Percentiles {
            p50_us,
            p95_us,
            p99_us,
        } in [times.wait, times.transaction, times.query]
        {
            row.extend([p50_us, p95_us, p99_us].map(long));
        }
        let totals = &pool.totals;
        row.extend([totals.transactions, totals.queries, totals.errors].map(some));
        row
    })
}

/// Reasons why clients of a pool keep their servers now, each with its number of clients.
fn pins(context: &Context<'_>, database: &str, user: &str) -> String {
    let clients = context.snapshot.clients.iter();
    let clients = clients.filter(|client| client.database == database && client.user == user);
    let mut counts = BTreeMap::<&str, u64>::new();
    for reason in clients.flat_map(|client| client.pin.split(", ")) {
        if !reason.is_empty() {
            *counts.entry(reason).or_default() += 1;
        }
    }
    let counts = counts
        .into_iter()
        .map(|(reason, count)| format!("{reason}: {count}"));
    counts.collect::<Vec<_>>().join(", ")
}

fn with_each(context: &Context<'_>, row: impl Fn(&str, &str, &PoolRow) -> Row) -> Vec<Row> {
    let own = own(context);
    let pools = context.snapshot.pools.iter();
    let mut all: Vec<_> = pools
        .filter(|((database, _), _)| !is_console(database))
        .map(|((database, user), pool)| (database.as_str(), user.as_str(), pool))
        .chain([(CONSOLE, CONSOLE, &own)])
        .collect();
    all.sort_by_key(|(database, user, _)| (*database, *user));
    all.into_iter()
        .map(|(database, user, pool)| row(database, user, pool))
        .collect()
}

/// Row of the console's pool: it has clients, never servers.
fn own(context: &Context<'_>) -> PoolRow {
    PoolRow {
        counts: PoolCounts {
            cl_active: u64::try_from(context.console_clients()).unwrap_or(u64::MAX),
            ..PoolCounts::default()
        },
        pool_mode: "statement",
        size: u64::from(CONSOLE_POOL_SIZE),
        ..PoolRow::default()
    }
}

fn row(database: &str, user: &str, pool: &PoolRow) -> Row {
    let counts = &pool.counts;
    let mut row = vec![some(database), some(user)];
    row.extend(
        [
            counts.cl_active,
            counts.cl_waiting,
            counts.cl_active_cancel_req,
            counts.cl_waiting_cancel_req,
            counts.sv_active,
            counts.sv_active_cancel,
            counts.sv_being_canceled,
            counts.sv_idle,
            counts.sv_used,
            counts.sv_tested,
            counts.sv_login,
        ]
        .map(int),
    );
    row.extend(seconds(pool.maxwait_us));
    row.extend([some(pool.pool_mode), filled(pool.load_balance_hosts)]);
    row.extend([int(pool.size), int(pool.servers)]);
    row.extend([int(pool.pinned), filled(&pool.violation)]);
    row
}
