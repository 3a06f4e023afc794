//! Who gets in, with what secret, and what they are told: clients at Weir, and Weir at PostgreSQL.
//!
//! The subject is always Weir's binary. Clients are psql (libpq) where only the outcome matters, and raw bytes where an
//! observer could tell users apart.

#[path = "logins/client_hop.rs"]
mod client_hop;
#[path = "logins/no_file.rs"]
mod no_file;
#[path = "logins/off_loop.rs"]
mod off_loop;
#[path = "logins/server_hop.rs"]
mod server_hop;
#[path = "logins/support.rs"]
mod support;
