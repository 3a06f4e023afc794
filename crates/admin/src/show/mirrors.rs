//! `SHOW MIRRORS` and `SHOW MIRROR_STATEMENTS`: statements that query rules send to another database too.

use weir_stats::MirrorCounts;

use super::{Context, Row, Show, filled, int8, long, some, text};

/// `SHOW MIRRORS`. PgBouncer has no such table.
pub(crate) static MIRRORS: Show = Show {
    headings: &[
        text("rule").ours(),
        text("database").ours(),
        int8("connections").ours(),
        int8("waiting").ours(),
        int8("waiting_bytes").ours(),
        int8("sent").ours(),
        int8("same").ours(),
        int8("other_rows").ours(),
        int8("other_counts").ours(),
        int8("other_errors").ours(),
        int8("skipped").ours(),
        int8("failed").ours(),
        int8("dropped").ours(),
        int8("client_us").ours(),
        int8("mirror_us").ours(),
        text("last_difference").ours(),
        text("last_failure").ours(),
    ],
    is_live: true,
    rows: mirrors,
};

/// `SHOW MIRROR_STATEMENTS`. PgBouncer has no such table.
pub(crate) static STATEMENTS: Show = Show {
    headings: &[
        text("rule").ours(),
        int8("sent").ours(),
        int8("same").ours(),
        int8("other_rows").ours(),
        int8("other_counts").ours(),
        int8("other_errors").ours(),
        int8("client_us").ours(),
        int8("mirror_us").ours(),
        text("statement").ours(),
    ],
    is_live: true,
    rows: statements,
};

fn mirrors(context: &Context<'_>) -> Vec<Row> {
    let rows = context.snapshot.mirrors.iter().map(|mirror| {
        let mut row = vec![
            some(&mirror.rule),
            some(&mirror.database),
            long(mirror.connections.into()),
            long(mirror.waiting),
            long(mirror.waiting_bytes),
        ];
        row.extend(results(&mirror.counts));
        row.extend([mirror.skipped, mirror.failed, mirror.dropped].map(long));
        row.extend(times(&mirror.counts));
        row.extend([&mirror.last_difference, &mirror.last_failure].map(|text| filled(text)));
        row
    });
    rows.collect()
}

fn statements(context: &Context<'_>) -> Vec<Row> {
    let mirrors = context.snapshot.mirrors.iter();
    let rows = mirrors.flat_map(|mirror| {
        mirror.statements.iter().map(|statement| {
            let mut row = vec![some(&mirror.rule)];
            row.extend(results(&statement.counts));
            row.extend(times(&statement.counts));
            row.push(some(&statement.text));
            row
        })
    });
    rows.collect()
}

fn results(counts: &MirrorCounts) -> Row {
    let MirrorCounts {
        sent,
        same,
        other_rows,
        other_counts,
        other_errors,
        ..
    } = *counts;
    [sent, same, other_rows, other_counts, other_errors]
        .map(long)
        .into()
}

fn times(counts: &MirrorCounts) -> Row {
    [counts.client_us, counts.mirror_us].map(long).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_stats::{MirrorRow, MirrorStatementRow, Snapshot};

    use super::*;

    #[test]
    fn mirrors_have_a_row_each_and_one_for_each_statement() {
        let counts = MirrorCounts {
            sent: 10,
            same: 7,
            other_rows: 1,
            other_counts: 2,
            client_us: 500,
            mirror_us: 900,
            ..MirrorCounts::default()
        };
        let mirror = MirrorRow {
            rule: "next".to_owned(),
            database: "shop_next".to_owned(),
            connections: 4,
            counts,
            dropped: 3,
            last_difference: "other rows: SELECT ?".to_owned(),
            statements: vec![MirrorStatementRow {
                text: "SELECT ?".to_owned(),
                counts,
            }],
            ..MirrorRow::default()
        };
        let snapshot = Snapshot {
            mirrors: vec![mirror],
            ..Snapshot::default()
        };
        let mut read = |_: &Path| Ok("auth_type = \"any\"\n".to_owned());
        let loaded = weir_config::load(Path::new("weir.toml"), &mut read, std::iter::empty());
        let context = Context {
            settings: &loaded.unwrap().settings,
            users: &[],
            snapshot: &snapshot,
            version: "",
        };
        let shown = |rows: Vec<Row>| -> Vec<String> {
            let cells = rows.into_iter().flatten();
            cells
                .map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
                .collect()
        };
        assert_eq!(
            shown(mirrors(&context)).join(" "),
            "next shop_next 4 0 0 10 7 1 2 0 0 0 3 500 900 other rows: SELECT ? -"
        );
        assert_eq!(
            shown(statements(&context)).join(" "),
            "next 10 7 1 2 0 500 900 SELECT ?"
        );
    }
}
