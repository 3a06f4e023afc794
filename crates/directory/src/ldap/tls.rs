//! Certificate authorities that LDAP servers' certificates are checked with.
//!
//! OpenLDAP's clients, and so PostgreSQL and PgBouncer, take them from the environment and from `ldap.conf`
//! (ldap.conf(5)); a setup that works there works here. Only the choice of the authorities is read: options that
//! weaken the check (`TLS_REQCERT never`) are ignored.

use std::env;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::TlsSetupError;

/// Configuration files of OpenLDAP's clients on Debian and on Red Hat.
const CONF_FILES: [&str; 2] = ["/etc/ldap/ldap.conf", "/etc/openldap/ldap.conf"];

/// TLS client configuration for LDAP servers. Made once, at start and at reload, because it reads files.
#[derive(Clone, Debug)]
pub struct LdapTls(Result<Arc<ClientConfig>, TlsSetupError>);

impl LdapTls {
    /// Loads the authorities that the OpenLDAP tools of this machine would use: `LDAPTLS_CACERT`, else `TLS_CACERT`
    /// of the file that `LDAPCONF` names or of the system's `ldap.conf`, else the system's own store.
    ///
    /// Never fails, because a setup without TLS needs no authorities. [`Self::problem`] reports a problem, and so
    /// does every check that needs TLS.
    #[must_use]
    pub fn system() -> Self {
        Self(
            chosen_file()
                .map_or_else(system_roots, |path| file_roots(&path))
                .map(client),
        )
    }

    /// Loads the authorities in this PEM file and no others.
    ///
    /// # Errors
    /// If the file cannot be read or holds no certificate.
    pub fn from_ca_file(path: &Path) -> Result<Self, TlsSetupError> {
        file_roots(path).map(|roots| Self(Ok(client(roots))))
    }

    /// Reason why TLS to LDAP servers cannot work; none if it can.
    #[must_use]
    pub fn problem(&self) -> Option<&TlsSetupError> {
        self.0.as_ref().err()
    }

    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, TlsSetupError> {
        self.0.clone()
    }
}

fn client(roots: RootCertStore) -> Arc<ClientConfig> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs supports TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

fn chosen_file() -> Option<PathBuf> {
    if let Some(path) = env::var_os("LDAPTLS_CACERT") {
        return Some(path.into());
    }
    let named = env::var_os("LDAPCONF").map(PathBuf::from);
    let files = named
        .into_iter()
        .chain(CONF_FILES.into_iter().map(PathBuf::from));
    files
        .filter_map(|path| fs::read_to_string(path).ok())
        .find_map(|text| authority_file(&text))
}

/// The file after the last `TLS_CACERT` of an `ldap.conf`: one option per line, comments begin with `#`.
fn authority_file(text: &str) -> Option<PathBuf> {
    let mut values = text.lines().filter_map(|line| {
        let (key, value) = line.split_once(char::is_whitespace)?;
        key.eq_ignore_ascii_case("TLS_CACERT").then(|| value.trim())
    });
    values
        .next_back()
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn file_roots(path: &Path) -> Result<RootCertStore, TlsSetupError> {
    let pem = fs::read(path).map_err(|error| TlsSetupError::Unreadable {
        path: path.to_owned(),
        kind: error.kind(),
    })?;
    let mut roots = RootCertStore::empty();
    // System stores contain certificates that webpki cannot use; the others are enough.
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    if roots.is_empty() {
        Err(TlsSetupError::Empty(path.to_owned()))
    } else {
        Ok(roots)
    }
}

fn system_roots() -> Result<RootCertStore, TlsSetupError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        Err(TlsSetupError::NoSystemRoots)
    } else {
        Ok(roots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_is_read_from_ldap_conf() {
        let text = "# TLS_CACERT /no\nBASE dc=example\ntls_cacert\t/etc/ssl/certs/ca.pem \n";
        assert_eq!(
            authority_file(text),
            Some(PathBuf::from("/etc/ssl/certs/ca.pem"))
        );
        assert_eq!(authority_file("TLS_REQCERT never\n"), None);
        assert_eq!(authority_file("TLS_CACERT \n"), None);
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let path = Path::new("/dev/null");
        let error = LdapTls::from_ca_file(path).unwrap_err();
        assert_eq!(error, TlsSetupError::Empty(path.to_owned()));
        let missing = LdapTls::from_ca_file(Path::new("/nonexistent/ca.pem")).unwrap_err();
        assert!(
            missing.to_string().contains("/nonexistent/ca.pem"),
            "{missing}"
        );
    }
}
