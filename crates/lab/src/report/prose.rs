//! Sentences whose numbers come from the data.
//!
//! A literal text has no digit in it; each number is a [`Part::Figure`] that keeps its value. So a test can read
//! every sentence of a report and check its numbers against the data.

use super::format::Style;

/// Text with figures in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Prose {
    /// Parts in reading order.
    pub(crate) parts: Vec<Part>,
}

/// Part of prose.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    /// Number, and its formatted text.
    Figure { value: f64, shown: String },
    /// Name, or other words from the data.
    Name(String),
    /// Literal text without numbers.
    Text(&'static str),
}

impl Prose {
    /// Starts with `text`.
    pub(crate) fn new(text: &'static str) -> Self {
        Self::default().text(text)
    }

    /// Creates prose from words of the data only.
    pub(crate) fn quote(words: &str) -> Self {
        Self::default().name(words)
    }

    /// Appends literal text.
    pub(crate) fn text(mut self, text: &'static str) -> Self {
        self.parts.push(Part::Text(text));
        self
    }

    /// Appends words of the data.
    pub(crate) fn name(mut self, name: &str) -> Self {
        self.parts.push(Part::Name(name.to_owned()));
        self
    }

    /// Appends a number.
    pub(crate) fn figure(mut self, style: Style, value: f64) -> Self {
        let shown = style.show(value);
        self.parts.push(Part::Figure { value, shown });
        self
    }

    /// Appends a count.
    pub(crate) fn count(self, count: usize) -> Self {
        self.figure(Style::Count, crate::statistics::float(count))
    }

    /// Appends other prose.
    pub(crate) fn then(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Joins pieces with `separator`.
    pub(crate) fn join(pieces: Vec<Self>, separator: &'static str) -> Self {
        let mut joined = Self::default();
        for (at, piece) in pieces.into_iter().enumerate() {
            if at > 0 {
                joined = joined.text(separator);
            }
            joined = joined.then(piece);
        }
        joined
    }

    /// Returns the plain text.
    pub(crate) fn plain(&self) -> String {
        let piece = |part: &Part| match part {
            Part::Figure { shown, .. } => shown.clone(),
            Part::Name(name) => name.clone(),
            Part::Text(text) => (*text).to_owned(),
        };
        self.parts.iter().map(piece).collect()
    }
}
