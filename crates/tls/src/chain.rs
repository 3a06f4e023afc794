//! Verification that a peer's certificate leads back to a trusted CA.
//!
//! webpki does the work. Two kinds of certificate that OpenSSL accepts and webpki refuses are verified here, because
//! they are common where people make their own certificates:
//!
//! - A self-signed certificate that is itself in the CA file. It is trusted by being equal.
//! - A leaf of X.509 version 1, signed directly by a CA in the file. `openssl x509 -req`, as in PostgreSQL's manual,
//!   makes such leaves with OpenSSL 3.0 and older.
//!
//! Revocation is as strict as PostgreSQL's `ssl_crl_file`. Once there is a list, each certificate below the CA needs a
//! list of its issuer, signed and not out of date. Otherwise a forgotten list would silently admit clients whose
//! certificates were revoked.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::verify_tls13_signature_with_raw_key;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{
    CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime,
};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, RawPublicKeyEntity,
    RevocationOptionsBuilder,
};
use x509_cert::Version;
use x509_cert::der::asn1::{AnyRef, BitStringRef, ObjectIdentifier};
use x509_cert::der::{Decode, Encode, Reader, SliceReader, Tag, Tagged};
use x509_cert::ext::pkix::ExtendedKeyUsage;

use crate::certificate::{self, unix_seconds};

pub(crate) mod failure;

use failure::to_rustls;

/// Use of a certificate by its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Client,
    Server,
}

/// A revocation list, decoded for webpki, with the parts that webpki does not expose.
#[derive(Debug)]
pub(crate) struct RevocationList {
    pub(crate) list: CertRevocationList<'static>,
    pub(crate) der: Vec<u8>,
    /// Seconds since 1970-01-01 UTC.
    pub(crate) next_update: Option<i64>,
}

/// The trusted CAs and the certificates that they revoked.
#[derive(Debug)]
pub(crate) struct Chain {
    /// CAs that may sign others, in webpki's form.
    pub(crate) anchors: Vec<TrustAnchor<'static>>,
    /// All trusted certificates in full: these CAs, and self-signed certificates that are trusted only for themselves.
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    pub(crate) revoked: Vec<RevocationList>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl Chain {
    /// Verifies that `leaf` may be used for `purpose` at `now`. Does not check names.
    pub(crate) fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        purpose: Purpose,
    ) -> Result<(), Error> {
        if self
            .authorities
            .iter()
            .any(|authority| authority.as_ref() == leaf.as_ref())
            && let Some(verdict) = verify_pinned(leaf, now, purpose)?
        {
            return Ok(verdict);
        }
        match EndEntityCert::try_from(leaf) {
            Ok(parsed) => self.verify_path(&parsed, intermediates, now, purpose),
            Err(webpki::Error::UnsupportedCertVersion) => self.verify_version_1(leaf, now),
            Err(error) => Err(to_rustls(error)),
        }
    }

    /// Returns the content of the subjects of all trusted certificates, in DER.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = Vec<u8>> {
        self.authorities.iter().filter_map(|authority| {
            let decoded = certificate::decode(authority).ok()?;
            let subject = decoded.tbs_certificate().subject().to_der().ok()?;
            content(&subject).ok().map(<[u8]>::to_vec)
        })
    }

    fn verify_path(
        &self,
        leaf: &EndEntityCert<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        purpose: Purpose,
    ) -> Result<(), Error> {
        let lists = self
            .revoked
            .iter()
            .map(|revoked| &revoked.list)
            .collect::<Vec<_>>();
        // The builder fails if there are no lists; then there is nothing to check.
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let usage = match purpose {
            Purpose::Client => KeyUsage::client_auth(),
            Purpose::Server => KeyUsage::server_auth(),
        };
        leaf.verify_for_usage(
            self.algorithms.all,
            &self.anchors,
            intermediates,
            now,
            usage,
            revocation,
            None,
        )
        .map(|_path| ())
        .map_err(to_rustls)
    }

    /// Verifies a leaf without extensions. It may serve any purpose. Only a CA without name constraints may have signed
    /// it, because the leaf has no alternative names to check against them.
    fn verify_version_1(&self, leaf: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
        let decoded = certificate::decode(leaf).map_err(|_| CertificateError::BadEncoding)?;
        let tbs = decoded.tbs_certificate();
        if tbs.version() != Version::V1 || tbs.extensions().is_some() {
            return Err(to_rustls(webpki::Error::UnsupportedCertVersion));
        }
        check_validity(tbs, now)?;
        let issuer = tbs
            .issuer()
            .to_der()
            .map_err(|_| CertificateError::BadEncoding)?;
        let issuer = content(&issuer)?;
        let signed = Signed::read(leaf)?;
        let authority = self
            .anchors
            .iter()
            .filter(|anchor| anchor.subject.as_ref() == issuer && anchor.name_constraints.is_none())
            .find(|anchor| self.signed_by(&signed, anchor))
            .ok_or(CertificateError::UnknownIssuer)?;
        self.check_revocation(tbs.serial_number().as_bytes(), issuer, authority, now)
    }

    fn check_revocation(
        &self,
        serial: &[u8],
        issuer: &[u8],
        authority: &TrustAnchor<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        if self.revoked.is_empty() {
            return Ok(());
        }
        let list = self
            .revoked
            .iter()
            .find(|revoked| {
                revoked.list.issuer() == issuer
                    && Signed::read(&revoked.der)
                        .is_ok_and(|signed| self.signed_by(&signed, authority))
            })
            .ok_or(CertificateError::UnknownRevocationStatus)?;
        if list.next_update.is_some_and(|end| end <= seconds(now)) {
            return Err(CertificateError::ExpiredRevocationList.into());
        }
        match list.list.find_serial(serial) {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(CertificateError::Revoked.into()),
            Err(error) => Err(to_rustls(error)),
        }
    }

    fn signed_by(&self, signed: &Signed<'_>, authority: &TrustAnchor<'_>) -> bool {
        let Ok(key) = AnyRef::new(Tag::Sequence, authority.subject_public_key_info.as_ref())
            .and_then(|key| key.to_der())
        else {
            return false;
        };
        let key = SubjectPublicKeyInfoDer::from(key);
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else {
            return false;
        };
        // The table has one signature algorithm several times, once for each kind of key.
        self.algorithms
            .all
            .iter()
            .filter(|algorithm| algorithm.signature_alg_id().as_ref() == signed.algorithm)
            .any(|algorithm| {
                key.verify_signature(*algorithm, signed.body, signed.signature)
                    .is_ok()
            })
    }
}

/// Verifies a certificate that equals one in the CA file. `Some` if it is self-signed and fit for use; `None` if
/// another certificate signed it, because it must then lead back to that one, as in OpenSSL.
fn verify_pinned(
    leaf: &CertificateDer<'_>,
    now: UnixTime,
    purpose: Purpose,
) -> Result<Option<()>, Error> {
    const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");
    const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
    let decoded = certificate::decode(leaf).map_err(|_| CertificateError::BadEncoding)?;
    let tbs = decoded.tbs_certificate();
    if tbs.subject() != tbs.issuer() {
        return Ok(None);
    }
    check_validity(tbs, now)?;
    let usage = tbs
        .get_extension::<ExtendedKeyUsage>()
        .map_err(|_| CertificateError::BadEncoding)?;
    let wanted = match purpose {
        Purpose::Client => CLIENT_AUTH,
        Purpose::Server => SERVER_AUTH,
    };
    match usage {
        Some((_, ExtendedKeyUsage(usages))) if !usages.contains(&wanted) => {
            Err(CertificateError::InvalidPurpose.into())
        }
        _ => Ok(Some(())),
    }
}

fn check_validity(tbs: &x509_cert::TbsCertificate, now: UnixTime) -> Result<(), Error> {
    let validity = tbs.validity();
    let (begin, end) = (
        unix_seconds(validity.not_before),
        unix_seconds(validity.not_after),
    );
    let unix = |seconds: i64| {
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds.unsigned_abs()))
    };
    if seconds(now) < begin {
        let not_before = unix(begin);
        return Err(CertificateError::NotValidYetContext {
            time: now,
            not_before,
        }
        .into());
    }
    if seconds(now) > end {
        let not_after = unix(end);
        return Err(CertificateError::ExpiredContext {
            time: now,
            not_after,
        }
        .into());
    }
    Ok(())
}

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// Returns the content of a DER value.
fn content(der: &[u8]) -> Result<&[u8], Error> {
    Ok(AnyRef::from_der(der)
        .map_err(|_| CertificateError::BadEncoding)?
        .value())
}

/// A certificate or revocation list as its issuer signed it, byte for byte.
struct Signed<'a> {
    body: &'a [u8],
    /// Content of the AlgorithmIdentifier, as webpki compares it.
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Signed<'a> {
    fn read(der: &'a [u8]) -> Result<Self, Error> {
        Self::decode(der).map_err(|_| CertificateError::BadEncoding.into())
    }

    fn decode(der: &'a [u8]) -> x509_cert::der::Result<Self> {
        let outer = AnyRef::from_der(der)?;
        outer.tag().assert_eq(Tag::Sequence)?;
        let mut reader = SliceReader::new(outer.value())?;
        let body = reader.tlv_bytes()?;
        let algorithm = AnyRef::decode(&mut reader)?;
        let signature = BitStringRef::decode(&mut reader)?;
        reader.finish()?;
        let signature = signature
            .as_bytes()
            .ok_or_else(|| Tag::BitString.value_error())?;
        Ok(Self {
            body,
            algorithm: algorithm.value(),
            signature,
        })
    }
}

// === signatures in the handshake ===

/// Verifies that the peer of a TLS 1.2 handshake holds the key of its certificate, which may be of any version of
/// X.509.
pub(crate) fn verify_handshake_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let Some(key) = version_1_key(certificate)? else {
        return verify_tls12_signature(message, certificate, signature, algorithms);
    };
    let key = RawPublicKeyEntity::try_from(&key).map_err(to_rustls)?;
    let candidates = candidates(signature, algorithms)?;
    let mut last = webpki::Error::InvalidSignatureForPublicKey;
    for algorithm in candidates {
        match key.verify_signature(*algorithm, message, signature.signature()) {
            Ok(()) => return Ok(HandshakeSignatureValid::assertion()),
            // In TLS 1.2 the scheme does not name the curve: try the next.
            Err(error) => last = error,
        }
    }
    Err(to_rustls(last))
}

/// As [`verify_handshake_tls12`], for TLS 1.3.
pub(crate) fn verify_handshake_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    match version_1_key(certificate)? {
        Some(key) => verify_tls13_signature_with_raw_key(message, &key, signature, algorithms),
        None => verify_tls13_signature(message, certificate, signature, algorithms),
    }
}

fn version_1_key(
    certificate: &CertificateDer<'_>,
) -> Result<Option<SubjectPublicKeyInfoDer<'static>>, Error> {
    match EndEntityCert::try_from(certificate) {
        Err(webpki::Error::UnsupportedCertVersion) => {
            let key = certificate::public_key(certificate);
            Ok(Some(key.map_err(|_| CertificateError::BadEncoding)?.into()))
        }
        // rustls reports any other problem of the certificate.
        _ => Ok(None),
    }
}

fn candidates(
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<&'static [&'static dyn SignatureVerificationAlgorithm], Error> {
    let known = algorithms
        .mapping
        .iter()
        .find(|(scheme, _)| *scheme == signature.scheme);
    let known = known.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    Ok(known.1)
}
