//! `ldapurl`: RFC 4516, as far as PostgreSQL uses it.

use crate::error::Mistake;
use crate::ldap::{LdapOptions, LdapScheme, LdapScope};

/// Sets the options that the URL holds: scheme, server, port, base, attribute, scope, filter.
///
/// As with OpenLDAP's parser, a URL without a base sets an empty base, without a port the default port, and without a
/// scope `base`. Of several attributes the first counts.
pub(super) fn apply(text: &str, to: &mut LdapOptions) -> Result<(), Mistake> {
    let (scheme, rest) = text
        .split_once("://")
        .ok_or(Mistake::BadLdapUrl("it has no scheme"))?;
    let scheme = if scheme.eq_ignore_ascii_case("ldap") {
        LdapScheme::Ldap
    } else if scheme.eq_ignore_ascii_case("ldaps") {
        LdapScheme::Ldaps
    } else {
        return Err(Mistake::BadLdapUrl("its scheme is neither ldap nor ldaps"));
    };
    // The first slash ends the server. A `?` before it cannot be part of a host name.
    let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (server, port) = server_and_port(server)?;
    let mut parts = path.split('?');
    let mut part = || decode(parts.next().unwrap_or_default());
    let (basedn, attributes, scope, filter) = (part()?, part()?, part()?, part()?);
    if parts.any(|extension| !extension.is_empty()) {
        return Err(Mistake::BadLdapUrl("extensions are not supported"));
    }
    let scope = if scope.is_empty() || scope.eq_ignore_ascii_case("base") {
        LdapScope::Base
    } else if scope.eq_ignore_ascii_case("one") {
        LdapScope::One
    } else if scope.eq_ignore_ascii_case("sub") {
        LdapScope::Subtree
    } else {
        return Err(Mistake::BadLdapUrl("its scope is none of base, one, sub"));
    };
    to.scheme = scheme;
    to.port = port;
    to.scope = scope;
    to.basedn = Some(basedn);
    if !server.is_empty() {
        to.servers = vec![server];
    }
    if let Some(first) = attributes.split(',').next().filter(|name| !name.is_empty()) {
        to.searchattribute = Some(first.to_owned());
    }
    if !filter.is_empty() {
        to.searchfilter = Some(filter);
    }
    Ok(())
}

/// A port, 1 to 65535, in digits only.
pub(super) fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

fn server_and_port(text: &str) -> Result<(String, Option<u16>), Mistake> {
    let (server, number) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, behind) = rest
                .split_once(']')
                .ok_or(Mistake::BadLdapUrl("a bracket is not closed"))?;
            let number = behind.strip_prefix(':');
            if number.is_none() && !behind.is_empty() {
                return Err(Mistake::BadLdapUrl("only a port may follow the bracket"));
            }
            (format!("[{address}]"), number)
        }
        None => match text.split_once(':') {
            Some((server, number)) => (decode(server)?, Some(number)),
            None => (decode(text)?, None),
        },
    };
    if server
        .chars()
        .any(|c| c.is_whitespace() || c.is_control() || c == '?')
    {
        return Err(Mistake::BadLdapUrl("its host is no name of a host"));
    }
    let bad = Mistake::BadLdapUrl("its port is not 1 to 65535");
    let port = match number {
        Some(number) => Some(port(number).ok_or(bad)?),
        None => None,
    };
    Ok((server, port))
}

/// Decodes percent escapes such as `%41`.
fn decode(text: &str) -> Result<String, Mistake> {
    let bad = || Mistake::BadLdapUrl("a % is not followed by two hexadecimal digits of UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16));
        let (high, low) = (digit().ok_or_else(bad)?, digit().ok_or_else(bad)?);
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| bad())?);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}
