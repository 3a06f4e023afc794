//! TLS for the suites: a temporary certificate authority, a client that can stop at any byte, and their files on
//! disk.
//!
//! Clients and servers here are rustls, as in Weir, but used through its blocking streams. The same suites also use
//! PostgreSQL's OpenSSL, libpq, Java, Go and Node, so that a fault of rustls would be found too.

pub mod authority;
pub mod client;
pub mod files;
pub mod server;

use std::sync::Arc;
use std::sync::OnceLock;

use rustls::crypto::CryptoProvider;

pub use authority::Authority;
pub use authority::Identity;
pub use authority::Spec;
pub use client::Dial;
pub use files::Files;
pub use files::Pki;

/// Cryptography provider of all suites.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let made = || Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Arc::clone(PROVIDER.get_or_init(made))
}
