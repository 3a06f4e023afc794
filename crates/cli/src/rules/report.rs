//! Counts as a table, CSV or JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use weir_config::QueryRule;
use weir_proxy::blocking::Table;
use weir_rules::ALWAYS;

use super::tally::{Count, Tally};
use crate::args::{Format, InputKind};
use crate::digests::csv;

/// Stand in place of a rule's name, which has no parentheses.
const UNMET: &str = "(no rule)";
const UNDECIDED: &str = "(undecided)";

/// Columns of CSV and JSON.
const COLUMNS: [&str; 8] = [
    "rule",
    "place",
    "action",
    "statements",
    "calls",
    "server_us",
    "notes",
    "examples",
];

/// Row of the output.
struct Row {
    rule: String,
    place: String,
    action: String,
    /// `None` if the input cannot decide.
    statements: Option<u64>,
    calls: Option<u64>,
    server_us: Option<u64>,
    notes: Vec<String>,
    examples: Vec<String>,
}

/// Figure of a row, with its heading.
type Figure = (&'static str, fn(&Row) -> Option<u64>);

/// Returns the counts as text.
pub(super) fn text(tally: &Tally<'_>, format: Format) -> String {
    let mut rows = Vec::with_capacity(tally.rules.len() + 2);
    // Of the rules that rewrite, and of the others.
    let (mut is_open, mut has_undecided) = ([false; 2], false);
    for (rule, count) in tally.rules.iter().zip(&tally.counts) {
        let mut row = of_rule(tally, rule, count);
        let [others, rewrites] = &mut is_open;
        let is_open = if rule.rule.rewrites() {
            rewrites
        } else {
            others
        };
        if *is_open && row.statements.is_some_and(|count| count > 0) {
            let why = "at most: an earlier rule could not be decided";
            row.notes.push(why.to_owned());
        }
        has_undecided |= row.statements.is_none();
        *is_open |= row.statements.is_none() && tally.decides(rule);
        rows.push(row);
    }
    let mut unmet = row(tally, UNMET, &tally.unmet);
    if has_undecided && tally.unmet.statements > 0 {
        let why = "at most: a rule could not be decided";
        unmet.notes.push(why.to_owned());
    }
    rows.push(unmet);
    if tally.undecided.statements > 0 {
        let mut undecided = row(tally, UNDECIDED, &tally.undecided);
        let why = "the digests do not have the whole statement, so rules may meet it or not";
        undecided.notes.push(why.to_owned());
        rows.push(undecided);
    }
    match format {
        Format::Table => aligned(&rows),
        Format::Csv => csv(&table(rows)),
        Format::Json => json(rows),
    }
}

fn of_rule(tally: &Tally<'_>, rule: &QueryRule, count: &Count) -> Row {
    let mut found = row(tally, &rule.rule.name, count);
    found.place = rule.at.to_string();
    found.action = rule.summary();
    found.notes = notes(tally, rule);
    if !tally.undecidable(rule).is_empty() {
        (found.statements, found.calls, found.server_us) = (None, None, None);
    }
    found
}

fn row(tally: &Tally<'_>, name: &str, count: &Count) -> Row {
    // A line of a log is one call.
    let has_calls = tally.kind == InputKind::Digests;
    Row {
        rule: name.to_owned(),
        place: String::new(),
        action: String::new(),
        statements: Some(count.statements),
        calls: has_calls.then_some(count.calls),
        server_us: tally.has_times.then_some(count.server_us),
        notes: Vec::new(),
        examples: count.examples.clone(),
    }
}

/// Says what to know about the count of a rule.
fn notes(tally: &Tally<'_>, rule: &QueryRule) -> Vec<String> {
    let mut notes = Vec::new();
    let undecidable = tally.undecidable(rule);
    if !undecidable.is_empty() {
        notes.push(format!(
            "cannot be decided from digests: {}",
            undecidable.join(", ")
        ));
    }
    let assumed = tally.assumed(rule);
    if !assumed.is_empty() {
        notes.push(format!("taken as met: {}", assumed.join(", ")));
    }
    if tally.has_ended(rule) {
        notes.push("has ended (expires)".to_owned());
    }
    if rule.rule.sample < ALWAYS {
        let percent = f64::from(rule.rule.sample) * 100.0 / f64::from(ALWAYS);
        notes.push(format!("in force for {percent}% of these (sample)"));
    }
    notes
}

fn table(rows: Vec<Row>) -> Table {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let rows = rows.into_iter().map(|row| {
        vec![
            Some(row.rule),
            Some(row.place),
            Some(row.action),
            number(row.statements),
            number(row.calls),
            number(row.server_us),
            Some(row.notes.join("; ")),
            Some(row.examples.join("\n")),
        ]
    });
    Table {
        columns: COLUMNS.map(str::to_owned).to_vec(),
        types: Vec::new(),
        rows: rows.collect(),
    }
}

fn json(rows: Vec<Row>) -> String {
    let rows = rows.into_iter().map(|row| {
        json!({
            "rule": row.rule,
            "place": row.place,
            "action": row.action,
            "statements": row.statements,
            "calls": row.calls,
            "server_us": row.server_us,
            "notes": row.notes,
            "examples": row.examples,
        })
    });
    format!("{:#}\n", Value::Array(rows.collect()))
}

/// Writes a table for people, with the examples of each rule below it. Columns that no row has are left out.
fn aligned(rows: &[Row]) -> String {
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let column = |name: &'static str, value: &dyn Fn(&Row) -> String| {
        let values: Vec<String> = rows.iter().map(value).collect();
        let widest = values.iter().map(|value| value.chars().count()).max();
        (name, widest.unwrap_or_default().max(name.len()), values)
    };
    let mut columns = vec![
        column("rule", &|row| row.rule.clone()),
        column("action", &|row| row.action.clone()),
    ];
    let figures: [Figure; 3] = [
        ("statements", |row| row.statements),
        ("calls", |row| row.calls),
        ("server_us", |row| row.server_us),
    ];
    for (name, figure) in figures {
        if rows.iter().any(|row| figure(row).is_some()) {
            columns.push(column(name, &|row| number(figure(row))));
        }
    }
    columns.push(column("notes", &|row| row.notes.join("; ")));
    let mut out = String::new();
    let mut line = |at: Option<usize>| {
        let mut text = String::new();
        for (name, width, values) in &columns {
            let value = at.map_or(*name, |at| values.get(at).map_or("", String::as_str));
            // Writing to a String cannot fail.
            let _ = match *name {
                "notes" => write!(text, "{value}"),
                "rule" | "action" => write!(text, "{value:<width$}  "),
                _ => write!(text, "{value:>width$}  "),
            };
        }
        let _ = writeln!(out, "{}", text.trim_end());
        let examples = at.and_then(|at| rows.get(at)).map(|row| &row.examples);
        for example in examples.into_iter().flatten() {
            let _ = writeln!(out, "    {example}");
        }
    };
    line(None);
    (0..rows.len()).for_each(|at| line(Some(at)));
    out
}

#[cfg(test)]
mod tests;
