//! Server side: turns `server_tls_*` into a configuration for rustls.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};

use crate::alpn::POSTGRESQL;
use crate::certificate::{CertificateFacts, RevocationListFacts};
use crate::curves::Curves;
use crate::error::Error;
use crate::listener::own_facts;
use crate::material::{self, OpenKeys};
use crate::provider::{Choice, OptionNames, provider};
use crate::trust::{Trust, source};
use crate::verifier::{DangerAcceptAnyServer, VerifyServer};
use crate::warning::Warning;

const KEY_FILE: &str = "server_tls_key_file";
const CERT_FILE: &str = "server_tls_cert_file";
const CA_FILE: &str = "server_tls_ca_file";
const CRL_FILE: &str = "server_tls_crl_file";
const NAMES: OptionNames = OptionNames {
    protocols: "server_tls_protocols",
    ciphers: "server_tls_ciphers",
    tls13_ciphers: "server_tls13_ciphers",
    curves: "server_tls_ecdhcurve",
};

/// Extent to which a server's certificate is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Only that the server holds its key: `allow`, `prefer` and `require`.
    None,
    /// As `None`, and that the certificate leads back to a trusted CA: `verify-ca`.
    Ca,
    /// As `Ca`, and that the certificate is for the host: `verify-full`.
    Full,
}

/// Values of the `server_tls_*` options. Texts may be empty, for the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorOptions {
    /// Extent of verification, from `server_tls_sslmode`.
    pub verify: Verify,
    /// `server_tls_ca_file`: CAs that sign servers' certificates. Without it, and for the word `system` as in libpq's
    /// `sslrootcert`, those of the operating system. Not read by [`Verify::None`].
    pub ca_file: Option<PathBuf>,
    /// `server_tls_crl_file`: servers' certificates that their CA revoked. Not read by [`Verify::None`].
    pub crl_file: Option<PathBuf>,
    /// `server_tls_key_file`: private key of the certificate that Weir shows to servers that ask.
    pub key_file: Option<PathBuf>,
    /// `server_tls_cert_file`: that certificate.
    pub cert_file: Option<PathBuf>,
    /// Treatment of a key that others may read.
    pub open_keys: OpenKeys,
    /// `server_tls_protocols`: see [`Protocols::parse`](crate::protocols::Protocols::parse).
    pub protocols: String,
    /// `server_tls_ciphers`: see [`Suites::parse_tls12`](crate::ciphers::Suites::parse_tls12).
    pub ciphers: String,
    /// `server_tls13_ciphers`: see [`Suites::parse_tls13`](crate::ciphers::Suites::parse_tls13).
    pub tls13_ciphers: String,
}

impl ConnectorOptions {
    /// Returns the defaults, with this extent of verification.
    pub fn new(verify: Verify) -> Self {
        Self {
            verify,
            ca_file: None,
            crl_file: None,
            key_file: None,
            cert_file: None,
            open_keys: OpenKeys::Refuse,
            protocols: String::new(),
            ciphers: String::new(),
            tls13_ciphers: String::new(),
        }
    }
}

/// State for TLS connections to servers, made once per load of the configuration and shared.
///
/// The connector always offers `postgresql` by ALPN, as libpq does since PostgreSQL 17; older servers ignore it. After
/// a direct handshake, ask [`alpn_is_fine`](crate::alpn::alpn_is_fine).
#[derive(Debug, Clone)]
pub struct Connector {
    /// Configuration for rustls.
    pub config: Arc<ClientConfig>,
    /// Weir's certificates and those of the CA file; not the CAs of the operating system.
    pub certificates: Vec<CertificateFacts>,
    /// The lists in the CRL file.
    pub revocation_lists: Vec<RevocationListFacts>,
    /// Warnings to log.
    pub warnings: Vec<Warning>,
}

impl Connector {
    /// Reads the files and makes the configuration. Blocks on the file system.
    ///
    /// # Errors
    /// A file is missing, unreadable, unsafe or of no use; key and certificate do not belong together; or an option has
    /// an invalid value.
    pub fn build(options: &ConnectorOptions) -> Result<Self, Error> {
        Self::build_with_time(options, Arc::new(DefaultTimeProvider))
    }

    /// As [`Connector::build`], with another clock to judge servers' certificates by.
    ///
    /// # Errors
    /// As [`Connector::build`].
    pub fn build_with_time(
        options: &ConnectorOptions,
        time: Arc<dyn TimeProvider>,
    ) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        let choice = Choice {
            protocols: &options.protocols,
            ciphers: &options.ciphers,
            tls13_ciphers: &options.tls13_ciphers,
            curves: "",
        };
        let (provider, protocols) =
            provider(NAMES, choice, Curves::connector_default(), &mut warnings)?;
        let mut certificates = Vec::new();
        let mut revocation_lists = Vec::new();
        let verifier: Arc<dyn ServerCertVerifier> = match server_trust(options, &provider)? {
            None => {
                let algorithms = provider.signature_verification_algorithms;
                Arc::new(DangerAcceptAnyServer { algorithms })
            }
            Some(trust) => {
                certificates.extend(trust.facts);
                revocation_lists.extend(trust.lists);
                warnings.extend(trust.warnings);
                let check_host = options.verify == Verify::Full;
                Arc::new(VerifyServer {
                    chain: trust.chain,
                    check_host,
                })
            }
        };
        let own = own_key(options, &provider, &mut certificates, &mut warnings)?;
        let builder = ClientConfig::builder_with_details(provider, time)
            .with_protocol_versions(&protocols.versions())
            .map_err(Error::Settings)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match own {
            Some(key) => builder.with_client_cert_resolver(Arc::new(key)),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![POSTGRESQL.to_vec()];
        // No resumption: a server that was verified before must be verified again after a RELOAD.
        config.resumption = Resumption::disabled();
        Ok(Self {
            config: Arc::new(config),
            certificates,
            revocation_lists,
            warnings,
        })
    }

    /// Returns the name by which a server is addressed (SNI, unless it is an IP address) and, with [`Verify::Full`],
    /// verified: the host as configured, never a name that DNS gave for it.
    ///
    /// # Errors
    /// The host is neither a DNS name nor an IP address.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, Error> {
        // IPv6 addresses may be written with brackets and a zone.
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(host);
        let bare = bare
            .split_once('%')
            .map_or(bare, |(address, _zone)| address);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(ServerName::IpAddress(address.into()));
        }
        ServerName::try_from(host.to_owned()).map_err(|_| Error::HostName {
            host: host.to_owned(),
        })
    }
}

/// Loads the CAs that servers are verified against; `None` if any certificate is accepted.
fn server_trust(
    options: &ConnectorOptions,
    provider: &CryptoProvider,
) -> Result<Option<Trust>, Error> {
    if options.verify == Verify::None {
        return Ok(None);
    }
    let revoked = source(CRL_FILE, options.crl_file.as_deref());
    let authorities = options
        .ca_file
        .as_deref()
        .filter(|file| *file != Path::new("system"));
    let trust = match source(CA_FILE, authorities) {
        Some(authorities) => Trust::file(authorities, revoked, provider)?,
        None => {
            let mut trust = Trust::system(CA_FILE, revoked, provider)?;
            if options.verify == Verify::Ca {
                trust.warnings.push(Warning::PublicRootsWithoutName);
            }
            trust
        }
    };
    Ok(Some(trust))
}

fn own_key(
    options: &ConnectorOptions,
    provider: &CryptoProvider,
    certificates: &mut Vec<CertificateFacts>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<SingleCertAndKey>, Error> {
    let key = source(KEY_FILE, options.key_file.as_deref());
    let cert = source(CERT_FILE, options.cert_file.as_deref());
    let (key, cert) = match (key, cert) {
        (None, None) => return Ok(None),
        (Some(key), Some(cert)) => (key, cert),
        (None, Some(_)) => {
            let reason = "server_tls_cert_file is, and is of no use without its private key";
            return Err(Error::Missing {
                option: KEY_FILE,
                reason,
            });
        }
        (Some(_), None) => {
            let reason = "server_tls_key_file is, and is of no use without its certificate";
            return Err(Error::Missing {
                option: CERT_FILE,
                reason,
            });
        }
    };
    let certified = material::certified_key(key, cert, provider, (options.open_keys, warnings))?;
    certificates.extend(own_facts(cert, &certified.cert)?);
    Ok(Some(SingleCertAndKey::from(certified)))
}
