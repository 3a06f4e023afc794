//! Conversion of webpki's errors to those of rustls, which derives the alert to the peer from them.

use std::sync::Arc;

use rustls::{CertRevocationListError, CertificateError, Error, OtherError};

pub(crate) fn to_rustls(error: webpki::Error) -> Error {
    use webpki::Error as Webpki;
    let certificate = match error {
        Webpki::BadDer | Webpki::BadDerTime | Webpki::TrailingData(_) => {
            CertificateError::BadEncoding
        }
        Webpki::CertNotValidYet { time, not_before } => {
            CertificateError::NotValidYetContext { time, not_before }
        }
        Webpki::CertExpired { time, not_after } => {
            CertificateError::ExpiredContext { time, not_after }
        }
        Webpki::InvalidCertValidity => CertificateError::Expired,
        Webpki::UnknownIssuer => CertificateError::UnknownIssuer,
        Webpki::CertNotValidForName(name) => CertificateError::NotValidForNameContext {
            expected: name.expected,
            presented: name.presented,
        },
        Webpki::CertRevoked => CertificateError::Revoked,
        Webpki::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus,
        Webpki::CrlExpired { time, next_update } => {
            CertificateError::ExpiredRevocationListContext { time, next_update }
        }
        Webpki::IssuerNotCrlSigner => {
            return CertRevocationListError::IssuerInvalidForCrl.into();
        }
        Webpki::InvalidCrlSignatureForPublicKey => {
            return CertRevocationListError::BadSignature.into();
        }
        Webpki::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        Webpki::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    };
    certificate.into()
}
