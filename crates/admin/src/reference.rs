//! The reference page `docs/reference/console.md`, generated from the table of commands.

use std::fmt::Write;

use weir_config::PgBouncerVersion;
use weir_proxy::console::Role;

use crate::command::{Action, COMMANDS, Entry};
use crate::show::Show;

const INTRO: &str = "\
# Admin console

<!-- Generated from the table of commands in crates/admin; edit that. -->

Connect to the database `pgbouncer` (or `weir`) with psql or any driver:

```console
psql -p 6432 -U admin pgbouncer -c 'SHOW POOLS'
```

Commands, columns, types and error texts are PgBouncer's, so its monitoring works unchanged. Users in `admin_users` may
run every command, users in `stats_users` only those of role stats.

- A query holds one command. Case does not matter, the final semicolon is optional, `SELECT` stands for `SHOW`, and
  comments are skipped.
- A name is a word, or stands in double quotes.
- Drivers may use simple queries, as with PgBouncer, or the extended protocol. Prepared statements, row limits and binary
  results work; parameters do not.
";

const GONE: &str = "
## Commands of PgBouncer that Weir refuses

The console answers these with SQLSTATE 0A000 and the reason.

";

const COURTESY: &str = "
## For drivers

Drivers read or set some parameters when they connect. The console answers with a fixed value, or with the notice
`SET ignored`.

";

const COLUMNS: &str = "
## Columns

Columns in the order of the rows, those of PgBouncer 1.25. `pgbouncer_compat` chooses another version: columns that it does not have
follow those that it has. Columns in *italics* are Weir's own and come last.
";

const HEADER: &str = "| command | role | |\n|---|---|---|\n";

/// Text of the page. A test compares the committed file with it.
#[must_use]
pub fn reference_markdown() -> String {
    let mut out = format!("{INTRO}\n## Commands\n\n");
    let is_plain = |entry: &&Entry| !entry.is_gone() && !entry.is_courtesy();
    table(&mut out, COMMANDS.iter().filter(is_plain));
    out.push_str(GONE);
    table(&mut out, COMMANDS.iter().filter(|entry| entry.is_gone()));
    out.push_str(COURTESY);
    table(
        &mut out,
        COMMANDS.iter().filter(|entry| entry.is_courtesy()),
    );
    out.push_str(COLUMNS);
    for entry in COMMANDS {
        if let Action::Show(show) | Action::ShowOf(show) = entry.action {
            columns(&mut out, entry, show);
        }
    }
    out
}

fn table<'a>(out: &mut String, entries: impl Iterator<Item = &'a Entry>) {
    out.push_str(HEADER);
    for entry in entries {
        let role = match entry.role {
            Role::Stats => "stats",
            Role::Admin => "admin",
        };
        let doc = match entry.action {
            Action::Constant { value, .. } => format!("`{value}`"),
            _ => entry.doc.to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "| `{}` | {role} | {doc} |", entry.usage());
    }
}

fn columns(out: &mut String, entry: &Entry, show: &Show) {
    let shown = show.columns(PgBouncerVersion::V1_25);
    let names = shown.iter().map(|heading| {
        let kind = heading.kind.name();
        match heading.is_ours {
            true => format!("*{}* {kind}", heading.name),
            false => format!("`{}` {kind}", heading.name),
        }
    });
    let names: Vec<_> = names.collect();
    let _ = writeln!(out, "\n**{}**: {}", entry.name, names.join(", "));
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    /// After a change of the table run this test with UPDATE_EXPECT=1.
    #[test]
    fn the_page_is_fresh() {
        expect_file!["../../../docs/reference/console.md"].assert_eq(&super::reference_markdown());
    }
}
