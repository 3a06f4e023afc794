//! Sentences whose numbers come from the data.
//!
//! A literal text has no digit in it; each number is a [`Part::Figure`] that keeps the value it was made from. So a
//! test can read every sentence of a report and hold its numbers against the data.

use super::format::Style;

/// Some text with figures in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Prose {
    /// In reading order.
    pub(crate) parts: Vec<Part>,
}

/// A piece of prose.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    /// A number, and how it is written.
    Figure { value: f64, shown: String },
    /// A name, or words that somebody wrote into the data.
    Name(String),
    /// Ours, without numbers.
    Text(&'static str),
}

impl Prose {
    /// Begins with `text`.
    pub(crate) fn new(text: &'static str) -> Self {
        Self::default().text(text)
    }

    /// Words of the data alone.
    pub(crate) fn quote(words: &str) -> Self {
        Self::default().name(words)
    }

    /// Goes on with words of ours.
    pub(crate) fn text(mut self, text: &'static str) -> Self {
        self.parts.push(Part::Text(text));
        self
    }

    /// Goes on with words of the data.
    pub(crate) fn name(mut self, name: &str) -> Self {
        self.parts.push(Part::Name(name.to_owned()));
        self
    }

    /// Goes on with a number.
    pub(crate) fn figure(mut self, style: Style, value: f64) -> Self {
        let shown = style.show(value);
        self.parts.push(Part::Figure { value, shown });
        self
    }

    /// Goes on with a count.
    pub(crate) fn count(self, count: usize) -> Self {
        self.figure(Style::Count, crate::statistics::float(count))
    }

    /// Goes on with other prose.
    pub(crate) fn then(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Joins several with `separator`.
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

    /// As plain text.
    pub(crate) fn plain(&self) -> String {
        let piece = |part: &Part| match part {
            Part::Figure { shown, .. } => shown.clone(),
            Part::Name(name) => name.clone(),
            Part::Text(text) => (*text).to_owned(),
        };
        self.parts.iter().map(piece).collect()
    }
}
