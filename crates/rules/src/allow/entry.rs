//! Entries of lists, and the identities of statements.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use weir_sql::{
    Blank, Facts, Fingerprint, canonical, literals_matter, sample, statements, without_literals,
};

/// Longest text without literals in an entry, in bytes. Longer ones are cut, and known by their hash.
const TEXT_MAX: usize = 4 * 1024;

/// Longest statement that an entry has with its literals, in bytes.
const WHOLE_MAX: usize = 16 * 1024;

/// Identity of a statement: a SHA-256 of its canonical form, or of its text if literals matter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Known([u8; 32]);

/// Text that is no identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 has 64 hexadecimal digits")]
pub struct BadKnown;

/// Way in which an entry stands for statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// By the text without literals.
    Text,
    /// By the text with its literals.
    Whole,
    /// By its identity; the text is a beginning, for people.
    Hash(Known),
}

/// Statement in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The statement, with or without its literals.
    pub text: Arc<str>,
    /// Meaning of the text.
    pub form: Form,
    /// Fingerprint for rules, for people.
    pub fingerprint: Option<Fingerprint>,
}

/// Reason why a text in a list stands for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// The text cannot be read as one statement, so that only its hash can stand for it.
    #[error("the text is not one statement that can be read without knowing its literals")]
    Unclear,
    /// The text has no literals where they matter.
    #[error(
        "literals of such a statement are code; the entry needs the key whole in place of text"
    )]
    Literals,
}

impl Known {
    fn new(kind: &str, text: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(kind);
        hash.update(text);
        Self(hash.finalize().into())
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for Known {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl FromStr for Known {
    type Err = BadKnown;

    fn from_str(text: &str) -> Result<Self, BadKnown> {
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() {
            return Err(BadKnown);
        }
        for (number, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * number..2 * number + 2).ok_or(BadKnown)?;
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(digits, 16)
                .ok()
                .filter(|_| is_hex)
                .ok_or(BadKnown)?;
        }
        Ok(Self(bytes))
    }
}

impl Entry {
    /// Returns the identity of a statement, and its entry without a fingerprint.
    ///
    /// ```
    /// use weir_rules::{Form, StatementEntry as Entry};
    ///
    /// let (known, entry) = Entry::of(b"SELECT a FROM t WHERE b = 1");
    /// assert_eq!((&*entry.text, entry.form), ("SELECT a FROM t WHERE b = ?", Form::Text));
    /// assert_eq!(known, Entry::of(b"select a from t where b=$1 -- x").0);
    /// assert_ne!(Entry::of(b"DO 'x'").0, Entry::of(b"DO 'y'").0);
    /// ```
    #[must_use]
    pub fn of(text: &[u8]) -> (Known, Self) {
        let statement = alone(text);
        let form = canonical(statement);
        let entry = |text: &str, form| Self {
            text: text.into(),
            form,
            fingerprint: None,
        };
        let blank = || without_literals(statement, Blank::Mark, TEXT_MAX);
        match form {
            Some(form) if !literals_matter(statement) => {
                let known = Known::new("text ", form.as_bytes());
                let text = blank();
                let is_enough = canonical(text.as_bytes()) == Some(form);
                let form = match is_enough {
                    true => Form::Text,
                    false => Form::Hash(known),
                };
                (known, entry(&text, form))
            }
            form => {
                let known = Known::new("whole ", statement);
                let text = std::str::from_utf8(statement).ok();
                let is_short = statement.len() <= WHOLE_MAX;
                match text.filter(|_| form.is_some() && is_short) {
                    Some(text) => (known, entry(text, Form::Whole)),
                    None => (known, entry(&blank(), Form::Hash(known))),
                }
            }
        }
    }

    /// Returns the identity of an entry in a list.
    ///
    /// # Errors
    /// The text stands for no statement.
    pub fn known(&self) -> Result<Known, BadEntry> {
        match self.form {
            Form::Hash(known) => Ok(known),
            Form::Whole => {
                let statement = alone(self.text.as_bytes());
                match canonical(statement) {
                    Some(_) if literals_matter(statement) => Ok(Known::new("whole ", statement)),
                    Some(form) => Ok(Known::new("text ", form.as_bytes())),
                    None => Err(BadEntry::Unclear),
                }
            }
            Form::Text => {
                let form = canonical(self.text.as_bytes()).ok_or(BadEntry::Unclear)?;
                match literals_matter(self.text.as_bytes()) {
                    true => Err(BadEntry::Literals),
                    false => Ok(Known::new("text ", form.as_bytes())),
                }
            }
        }
    }

    /// True if the entry stands for all statements of its shape.
    pub(super) fn is_of_shape(&self) -> bool {
        self.form == Form::Text
    }

    /// Adds the fingerprint of the statement, if that tells something.
    pub(super) fn find_fingerprint(&mut self, text: &[u8]) {
        if self.fingerprint.is_none() && self.form == Form::Text {
            let facts = Facts::of(&sample(alone(text)));
            let telling = facts.filter(|facts| facts.kind.has_telling_fingerprint());
            self.fingerprint = telling.and_then(|facts| facts.fingerprint);
        }
    }
}

/// Returns the first statement of a text, without what surrounds it. If there are others, the whole text.
fn alone(text: &[u8]) -> &[u8] {
    let mut places = Vec::new();
    statements(text, &mut |place| places.push(place));
    match places.as_slice() {
        [place] => text.get(place.clone()).unwrap_or(text),
        _ => text,
    }
}
