//! Builder for the messages of one answer.

use weir_wire::backend::TransactionStatus;
use weir_wire::encode::{self, Column, EncodeError, ErrorReport, Format, Severity};
use weir_wire::sqlstate::SqlState;

use crate::show::{Heading, Row};

/// Formats in which columns are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Formats {
    /// All columns in the same format.
    All(Format),
    /// A format per column.
    Each(Vec<Format>),
}

impl Formats {
    /// Format for simple queries.
    pub(crate) const TEXT: Self = Self::All(Format::Text);

    fn of(&self, column: usize) -> Format {
        match self {
            Self::All(format) => *format,
            Self::Each(formats) => formats.get(column).copied().unwrap_or(Format::Text),
        }
    }
}

/// Complete messages, in the order of the calls.
#[derive(Default)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
}

impl Reply {
    /// Adds the columns of a result.
    pub(crate) fn headings(mut self, headings: &[Heading], formats: &Formats) -> Self {
        let columns: Vec<_> = headings
            .iter()
            .map(|heading| Column {
                name: heading.name,
                type_oid: heading.kind.oid(),
                type_len: heading.kind.len(),
            })
            .collect();
        self.put(|buf| encode::row_description_in(buf, &columns, |at| formats.of(at)));
        self
    }

    /// Adds rows of a result.
    pub(crate) fn rows<'a>(
        mut self,
        headings: &[Heading],
        rows: impl IntoIterator<Item = &'a Row>,
        formats: &Formats,
    ) -> Self {
        for row in rows {
            debug_assert_eq!(row.len(), headings.len(), "a value for each column");
            let binary: Vec<_> = row
                .iter()
                .zip(headings)
                .enumerate()
                .map(|(at, (value, heading))| match (formats.of(at), value) {
                    (Format::Binary, Some(value)) => Some(heading.kind.binary(value)),
                    _ => None,
                })
                .collect();
            let values: Vec<_> = row
                .iter()
                .zip(&binary)
                .map(|(text, binary)| match binary {
                    Some(binary) => Some(binary.as_slice()),
                    None => text.as_deref().map(str::as_bytes),
                })
                .collect();
            self.put(|buf| encode::data_row(buf, &values));
        }
        self
    }

    /// Adds CommandComplete.
    pub(crate) fn complete(mut self, tag: &str) -> Self {
        self.put(|buf| encode::command_complete(buf, tag.as_bytes()));
        self
    }

    /// Adds a message without content, such as EmptyQueryResponse.
    pub(crate) fn bare(mut self, encode: fn(&mut Vec<u8>) -> Result<(), EncodeError>) -> Self {
        self.put(encode);
        self
    }

    /// Adds an error that ends the statement.
    pub(crate) fn error(self, code: SqlState, message: &str) -> Self {
        self.report(ErrorReport::new(Severity::Error, code, message))
    }

    /// Adds an error or a notice, by its severity.
    pub(crate) fn report(mut self, report: ErrorReport<'_>) -> Self {
        match report.severity {
            Severity::Error | Severity::Fatal | Severity::Panic => {
                self.put(|buf| report.encode(buf));
            }
            _ => self.put(|buf| report.encode_notice(buf)),
        }
        self
    }

    /// Ends the answer; the console is never in a transaction.
    pub(crate) fn ready(mut self) -> Vec<u8> {
        self.put(|buf| encode::ready_for_query(buf, TransactionStatus::Idle));
        self.bytes
    }

    /// The messages without ReadyForQuery.
    pub(crate) fn unfinished(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends a message. A message that cannot be encoded (a value of a gigabyte) is left out, so the
    /// stream stays valid.
    fn put(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) {
        let result = encode(&mut self.bytes);
        debug_assert_eq!(result, Ok(()), "texts are free of NUL and short");
    }
}
