//! Columns of the views as data: where a value comes from, how it is shown, and which column goes first when there is no
//! room.

pub(crate) mod others;
pub(crate) mod pools;
pub(crate) mod sessions;
mod source;

use std::borrow::Cow;

use weir_proxy::blocking::Table;

pub(crate) use self::source::Scene;
use crate::cell::Format;
use crate::data::Data;
use crate::question::Question;

/// Origin of a column's values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// Time since the timestamp in this column.
    Age(&'static str),
    /// Number in this column, times a factor.
    Count(&'static str, f64),
    /// Text in the first of these columns that exists.
    Field(&'static [&'static str]),
    /// Value in a column of the row of another table that agrees in these pairs of columns, ours first.
    Joined {
        question: Question,
        on: &'static [(&'static str, &'static str)],
        field: &'static str,
    },
    /// Increase per second of this counter since the table before.
    Rate(&'static str),
    /// Increase per second of a counter of another table, as in `Joined`.
    RateOf {
        question: Question,
        on: (&'static str, &'static str),
        field: &'static str,
    },
    /// State of a server: that of its client, which says more, else its own.
    ServerState,
    /// Duration chosen by the key `t`.
    Timed,
    /// Wait in whole seconds and microseconds.
    Wait([&'static str; 2]),
}

/// Column of a view.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) heading: &'static str,
    pub(crate) source: Source,
    pub(crate) format: Format,
    /// Columns with the lowest rank keep their place in a narrow terminal.
    pub(crate) rank: u8,
    /// True if the column takes the room that is left.
    pub(crate) is_flexible: bool,
    /// Left out if the table has a column of this name, which says more.
    pub(crate) unless: Option<&'static str>,
}

impl Column {
    pub(crate) const fn new(
        heading: &'static str,
        source: Source,
        format: Format,
        rank: u8,
    ) -> Self {
        Self {
            heading,
            source,
            format,
            rank,
            is_flexible: false,
            unless: None,
        }
    }

    pub(crate) const fn flexible(self) -> Self {
        Self {
            is_flexible: true,
            ..self
        }
    }

    pub(crate) const fn unless(self, column: &'static str) -> Self {
        Self {
            unless: Some(column),
            ..self
        }
    }
}

/// Rank of columns that only the wide display shows.
pub(crate) const WIDE: u8 = 9;

/// Text in a column of its own name.
pub(crate) const fn text(
    heading: &'static str,
    fields: &'static [&'static str],
    rank: u8,
) -> Column {
    Column::new(heading, Source::Field(fields), Format::Text, rank)
}

/// Number in a column of the table.
pub(crate) const fn count(heading: &'static str, field: &'static str, rank: u8) -> Column {
    Column::new(heading, Source::Count(field, 1.0), Format::Count, rank)
}

/// Number that names something, in the first of these columns that exists.
pub(crate) const fn id(heading: &'static str, fields: &'static [&'static str], rank: u8) -> Column {
    Column::new(heading, Source::Field(fields), Format::Id, rank)
}

/// Duration in a column of the table, in microseconds.
pub(crate) const fn micros(heading: &'static str, field: &'static str, rank: u8) -> Column {
    Column::new(heading, Source::Count(field, 1.0), Format::Duration, rank)
}

/// Duration in a column of the table, in seconds.
pub(crate) const fn seconds(heading: &'static str, field: &'static str, rank: u8) -> Column {
    Column::new(heading, Source::Count(field, 1e6), Format::Duration, rank)
}

/// Increase per second of a counter in a column of the table.
pub(crate) const fn rate(heading: &'static str, field: &'static str, rank: u8) -> Column {
    Column::new(heading, Source::Rate(field), Format::Rate, rank)
}

/// Direction in which a view is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Falling,
    Rising,
}

impl Direction {
    pub(crate) const fn reversed(self) -> Self {
        match self {
            Self::Falling => Self::Rising,
            Self::Rising => Self::Falling,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Falling => "falling",
            Self::Rising => "rising",
        }
    }
}

/// A table of the console with the columns that a view makes of it.
pub(crate) struct Sheet {
    /// Table with the rows.
    pub(crate) table: fn(&Data) -> Option<Cow<'_, Table>>,
    /// Question that this table answers.
    pub(crate) question: Question,
    pub(crate) columns: &'static [Column],
    /// Columns of the table that name a row.
    pub(crate) key: &'static [&'static str],
    /// Heading of the column by which rows are sorted unless the user chooses, and the direction.
    pub(crate) sort: (&'static str, Direction),
    /// Words in the column `state` or `activity`, or an absence of clients, that make a row idle.
    pub(crate) is_idle: fn(&Table, &[Option<String>]) -> bool,
    /// Said in the heading of a table that stands in for a better one.
    pub(crate) note: &'static str,
    /// Sentence for a table without rows: why, and what to do.
    pub(crate) empty: &'static str,
}

/// Answer for tables without idle rows.
pub(crate) const fn never_idle(_: &Table, _: &[Option<String>]) -> bool {
    false
}
