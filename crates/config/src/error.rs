//! Mistakes in a configuration, each described in one line.

use std::fmt;

/// The kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The value does not fit the option.
    BadValue,
    /// Two settings contradict each other, or a required one is missing.
    Conflict,
    /// A file could not be read.
    Read,
    /// The text is not in the format.
    Syntax,
    /// More mistakes than are reported.
    TooMany,
    /// No option has this name.
    UnknownKey,
}

/// A mistake. No message ever holds a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Kind of the mistake.
    pub kind: ErrorKind,
    /// The file, or `environment`.
    pub file: String,
    /// Line in the file, from 1.
    pub line: Option<u32>,
    /// The key the mistake is about.
    pub key: Option<String>,
    /// Description of the mistake: lower case, without a full stop.
    pub message: String,
    /// The nearest valid text.
    pub suggestion: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "; did you mean \"{suggestion}\"?"),
            None => Ok(()),
        }
    }
}
