//! TLS without sockets: certificates, settings, handshakes and records, on top of rustls.
//!
//! - [`listener::Listener`] and [`connector::Connector`] turn the `client_tls_*` and `server_tls_*`
//!   options into configurations for rustls, or say what is wrong with them ([`error::Error`]).
//! - [`certificate::CertificateFacts`] is what an operator is shown of certificates,
//!   [`warning::Warning`] what is logged about settings.
//! - [`names::Identity`] is who a peer's certificate says that it is.
//! - [`end_point::end_point`] and [`alpn::alpn_is_fine`] are for after the handshake.
//! - [`protocols`], [`ciphers`] and [`curves`] read the lists that PgBouncer's options hold.
//!
//! Files are read when a configuration is made, and never again; the only clock is the one that
//! rustls judges certificates by, which can be given.

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
