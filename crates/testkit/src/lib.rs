//! What tests are made of: a model of a PostgreSQL server, conversations to hold with it, cuts and virtual time.
//! Only ever a dev-dependency; no sockets, no clock, no threads, and random numbers only from a seed.
//!
//! [`backend::Backend`] is the reference: bytes of a client in, bytes of a server out, with the rules of PostgreSQL's
//! `tcop/postgres.c` about errors, skipping and COPY. [`say::say`] builds what a client sends, [`reading::outline`]
//! shows what it got, and [`cuts::Cuts`] delivers both in pieces.
//!
//! ```
//! use weir_testkit::{backend::Backend, reading::outline, say::say};
//!
//! let mut backend = Backend::default();
//! let replies = backend.converse(&say().parse("s", "row x").bind("", "s").execute("", 0).sync());
//! assert_eq!(outline(&replies), "1 2 D(x) C(SELECT 1) Z(I)");
//! ```

pub mod backend;
pub mod clock;
pub mod cuts;
pub mod program;
pub mod reading;
pub mod say;
