//! `weir route explain`: tells of each statement in a file where it would run, and why. A running Weir is asked by its
//! console; with `--config` alone the configuration decides, without knowledge of the database.

mod split;

use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use std::{fs, io};

use weir_command::exit::{Exit, complain, print};
use weir_config::PoolSettings;
use weir_proxy::console::RouteAnswer;

use self::split::Statement;
pub(crate) use self::split::split;
use crate::args::RouteExplain;
use crate::console::{ADDRESS, Console};
use crate::load::Source;

/// Maximum number of characters of a statement in the table.
const SHOWN_MAX: usize = 60;

/// Row of the table.
struct Line {
    line: usize,
    verdict: String,
    reason: String,
    statement: String,
}

/// Prints the table for the file that the arguments name.
pub(crate) fn explain(args: &RouteExplain) -> Exit {
    let text = match read(&args.file) {
        Ok(text) => text,
        Err(error) => {
            complain(format_args!("{}: {error}", args.file.display()));
            return Exit::Start;
        }
    };
    let statements = match split(&text) {
        Ok(statements) => statements,
        Err(mistake) => {
            complain(format_args!(
                "{}:{}: {}",
                args.file.display(),
                mistake.line,
                mistake.fault
            ));
            return Exit::Config;
        }
    };
    match &args.config {
        Some(config) => offline(args, config, &statements),
        None => online(args, &statements),
    }
}

fn read(file: &Path) -> io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text)?;
        return Ok(text);
    }
    fs::read_to_string(file)
}

/// Asks a running Weir.
fn online(args: &RouteExplain, statements: &[Statement<'_>]) -> Exit {
    let address = args.connect.as_deref().unwrap_or(ADDRESS);
    let mut console = match Console::connect(address, args.user.as_deref(), "weir route") {
        Ok(console) => console,
        Err(error) => {
            complain(format_args!("console of Weir at {address}: {error}"));
            complain("with --config FILE the configuration alone decides, without a running Weir");
            return Exit::Start;
        }
    };
    let database = args.database.as_deref().map(quoted);
    let database = database.map_or_else(String::new, |name| format!("FOR {name} "));
    let mut lines = Vec::new();
    let mut exit = Exit::Ok;
    for statement in statements {
        match console.ask(&format!("EXPLAIN ROUTE {database}{}", statement.text)) {
            Ok(Ok(rows)) => {
                let item = |name: &str| {
                    let mut rows = rows.iter();
                    let row = rows.find(|row| row.first().is_some_and(|item| item == name));
                    row.and_then(|row| row.get(1)).cloned().unwrap_or_default()
                };
                lines.push(line(statement, item("verdict"), item("reason")));
            }
            Ok(Err(error)) => {
                complain(format_args!(
                    "{}:{}: {error}",
                    args.file.display(),
                    statement.line
                ));
                exit = Exit::Config;
            }
            Err(error) => {
                complain(format_args!("console of Weir at {address}: {error}"));
                exit = Exit::Failed;
                break;
            }
        }
    }
    print(&table(&lines));
    exit
}

/// Decides by the configuration alone.
fn offline(args: &RouteExplain, config: &Path, statements: &[Statement<'_>]) -> Exit {
    let loaded = Source::choose(Some(config), None).map(|source| source.config());
    let settings = match loaded {
        Some(Ok(loaded)) => loaded.settings,
        Some(Err(errors)) => {
            errors.iter().for_each(complain);
            return Exit::Config;
        }
        None => return Exit::Config,
    };
    let routed = |name: &str| {
        let pool = settings.pool(name, "");
        pool.filter(|pool| pool.cluster.is_some())
    };
    let pool: Option<PoolSettings> = match &args.database {
        Some(name) => routed(name),
        None => {
            let mut pools = settings.databases.keys().filter_map(|name| routed(name));
            pools.next().filter(|_| pools.next().is_none())
        }
    };
    let Some(pool) = pool else {
        complain("name a database that has replicas: --database NAME");
        return Exit::Config;
    };
    complain(
        "note: offline, so functions, views and unlogged tables of the database are not known, \
         and one primary and one replica are assumed that take everything",
    );
    let lines: Vec<_> = statements
        .iter()
        .filter_map(|statement| {
            let answer: RouteAnswer =
                weir_proxy::explain_route_offline(&pool, statement.text.as_bytes())?;
            Some(line(statement, answer.verdict.to_owned(), answer.reason))
        })
        .collect();
    print(&table(&lines));
    Exit::Ok
}

fn line(statement: &Statement<'_>, verdict: String, reason: String) -> Line {
    let words: Vec<_> = statement.text.split_whitespace().collect();
    let mut shown: String = words.join(" ");
    if let Some((end, _)) = shown.char_indices().nth(SHOWN_MAX) {
        shown.truncate(end);
        shown.push('…');
    }
    Line {
        line: statement.line,
        verdict,
        reason,
        statement: shown,
    }
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the table as text, with a line for each statement.
fn table(lines: &[Line]) -> String {
    let width = |of: fn(&Line) -> usize, heading: &str| {
        let widest = lines.iter().map(of).max();
        widest.unwrap_or_default().max(heading.len())
    };
    let statements = width(|line| line.statement.chars().count(), "statement");
    let verdicts = width(|line| line.verdict.chars().count(), "where");
    let mut out = String::new();
    let mut row = |line: &str, statement: &str, verdict: &str, reason: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{line:>5}  {statement:<statements$}  {verdict:<verdicts$}  {reason}"
        );
    };
    row("line", "statement", "where", "why");
    for line in lines {
        row(
            &line.line.to_string(),
            &line.statement,
            &line.verdict,
            &line.reason,
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_short() {
        let long = format!("SELECT\n  {}", "a".repeat(100));
        let statement = |line, text| Statement { line, text };
        let lines = [
            line(&statement(1, &long), "replica".into(), "reads".into()),
            line(
                &statement(12, "BEGIN"),
                "primary".into(),
                "may write".into(),
            ),
        ];
        let text = table(&lines);
        let rows: Vec<_> = text.lines().collect();
        assert_eq!(rows.len(), 3);
        let column = |row: &str, word: &str| {
            row.split_once(word)
                .map(|(before, _)| before.chars().count())
        };
        assert_eq!(column(rows[1], "replica"), column(rows[2], "primary"));
        assert_eq!(column(rows[0], "where"), column(rows[2], "primary"));
        assert!(rows[1].contains("SELECT aaa") && rows[1].contains('…'));
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted("my \"shop\""), "\"my \"\"shop\"\"\"");
    }
}
