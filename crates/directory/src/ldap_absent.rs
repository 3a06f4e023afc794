//! Replacement for LDAP in builds without it.

use std::path::Path;
use std::time::Duration;

use weir_access::ldap::LdapOptions;
use weir_auth::secret::Secret;

use crate::DirectoryError;
use crate::TlsSetupError;
use crate::Verdict;

/// Placeholder without content in this build.
#[derive(Clone, Debug)]
pub struct LdapTls;

impl LdapTls {
    /// Does nothing in this build.
    #[must_use]
    pub fn system() -> Self {
        Self
    }

    /// Does nothing in this build.
    ///
    /// # Errors
    /// None, in this build.
    pub fn from_ca_file(_path: &Path) -> Result<Self, TlsSetupError> {
        Ok(Self)
    }
}

/// Reports that this build has no LDAP.
///
/// # Errors
/// Always [`DirectoryError::NotBuilt`].
pub fn check_ldap(
    _options: &LdapOptions,
    _user: &str,
    _password: &Secret,
    _deadline: Duration,
    _tls: &LdapTls,
) -> Result<Verdict, DirectoryError> {
    Err(DirectoryError::NotBuilt { method: "LDAP" })
}
