//! Parameters of a request: `key=value` pairs with `&` between them, percent-encoded (WHATWG URL, section 5.1).

use std::borrow::Cow;

/// Pairs of a query, or of a body that a form sends. Parameters without `=` have an empty value.
pub(super) fn pairs(text: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts.map(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(key), decoded(value))
    })
}

/// Decodes `%XX` and `+`. A percent sign without two digits stands for itself.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match first {
            b'%' => escaped(after).unwrap_or((b'%', after)),
            b'+' => (b' ', after),
            byte => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, after) = text.split_first_chunk::<2>()?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digits = std::str::from_utf8(digits).ok()?;
    Some((u8::from_str_radix(digits, 16).ok()?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_cut_and_decoded() {
        let check = |text: &str, expect: &[(&str, &str)]| {
            let found: Vec<_> = pairs(text).collect();
            let found: Vec<_> = found
                .iter()
                .map(|(key, value)| (&**key, &**value))
                .collect();
            assert_eq!(found, expect, "{text}");
        };
        check("", &[]);
        check("&&", &[]);
        check("lag", &[("lag", "")]);
        check(
            "database=shop&lag=16kB",
            &[("database", "shop"), ("lag", "16kB")],
        );
        check("a%3db=c=d", &[("a=b", "c=d")]);
        check("host=%5B%3A%3a1%5D%3A5432", &[("host", "[::1]:5432")]);
        check("database=my+shop%2", &[("database", "my shop%2")]);
        check("a=%+5%zz", &[("a", "% 5%zz")]);
        check("database=%c3%a4%FF", &[("database", "ä\u{fffd}")]);
    }
}
