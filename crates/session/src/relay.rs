//! Passing messages between a client and the server it leases: requests one way, replies the other.
//!
//! Both directions work on whatever bytes have arrived. A message of up to [`STREAM_MIN`] bytes is passed on only when
//! it is complete, so that a client that vanishes leaves no half request behind; a longer one is passed on while it
//! arrives, so that memory is bounded. Bodies are looked at only where a name, a status or a parameter stands in them.

use std::sync::Arc;

use weir_sql::Judge;
use weir_wire::frame::FrameError;

use crate::client::Client;
use crate::server::Server;
use crate::statement::{Proven, Registry};

mod alone;
mod failure;
mod fencing;
mod fresh;
mod idle;
mod learning;
mod reply;
pub(crate) mod request;
mod shape;

pub use alone::Lobby;
pub use fresh::wants_new;
pub use idle::{Idle, Next, idle, says_goodbye};
pub(crate) use reply::definitions::Definitions;
pub use reply::{Replied, ServerFault, replies};
pub use request::{StatementCounts, Taken, begin, begin_in_front, requests};

/// Messages longer than this many bytes are passed on while they arrive, shorter ones when they are complete.
pub const STREAM_MIN: usize = 32 * 1024;

/// A named Parse up to this many bytes is kept to be prepared on other servers too; with a longer one the client keeps
/// its server.
pub const STATEMENT_MAX: usize = 1024 * 1024;

/// Statement names that one client may have; drivers keep some hundreds.
pub const STATEMENTS_MAX: usize = 10_000;

/// How requests are treated in this pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Prepared statements per server; 0: statement names are passed on as they are (`max_prepared_statements`).
    pub max_prepared: usize,
    /// Unnamed statements follow their client from server to server (not where it has one of its own).
    pub tracks_unnamed: bool,
    /// How often an unnamed statement has to come until a named one of ours stands in for it, so that servers keep its
    /// plan; 0: never (`prepare_unnamed_after`).
    pub prepare_unnamed: u32,
    /// Refuse simple queries (`disable_pqexec`).
    pub refuse_simple_query: bool,
    /// What becomes of a session's state (`session_state`).
    pub state: StatePolicy,
    /// What becomes of values that sequences gave a client (`sequence_values`); only with [`StatePolicy::Track`].
    pub sequences: SequencePolicy,
    /// Longest message in bytes that is passed on, in either direction (`max_packet_size`). PostgreSQL's own limits are
    /// below the largest value.
    pub message_max: u32,
}

/// Values that sequences gave a client in an earlier transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SequencePolicy {
    /// Clients of applications that read them keep their servers when they move a sequence.
    #[default]
    Learn,
    /// Each client keeps its server when it moves a sequence.
    Pin,
    /// Statements that read them are refused; no server is kept.
    Refuse,
}

/// What becomes of what a client changes in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatePolicy {
    /// Nobody looks: it stays where it is. PgBouncer's manners.
    Off,
    /// The client keeps its server from then on.
    Pin,
    /// Settings follow the client; what cannot move is refused.
    Refuse,
    /// The client keeps its server anyway: only what it returns to has to be its own.
    Session,
    /// Settings follow the client; what cannot move pins it.
    Track,
}

/// A client and the server it leases.
#[derive(Debug)]
pub struct Link<'a> {
    /// The client.
    pub client: &'a mut Client,
    /// Its server.
    pub server: &'a mut Server,
    /// The worker's statements.
    pub registry: &'a mut Registry,
    /// Says what texts may do to a session.
    pub judge: &'a mut Judge,
    /// What is known to be good in this pool.
    pub proven: &'a Arc<Proven>,
    /// The pool's rules.
    pub rules: Rules,
}

/// What a client did that ends its session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientFault {
    /// Not a message that PostgreSQL takes from a client.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message whose body does not parse; the tag says which.
    #[error("invalid message format")]
    Malformed(u8),
    /// A message that has no place after the login.
    #[error("invalid frontend message type {0}")]
    OutOfPlace(u8),
    /// More statement names than [`STATEMENTS_MAX`].
    #[error("too many prepared statements on one connection (10000)")]
    TooManyStatements,
    /// `disable_pqexec` is on.
    #[error("PQexec disallowed")]
    SimpleQuery,
    /// A message longer than `max_packet_size`, in bytes.
    #[error("message of {0} bytes is too long (max_packet_size)")]
    TooLong(usize),
}

/// Whether a message is longer than the rules allow.
#[inline]
fn is_too_long(total: usize, message_max: u32) -> bool {
    usize::try_from(message_max).is_ok_and(|max| total > max)
}

#[cfg(test)]
mod tests {
    use weir_wire::encode;

    use super::*;
    use crate::splice::Splice;

    #[test]
    fn one_client_has_a_bounded_number_of_statement_names() {
        let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
        let mut registry = Registry::new(0, 1);
        let proven = Arc::default();
        let mut parse = |number: usize| {
            let mut message = Vec::new();
            encode::parse(&mut message, format!("s{number}").as_bytes(), b"x", &[0, 0]).unwrap();
            let (mut buffer, mut answers) = (Vec::new(), Vec::new());
            let mut link = Link {
                client: &mut client,
                server: &mut server,
                registry: &mut registry,
                judge: &mut Judge::new(weir_sql::Functions::default()),
                proven: &proven,
                rules: Rules {
                    max_prepared: 10,
                    tracks_unnamed: true,
                    prepare_unnamed: 0,
                    refuse_simple_query: false,
                    state: StatePolicy::Track,
                    sequences: SequencePolicy::Learn,
                    message_max: u32::MAX,
                },
            };
            let mut out = Splice::new(&message, &mut buffer);
            requests(&mut link, &message, &mut out, &mut answers).map(drop)
        };
        for number in 0..STATEMENTS_MAX {
            parse(number).unwrap();
        }
        assert_eq!(parse(STATEMENTS_MAX), Err(ClientFault::TooManyStatements));
    }
}
