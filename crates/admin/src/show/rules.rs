//! `SHOW RULES`: query rules in the order of the file, and what they have done.

use weir_rules::ALWAYS;

use super::{Context, Row, Show, filled, int8, long, some, text, timestamp};

/// `SHOW RULES`. PgBouncer has no such table.
pub(crate) static RULES: Show = Show {
    headings: &[
        text("name").ours(),
        text("action").ours(),
        text("state").ours(),
        int8("hits").ours(),
        int8("dry_hits").ours(),
        text("last_hit").ours(),
        text("expires").ours(),
        text("sample").ours(),
        text("then").ours(),
        int8("running").ours(),
        int8("waiting").ours(),
        int8("refused").ours(),
        text("cost").ours(),
        text("place").ours(),
    ],
    is_live: true,
    rows,
};

fn rows(context: &Context<'_>) -> Vec<Row> {
    let rows = context.snapshot.rules.iter().map(|rule| {
        let time = |unix: i64| match unix {
            0 => None,
            unix => filled(&timestamp(unix)),
        };
        vec![
            some(&rule.name),
            some(rule.action),
            some(rule.state),
            long(rule.counts.hits),
            long(rule.counts.dry_hits),
            time(rule.counts.last_hit),
            rule.expires.and_then(time),
            some(format!(
                "{}%",
                f64::from(rule.sample) * 100.0 / f64::from(ALWAYS)
            )),
            some(if rule.goes_on { "next" } else { "stop" }),
            rule.running.and_then(|running| long(running.into())),
            rule.waiting.and_then(|waiting| long(waiting.into())),
            rule.refused.and_then(long),
            some(rule.cost),
            some(&rule.place),
        ]
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_stats::{RuleCounts, RuleRow, Snapshot};

    use super::*;

    #[test]
    fn rules_are_shown_with_their_counts() {
        let text = "auth_type = \"any\"\n[databases.shop]\nhost = \"10.0.0.5\"\n";
        let mut read = |_: &Path| Ok(text.to_owned());
        let loaded = weir_config::load(Path::new("weir.toml"), &mut read, std::iter::empty());
        let rule = RuleRow {
            name: "stop".to_owned(),
            action: "reject",
            state: "dry run",
            expires: None,
            sample: 5_000,
            goes_on: true,
            place: "weir.toml:10".to_owned(),
            counts: RuleCounts {
                hits: 0,
                dry_hits: 7,
                last_hit: 1_799_999_999,
            },
            running: Some(5),
            waiting: Some(2),
            refused: Some(0),
            cost: "text",
        };
        let old = RuleRow {
            name: "old".to_owned(),
            action: "pass",
            state: "expired",
            expires: Some(1_767_225_600),
            sample: ALWAYS,
            cost: "shape",
            place: "console:1".to_owned(),
            ..RuleRow::default()
        };
        let snapshot = Snapshot {
            rules: vec![old, rule],
            ..Snapshot::default()
        };
        let rows = rows(&Context {
            settings: &loaded.unwrap().settings,
            users: &[],
            snapshot: &snapshot,
            version: "",
        });
        let lines = rows.iter().map(|row| {
            let values = row.iter().map(|value| value.as_deref().unwrap_or("-"));
            values.collect::<Vec<_>>().join("|")
        });
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "old|pass|expired|0|0|-|2026-01-01 00:00:00 UTC|100%|stop|-|-|-|shape|console:1",
                "stop|reject|dry run|0|7|2027-01-15 07:59:59 UTC|-|0.5%|next|5|2|0|text|weir.toml:10",
            ]
        );
    }
}
