//! Negotiation of TLS: every `sslmode` of every driver with every listener mode, and every mode of the server side
//! with every possible answer of a server.
//!
//! The tables for clients come from PostgreSQL itself (`CONFORMANCE_TARGET=direct`), whose `pg_hba.conf` can be as
//! strict as each mode of Weir's listener. Weir must agree with them in front of PostgreSQL 15 and 18.

#[path = "sslmodes/clients.rs"]
mod clients;
#[path = "sslmodes/server_replies.rs"]
mod server_replies;
