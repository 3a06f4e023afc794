//! `weir digests`: the statements that a running Weir has seen, as a table, CSV or JSON.

use std::fmt::Write;

use serde_json::{Map, Value};
use weir_command::exit::{self, Exit, complain};
use weir_proxy::blocking::Table;

use crate::args::{Digests, Format};
use crate::console::Console;
use crate::route::quoted;

/// Columns of the table for people.
const SHOWN: [&str; 9] = [
    "database",
    "calls",
    "errors",
    "rows",
    "server_us",
    "avg_us",
    "p99_us",
    "fingerprint",
    "statement",
];

/// Column that keeps its length at the end of a line, up to this many characters.
const LAST_MAX: usize = 100;

/// Columns that are no numbers.
const TEXTS: [&str; 7] = [
    "database",
    "user",
    "fingerprint",
    "first_seen",
    "last_seen",
    "last_error",
    "statement",
];

/// Prints the statements.
pub(crate) fn print(args: &Digests) -> Exit {
    let told = |error: &dyn std::fmt::Display| {
        complain(format_args!("console of Weir at {}: {error}", args.address))
    };
    let mut console = match Console::connect(&args.address, args.user.as_deref(), "weir digests") {
        Ok(console) => console,
        Err(error) => {
            told(&error);
            return Exit::Start;
        }
    };
    match console.ask_table(&question(args)) {
        Ok(Ok(table)) => {
            exit::print(&text(&table, args.format));
            Exit::Ok
        }
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

fn question(args: &Digests) -> String {
    let mut question = "SHOW DIGESTS".to_owned();
    if let Some(database) = &args.database {
        question += &format!(" FOR {}", quoted(database));
        if let Some(user) = &args.of {
            question += &format!("/{}", quoted(user));
        }
    }
    question + &format!(" ORDER BY {} LIMIT {}", quoted(&args.order_by), args.limit)
}

fn text(table: &Table, format: Format) -> String {
    match format {
        Format::Table => aligned(table),
        Format::Csv => csv(table),
        Format::Json => json(table),
    }
}

/// Writes a table with all columns as CSV.
pub(crate) fn csv(table: &Table) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory cannot fail, and all rows are of one length.
    let _ = writer.write_record(&table.columns);
    for row in &table.rows {
        let _ = writer.write_record(row.iter().map(|value| value.as_deref().unwrap_or_default()));
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

fn json(table: &Table) -> String {
    let object = |row: &Vec<Option<String>>| {
        let pairs = table.columns.iter().zip(row);
        let pairs = pairs.map(|(column, value)| (column.clone(), typed(column, value.as_deref())));
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    let rows = table.rows.iter().map(object).collect();
    format!("{:#}\n", Value::Array(rows))
}

/// Value of a column: a number, a text, or null.
fn typed(column: &str, value: Option<&str>) -> Value {
    let Some(value) = value else {
        return Value::Null;
    };
    match value.parse::<u64>() {
        Ok(number) if !TEXTS.contains(&column) => number.into(),
        _ => value.into(),
    }
}

fn aligned(table: &Table) -> String {
    let place = |name: &&str| table.columns.iter().position(|column| column == name);
    let shown: Vec<(&str, usize)> = SHOWN
        .iter()
        .filter_map(|name| Some((*name, place(name)?)))
        .collect();
    let value = |row: &[Option<String>], place: usize| {
        let value = row.get(place).cloned().flatten().unwrap_or_default();
        let line: Vec<_> = value.split_whitespace().collect();
        line.join(" ")
    };
    let width = |(name, place): &(&str, usize)| {
        let values = table
            .rows
            .iter()
            .map(|row| value(row, *place).chars().count());
        values.max().unwrap_or_default().max(name.len())
    };
    let widths: Vec<usize> = shown.iter().map(width).collect();
    let mut out = String::new();
    let mut line = |values: Vec<String>| {
        let mut text = String::new();
        for ((value, (name, _)), width) in values.iter().zip(&shown).zip(&widths) {
            // Writing to a String cannot fail.
            let _ = match *name {
                "statement" => write!(text, "{}", short(value)),
                name if TEXTS.contains(&name) => write!(text, "{value:<width$}  "),
                _ => write!(text, "{value:>width$}  "),
            };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(shown.iter().map(|(name, _)| (*name).to_owned()).collect());
    for row in &table.rows {
        line(shown.iter().map(|(_, place)| value(row, *place)).collect());
    }
    out
}

fn short(value: &str) -> String {
    match value.char_indices().nth(LAST_MAX) {
        Some((end, _)) => format!("{}…", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [
            "database",
            "fingerprint",
            "calls",
            "server_us",
            "last_error",
            "statement",
        ];
        let row = |values: [Option<&str>; 6]| values.map(|value| value.map(str::to_owned)).to_vec();
        Table {
            columns: columns.map(str::to_owned).to_vec(),
            types: Vec::new(),
            rows: vec![
                row([
                    Some("shop"),
                    Some("0123456789012345"),
                    Some("12"),
                    Some("3400"),
                    None,
                    Some("SELECT \"a\",\n b"),
                ]),
                row([
                    None,
                    None,
                    Some("3"),
                    Some("5"),
                    Some("22012"),
                    Some("(others)"),
                ]),
            ],
        }
    }

    #[test]
    fn people_get_aligned_columns() {
        let text = text(&table(), Format::Table);
        let expected = "\
database  calls  server_us  fingerprint       statement
shop         12       3400  0123456789012345  SELECT \"a\", b
              3          5                    (others)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn csv_quotes_what_has_to_be_quoted() {
        let text = text(&table(), Format::Csv);
        let expected = "\
database,fingerprint,calls,server_us,last_error,statement
shop,0123456789012345,12,3400,,\"SELECT \"\"a\"\",\n b\"
,,3,5,22012,(others)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn json_has_numbers_texts_and_nulls() {
        let value: Value = serde_json::from_str(&text(&table(), Format::Json)).unwrap();
        assert_eq!(value[0]["calls"], 12);
        assert_eq!(value[0]["fingerprint"], "0123456789012345");
        assert_eq!(value[1]["last_error"], "22012");
        assert_eq!(value[1]["database"], Value::Null);
    }
}
