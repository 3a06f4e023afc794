//! PostgreSQL conversations with clients and servers, as pure state machines: no socket, no clock, no thread.
//!
//! A client begins with [`hello::Opening`], a server connection with [`login::ServerLogin`]. After that the two sides
//! are a [`client::Client`] and a [`server::Server`]. While a client leases a server, [`relay::requests`] and
//! [`relay::replies`] pass messages between them. [`expected::Queue`] is the FIFO of owed replies: it decides whom a
//! reply belongs to and when a server is free ([`server::Server::is_free`]).
//!
//! ```
//! use std::sync::Arc;
//! use weir_session::{client::Client, relay, server::Server, splice::Splice};
//! use weir_session::statement::{Proven, Registry};
//!
//! let (mut client, mut server) = (Client::default(), Server::new(Arc::default()));
//! let mut judge = weir_sql::Judge::new(weir_sql::Functions::default());
//! let rules = relay::Rules { max_prepared: 200, prepare_unnamed: 0, refuse_simple_query: false, tracks_unnamed: true, state: relay::StatePolicy::Track, sequences: relay::SequencePolicy::Learn, message_max: u32::MAX };
//! let (mut registry, proven) = (Registry::new(0, 1), Arc::<Proven>::default());
//! let query = b"Q\0\0\0\x0dselect 1\0";
//!
//! let (mut buffer, mut to_client) = (Vec::new(), Vec::new());
//! let mut to_server = Splice::new(query, &mut buffer);
//! let mut link = relay::Link {
//!     client: &mut client,
//!     server: &mut server,
//!     registry: &mut registry,
//!     judge: &mut judge,
//!     proven: &proven,
//!     rules,
//!     digests: None,
//!     ruling: None,
//! };
//! relay::requests(&mut link, query, &mut to_server, &mut to_client)?;
//! assert_eq!(to_server.finish(), query);
//! assert!(!server.is_free());
//!
//! let reply = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
//! let mut buffer = Vec::new();
//! let mut out = Splice::new(reply, &mut buffer);
//! relay::replies(&mut client, &mut server, reply, &mut out)?;
//! assert_eq!(out.finish(), reply);
//! assert!(server.is_free());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod emulation;
mod protocol;
mod statements;

pub use emulation::{channels, custom, own_settings, portable, settings, state};
pub(crate) use emulation::{inserted, rarities, sequences};
#[cfg(test)]
pub(crate) use protocol::fixture;
pub(crate) use protocol::repeat;
pub use protocol::{
    client, counted, expected, fault, hello, login, mirrored, relay, ruled, server, splice,
    walsender, watched,
};
pub use statements::statement;
pub(crate) use statements::{sql, unnamed};
