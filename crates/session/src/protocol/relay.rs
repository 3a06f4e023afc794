//! Passes messages between a client and the server it leases: requests one way, replies the other.
//!
//! Both directions work on whatever bytes have arrived. A message of up to [`STREAM_MIN`] bytes is passed on only when
//! it is complete: a client that disconnects then leaves no partial request on its server. A longer message is passed
//! on while it arrives, so that memory is bounded. The relay reads a message body only where it contains a name, a
//! status or a parameter.

use std::sync::Arc;

use weir_sql::Judge;
use weir_wire::frame::FrameError;

use crate::client::Client;
use crate::counted::Digesting;
use crate::ruled::Ruling;
use crate::server::Server;
use crate::statement::{Proven, Registry};

mod alone;
mod batch;
mod destination;
mod failure;
mod fencing;
mod first_text;
mod fresh;
mod guard;
mod idle;
mod learning;
pub(crate) mod lost_block;
mod net;
mod reply;
pub(crate) mod request;
mod shape;
mod texts;

pub use alone::Lobby;
pub use batch::{Batch, End, Extent, First};
pub use destination::{Block, Destination, destination, destination_with_step};
pub use first_text::first_text;
pub use fresh::wants_new;
pub(crate) use guard::Guard;
pub use idle::{Idle, Next, idle, says_goodbye};
pub(crate) use lost_block::Before;
pub use lost_block::leave_block;
pub(crate) use net::{Net, Warning};
pub(crate) use reply::definitions::Definitions;
pub use reply::{Replied, ServerFault, replies};
pub use request::ruled::full;
pub use request::{StatementCounts, Taken, begin, begin_in_front, requests};
pub use texts::{any_text, give_setting_now};

/// Length in bytes above which a message is passed on while it arrives; shorter messages wait until they are complete.
pub const STREAM_MIN: usize = 32 * 1024;

/// Maximum length in bytes of a named Parse that Weir keeps, to prepare it on other servers too. A longer one pins the
/// client.
pub const STATEMENT_MAX: usize = 1024 * 1024;

/// Maximum number of statement names per client; drivers keep some hundreds.
pub const STATEMENTS_MAX: usize = 10_000;

/// Rules for the requests of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Maximum number of prepared statements per server (`max_prepared_statements`). With 0, statement names are passed
    /// on unchanged.
    pub max_prepared: usize,
    /// True if unnamed statements follow their client from server to server. False where the client has a server of its
    /// own.
    pub tracks_unnamed: bool,
    /// Number of times an unnamed statement must come before a named one of ours stands in for it, so that servers keep
    /// its plan (`prepare_unnamed_after`). With 0, never.
    pub prepare_unnamed: u32,
    /// True if simple queries are refused (`disable_pqexec`).
    pub refuse_simple_query: bool,
    /// Treatment of session state (`session_state`).
    pub state: StatePolicy,
    /// Treatment of sequence values (`sequence_values`); only with [`StatePolicy::Track`].
    pub sequences: SequencePolicy,
    /// Maximum length in bytes of a message in either direction (`max_packet_size`). PostgreSQL's own limits are below
    /// the largest value.
    pub message_max: u32,
}

/// Treatment of values that a client got from sequences in an earlier transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SequencePolicy {
    /// Clients keep their servers after they advance a sequence, if their application reads sequence values.
    #[default]
    Learn,
    /// Every client keeps its server after it advances a sequence.
    Pin,
    /// Statements that read sequence values are refused; no client keeps its server.
    Refuse,
}

/// Treatment of changes that a client makes to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatePolicy {
    /// Changes are not tracked and stay on the server, as with PgBouncer.
    Off,
    /// The client keeps its server after its first change.
    Pin,
    /// Settings follow the client; a statement that leaves state which cannot move is refused.
    Refuse,
    /// The client keeps its server in any case; only the values that RESET returns to must be the client's own.
    Session,
    /// Settings follow the client; state that cannot move pins it.
    Track,
}

/// A client and the server it leases.
#[derive(Debug)]
pub struct Link<'a> {
    /// The client.
    pub client: &'a mut Client,
    /// The server that the client leases.
    pub server: &'a mut Server,
    /// Prepared statements of the worker.
    pub registry: &'a mut Registry,
    /// Analyzer of the effects that texts have on a session.
    pub judge: &'a mut Judge,
    /// Statements known to be valid in this pool.
    pub proven: &'a Arc<Proven>,
    /// Rules of the pool.
    pub rules: Rules,
    /// Digests to count the client's statements in, if they are counted.
    pub digests: Option<Digesting<'a>>,
    /// Query rules that may concern the client, if there are any.
    pub ruling: Option<Ruling<'a>>,
}

/// Client error that ends the session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientFault {
    /// Not a message that PostgreSQL accepts from a client.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message whose body does not parse, by tag.
    #[error("invalid message format")]
    Malformed(u8),
    /// A message that is not allowed after login, by tag.
    #[error("invalid frontend message type {0}")]
    OutOfPlace(u8),
    /// The client has more statement names than [`STATEMENTS_MAX`].
    #[error("too many prepared statements on one connection (10000)")]
    TooManyStatements,
    /// The client sent a simple query while `disable_pqexec` is on.
    #[error("PQexec disallowed")]
    SimpleQuery,
    /// A message is longer than `max_packet_size`; its length in bytes.
    #[error("message of {0} bytes is too long (max_packet_size)")]
    TooLong(usize),
}

/// True if a message is longer than the rules allow.
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
                digests: None,
                ruling: None,
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
