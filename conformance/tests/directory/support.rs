//! Directory that the tests share, and the options for it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;
use std::time::Duration;

use anyhow::Result;
use weir_access::ldap::LdapOptions;
use weir_auth::secret::Secret;
use weir_conformance::slapd::BASE;
use weir_conformance::slapd::PEOPLE;
use weir_conformance::slapd::Slapd;
use weir_conformance::slapd::Transport;
use weir_conformance::tls::Pki;
use weir_conformance::tls::Spec;
use weir_directory::DirectoryError;
use weir_directory::LdapTls;
use weir_directory::Verdict;
use weir_directory::check_ldap;

/// Longer than any answer takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A slapd with a certificate for 127.0.0.1 and `localhost`, and the authority to trust.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) slapd: Slapd,
    pub(crate) pki: Pki,
}

impl Directory {
    /// Returns the directory that all tests share while any of them runs.
    pub(crate) fn shared() -> Result<Arc<Self>> {
        static SHARED: Mutex<Weak<Directory>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Ok(running);
        }
        let started = Arc::new(Self::start(Transport::Tls, &Spec::server())?);
        *shared = Arc::downgrade(&started);
        Ok(started)
    }

    pub(crate) fn start(
        transport: fn(weir_conformance::tls::Files) -> Transport,
        spec: &Spec,
    ) -> Result<Self> {
        let pki = Pki::new()?;
        let files = pki.issue("slapd", spec)?;
        Ok(Self {
            slapd: Slapd::start(&transport(files))?,
            pki,
        })
    }

    /// TLS options that trust the issuer of the server's certificate.
    pub(crate) fn tls(&self) -> Result<LdapTls> {
        Ok(LdapTls::from_ca_file(&self.pki.ca_file())?)
    }
}

/// Options for a direct bind as `uid=USER` below the people.
pub(crate) fn direct(port: u16) -> LdapOptions {
    LdapOptions {
        servers: vec!["127.0.0.1".to_owned()],
        port: Some(port),
        prefix: Some("uid=".to_owned()),
        suffix: Some(format!(",{PEOPLE}")),
        ..LdapOptions::default()
    }
}

/// Options for an anonymous search for `(uid=USER)` anywhere below the base.
pub(crate) fn searching(port: u16) -> LdapOptions {
    LdapOptions {
        servers: vec!["127.0.0.1".to_owned()],
        port: Some(port),
        basedn: Some(BASE.to_owned()),
        ..LdapOptions::default()
    }
}

/// Asks without TLS.
pub(crate) fn ask(
    options: &LdapOptions,
    user: &str,
    password: &str,
) -> Result<Verdict, DirectoryError> {
    let tls = LdapTls::system();
    check_ldap(options, user, &Secret::from(password), PATIENCE, &tls)
}

/// Asks with TLS, if the options say so.
pub(crate) fn ask_with(
    tls: &LdapTls,
    options: &LdapOptions,
    user: &str,
    password: &str,
) -> Result<Verdict, DirectoryError> {
    check_ldap(options, user, &Secret::from(password), PATIENCE, tls)
}
