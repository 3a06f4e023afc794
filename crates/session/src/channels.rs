//! LISTEN and NOTIFY without a server of one's own: one connection per database listens for all clients.
//!
//! [`Hub`] is that connection's side: it knows who listens to what, asks the server for it, and turns what the server
//! sends into deliveries. [`Mail`] is the client's side: the bounded queue of notifications that wait until they may be
//! sent, and [`Subscriptions`] what it listens to. [`request`] finds `LISTEN` and `UNLISTEN` in what a client sends. Never a socket, a clock or a thread.
//!
//! PostgreSQL manual: LISTEN, UNLISTEN, NOTIFY, and 55.2.7 "Asynchronous Operations".

use std::sync::Arc;

use weir_sql::Effects;

mod batch;
mod hub;
mod mail;
mod subscriptions;

pub use batch::{Found, Recognized, request};
pub use hub::{Event, Hub, HubFault, Seats};
pub use mail::{Mail, Overflow};
pub use subscriptions::Subscriptions;

/// A channel's name in the bytes that PostgreSQL compares: folded, unquoted, 1 to 63 of them, without NUL.
pub type Channel = Arc<[u8]>;

/// Channels that one client may listen to through a [`Hub`].
pub const CHANNELS_MAX: usize = 10_000;

/// Names are cut to 63 bytes or, at a character of several bytes, to fewer.
const SURELY_WHOLE: usize = 59;

/// A client as the hub knows it: where it lives, and a number that no other client ever has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seat {
    /// Its worker.
    pub lane: usize,
    /// Its place there; used again by others after it.
    pub index: usize,
    /// Its number.
    pub id: u64,
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
    /// What a text asks for, if that is all it does. A name so long that PostgreSQL may have cut it, which it says in a
    /// notice, is left to it.
    fn of(effects: &Effects) -> Option<Self> {
        let request = Self::from_sql(effects.channel.as_ref()?);
        match &request {
            Self::Listen(name) | Self::Unlisten(name) if name.len() > SURELY_WHOLE => None,
            _ => Some(request),
        }
    }

    fn from_sql(channel: &weir_sql::Channel) -> Self {
        match channel {
            weir_sql::Channel::Listen(name) => Self::Listen(name.as_ref().into()),
            weir_sql::Channel::Unlisten(name) => Self::Unlisten(name.as_ref().into()),
            weir_sql::Channel::UnlistenAll => Self::UnlistenAll,
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
