//! Errors of TLS settings and files. Their texts say what to do.
//!
//! Texts name files and options, never a secret.

use std::fmt;
use std::path::PathBuf;

use crate::ciphers::CipherError;
use crate::curves::CurveError;
use crate::protocols::ProtocolError;

/// Reason for which a [`Listener`](crate::listener::Listener) or a [`Connector`](crate::connector::Connector) could not
/// be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be used.
    #[error("{option}: \"{}\": {problem}", file.display())]
    File {
        /// The option that names the file, such as `client_tls_key_file`.
        option: &'static str,
        /// The file.
        file: PathBuf,
        /// The problem.
        problem: FileProblem,
    },
    /// The private key does not belong to the certificate.
    #[error(
        "the private key in \"{}\" does not belong to the certificate in \"{}\": the first \
         certificate of that file must be the one made for this key",
        key_file.display(), cert_file.display()
    )]
    KeyMismatch {
        /// File of the private key.
        key_file: PathBuf,
        /// File of the certificate chain.
        cert_file: PathBuf,
    },
    /// An option that others depend on is not set.
    #[error("{option} must be set: {reason}")]
    Missing {
        /// The option to set.
        option: &'static str,
        /// The setting that needs it.
        reason: &'static str,
    },
    /// The operating system has no CA certificates to offer.
    #[error(
        "{option}: no CA certificates of the system were found: install ca-certificates, or name a file"
    )]
    NoSystemRoots {
        /// The option that asked for them.
        option: &'static str,
    },
    /// A list of protocols is invalid.
    #[error("{option}: {problem}")]
    Protocols {
        /// The option, such as `client_tls_protocols`.
        option: &'static str,
        /// The problem.
        problem: ProtocolError,
    },
    /// A list of cipher suites is invalid.
    #[error("{option}: {problem}")]
    Ciphers {
        /// The option, such as `client_tls_ciphers`.
        option: &'static str,
        /// The problem.
        problem: CipherError,
    },
    /// A list of key exchange groups is invalid.
    #[error("{option}: {problem}")]
    Curves {
        /// The option, such as `client_tls_ecdhcurve`.
        option: &'static str,
        /// The problem.
        problem: CurveError,
    },
    /// A host name that cannot be checked against a certificate.
    #[error("\"{host}\" is neither a DNS name nor an IP address, so no certificate can match it")]
    HostName {
        /// The name as configured.
        host: String,
    },
    /// The TLS library refused the combination of settings.
    #[error("TLS settings do not fit together: {0}")]
    Settings(rustls::Error),
}

impl Error {
    /// Returns the option with the mistake, such as `client_tls_key_file`. None if it is about several.
    #[must_use]
    pub const fn option(&self) -> Option<&'static str> {
        match self {
            Self::File { option, .. }
            | Self::Missing { option, .. }
            | Self::NoSystemRoots { option }
            | Self::Protocols { option, .. }
            | Self::Ciphers { option, .. }
            | Self::Curves { option, .. } => Some(option),
            _ => None,
        }
    }
}

/// Problem of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileProblem {
    /// There is no such file.
    NotFound,
    /// The process may not read the file.
    PermissionDenied,
    /// A directory, a socket or a device.
    NotAFile,
    /// Larger than [`FILE_BYTES_MAX`](crate::material::FILE_BYTES_MAX).
    TooLarge,
    /// Reading failed for another reason.
    Read(String),
    /// The PEM armour is damaged.
    BrokenPem(String),
    /// The file has no `BEGIN CERTIFICATE`.
    NoCertificate,
    /// The certificate at this place (from 1) cannot be decoded.
    BrokenCertificate {
        /// Place in the file, from 1.
        place: usize,
        /// The decoder's message.
        reason: String,
    },
    /// The file has no private key.
    NoKey,
    /// The private key is protected by a passphrase.
    EncryptedKey,
    /// The private key is of a kind that Weir cannot use.
    UnsupportedKey(String),
    /// The private key may be read or written by others.
    KeyOpenToOthers {
        /// Permission bits of the file, `0..=0o7777`.
        mode: u32,
    },
    /// The file has no `BEGIN X509 CRL`.
    NoCrl,
    /// The CRL at this place (from 1) cannot be decoded.
    BrokenCrl {
        /// Place in the file, from 1.
        place: usize,
        /// The decoder's message.
        reason: String,
    },
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such file"),
            Self::PermissionDenied => {
                f.write_str("permission denied: the user that Weir runs as must be able to read it")
            }
            Self::NotAFile => f.write_str("is not a regular file"),
            Self::TooLarge => f.write_str("is larger than 16 MiB"),
            Self::Read(reason) => write!(f, "cannot be read: {reason}"),
            Self::BrokenPem(reason) => write!(f, "is damaged: {reason}"),
            Self::NoCertificate => f.write_str(
                "has no certificate in PEM form (\"-----BEGIN CERTIFICATE-----\"); convert DER \
                 by \"openssl x509 -inform der\"",
            ),
            Self::BrokenCertificate { place, reason } => {
                write!(f, "certificate {place} cannot be decoded: {reason}")
            }
            Self::NoKey => f.write_str(
                "has no private key in PEM form (\"-----BEGIN PRIVATE KEY-----\"); convert DER \
                 by \"openssl pkey -inform der\"",
            ),
            Self::EncryptedKey => f.write_str(
                "the private key is protected by a passphrase, which cannot be typed at a \
                 restart; store it without one by \"openssl pkey -in OLD -out NEW\", mode 0600",
            ),
            Self::UnsupportedKey(reason) => write!(
                f,
                "the private key cannot be used ({reason}); RSA of 2048 bits and more, ECDSA on \
                 P-256, P-384 and P-521, and Ed25519 can"
            ),
            Self::KeyOpenToOthers { mode } => write!(
                f,
                "the private key may be read or written by others (mode {mode:04o}); its mode \
                 must be 0600 or less, or 0640 or less if root owns it"
            ),
            Self::NoCrl => f.write_str(
                "has no revocation list in PEM form (\"-----BEGIN X509 CRL-----\"); convert DER \
                 by \"openssl crl -inform der\"",
            ),
            Self::BrokenCrl { place, reason } => {
                write!(f, "revocation list {place} cannot be decoded: {reason}")
            }
        }
    }
}
