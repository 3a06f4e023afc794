//! `SHOW POOL_SIZE`: pools that determine their own size, and the reasons for it.

use weir_stats::SizingRow;

use super::{Row, Show, int8, long, some, text};

/// `SHOW POOL_SIZE`. PgBouncer has no such table.
pub(crate) static POOL_SIZE: Show = Show {
    headings: &[
        text("database").ours(),
        text("user").ours(),
        text("mode").ours(),
        text("state").ours(),
        int8("size").ours(),
        int8("limit").ours(),
        int8("assigned").ours(),
        int8("servers").ours(),
        int8("size_min").ours(),
        int8("size_max").ours(),
        int8("knee_low").ours(),
        int8("knee_high").ours(),
        text("elasticity").ours(),
        int8("pairs").ours(),
        int8("moves").ours(),
        int8("stalls").ours(),
        int8("cuts").ours(),
        text("decisions").ours(),
    ],
    is_live: true,
    rows: |context| context.snapshot.sizings.iter().map(row).collect(),
};

fn row(pool: &SizingRow) -> Row {
    let elasticity = pool.elasticity;
    let elasticity = elasticity.map(|(value, error)| format!("{value:.2} ± {error:.2}"));
    let decisions: Vec<_> = pool
        .decisions
        .iter()
        .map(|(age, text)| format!("{age} s ago {text}"))
        .collect();
    vec![
        some(&pool.database),
        some(&pool.user),
        some(pool.mode),
        some(&pool.state),
        long(pool.size),
        long(pool.limit),
        long(pool.assigned),
        long(pool.servers),
        long(pool.bounds.0),
        long(pool.bounds.1),
        pool.knee.and_then(|(low, _)| long(low)),
        pool.knee.and_then(|(_, high)| long(high)),
        elasticity,
        long(pool.pairs),
        long(pool.moves),
        long(pool.stalls),
        long(pool.cuts),
        some(decisions.join("; ")),
    ]
}
