//! Settings of Weir itself, `weir.*`, for a database with several hosts: their names and values.
//!
//! PostgreSQL takes them for settings of an application and accepts any value. Weir refuses what it would have to
//! ignore, as PostgreSQL refuses a wrong value of its own settings.

use std::fmt;

use weir_sql::assigned;
use weir_wire::sqlstate::SqlState;

/// Beginning of all names.
const PREFIX: &str = "weir.";

/// Setting that only Weir changes.
const LSN: &str = "weir.lsn";

/// Setting whose value is a position.
const MIN_LSN: &str = "weir.min_lsn";

/// Settings with their values.
const WORDS: [(&str, &[&str]); 4] = [
    (
        "weir.read_consistency",
        &["eventual", "global", "primary", "session"],
    ),
    ("weir.read_write_split", &["auto", "hint", "off"]),
    ("weir.role", &["auto", "primary", "replica"]),
    (
        "weir.trace_route",
        &["on", "off", "true", "false", "yes", "no", "1", "0"],
    ),
];

/// Assignment that Weir refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongSetting {
    name: Box<str>,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// The setting is not for sessions to change.
    Fixed,
    /// This value is no position.
    Position(Box<str>),
    /// No setting has this name.
    Unknown,
    /// This value is none of the setting's words.
    Word(Box<str>, &'static [&'static str]),
}

/// True if a name in lower case begins as those of Weir do.
pub(crate) fn is_own(name: &str) -> bool {
    name.starts_with(PREFIX)
}

impl WrongSetting {
    /// Returns the first assignment of a text that Weir refuses.
    pub(crate) fn in_text(text: &[u8]) -> Option<Self> {
        let mut found = None;
        assigned(text, &mut |name, value| {
            if found.is_none() {
                found = Self::of(name, value);
            }
        });
        found
    }

    /// Checks a value for a setting whose name is in lower case. None for settings that are not Weir's, and for right
    /// values.
    #[must_use]
    pub fn of(name: &str, value: &str) -> Option<Self> {
        let kind = match name {
            LSN => Some(Kind::Fixed),
            MIN_LSN => (!is_position(value)).then(|| Kind::Position(value.into())),
            _ if !is_own(name) => None,
            _ => match WORDS.iter().find(|(known, _)| *known == name) {
                None => Some(Kind::Unknown),
                Some(&(_, words)) => {
                    let is_one = words.iter().any(|word| word.eq_ignore_ascii_case(value));
                    // An empty value is none, as behind RESET.
                    let is_right = is_one || value.is_empty();
                    (!is_right).then(|| Kind::Word(value.into(), words))
                }
            },
        };
        kind.map(|kind| Self {
            name: name.into(),
            kind,
        })
    }

    pub(crate) fn code(&self) -> SqlState {
        match self.kind {
            Kind::Fixed => SqlState::CANT_CHANGE_RUNTIME_PARAM,
            Kind::Position(_) | Kind::Word(..) => SqlState::INVALID_PARAMETER_VALUE,
            Kind::Unknown => SqlState::INVALID_NAME,
        }
    }
}

impl fmt::Display for WrongSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.kind {
            Kind::Fixed => write!(f, "parameter \"{name}\" cannot be changed"),
            Kind::Position(value) => write!(
                f,
                "invalid value for parameter \"{name}\": \"{value}\"; expected timeline/position, as SHOW weir.lsn \
                 gives it: 3/16/B374D848"
            ),
            Kind::Unknown => {
                let known = WORDS.iter().map(|(known, _)| *known);
                let known: Vec<_> = [MIN_LSN].into_iter().chain(known).collect();
                write!(
                    f,
                    "invalid configuration parameter name \"{name}\"; settings of Weir: {}",
                    known.join(", ")
                )
            }
            Kind::Word(value, words) => write!(
                f,
                "invalid value for parameter \"{name}\": \"{value}\"; available values: {}",
                words.join(", ")
            ),
        }
    }
}

/// True for the form `timeline/position`, and for no value.
fn is_position(value: &str) -> bool {
    let parts: Vec<&str> = value.split('/').collect();
    let are_digits = |part: &str| {
        (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match *parts {
        [""] => true,
        [timeline, high, low] => {
            let is_decimal = timeline.bytes().all(|byte| byte.is_ascii_digit());
            is_decimal && timeline.parse::<u32>().is_ok() && are_digits(high) && are_digits(low)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Option<(String, String)> {
        let wrong = WrongSetting::in_text(text.as_bytes())?;
        Some((wrong.code().as_str().to_owned(), wrong.to_string()))
    }

    #[test]
    fn right_values_and_foreign_settings_pass() {
        for text in [
            "SET weir.role = 'Replica'",
            "SET weir.role TO DEFAULT",
            "SET weir.role = ''",
            "SET weir.read_write_split = off",
            "SET weir.read_consistency = global",
            "SET weir.min_lsn = '3/0/1A2B3C4D'",
            "SET weir.min_lsn = ''",
            "SET weirdo.role = 'x'",
            "SET app.role = 'x'",
            "RESET weir.lsn",
        ] {
            assert_eq!(refusal(text), None, "{text}");
        }
    }

    #[test]
    fn wrong_values_are_refused_with_what_is_right() {
        for (text, code, message) in [
            (
                "SET weir.read_write_split = 'maybe'",
                "22023",
                "invalid value for parameter \"weir.read_write_split\": \"maybe\"; available values: auto, hint, off",
            ),
            (
                "SELECT 1; SET SESSION weir.min_lsn = '0/1A2B'",
                "22023",
                "invalid value for parameter \"weir.min_lsn\": \"0/1A2B\"; expected timeline/position, as SHOW weir.lsn \
                 gives it: 3/16/B374D848",
            ),
            (
                "SET weir.roll = 'primary'",
                "42602",
                "invalid configuration parameter name \"weir.roll\"; settings of Weir: weir.min_lsn, \
                 weir.read_consistency, weir.read_write_split, weir.role, weir.trace_route",
            ),
            (
                "SELECT set_config('weir.lsn', '1/0/0', false)",
                "55P02",
                "parameter \"weir.lsn\" cannot be changed",
            ),
        ] {
            assert_eq!(
                refusal(text),
                Some((code.to_owned(), message.to_owned())),
                "{text}"
            );
        }
    }
}
