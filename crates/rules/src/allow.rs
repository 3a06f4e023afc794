//! Allow-lists: the statements that a user may run, learnt from what the user has run.
//!
//! A statement about data is known by its fingerprint. Other statements have none that tells them apart, such as DO, and a text
//! that PostgreSQL's grammar rejects has none at all: these are known by their text without literals.

use std::collections::{BTreeMap, HashMap};

use weir_sql::{Blank, Facts, Fingerprint, ShapeKey, sample, without_literals};

/// Longest text that is kept, in bytes. Statements that are alike up to there are one.
const TEXT_MAX: usize = 2048;

/// Number of shapes whose decisions are kept in each of two generations.
const SHAPES_MAX: usize = 5_000;

/// Identity of a statement in an allow-list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Known {
    /// Fingerprint of a statement about data.
    Fingerprint(Fingerprint),
    /// Text without literals of any other statement.
    Text(Box<str>),
}

impl Known {
    /// Returns the identity of a statement, and its text without literals.
    ///
    /// ```
    /// use weir_rules::Known;
    ///
    /// let (one, text) = Known::of(b"SELECT a FROM t WHERE b = 1");
    /// assert_eq!(text, "SELECT a FROM t WHERE b = ?");
    /// assert_eq!(one, Known::of(b"select a from t where b = $1 -- x").0);
    /// ```
    #[must_use]
    pub fn of(statement: &[u8]) -> (Self, String) {
        let text = without_literals(statement, Blank::Mark, TEXT_MAX);
        let facts = Facts::of(&sample(statement));
        let telling = facts.filter(|facts| facts.kind.has_telling_fingerprint());
        let known = match telling.and_then(|facts| facts.fingerprint) {
            Some(fingerprint) => Self::Fingerprint(fingerprint),
            None => Self::Text(folded(&text)),
        };
        (known, text)
    }

    /// Returns the identity of a line in a list: a fingerprint, or else a text without literals.
    #[must_use]
    pub fn listed(fingerprint: Option<Fingerprint>, text: &str) -> Self {
        match fingerprint {
            Some(fingerprint) => Self::Fingerprint(fingerprint),
            None => Self::Text(folded(text)),
        }
    }
}

/// Words differ in nothing but their case.
fn folded(text: &str) -> Box<str> {
    text.to_ascii_lowercase().into()
}

/// Statements that were seen, with their texts without literals.
#[derive(Debug, Default)]
pub struct Seen {
    statements: BTreeMap<Known, Box<str>>,
    max: usize,
    left_out: u64,
}

impl Seen {
    /// Creates an empty record of at most `max` statements.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            ..Self::default()
        }
    }

    /// Adds a statement. What finds no room is counted.
    pub fn add(&mut self, known: Known, text: &str) {
        if self.statements.contains_key(&known) {
            return;
        }
        match self.statements.len() < self.max {
            true => drop(self.statements.insert(known, text.into())),
            false => self.left_out += 1,
        }
    }

    /// Number of statements that found no room, some of them counted several times.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Iterates over the statements and their texts, in the order of their identities.
    pub fn iter(&self) -> impl Iterator<Item = (&Known, &str)> {
        let statements = self.statements.iter();
        statements.map(|(known, text)| (known, &**text))
    }
}

/// Decisions of an allow-list, kept by shape: each shape is decided once.
#[derive(Debug, Default)]
pub struct Decisions {
    current: HashMap<ShapeKey, bool>,
    before: HashMap<ShapeKey, bool>,
}

impl Decisions {
    /// Returns what was decided about a shape, or decides with `decide`.
    pub fn find(&mut self, shape: ShapeKey, decide: impl FnOnce() -> bool) -> bool {
        if let Some(known) = self.current.get(&shape) {
            return *known;
        }
        let decided = self.before.remove(&shape).unwrap_or_else(decide);
        if self.current.len() >= SHAPES_MAX {
            self.before = std::mem::take(&mut self.current);
        }
        self.current.insert(shape, decided);
        decided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_known_however_it_is_written() {
        let known = |text: &str| Known::of(text.as_bytes()).0;
        for (one, other) in [("SET a = 'x'", "set A = 'y'"), ("BEGIN", "begin -- now")] {
            assert_eq!(known(one), known(other), "{one}");
        }
        assert_eq!(
            known("SELECT a FROM t WHERE b = 1"),
            known("select a\nfrom t where b = 'x'")
        );
        assert!(matches!(known("SELECT 1"), Known::Fingerprint(_)));
        for text in ["DO 'x'", "CREATE TABLE t (a int)", "no SQL"] {
            assert!(matches!(known(text), Known::Text(_)), "{text}");
        }
        assert_eq!(known("DO 'x'"), Known::listed(None, "DO ?"));
    }

    #[test]
    fn a_record_has_a_bound() {
        let mut seen = Seen::new(2);
        for text in ["SELECT 1", "SELECT a", "SELECT 2", "SELECT b", "SELECT b"] {
            let (known, text) = Known::of(text.as_bytes());
            seen.add(known, &text);
        }
        assert_eq!((seen.iter().count(), seen.left_out()), (2, 2));
    }

    #[test]
    fn decisions_are_made_once_and_bounded() {
        let mut decisions = Decisions::default();
        assert!(decisions.find(ShapeKey(1), || true));
        assert!(decisions.find(ShapeKey(1), || unreachable!()));
        for number in 2..(3 * SHAPES_MAX as u64) {
            assert!(!decisions.find(ShapeKey(number), || false));
        }
        assert!(decisions.current.len() + decisions.before.len() <= 2 * SHAPES_MAX);
    }
}
