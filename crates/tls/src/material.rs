//! Readers of certificates, private keys, CA bundles and revocation lists in PEM files.
//!
//! These functions block on the file system and are for start-up and RELOAD, never for a worker's loop. A private key
//! is wiped from Weir's memory once the TLS library has taken it over.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use crate::certificate;
use crate::error::{Error, FileProblem};
use crate::warning::Warning;

/// Maximum bytes read of a file: 16 MiB, a hundred times the bundle of all public CAs.
pub const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A file, and the option that names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) option: &'static str,
    pub(crate) file: &'a Path,
}

/// Treatment of a private key that others may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenKeys {
    /// Refuse the key, as PostgreSQL does.
    #[default]
    Refuse,
    /// Use the key and warn. Everybody on this machine may pretend to be its owner.
    DangerAccept,
}

impl Source<'_> {
    pub(crate) fn error(&self, problem: FileProblem) -> Error {
        Error::File {
            option: self.option,
            file: self.file.to_path_buf(),
            problem,
        }
    }
}

/// Loads Weir's certificate chain and its private key, and proves that they belong together.
pub(crate) fn certified_key(
    key: Source<'_>,
    chain: Source<'_>,
    provider: &CryptoProvider,
    (open_keys, warnings): (OpenKeys, &mut Vec<Warning>),
) -> Result<Arc<CertifiedKey>, Error> {
    let certificates = certificates(chain)?;
    if open_keys == OpenKeys::DangerAccept {
        warnings.extend(open_key(key)?);
    }
    let private = private_key(key, open_keys)?;
    let private = provider
        .key_provider
        .load_private_key(private)
        .map_err(|error| key.error(FileProblem::UnsupportedKey(error.to_string())))?;
    let leaf = certificates
        .first()
        .ok_or_else(|| chain.error(FileProblem::NoCertificate))?;
    let public = certificate::public_key(leaf).map_err(|error| {
        chain.error(FileProblem::BrokenCertificate {
            place: 1,
            reason: error.reason,
        })
    })?;
    // Not CertifiedKey::keys_match: it refuses certificates of X.509 version 1, which `openssl x509 -req`, as in
    // PostgreSQL's manual, makes with OpenSSL 3.0 and older.
    if private
        .public_key()
        .is_some_and(|own| own.as_ref() != public)
    {
        return Err(Error::KeyMismatch {
            key_file: key.file.to_path_buf(),
            cert_file: chain.file.to_path_buf(),
        });
    }
    Ok(Arc::new(CertifiedKey::new(certificates, private)))
}

/// Returns all certificates of a file, at least one, in the order of the file.
pub(crate) fn certificates(source: Source<'_>) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = sections(source, &read(source, Content::Public)?)?
        .into_iter()
        .filter_map(|(kind, der)| CertificateDer::from_pem(kind, der))
        .collect::<Vec<_>>();
    if found.is_empty() {
        return Err(source.error(FileProblem::NoCertificate));
    }
    Ok(found)
}

/// Returns all revocation lists of a file, at least one.
pub(crate) fn revocation_lists(
    source: Source<'_>,
) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
    let found = sections(source, &read(source, Content::Public)?)?
        .into_iter()
        .filter_map(|(kind, der)| CertificateRevocationListDer::from_pem(kind, der))
        .collect::<Vec<_>>();
    if found.is_empty() {
        return Err(source.error(FileProblem::NoCrl));
    }
    Ok(found)
}

/// Returns the first private key of a file: PKCS #8, PKCS #1 (RSA) or SEC 1 (EC), not encrypted.
///
/// The file may also hold certificates, and the curve parameters that `openssl ecparam` writes before the key.
fn private_key(source: Source<'_>, open_keys: OpenKeys) -> Result<PrivateKeyDer<'static>, Error> {
    let content = match open_keys {
        OpenKeys::Refuse => Content::Secret,
        OpenKeys::DangerAccept => Content::Public,
    };
    let bytes = read(source, content)?;
    // rustls knows neither form: it would skip the first and report the second as broken base64.
    if contains(&bytes, b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
        || contains(&bytes, b"Proc-Type: 4,ENCRYPTED")
    {
        return Err(source.error(FileProblem::EncryptedKey));
    }
    let key = PrivateKeyDer::pem_slice_iter(&bytes).next();
    match key {
        Some(Ok(key)) => Ok(key),
        Some(Err(error)) => Err(source.error(FileProblem::BrokenPem(describe(&error)))),
        None => Err(source.error(FileProblem::NoKey)),
    }
}

fn sections(source: Source<'_>, bytes: &[u8]) -> Result<Vec<(SectionKind, Vec<u8>)>, Error> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| source.error(FileProblem::BrokenPem(describe(&error))))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Public,
    Secret,
}

fn read(source: Source<'_>, content: Content) -> Result<Zeroizing<Vec<u8>>, Error> {
    let problem = |error: std::io::Error| source.error(from_io(&error));
    // Opening a FIFO would wait for a writer, so the type is checked first. The checks that matter for safety are made
    // on the open file, which cannot be replaced any more.
    if !std::fs::metadata(source.file).map_err(problem)?.is_file() {
        return Err(source.error(FileProblem::NotAFile));
    }
    let file = File::open(source.file).map_err(problem)?;
    let metadata = file.metadata().map_err(problem)?;
    if content == Content::Secret {
        check_key_mode(metadata.mode(), metadata.uid()).map_err(|problem| source.error(problem))?;
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(source.error(FileProblem::TooLarge));
    }
    let capacity = usize::try_from(metadata.len())
        .unwrap_or(0)
        .saturating_add(1);
    // Sized at once, because a growing vector would leave copies of a key behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(problem)?;
    Ok(bytes)
}

/// Returns a warning if others may read the key.
fn open_key(source: Source<'_>) -> Result<Option<Warning>, Error> {
    let metadata = std::fs::metadata(source.file);
    let metadata = metadata.map_err(|error| source.error(from_io(&error)))?;
    let problem = check_key_mode(metadata.mode(), metadata.uid()).err();
    Ok(problem.map(|problem| Warning::OpenKey {
        option: source.option,
        file: source.file.to_path_buf(),
        problem,
    }))
}

/// Checks the file mode by PostgreSQL's rule for private keys (manual, section "Secure TCP/IP Connections with SSL"):
/// 0600 or less, or 0640 or less if root owns the file, so that a group may share system keys.
fn check_key_mode(mode: u32, owner: u32) -> Result<(), FileProblem> {
    const ROOT: u32 = 0;
    let forbidden = if owner == ROOT { 0o037 } else { 0o077 };
    if mode & forbidden != 0 {
        return Err(FileProblem::KeyOpenToOthers {
            mode: mode & 0o7777,
        });
    }
    Ok(())
}

fn from_io(error: &std::io::Error) -> FileProblem {
    match error.kind() {
        ErrorKind::NotFound => FileProblem::NotFound,
        ErrorKind::PermissionDenied => FileProblem::PermissionDenied,
        _ => FileProblem::Read(error.to_string()),
    }
}

/// Describes an error. The library's own text prints byte arrays.
fn describe(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!(
                "\"-----END {}-----\" is missing",
                String::from_utf8_lossy(end_marker)
            )
        }
        pem::Error::IllegalSectionStart { .. } => {
            "a line that begins with \"-----BEGIN\" does not end with \"-----\"".to_owned()
        }
        pem::Error::Base64Decode(_) => "what stands between BEGIN and END is not base64".to_owned(),
        other => other.to_string(),
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}
