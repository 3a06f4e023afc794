//! Warnings about settings that work, though not as they are written.

use std::path::PathBuf;

use crate::error::FileProblem;

/// A message to log when settings are loaded; never a reason to refuse them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// Versions before TLS 1.2 were asked for beside newer ones.
    #[error("{option}: TLS 1.0 and 1.1 are not supported; using {used} only")]
    OldProtocols {
        /// The option, such as `client_tls_protocols`.
        option: &'static str,
        /// The versions in use.
        used: &'static str,
    },
    /// Unsupported cipher suites were asked for, beside supported ones.
    #[error("{option}: not supported and left out: {}", names.join(", "))]
    CiphersLeftOut {
        /// The option, such as `client_tls_ciphers`.
        option: &'static str,
        /// Names as written.
        names: Vec<String>,
    },
    /// Unsupported key exchange groups were asked for, beside supported ones.
    #[error("{option}: not supported and left out: {}", names.join(", "))]
    CurvesLeftOut {
        /// The option, such as `client_tls_ecdhcurve`.
        option: &'static str,
        /// Names as written.
        names: Vec<String>,
    },
    /// A private key may be read by others and is used all the same.
    #[error("{option}: \"{}\": {problem}; it is used because strict_files is off", file.display())]
    OpenKey {
        /// The option that names the file, such as `client_tls_key_file`.
        option: &'static str,
        /// The file.
        file: PathBuf,
        /// The problem.
        problem: FileProblem,
    },
    /// Certificates of public CAs are trusted, and the host name is not checked.
    #[error(
        "server_tls_sslmode = verify-ca trusts every server that has a certificate of any public \
         CA, because server_tls_ca_file is not set; set it, or use verify-full"
    )]
    PublicRootsWithoutName,
    /// A certificate in a CA file was skipped, because it is broken or neither a CA nor self-signed.
    #[error("{option}: \"{}\": certificate {place} skipped: {reason}", file.display())]
    AuthorityLeftOut {
        /// The option, such as `server_tls_ca_file`.
        option: &'static str,
        /// The file.
        file: PathBuf,
        /// Place in the file, from 1.
        place: usize,
        /// The reason.
        reason: String,
    },
}
