//! LISTEN and NOTIFY in transaction pooling: one server connection per database listens on behalf of all clients.
//!
//! [`Hub`] handles that connection: it keeps the subscribers of each channel, sends LISTEN and UNLISTEN to the server,
//! and turns notifications into deliveries. Each client has a [`Mail`], a bounded queue of notifications that may not
//! be sent yet, and [`Subscriptions`], the channels it listens to. [`request`] recognises `LISTEN` and `UNLISTEN` in a
//! client's messages. `lease.rs` attributes a client's own notifications to it. Like the rest of the crate, this module
//! uses no socket, clock or thread.
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

/// Name of a channel as the bytes that PostgreSQL compares: folded, unquoted, 1 to 63 bytes, without NUL.
pub type Channel = Arc<[u8]>;

/// Channel for the marks that say which client now leases a server process ([`lease`]).
const LEASES: &[u8] = b"weir_lease";

/// Maximum number of channels that one client may listen to through a [`Hub`].
pub const CHANNELS_MAX: usize = 10_000;

/// Longest name that PostgreSQL certainly does not truncate. It cuts names to 63 bytes, or to fewer if the cut would
/// split a multibyte character.
const SURELY_WHOLE: usize = 59;

/// Address of a client in the hub: its worker, its slot, and an id that is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seat {
    /// Worker of the client.
    pub worker: usize,
    /// Number of the client there. No other client gets it later.
    pub client: u64,
}

/// Request of a client to listen or to stop listening.
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
    /// Returns the requests in a text, in order, or `None` if the text does anything else. A name that PostgreSQL may
    /// have truncated also gives `None`: the server handles that statement and sends the notice.
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

    /// Returns the channel of the request; `None` for `UNLISTEN *`.
    #[must_use]
    pub fn channel(&self) -> Option<&Channel> {
        match self {
            Self::Listen(channel) | Self::Unlisten(channel) => Some(channel),
            Self::UnlistenAll => None,
        }
    }

    /// Returns the command tag for the request's CommandComplete.
    #[must_use]
    pub fn tag(&self) -> &'static [u8] {
        match self {
            Self::Listen(_) => b"LISTEN",
            Self::Unlisten(_) | Self::UnlistenAll => b"UNLISTEN",
        }
    }
}

/// Appends `command` and the channel's name as a quoted identifier (manual, 4.1.1).
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
