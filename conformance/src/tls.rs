//! TLS for the suites: a throw-away certificate authority, a client that can stop at any byte, and their files on disk.
//!
//! Clients and servers here are rustls, as in Weir, but driven by its blocking streams; PostgreSQL's OpenSSL, libpq,
//! Java, Go and Node stand against it in the same suites, so that a fault of rustls would show too.

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

/// The one cryptography of the suites.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let made = || Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Arc::clone(PROVIDER.get_or_init(made))
}
