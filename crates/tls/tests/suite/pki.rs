//! A CA that makes certificates, a directory to put them in, and a clock that stands still.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// 2026-06-15 00:00:00 UTC: the time of all tests here.
pub(crate) const NOW: u64 = 1_781_481_600;

#[derive(Debug)]
struct Still(u64);

impl TimeProvider for Still {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0)))
    }
}

pub(crate) fn now() -> Arc<dyn TimeProvider> {
    at(NOW)
}

pub(crate) fn at(seconds: u64) -> Arc<dyn TimeProvider> {
    Arc::new(Still(seconds))
}

/// A directory of one test, removed at its end.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file that only its owner may read.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        set_mode(&path, 0o600);
        path
    }

    /// Runs `openssl` in the directory.
    pub(crate) fn openssl(&self, arguments: &str) -> String {
        let output = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(&self.0)
            .output()
            .expect("openssl is installed");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {arguments}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A certificate and its key, in PEM form.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(&[(DnType::CommonName, name)]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.0
    }

    pub(crate) fn sign(&self, params: &CertificateParams) -> Pair {
        sign(params, &self.0)
    }

    /// A revocation list with these serial numbers, in force until `year`.
    pub(crate) fn revoke(&self, serials: &[u8], year: i32) -> String {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from_slice(&[*serial]),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2025, 12, 1),
            next_update: date_time_ymd(year, 1, 1),
            crl_number: SerialNumber::from_slice(&[1]),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

pub(crate) fn sign(params: &CertificateParams, issuer: &Issuer<'_, KeyPair>) -> Pair {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    }
}

pub(crate) fn self_signed(params: &CertificateParams) -> Pair {
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    }
}

/// A leaf of 2026 with this subject, no alternative names, and serial number 7.
pub(crate) fn params(subject: &[(DnType, &str)]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2027, 1, 1);
    params.serial_number = Some(SerialNumber::from_slice(&[7]));
    params
}

pub(crate) fn named(common_name: &str) -> CertificateParams {
    params(&[(DnType::CommonName, common_name)])
}

/// A leaf of a server with these alternative names and a common name that matches nothing.
pub(crate) fn server(names: &[&str]) -> CertificateParams {
    let names = names
        .iter()
        .map(|name| (*name).to_owned())
        .collect::<Vec<_>>();
    with(named("no-such-name"), |params| {
        params.subject_alt_names = CertificateParams::new(names).unwrap().subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    })
}

/// Returns the parameters with one change.
pub(crate) fn with(
    mut params: CertificateParams,
    change: impl FnOnce(&mut CertificateParams),
) -> CertificateParams {
    change(&mut params);
    params
}
