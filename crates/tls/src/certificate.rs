//! A decoded X.509 certificate: the facts shown of it, and the parts that verification needs.
//!
//! Decoding proves nothing: the content of a peer's certificate is a claim until a verifying handshake has finished.

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};

use crate::names::dn;

const SECONDS_PER_DAY: i64 = 24 * 60 * 60;

/// Use of a certificate in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateRole {
    /// Weir's own certificate, presented to peers.
    Own,
    /// Presented after Weir's own, so that the peer finds a path to its CA.
    Chain,
    /// Trusted to sign certificates of peers.
    Authority,
}

/// Validity of a certificate at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Validity {
    /// The time is neither before the first nor after the last second of validity.
    Valid,
    /// Validity has not begun: the clock here or at the CA may be wrong.
    NotYetValid,
    /// Validity has ended: peers refuse the certificate.
    Expired,
}

/// Facts of a configured certificate for `SHOW TLS`, the metrics and the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The file that it was read from.
    pub file: PathBuf,
    /// The use of the certificate.
    pub role: CertificateRole,
    /// Subject in the form of RFC 2253.
    pub subject: String,
    /// Issuer in the form of RFC 2253.
    pub issuer: String,
    /// Serial number in lower-case hex, two digits per byte.
    pub serial: String,
    /// First second of validity, in seconds since 1970-01-01 UTC.
    pub not_before: i64,
    /// Last second of validity, in seconds since 1970-01-01 UTC.
    pub not_after: i64,
    /// SHA-256 over the whole certificate, in lower-case hex, 64 digits.
    pub sha256: String,
    /// Kind of the public key.
    pub key: KeyKind,
}

/// Kind of a public key, which decides what a signature costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyKind {
    /// RSA of any size: signatures are dear.
    Rsa,
    /// Any other kind, such as ECDSA or Ed25519.
    Other,
}

impl KeyKind {
    /// Tells the kind by the object identifier of the key's algorithm: `rsaEncryption` or `id-RSASSA-PSS` (RFC 8017,
    /// appendix C).
    fn of(algorithm: &str) -> Self {
        match algorithm {
            "1.2.840.113549.1.1.1" | "1.2.840.113549.1.1.10" => Self::Rsa,
            _ => Self::Other,
        }
    }
}

impl CertificateFacts {
    /// Returns the whole days until the certificate expires at `now` (seconds since 1970-01-01 UTC), rounded down: 0 on
    /// the last day, negative once expired.
    pub fn days_left(&self, now: i64) -> i64 {
        self.not_after
            .saturating_sub(now)
            .div_euclid(SECONDS_PER_DAY)
    }

    /// Returns the validity at `now`, in seconds since 1970-01-01 UTC.
    pub fn validity(&self, now: i64) -> Validity {
        if now < self.not_before {
            Validity::NotYetValid
        } else if now > self.not_after {
            Validity::Expired
        } else {
            Validity::Valid
        }
    }

    pub(crate) fn new(file: &Path, role: CertificateRole, der: &[u8]) -> Result<Self, DecodeError> {
        let certificate = decode(der)?;
        let tbs = certificate.tbs_certificate();
        Ok(Self {
            file: file.to_path_buf(),
            role,
            subject: dn::rfc2253(tbs.subject()),
            issuer: dn::rfc2253(tbs.issuer()),
            serial: hex(tbs.serial_number().as_bytes()),
            not_before: unix_seconds(tbs.validity().not_before),
            not_after: unix_seconds(tbs.validity().not_after),
            sha256: hex(&Sha256::digest(der)),
            key: KeyKind::of(&tbs.subject_public_key_info().algorithm.oid.to_string()),
        })
    }
}

/// Facts of a revocation list. Once a list is out of date, certificates of its issuer are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevocationListFacts {
    /// The file that it was read from.
    pub file: PathBuf,
    /// The CA that made it, in the form of RFC 2253.
    pub issuer: String,
    /// Time at which the CA publishes the next list, in seconds since 1970-01-01 UTC. From then on this list is out of
    /// date. `None` if it never is.
    pub next_update: Option<i64>,
}

/// A certificate that cannot be decoded; the text is the decoder's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("certificate cannot be decoded: {reason}")]
pub struct DecodeError {
    pub(crate) reason: String,
}

impl From<x509_cert::der::Error> for DecodeError {
    fn from(error: x509_cert::der::Error) -> Self {
        Self {
            reason: error.to_string(),
        }
    }
}

pub(crate) fn decode(der: &[u8]) -> Result<Certificate, DecodeError> {
    Ok(Certificate::from_der(der)?)
}

/// The public key of a certificate: DER of its SubjectPublicKeyInfo.
pub(crate) fn public_key(certificate: &CertificateDer<'_>) -> Result<Vec<u8>, DecodeError> {
    let certificate = decode(certificate)?;
    Ok(certificate
        .tbs_certificate()
        .subject_public_key_info()
        .to_der()?)
}

/// Converts to seconds since 1970-01-01 UTC. X.509 ends at the year 9999, which fits.
pub(crate) fn unix_seconds(time: x509_cert::time::Time) -> i64 {
    i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or('?');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}
