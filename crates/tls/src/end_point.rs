//! `tls-server-end-point` channel binding (RFC 5929, section 4): a hash of the server's
//! certificate, by which SCRAM-SHA-256-PLUS proves that both ends see the same TLS connection.

use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use x509_cert::der::asn1::{Any, AnyRef, ObjectIdentifier};
use x509_cert::der::{Decode, Reader, SliceReader, Tag, Tagged};
use x509_cert::spki::AlgorithmIdentifierOwned;

use crate::certificate;

/// Returns the binding data of the server's certificate, which is in DER: 28, 32, 48 or 64 bytes.
///
/// The hash is that of the certificate's signature, or SHA-256 if that is MD5 or SHA-1. `None` if the signature has no
/// single hash function, such as Ed25519, or one that is not known here. Then there is no binding data, and a
/// connection that requires channel binding must fail rather than go on without it.
pub fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let decoded = certificate::decode(certificate).ok()?;
    let hash = hash_of_signature(decoded.signature_algorithm())?;
    Some(match hash {
        Hash::Sha224 => Sha224::digest(certificate).to_vec(),
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hash {
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// Signature algorithms with a fixed hash: RFC 3279, 4055, 5758.
const BY_SIGNATURE: &[(&str, Hash)] = &[
    ("1.2.840.113549.1.1.4", Hash::Sha256), // md5WithRSAEncryption, raised
    ("1.2.840.113549.1.1.5", Hash::Sha256), // sha1WithRSAEncryption, raised
    ("1.3.14.3.2.29", Hash::Sha256),        // sha1WithRSA of OIW, raised
    ("1.2.840.113549.1.1.14", Hash::Sha224),
    ("1.2.840.113549.1.1.11", Hash::Sha256),
    ("1.2.840.113549.1.1.12", Hash::Sha384),
    ("1.2.840.113549.1.1.13", Hash::Sha512),
    ("1.2.840.10045.4.1", Hash::Sha256), // ecdsa-with-SHA1, raised
    ("1.2.840.10045.4.3.1", Hash::Sha224),
    ("1.2.840.10045.4.3.2", Hash::Sha256),
    ("1.2.840.10045.4.3.3", Hash::Sha384),
    ("1.2.840.10045.4.3.4", Hash::Sha512),
    ("1.2.840.10040.4.3", Hash::Sha256), // dsa-with-SHA1, raised
    ("2.16.840.1.101.3.4.3.1", Hash::Sha224),
    ("2.16.840.1.101.3.4.3.2", Hash::Sha256),
];

/// Hash algorithms as RSASSA-PSS names them: RFC 4055, section 2.1.
const BY_HASH: &[(&str, Hash)] = &[
    ("1.2.840.113549.2.5", Hash::Sha256), // MD5, raised
    ("1.3.14.3.2.26", Hash::Sha256),      // SHA-1, raised
    ("2.16.840.1.101.3.4.2.4", Hash::Sha224),
    ("2.16.840.1.101.3.4.2.1", Hash::Sha256),
    ("2.16.840.1.101.3.4.2.2", Hash::Sha384),
    ("2.16.840.1.101.3.4.2.3", Hash::Sha512),
];

const RSASSA_PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");

fn hash_of_signature(algorithm: &AlgorithmIdentifierOwned) -> Option<Hash> {
    if algorithm.oid == RSASSA_PSS {
        return hash_of_pss(algorithm.parameters.as_ref()?);
    }
    find(BY_SIGNATURE, algorithm.oid)
}

/// Reads `RSASSA-PSS-params`: the hash is the field tagged 0; without it the hash is SHA-1, which is raised.
fn hash_of_pss(parameters: &Any) -> Option<Hash> {
    const HASH_ALGORITHM: u8 = 0xa0;
    if parameters.tag() != Tag::Sequence {
        return None;
    }
    let mut reader = SliceReader::new(parameters.value()).ok()?;
    if reader.is_finished() || reader.peek_byte()? != HASH_ALGORITHM {
        return Some(Hash::Sha256);
    }
    let field = AnyRef::decode(&mut reader).ok()?;
    let algorithm = AlgorithmIdentifierOwned::from_der(field.value()).ok()?;
    find(BY_HASH, algorithm.oid)
}

fn find(table: &[(&str, Hash)], oid: ObjectIdentifier) -> Option<Hash> {
    let dotted = oid.to_string();
    table
        .iter()
        .find(|(known, _)| *known == dotted)
        .map(|(_, hash)| *hash)
}
