//! Parser of the LDAP options, and checks of options that exclude each other.

use std::fmt;

use zeroize::Zeroizing;

use crate::error::{Mistake, nearest};
use crate::ldap::{BindPassword, LdapOptions, LdapScheme, LdapScope, url};
use crate::tokens::{flat, quote};

/// The names of all options.
pub(crate) const NAMES: [&str; 12] = [
    "ldapserver",
    "ldapport",
    "ldapscheme",
    "ldaptls",
    "ldapprefix",
    "ldapsuffix",
    "ldapbasedn",
    "ldapbinddn",
    "ldapbindpasswd",
    "ldapsearchattribute",
    "ldapsearchfilter",
    "ldapurl",
];

/// Collects options in the order in which they are written. If an `ldapurl` and a single option set the same value, the
/// later one wins.
#[derive(Default)]
pub(crate) struct LdapBuilder(LdapOptions);

impl LdapBuilder {
    /// Sets an option; `name` is one of [`NAMES`].
    pub(crate) fn set(&mut self, name: &'static str, value: &str) -> Result<(), Mistake> {
        let text = || Some(value.to_owned());
        let to = &mut self.0;
        match name {
            "ldapserver" => to.servers = value.split_whitespace().map(str::to_owned).collect(),
            "ldapport" => to.port = Some(port(value)?),
            "ldapscheme" => to.scheme = scheme(value)?,
            "ldaptls" => to.tls = flag("ldaptls", value)?,
            "ldapprefix" => to.prefix = text(),
            "ldapsuffix" => to.suffix = text(),
            "ldapbasedn" => to.basedn = text(),
            "ldapbinddn" => to.binddn = text(),
            "ldapbindpasswd" => {
                to.bindpasswd = Some(BindPassword(Zeroizing::new(value.to_owned())));
            }
            "ldapsearchattribute" => to.searchattribute = text(),
            "ldapsearchfilter" => to.searchfilter = text(),
            _ => url::apply(value, to)?,
        }
        Ok(())
    }

    /// Checks the options against each other: PostgreSQL's rules, and combinations that could never work.
    pub(crate) fn finish(self) -> Result<LdapOptions, Mistake> {
        let options = self.0;
        let search = options.basedn.is_some()
            || options.binddn.is_some()
            || options.bindpasswd.is_some()
            || options.searchattribute.is_some()
            || options.searchfilter.is_some();
        let conflict = if !options.searches() && search {
            "ldapprefix and ldapsuffix exclude ldapbasedn, ldapbinddn, ldapbindpasswd, ldapsearchattribute, ldapsearchfilter and ldapurl; keep one kind"
        } else if options.searches() && options.basedn.is_none() {
            "LDAP needs ldapbasedn to search for the user, or ldapprefix or ldapsuffix to bind as the user; add one"
        } else if options.searchattribute.is_some() && options.searchfilter.is_some() {
            "ldapsearchattribute and ldapsearchfilter exclude each other; keep one"
        } else if options.servers.is_empty() {
            "LDAP needs ldapserver, or an ldapurl with a host; add one (servers are not looked up in DNS)"
        } else if options.tls && options.scheme == LdapScheme::Ldaps {
            "ldaptls=1 (StartTLS) and the scheme ldaps exclude each other; keep one"
        } else if options.bindpasswd.is_some() && options.binddn.is_none() {
            "ldapbindpasswd needs ldapbinddn; add it"
        } else {
            return Ok(options);
        };
        Err(Mistake::LdapConflict(conflict))
    }
}

/// Parses the text of `auth_ldap_options`.
pub(super) fn text(text: &str) -> Result<LdapOptions, Mistake> {
    // An ini value has no line ends; a value given by other means may.
    let text = Zeroizing::new(text.replace('\n', " "));
    let mut builder = LdapBuilder::default();
    let mut seen = Vec::new();
    for token in flat(&text)? {
        let Some((word, value)) = token.text.split_once('=') else {
            return Err(Mistake::OptionSyntax);
        };
        let Some(name) = NAMES.into_iter().find(|name| *name == word) else {
            let suggestion = nearest(word, &NAMES);
            // The word may be the rest of a password with a comma in it.
            let word = if suggestion.is_some() { word } else { "***" };
            return Err(Mistake::UnknownOption {
                word: word.to_owned(),
                suggestion,
            });
        };
        if seen.contains(&name) {
            return Err(Mistake::DuplicateOption(name));
        }
        seen.push(name);
        builder.set(name, value)?;
    }
    builder.finish()
}

/// Parses 0 or 1.
pub(crate) fn flag(option: &'static str, value: &str) -> Result<bool, Mistake> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(bad_value(option, value, "0 or 1")),
    }
}

fn scheme(value: &str) -> Result<LdapScheme, Mistake> {
    match value {
        "ldap" => Ok(LdapScheme::Ldap),
        "ldaps" => Ok(LdapScheme::Ldaps),
        _ => Err(bad_value("ldapscheme", value, "ldap or ldaps")),
    }
}

fn port(value: &str) -> Result<u16, Mistake> {
    url::port(value).ok_or_else(|| bad_value("ldapport", value, "1 to 65535"))
}

fn bad_value(option: &'static str, value: &str, expected: &'static str) -> Mistake {
    Mistake::BadValue {
        option,
        value: value.to_owned(),
        expected,
    }
}

/// Writes the options as in a file; the password is shown as `***`.
impl fmt::Display for LdapOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only a URL can set the scope. The URL comes first, and later options override the rest of it.
        match self.scope {
            LdapScope::Base => f.write_str("ldapurl=\"ldap:///??base\" ")?,
            LdapScope::One => f.write_str("ldapurl=\"ldap:///??one\" ")?,
            LdapScope::Subtree => {}
        }
        f.write_str("ldapserver=")?;
        quote(f, &self.servers.join(" "))?;
        if let Some(port) = self.port {
            write!(f, " ldapport={port}")?;
        }
        if self.scheme == LdapScheme::Ldaps {
            f.write_str(" ldapscheme=ldaps")?;
        }
        if self.tls {
            f.write_str(" ldaptls=1")?;
        }
        let texts = [
            ("ldapprefix", &self.prefix),
            ("ldapsuffix", &self.suffix),
            ("ldapbasedn", &self.basedn),
            ("ldapbinddn", &self.binddn),
            ("ldapsearchattribute", &self.searchattribute),
            ("ldapsearchfilter", &self.searchfilter),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                write!(f, " {name}=")?;
                quote(f, value)?;
            }
        }
        match self.bindpasswd {
            Some(_) => f.write_str(" ldapbindpasswd=***"),
            None => Ok(()),
        }
    }
}
