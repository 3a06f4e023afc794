//! Input of a client that has no server: what needs none is dealt with here, the rest says that a lease is needed.

use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frame::{Side, header};
use weir_wire::frontend::tag;

use super::{ClientFault, STATEMENT_MAX, STREAM_MIN};
use crate::client::{Client, Refusing, Rest};

/// What comes after the consumed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More bytes have to come first.
    More,
    /// A request that needs a server; enough of it is here to pass it on.
    Lease,
    /// The client says good-bye.
    Terminate,
}

/// See [`idle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// Bytes that are dealt with.
    pub consumed: usize,
    /// What to do about the rest.
    pub next: Next,
}

/// Looks at what a client without a server sent.
///
/// Late COPY messages after a failed COPY are dropped, as PostgreSQL does (hazard COR-04); so is Flush, which has
/// nothing to flush. A Sync alone is answered here: outside of a transaction its answer is always "idle".
///
/// # Errors
/// A message that PostgreSQL would not take either.
pub fn idle(
    client: &mut Client,
    input: &[u8],
    to_client: &mut Vec<u8>,
) -> Result<Idle, ClientFault> {
    let streamed = usize::try_from(client.owed)
        .unwrap_or(usize::MAX)
        .min(input.len());
    client.owed -= streamed as u64;
    let mut at = streamed;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        let Some(header) = header(rest, Side::Frontend)? else {
            return Ok(Idle {
                consumed: at,
                next: Next::More,
            });
        };
        let total = header.total_len();
        let refused = client.refusing != Refusing::Nothing && header.tag != tag::TERMINATE;
        if refused && header.tag != tag::SYNC {
            let here = rest.len().min(total);
            client.owed = (total - here) as u64;
            client.rest = Rest::Discard;
            if client.refusing == Refusing::Message {
                client.refusing = Refusing::Nothing;
                // Six bytes always fit.
                let _ = encode::ready_for_query(to_client, TransactionStatus::Idle);
            }
            at += here;
            continue;
        }
        match header.tag {
            tag::TERMINATE => {
                return Ok(Idle {
                    consumed: at,
                    next: Next::Terminate,
                });
            }
            tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::FLUSH | tag::SYNC => {
                if header.tag == tag::SYNC && rest.len() >= total {
                    client.refusing = Refusing::Nothing;
                    // Six bytes always fit.
                    let _ = encode::ready_for_query(to_client, TransactionStatus::Idle);
                }
                if rest.len() < total {
                    if header.tag == tag::COPY_DATA {
                        client.owed = (total - rest.len()) as u64;
                        client.rest = Rest::Discard;
                        return Ok(Idle {
                            consumed: input.len(),
                            next: Next::More,
                        });
                    }
                    return Ok(Idle {
                        consumed: at,
                        next: Next::More,
                    });
                }
                at += total;
            }
            tag::QUERY
            | tag::PARSE
            | tag::BIND
            | tag::DESCRIBE
            | tag::CLOSE
            | tag::EXECUTE
            | tag::FUNCTION_CALL => {
                let enough = rest.len() >= total.min(needed(header.tag, total));
                let next = if enough { Next::Lease } else { Next::More };
                return Ok(Idle { consumed: at, next });
            }
            other => return Err(ClientFault::OutOfPlace(other)),
        }
    }
}

/// How much of a message must be here before a server is asked for (hazard COR-42: a slow sender holds none).
fn needed(tag: u8, total: usize) -> usize {
    match tag {
        tag::PARSE if total <= STATEMENT_MAX => total,
        _ => STREAM_MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(input: &[u8]) -> (Idle, Vec<u8>) {
        let mut answer = Vec::new();
        let idle = idle(&mut Client::default(), input, &mut answer).unwrap();
        (idle, answer)
    }

    #[test]
    fn cor_04_late_copy_messages_are_dropped_without_a_server() {
        let (seen, answer) = look(b"d\0\0\0\x05xc\0\0\0\x04f\0\0\0\x05\0");
        assert_eq!(
            seen,
            Idle {
                consumed: 17,
                next: Next::More
            }
        );
        assert!(answer.is_empty());
    }

    #[test]
    fn a_late_copy_message_that_is_cut_is_dropped_as_it_comes() {
        let (mut client, mut answer) = (Client::default(), Vec::new());
        let first = idle(&mut client, b"d\0\0\0\x0axx", &mut answer).unwrap();
        assert_eq!(
            first,
            Idle {
                consumed: 7,
                next: Next::More
            }
        );
        let second = idle(&mut client, b"yyyyX\0\0\0\x04", &mut answer).unwrap();
        assert_eq!(
            second,
            Idle {
                consumed: 4,
                next: Next::Terminate
            }
        );
    }

    #[test]
    fn a_sync_alone_is_answered_without_a_server() {
        let (seen, answer) = look(b"S\0\0\0\x04");
        assert_eq!(
            seen,
            Idle {
                consumed: 5,
                next: Next::More
            }
        );
        assert_eq!(answer, b"Z\0\0\0\x05I");
    }

    #[test]
    fn cor_42_a_server_is_asked_for_only_when_the_message_is_complete() {
        let message = b"Q\0\0\0\x0dselect 1\0";
        for cut in 0..message.len() {
            assert_eq!(look(&message[..cut]).0.next, Next::More, "at {cut}");
        }
        assert_eq!(
            look(message).0,
            Idle {
                consumed: 0,
                next: Next::Lease
            }
        );
    }

    #[test]
    fn cor_49_a_refused_batch_is_dropped_up_to_its_sync_and_answered_once() {
        let (mut client, mut answer) = (Client::default(), Vec::new());
        client.refuse_batch(tag::PARSE);
        let batch = b"P\0\0\0\x08\0x\0\0B\0\0\0\x05xS\0\0\0\x04Q\0\0\0\x06x\0";
        let seen = idle(&mut client, batch, &mut answer).unwrap();
        assert_eq!(
            seen,
            Idle {
                consumed: 20,
                next: Next::Lease
            }
        );
        assert_eq!(answer, b"Z\0\0\0\x05I");
    }

    #[test]
    fn cor_25_a_refused_query_is_dropped_alone() {
        let (mut client, mut answer) = (Client::default(), Vec::new());
        client.refuse_batch(tag::QUERY);
        let seen = idle(&mut client, b"Q\0\0\0\x06x\0Q\0\0\0\x06y\0", &mut answer).unwrap();
        assert_eq!(
            seen,
            Idle {
                consumed: 7,
                next: Next::Lease
            }
        );
        assert_eq!(answer, b"Z\0\0\0\x05I");
    }

    #[test]
    fn cor_30_a_message_out_of_place_is_refused_without_a_server() {
        let refused = idle(&mut Client::default(), b"p\0\0\0\x05\0", &mut Vec::new());
        let refused = refused.unwrap_err();
        assert_eq!(refused.to_string(), "invalid frontend message type 112");
    }

    #[test]
    fn a_long_message_needs_only_its_beginning() {
        let mut message = b"Q\0\x10\0\0".to_vec();
        message.resize(STREAM_MIN, b'x');
        assert_eq!(look(&message).0.next, Next::Lease);
    }
}
