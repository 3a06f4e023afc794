//! Names in a certificate, as used by `cert` authentication, `clientname=DN` and the check of a server's host name.
//!
//! Names come from certificates that a peer sends. A name with an embedded NUL is ignored, because code that prints,
//! logs or compares it might see only its beginning.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::ext::pkix::name::{GeneralName, GeneralNames};
use x509_cert::name::Name;

use crate::certificate::{self, DecodeError};

pub(crate) mod dn;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// The names in one certificate.
///
/// Only the handshake proves that the peer owns the certificate, and only the chain proves that the names are true.
/// Take an identity only from a finished handshake with verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The first common name (CN) of the subject, as PostgreSQL takes it. None if it is missing, empty, or contains a
    /// NUL.
    pub common_name: Option<String>,
    /// The whole subject in the form of RFC 2253, as `clientname=DN` compares it: most specific
    /// part first, `CN=alice,OU=Sales,O=Example`; empty if the subject is.
    ///
    /// Like OpenSSL's, the text is ASCII: other bytes, and NUL, are written as `\C3` with two hex digits.
    pub distinguished_name: String,
    /// Alternative names of type DNS, unchanged; they may begin with `*.`.
    pub dns_names: Vec<String>,
    /// Alternative names of type email.
    pub emails: Vec<String>,
    /// Alternative names of type IP.
    pub addresses: Vec<IpAddr>,
    /// Alternative names of type URI, such as SPIFFE IDs.
    pub uris: Vec<String>,
    /// True if there is any alternative name of type DNS or IP, even an unreadable one. The common name is then not a
    /// host name.
    pub(crate) has_host_names: bool,
}

impl Identity {
    /// Reads the names from a certificate in DER.
    ///
    /// # Errors
    /// The certificate, or its extension of alternative names, cannot be decoded.
    pub fn from_certificate(der: &[u8]) -> Result<Self, DecodeError> {
        Self::from_decoded(&certificate::decode(der)?)
    }

    pub(crate) fn from_decoded(certificate: &Certificate) -> Result<Self, DecodeError> {
        let subject = certificate.tbs_certificate().subject();
        let mut identity = Self {
            common_name: common_name(subject),
            distinguished_name: dn::rfc2253(subject),
            dns_names: Vec::new(),
            emails: Vec::new(),
            addresses: Vec::new(),
            uris: Vec::new(),
            has_host_names: false,
        };
        let extensions = certificate.tbs_certificate().extensions();
        for extension in extensions.into_iter().flatten() {
            if extension.extn_id == SUBJECT_ALT_NAME {
                for name in GeneralNames::from_der(extension.extn_value.as_bytes())? {
                    identity.add(&name);
                }
            }
        }
        Ok(identity)
    }

    fn add(&mut self, name: &GeneralName) {
        match name {
            GeneralName::DnsName(name) => {
                self.has_host_names = true;
                self.dns_names.extend(without_nul(name.as_str()));
            }
            GeneralName::IpAddress(octets) => {
                self.has_host_names = true;
                self.addresses.extend(address(octets.as_bytes()));
            }
            GeneralName::Rfc822Name(name) => self.emails.extend(without_nul(name.as_str())),
            GeneralName::UniformResourceIdentifier(name) => {
                self.uris.extend(without_nul(name.as_str()));
            }
            _ => {}
        }
    }
}

fn common_name(subject: &Name) -> Option<String> {
    let first = subject
        .iter()
        .find(|attribute| attribute.oid == COMMON_NAME)?;
    without_nul(&dn::text(&first.value)?)
}

fn without_nul(name: &str) -> Option<String> {
    (!name.is_empty() && !name.contains('\0')).then(|| name.to_owned())
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return Some(IpAddr::V4(Ipv4Addr::from(octets)));
    }
    let octets = <[u8; 16]>::try_from(octets).ok()?;
    Some(IpAddr::V6(Ipv6Addr::from(octets)))
}
