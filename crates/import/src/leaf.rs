//! Settings as a flat list of paths and values, whatever the format. Tables and arrays become parts of the path, so that no
//! nested setting can be overlooked.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

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
        let words = ["password", "secret", "token", "auth_key"];
        let holds = |name: &String| words.iter().any(|word| name.contains(word));
        // The login of a proxy or a vault may stand in an URL.
        self.path.iter().any(holds) && !matches!(self.value, Scalar::Flag(_))
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
            Scalar::Text(_) | Scalar::Flag(_) => None,
        }
    }
}

/// Reads a TOML text, in the order of its lines.
pub(crate) fn read_toml(file: &str, text: &str) -> Result<Vec<Leaf>, Vec<String>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let line = |span: Option<Range<usize>>| line_of(text, span.map_or(0, |span| span.start));
        let describe = |error: &toml::de::Error| {
            // The message alone: the error's full text quotes the line, which may hold a secret.
            let message = error.message().replace('\n', "; ");
            format!("{file}:{}: {message}", line(error.span()))
        };
        return Err(errors.iter().map(describe).collect());
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
            line: line_of(self.text, value.span().start),
        });
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    1 + before.filter(|byte| **byte == b'\n').count()
}
