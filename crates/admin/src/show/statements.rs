//! `SHOW STATEMENT_LISTS` and `SHOW LISTED_STATEMENTS`: the statements that users may run (`statement_policy`).

use super::{Context, Row, Show, filled, int8, long, some, text};

/// `SHOW STATEMENT_LISTS`. PgBouncer has no such table.
pub(crate) static STATEMENT_LISTS: Show = Show {
    headings: &[
        text("user").ours(),
        text("policy").ours(),
        int8("listed").ours(),
        int8("recorded").ours(),
        int8("left_out").ours(),
        int8("warned").ours(),
        int8("refused").ours(),
        int8("unread").ours(),
    ],
    is_live: true,
    rows: |context| {
        let counts = context.snapshot.statement_counts.iter();
        let rows = counts.map(|counts| {
            vec![
                some(&counts.user),
                some(counts.policy),
                long(counts.listed),
                long(counts.recorded),
                long(counts.left_out),
                long(counts.warned),
                long(counts.refused),
                long(counts.unread),
            ]
        });
        rows.collect()
    },
};

/// `SHOW LISTED_STATEMENTS`. PgBouncer has no such table.
pub(crate) static LISTED_STATEMENTS: Show = Show {
    headings: &[
        text("user").ours(),
        text("state").ours(),
        text("form").ours(),
        text("sha256").ours(),
        text("fingerprint").ours(),
        text("statement").ours(),
    ],
    is_live: true,
    rows,
};

fn rows(context: &Context<'_>) -> Vec<Row> {
    let rows = context.snapshot.statements.iter().map(|row| {
        vec![
            some(&row.user),
            some(row.state),
            some(row.form),
            row.sha256.as_deref().and_then(filled),
            row.fingerprint.as_deref().and_then(filled),
            some(&*row.text),
        ]
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_stats::{Snapshot, StatementCounts, StatementRow};

    use super::*;

    #[test]
    fn lists_and_their_statements_are_shown() {
        let text = "auth_type = \"any\"\n[databases.shop]\nhost = \"10.0.0.5\"\n";
        let mut read = |_: &Path| Ok(text.to_owned());
        let loaded = weir_config::load(Path::new("weir.toml"), &mut read, std::iter::empty());
        let row = |state, form, sha256: Option<&str>, fingerprint: Option<&str>, text: &str| {
            StatementRow {
                user: "app".to_owned(),
                state,
                form,
                sha256: sha256.map(str::to_owned),
                fingerprint: fingerprint.map(str::to_owned),
                text: text.into(),
            }
        };
        let snapshot = Snapshot {
            statement_counts: vec![StatementCounts {
                user: "app".to_owned(),
                policy: "warn",
                listed: 2,
                warned: 7,
                ..StatementCounts::default()
            }],
            statements: vec![
                row("listed", "text", None, Some("0123456789abcdef"), "SELECT ?"),
                row("warned", "sha256", Some("ab"), None, "SELECT..."),
            ],
            ..Snapshot::default()
        };
        let context = Context {
            settings: &loaded.unwrap().settings,
            users: &[],
            snapshot: &snapshot,
            version: "",
        };
        let lines = |show: &Show| {
            let rows = (show.rows)(&context);
            let lines = rows.iter().map(|row| {
                let values = row.iter().map(|value| value.as_deref().unwrap_or("-"));
                values.collect::<Vec<_>>().join("|")
            });
            lines.collect::<Vec<_>>()
        };
        assert_eq!(lines(&STATEMENT_LISTS), ["app|warn|2|0|0|7|0|0"]);
        assert_eq!(
            lines(&LISTED_STATEMENTS),
            [
                "app|listed|text|-|0123456789abcdef|SELECT ?",
                "app|warned|sha256|ab|-|SELECT...",
            ]
        );
    }
}
