//! Types of options about session state: frequency of checks, and names of functions.

use std::fmt;

use crate::options::Field;
use crate::value::Value;

/// Number of parts in the whole, for shares.
const PARTS: u32 = 1_000_000;
/// Longest identifier in bytes, PostgreSQL's NAMEDATALEN - 1.
pub(crate) const IDENTIFIER_LEN_MAX: usize = 63;

/// Frequency at which a server is checked, before its release, for state that the statements did not show
/// (`session_state_check`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StateCheck {
    /// Never.
    #[default]
    Off,
    /// Before every release.
    Always,
    /// Before this many of a million releases, picked at random; from 1 to 1,000,000.
    Sample(u32),
}

impl StateCheck {
    /// True if this release must be checked. `random` must be uniform over all values of `u32`.
    #[must_use]
    pub fn is_due(self, random: u32) -> bool {
        match self {
            Self::Off => false,
            Self::Always => true,
            // Scales the draw to 0..PARTS, so that exactly the configured share is due.
            Self::Sample(parts) => (u64::from(random) * u64::from(PARTS)) >> 32 < u64::from(parts),
        }
    }

    /// Parses `off`, `always` or `sample(N%)` in any case, with N from 0.0001 to 100 and at most four decimal places,
    /// so that no share is rounded.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        match text.as_str() {
            "off" => Some(Self::Off),
            "always" => Some(Self::Always),
            _ => {
                let share = text.strip_prefix("sample(")?.strip_suffix("%)")?;
                Some(Self::Sample(parts(share)?))
            }
        }
    }
}

/// Converts a percentage to parts of a million. `None` for zero, above 100 or more than four decimal places.
fn parts(share: &str) -> Option<u32> {
    let (whole, fraction) = share.split_once('.').unwrap_or((share, "0"));
    let is_number = |digits: &str| {
        !digits.is_empty() && digits.len() <= 4 && digits.bytes().all(|b| b.is_ascii_digit())
    };
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let parts = format!("{whole}{fraction:0<4}").parse().ok()?;
    (1..=PARTS).contains(&parts).then_some(parts)
}

impl fmt::Display for StateCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Always => f.write_str("always"),
            Self::Sample(parts) => {
                let fraction = format!(".{:04}", parts % 10_000);
                let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
                write!(f, "sample({}{fraction}%)", parts / 10_000)
            }
        }
    }
}

impl Field for StateCheck {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Text(text) => Self::parse(text).unwrap_or_default(),
            _ => Self::default(),
        }
    }
    fn to_value(&self) -> Value {
        Value::Text(self.to_string())
    }
}

/// The name of a function, folded as PostgreSQL folds it (manual, 4.1.1 "Identifiers and Key Words").
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionName {
    /// The schema; `None` = a function of this name in any schema.
    pub schema: Option<String>,
    /// The name without the schema.
    pub name: String,
}

impl FunctionName {
    /// Parses `name` or `schema.name`, each plain or in double quotes.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const SHAPE: &str = "a function must be NAME or SCHEMA.NAME, without parentheses";
        let (first, rest) = identifier(text).ok_or(SHAPE)?;
        let (schema, (name, rest)) = match rest.strip_prefix('.') {
            None => (None, (first, rest)),
            Some(rest) => (Some(first), identifier(rest).ok_or(SHAPE)?),
        };
        if !rest.is_empty() {
            return Err(SHAPE);
        }
        let longest = schema.as_ref().map_or(0, String::len).max(name.len());
        if longest > IDENTIFIER_LEN_MAX {
            return Err("a name has at most 63 bytes");
        }
        Ok(Self { schema, name })
    }
}

/// Reads one identifier from the front of a text. Returns it and the rest.
pub(crate) fn identifier(text: &str) -> Option<(String, &str)> {
    if let Some(mut rest) = text.strip_prefix('"') {
        let mut name = String::new();
        loop {
            let (part, tail) = rest.split_once('"')?;
            name.push_str(part);
            match tail.strip_prefix('"') {
                Some(tail) => {
                    name.push('"');
                    rest = tail;
                }
                None => return (!name.is_empty()).then_some((name, tail)),
            }
        }
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '$' || is_letter(c));
    let name = text.get(..text.len() - rest.len())?;
    let name = name
        .starts_with(is_letter)
        .then(|| name.to_ascii_lowercase());
    Some((name?, rest))
}

/// True if the character may begin an unquoted identifier.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{}.", Quoted(schema))?;
        }
        write!(f, "{}", Quoted(&self.name))
    }
}

/// An identifier, written in quotes if it would be read as another one without them.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match identifier(self.0) {
            Some((name, "")) if name == self.0 => f.write_str(self.0),
            _ => write!(f, "\"{}\"", self.0.replace('"', "\"\"")),
        }
    }
}

impl Field for Vec<FunctionName> {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::List(items) => items
                .iter()
                .filter_map(|item| FunctionName::parse(item).ok())
                .collect(),
            _ => Self::new(),
        }
    }
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(ToString::to_string).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_exactly_and_shown_as_short_as_can_be() {
        let check = |text: &str, expect: Option<(StateCheck, &str)>| {
            let read = StateCheck::parse(text);
            let shown = read.map(|read| read.to_string());
            assert_eq!(read.zip(shown.as_deref()), expect, "{text}");
        };
        check("off", Some((StateCheck::Off, "off")));
        check("ALWAYS", Some((StateCheck::Always, "always")));
        check(
            "sample(1%)",
            Some((StateCheck::Sample(10_000), "sample(1%)")),
        );
        check(
            "Sample(0.1%)",
            Some((StateCheck::Sample(1_000), "sample(0.1%)")),
        );
        check(
            "sample(012.3400%)",
            Some((StateCheck::Sample(123_400), "sample(12.34%)")),
        );
        check(
            "sample(0.0001%)",
            Some((StateCheck::Sample(1), "sample(0.0001%)")),
        );
        check(
            "sample(100%)",
            Some((StateCheck::Sample(PARTS), "sample(100%)")),
        );
        for text in [
            "",
            "on",
            "sample",
            "sample()",
            "sample(%)",
            "sample(1)",
            "sample(1%",
            "sample( 1%)",
            "sample(0%)",
            "sample(100.0001%)",
            "sample(0.00001%)",
            "sample(-1%)",
            "sample(+1%)",
            "sample(.5%)",
            "sample(5.%)",
            "sample(1e1%)",
            "sample(1,5%)",
            "sample(99999%)",
            "1%",
            "sample(1.2.3%)",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_share_of_the_releases_is_due() {
        let due = |check: StateCheck, random| check.is_due(random);
        for random in [0, 1 << 31, u32::MAX] {
            assert!(!due(StateCheck::Off, random));
            assert!(due(StateCheck::Always, random));
            assert!(due(StateCheck::Sample(PARTS), random));
        }
        assert!(due(StateCheck::Sample(1), 0) && !due(StateCheck::Sample(1), u32::MAX));
        let half = StateCheck::Sample(PARTS / 2);
        assert!(due(half, (1 << 31) - 1) && !due(half, 1 << 31));
    }

    #[test]
    fn functions_are_named_as_postgresql_reads_them() {
        let check = |text: &str, schema: Option<&str>, name: &str, shown: &str| {
            let read = FunctionName::parse(text).unwrap();
            assert_eq!((read.schema.as_deref(), read.name.as_str()), (schema, name));
            assert_eq!(read.to_string(), shown);
        };
        check("Audit_Begin", None, "audit_begin", "audit_begin");
        check("App.f$1", Some("app"), "f$1", "app.f$1");
        check("\"App\".\"a.b\"", Some("App"), "a.b", "\"App\".\"a.b\"");
        check("\"a\"\"b\"", None, "a\"b", "\"a\"\"b\"");
        check("größe", None, "größe", "größe");
        check("\"plain\"", None, "plain", "plain");
        for text in [
            "", "f()", "a.b.c", "1f", ".f", "f.", "a b", "\"f", "\"\"", "\"f\"x", "f;",
        ] {
            assert!(FunctionName::parse(text).is_err(), "{text}");
        }
        assert!(FunctionName::parse(&"x".repeat(64)).is_err());
        assert!(FunctionName::parse(&"x".repeat(63)).is_ok());
    }
}
