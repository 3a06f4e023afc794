//! TLS without sockets: certificates, settings, handshakes and records, on top of rustls.
//!
//! - [`listener::Listener`] and [`connector::Connector`] turn the `client_tls_*` and `server_tls_*` options into
//!   configurations for rustls, or report the mistake ([`error::Error`]).
//! - [`certificate::CertificateFacts`] has the facts of a certificate for operators, [`warning::Warning`] the warnings
//!   about settings.
//! - [`names::Identity`] has the names that a peer's certificate claims.
//! - [`end_point::end_point`] and [`alpn::alpn_is_fine`] are for use after the handshake.
//! - [`web`] has what a client of HTTPS needs.
//! - [`protocols`], [`ciphers`] and [`curves`] parse the lists in PgBouncer's options.
//!
//! Files are read when a configuration is made, and never again. The only clock is the one by which rustls judges
//! certificates, and the caller can replace it.

pub mod alpn;
pub mod certificate;
mod chain;
pub mod ciphers;
pub mod connector;
pub mod curves;
pub mod end_point;
pub mod error;
mod host;
pub mod listener;
pub mod material;
pub mod names;
pub mod protocols;
mod provider;
pub mod session;
mod trust;
mod verifier;
pub mod warning;
pub mod web;
