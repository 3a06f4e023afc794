//! Client side: turns `client_tls_*` into a configuration for rustls.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{DistinguishedName, ServerConfig};

use crate::alpn::POSTGRESQL;
use crate::certificate::{CertificateFacts, CertificateRole, RevocationListFacts};
use crate::chain::Chain;
use crate::curves::Curves;
use crate::end_point::end_point;
use crate::error::{Error, FileProblem};
use crate::material::{self, OpenKeys, Source};
use crate::provider::{Choice, OptionNames, provider};
use crate::trust::{Trust, source};
use crate::verifier::VerifyClient;
use crate::warning::Warning;

const KEY_FILE: &str = "client_tls_key_file";
const CERT_FILE: &str = "client_tls_cert_file";
const CA_FILE: &str = "client_tls_ca_file";
const CRL_FILE: &str = "client_tls_crl_file";
const NAMES: OptionNames = OptionNames {
    protocols: "client_tls_protocols",
    ciphers: "client_tls_ciphers",
    tls13_ciphers: "client_tls13_ciphers",
    curves: "client_tls_ecdhcurve",
};

/// Policy on client certificates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Clients are not asked, so none is sent: `allow`, `prefer` and `require` of PgBouncer.
    #[default]
    None,
    /// Clients are asked and may have none. A certificate that is sent must lead back to the CA file, or the handshake
    /// fails. PostgreSQL does so once `ssl_ca_file` is set.
    Optional,
    /// Clients must send a certificate that leads back to the CA file: `verify-ca` and `verify-full`.
    Required,
}

/// Values of the `client_tls_*` options. Texts may be empty, for the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenerOptions {
    /// `client_tls_key_file`: private key in PEM form.
    pub key_file: Option<PathBuf>,
    /// `client_tls_cert_file`: Weir's certificate in PEM form, and those that lead to its CA.
    pub cert_file: Option<PathBuf>,
    /// `client_tls_ca_file`: CAs that sign clients' certificates; required if clients are asked for one.
    pub ca_file: Option<PathBuf>,
    /// `client_tls_crl_file`: clients' certificates that their CA revoked.
    pub crl_file: Option<PathBuf>,
    /// Policy on client certificates.
    pub client_certificate: ClientCertificate,
    /// Treatment of a key that others may read.
    pub open_keys: OpenKeys,
    /// `client_tls_protocols`: see [`Protocols::parse`](crate::protocols::Protocols::parse).
    pub protocols: String,
    /// `client_tls_ciphers`: see [`Suites::parse_tls12`](crate::ciphers::Suites::parse_tls12).
    pub ciphers: String,
    /// `client_tls13_ciphers`: see [`Suites::parse_tls13`](crate::ciphers::Suites::parse_tls13).
    pub tls13_ciphers: String,
    /// `client_tls_ecdhcurve`: see [`Curves::parse`].
    pub curve: String,
}

/// State for TLS connections from clients, made once per load of the configuration and shared.
///
/// ```no_run
/// use std::sync::Arc;
/// use weir_tls::alpn::alpn_is_fine;
/// use weir_tls::listener::{Listener, ListenerOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = Listener::build(&ListenerOptions {
///     key_file: Some("/etc/weir/server.key".into()),
///     cert_file: Some("/etc/weir/server.crt".into()),
///     ciphers: "HIGH:!aNULL:!MD5".to_owned(),
///     ..ListenerOptions::default()
/// })?;
/// let connection = rustls::ServerConnection::new(Arc::clone(&listener.config))?;
/// // ... once the handshake is finished:
/// let direct = true;
/// if !alpn_is_fine(direct, connection.alpn_protocol()) {
///     // close the connection
/// }
/// # Ok(())
/// # }
/// ```
///
/// The same configuration serves direct TLS and SSLRequest. After the handshake
/// [`alpn_is_fine`](crate::alpn::alpn_is_fine) decides if the connection may go on.
#[derive(Debug, Clone)]
pub struct Listener {
    /// Configuration for rustls.
    pub config: Arc<ServerConfig>,
    /// Channel binding data of Weir's certificate. `None` if it has none; SCRAM-SHA-256-PLUS must not be offered then.
    pub end_point: Option<Vec<u8>>,
    /// Weir's certificates and those of the CA file.
    pub certificates: Vec<CertificateFacts>,
    /// The lists in the CRL file.
    pub revocation_lists: Vec<RevocationListFacts>,
    /// Warnings to log.
    pub warnings: Vec<Warning>,
}

impl Listener {
    /// Reads the files and makes the configuration. Blocks on the file system.
    ///
    /// # Errors
    /// A file is missing, unreadable, unsafe or of no use; key and certificate do not belong together; or an option has
    /// an invalid value.
    pub fn build(options: &ListenerOptions) -> Result<Self, Error> {
        Self::build_with_time(options, Arc::new(DefaultTimeProvider))
    }

    /// As [`Listener::build`], with another clock to judge clients' certificates by.
    ///
    /// # Errors
    /// As [`Listener::build`].
    pub fn build_with_time(
        options: &ListenerOptions,
        time: Arc<dyn TimeProvider>,
    ) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        let choice = Choice {
            protocols: &options.protocols,
            ciphers: &options.ciphers,
            tls13_ciphers: &options.tls13_ciphers,
            curves: &options.curve,
        };
        let (provider, protocols) =
            provider(NAMES, choice, Curves::listener_default(), &mut warnings)?;
        let reason = "clients are to be accepted with TLS";
        let (key_source, cert_source) = (
            source(KEY_FILE, options.key_file.as_deref()).ok_or(Error::Missing {
                option: KEY_FILE,
                reason,
            })?,
            source(CERT_FILE, options.cert_file.as_deref()).ok_or(Error::Missing {
                option: CERT_FILE,
                reason,
            })?,
        );
        let key = material::certified_key(
            key_source,
            cert_source,
            &provider,
            (options.open_keys, &mut warnings),
        )?;
        let mut certificates = own_facts(cert_source, &key.cert)?;
        let mut revocation_lists = Vec::new();
        let verifier = match client_trust(options, &provider)? {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(trust) => {
                certificates.extend(trust.facts);
                revocation_lists.extend(trust.lists);
                warnings.extend(trust.warnings);
                client_verifier(trust.chain, options.client_certificate)
            }
        };
        let end_point = key
            .cert
            .first()
            .and_then(|certificate| end_point(certificate));
        let mut config = ServerConfig::builder_with_details(provider, time)
            .with_protocol_versions(&protocols.versions())
            .map_err(Error::Settings)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        harden(&mut config);
        Ok(Self {
            config: Arc::new(config),
            end_point,
            certificates,
            revocation_lists,
            warnings,
        })
    }
}

/// Applies the settings that do not depend on options.
fn harden(config: &mut ServerConfig) {
    config.alpn_protocols = vec![POSTGRESQL.to_vec()];
    // No resumption. A ticket would outlive a RELOAD that removes a client's CA or certificate, and clients of a pooler
    // stay connected, so there is little to gain.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    // An attacker could record early data and replay it.
    config.max_early_data_size = 0;
    // Weir's order of ciphers, cheapest first, rather than the client's: all on offer are safe, and Weir's processor
    // serves thousands of clients.
    config.ignore_client_order = true;
}

/// Loads the CAs that clients are verified against; `None` if clients are not asked for a certificate.
fn client_trust(
    options: &ListenerOptions,
    provider: &CryptoProvider,
) -> Result<Option<Trust>, Error> {
    if options.client_certificate == ClientCertificate::None {
        return Ok(None);
    }
    let reason = "certificates of clients are to be verified";
    let authorities = source(CA_FILE, options.ca_file.as_deref()).ok_or(Error::Missing {
        option: CA_FILE,
        reason,
    })?;
    let revoked = source(CRL_FILE, options.crl_file.as_deref());
    Trust::file(authorities, revoked, provider).map(Some)
}

fn client_verifier(chain: Chain, policy: ClientCertificate) -> Arc<dyn ClientCertVerifier> {
    // The names tell a client which certificate to show. Certificates that are trusted only for themselves are named,
    // too.
    let hints = chain
        .subjects()
        .map(|subject| DistinguishedName::in_sequence(&subject))
        .collect();
    let mandatory = policy == ClientCertificate::Required;
    Arc::new(VerifyClient {
        chain,
        mandatory,
        hints,
    })
}

/// Returns the facts of the certificates that Weir presents.
pub(crate) fn own_facts(
    chain: Source<'_>,
    certificates: &[CertificateDer<'_>],
) -> Result<Vec<CertificateFacts>, Error> {
    let facts = certificates.iter().enumerate().map(|(index, der)| {
        let role = if index == 0 {
            CertificateRole::Own
        } else {
            CertificateRole::Chain
        };
        CertificateFacts::new(chain.file, role, der).map_err(|error| {
            let (place, reason) = (index + 1, error.reason);
            chain.error(FileProblem::BrokenCertificate { place, reason })
        })
    });
    facts.collect()
}
