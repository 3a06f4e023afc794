//! Conversion between bytes and PostgreSQL protocol messages, in both directions.
//!
//! The crate supports protocol versions 3.0 and 3.2. Decoding takes two steps. [`frame::header`] reads five bytes and
//! returns the kind and length of the message. A pooler needs no more for most traffic, and forwards the bytes
//! unchanged. To look inside, a view of [`frontend`] or [`backend`] borrows the body of one frame. [`startup`] reads
//! the messages that have no tag, and [`options`] the command-line switches inside the startup parameter of that name.
//! [`encode`] appends messages to the caller's buffer. [`sqlstate`] names the error codes.
//!
//! **Invariants.** Too few bytes are `Ok(None)`. A declared length is compared with PostgreSQL's own limit before
//! anything else happens. No decoder allocates by a number that the peer sent, and none panics. An encoder appends
//! exactly one complete message (or one complete head), or leaves the buffer unchanged. This crate has no socket,
//! clock, thread or global.
//!
//! ```
//! use weir_wire::frame::{self, Side};
//! use weir_wire::{encode, frontend};
//!
//! let mut buf = Vec::new();
//! encode::query(&mut buf, b"select 1")?;
//!
//! // A part of a message is not an error: more bytes will come.
//! assert_eq!(frame::frame(&buf[..7], Side::Frontend)?, None);
//!
//! let frame = frame::frame(&buf, Side::Frontend)?.expect("the whole message is there");
//! assert_eq!(frame.header.tag, frontend::tag::QUERY);
//! assert_eq!(frontend::Query::parse(frame.body)?.sql, b"select 1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(clippy::cast_possible_wrap, clippy::cast_sign_loss)]

pub mod backend;
pub mod encode;
pub mod frame;
pub mod frontend;
#[doc(hidden)]
pub mod fuzzing;
pub mod options;
pub mod proxy_header;
mod read;
pub mod sqlstate;
pub mod startup;

pub use read::{MessageError, Strings, before_nul};
