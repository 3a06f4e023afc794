//! Rewriting: another text for a statement, with its parameters and literals kept.

use weir_sql::{Slots, parameter_number};

/// Longest text that a rewriting makes, in bytes.
const TEXT_MAX: usize = 64 * 1024;

/// Mistake in a rewriting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRewriting {
    /// The text is more than one statement, or the session's settings decide where a literal of it ends.
    #[error("{0} must be one statement, without backslashes in '' (write E'')")]
    NotOne(&'static str),
    /// The parameters of both texts differ; the parameter that only one of them has.
    #[error("${0} is only in {1}: both need the same parameters, $1 for each value that is kept")]
    Parameters(u16, &'static str),
}

/// Another text for statements that are like a given one.
///
/// ```
/// use weir_rules::Rewriting;
///
/// let rewriting = Rewriting::new("SELECT * FROM t WHERE id = $1", "SELECT id FROM t WHERE id = $1 LIMIT 1").unwrap();
/// let text = rewriting.apply(b"select * from t where id = 42 /* trace 7 */").unwrap();
/// assert_eq!(text, b"SELECT id FROM t WHERE id = 42 LIMIT 1 /* trace 7 */");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewriting {
    from: Box<str>,
    slots: Slots,
    to: Box<str>,
    pieces: Vec<Piece>,
}

/// Piece of the new text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// This part of the rule's text.
    Text { begin: usize, end: usize },
    /// Value of the parameter with this number.
    Value(u16),
}

impl Rewriting {
    /// Prepares a rewriting of statements like `from` to `to`. `$1` in `from` stands for any literal or parameter; a literal in
    /// `from` has to be in the statement.
    ///
    /// # Errors
    /// One of the texts is not one statement, or their parameters differ.
    pub fn new(from: &str, to: &str) -> Result<Self, BadRewriting> {
        let one = |text: &str, name| Slots::of(text.as_bytes()).ok_or(BadRewriting::NotOne(name));
        let (slots, new) = (one(from, "match.fingerprint")?, one(to, "to")?);
        let (known, used) = (numbers(from, &slots), numbers(to, &new));
        let missing = |numbers: &[u16], other: &[u16]| {
            let mut numbers = numbers.iter();
            numbers.find(|number| !other.contains(number)).copied()
        };
        if let Some(number) = missing(&used, &known) {
            return Err(BadRewriting::Parameters(number, "to"));
        }
        if let Some(number) = missing(&known, &used) {
            return Err(BadRewriting::Parameters(number, "match.fingerprint"));
        }
        let mut pieces = Vec::new();
        let mut begin = new.statement.start;
        for place in &new.places {
            let slot = to.as_bytes().get(place.clone()).unwrap_or_default();
            if let Some(number) = parameter_number(slot) {
                pieces.push(Piece::Text {
                    begin,
                    end: place.start,
                });
                pieces.push(Piece::Value(number));
                begin = place.end;
            }
        }
        let end = new.statement.end;
        pieces.push(Piece::Text { begin, end });
        Ok(Self {
            from: from.into(),
            slots,
            to: to.into(),
            pieces,
        })
    }

    /// Text of the statements that are rewritten.
    #[must_use]
    pub fn from(&self) -> &str {
        &self.from
    }

    /// The new text.
    #[must_use]
    pub fn to(&self) -> &str {
        &self.to
    }

    /// Returns the new text for a statement, with its comments in front and behind. `None` if the statement is not like the
    /// rule's in all but its values, or if it has several values for one parameter.
    #[must_use]
    pub fn apply(&self, text: &[u8]) -> Option<Vec<u8>> {
        let slots = Slots::of(text).filter(|slots| slots.is_like(&self.slots))?;
        let slot = |place: &std::ops::Range<usize>| text.get(place.clone());
        let mut values: Vec<(u16, &[u8])> = Vec::new();
        for (place, own) in slots.places.iter().zip(&self.slots.places) {
            let value = slot(place)?;
            let own = self.from.as_bytes().get(own.clone())?;
            let Some(number) = parameter_number(own) else {
                if value != own {
                    return None;
                }
                continue;
            };
            match values.iter().find(|(known, _)| *known == number) {
                Some((_, before)) if *before != value => return None,
                Some(_) => {}
                None => values.push((number, value)),
            }
        }
        let mut out = text.get(..slots.statement.start)?.to_vec();
        for piece in &self.pieces {
            match piece {
                Piece::Text { begin, end } => {
                    out.extend_from_slice(self.to.as_bytes().get(*begin..*end)?)
                }
                Piece::Value(number) => {
                    let (_, value) = values.iter().find(|(known, _)| known == number)?;
                    // Two signs would be a comment.
                    let is_signed = matches!(value.first(), Some(b'-' | b'+'));
                    match is_signed {
                        true => out.extend([b"(", *value, b")"].concat()),
                        false => out.extend_from_slice(value),
                    }
                }
            }
        }
        out.extend_from_slice(text.get(slots.statement.end..)?);
        (out.len() <= TEXT_MAX).then_some(out)
    }
}

/// Numbers of the parameters in a text.
fn numbers(text: &str, slots: &Slots) -> Vec<u16> {
    let slot = |place: &std::ops::Range<usize>| text.as_bytes().get(place.clone());
    let places = slots.places.iter().filter_map(slot);
    let mut numbers: Vec<u16> = places.filter_map(parameter_number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(rule: (&str, &str), text: &str) -> Option<String> {
        let rewriting = Rewriting::new(rule.0, rule.1).unwrap();
        let text = rewriting.apply(text.as_bytes())?;
        Some(String::from_utf8(text).unwrap())
    }

    #[test]
    fn values_go_to_the_place_of_their_parameter() {
        let rule = (
            "SELECT * FROM t WHERE a = $1 AND b < $2",
            "SELECT a FROM t WHERE b < $2 AND a = $1 AND $1 IS NOT NULL",
        );
        for (text, expected) in [
            (
                "SELECT * FROM t WHERE a = 'x' AND b < 5",
                "SELECT a FROM t WHERE b < 5 AND a = 'x' AND 'x' IS NOT NULL",
            ),
            (
                "select * from T where a=$2 and b<$1;",
                "SELECT a FROM t WHERE b < $1 AND a = $2 AND $2 IS NOT NULL;",
            ),
            (
                "/* a */ SELECT * FROM t WHERE a = -1 AND b < 5 -- b",
                "/* a */ SELECT a FROM t WHERE b < 5 AND a = (-1) AND (-1) IS NOT NULL -- b",
            ),
        ] {
            assert_eq!(rewritten(rule, text).as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_is_not_like_the_rule_stays() {
        let rule = (
            "SELECT a FROM t WHERE b = $1 AND c = $1 LIMIT 10",
            "SELECT $1 LIMIT 10",
        );
        assert!(rewritten(rule, "SELECT a FROM t WHERE b = 1 AND c = 1 LIMIT 10").is_some());
        for text in [
            "SELECT a FROM t WHERE b = 1 AND c = 2 LIMIT 10",
            "SELECT a FROM t WHERE b = 1 AND c = 1 LIMIT 20",
            "SELECT a FROM t WHERE b = 1 AND c = 1 LIMIT $2",
            "SELECT a FROM t WHERE b = 1 AND c = 1 LIMIT 10; SELECT 1",
            "SELECT a FROM u WHERE b = 1 AND c = 1 LIMIT 10",
        ] {
            assert_eq!(rewritten(rule, text), None, "{text}");
        }
    }

    #[test]
    fn texts_with_other_parameters_are_refused() {
        for (from, to, why) in [
            (
                "SELECT $1",
                "SELECT 1",
                "$1 is only in match.fingerprint: both need the same parameters, $1 for each value that is kept",
            ),
            (
                "SELECT $1",
                "SELECT $1, $2",
                "$2 is only in to: both need the same parameters, $1 for each value that is kept",
            ),
            (
                "SELECT 1",
                "SELECT 1; SELECT 2",
                "to must be one statement, without backslashes in '' (write E'')",
            ),
        ] {
            assert_eq!(Rewriting::new(from, to).unwrap_err().to_string(), why);
        }
    }
}
