//! Place in each view: the chosen row, the order, and the filter.

use std::collections::BTreeMap;

use super::Display;
use crate::columns::Direction;
use crate::grid::{Choice, Filter, Line};
use crate::view::View;

/// Lines of the terminal that are not rows of the table: header, headings, and the last line.
pub(crate) const LINES_AROUND: usize = 8;

/// Place in a view.
#[derive(Debug, Clone, Default)]
pub(crate) struct Position {
    /// Number of the chosen row.
    pub(crate) row: usize,
    /// Key of the chosen row, which is looked for in each new answer.
    key: Option<String>,
    /// Number of the first row on the screen.
    pub(crate) top: usize,
    /// Number of the first column on a wide display.
    pub(crate) column: usize,
    /// Text of the filter.
    pub(crate) filter: Option<String>,
    /// Order chosen by the user.
    pub(crate) sort: Option<(&'static str, Direction)>,
}

impl Position {
    pub(super) fn choice(&self, display: Display) -> Choice {
        let filter = self.filter.as_deref();
        Choice {
            sort: self.sort,
            filter: filter.and_then(|text| Filter::parse(text).ok()),
            hides_idle: display.hides_idle,
        }
    }

    /// Finds the chosen row among new rows, and keeps it on a screen of this height.
    pub(super) fn follow(&mut self, lines: &[Line], height: usize) {
        let key = self.key.as_deref();
        let found = key.and_then(|key| lines.iter().position(|line| line.key == key));
        self.row = found.unwrap_or(self.row).min(lines.len().saturating_sub(1));
        self.scroll(lines.len(), height);
    }

    /// Chooses another row.
    pub(super) fn choose(&mut self, row: usize, lines: &[Line]) {
        self.row = row.min(lines.len().saturating_sub(1));
        // The first row is no choice: whatever is first stays chosen.
        let line = lines.get(self.row).filter(|_| self.row > 0);
        self.key = line.map(|line| line.key.clone());
    }

    fn scroll(&mut self, count: usize, height: usize) {
        let height = height.max(1);
        self.top = self.top.min(count.saturating_sub(height)).min(self.row);
        self.top = self.top.max((self.row + 1).saturating_sub(height));
    }
}

/// Places in all views.
#[derive(Debug, Default)]
pub(super) struct Positions(BTreeMap<View, Position>);

impl Positions {
    pub(super) fn of(&mut self, view: View) -> &mut Position {
        self.0.entry(view).or_default()
    }

    pub(super) fn get(&self, view: View) -> Position {
        self.0.get(&view).cloned().unwrap_or_default()
    }
}
