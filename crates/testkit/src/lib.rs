//! Building blocks of tests: a model of a PostgreSQL server, conversations with it, cuts and virtual time. Only used
//! as a dev-dependency. The crate has no sockets, clocks or threads, and random numbers come only from a seed.
//!
//! [`backend::Backend`] is the reference: it takes bytes of a client and returns the server's bytes, with the rules
//! of PostgreSQL's `tcop/postgres.c` for errors, skipping and COPY. [`say::say`] builds a client's messages,
//! [`reading::outline`] prints the replies, and [`cuts::Cuts`] delivers both in pieces.
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
pub mod cluster;
pub mod cuts;
pub mod program;
pub mod reading;
pub mod say;
