//! Who talks how to whom: every `sslmode` of every driver at every listener mode, and every mode of the server hop with
//! every answer that a server can give.
//!
//! The tables of the client hop come from PostgreSQL itself (`CONFORMANCE_TARGET=direct`), whose `pg_hba.conf` can be
//! as strict as each mode of Weir's listener; Weir has to agree with them in front of PostgreSQL 15 and 18.

#[path = "sslmodes/clients.rs"]
mod clients;
#[path = "sslmodes/server_replies.rs"]
mod server_replies;
