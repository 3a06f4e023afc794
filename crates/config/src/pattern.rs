//! Patterns of function names: elements of `primary_functions` and `read_functions`.

use std::fmt;

use crate::options::Field;
use crate::state::{IDENTIFIER_LEN_MAX, Quoted, identifier};
use crate::value::Value;

/// Pattern that covers one function, or all with the same schema or the same first letters. Names are folded as
/// PostgreSQL folds them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionPattern {
    /// The schema; `None` = any schema.
    pub schema: Option<String>,
    /// Names in this schema.
    pub name: NamePattern,
}

/// Names that a pattern covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NamePattern {
    /// This name.
    Exact(String),
    /// Names that begin with this text; with an empty one, every name.
    Prefix(String),
}

impl FunctionPattern {
    /// Parses `name`, `name*`, `schema.name`, `schema.name*` or `schema.*`; identifiers are plain or in double quotes.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const SHAPE: &str =
            "a pattern must be NAME, NAME*, SCHEMA.NAME or SCHEMA.*, without parentheses";
        if text == "*" {
            return Err("* covers every function; name a schema, such as app.*");
        }
        let (first, rest) = identifier(text).ok_or(SHAPE)?;
        let (schema, name, rest) = match rest.strip_prefix('.') {
            None => (None, first, rest),
            Some("*") => (Some(first), String::new(), "*"),
            Some(rest) => {
                let (name, rest) = identifier(rest).ok_or(SHAPE)?;
                (Some(first), name, rest)
            }
        };
        let longest = schema.as_ref().map_or(0, String::len).max(name.len());
        if longest > IDENTIFIER_LEN_MAX {
            return Err("a name has at most 63 bytes");
        }
        let name = match rest {
            "" => NamePattern::Exact(name),
            "*" => NamePattern::Prefix(name),
            _ => return Err(SHAPE),
        };
        Ok(Self { schema, name })
    }
}

impl fmt::Display for FunctionPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{}.", Quoted(schema))?;
        }
        match &self.name {
            NamePattern::Exact(name) => Quoted(name).fmt(f),
            NamePattern::Prefix(name) if name.is_empty() => f.write_str("*"),
            NamePattern::Prefix(name) => write!(f, "{}*", Quoted(name)),
        }
    }
}

impl Field for Vec<FunctionPattern> {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::List(items) => items
                .iter()
                .filter_map(|item| FunctionPattern::parse(item).ok())
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
    fn patterns_are_folded_and_shown_as_they_can_be_read_again() {
        let check = |text: &str, schema: Option<&str>, name: NamePattern, shown: &str| {
            let read = FunctionPattern::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!((read.schema.as_deref(), &read.name), (schema, &name));
            assert_eq!(read.to_string(), shown);
            assert_eq!(FunctionPattern::parse(shown), Ok(read));
        };
        let exact = |name: &str| NamePattern::Exact(name.to_owned());
        let prefix = |name: &str| NamePattern::Prefix(name.to_owned());
        check("Search", None, exact("search"), "search");
        check("App.Search", Some("app"), exact("search"), "app.search");
        check("ST_*", None, prefix("st_"), "st_*");
        check("billing.*", Some("billing"), prefix(""), "billing.*");
        check("app.get_*", Some("app"), prefix("get_"), "app.get_*");
        check("\"App\".\"F*\"", Some("App"), exact("F*"), "\"App\".\"F*\"");
        check("\"a.b\"*", None, prefix("a.b"), "\"a.b\"*");
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "", "*", "*f", "f**", "f*g", "*.f", "a.b.c", "a.b.*", "a.", ".*", "f()", "1f", "f *",
            "\"\"*", "app. *", "app.*x",
        ] {
            assert!(FunctionPattern::parse(text).is_err(), "{text}");
        }
        assert!(FunctionPattern::parse(&format!("{}*", "x".repeat(64))).is_err());
        assert!(FunctionPattern::parse(&format!("{}*", "x".repeat(63))).is_ok());
    }
}
