//! `SHOW POOLS`: who waits and what the servers do, by database and user.

use weir_stats::{PoolCounts, PoolRow};

use super::{
    CONSOLE, CONSOLE_POOL_SIZE, Context, Row, Show, filled, int, int4, is_console, seconds, some,
    text,
};

/// `SHOW POOLS`.
pub(crate) static POOLS: Show = Show {
    headings: &[
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
        text("load_balance_hosts"),
        int4("size").ours(),
        int4("servers").ours(),
        int4("cl_pinned").ours(),
        text("violation").ours(),
    ],
    is_live: true,
    rows,
};

fn rows(context: &Context<'_>) -> Vec<Row> {
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

/// The console's pool: it has clients, never servers.
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
