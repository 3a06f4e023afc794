//! User names in bind names and filters, and host names in addresses. Input from the user is always escaped.

use std::borrow::Cow;
use std::fmt;

use ldap3::dn_escape;
use ldap3::ldap_escape;
use weir_access::ldap::LdapOptions;
use weir_access::ldap::LdapScheme;

use crate::Refusal;

/// Characters that PostgreSQL's `CheckLDAPAuth` refuses in a search, because they would change the filter.
const NOT_IN_SEARCH: [char; 5] = ['*', '(', ')', '\\', '/'];

/// PostgreSQL's default if the options name neither attribute nor filter.
const SEARCH_ATTRIBUTE: &str = "uid";

/// Stands for the user name in `ldapsearchfilter`.
const PLACEHOLDER: &str = "$username";

/// Method by which the user's entry is found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Bind with this name.
    Direct {
        /// Never empty.
        name: String,
    },
    /// Search, then bind with the name of the entry found.
    Search {
        /// Base of the search; may be empty.
        base: String,
        /// Filter in the syntax of RFC 4515.
        filter: String,
    },
}

pub(super) fn plan(options: &LdapOptions, user: &str) -> Result<Plan, Refusal> {
    if user.is_empty() || user.contains('\0') {
        return Err(Refusal::UserName);
    }
    if !options.searches() {
        let prefix = options.prefix.as_deref().unwrap_or_default();
        let suffix = options.suffix.as_deref().unwrap_or_default();
        let name = bind_name(prefix, user, suffix);
        return Ok(Plan::Direct { name });
    }
    if user.contains(NOT_IN_SEARCH) {
        return Err(Refusal::UserName);
    }
    let escaped = ldap_escape(user);
    let filter = match &options.searchfilter {
        Some(template) => template.replace(PLACEHOLDER, &escaped),
        None => {
            let attribute = options
                .searchattribute
                .as_deref()
                .unwrap_or(SEARCH_ATTRIBUTE);
            format!("({attribute}={escaped})")
        }
    };
    let base = options.basedn.clone().unwrap_or_default();
    Ok(Plan::Search { base, filter })
}

/// Name for a simple bind. The user name is escaped only inside a distinguished name (RFC 4514). PostgreSQL does
/// not escape it, so `alice,ou=guests` is another user's entry there. In Active Directory's other forms
/// (`DOMAIN\user`, `user@domain`) an escape would be part of the name.
fn bind_name(prefix: &str, user: &str, suffix: &str) -> String {
    let user = if prefix.contains('=') {
        dn_escape(user)
    } else {
        Cow::Borrowed(user)
    };
    format!("{prefix}{user}{suffix}")
}

/// A server of the list.
pub(super) struct Server<'a> {
    scheme: &'static str,
    host: Cow<'a, str>,
    port: u16,
}

impl<'a> Server<'a> {
    /// Parses `host`, `host:port`, or an IPv6 address with or without brackets.
    pub(super) fn new(options: &LdapOptions, text: &'a str) -> Self {
        let scheme = match options.scheme {
            LdapScheme::Ldap => "ldap",
            LdapScheme::Ldaps => "ldaps",
        };
        let port = options.effective_port();
        let bare = |host| Self { scheme, host, port };
        match text.rsplit_once(':') {
            None => bare(Cow::Borrowed(text)),
            Some((host, _)) if host.contains(':') && !host.starts_with('[') => {
                bare(Cow::Owned(format!("[{text}]")))
            }
            Some(_) if text.ends_with(']') => bare(Cow::Borrowed(text)),
            Some((host, own)) => match own.parse() {
                Ok(port) => Self {
                    scheme,
                    host: Cow::Borrowed(host),
                    port,
                },
                Err(_) => bare(Cow::Borrowed(text)),
            },
        }
    }

    /// URL of the server; none if the host name would change the meaning of the rest.
    pub(super) fn url(&self) -> Option<String> {
        let literal = self
            .host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let fits = match literal {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                !self.host.is_empty()
                    && self
                        .host
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
            }
        };
        fits.then(|| self.to_string())
    }
}

impl fmt::Display for Server<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme, self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(prefix: &str, suffix: &str) -> LdapOptions {
        LdapOptions {
            prefix: Some(prefix.to_owned()),
            suffix: Some(suffix.to_owned()),
            ..LdapOptions::default()
        }
    }

    fn searching(attribute: Option<&str>, filter: Option<&str>) -> LdapOptions {
        LdapOptions {
            basedn: Some("dc=example".to_owned()),
            searchattribute: attribute.map(str::to_owned),
            searchfilter: filter.map(str::to_owned),
            ..LdapOptions::default()
        }
    }

    #[track_caller]
    fn check_name(prefix: &str, user: &str, suffix: &str, expect: &str) {
        let name = expect.to_owned();
        assert_eq!(
            plan(&direct(prefix, suffix), user),
            Ok(Plan::Direct { name })
        );
    }

    #[track_caller]
    fn check_filter(options: &LdapOptions, user: &str, expect: &str) {
        let base = "dc=example".to_owned();
        let filter = expect.to_owned();
        assert_eq!(plan(options, user), Ok(Plan::Search { base, filter }));
    }

    #[test]
    fn a_user_name_cannot_leave_its_place_in_a_distinguished_name() {
        check_name("uid=", "alice", ",dc=example", "uid=alice,dc=example");
        check_name(
            "uid=",
            "a,ou=b",
            ",dc=example",
            r"uid=a\2cou\3db,dc=example",
        );
        check_name("uid=", "a+b;c<d>\"\\", "", r"uid=a\2bb\3bc\3cd\3e\22\5c");
        check_name("uid=", " a ", "", r"uid=\20a\20");
        check_name("uid=", "#a", "", r"uid=\23a");
        check_name("uid=", "zoë", "", "uid=zoë");
    }

    #[test]
    fn active_directory_names_stay_as_they_are() {
        check_name("EXAMPLE\\", "alice", "", "EXAMPLE\\alice");
        check_name("", "a+b", "@example.com", "a+b@example.com");
    }

    #[test]
    fn the_search_filter_holds_the_user_name() {
        check_filter(&searching(None, None), "alice", "(uid=alice)");
        check_filter(&searching(Some("mail"), None), "a@b", "(mail=a@b)");
        let filter = "(|(uid=$username)(mail=$username@example.com))";
        check_filter(
            &searching(None, Some(filter)),
            "al",
            "(|(uid=al)(mail=al@example.com))",
        );
    }

    #[test]
    fn a_user_name_cannot_change_the_search_filter() {
        for user in ["*", "a)(uid=*", "a(b", "a\\2a", "a/b", "", "a\0"] {
            let options = searching(None, None);
            assert_eq!(plan(&options, user), Err(Refusal::UserName), "{user:?}");
        }
        // A placeholder in the name is not replaced again.
        let filter = searching(None, Some("(&(uid=$username)(o=$username))"));
        check_filter(&filter, "$username", "(&(uid=$username)(o=$username))");
    }

    #[test]
    fn no_user_name_no_bind() {
        assert_eq!(plan(&direct("uid=", ",dc=x"), ""), Err(Refusal::UserName));
        assert_eq!(
            plan(&direct("uid=", ",dc=x"), "a\0b"),
            Err(Refusal::UserName)
        );
    }

    #[track_caller]
    fn check_url(options: &LdapOptions, text: &str, expect: Option<&str>) {
        assert_eq!(
            Server::new(options, text).url().as_deref(),
            expect,
            "{text:?}"
        );
    }

    #[test]
    fn servers_have_a_host_and_perhaps_a_port() {
        let mut options = direct("", "");
        check_url(&options, "one.example", Some("ldap://one.example:389"));
        check_url(
            &options,
            "one.example:1389",
            Some("ldap://one.example:1389"),
        );
        check_url(&options, "::1", Some("ldap://[::1]:389"));
        check_url(&options, "[::1]", Some("ldap://[::1]:389"));
        check_url(&options, "[::1]:1389", Some("ldap://[::1]:1389"));
        options.scheme = LdapScheme::Ldaps;
        check_url(&options, "one.example", Some("ldaps://one.example:636"));
        options.port = Some(1636);
        check_url(&options, "one.example", Some("ldaps://one.example:1636"));
        for text in ["", "a/b", "a@b", "a?b", "a:b", "a b", "[::1", "[a]", "a#b"] {
            check_url(&options, text, None);
        }
    }
}
