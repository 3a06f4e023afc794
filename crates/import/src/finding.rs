//! Report of an import: one line per setting. It must never show a secret.

use std::fmt;

use crate::leaf::Leaf;

/// Fate of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Written under this name, or where the text says.
    Mapped(String),
    /// Written, with a difference that the second text explains.
    Differs(String, String),
    /// Weir's default does the same.
    Default(String),
    /// Describes something that does not exist in Weir, without effect on clients.
    NoMeaning(&'static str),
    /// Changes the behaviour that clients or servers see, and has no counterpart; the text says what to do instead.
    NotMapped(String),
    /// Not a setting of the version that was read: a typo, or a newer version.
    Unknown(&'static str),
}

/// One setting of the other product and its fate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// File that holds the setting.
    pub file: String,
    /// Line of the setting, from 1; 0 for a default of the other product.
    pub line: usize,
    /// Full name, with its tables.
    pub key: String,
    /// Value; `***` for a secret.
    pub value: String,
    /// Fate of the setting.
    pub outcome: Outcome,
}

impl Finding {
    pub(crate) fn new(leaf: &Leaf, outcome: Outcome) -> Self {
        Self {
            file: leaf.file.clone(),
            line: leaf.line,
            key: leaf.path.join("."),
            value: match leaf.is_secret() {
                true => "***".to_owned(),
                false => leaf.value.to_string(),
            },
            outcome,
        }
    }

    /// True if the import is refused in strict mode.
    #[must_use]
    pub fn blocks(&self) -> bool {
        matches!(self.outcome, Outcome::NotMapped(_) | Outcome::Unknown(_))
    }

    /// True if the setting is in the new configuration.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.outcome, Outcome::Mapped(_) | Outcome::Differs(..))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "default: ")?,
            line => write!(f, "{}:{line}: ", self.file)?,
        }
        write!(f, "{} = {}: ", self.key, self.value)?;
        match &self.outcome {
            Outcome::Mapped(to) => write!(f, "mapped to {to}"),
            Outcome::Differs(to, why) => write!(f, "mapped to {to}; {why}"),
            Outcome::Default(to) => write!(f, "same as default of {to}"),
            Outcome::NoMeaning(why) => write!(f, "no meaning here: {why}"),
            Outcome::NotMapped(why) => write!(f, "not mapped: {why}"),
            Outcome::Unknown(version) => {
                write!(
                    f,
                    "not mapped: unknown to {version}; a typo, or a newer version"
                )
            }
        }
    }
}
