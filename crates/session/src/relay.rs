//! Passing messages between a client and the server it leases: requests one way, replies the other.
//!
//! Both directions work on whatever bytes have arrived. A message of up to [`STREAM_MIN`] bytes is passed on only when
//! it is complete, so that a client that vanishes leaves no half request behind; a longer one is passed on while it
//! arrives, so that memory is bounded. Bodies are looked at only where a name, a status or a parameter stands in them.

use weir_wire::frame::FrameError;

use crate::client::Client;
use crate::server::Server;
use crate::statement::Registry;

mod idle;
mod reply;
mod request;

pub use idle::{Idle, Next, idle};
pub use reply::{Replied, ServerFault, replies};
pub use request::{StatementCounts, Taken, begin, requests};

/// Messages longer than this many bytes are passed on while they arrive, shorter ones when they are complete.
pub const STREAM_MIN: usize = 32 * 1024;

/// A named Parse up to this many bytes is kept to be prepared on other servers too; with a longer one the client keeps
/// its server.
pub const STATEMENT_MAX: usize = 1024 * 1024;

/// How requests are treated in this pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Prepared statements per server; 0: statement names are passed on as they are (`max_prepared_statements`).
    pub max_prepared: usize,
    /// Unnamed statements follow their client from server to server (not where it has one of its own).
    pub tracks_unnamed: bool,
    /// Refuse simple queries (`disable_pqexec`).
    pub refuse_simple_query: bool,
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
    /// `disable_pqexec` is on.
    #[error("PQexec disallowed")]
    SimpleQuery,
}
