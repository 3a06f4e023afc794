//! Logins: accepted users and secrets, and error messages, of clients at Weir and of Weir at PostgreSQL.
//!
//! The subject is always Weir's binary. Clients are psql (libpq) if only the result matters, and raw bytes if an
//! observer might distinguish users.

#[path = "logins/client_side.rs"]
mod client_side;
#[path = "logins/no_file.rs"]
mod no_file;
#[path = "logins/off_loop.rs"]
mod off_loop;
#[path = "logins/server_side.rs"]
mod server_side;
#[path = "logins/support.rs"]
mod support;
