//! Output for pipes: the table of a view as text, or the tables of several views as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use jiff::tz::TimeZone;
use serde_json::{Map, Value};
use weir_proxy::blocking::Table;

use crate::clock::Clock;
use crate::columns::{Scene, WIDE};
use crate::console::{Connect, Lost};
use crate::data::Data;
use crate::grid::{Choice, Grid};
use crate::question::Question;
use crate::screen;
use crate::state::Timed;
use crate::text;
use crate::view::{HEADER, View};

/// Output to print once.
#[derive(Debug, Clone)]
pub enum Once {
    /// Tables of these views as one JSON object.
    Json(Vec<View>),
    /// Table of a view for people.
    Table(View),
}

/// Reason why nothing can be printed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnceError {
    /// No connection could be made.
    #[error("{0}")]
    Connect(Lost),
    /// The connection was lost.
    #[error("{0}")]
    Lost(Lost),
    /// The pooler has no table for the view.
    #[error("{0}")]
    Refused(String),
}

/// Asks the console once and returns the text to print.
///
/// # Errors
/// If the console does not answer, or has no table for the view.
pub fn once(connect: &impl Connect, what: &Once) -> Result<String, OnceError> {
    let mut console = connect.connect().map_err(OnceError::Connect)?;
    let views = match what {
        Once::Json(views) => views.as_slice(),
        Once::Table(view) => std::slice::from_ref(view),
    };
    let mut questions = HEADER.to_vec();
    for question in views.iter().flat_map(|view| view.questions()) {
        if !questions.contains(question) {
            questions.push(*question);
        }
    }
    let at = Clock::start().now();
    let mut data = Data::default();
    for question in &questions {
        let reply = console.ask(question.sql()).map_err(OnceError::Lost)?;
        data.add(at, vec![(*question, reply.map(Arc::new))]);
    }
    match what {
        Once::Json(_) => Ok(json(&data, &questions)),
        Once::Table(view) => {
            let zone = TimeZone::system();
            let scene = Scene {
                data: &data,
                wall: at.wall,
                zone: &zone,
                timed: Timed::default(),
                has_rates: false,
            };
            match Grid::new(*view, scene, &Choice::default()) {
                Some(grid) if grid.lines.is_empty() => Ok(format!("{}\n", grid.sheet.empty)),
                Some(grid) => Ok(plain(&grid)),
                None => Err(OnceError::Refused(screen::missing(*view, &data))),
            }
        }
    }
}

/// Returns a grid with aligned columns, as wide as they are.
pub(crate) fn plain(grid: &Grid) -> String {
    let headings = grid.headings.iter().enumerate();
    let shown: Vec<_> = headings
        .filter(|(_, heading)| heading.column.rank < WIDE)
        .collect();
    let mut out = String::new();
    let mut line = |values: Vec<&str>| {
        let mut text = String::new();
        for (value, (_, heading)) in values.into_iter().zip(&shown) {
            let side = heading.column.format.side();
            let gap = if text.is_empty() { "" } else { "  " };
            text = text + gap + &text::fitted(value, heading.need.width, side);
        }
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(shown.iter().map(|(_, heading)| heading.text).collect());
    for row in &grid.lines {
        let cells = shown.iter().map(|(number, _)| row.cells.get(*number));
        line(
            cells
                .map(|cell| cell.map_or("", |cell| cell.text()))
                .collect(),
        );
    }
    out
}

/// Returns the tables, and the messages of those that were refused.
fn json(data: &Data, questions: &[Question]) -> String {
    let mut tables = Map::new();
    let mut refused = Map::new();
    for question in questions {
        let name = question.name().to_owned();
        if let Some(table) = data.table(*question) {
            tables.insert(name, rows(table));
        } else if let Some(message) = data.refusal(*question) {
            refused.insert(name, message.into());
        }
    }
    let parts = BTreeMap::from([
        ("refused", Value::Object(refused)),
        ("tables", Value::Object(tables)),
    ]);
    let parts = parts
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    escaped(&format!("{:#}\n", Value::Object(parts.collect())))
}

/// Writes control characters that JSON allows in texts as escapes: a terminal might obey them.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_control() && character != '\n' {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    out
}

fn rows(table: &Table) -> Value {
    let object = |row: &Vec<Option<String>>| {
        let types = table.types.iter().map(Some).chain(std::iter::repeat(None));
        let pairs = table.columns.iter().zip(types).zip(row);
        let pairs = pairs.map(|((column, oid), value)| {
            let value = value.as_deref();
            let value = value.map_or(Value::Null, |value| typed(oid.copied(), value));
            (column.clone(), value)
        });
        Value::Object(pairs.collect())
    };
    table.rows.iter().map(object).collect()
}

/// Value as a number if its type in PostgreSQL is one.
fn typed(oid: Option<u32>, value: &str) -> Value {
    /// int8, int2, int4, oid, float4, float8 and numeric in pg_type.
    const NUMBERS: [u32; 7] = [20, 21, 23, 26, 700, 701, 1700];
    if !oid.is_some_and(|oid| NUMBERS.contains(&oid)) {
        return value.into();
    }
    let integer = value.parse::<i64>().map(Value::from);
    let number = integer.or_else(|_| value.parse::<f64>().map(Value::from));
    number.unwrap_or_else(|_| value.into())
}

#[cfg(test)]
mod tests;
