//! A certificate authority for one test: issues valid certificates, and each kind of invalid one.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use rcgen::BasicConstraints;
use rcgen::CertificateParams;
use rcgen::CertificateRevocationListParams;
use rcgen::DnType;
use rcgen::ExtendedKeyUsagePurpose;
use rcgen::IsCa;
use rcgen::Issuer;
use rcgen::KeyIdMethod;
use rcgen::KeyPair;
use rcgen::KeyUsagePurpose;
use rcgen::RevokedCertParams;
use rcgen::SanType;
use rcgen::SerialNumber;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::PrivatePkcs8KeyDer;

use crate::clock;

/// Years of validity of certificates that are valid now.
const VALID: (i32, i32) = (2020, 2050);

/// Kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// ECDSA on P-256, signed with SHA-256.
    Ecdsa,
    /// ECDSA on P-384, signed with SHA-384.
    Ecdsa384,
    /// Ed25519: no hash of a signature, so no `tls-server-end-point` (RFC 5929).
    Ed25519,
    /// RSA of 2048 bits, signed with SHA-256.
    Rsa,
}

/// Purpose of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// The server's side of TLS.
    Server,
    /// The client's side of TLS.
    Client,
}

/// Contents of a certificate.
#[derive(Clone, Debug)]
pub struct Spec {
    common_name: String,
    names: Vec<SanType>,
    usage: Usage,
    key: Key,
    /// Since 1970.
    not_before: Duration,
    /// Since 1970.
    not_after: Duration,
}

impl Spec {
    /// A server's certificate for `localhost` and 127.0.0.1, valid now.
    #[must_use]
    pub fn server() -> Self {
        let name = Self::new("localhost", Usage::Server);
        name.dns("localhost").ip(Ipv4Addr::LOCALHOST)
    }

    /// A client's certificate with this common name, valid now.
    #[must_use]
    pub fn client(common_name: &str) -> Self {
        Self::new(common_name, Usage::Client)
    }

    /// A certificate with a common name and no other name, valid now.
    #[must_use]
    pub fn new(common_name: &str, usage: Usage) -> Self {
        Self {
            common_name: common_name.to_owned(),
            names: Vec::new(),
            usage,
            key: Key::Ecdsa,
            not_before: year(VALID.0),
            not_after: year(VALID.1),
        }
    }

    /// Adds a DNS name.
    #[must_use]
    pub fn dns(mut self, name: &str) -> Self {
        let name = name.try_into().expect("the suites' names are ASCII");
        self.names.push(SanType::DnsName(name));
        self
    }

    /// Adds an address.
    #[must_use]
    pub fn ip(mut self, address: Ipv4Addr) -> Self {
        self.names.push(SanType::IpAddress(IpAddr::V4(address)));
        self
    }

    /// Sets the kind of key.
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.key = key;
        self
    }

    /// Makes the certificate expire in 2021.
    #[must_use]
    pub fn expired(mut self) -> Self {
        self.not_after = year(2021);
        self
    }

    /// Makes the certificate valid from 2049 on.
    #[must_use]
    pub fn not_yet_valid(mut self) -> Self {
        self.not_before = year(2049);
        self
    }

    /// Makes the certificate expire in this number of days and some hours.
    #[must_use]
    pub fn days_left(mut self, days: u32) -> Self {
        let left = Duration::from_secs(u64::from(days) * 86_400 + 6 * 3_600);
        self.not_after = clock::since_1970() + left;
        self
    }

    fn params(&self, serial: u64) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let name = self.common_name.clone();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names.clone_from(&self.names);
        params.serial_number = Some(SerialNumber::from(serial));
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + self.not_before;
        params.not_after = epoch + self.not_after;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match self.usage {
            Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Usage::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params
    }
}

/// Time of the first of January of a year.
fn year(year: i32) -> Duration {
    // Leap days do not matter here.
    let years = u64::try_from(year - 1970).unwrap_or_default();
    Duration::from_secs(years * 31_556_952)
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Certificate in PEM, followed by those of intermediate authorities, if any.
    pub certificate: String,
    /// Private key, PKCS #8 in PEM.
    pub key: String,
    serial: u64,
    chain: Vec<CertificateDer<'static>>,
    key_der: Vec<u8>,
}

impl Identity {
    /// The certificate and the intermediate ones, in DER.
    #[must_use]
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.clone()
    }

    /// The private key in DER.
    #[must_use]
    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key_der.clone()).into()
    }
}

/// Issuer of certificates; its own is self-signed.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
    serials: std::sync::atomic::AtomicU64,
}

impl Authority {
    /// Creates an authority with this common name.
    ///
    /// # Errors
    /// When the cryptography fails.
    pub fn new(common_name: &str) -> Result<Self> {
        Self::with(common_name, Key::Ecdsa)
    }

    /// Creates an authority that signs with this kind of key.
    ///
    /// # Errors
    /// When the cryptography fails.
    pub fn with(common_name: &str, key: Key) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let names = &mut params.distinguished_name;
        names.push(DnType::CommonName, common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = rcgen::date_time_ymd(VALID.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(VALID.1, 1, 1);
        let key = key.generate()?;
        let own = params.self_signed(&key)?;
        Ok(Self {
            pem: own.pem(),
            der: own.der().clone(),
            issuer: Issuer::new(params, key),
            serials: std::sync::atomic::AtomicU64::new(2),
        })
    }

    /// Issues a certificate.
    ///
    /// # Errors
    /// When the cryptography fails.
    pub fn issue(&self, spec: &Spec) -> Result<Identity> {
        let serials = &self.serials;
        let serial = serials.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let key = spec.key.generate().context("make a key")?;
        let certificate = spec.params(serial).signed_by(&key, &self.issuer)?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            serial,
            chain: vec![certificate.der().clone()],
            key_der: key.serialize_der(),
        })
    }

    /// Issues a list that revokes these certificates, in PEM.
    ///
    /// # Errors
    /// When the cryptography fails.
    pub fn revoke(&self, revoked: &[&Identity]) -> Result<String> {
        let revoked_certs = revoked.iter().map(|identity| RevokedCertParams {
            serial_number: SerialNumber::from(identity.serial),
            revocation_time: rcgen::date_time_ymd(2022, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2022, 1, 1),
            next_update: rcgen::date_time_ymd(VALID.1, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&self.issuer)?.pem()?)
    }

    /// The authority's own certificate, in PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The authority's own certificate, in DER.
    #[must_use]
    pub fn der(&self) -> CertificateDer<'static> {
        self.der.clone()
    }
}

impl Key {
    fn generate(self) -> Result<KeyPair, rcgen::Error> {
        KeyPair::generate_for(match self {
            Self::Ecdsa => &rcgen::PKCS_ECDSA_P256_SHA256,
            Self::Ecdsa384 => &rcgen::PKCS_ECDSA_P384_SHA384,
            Self::Ed25519 => &rcgen::PKCS_ED25519,
            Self::Rsa => &rcgen::PKCS_RSA_SHA256,
        })
    }
}
