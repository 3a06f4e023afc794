//! A line of the HBA file.

mod parse;

use std::fmt;

use crate::address::Address;
use crate::error::Place;
use crate::ldap::LdapOptions;
use crate::names::{Database, User, word};
use crate::visitor::{Fact, Transport};

pub(crate) use parse::parse;

/// A rule: the clients that it fits, and how they have to log in.
///
/// `Display` writes an equivalent line of the file, except that a password is shown as `***` and an `@file` as its
/// contents.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(crate) place: Place,
    pub(crate) text: String,
    pub(crate) kind: Kind,
    pub(crate) databases: Vec<Database>,
    pub(crate) users: Vec<User>,
    /// `None` on a `local` line.
    pub(crate) address: Option<Address>,
    pub(crate) method: Method,
    pub(crate) map: Option<String>,
    pub(crate) client_certificate: ClientCertificate,
    pub(crate) client_name: ClientName,
}

impl Rule {
    /// Place of the line.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Text of the line as written, without the comment. A line with a password is shown as by `Display`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Type of connection that the rule is for: its first column.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Method by which clients that the rule fits have to log in.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// `map=`: the ident map from the proved name to the database user, for the methods cert and peer. Without a map
    /// the two names must be equal.
    #[must_use]
    pub fn map(&self) -> Option<&str> {
        self.map.as_deref()
    }

    /// Requirement of a client certificate, besides the one that the method implies.
    #[must_use]
    pub fn client_certificate(&self) -> ClientCertificate {
        self.client_certificate
    }

    /// `clientname=`: the name of the certificate that counts.
    #[must_use]
    pub fn client_name(&self) -> ClientName {
        self.client_name
    }

    /// True if the rule can depend on this fact. If a fact cannot be looked up, it is better to refuse a file that
    /// depends on it.
    #[must_use]
    pub fn depends_on(&self, fact: Fact) -> bool {
        match fact {
            Fact::HostName => {
                matches!(
                    self.address,
                    Some(Address::HostName(_) | Address::Suffix(_))
                )
            }
            Fact::Roles => {
                let member = |user: &User| matches!(user, User::Member(_));
                self.databases.contains(&Database::SameRole) || self.users.iter().any(member)
            }
        }
    }

    /// True if the rule requires a verified client certificate and the visitor has none. The rule fits then, and the
    /// login fails.
    #[must_use]
    pub fn lacks_certificate(&self, transport: Transport) -> bool {
        self.client_certificate != ClientCertificate::NotNeeded
            && transport != Transport::TlsVerified
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        list(f, &self.databases)?;
        list(f, &self.users)?;
        if let Some(address) = &self.address {
            write!(f, " {address}")?;
        }
        write!(f, " {}", self.method.name())?;
        if let Some(map) = &self.map {
            f.write_str(" map=")?;
            word(f, map, false)?;
        }
        match (self.client_certificate, &self.method) {
            (ClientCertificate::NotNeeded, _) | (_, Method::Cert) => {}
            (ClientCertificate::VerifyCa, _) => f.write_str(" clientcert=verify-ca")?,
            (ClientCertificate::VerifyFull, _) => f.write_str(" clientcert=verify-full")?,
        }
        if self.client_name == ClientName::DistinguishedName {
            f.write_str(" clientname=DN")?;
        }
        match &self.method {
            Method::Ldap(options) => write!(f, " {options}"),
            Method::Pam(options) => options.fmt(f),
            _ => Ok(()),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        let before = if index == 0 { " " } else { "," };
        write!(f, "{before}{item}")?;
    }
    Ok(())
}

/// The first column: the type of connection that a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Unix sockets.
    Local,
    /// TCP, with TLS or without.
    Host,
    /// TCP with TLS.
    HostSsl,
    /// TCP without TLS.
    HostNoSsl,
    /// TCP with encryption by GSSAPI. Weir does not offer it, so such a line never fits.
    HostGssEnc,
    /// TCP without encryption by GSSAPI: equivalent to [`Self::Host`].
    HostNoGssEnc,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Local,
        Self::Host,
        Self::HostSsl,
        Self::HostNoSsl,
        Self::HostGssEnc,
        Self::HostNoGssEnc,
    ];

    /// Name of the type as written in a file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Host => "host",
            Self::HostSsl => "hostssl",
            Self::HostNoSsl => "hostnossl",
            Self::HostGssEnc => "hostgssenc",
            Self::HostNoGssEnc => "hostnogssenc",
        }
    }
}

/// Login method.
#[derive(Clone, Debug)]
pub enum Method {
    /// No proof is needed.
    Trust,
    /// Every login is refused.
    Reject,
    /// A challenge with MD5, or SCRAM if the stored secret is a SCRAM verifier.
    Md5,
    /// The password in clear text.
    Password,
    /// SCRAM-SHA-256.
    ScramSha256,
    /// A client certificate alone.
    Cert,
    /// The operating system's report of the user at the other end of the Unix socket.
    Peer,
    /// A password check by an LDAP directory.
    Ldap(Box<LdapOptions>),
    /// A password check by PAM.
    Pam(PamOptions),
}

impl Method {
    /// Names of all methods, as written in a file.
    pub const NAMES: [&'static str; 9] = [
        "trust",
        "reject",
        "md5",
        "password",
        "scram-sha-256",
        "cert",
        "peer",
        "ldap",
        "pam",
    ];

    /// Name of the method as written in a file.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Reject => "reject",
            Self::Md5 => "md5",
            Self::Password => "password",
            Self::ScramSha256 => "scram-sha-256",
            Self::Cert => "cert",
            Self::Peer => "peer",
            Self::Ldap(_) => "ldap",
            Self::Pam(_) => "pam",
        }
    }
}

/// The options of the method `pam`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PamOptions {
    /// `pamservice=`: the PAM service; `None` leaves the choice to the program.
    pub service: Option<String>,
    /// `pam_use_hostname=1`: pass the client's host name to PAM instead of its address.
    pub use_hostname: bool,
}

impl fmt::Display for PamOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(service) = &self.service {
            f.write_str(" pamservice=")?;
            word(f, service, false)?;
        }
        match self.use_hostname {
            true => f.write_str(" pam_use_hostname=1"),
            false => Ok(()),
        }
    }
}

/// `clientcert=`: the client certificate that is required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificate {
    /// No certificate is required.
    #[default]
    NotNeeded,
    /// A certificate signed by one of the configured authorities.
    VerifyCa,
    /// As `VerifyCa`, and its name must be the database user's or lead to it by the map. The method cert implies this.
    VerifyFull,
}

/// `clientname=`: the name of a client certificate that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientName {
    /// `CN`: the common name.
    #[default]
    CommonName,
    /// `DN`: the whole distinguished name, in the form of RFC 2253.
    DistinguishedName,
}

#[cfg(test)]
mod tests;
