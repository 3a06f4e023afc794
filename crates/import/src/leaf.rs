//! Settings as a flat list of paths and values, whatever the format. Tables and arrays become parts of the path, so that no
//! nested setting can be overlooked.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::cursor::SyntaxError;

/// Words in names of settings whose values must not be shown.
const SECRET_NAMES: [&str; 10] = [
    "password",
    "secret",
    "token",
    "auth_key",
    "authkey",
    "passphrase",
    "bindpasswd",
    "credentials",
    "pool_passwd.",
    "pcp.",
];
/// Words in values that may contain a secret, such as commands and URLs.
const SECRET_VALUES: [&str; 5] = ["password=", "password:", "passwd=", "pgpassword", "secret="];

/// Value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Flag(bool),
    Number(i64),
    /// Texts, and everything else as it was spelt.
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => write!(f, "{value:?}"),
        }
    }
}

/// A setting: the names of its tables and its own, its value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) path: Vec<String>,
    pub(crate) value: Scalar,
    pub(crate) file: String,
    /// From 1; 0 for a default of the product.
    pub(crate) line: usize,
}

impl Leaf {
    /// True if the value must not be shown.
    pub(crate) fn is_secret(&self) -> bool {
        let Scalar::Text(value) = &self.value else {
            // A secret of digits alone is one too, but a time or a flag is none.
            let is_number = matches!(self.value, Scalar::Number(_));
            return is_number && self.path.last().is_some_and(|name| is_secret_name(name));
        };
        let value = value.to_lowercase();
        let name = self.path.join(".");
        is_secret_name(&name)
            || SECRET_VALUES.iter().any(|word| value.contains(word))
            || has_login(&value)
    }

    pub(crate) fn parts(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// Returns the value as a text without quotes.
    pub(crate) fn text(&self) -> String {
        match &self.value {
            Scalar::Text(text) => text.clone(),
            other => other.to_string(),
        }
    }

    pub(crate) fn number(&self) -> Option<i64> {
        match &self.value {
            Scalar::Number(number) => Some(*number),
            Scalar::Text(text) => text.parse().ok(),
            Scalar::Flag(_) => None,
        }
    }

    /// Returns the value as a flag, in any spelling that the products have.
    pub(crate) fn flag(&self) -> Option<bool> {
        match self.text().to_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Some(true),
            "false" | "off" | "no" | "0" => Some(false),
            _ => None,
        }
    }

    /// Returns the value as milliseconds; plain numbers are in `unit` milliseconds.
    pub(crate) fn millis(&self, unit: i64) -> Option<i64> {
        if let Some(number) = self.number() {
            return (number >= 0).then(|| number.saturating_mul(unit));
        }
        let text = self.text();
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, suffix) = text.split_at_checked(digits)?;
        let number: i64 = number.parse().ok()?;
        let factor = match suffix.trim() {
            "us" => return Some(number.saturating_add(999) / 1000),
            "ms" => 1,
            "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        Some(number.saturating_mul(factor))
    }
}

fn is_secret_name(name: &str) -> bool {
    SECRET_NAMES.iter().any(|word| name.contains(word))
}

/// True for an URL with a user's password in it.
fn has_login(value: &str) -> bool {
    value.split_once("://").is_some_and(|(_, rest)| {
        let authority = rest.split('/').next().unwrap_or_default();
        authority
            .rsplit_once('@')
            .is_some_and(|(login, _)| login.contains(':'))
    })
}

/// Reads a TOML text, in the order of its lines.
pub(crate) fn read_toml(file: &str, text: &str) -> Result<Vec<Leaf>, SyntaxError> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if let Some(error) = errors.first() {
        let (line, column) = place_of(text, error.span().map_or(0, |span| span.start));
        return Err(SyntaxError {
            file: file.to_owned(),
            line,
            column,
            // The message alone: the error's full text quotes the line, which may hold a secret.
            message: error.message().replace('\n', "; "),
        });
    }
    let mut leaves = Vec::new();
    let mut reader = Reader {
        file,
        text,
        leaves: &mut leaves,
    };
    reader.table(&mut Vec::new(), document.get_ref());
    leaves.sort_by_key(|leaf| leaf.line);
    Ok(leaves)
}

/// Appends the defaults that the configuration does not set.
pub(crate) fn add_defaults(leaves: &mut Vec<Leaf>, defaults: &str) {
    for mut default in read_toml("default", defaults).unwrap_or_default() {
        if !leaves.iter().any(|leaf| leaf.path == default.path) {
            default.line = 0;
            leaves.push(default);
        }
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    leaves: &'a mut Vec<Leaf>,
}

impl Reader<'_> {
    fn table(&mut self, path: &mut Vec<String>, table: &DeTable<'_>) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            self.value(path, value);
            path.pop();
        }
    }

    fn value(&mut self, path: &mut Vec<String>, value: &Spanned<DeValue<'_>>) {
        let scalar = match value.get_ref() {
            DeValue::Table(table) => return self.table(path, table),
            DeValue::Array(array) => {
                for (index, value) in array.iter().enumerate() {
                    path.push(index.to_string());
                    self.value(path, value);
                    path.pop();
                }
                return;
            }
            DeValue::Boolean(value) => Scalar::Flag(*value),
            DeValue::String(value) => Scalar::Text(value.to_string()),
            DeValue::Integer(value) => match i64::from_str_radix(value.as_str(), value.radix()) {
                Ok(number) => Scalar::Number(number),
                Err(_) => Scalar::Text(value.to_string()),
            },
            DeValue::Float(value) => Scalar::Text(value.to_string()),
            DeValue::Datetime(value) => Scalar::Text(value.to_string()),
        };
        self.leaves.push(Leaf {
            path: path.clone(),
            value: scalar,
            file: self.file.to_owned(),
            line: place_of(self.text, value.span().start).0,
        });
    }
}

/// Returns line and column of an offset.
fn place_of(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let last = before.rsplit('\n').next().unwrap_or_default();
    let lines = before.bytes().filter(|byte| *byte == b'\n').count();
    (1 + lines, 1 + last.chars().count())
}
