//! TLS side of a scripted server: the certificate it presents and the one it requests.

use std::sync::Arc;

use anyhow::Result;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::SupportedProtocolVersion;
use rustls::server::WebPkiClientVerifier;

use super::Authority;
use super::Identity;
use super::client::ALPN;
use super::provider;

/// Configuration of a server with this certificate that requests none.
///
/// # Errors
/// When the key does not fit the certificate.
pub fn config(identity: &Identity) -> Result<Arc<ServerConfig>> {
    with_versions(identity, rustls::ALL_VERSIONS)
}

/// Configuration like [`config`], for some versions of TLS only.
///
/// # Errors
/// As [`config`].
pub fn with_versions(
    identity: &Identity,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<Arc<ServerConfig>> {
    let builder =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions)?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(identity.chain(), identity.key_der())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// Configuration of a server that requires a client certificate of this authority.
///
/// # Errors
/// As [`config`].
pub fn demanding(identity: &Identity, clients: &Authority) -> Result<Arc<ServerConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(clients.der())?;
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build()?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(rustls::ALL_VERSIONS)?;
    let mut config = builder
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain(), identity.key_der())?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}
