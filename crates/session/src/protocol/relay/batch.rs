//! Reads a client's next batch from its message headers, before a server is chosen for it.
//!
//! A batch is what a server answers with one ReadyForQuery: a Query, a FunctionCall, or messages of the extended
//! protocol up to a Sync. One scan per request for a server answers all that is asked about it: whether it can be
//! answered without a server, whether it is a LISTEN, and whether it needs a new server. The scan reads nothing of a
//! body but the text of the first statement.

use weir_wire::frame::{HEADER_LEN, Side, header};
use weir_wire::frontend::{Parse, Query, tag};

use super::STREAM_MIN;

/// Beginning of a client's input, up to the end of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<'i> {
    /// Input that begins with the batch; other batches may follow.
    pub input: &'i [u8],
    /// Length in bytes of the messages that have begun, up to the end of the batch. More than the input has if the last
    /// of them is incomplete.
    pub len: usize,
    /// Last message.
    pub end: End,
    /// First message.
    pub first: First<'i>,
    /// True if all messages before the end are Close, or Parse of a named statement.
    pub only_prepares: bool,
}

/// End of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Unknown: it has not arrived, it is more than [`STREAM_MIN`] bytes away, or bytes before it are no message.
    Open,
    /// A Query or a FunctionCall, which may be incomplete.
    Call,
    /// A Sync.
    Sync,
}

/// First message of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First<'i> {
    /// A complete Query with this text.
    Query(&'i [u8]),
    /// A complete Parse with this text.
    Parse(&'i [u8]),
    /// Another message, an incomplete or an invalid one.
    Other,
}

impl<'i> Batch<'i> {
    /// Scans input that begins with a message.
    #[inline]
    #[must_use]
    pub fn scan(input: &'i [u8]) -> Self {
        let mut batch = Self {
            input,
            len: 0,
            end: End::Open,
            first: First::Other,
            only_prepares: true,
        };
        while batch.len <= STREAM_MIN {
            let rest = input.get(batch.len..).unwrap_or_default();
            let Ok(Some(header)) = header(rest, Side::Frontend) else {
                batch.only_prepares &= rest.len() < HEADER_LEN;
                return batch;
            };
            let total = header.total_len();
            if batch.len == 0 {
                batch.first = First::read(header.tag, rest.get(HEADER_LEN..total));
            }
            batch.len += total;
            match header.tag {
                tag::SYNC => {
                    batch.end = End::Sync;
                    return batch;
                }
                tag::QUERY | tag::FUNCTION_CALL => {
                    batch.only_prepares = false;
                    batch.end = End::Call;
                    return batch;
                }
                tag::CLOSE => {}
                tag::PARSE if rest.get(HEADER_LEN) != Some(&0) => {}
                _ => batch.only_prepares = false,
            }
        }
        batch.only_prepares = false;
        batch
    }

    /// Returns the text of the first statement if the first message is a complete Query or Parse.
    #[inline]
    #[must_use]
    pub fn text(&self) -> Option<&'i [u8]> {
        match self.first {
            First::Query(text) | First::Parse(text) => Some(text),
            First::Other => None,
        }
    }
}

impl<'i> First<'i> {
    #[inline]
    fn read(tag: u8, body: Option<&'i [u8]>) -> Self {
        let read = match (tag, body) {
            (tag::QUERY, Some(body)) => Query::parse(body).ok().map(|query| Self::Query(query.sql)),
            (tag::PARSE, Some(body)) => Parse::parse(body).ok().map(|parse| Self::Parse(parse.sql)),
            _ => None,
        };
        read.unwrap_or(Self::Other)
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::say::say;

    use super::*;

    #[test]
    fn a_query_is_a_batch_of_its_own() {
        let (one, two) = (say().query("select 1"), say().query("select 1").sync());
        let batch = Batch::scan(&two);
        assert_eq!((batch.len, batch.end), (one.len(), End::Call));
        assert_eq!(batch.first, First::Query(b"select 1"));
        assert!(!batch.only_prepares);
    }

    #[test]
    fn messages_of_the_extended_protocol_end_with_their_sync() {
        let one = || say().parse("s", "select 1").run("s").sync();
        let two = one().query("select 2");
        let batch = Batch::scan(&two);
        assert_eq!((batch.len, batch.end), (one().len(), End::Sync));
        assert_eq!(batch.text(), Some(b"select 1".as_slice()));
        assert!(!batch.only_prepares);
    }

    #[test]
    fn a_query_without_a_sync_before_it_ends_the_batch_too() {
        let input = say().run("s").query("select 1").sync();
        let batch = Batch::scan(&input);
        assert_eq!((batch.len + 5, batch.end), (input.len(), End::Call));
        assert_eq!(batch.text(), None);
    }

    #[test]
    fn named_statements_are_only_prepared_and_unnamed_ones_are_about_to_run() {
        let only_prepares = |input: &[u8]| Batch::scan(input).only_prepares;
        let named = || say().parse("s", "select 1").close_statement("t");
        assert!(only_prepares(&named()));
        assert!(only_prepares(&named().sync()));
        assert!(only_prepares(&named().sync().query("select 1")));
        assert!(!only_prepares(&named().query("select 1")));
        assert!(!only_prepares(&named().run("s").sync()));
        assert!(!only_prepares(&say().parse("", "select 1").sync()));
    }

    #[test]
    fn whatever_part_has_arrived_is_scanned_without_a_wrong_end() {
        let whole = say().parse("s", "select 1").run("s").sync();
        for cut in 0..whole.len() {
            let batch = Batch::scan(whole.get(..cut).unwrap());
            // Five bytes tell a Sync.
            let is_known = cut == whole.len();
            assert_eq!(batch.end == End::Sync, is_known, "at {cut}");
            assert!(batch.len <= whole.len(), "at {cut}");
        }
    }

    #[test]
    fn bytes_that_are_no_message_and_distant_ends_leave_the_batch_open() {
        let mut input = say().parse("s", "select 1").to_vec();
        let len = input.len();
        input.extend_from_slice(b"\xff\0\0\0\x04");
        let batch = Batch::scan(&input);
        assert_eq!((batch.len, batch.end), (len, End::Open));
        assert!(!batch.only_prepares);
        let text = "x".repeat(STREAM_MIN);
        let batch = say().parse("s", &text).sync();
        let batch = Batch::scan(&batch);
        assert_eq!((batch.end, batch.only_prepares), (End::Open, false));
    }
}
