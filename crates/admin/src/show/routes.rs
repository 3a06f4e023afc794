//! `SHOW ROUTES`: statements on databases that have several hosts, and where they ran.

use weir_stats::{RouteCounts, RouteKey};

use super::{Row, Show, int8, long, some, text};

/// `SHOW ROUTES`. PgBouncer has no such table.
pub(crate) static ROUTES: Show = Show {
    headings: &[
        text("database").ours(),
        text("verdict").ours(),
        text("reason").ours(),
        int8("count").ours(),
        int8("error").ours(),
        int8("retries").ours(),
        text("statement").ours(),
    ],
    is_live: true,
    rows: |context| {
        let mut routes: Vec<_> = context.snapshot.routes.iter().collect();
        // Stable, so that equal counts stay in the order of their names.
        routes.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.count));
        routes.into_iter().map(row).collect()
    },
};

fn row((route, counts): (&RouteKey, &RouteCounts)) -> Row {
    vec![
        some(&route.database),
        some(route.verdict),
        some(&route.reason),
        long(counts.count),
        long(counts.error),
        long(counts.retries),
        some(&route.statement),
    ]
}
