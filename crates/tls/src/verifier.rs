//! Verifiers that rustls calls to check the peer's certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::chain::{self, Chain, Purpose};
use crate::host;

/// `verify-ca` and `verify-full`: a server's certificate must lead back to a trusted CA, and for `verify-full` be for
/// the configured host.
#[derive(Debug)]
pub(crate) struct VerifyServer {
    pub(crate) chain: Chain,
    pub(crate) check_host: bool,
}

impl ServerCertVerifier for VerifyServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.chain
            .verify(end_entity, intermediates, now, Purpose::Server)?;
        if self.check_host {
            host::verify(end_entity, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        chain::verify_handshake_tls12(message, certificate, signature, &self.chain.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        chain::verify_handshake_tls13(message, certificate, signature, &self.chain.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.algorithms.supported_schemes()
    }
}

/// `allow`, `prefer` and `require`: any certificate is accepted. The server still has to prove that it holds the key of
/// its certificate, because channel binding depends on that.
#[derive(Debug)]
pub(crate) struct DangerAcceptAnyServer {
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for DangerAcceptAnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        chain::verify_handshake_tls12(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        chain::verify_handshake_tls13(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Verifier of client certificates: a certificate that is sent must lead back to a trusted CA.
#[derive(Debug)]
pub(crate) struct VerifyClient {
    pub(crate) chain: Chain,
    pub(crate) mandatory: bool,
    /// Subjects of the trusted CAs, which tell a client which certificate to show.
    pub(crate) hints: Arc<[DistinguishedName]>,
}

impl ClientCertVerifier for VerifyClient {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.chain
            .verify(end_entity, intermediates, now, Purpose::Client)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        chain::verify_handshake_tls12(message, certificate, signature, &self.chain.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        chain::verify_handshake_tls13(message, certificate, signature, &self.chain.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.algorithms.supported_schemes()
    }
}
