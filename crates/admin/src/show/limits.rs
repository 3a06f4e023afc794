//! `SHOW LIMITS`: every limit in force, and its usage.

use super::{Show, filled, int8, long, some, text, timestamp};

/// `SHOW LIMITS`, the fullest first. PgBouncer has no such table.
pub(crate) static LIMITS: Show = Show {
    headings: &[
        text("name").ours(),
        text("scope").ours(),
        int8("used").ours(),
        int8("maximum").ours(),
        int8("percent").ours(),
        int8("peak").ours(),
        text("peak_at").ours(),
        int8("peak_in_hour").ours(),
    ],
    is_live: true,
    rows: |context| {
        let percent = |used: u64, max: u64| used.saturating_mul(100).checked_div(max);
        let mut limits: Vec<_> = context
            .snapshot
            .limits
            .iter()
            .map(|limit| (percent(limit.used, limit.max), limit))
            .collect();
        limits.sort_by_key(|(percent, limit)| {
            (std::cmp::Reverse(*percent), limit.name, limit.scope.clone())
        });
        let rows = limits.into_iter().map(|(percent, limit)| {
            vec![
                some(limit.name),
                filled(&limit.scope),
                long(limit.used),
                long(limit.max),
                percent.and_then(long),
                limit.peak.and_then(|peak| long(peak.used)),
                limit.peak.map(|peak| timestamp(peak.at)),
                limit.peak.and_then(|peak| long(peak.used_in_hour)),
            ]
        });
        rows.collect()
    },
};
