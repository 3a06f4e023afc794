//! Handles input of a client that has no server: answers what needs none, and reports when a lease is needed.

use weir_wire::encode;
use weir_wire::frame::{HEADER_LEN, Header, Side, header};
use weir_wire::frontend::tag;
use weir_wire::sqlstate::SqlState;

use super::alone::Lobby;
use super::lost_block::{self, LostBlock, Step};
use super::{Batch, ClientFault, STATEMENT_MAX, STREAM_MIN, StatementCounts, is_too_long};
use crate::client::{Client, Refusing, Rest};
use crate::fault::Fault;

/// Next step after the consumed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next<'i> {
    /// Wait for more bytes.
    More,
    /// This batch needs a server, and enough of its first message has arrived to pass it on.
    Lease(Batch<'i>),
    /// The client sent Terminate.
    Terminate,
}

/// Result of [`idle`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle<'i> {
    /// Number of bytes consumed.
    pub consumed: usize,
    /// Next step for the rest.
    pub next: Next<'i>,
    /// Counts of prepared-statement messages that needed no server.
    pub statements: StatementCounts,
    /// Codes of the errors by which query rules have rejected statements.
    pub rejected: Vec<SqlState>,
}

/// Processes input of a client without a server.
///
/// Late COPY messages after a failed COPY are dropped, as PostgreSQL does (hazard COR-04). So is Flush, which has
/// nothing to flush. A lone Sync is answered here: outside a transaction its reply is always "idle". So is a batch that
/// only prepares or closes known statements.
///
/// # Errors
/// Fails on a message that PostgreSQL would not accept either.
pub fn idle<'i>(
    lobby: &mut Lobby<'_>,
    input: &'i [u8],
    to_client: &mut Vec<u8>,
) -> Result<Idle<'i>, ClientFault> {
    lobby.client.leave_own_names();
    let mut seen = Idle {
        consumed: streamed(lobby.client, input),
        next: Next::More,
        statements: StatementCounts::default(),
        rejected: Vec::new(),
    };
    loop {
        let rest = input.get(seen.consumed..).unwrap_or_default();
        let Some(header) = header(rest, Side::Frontend)? else {
            return Ok(seen);
        };
        let total = header.total_len();
        if is_too_long(total, lobby.rules.message_max) {
            return Err(ClientFault::TooLong(total));
        }
        match unusual(lobby, rest, header, to_client) {
            Step::Answered(len) => {
                seen.consumed += len;
                continue;
            }
            Step::Waits => return Ok(seen),
            Step::Usual => {}
        }
        if lobby.ruling.is_some()
            && let Some(code) = reject(lobby, rest, header, to_client)
        {
            seen.rejected.push(code);
            continue;
        }
        match header.tag {
            tag::TERMINATE => {
                seen.next = Next::Terminate;
                return Ok(seen);
            }
            tag::COPY_DATA if rest.len() < total => {
                discard_rest(lobby.client, total - rest.len());
                seen.consumed = input.len();
                return Ok(seen);
            }
            tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::FLUSH | tag::SYNC => {
                if rest.len() < total {
                    return Ok(seen);
                }
                if header.tag == tag::SYNC {
                    end_batch(lobby.client, to_client);
                }
                seen.consumed += total;
            }
            tag::PARSE | tag::CLOSE if rest.len() >= total => {
                if let Some(batch) = prepare(lobby, rest, &mut seen, to_client) {
                    seen.next = Next::Lease(batch);
                    return Ok(seen);
                }
            }
            tag::QUERY
            | tag::PARSE
            | tag::BIND
            | tag::DESCRIBE
            | tag::CLOSE
            | tag::EXECUTE
            | tag::FUNCTION_CALL => {
                // A slow sender holds no server (hazard COR-42).
                if rest.len() >= total.min(needed(lobby, header)) {
                    seen.next = Next::Lease(Batch::scan(rest));
                }
                return Ok(seen);
            }
            other => return Err(ClientFault::OutOfPlace(other)),
        }
    }
}

/// Lets the rest of a message be passed over as it comes.
fn discard_rest(client: &mut Client, missing: usize) {
    client.owed = missing as u64;
    client.rest = Rest::Discard;
}

/// Answers a batch that only prepares or closes. Returns the batch if it needs a server.
#[inline]
fn prepare<'i>(
    lobby: &mut Lobby<'_>,
    rest: &'i [u8],
    seen: &mut Idle<'_>,
    to_client: &mut Vec<u8>,
) -> Option<Batch<'i>> {
    let batch = Batch::scan(rest);
    let answered = match lobby.may_answer(&batch) {
        true => lobby.answer(rest, to_client, &mut seen.statements),
        false => 0,
    };
    if answered == 0 {
        return Some(batch);
    }
    seen.consumed += answered;
    lobby.client.forget_decision();
    None
}

/// Handles the first message of a client whose batch or block has failed.
#[inline]
fn unusual(lobby: &mut Lobby<'_>, input: &[u8], first: Header, to_client: &mut Vec<u8>) -> Step {
    let client = &mut *lobby.client;
    if client.refusing != Refusing::Nothing && !matches!(first.tag, tag::TERMINATE | tag::SYNC) {
        return Step::Answered(refuse(client, input, first.total_len(), to_client));
    }
    match client.lost_block {
        LostBlock::None => Step::Usual,
        LostBlock::Failed | LostBlock::Untold => lost_block::step(lobby, input, first, to_client),
    }
}

/// Rejects the first statement of a batch if a query rule says so: the error is sent, and the batch is dropped. Returns the
/// code of the error.
fn reject(
    lobby: &mut Lobby<'_>,
    rest: &[u8],
    header: Header,
    to_client: &mut Vec<u8>,
) -> Option<SqlState> {
    let Lobby { client, ruling, .. } = &mut *lobby;
    let body = rest.get(HEADER_LEN..header.total_len())?;
    let rejection = ruling
        .as_mut()?
        .decide_first(client, (header.tag, body), rest)?;
    let fault = Fault::Rejected(rejection);
    fault.encode(to_client);
    client.refuse_batch(header.tag);
    Some(fault.code())
}

/// True if the client's input contains a Terminate behind complete messages.
pub fn says_goodbye(client: &Client, input: &[u8]) -> bool {
    let mut rest = usize::try_from(client.owed)
        .ok()
        .and_then(|owed| input.get(owed..));
    while let Some(bytes) = rest {
        let Ok(Some(header)) = header(bytes, Side::Frontend) else {
            return false;
        };
        if header.tag == tag::TERMINATE {
            return true;
        }
        rest = bytes.get(header.total_len()..);
    }
    false
}

/// Passes over the rest of a message that began earlier. Returns its length.
fn streamed(client: &mut Client, input: &[u8]) -> usize {
    let here = usize::try_from(client.owed)
        .unwrap_or(usize::MAX)
        .min(input.len());
    client.owed -= here as u64;
    here
}

/// Ends a batch, refused or empty, with its ReadyForQuery.
fn end_batch(client: &mut Client, to_client: &mut Vec<u8>) {
    client.refusing = Refusing::Nothing;
    // Six bytes always fit.
    let _ = encode::ready_for_query(to_client, client.status_alone());
}

/// Drops a message of a failed batch. Returns how many of its bytes have arrived.
fn refuse(client: &mut Client, rest: &[u8], total: usize, to_client: &mut Vec<u8>) -> usize {
    let here = rest.len().min(total);
    discard_rest(client, total - here);
    if client.refusing == Refusing::Message {
        end_batch(client, to_client);
    }
    here
}

/// Number of bytes of a message that must arrive before a server is asked for.
fn needed(lobby: &Lobby<'_>, header: Header) -> usize {
    let ruling = lobby.ruling.as_ref();
    match header.tag {
        tag::PARSE if header.total_len() <= STATEMENT_MAX => header.total_len(),
        _ if lobby.client.is_read_whole(header) => header.total_len(),
        _ if ruling.is_some_and(|ruling| ruling.reads_whole(header)) => header.total_len(),
        _ => STREAM_MIN,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::relay::{Rules, SequencePolicy, StatePolicy};
    use crate::statement::Registry;

    const RULES: Rules = Rules {
        max_prepared: 10,
        tracks_unnamed: true,
        prepare_unnamed: 0,
        refuse_simple_query: false,
        message_max: u32::MAX,
        state: StatePolicy::Track,
        sequences: SequencePolicy::Learn,
    };

    /// [`Next`] without its batch.
    #[derive(Debug, PartialEq, Eq)]
    enum Then {
        More,
        Lease,
        Terminate,
    }

    impl From<Next<'_>> for Then {
        fn from(next: Next<'_>) -> Self {
            match next {
                Next::More => Self::More,
                Next::Lease(_) => Self::Lease,
                Next::Terminate => Self::Terminate,
            }
        }
    }

    fn hear(
        client: &mut Client,
        input: &[u8],
        answer: &mut Vec<u8>,
    ) -> Result<(usize, Then), ClientFault> {
        let mut lobby = Lobby {
            client,
            registry: &mut Registry::new(0, 1),
            proven: &Arc::default(),
            rules: RULES,
            ruling: None,
            has_server: false,
        };
        idle(&mut lobby, input, answer).map(|seen| (seen.consumed, seen.next.into()))
    }

    fn look(input: &[u8]) -> ((usize, Then), Vec<u8>) {
        let mut answer = Vec::new();
        let seen = hear(&mut Client::default(), input, &mut answer).unwrap();
        (seen, answer)
    }

    #[test]
    fn cor_04_late_copy_messages_are_dropped_without_a_server() {
        let (seen, answer) = look(b"d\0\0\0\x05xc\0\0\0\x04f\0\0\0\x05\0");
        assert_eq!(seen, (17, Then::More));
        assert!(answer.is_empty());
    }

    #[test]
    fn a_late_copy_message_that_is_cut_is_dropped_as_it_comes() {
        let (mut client, mut answer) = (Client::default(), Vec::new());
        let first = hear(&mut client, b"d\0\0\0\x0axx", &mut answer).unwrap();
        assert_eq!(first, (7, Then::More));
        let second = hear(&mut client, b"yyyyX\0\0\0\x04", &mut answer).unwrap();
        assert_eq!(second, (4, Then::Terminate));
    }

    #[test]
    fn a_sync_alone_is_answered_without_a_server() {
        let (seen, answer) = look(b"S\0\0\0\x04");
        assert_eq!(seen, (5, Then::More));
        assert_eq!(answer, b"Z\0\0\0\x05I");
    }

    #[test]
    fn cor_42_a_server_is_asked_for_only_when_the_message_is_complete() {
        let message = b"Q\0\0\0\x0dselect 1\0";
        for cut in 0..message.len() {
            assert_eq!(look(&message[..cut]).0.1, Then::More, "at {cut}");
        }
        assert_eq!(look(message).0, (0, Then::Lease));
    }

    #[test]
    fn cor_49_a_refused_batch_is_dropped_up_to_its_sync_and_answered_once() {
        let (mut client, mut answer) = (Client::default(), Vec::new());
        client.refuse_batch(tag::PARSE);
        let batch = b"P\0\0\0\x08\0x\0\0B\0\0\0\x05xS\0\0\0\x04Q\0\0\0\x06x\0";
        let seen = hear(&mut client, batch, &mut answer).unwrap();
        assert_eq!(seen, (20, Then::Lease));
        assert_eq!(answer, b"Z\0\0\0\x05I");
    }

    #[test]
    fn cor_25_a_refused_query_is_dropped_alone() {
        let (mut client, mut answer) = (Client::default(), Vec::new());
        client.refuse_batch(tag::QUERY);
        let seen = hear(&mut client, b"Q\0\0\0\x06x\0Q\0\0\0\x06y\0", &mut answer).unwrap();
        assert_eq!(seen, (7, Then::Lease));
        assert_eq!(answer, b"Z\0\0\0\x05I");
    }

    #[test]
    fn cor_30_a_message_out_of_place_is_refused_without_a_server() {
        let refused = hear(&mut Client::default(), b"p\0\0\0\x05\0", &mut Vec::new());
        let refused = refused.unwrap_err();
        assert_eq!(refused.to_string(), "invalid frontend message type 112");
    }

    #[test]
    fn a_long_message_needs_only_its_beginning() {
        let mut message = b"Q\0\x10\0\0".to_vec();
        message.resize(STREAM_MIN, b'x');
        assert_eq!(look(&message).0.1, Then::Lease);
    }
}
