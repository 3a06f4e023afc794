//! Statements that a query rule mirrors: a copy of the request, and what the client's own answer was like.
//!
//! The copy is made when the request is sent, and is complete when the reply is. Nothing is held back for it.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use weir_rules::{Mirroring, Wish};
use weir_wire::before_nul;
use weir_wire::frame::HEADER_LEN;

pub use crate::counted::rows_of;

/// Longest request that is copied, in bytes.
const REQUEST_MAX: usize = 64 * 1024;

/// Longest row that is compared, in bytes of its body. Both sides of a comparison leave out what is longer.
pub const ROW_MAX: usize = 64 * 1024;

/// A request that runs one text or statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Text of a simple query.
    Simple(Box<[u8]>),
    /// Statement with its values.
    Bound {
        /// The statement's text, a NUL, and the types of its parameters as in a Parse.
        definition: Box<[u8]>,
        /// True if the client has given the statement a name.
        is_named: bool,
        /// Formats and values as in a Bind, behind the names.
        values: Box<[u8]>,
    },
}

impl Request {
    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        match self {
            Self::Simple(text) => text,
            Self::Bound { definition, .. } => before_nul(definition),
        }
    }

    /// Returns the length of what was copied, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Simple(text) => text.len(),
            Self::Bound {
                definition, values, ..
            } => definition.len() + values.len(),
        }
    }

    /// True if nothing was copied.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Outcome of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of rows, or of rows changed, of all statements of the request.
    pub rows: u64,
    /// Sum of the hashes of the rows in any order; `None` if the rows were not summed up.
    pub sum: Option<u64>,
    /// SQLSTATE of the first error.
    pub code: Option<[u8; 5]>,
    /// True if the client fetched a part of the rows.
    pub is_partial: bool,
    /// Time from the request, or from the end of the statement before, to the end of this one.
    pub took: Duration,
}

/// A request to be sent to another database too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirrored {
    /// The rule, and what it asks for.
    pub wish: Wish<Arc<Mirroring>>,
    /// The request; `None` if it was too long to be copied.
    pub request: Option<Request>,
    /// Outcome that the client was told.
    pub outcome: Outcome,
}

/// A request on its way, with what asks for its copy.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) wish: Wish<Arc<Mirroring>>,
    pub(crate) request: Option<Request>,
    pub(crate) is_partial: bool,
}

impl Copied {
    /// Copies a simple query.
    pub(crate) fn simple(wish: Wish<Arc<Mirroring>>, text: &[u8], is_whole: bool) -> Self {
        let fits = is_whole && text.len() <= REQUEST_MAX;
        Self {
            wish,
            request: fits.then(|| Request::Simple(text.into())),
            is_partial: false,
        }
    }

    /// Copies a statement with its values.
    pub(crate) fn bound(
        wish: Wish<Arc<Mirroring>>,
        (definition, is_named): (&[u8], bool),
        (values, is_whole): (&[u8], bool),
    ) -> Self {
        let len = definition.len() + values.len();
        let fits = is_whole && len <= REQUEST_MAX && !definition.is_empty();
        Self {
            wish,
            request: fits.then(|| Request::Bound {
                definition: definition.into(),
                is_named,
                values: values.into(),
            }),
            is_partial: false,
        }
    }
}

/// Returns the hash of a row by its DataRow body.
#[must_use]
pub fn row_hash(body: &[u8]) -> u64 {
    FixedState::default().hash_one(body)
}

/// Sum over the rows of a reply.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    rows: u64,
    sum: u64,
    /// True if a row could not be summed up.
    is_incomplete: bool,
    /// Beginning of a row that has come in parts, and the length of the rest.
    part: Vec<u8>,
    missing: usize,
}

impl Tally {
    /// Adds the rows of a CommandComplete.
    pub(crate) fn complete(&mut self, tag: &[u8]) {
        self.rows += rows_of(tag);
    }

    /// Adds a DataRow of this length with its header, of whose body this is here.
    pub(crate) fn row(&mut self, total: usize, body: &[u8]) {
        let len = total.saturating_sub(HEADER_LEN);
        if len > ROW_MAX {
            self.is_incomplete = true;
        } else if body.len() == len {
            self.sum = self.sum.wrapping_add(row_hash(body));
        } else {
            self.part.clear();
            self.part.extend_from_slice(body);
            self.missing = len - body.len();
        }
    }

    /// Adds what has come of the rest of a DataRow.
    pub(crate) fn rest(&mut self, bytes: &[u8]) {
        if self.missing == 0 {
            return;
        }
        let bytes = bytes.get(..self.missing).unwrap_or(bytes);
        self.part.extend_from_slice(bytes);
        self.missing -= bytes.len();
        if self.missing == 0 {
            self.sum = self.sum.wrapping_add(row_hash(&self.part));
            self.part.clear();
        }
    }

    /// Returns the outcome of the request that has ended.
    pub(crate) fn outcome(self, copy: &Copied, code: Option<[u8; 5]>, took: Duration) -> Outcome {
        let is_summed = copy.wish.value.compares_rows && !self.is_incomplete;
        Outcome {
            rows: self.rows,
            sum: is_summed.then_some(self.sum),
            code,
            is_partial: copy.is_partial,
            took,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy() -> Copied {
        let value = Arc::new(Mirroring {
            database: "next".into(),
            compares_rows: true,
            writes: false,
            connections: 1,
        });
        let rule = "m".into();
        Copied::simple(Wish { rule, value }, b"SELECT 1", true)
    }

    fn sum(rows: &[&[u8]], split: usize) -> Option<u64> {
        let mut tally = Tally::default();
        for row in rows {
            let (here, rest) = row.split_at(split.min(row.len()));
            tally.row(row.len() + HEADER_LEN, here);
            for byte in rest.chunks(1) {
                tally.rest(byte);
            }
        }
        tally.outcome(&copy(), None, Duration::ZERO).sum
    }

    #[test]
    fn rows_have_one_sum_in_any_order_and_in_any_parts() {
        let rows: [&[u8]; 3] = [b"one", b"two", b""];
        let whole = sum(&rows, 9);
        assert_eq!(whole, sum(&[b"", b"two", b"one"], 9));
        assert_eq!(whole, sum(&rows, 1));
        assert_eq!(whole, sum(&rows, 0));
        assert_ne!(whole, sum(&[b"one", b"two"], 9));
        assert_ne!(whole, sum(&[b"one", b"twO", b""], 9));
    }

    #[test]
    fn what_is_too_long_is_neither_copied_nor_compared() {
        let long = vec![b'x'; ROW_MAX + 1];
        assert_eq!(sum(&[&long], usize::MAX), None);
        let wish = copy().wish;
        assert_eq!(Copied::simple(wish.clone(), &long, true).request, None);
        assert_eq!(Copied::simple(wish.clone(), b"SELECT", false).request, None);
        let bound = Copied::bound(wish, (b"SELECT 1\0\0\0", true), (b"\0\0", true));
        assert_eq!(
            bound.request.map(|it| it.text().to_vec()),
            Some(b"SELECT 1".to_vec())
        );
    }

    #[test]
    fn rows_of_all_statements_are_counted() {
        let mut tally = Tally::default();
        tally.complete(b"SELECT 3\0");
        tally.complete(b"INSERT 0 2\0");
        let outcome = tally.outcome(&copy(), Some(*b"22012"), Duration::ZERO);
        assert_eq!((outcome.rows, outcome.code), (5, Some(*b"22012")));
    }
}
