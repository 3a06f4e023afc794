//! One line of the HBA file.

mod parse;

use std::fmt;

use crate::address::Address;
use crate::error::Place;
use crate::ldap::LdapOptions;
use crate::names::{Database, User, word};
use crate::visitor::{Fact, Transport};

pub(crate) use parse::parse;

/// A rule: whom it fits, and how they have to log in.
///
/// `Display` writes it as a line of the file that means the same, but for a password, which is shown
/// as `***`, and for `@file`, which is shown as what was in it.
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
    /// Where it stands.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// As it was written, without the comment; a line with a password is shown as `Display` does.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its first column.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How whoever it fits has to log in.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// `map=`: the ident map between the name that was proved and the database user, for the methods
    /// cert and peer. Without one the two must be the same.
    #[must_use]
    pub fn map(&self) -> Option<&str> {
        self.map.as_deref()
    }

    /// Whether a client certificate is needed, besides what the method asks for.
    #[must_use]
    pub fn client_certificate(&self) -> ClientCertificate {
        self.client_certificate
    }

    /// `clientname=`: which name of the certificate counts.
    #[must_use]
    pub fn client_name(&self) -> ClientName {
        self.client_name
    }

    /// Whether the rule can depend on this fact. A file that depends on one which nobody can be asked
    /// for is better refused than read.
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

    /// Whether the rule wants a verified client certificate and the visitor has none: then it fits,
    /// and the login fails.
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

/// The first column: what kind of connection a line is for.
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
    /// TCP with encryption by GSSAPI, which we do not offer: it never fits.
    HostGssEnc,
    /// TCP without encryption by GSSAPI: the same as [`Self::Host`].
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

    /// As it is written.
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

/// How to log in.
#[derive(Clone, Debug)]
pub enum Method {
    /// Without proof.
    Trust,
    /// Not at all.
    Reject,
    /// By a challenge with MD5, or SCRAM where the stored secret is one of SCRAM.
    Md5,
    /// By the password in the clear.
    Password,
    /// By SCRAM.
    ScramSha256,
    /// By a client certificate alone.
    Cert,
    /// By the operating system's word on who is at the other end of the Unix socket.
    Peer,
    /// By an LDAP directory.
    Ldap(Box<LdapOptions>),
    /// By PAM.
    Pam(PamOptions),
}

impl Method {
    /// The names of all, as they are written.
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

    /// As it is written.
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
    /// `pamservice=`: the service to name; `None` leaves it to the program.
    pub service: Option<String>,
    /// `pam_use_hostname=1`: tell PAM the client's host name instead of its address.
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

/// `clientcert=`: whether a client certificate is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificate {
    /// No.
    #[default]
    NotNeeded,
    /// One that our authorities vouch for.
    VerifyCa,
    /// That, and its name must be the database user's, or lead to it by the map. The method cert
    /// implies it.
    VerifyFull,
}

/// `clientname=`: which name of a client certificate counts.
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
