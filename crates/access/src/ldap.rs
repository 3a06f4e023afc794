//! The options of the method `ldap`, which are also those of `auth_ldap_options`.
//!
//! Rules: PostgreSQL manual section 21.10. This module only reads the options; `weir-directory` implements the
//! protocol.

mod parse;
mod url;

use std::fmt;

use zeroize::Zeroizing;

use crate::error::Mistake;

pub(crate) use parse::{LdapBuilder, NAMES, flag};

/// Options of the check of a password by an LDAP directory.
#[derive(Clone, Default)]
pub struct LdapOptions {
    /// `ldapserver`: host names or addresses, tried in this order; never empty.
    pub servers: Vec<String>,
    /// `ldapport`; `None` means the default port of the scheme, see [`Self::effective_port`].
    pub port: Option<u16>,
    /// `ldapscheme`: decides if TLS is used from the first byte.
    pub scheme: LdapScheme,
    /// `ldaptls=1`: StartTLS before anything else; never together with [`LdapScheme::Ldaps`].
    pub tls: bool,
    /// `ldapprefix`: text before the user name in the name to bind as.
    pub prefix: Option<String>,
    /// `ldapsuffix`: text behind the user name in the name to bind as.
    pub suffix: Option<String>,
    /// `ldapbasedn`: base of the search; `None` exactly if `prefix` or `suffix` is set.
    pub basedn: Option<String>,
    /// `ldapbinddn`: name to bind as for the search; `None` is anonymous.
    pub binddn: Option<String>,
    /// `ldapbindpasswd`: password for `binddn`.
    pub bindpasswd: Option<BindPassword>,
    /// `ldapsearchattribute`: the attribute that holds the user name; never with `searchfilter`.
    /// Without both it is `uid`.
    pub searchattribute: Option<String>,
    /// `ldapsearchfilter`: the filter, in which `$username` stands for the user name.
    pub searchfilter: Option<String>,
    /// Depth of the search; only an `ldapurl` can set it.
    pub scope: LdapScope,
}

impl LdapOptions {
    /// Reads the text of `auth_ldap_options`: `name=value` separated by blanks or commas, with the
    /// quotes of the HBA file. A `#` begins no comment here.
    ///
    /// # Errors
    ///
    /// Returns the first mistake: an unknown option, a bad value, or options that exclude each other.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        parse::text(text)
    }

    /// The port to connect to: as configured, else 389, or 636 for `ldaps`.
    #[must_use]
    pub fn effective_port(&self) -> u16 {
        self.port.unwrap_or(match self.scheme {
            LdapScheme::Ldap => 389,
            LdapScheme::Ldaps => 636,
        })
    }

    /// True if the user is searched for first and the bind uses the entry found. Otherwise the bind uses prefix, user
    /// name and suffix at once.
    #[must_use]
    pub fn searches(&self) -> bool {
        self.prefix.is_none() && self.suffix.is_none()
    }
}

/// Shows everything but the password.
impl fmt::Debug for LdapOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LdapOptions({self})")
    }
}

/// `ldapscheme`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LdapScheme {
    /// Plain, perhaps with StartTLS.
    #[default]
    Ldap,
    /// TLS from the first byte.
    Ldaps,
}

/// Depth of a search below its base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LdapScope {
    /// The base only.
    Base,
    /// The children of the base.
    One,
    /// All entries below the base.
    #[default]
    Subtree,
}

/// A password. Wiped when dropped, and without `Debug`, `Display` or `==`, so that it cannot be logged by accident.
#[derive(Clone)]
pub struct BindPassword(Zeroizing<String>);

impl BindPassword {
    /// Returns the password in the clear. Never log or store it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests;
