//! Reads a client's next batch from its message headers, before a server is chosen for it.
//!
//! A batch is what a server answers with one ReadyForQuery: a Query, a FunctionCall, or messages of the extended
//! protocol up to a Sync. One scan per request for a server answers most that is asked about it: whether it is a LISTEN,
//! and whether it needs a new server. The scan reads nothing but the first message, and of its body only the text of a
//! statement. The end of the batch is looked for only if something depends on it.

use weir_wire::frame::{HEADER_LEN, Side, frame, header};
use weir_wire::frontend::{Parse, Query, tag};

use super::STREAM_MIN;

/// Beginning of a client's input, up to the end of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<'i> {
    /// Input that begins with the batch; other batches may follow.
    pub input: &'i [u8],
    /// First message.
    pub first: First<'i>,
}

/// Extent of a batch, as far as it has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes of the messages that have begun, up to the end of the batch. More than the input has if the last
    /// of them is incomplete.
    pub len: usize,
    /// Last message.
    pub end: End,
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
    /// Reads the first message of input that begins with one.
    #[inline]
    #[must_use]
    pub fn scan(input: &'i [u8]) -> Self {
        let first = match input.first() {
            Some(&tag @ (tag::QUERY | tag::PARSE)) => First::read(tag, input),
            _ => First::Other,
        };
        Self { input, first }
    }

    /// Reads the headers of all messages up to the end of the batch.
    #[must_use]
    pub fn extent(&self) -> Extent {
        let mut extent = Extent {
            len: 0,
            end: End::Open,
            only_prepares: true,
        };
        while extent.len <= STREAM_MIN {
            let rest = self.input.get(extent.len..).unwrap_or_default();
            let Ok(Some(header)) = header(rest, Side::Frontend) else {
                extent.only_prepares &= rest.len() < HEADER_LEN;
                return extent;
            };
            extent.len += header.total_len();
            match header.tag {
                tag::SYNC => {
                    extent.end = End::Sync;
                    return extent;
                }
                tag::QUERY | tag::FUNCTION_CALL => {
                    extent.only_prepares = false;
                    extent.end = End::Call;
                    return extent;
                }
                tag::CLOSE => {}
                tag::PARSE if rest.get(HEADER_LEN) != Some(&0) => {}
                _ => extent.only_prepares = false,
            }
        }
        extent.only_prepares = false;
        extent
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
    fn read(tag: u8, input: &'i [u8]) -> Self {
        let Ok(Some(message)) = frame(input, Side::Frontend) else {
            return Self::Other;
        };
        let read = match tag {
            tag::QUERY => (Query::parse(message.body).ok()).map(|query| Self::Query(query.sql)),
            _ => (Parse::parse(message.body).ok()).map(|parse| Self::Parse(parse.sql)),
        };
        read.unwrap_or(Self::Other)
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::say::say;

    use super::*;

    fn scan(input: &[u8]) -> (Batch<'_>, Extent) {
        let batch = Batch::scan(input);
        (batch, batch.extent())
    }

    #[test]
    fn only_a_complete_first_message_is_read() {
        let query = say().query("select 1");
        let parse = say().parse("s", "select 2").sync();
        let bind = say().run("s").query("select 3");
        assert_eq!(Batch::scan(&query).first, First::Query(b"select 1"));
        assert_eq!(Batch::scan(&parse).first, First::Parse(b"select 2"));
        assert_eq!(Batch::scan(&bind).first, First::Other);
        for cut in 0..query.len() {
            let batch = Batch::scan(query.get(..cut).unwrap());
            assert_eq!(batch.first, First::Other, "at {cut}");
        }
    }

    #[test]
    fn a_query_is_a_batch_of_its_own() {
        let (one, two) = (say().query("select 1"), say().query("select 1").sync());
        let (batch, extent) = scan(&two);
        assert_eq!((extent.len, extent.end), (one.len(), End::Call));
        assert_eq!(batch.first, First::Query(b"select 1"));
        assert!(!extent.only_prepares);
    }

    #[test]
    fn messages_of_the_extended_protocol_end_with_their_sync() {
        let one = || say().parse("s", "select 1").run("s").sync();
        let two = one().query("select 2");
        let (batch, extent) = scan(&two);
        assert_eq!((extent.len, extent.end), (one().len(), End::Sync));
        assert_eq!(batch.text(), Some(b"select 1".as_slice()));
        assert!(!extent.only_prepares);
    }

    #[test]
    fn a_query_without_a_sync_before_it_ends_the_batch_too() {
        let input = say().run("s").query("select 1").sync();
        let (batch, extent) = scan(&input);
        assert_eq!((extent.len + 5, extent.end), (input.len(), End::Call));
        assert_eq!(batch.text(), None);
    }

    #[test]
    fn named_statements_are_only_prepared_and_unnamed_ones_are_about_to_run() {
        let only_prepares = |input: &[u8]| scan(input).1.only_prepares;
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
            let (_, extent) = scan(whole.get(..cut).unwrap());
            // Five bytes tell a Sync.
            let is_known = cut == whole.len();
            assert_eq!(extent.end == End::Sync, is_known, "at {cut}");
            assert!(extent.len <= whole.len(), "at {cut}");
        }
    }

    #[test]
    fn bytes_that_are_no_message_and_distant_ends_leave_the_batch_open() {
        let mut input = say().parse("s", "select 1").to_vec();
        let len = input.len();
        input.extend_from_slice(b"\xff\0\0\0\x04");
        let (_, extent) = scan(&input);
        assert_eq!((extent.len, extent.end), (len, End::Open));
        assert!(!extent.only_prepares);
        let text = "x".repeat(STREAM_MIN);
        let batch = say().parse("s", &text).sync();
        let (_, extent) = scan(&batch);
        assert_eq!((extent.end, extent.only_prepares), (End::Open, false));
    }
}
