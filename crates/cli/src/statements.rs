//! `weir statements export`: the list of a user with what a running Weir has learnt, as a file of `statement_list_dir`.

use weir_command::exit::{self, Exit, complain};
use weir_config::statement_list_text;
use weir_proxy::blocking::Table;
use weir_rules::{Form, StatementEntry};

use crate::args::StatementsExport;
use crate::console::{Console, ConsoleError};
use crate::route::quoted;

/// Prints the list.
pub(crate) fn export(args: &StatementsExport) -> Exit {
    let told = |error: &dyn std::fmt::Display| {
        complain(format_args!("console of Weir at {}: {error}", args.address));
    };
    let user = args.user.as_deref();
    let mut console = match Console::connect(&args.address, user, "weir statements export") {
        Ok(console) => console,
        Err(error) => {
            told(&error);
            return Exit::Start;
        }
    };
    match ask(&mut console, args) {
        Ok(Ok((lists, statements))) => match left_out(&lists, &args.of) {
            Some(left_out) => {
                if left_out > 0 {
                    complain(format_args!(
                        "note: the list is not complete, because statements found no room ({left_out} times); put this part into \
                         statement_list_dir, reload, and let Weir learn the others"
                    ));
                }
                exit::print(&text(args, &statements));
                Exit::Ok
            }
            None => {
                let name = &args.of;
                told(&format_args!(
                    "user {name} has no statement_policy in [users]"
                ));
                Exit::Failed
            }
        },
        Ok(Err(error)) => {
            told(&error);
            Exit::Failed
        }
        Err(error) => {
            told(&error);
            Exit::Failed
        }
    }
}

/// Returns the rows of all lists, and the statements of the user.
fn ask(
    console: &mut Console,
    args: &StatementsExport,
) -> Result<Result<(Table, Table), String>, ConsoleError> {
    let lists = match console.ask_table("SHOW STATEMENT_LISTS")? {
        Ok(lists) => lists,
        Err(error) => return Ok(Err(error)),
    };
    let question = format!("SHOW LISTED_STATEMENTS {}", quoted(&args.of));
    let statements = console.ask_table(&question)?;
    Ok(statements.map(|statements| (lists, statements)))
}

/// Number of statements that found no room; none if the user has no list.
fn left_out(lists: &Table, user: &str) -> Option<u64> {
    let mut rows = lists.rows.iter();
    let row = rows.find(|row| value(lists, row, "user") == Some(user))?;
    value(lists, row, "left_out")?.parse().ok()
}

fn text(args: &StatementsExport, table: &Table) -> String {
    let wanted = table.rows.iter().filter(|row| {
        let state = value(table, row, "state");
        args.refused || state != Some("refused")
    });
    let entries = wanted.filter_map(|row| entry(table, row));
    statement_list_text(&args.of, entries.collect())
}

fn entry(table: &Table, row: &[Option<String>]) -> Option<StatementEntry> {
    let form = match value(table, row, "form")? {
        "whole" => Form::Whole,
        "sha256" => Form::Hash(value(table, row, "sha256")?.parse().ok()?),
        _ => Form::Text,
    };
    Some(StatementEntry {
        text: value(table, row, "statement")?.into(),
        form,
        fingerprint: value(table, row, "fingerprint").and_then(|print| print.parse().ok()),
    })
}

fn value<'t>(table: &Table, row: &'t [Option<String>], column: &str) -> Option<&'t str> {
    let place = table.columns.iter().position(|name| name == column)?;
    row.get(place)?.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [
            "user",
            "state",
            "form",
            "sha256",
            "fingerprint",
            "statement",
        ];
        let row = |values: [&str; 6]| {
            let values = values.map(|value| Some(value.to_owned()).filter(|value| value != "-"));
            values.to_vec()
        };
        let hash = "ab".repeat(32);
        Table {
            columns: columns.map(str::to_owned).to_vec(),
            types: Vec::new(),
            rows: vec![
                row(["app", "learnt", "text", "-", "0123456789abcdef", "SELECT ?"]),
                row(["app", "listed", "whole", "-", "-", "DO 'x'"]),
                row(["app", "refused", "text", "-", "-", "DROP TABLE t"]),
                row(["app", "warned", "sha256", &hash, "-", "SELECT..."]),
            ],
        }
    }

    #[test]
    fn the_list_is_sorted_and_has_no_refused_statements_unless_they_are_wanted() {
        let args = |refused| StatementsExport {
            of: "app".to_owned(),
            address: String::new(),
            user: None,
            refused,
        };
        let hash = "ab".repeat(32);
        let expected = format!(
            "# Statements that this user may run (statement_policy), as `weir statements export` writes them.\nuser = \"app\"\n\
             \n[[statements]]\nwhole = \"DO 'x'\"\n\
             \n[[statements]]\ntext = \"SELECT ?\"\nfingerprint = \"0123456789abcdef\"\n\
             \n[[statements]]\ntext = \"SELECT...\"\nsha256 = \"{hash}\"\n"
        );
        assert_eq!(text(&args(false), &table()), expected);
        assert!(text(&args(true), &table()).contains("DROP TABLE t"));
    }
}
