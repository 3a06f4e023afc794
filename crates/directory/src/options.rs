//! The LDAP options of one HBA line or of `auth_ldap_options`.

use weir_auth::secret::Secret;

/// How a server is spoken to first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear, or with StartTLS if that is asked for.
    Ldap,
    /// TLS from the first byte.
    Ldaps,
}

/// The LDAP options of the PostgreSQL manual, section 21.10.
#[derive(Clone)]
pub struct LdapOptions {
    /// `ldapserver`: tried in this order; `host` or `host:port`.
    pub servers: Vec<String>,
    /// `ldapport`; the scheme's own without it.
    pub port: Option<u16>,
    /// `ldapscheme`.
    pub scheme: Scheme,
    /// `ldaptls=1`.
    pub starttls: bool,
    /// `ldapprefix`.
    pub prefix: String,
    /// `ldapsuffix`.
    pub suffix: String,
    /// `ldapbasedn`: its presence chooses search and bind.
    pub basedn: Option<String>,
    /// `ldapbinddn`.
    pub binddn: Option<String>,
    /// `ldapbindpasswd`.
    pub bindpasswd: Option<Secret>,
    /// `ldapsearchattribute`, `uid` without it.
    pub searchattribute: Option<String>,
    /// `ldapsearchfilter`, with `$username`.
    pub searchfilter: Option<String>,
}
