//! `SHOW ERRORS`: errors that clients received since the process began.

use weir_stats::Blame;
use weir_wire::sqlstate::SqlState;

use super::{Show, numeric, some, text};

/// `SHOW ERRORS`, the most frequent first. PgBouncer has no such table.
pub(crate) static ERRORS: Show = Show {
    headings: &[
        text("origin").ours(),
        text("sqlstate").ours(),
        text("condition").ours(),
        numeric("count").ours(),
    ],
    is_live: true,
    rows: |context| {
        let mut errors: Vec<_> = context.snapshot.errors.iter().collect();
        errors.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let rows = errors.into_iter().map(|((blame, code), count)| {
            let origin = match blame {
                Blame::Pooler => "pooler",
                Blame::Server => "server",
            };
            let known = SqlState::from_slice(code.as_bytes());
            let condition = known.and_then(SqlState::condition);
            vec![
                some(origin),
                some(code),
                condition.and_then(some),
                some(count),
            ]
        });
        rows.collect()
    },
};
