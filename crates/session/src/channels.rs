//! LISTEN and NOTIFY without a server of one's own: one connection per database listens for all clients.
//!
//! [`Hub`] is that connection's side: it knows who listens to what, asks the server for it, and turns what the server
//! sends into deliveries. [`Mail`] is the client's side: the bounded queue of notifications that wait until they may be
//! sent, and [`Subscriptions`] what it listens to. [`request`] finds `LISTEN` and
//! `UNLISTEN` in what a client sends, and `lease.rs` says what becomes of its own notifications. Never a socket, a clock
//! or a thread.
//!
//! PostgreSQL manual: LISTEN, UNLISTEN, NOTIFY, and 55.2.7 "Asynchronous Operations".

use std::sync::Arc;

use weir_sql::Effects;

mod batch;
mod hub;
mod lease;
mod mail;
mod subscriptions;

pub use batch::{Found, Recognized, request};
pub use hub::{Event, Hub, HubFault, Seats};
pub use mail::{Limits, Mail, Overflow};
pub use subscriptions::Subscriptions;

/// A channel's name in the bytes that PostgreSQL compares: folded, unquoted, 1 to 63 of them, without NUL.
pub type Channel = Arc<[u8]>;

/// The channel on which a server says, through PostgreSQL, that a client has got it ([`lease`]).
const LEASES: &[u8] = b"weir_lease";

/// Channels that one client may listen to through a [`Hub`].
pub const CHANNELS_MAX: usize = 10_000;

/// Names are cut to 63 bytes or, at a character of several bytes, to fewer.
const SURELY_WHOLE: usize = 59;

/// A client as the hub knows it: its worker, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seat {
    /// Its worker.
    pub lane: usize,
    /// Number of the client there, which no other client gets after it.
    pub client: u64,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `LISTEN channel`.
    Listen(Channel),
    /// `UNLISTEN channel`.
    Unlisten(Channel),
    /// `UNLISTEN *`.
    UnlistenAll,
}

impl Request {
    /// What a text asks for, in order, if that is all it does. A name so long that PostgreSQL may have cut it, which it
    /// says in a notice, is left to it.
    fn all_of(effects: &Effects) -> Option<Vec<Self>> {
        let requests: Vec<_> = effects.channels.iter().map(Self::from_sql).collect();
        let is_long = |request: &Self| match request {
            Self::Listen(name) | Self::Unlisten(name) => name.len() > SURELY_WHOLE,
            Self::UnlistenAll => false,
        };
        (!requests.is_empty() && !requests.iter().any(is_long)).then_some(requests)
    }

    fn from_sql(channel: &weir_sql::Channel) -> Self {
        match channel {
            weir_sql::Channel::Listen(name) => Self::Listen(name.as_ref().into()),
            weir_sql::Channel::Unlisten(name) => Self::Unlisten(name.as_ref().into()),
            weir_sql::Channel::UnlistenAll => Self::UnlistenAll,
        }
    }

    /// The channel that it names.
    #[must_use]
    pub fn channel(&self) -> Option<&Channel> {
        match self {
            Self::Listen(channel) | Self::Unlisten(channel) => Some(channel),
            Self::UnlistenAll => None,
        }
    }

    /// The command tag of its CommandComplete.
    #[must_use]
    pub fn tag(&self) -> &'static [u8] {
        match self {
            Self::Listen(_) => b"LISTEN",
            Self::Unlisten(_) | Self::UnlistenAll => b"UNLISTEN",
        }
    }
}

/// A statement about a channel, whose name becomes a quoted identifier (manual, 4.1.1).
fn statement(command: &str, channel: &[u8], sql: &mut Vec<u8>) {
    sql.extend_from_slice(command.as_bytes());
    sql.extend_from_slice(b" \"");
    for byte in channel {
        if *byte == b'"' {
            sql.push(b'"');
        }
        sql.push(*byte);
    }
    sql.push(b'"');
}
