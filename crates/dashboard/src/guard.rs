//! Rules about requests: which Host they may name, from which page a POST may come, and the headers of every answer.
//!
//! Pure functions. A listener on loopback is reached by every page that a browser of the same machine shows: a foreign
//! name can be made to resolve to 127.0.0.1 (DNS rebinding), and a form on a foreign page can post to it.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Policy of every page: nothing is loaded but from this listener, and no page may frame it.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Header that a script sends with an action; a foreign page cannot set it without CORS.
pub(crate) const SCRIPT_HEADER: &str = "x-weir";

/// Headers of every answer.
pub(crate) const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(CONTENT_SECURITY_POLICY),
    ),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// Returns the value of a header that stands once.
pub(crate) fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    match values.next() {
        Some(_) => None,
        None => value.to_str().ok(),
    }
}

/// True if a request may name this host: the address that it has reached, a name of loopback there, or one of
/// `dashboard_hosts` with any port, which a tunnel may choose.
pub(crate) fn host_is_ours(host: &str, reached: SocketAddr, allowed: &[String]) -> bool {
    let Some((name, port)) = split(host) else {
        return false;
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if allowed.iter().any(|allowed| {
        let allowed = allowed.trim_start_matches('[').trim_end_matches(']');
        allowed.eq_ignore_ascii_case(bare)
    }) {
        return true;
    }
    // A tunnel (ssh -L) to loopback may begin at any port.
    let is_tunnel = reached.ip().to_canonical().is_loopback();
    if !is_tunnel && port.is_some_and(|port| port != reached.port()) {
        return false;
    }
    match bare.parse::<IpAddr>() {
        Ok(ip) if is_tunnel => ip.to_canonical().is_loopback(),
        Ok(ip) => ip.to_canonical() == reached.ip().to_canonical(),
        Err(_) => is_tunnel && bare.eq_ignore_ascii_case("localhost"),
    }
}

/// Splits a Host into its name, with brackets if it has them, and its port.
fn split(host: &str) -> Option<(&str, Option<u16>)> {
    let end = host.rfind(']').map_or(0, |at| at + 1);
    match host.get(end..)?.rfind(':') {
        None if host.is_empty() => None,
        None => Some((host, None)),
        Some(at) => {
            let (name, port) = host.split_at_checked(end + at)?;
            let port = port.get(1..)?.parse().ok()?;
            // An IPv6 address stands in brackets.
            let is_name = !name.is_empty() && (end > 0 || !name.contains(':'));
            is_name.then_some((name, Some(port)))
        }
    }
}

/// Origin of a POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A page of another site sent the request, or the headers contradict each other.
    Foreign,
    /// A page of this dashboard sent the request.
    Ours,
    /// The client is no browser: every browser of the last years sends `Sec-Fetch-Site`, and all send `Origin` with a POST.
    Script,
}

/// Judges by `Sec-Fetch-Site` and `Origin` from which page a POST comes. Neither can be set by a page.
pub(crate) fn origin(headers: &HeaderMap, is_secure: bool) -> Origin {
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    let has_site = headers.contains_key(SITE);
    let has_origin = headers.contains_key(header::ORIGIN);
    let is_same_site = single(headers, &SITE) == Some("same-origin");
    let scheme = if is_secure { "https" } else { "http" };
    let host = single(headers, &header::HOST).unwrap_or_default();
    // Under Referrer-Policy no-referrer a browser may send `Origin: null` with a form of the same origin.
    let origin = single(headers, &header::ORIGIN);
    let is_same_origin = origin.is_some_and(|origin| origin == format!("{scheme}://{host}"));
    let is_hidden = origin == Some("null") && is_same_site;
    match (has_site, has_origin) {
        (false, false) => Origin::Script,
        (true, _) if !is_same_site => Origin::Foreign,
        (_, true) if !is_same_origin && !is_hidden => Origin::Foreign,
        _ => Origin::Ours,
    }
}

/// Name of the cookie. Browsers accept the prefix `__Host-` only over TLS, and then refuse such a cookie from any other
/// host.
pub(crate) fn cookie_name(is_secure: bool) -> &'static str {
    if is_secure { "__Host-weir" } else { "weir" }
}

/// Returns the value of the session's cookie; none if it stands twice.
pub(crate) fn cookie(headers: &HeaderMap, is_secure: bool) -> Option<&str> {
    let name = cookie_name(is_secure);
    let lines = headers.get_all(header::COOKIE).iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';'));
    let mut found = pairs.filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    });
    let value = found.next()?;
    found.next().is_none().then_some(value)
}

/// Returns the value of `Set-Cookie` for a session.
pub(crate) fn set_cookie(token: &str, is_secure: bool, seconds: u64) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    let name = cookie_name(is_secure);
    format!("{name}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

/// Returns user and password of `Authorization: Basic`.
pub(crate) fn basic(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    use base64::Engine as _;
    let value = single(headers, &header::AUTHORIZATION)?;
    let (scheme, rest) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(rest.trim());
    let bytes = bytes.ok()?;
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let (user, password) = bytes.split_at_checked(colon)?;
    let user = std::str::from_utf8(user).ok()?.to_owned();
    Some((user, password.get(1..)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_the_address_reached_or_a_configured_name() {
        let check = |host: &str, reached: &str, allowed: &[&str], expect: bool| {
            let allowed: Vec<String> = allowed.iter().map(|&name| name.to_owned()).collect();
            let is_ours = host_is_ours(host, reached.parse().unwrap(), &allowed);
            assert_eq!(is_ours, expect, "{host} at {reached} with {allowed:?}");
        };
        for host in [
            "localhost",
            "LocalHost:9000",
            "127.0.0.1:9000",
            "[::1]:9000",
            "localhost:8080",
        ] {
            check(host, "127.0.0.1:9000", &[], true);
        }
        for host in [
            "",
            ":9000",
            "evil.example",
            "evil.example:9000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1:9000",
            "localhost:x",
            "localhost:99999",
            "::1:9000",
            "0.0.0.0:9000",
        ] {
            check(host, "127.0.0.1:9000", &[], false);
        }
        check("10.0.0.5:9000", "10.0.0.5:9000", &[], true);
        check("10.0.0.5:9001", "10.0.0.5:9000", &[], false);
        check("localhost:9000", "10.0.0.5:9000", &[], false);
        check("10.0.0.5:9000", "[::ffff:10.0.0.5]:9000", &[], true);
        check("[fd00::5]:9000", "[fd00::5]:9000", &[], true);
        check("weir.example", "10.0.0.5:9000", &["Weir.Example"], true);
        check("weir.example:443", "10.0.0.5:9000", &["weir.example"], true);
        check("[fd00::5]:1", "127.0.0.1:9000", &["fd00::5"], true);
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::from_static(name);
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn a_post_comes_from_our_page_or_from_no_browser() {
        let check = |pairs: &[(&'static str, &str)], is_secure: bool, expect: Origin| {
            let mut all = vec![("host", "127.0.0.1:9000")];
            all.extend_from_slice(pairs);
            assert_eq!(origin(&headers(&all), is_secure), expect, "{pairs:?}");
        };
        let ours = ("origin", "http://127.0.0.1:9000");
        check(&[], false, Origin::Script);
        check(&[ours], false, Origin::Ours);
        check(&[ours], true, Origin::Foreign);
        check(&[("sec-fetch-site", "same-origin")], false, Origin::Ours);
        check(
            &[("sec-fetch-site", "same-origin"), ours],
            false,
            Origin::Ours,
        );
        check(
            &[("sec-fetch-site", "same-origin"), ("origin", "null")],
            false,
            Origin::Ours,
        );
        check(&[("origin", "null")], false, Origin::Foreign);
        for site in ["cross-site", "same-site", "none", ""] {
            check(&[("sec-fetch-site", site), ours], false, Origin::Foreign);
        }
        check(
            &[
                ("sec-fetch-site", "same-origin"),
                ("origin", "http://evil.example"),
            ],
            false,
            Origin::Foreign,
        );
        check(&[ours, ours], false, Origin::Foreign);
        check(&[("origin", "http://127.0.0.1:1")], false, Origin::Foreign);
    }

    #[test]
    fn a_cookie_stands_once() {
        let of = |line: &str, is_secure: bool| {
            let map = headers(&[("cookie", line)]);
            cookie(&map, is_secure).map(str::to_owned)
        };
        assert_eq!(of("a=b; weir=x", false).as_deref(), Some("x"));
        assert_eq!(of("weir=x", true), None);
        assert_eq!(of("__Host-weir=x", true).as_deref(), Some("x"));
        assert_eq!(of("weir=x; weir=y", false), None);
        assert_eq!(of("xweir=x", false), None);
        let two = headers(&[("cookie", "weir=x"), ("cookie", "weir=y")]);
        assert_eq!(cookie(&two, false), None);
    }

    #[test]
    fn a_cookie_is_strict_and_secure_over_tls() {
        assert_eq!(
            set_cookie("T", true, 60),
            "__Host-weir=T; Path=/; HttpOnly; SameSite=Strict; Max-Age=60; Secure"
        );
        assert_eq!(
            set_cookie("T", false, 60),
            "weir=T; Path=/; HttpOnly; SameSite=Strict; Max-Age=60"
        );
    }

    #[test]
    fn basic_credentials_may_have_any_password() {
        let of = |value: &str| basic(&headers(&[("authorization", value)]));
        assert_eq!(
            of("Basic YW5uOmE6Yg=="),
            Some(("ann".into(), b"a:b".into()))
        );
        assert_eq!(of("basic YW5uOg=="), Some(("ann".into(), Vec::new())));
        assert_eq!(of("Basic YW5u"), None);
        assert_eq!(of("Bearer YW5uOg=="), None);
        assert_eq!(of("Basic %"), None);
    }
}
