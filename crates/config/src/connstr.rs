//! Connection strings, the values of `[databases]`, `[users]` and `[peers]`: `key=value key='it''s'`. Messages never
//! repeat the text, because it may hold passwords.

use crate::error::ErrorKind;
use crate::raw::{Origin, Raw};

/// Calls `pair` with each key and value. Stops at the first mistake.
pub(crate) fn parse(
    text: &str,
    raw: &mut Raw,
    at: &Origin,
    mut pair: impl FnMut(&mut Raw, &str, &str),
) {
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, value, next) = match next_pair(rest) {
            Ok(parts) => parts,
            Err(message) => return raw.fail_at(at, ErrorKind::Syntax, message),
        };
        debug_assert!(
            next.len() < rest.len(),
            "each turn consumes at least one byte"
        );
        pair(raw, key, &value);
        rest = next.trim_start();
    }
}

fn next_pair(text: &str) -> Result<(&str, String, &str), &'static str> {
    let Some((key, rest)) = text.split_once('=') else {
        return Err("malformed connection string: expected key=value");
    };
    let key = key.trim_end();
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err("malformed connection string: expected key=value \
                    (a value with blanks needs single quotes)");
    }
    let rest = rest.trim_start();
    if let Some(quoted) = rest.strip_prefix('\'') {
        let (value, rest) =
            unquote(quoted).ok_or("malformed connection string: a single quote does not end")?;
        if rest.starts_with(|c: char| !c.is_whitespace()) {
            return Err("malformed connection string: expected a blank after the closing quote");
        }
        return Ok((key, value, rest));
    }
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (value, rest) = rest.split_at(end);
    Ok((key, value.to_owned(), rest))
}

/// Reads up to the closing single quote, `''` being a quote. Returns the text and the rest.
pub(crate) fn unquote(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('\'')?;
        out.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => {
                out.push('\'');
                rest = more;
            }
            None => return Some((out, after)),
        }
    }
}
