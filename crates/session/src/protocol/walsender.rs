//! Relay of a replication connection: all bytes pass unchanged, in both directions, as they arrive.
//!
//! A physical walsender parses only replication commands, so nothing may be added, removed or asked on such a connection.
//! The relay reads the five bytes of each header and, of bodies, only the status in ReadyForQuery. From these it knows
//! where a message ends, if a request is under way, and if the client has sent Terminate ([why a relay of its
//! own](../../../../docs/internals/decisions/replication.md)).

use weir_wire::backend::{TransactionStatus, tag};
use weir_wire::frame::{HEADER_LEN, Side, header};
use weir_wire::frontend;

use crate::relay::{ClientFault, ServerFault};

/// Both directions of a replication connection.
///
/// ```text
///  client ──from_client()──► server      Query: one more reply is owed
///  client ◄──from_server()── server      CopyBothResponse: streaming, until ReadyForQuery: a reply less is owed
/// ```
#[derive(Debug)]
pub struct Walsender {
    client: Messages,
    server: Messages,
    /// Number of ReadyForQuery messages that the server owes.
    owed: u64,
    status: TransactionStatus,
    /// True while data flows in both directions.
    is_streaming: bool,
    /// True once the client has sent Terminate.
    is_terminated: bool,
    /// Maximum length in bytes of a message (`max_packet_size`).
    message_max: usize,
}

/// Bytes from a client that go to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Number of bytes to pass on. Bytes behind a Terminate are not passed on.
    pub len: usize,
    /// True if the last of them are a Terminate.
    pub terminates: bool,
}

/// Counts of what a server has sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answered {
    /// Number of ErrorResponses.
    pub errors: u32,
    /// Number of requests that were answered completely.
    pub queries: u32,
    /// Number of requests after which no transaction was open.
    pub transactions: u32,
}

impl Walsender {
    /// Starts the relay between a client and a server that have both logged in.
    #[must_use]
    pub fn new(message_max: u32) -> Self {
        Self {
            client: Messages::new(Side::Frontend),
            server: Messages::new(Side::Backend),
            owed: 0,
            status: TransactionStatus::Idle,
            is_streaming: false,
            is_terminated: false,
            message_max: usize::try_from(message_max).unwrap_or(usize::MAX),
        }
    }

    /// Reads bytes from the client, which go to the server as they are.
    ///
    /// # Errors
    /// Fails on a header that PostgreSQL would not accept either, and on a message longer than `max_packet_size`.
    pub fn from_client(&mut self, input: &[u8]) -> Result<Sent, ClientFault> {
        let mut at = 0;
        while at < input.len() && !self.is_terminated {
            let (end, part) = self.client.next(input, at)?;
            at = end;
            let Part::Header { tag, total } = part else {
                continue;
            };
            if total > self.message_max {
                return Err(ClientFault::TooLong(total));
            }
            match tag {
                frontend::tag::QUERY | frontend::tag::FUNCTION_CALL | frontend::tag::SYNC => {
                    self.owed += 1;
                }
                frontend::tag::TERMINATE => self.is_terminated = true,
                _ => {}
            }
        }
        Ok(Sent {
            len: at,
            terminates: self.is_terminated,
        })
    }

    /// Reads bytes from the server, which go to the client as they are.
    ///
    /// # Errors
    /// Fails on a header that PostgreSQL does not send, and on a message longer than `max_packet_size`.
    pub fn from_server(&mut self, input: &[u8]) -> Result<Answered, ServerFault> {
        let mut answered = Answered::default();
        let mut at = 0;
        while at < input.len() {
            let (end, part) = self.server.next(input, at)?;
            let body = input.get(at..end).unwrap_or_default();
            at = end;
            match part {
                Part::Header { total, .. } if total > self.message_max => {
                    return Err(ServerFault::TooLong(total));
                }
                Part::Header { tag, .. } => match tag {
                    tag::COPY_BOTH_RESPONSE => self.is_streaming = true,
                    tag::ERROR_RESPONSE => {
                        self.is_streaming = false;
                        answered.errors += 1;
                    }
                    _ => {}
                },
                Part::Body(tag::READY_FOR_QUERY) => self.ready(body, &mut answered),
                Part::Body(_) | Part::Incomplete => {}
            }
        }
        Ok(answered)
    }

    fn ready(&mut self, body: &[u8], answered: &mut Answered) {
        let [status] = body else {
            return;
        };
        self.status = match status {
            b'T' => TransactionStatus::InTransaction,
            b'E' => TransactionStatus::Failed,
            _ => TransactionStatus::Idle,
        };
        self.is_streaming = false;
        self.owed = self.owed.saturating_sub(1);
        answered.queries += 1;
        answered.transactions += u32::from(self.status == TransactionStatus::Idle);
    }

    /// True if a request is under way, such as a stream.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.owed > 0 || self.is_mid_request()
    }

    /// True if nothing is under way and no transaction is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.is_busy() && self.status == TransactionStatus::Idle
    }

    /// True while data flows in both directions.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        self.is_streaming
    }

    /// True if the client has sent Terminate.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.is_terminated
    }

    /// True if a message to the client is incomplete: no error can be sent now.
    #[must_use]
    pub fn is_mid_reply(&self) -> bool {
        self.server.is_mid()
    }

    /// True if a message to the server is incomplete: nothing else can be sent now.
    #[must_use]
    pub fn is_mid_request(&self) -> bool {
        self.client.is_mid()
    }
}

/// Position in the messages of one side.
#[derive(Debug)]
struct Messages {
    side: Side,
    /// Header of the present message; `0 <= have <= HEADER_LEN` bytes of it have come.
    head: [u8; HEADER_LEN],
    have: usize,
    /// Number of bytes still to come of the present message's body.
    rest: usize,
}

/// Next part of the input.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// Bytes of the body of a message with this tag.
    Body(u8),
    /// End of a header, and the length of its message.
    Header { tag: u8, total: usize },
    /// Bytes of a header that is not complete yet.
    Incomplete,
}

impl Messages {
    fn new(side: Side) -> Self {
        Self {
            side,
            head: [0; HEADER_LEN],
            have: 0,
            rest: 0,
        }
    }

    fn is_mid(&self) -> bool {
        self.have > 0 || self.rest > 0
    }

    /// Returns the end of the part of `input` that begins at `at`, and that part.
    fn next(
        &mut self,
        input: &[u8],
        at: usize,
    ) -> Result<(usize, Part), weir_wire::frame::FrameError> {
        let here = input.len().saturating_sub(at);
        if self.rest > 0 {
            let len = here.min(self.rest);
            self.rest -= len;
            let [tag, ..] = self.head;
            return Ok((at + len, Part::Body(tag)));
        }
        let len = here.min(HEADER_LEN - self.have);
        let bytes = input.get(at..at + len).unwrap_or_default();
        let slots = self.head.iter_mut().skip(self.have);
        slots.zip(bytes).for_each(|(slot, byte)| *slot = *byte);
        self.have += len;
        if self.have < HEADER_LEN {
            return Ok((at + len, Part::Incomplete));
        }
        self.have = 0;
        let Some(header) = header(&self.head, self.side)? else {
            return Ok((at + len, Part::Incomplete));
        };
        let total = header.total_len();
        self.rest = total.saturating_sub(HEADER_LEN);
        let tag = header.tag;
        Ok((at + len, Part::Header { tag, total }))
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::encode;

    use super::*;

    fn query() -> Vec<u8> {
        let mut message = Vec::new();
        encode::query(&mut message, b"IDENTIFY_SYSTEM").unwrap();
        message
    }

    fn ready(status: TransactionStatus) -> Vec<u8> {
        let mut message = Vec::new();
        encode::ready_for_query(&mut message, status).unwrap();
        message
    }

    const STREAM: &[u8] = b"W\0\0\0\x07\0\0\0";
    const DATA: &[u8] = b"d\0\0\0\x08data";

    #[test]
    fn every_cut_of_both_directions_is_understood_alike() {
        let asked = [&query()[..], DATA, b"c\0\0\0\x04", &query(), b"X\0\0\0\x04"].concat();
        let told = [
            STREAM,
            DATA,
            b"c\0\0\0\x04C\0\0\0\x0bCOPY 0\0",
            &ready(TransactionStatus::Idle),
            b"E\0\0\0\x05\0",
            &ready(TransactionStatus::Failed),
        ]
        .concat();
        for piece in 1..asked.len().max(told.len()) {
            let mut relay = Walsender::new(u32::MAX);
            let mut terminates = false;
            for part in asked.chunks(piece) {
                assert!(!terminates);
                let sent = relay.from_client(part).unwrap();
                assert_eq!(sent.len, part.len());
                terminates = sent.terminates;
            }
            assert!(terminates && relay.is_terminated() && !relay.is_mid_request());
            assert!(relay.is_busy() && !relay.is_streaming());
            let mut all = Answered::default();
            for part in told.chunks(piece) {
                let answered = relay.from_server(part).unwrap();
                all.errors += answered.errors;
                all.queries += answered.queries;
                all.transactions += answered.transactions;
            }
            let expected = Answered {
                errors: 1,
                queries: 2,
                transactions: 1,
            };
            assert_eq!(all, expected, "{piece}");
            // The transaction has failed and is still open.
            assert!(!relay.is_busy() && !relay.is_idle() && !relay.is_mid_reply());
        }
    }

    #[test]
    fn a_stream_lasts_until_its_command_is_answered() {
        let mut relay = Walsender::new(u32::MAX);
        assert!(relay.is_idle());
        relay.from_client(&query()).unwrap();
        assert!(relay.is_busy());
        relay.from_server(STREAM).unwrap();
        assert!(relay.is_streaming() && !relay.is_mid_reply());
        relay.from_server(&DATA[..7]).unwrap();
        assert!(relay.is_mid_reply());
        relay.from_server(&DATA[7..]).unwrap();
        relay.from_client(&DATA[..1]).unwrap();
        assert!(relay.is_mid_request());
        relay.from_client(&DATA[1..]).unwrap();
        relay.from_server(&ready(TransactionStatus::Idle)).unwrap();
        assert!(!relay.is_streaming() && relay.is_idle());
    }

    #[test]
    fn what_stands_behind_a_terminate_is_not_passed_on() {
        let mut relay = Walsender::new(u32::MAX);
        let sent = relay.from_client(b"X\0\0\0\x04Q\0\0\0\x05\0").unwrap();
        assert_eq!((sent.len, sent.terminates), (5, true));
        assert_eq!(relay.from_client(&query()).unwrap().len, 0);
    }

    #[test]
    fn impossible_headers_and_long_messages_end_the_relay() {
        let mut relay = Walsender::new(100);
        assert!(relay.from_client(b"\x01\0\0\0\x04").is_err());
        let mut relay = Walsender::new(100);
        assert!(relay.from_server(b"d\0\0\0\x03").is_err());
        let mut relay = Walsender::new(100);
        let long = relay.from_client(b"d\0\0\0\x64").unwrap_err();
        assert_eq!(long, ClientFault::TooLong(101));
        let long = Walsender::new(100).from_server(b"d\0\0\0\x64");
        assert_eq!(long, Err(ServerFault::TooLong(101)));
        assert!(Walsender::new(100).from_server(b"d\0\0\0\x63").is_ok());
    }
}
