//! Tests of handshakes between Listener and Connector in memory, with certificates made for each case.
#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in helpers too"
)]

mod alpn;
mod certificates;
mod clients;
mod cost;
mod end_point;
mod files;
mod handshake;
mod hosts;
mod pki;
mod settings;
