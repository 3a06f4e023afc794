//! Tables as a page shows them: chosen columns, filtered, sorted and in words. HTML and stream are made from the result, so
//! that they cannot differ.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::format::Unit;
use crate::pages::{self, Page, View};
use crate::source::{Kind, Role, Table};

/// Maximum number of rows of a table on a page.
pub(crate) const ROWS_MAX: usize = 500;
/// Maximum number of bytes of a text in a cell.
const TEXT_MAX: usize = 2_000;

/// State of a page, as its URL has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Query {
    /// Text that rows must contain, in any case; with `!` in front, must not.
    pub(crate) q: String,
    /// Table and column, as `CLIENTS.-wait`.
    pub(crate) sort: String,
    /// Window of charts in seconds.
    pub(crate) window: String,
    pub(crate) database: String,
    pub(crate) user: String,
    /// Page of a stream.
    pub(crate) page: String,
}

/// Cell of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    #[serde(rename = "t")]
    pub(crate) text: String,
    /// Path that the text leads to.
    #[serde(rename = "h", skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<String>,
    /// Name of the shape and colour in front of the text.
    #[serde(rename = "w", skip_serializing_if = "Option::is_none")]
    pub(crate) mark: Option<&'static str>,
    /// True if a button copies the text.
    #[serde(rename = "y", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_copied: bool,
}

/// Heading of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Head {
    pub(crate) name: String,
    pub(crate) is_number: bool,
    /// `ascending` or `descending`, if rows are sorted by the column.
    pub(crate) sorted: Option<&'static str>,
}

/// Table as it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) heads: Vec<Head>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Number of rows before the limit.
    pub(crate) total: usize,
    /// Text in place of rows, or about rows that are left out.
    pub(crate) note: String,
}

/// Column of a view: its place in the table, or the link to an action.
struct Chosen {
    at: usize,
}

/// Reader of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) role: Role,
    /// True if the reader may act.
    pub(crate) acts: bool,
}

/// Makes a table for a page.
pub(crate) fn show(
    view: &View,
    page: &Page,
    table: &Table,
    query: &Query,
    reader: Reader,
) -> Shown {
    let chosen = choose(view, table);
    let sort = sort_of(view, query);
    let mut rows: Vec<&Vec<Option<String>>> = table.rows.iter().collect();
    if view.table == pages::POOLS {
        // The console's own pool has no servers.
        let database = table.column("database");
        rows.retain(|row| value(row, database) != Some("pgbouncer"));
    }
    if view.is_of_pool && page.is_of_pool {
        let (database, user) = (table.column("database"), table.column("user"));
        rows.retain(|row| {
            value(row, database) == Some(query.database.as_str())
                && value(row, user) == Some(query.user.as_str())
        });
    }
    let all = rows.len();
    rows.retain(|row| fits(row, &query.q));
    if let Some((column, is_down)) = sort
        && let Some(at) = table.column(column)
    {
        rows.sort_by(|a, b| {
            let order = compare(table, at, a, b);
            if is_down { order.reverse() } else { order }
        });
    }
    let total = rows.len();
    rows.truncate(ROWS_MAX);
    let act = acts(view, reader);
    let mut heads: Vec<Head> = chosen
        .iter()
        .map(|column| head(table, column, sort))
        .collect();
    if act.is_some() {
        heads.push(Head {
            name: "action".to_owned(),
            is_number: false,
            sorted: None,
        });
    }
    let rows = rows.into_iter().map(|row| {
        let mut cells: Vec<Cell> = chosen
            .iter()
            .map(|column| cell(view, table, row, column.at, reader.role))
            .collect();
        cells.extend(act.map(|act| act(table, row)));
        cells
    });
    Shown {
        heads,
        rows: rows.collect(),
        total,
        note: note(view, page, all, total),
    }
}

/// Stands for a table that there is not.
pub(crate) fn missing(text: String) -> Shown {
    Shown {
        note: text,
        ..Shown::default()
    }
}

fn note(view: &View, page: &Page, all: usize, total: usize) -> String {
    match (all, total) {
        (0, _) if view.is_of_pool && page.is_of_pool => "None in this pool.".to_owned(),
        (0, _) => view.empty.to_owned(),
        (_, 0) => format!("None of {all} rows fits the filter."),
        _ if total > ROWS_MAX => {
            format!("The first {ROWS_MAX} of {total} rows; filter for others.")
        }
        _ => String::new(),
    }
}

fn choose(view: &View, table: &Table) -> Vec<Chosen> {
    let places = (0..table.columns.len()).map(|at| Chosen { at });
    match view.columns {
        [] => places.collect(),
        names => {
            let places = names.iter().filter_map(|name| table.column(name));
            places.map(|at| Chosen { at }).collect()
        }
    }
}

/// Returns the column by which a view is sorted, and true if downwards.
pub(crate) fn sort_of<'q>(view: &View, query: &'q Query) -> Option<(&'q str, bool)> {
    let own = query.sort.split_once('.');
    let own = own
        .filter(|(table, _)| *table == view.table)
        .map(|(_, column)| column);
    let column: &'q str = own.unwrap_or(view.sort);
    match column.strip_prefix('-') {
        Some(column) => Some((column, true)),
        None if column.is_empty() => None,
        None => Some((column, false)),
    }
}

fn head(table: &Table, column: &Chosen, sort: Option<(&str, bool)>) -> Head {
    let (name, kind) = table
        .columns
        .get(column.at)
        .map_or((String::new(), Kind::Text), |column| {
            (column.name.clone(), column.kind)
        });
    let sorted = sort.filter(|(by, _)| *by == name);
    Head {
        is_number: kind == Kind::Number,
        sorted: sorted.map(|(_, is_down)| if is_down { "descending" } else { "ascending" }),
        name,
    }
}

fn value(row: &[Option<String>], at: Option<usize>) -> Option<&str> {
    row.get(at?)?.as_deref()
}

fn fits(row: &[Option<String>], filter: &str) -> bool {
    let (wanted, is_inverted) = match filter.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (filter, false),
    };
    if wanted.is_empty() {
        return true;
    }
    let wanted = wanted.to_lowercase();
    let mut texts = row.iter().flatten();
    texts.any(|text| text.to_lowercase().contains(&wanted)) != is_inverted
}

/// Returns the number of a cell. `wait` and `maxwait` are whole seconds, with the microseconds in a column of their own.
fn number(table: &Table, row: &[Option<String>], at: usize) -> Option<f64> {
    let column = table.columns.get(at)?;
    let whole: f64 = row.get(at)?.as_deref()?.parse().ok()?;
    let rest = match column.name.as_str() {
        "maxwait" => table.column("maxwait_us"),
        "wait" => table.column("wait_us"),
        _ => None,
    };
    let rest: f64 = value(row, rest)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.0);
    Some(whole + rest / 1e6)
}

fn compare(table: &Table, at: usize, a: &[Option<String>], b: &[Option<String>]) -> Ordering {
    let is_number = table.columns.get(at).map(|column| column.kind) == Some(Kind::Number);
    if is_number {
        // NULL is less than every number.
        let of = |row| number(table, row, at).unwrap_or(f64::NEG_INFINITY);
        return of(a).total_cmp(&of(b));
    }
    value(a, Some(at)).cmp(&value(b, Some(at)))
}

fn cell(view: &View, table: &Table, row: &[Option<String>], at: usize, role: Role) -> Cell {
    let Some(column) = table.columns.get(at) else {
        return Cell::default();
    };
    let name = column.name.as_str();
    let raw = value(row, Some(at)).filter(|text| !text.is_empty());
    if pages::is_secret(name, role) && raw.is_some() {
        return Cell {
            text: "(for administrators)".to_owned(),
            ..Cell::default()
        };
    }
    let shown = match column.kind {
        Kind::Number if is_identity(name) => None,
        Kind::Number => number(table, row, at).map(|number| Unit::of(name).show(number)),
        Kind::Text => None,
    };
    let text = shown
        .or_else(|| raw.map(cut))
        .unwrap_or_else(|| "-".to_owned());
    Cell {
        link: raw.and_then(|raw| link(view, table, row, name, raw)),
        mark: raw.and_then(|raw| mark(name, raw)),
        is_copied: raw.is_some() && is_copied(name),
        text,
    }
}

/// True for numbers that name something.
fn is_identity(column: &str) -> bool {
    matches!(
        column,
        "id" | "oldest_id" | "port" | "remote_pid" | "server_pid"
    )
}

fn is_copied(column: &str) -> bool {
    matches!(
        column,
        "command" | "fingerprint" | "id" | "oldest_id" | "remote_pid" | "server_pid"
    )
}

fn cut(text: &str) -> String {
    let mut ends = (0..=TEXT_MAX.min(text.len())).rev();
    let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let (head, rest) = text.split_at(end);
    if rest.is_empty() {
        head.to_owned()
    } else {
        format!("{head}...")
    }
}

/// Returns the name of the shape for a word.
fn mark(column: &str, word: &str) -> Option<&'static str> {
    let is_state = matches!(
        column,
        "activity"
            | "cl_waiting"
            | "paused"
            | "percent"
            | "severity"
            | "state"
            | "role"
            | "violation"
    );
    if !is_state {
        return None;
    }
    match (column, word) {
        ("cl_waiting" | "paused", "0") | ("percent", _)
            if word.parse::<u32>().unwrap_or(0) < 80 =>
        {
            None
        }
        ("cl_waiting" | "paused" | "percent", _) => Some("warning"),
        ("violation", _) => Some("critical"),
        (_, "critical" | "down") => Some("critical"),
        (_, "warning" | "waiting" | "suspect" | "dry") => Some("warning"),
        (_, "info") => Some("info"),
        (_, "active" | "up" | "primary" | "live" | "query") => Some("good"),
        _ => Some("quiet"),
    }
}

/// Returns the page that tells more about a value.
fn link(
    view: &View,
    table: &Table,
    row: &[Option<String>],
    column: &str,
    raw: &str,
) -> Option<String> {
    match column {
        "database" | "user" if table.column("user").is_some() && view.table != "DATABASES" => {
            let database = value(row, table.column("database"))?;
            let user = value(row, table.column("user"))?;
            Some(format!(
                "/pool?database={}&user={}",
                encoded(database),
                encoded(user)
            ))
        }
        "application_name" | "oldest_application" | "application" => {
            Some(format!("/clients?q={}", encoded(raw)))
        }
        "oldest_id" => Some(format!("/clients?q={}", encoded(raw))),
        _ => None,
    }
}

type Act = fn(&Table, &[Option<String>]) -> Cell;

/// Returns the links to actions on the rows of a view.
fn acts(view: &View, reader: Reader) -> Option<Act> {
    if !reader.acts {
        return None;
    }
    let act: Act = match view.table {
        "CLIENTS" => |table, row| {
            let id = value(row, table.column("id")).unwrap_or_default();
            confirm("End", "kill_client", id)
        },
        "DATABASES" => |table, row| {
            let name = value(row, table.column("name")).unwrap_or_default();
            match value(row, table.column("paused")) {
                _ if name == "pgbouncer" => Cell::default(),
                Some("0") => confirm("Pause", "pause", name),
                _ => confirm("Resume", "resume", name),
            }
        },
        "RULES" => |table, row| {
            let name = value(row, table.column("name")).unwrap_or_default();
            match value(row, table.column("state")) {
                Some("dry") => confirm("Turn on", "rule_on", name),
                _ => confirm("Turn off", "rule_off", name),
            }
        },
        _ => return None,
    };
    Some(act)
}

fn confirm(label: &str, action: &str, target: &str) -> Cell {
    Cell {
        text: label.to_owned(),
        link: Some(format!(
            "/confirm?action={action}&target={}",
            encoded(target)
        )),
        ..Cell::default()
    }
}

/// Encodes a value of a URL's query.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                use std::fmt::Write as _;
                // Writing to a String cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
