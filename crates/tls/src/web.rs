//! Trust for clients of HTTPS: CA certificates as they stand in a file, and the cryptography that all of Weir uses.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};

use crate::error::Error;
use crate::material::{self, Source};

/// Returns the certificates of a file in DER, at least one. Blocks on the file system.
///
/// # Errors
/// The file cannot be read, or has no usable certificate. The error names `option`.
pub fn authorities(option: &'static str, file: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let found = material::certificates(Source { option, file })?;
    Ok(found.iter().map(|der| der.to_vec()).collect())
}

/// Returns the certificates of the operating system's CAs in DER, at least one. Blocks on the file system. The variable
/// `SSL_CERT_FILE` may name another file.
///
/// # Errors
/// The system has none. The error names `option`.
pub fn system_authorities(option: &'static str) -> Result<Vec<Vec<u8>>, Error> {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        return Err(Error::NoSystemRoots { option });
    }
    Ok(found.iter().map(|der| der.to_vec()).collect())
}

/// Returns the cryptography for connections.
#[must_use]
pub fn cryptography() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
