//! A value in a table: its text, and its place among others.

use std::cmp::Ordering;

use crate::{format, text};

/// Unit of a column, which decides on text, alignment and order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Bytes,
    Count,
    /// Microseconds.
    Duration,
    /// Number or address that names something: never rounded, and sorted as a number.
    Id,
    /// Events per second.
    Rate,
    /// `critical`, `warning` or `info`.
    Severity,
    Text,
}

impl Format {
    /// Side on which values of this format end.
    pub(crate) const fn side(self) -> text::Side {
        match self {
            Self::Severity | Self::Text => text::Side::Left,
            Self::Bytes | Self::Count | Self::Duration | Self::Id | Self::Rate => text::Side::Right,
        }
    }
}

/// Value of a column in a row before it is formatted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Number(f64),
    Text(String),
    /// Not known, or not to be had in this row.
    Unknown,
}

impl Value {
    /// Reads a number; what is none stays a text.
    pub(crate) fn number(value: Option<&str>) -> Self {
        match value {
            None | Some("") => Self::Unknown,
            Some(value) => value
                .parse()
                .map_or_else(|_| Self::Text(value.to_owned()), Self::Number),
        }
    }

    pub(crate) fn text(value: Option<&str>) -> Self {
        match value {
            None | Some("") => Self::Unknown,
            Some(value) => Self::Text(value.to_owned()),
        }
    }

    /// Multiplies a number by this factor.
    pub(crate) fn times(self, factor: f64) -> Self {
        match self {
            Self::Number(number) => Self::Number(number * factor),
            other => other,
        }
    }
}

/// Value with the text that is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    value: Value,
    /// Safe for a terminal.
    text: String,
    /// Rank among severities; 0 for everything else.
    rank: u8,
}

impl Cell {
    pub(crate) fn new(value: Value, unit: Format) -> Self {
        let text = match (&value, unit) {
            (Value::Unknown, _) => "-".to_owned(),
            (Value::Text(text), _) => text::clean(text),
            (Value::Number(number), Format::Bytes) => format::bytes(*number),
            (Value::Number(number), Format::Duration) => format::duration(*number),
            (Value::Number(number), Format::Id) => format!("{number:.0}"),
            (Value::Number(number), Format::Rate) => format::rate(*number),
            (Value::Number(number), Format::Count | Format::Severity | Format::Text) => {
                format::count(*number)
            }
        };
        let rank = match unit {
            Format::Severity => severity_rank(&text),
            _ => 0,
        };
        Self { value, text, rank }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Order by value; the unknown comes first.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let place = |value: &Value| match value {
            Value::Unknown => 0,
            Value::Number(_) => 1,
            Value::Text(_) => 2,
        };
        self.rank
            .cmp(&other.rank)
            .then_with(|| match (&self.value, &other.value) {
                (Value::Number(left), Value::Number(right)) => left.total_cmp(right),
                (Value::Text(left), Value::Text(right)) => left.cmp(right),
                (left, right) => place(left).cmp(&place(right)),
            })
    }
}

/// Rank of a severity, the worst the highest; 0 for other words.
pub(crate) fn severity_rank(word: &str) -> u8 {
    match word {
        "critical" => 3,
        "warning" => 2,
        "info" => 1,
        _ => 0,
    }
}
