//! Report of an import: one line per setting. It must never show a secret.

use std::fmt;

use crate::leaf::Leaf;

/// Name of the new configuration in findings about it.
const RESULT: &str = "weir.toml";

/// Fate of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Written under this name and with this value, or where the text says.
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

/// Setting of the other product and its fate.
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

    /// Finding about an option of the new configuration that no setting of the other product explains.
    pub(crate) fn of_result(path: &str, why: String) -> Self {
        Self {
            file: RESULT.to_owned(),
            line: 0,
            key: path.to_owned(),
            value: "(removed)".to_owned(),
            outcome: Outcome::NotMapped(why),
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

impl Finding {
    /// Returns the place, the setting and the reason, for a comment that says already that it is not mapped.
    pub(crate) fn without_verdict(&self) -> String {
        let text = self.to_string();
        text.replacen(": not mapped: ", ": ", 1)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 if self.file == RESULT => write!(f, "{RESULT}: ")?,
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
