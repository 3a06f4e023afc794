//! Rows of a view: values read, filtered and sorted.

use std::cmp::Ordering;

use regex::Regex;
use weir_proxy::blocking::Table;

use crate::arrange::Need;
use crate::cell::Cell;
use crate::columns::{Column, Direction, Scene, Sheet, Source};
use crate::data::field;
use crate::text;
use crate::view::View;

/// Maximum width of a column that is not flexible.
const WIDTH_MAX: usize = 24;
/// Maximum width of a flexible column.
const FLEXIBLE_MAX: usize = 400;

/// Condition on the text of a row.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    regex: Regex,
    is_inverted: bool,
}

/// Maximum size of a compiled filter, in bytes.
const FILTER_MAX: usize = 1 << 20;

impl Filter {
    /// Reads a regular expression without regard to case; `!` in front turns its meaning round.
    ///
    /// # Errors
    /// If the text is no regular expression.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (is_inverted, pattern) = match text.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, text),
        };
        let regex = regex::RegexBuilder::new(pattern)
            .case_insensitive(true)
            .size_limit(FILTER_MAX)
            .build();
        let regex = regex.map_err(|error| match error {
            regex::Error::Syntax(text) => {
                let last = text.lines().last().unwrap_or_default();
                last.trim_start_matches("error: ").to_owned()
            }
            error => error.to_string(),
        })?;
        Ok(Self { regex, is_inverted })
    }

    fn admits(&self, cells: &[Cell]) -> bool {
        let texts: Vec<_> = cells.iter().map(Cell::text).collect();
        self.regex.is_match(&texts.join(" ")) != self.is_inverted
    }
}

/// Choices that decide which rows are shown, and in which order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    /// Heading of the column to sort by, and the direction; `None` for the view's own.
    pub(crate) sort: Option<(&'static str, Direction)>,
    pub(crate) filter: Option<Filter>,
    pub(crate) hides_idle: bool,
}

/// Column of a grid.
#[derive(Debug, Clone)]
pub(crate) struct Heading {
    pub(crate) column: &'static Column,
    /// Text of the heading.
    pub(crate) text: &'static str,
    pub(crate) need: Need,
}

/// Row of a grid.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Names the row in every answer.
    pub(crate) key: String,
    pub(crate) cells: Vec<Cell>,
    /// Number of the row in its table.
    pub(crate) number: usize,
}

/// Rows and columns of a view.
#[derive(Clone)]
pub(crate) struct Grid {
    pub(crate) sheet: &'static Sheet,
    pub(crate) headings: Vec<Heading>,
    pub(crate) lines: Vec<Line>,
    /// Number of rows before filtering.
    pub(crate) total: usize,
    /// Heading of the column by which the rows are sorted, and the direction.
    pub(crate) sort: (&'static str, Direction),
}

impl Grid {
    /// Reads the rows of a view; `None` if no table is there for it.
    pub(crate) fn new(view: View, scene: Scene<'_>, choice: &Choice) -> Option<Self> {
        let sheet = view.sheet(scene.data)?;
        let table = (sheet.table)(scene.data)?;
        let columns = sheet.columns.iter();
        let columns: Vec<_> = columns
            .filter(|column| column.exists(scene, &table))
            .collect();
        let lines = lines(sheet, scene, &table, &columns, choice);
        let headings = columns.iter().enumerate().map(|(number, column)| {
            let text = match column.source {
                Source::Timed => scene.timed.name(),
                _ => column.heading,
            };
            heading(column, text, number, &lines)
        });
        let mut grid = Self {
            sheet,
            headings: headings.collect(),
            lines,
            total: table.rows.len(),
            sort: choice.sort.unwrap_or(sheet.sort),
        };
        grid.sort();
        Some(grid)
    }

    fn sort(&mut self) {
        let (heading, direction) = self.sort;
        let mut headings = self.headings.iter();
        let Some(place) = headings.position(|found| found.column.heading == heading) else {
            return;
        };
        self.lines.sort_by(|left, right| {
            let order = match (left.cells.get(place), right.cells.get(place)) {
                (Some(left), Some(right)) => left.compare(right),
                _ => Ordering::Equal,
            };
            let order = match direction {
                Direction::Rising => order,
                Direction::Falling => order.reverse(),
            };
            order.then_with(|| left.key.cmp(&right.key))
        });
    }

    /// Needs of all columns.
    pub(crate) fn needs(&self) -> Vec<Need> {
        self.headings.iter().map(|heading| heading.need).collect()
    }
}

fn lines(
    sheet: &Sheet,
    scene: Scene<'_>,
    table: &Table,
    columns: &[&'static Column],
    choice: &Choice,
) -> Vec<Line> {
    let readers = columns.iter();
    let readers: Vec<_> = readers
        .map(|column| column.reader(scene, table, sheet))
        .collect();
    let mut lines = Vec::new();
    for (number, row) in table.rows.iter().enumerate() {
        if choice.hides_idle && (sheet.is_idle)(table, row) {
            continue;
        }
        let cells = readers.iter().zip(columns);
        let cells: Vec<_> = cells
            .map(|(reader, column)| Cell::new(reader.value(row), column.format))
            .collect();
        let filter = choice.filter.as_ref();
        if filter.is_some_and(|filter| !filter.admits(&cells)) {
            continue;
        }
        let key = sheet.key.iter();
        let key: Vec<_> = key
            .map(|name| field(table, row, name).unwrap_or_default())
            .collect();
        let key = key.join("\0");
        lines.push(Line { key, cells, number });
    }
    lines
}

fn heading(column: &'static Column, text: &'static str, number: usize, lines: &[Line]) -> Heading {
    let cells = lines.iter().filter_map(|line| line.cells.get(number));
    let widest = cells.map(|cell| text::width(cell.text())).max();
    let limit = if column.is_flexible {
        FLEXIBLE_MAX
    } else {
        WIDTH_MAX
    };
    let width = widest.unwrap_or_default().min(limit).max(text::width(text));
    let need = Need {
        width,
        rank: column.rank,
        is_flexible: column.is_flexible,
    };
    Heading { column, text, need }
}
