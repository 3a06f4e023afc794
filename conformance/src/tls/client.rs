//! A TLS client with separate steps: with `SSLRequest` or direct, with or without ALPN, stopping where a test wants.

use std::io;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::bail;
use rustls::ClientConfig;
use rustls::ClientConnection;
use rustls::DigitallySignedStruct;
use rustls::RootCertStore;
use rustls::SignatureScheme;
use rustls::SupportedProtocolVersion;
use rustls::client::Resumption;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::UnixTime;

use super::Authority;
use super::Identity;
use super::provider;
use crate::Raw;
use crate::frontend;

/// Time limit of a read.
const PATIENCE: Duration = Duration::from_secs(30);

/// Name of the protocol in ALPN (PostgreSQL manual, 55.2.11).
pub const ALPN: &[u8] = b"postgresql";

/// TLS options for connections; each connection is new, without resumption unless asked for.
#[derive(Clone, Debug)]
pub struct Dial {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Options of a [`Dial`].
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// Trusted authority; `None` disables the check of certificates.
    pub authority: Option<&'a Authority>,
    /// Certificate to present on request.
    pub identity: Option<&'a Identity>,
    /// Protocols to offer.
    pub alpn: &'a [&'a [u8]],
    /// Versions to offer; empty for 1.2 and 1.3.
    pub versions: &'a [&'static SupportedProtocolVersion],
    /// Keeps tickets and uses them for the next connection of this [`Dial`].
    pub resumes: bool,
}

impl Dial {
    /// Checks the certificate and its name `localhost`, and offers what libpq offers.
    ///
    /// # Errors
    /// When the cryptography fails.
    pub fn new(authority: &Authority) -> Result<Self> {
        Self::with(&Options {
            authority: Some(authority),
            alpn: &[ALPN],
            ..Options::default()
        })
    }

    /// Creates a client like [`Dial::new`], with a certificate of its own.
    ///
    /// # Errors
    /// When the cryptography fails.
    pub fn as_client(authority: &Authority, identity: &Identity) -> Result<Self> {
        Self::with(&Options {
            authority: Some(authority),
            identity: Some(identity),
            alpn: &[ALPN],
            ..Options::default()
        })
    }

    /// Creates a client with any combination of options.
    ///
    /// # Errors
    /// When the cryptography fails.
    pub fn with(options: &Options<'_>) -> Result<Self> {
        let versions = match options.versions {
            [] => rustls::ALL_VERSIONS,
            some => some,
        };
        let builder =
            ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions)?;
        let builder = match options.authority {
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.der())?;
                builder.with_root_certificates(roots)
            }
            None => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Gullible(provider()))),
        };
        let mut config = match options.identity {
            Some(own) => builder.with_client_auth_cert(own.chain(), own.key_der())?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = options.alpn.iter().map(|name| name.to_vec()).collect();
        if !options.resumes {
            config.resumption = Resumption::disabled();
        }
        Ok(Self {
            config: Arc::new(config),
            name: ServerName::try_from("localhost")?,
        })
    }

    /// Bytes of a `ClientHello`, including the record header.
    ///
    /// # Errors
    /// When the cryptography fails.
    pub fn hello(&self) -> Result<Vec<u8>> {
        let mut connection = self.connection()?;
        let mut bytes = Vec::new();
        connection.write_tls(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends `SSLRequest`, expects the answer `S`, and does the handshake.
    ///
    /// # Errors
    /// When the answer differs, or the handshake fails.
    pub fn request(&self, port: u16) -> Result<Raw> {
        self.upgrade(Raw::tcp(port, PATIENCE)?)
    }

    /// Does the steps of [`Dial::request`] on an unused connection.
    ///
    /// # Errors
    /// When the answer is not `S`, or the handshake fails.
    pub fn upgrade(&self, mut raw: Raw) -> Result<Raw> {
        raw.send(&frontend::ssl_request())?;
        let mut answer = [0];
        // Read from the socket, not from the buffer: later bytes belong to TLS.
        let mut stream = raw.stream();
        stream
            .read_exact(&mut answer)
            .context("no answer to SSLRequest")?;
        if answer != *b"S" {
            bail!("answer to SSLRequest: {}", answer.escape_ascii());
        }
        self.handshake(raw.into_stream()?)
    }

    /// Connects with TLS from the first byte on, as in PostgreSQL 17 and later.
    ///
    /// # Errors
    /// When the handshake fails.
    pub fn direct(&self, port: u16) -> Result<Raw> {
        self.handshake(Raw::tcp(port, PATIENCE)?.into_stream()?)
    }

    /// Does the handshake on a connected socket, regardless of earlier messages.
    ///
    /// # Errors
    /// When the handshake fails; the error begins with `handshake`.
    pub fn handshake(&self, mut stream: TcpStream) -> Result<Raw> {
        let mut connection = self.connection()?;
        while connection.is_handshaking() {
            connection
                .complete_io(&mut stream)
                .map_err(|error| anyhow!("handshake: {error}"))?;
        }
        Raw::from_tls(connection, stream, PATIENCE)
    }

    /// Creates the connection of a handshake, for tests that examine it.
    ///
    /// # Errors
    /// When the name or configuration is bad.
    pub fn connection(&self) -> Result<ClientConnection> {
        let made = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        Ok(made?)
    }

    /// Connects with `SSLRequest` and logs in with method trust.
    ///
    /// # Errors
    /// When any step is refused.
    pub fn login(&self, port: u16, user: &str, database: &str) -> Result<Raw> {
        let mut raw = self.request(port)?;
        raw.login(&[("user", user), ("database", database)])?;
        Ok(raw)
    }

    /// Cancels the running query of another connection, through a TLS connection of its own.
    ///
    /// # Errors
    /// When the handshake fails.
    pub fn cancel(&self, port: u16, key: &(i32, Vec<u8>)) -> Result<()> {
        let mut raw = self.request(port)?;
        raw.send(&frontend::cancel_request(key.0, &key.1))?;
        raw.read_to_close()?;
        Ok(())
    }
}

/// TLS connection and its socket.
#[derive(Debug)]
pub(crate) struct TlsStream {
    pub(crate) connection: ClientConnection,
    pub(crate) socket: TcpStream,
}

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        rustls::Stream::new(&mut self.connection, &mut self.socket).read(into)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        rustls::Stream::new(&mut self.connection, &mut self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        rustls::Stream::new(&mut self.connection, &mut self.socket).flush()
    }
}

/// Accepts every certificate: for tests about other subjects.
#[derive(Debug)]
struct Gullible(Arc<CryptoProvider>);

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
