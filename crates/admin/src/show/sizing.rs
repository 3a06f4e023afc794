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
        text("last_decision").ours(),
    ],
    is_live: true,
    rows: |context| context.snapshot.sizings.iter().map(row).collect(),
};

/// `SHOW POOL_SIZE_DECISIONS`. PgBouncer has no such table.
pub(crate) static DECISIONS: Show = Show {
    headings: &[
        text("database").ours(),
        text("user").ours(),
        int8("age_seconds").ours(),
        int8("size_before").ours(),
        int8("size_after").ours(),
        text("reason").ours(),
    ],
    is_live: true,
    rows: |context| context.snapshot.sizings.iter().flat_map(decided).collect(),
};

fn decided(pool: &SizingRow) -> impl Iterator<Item = Row> {
    pool.decisions.iter().map(|decision| {
        vec![
            some(&pool.database),
            some(&pool.user),
            long(decision.age_seconds),
            long(decision.from),
            long(decision.to),
            some(&decision.reason),
        ]
    })
}

fn row(pool: &SizingRow) -> Row {
    let elasticity = pool.elasticity;
    let elasticity = elasticity.map(|(value, error)| format!("{value:.2} ± {error:.2}"));
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
        pool.decisions.first().map(ToString::to_string),
    ]
}
