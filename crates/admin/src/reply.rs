//! Puts together the messages of one answer.

use weir_wire::backend::TransactionStatus;
use weir_wire::encode::{self, Column, EncodeError, ErrorReport, Severity};
use weir_wire::sqlstate::SqlState;

use crate::show::{Heading, Row};

/// Whole messages, in the order of the calls.
#[derive(Default)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
}

impl Reply {
    /// Adds a result: its columns and rows, and the tag of SHOW.
    pub(crate) fn table(mut self, headings: &[Heading], rows: &[Row]) -> Self {
        let columns: Vec<_> = headings
            .iter()
            .map(|heading| Column {
                name: heading.name,
                type_oid: heading.kind.oid(),
                type_len: heading.kind.len(),
            })
            .collect();
        self.put(|buf| encode::row_description(buf, &columns));
        for row in rows {
            debug_assert_eq!(row.len(), headings.len(), "a value for each column");
            let values: Vec<_> = row
                .iter()
                .map(|value| value.as_deref().map(str::as_bytes))
                .collect();
            self.put(|buf| encode::data_row(buf, &values));
        }
        self.complete("SHOW")
    }

    /// Adds CommandComplete.
    pub(crate) fn complete(mut self, tag: &str) -> Self {
        self.put(|buf| encode::command_complete(buf, tag.as_bytes()));
        self
    }

    /// Adds EmptyQueryResponse.
    pub(crate) fn empty(mut self) -> Self {
        self.put(encode::empty_query_response);
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

    /// What cannot be encoded (a value of a gigabyte) is left out; the stream of messages stays in step.
    fn put(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) {
        let result = encode(&mut self.bytes);
        debug_assert_eq!(result, Ok(()), "texts are free of NUL and short");
    }
}
