//! Text tables, readable both in a terminal and as Markdown.

use std::fmt::Write as _;

/// Rows of cells under a header. Every row has as many cells as the header.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table without rows.
    #[must_use]
    pub fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(|&cell| cell.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the number of cells differs from the header's, which is a defect of the caller.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(
            cells.len(),
            self.header.len(),
            "a row has one cell per column"
        );
        self.rows.push(cells);
    }

    /// Formats Markdown with padded columns; all but the first are aligned right.
    #[must_use]
    pub fn markdown(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        write_row(&mut text, &self.header, &widths);
        for (column, width) in widths.iter().enumerate() {
            let (left, right) = if column == 0 { ("", "") } else { ("", ":") };
            let dashes = "-".repeat(width + 2 - left.len() - right.len());
            let _ = write!(text, "|{left}{dashes}{right}");
        }
        text.push_str("|\n");
        for row in &self.rows {
            write_row(&mut text, row, &widths);
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.header.len()];
        for row in self.rows.iter().chain([&self.header]) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

fn write_row(text: &mut String, cells: &[String], widths: &[usize]) {
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        // `write!` to a String cannot fail.
        let _ = if column == 0 {
            write!(text, "| {cell:<width$} ")
        } else {
            write!(text, "| {cell:>width$} ")
        };
    }
    text.push_str("|\n");
}

/// Draws `value` of `full` as a bar of at most `width` character cells, in eighths of a cell.
#[must_use]
pub fn bar(value: f64, full: f64, width: u32) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if full.is_nan() || full <= 0.0 || !value.is_finite() {
        return String::new();
    }
    let parts = (value / full).clamp(0.0, 1.0) * f64::from(width) * 8.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to width * 8"
    )]
    let parts = parts.round() as usize;
    let rest = EIGHTHS.get(parts % 8).copied().unwrap_or_default();
    format!("{}{rest}", "█".repeat(parts / 8))
}

/// Formats `1234567.8` as `1,234,568`.
#[must_use]
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digit.is_ascii_digit() {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_stand_right() {
        let mut table = Table::new(&["who", "n"]);
        table.row(vec!["a".to_owned(), "1".to_owned()]);
        table.row(vec!["bb".to_owned(), "12,345".to_owned()]);
        let expected = "\
| who |      n |
|-----|-------:|
| a   |      1 |
| bb  | 12,345 |
";
        assert_eq!(table.markdown(), expected);
    }

    #[test]
    fn bars_are_cut_in_eighths() {
        assert_eq!(bar(1.0, 2.0, 4), "██");
        assert_eq!(bar(5.0, 16.0, 2), "▋");
        assert_eq!(bar(3.0, 2.0, 2), "██");
        assert_eq!(bar(1.0, 0.0, 2), "");
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(thousands(999.4), "999");
        assert_eq!(thousands(1_234_567.8), "1,234,568");
    }
}
