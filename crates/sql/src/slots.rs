//! A statement in pieces: its literals and parameters, and what is between them.

use std::ops::Range;

use crate::lex::{Lexer, Reading, Token};

/// Literals and parameters of one statement, in its order.
///
/// ```
/// use weir_sql::Slots;
///
/// let rule = Slots::of(b"SELECT a FROM t WHERE b = $1 AND c = 'x'").unwrap();
/// let text = b"select a from t where b = 17 and c = 'x' -- trace 7";
/// let slots = Slots::of(text).unwrap();
/// assert!(slots.is_like(&rule));
/// assert_eq!(&text[slots.places[0].clone()], b"17");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots {
    /// Places of the literals and parameters in the text. A sign in front of a number belongs to it where it can be no
    /// operator.
    pub places: Vec<Range<usize>>,
    /// Place of the statement in the text, without comments around it and without `;` behind it.
    pub statement: Range<usize>,
    /// All other tokens, words in small letters, each behind a byte for its kind.
    rest: Vec<u8>,
}

impl Slots {
    /// Splits a text of one statement. `None` if the text has several statements or none, or if the session's settings decide
    /// where a literal ends.
    #[must_use]
    pub fn of(text: &[u8]) -> Option<Self> {
        let mut finder = Finder {
            text,
            lexer: Lexer::new(text, Reading::Strict),
            places: Vec::new(),
            rest: Vec::new(),
            last: Last::Opens,
        };
        let mut statement: Option<Range<usize>> = None;
        while let Some((token, at)) = finder.next()? {
            if token == Token::Other(b';') {
                if finder.next()?.is_some() {
                    return None;
                }
                break;
            }
            finder.take(token, at);
            let begin = statement.map_or(at, |statement| statement.start);
            statement = Some(begin..finder.lexer.at());
        }
        Some(Self {
            places: finder.places,
            statement: statement?,
            rest: finder.rest,
        })
    }

    /// True if the statements differ in nothing but literals, parameters, comments, white space and the case of words.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.rest == other.rest
    }
}

/// Returns the number of a parameter, such as `$1`; `None` for a literal.
#[must_use]
pub fn parameter_number(slot: &[u8]) -> Option<u16> {
    let digits = slot.strip_prefix(b"$")?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    digits.parse().ok()
}

/// Last token, as far as the next one depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// A sign behind it belongs to a number: the beginning, `(`, `[`, `,` or `=`.
    Opens,
    /// Such a sign, at this place.
    Sign(usize),
    Text,
    Name,
    Other,
}

struct Finder<'a> {
    text: &'a [u8],
    lexer: Lexer<'a>,
    places: Vec<Range<usize>>,
    rest: Vec<u8>,
    last: Last,
}

impl<'a> Finder<'a> {
    /// Returns the next token and its place, `Some(None)` at the end, and `None` if the text has several readings.
    #[expect(clippy::option_option, reason = "a token, the end, or no answer")]
    fn next(&mut self) -> Option<Option<(Token<'a>, usize)>> {
        self.lexer.skip().ok()?;
        let at = self.lexer.at();
        let token = self.lexer.token().ok()?;
        Some(token.map(|token| (token, at)))
    }

    fn take(&mut self, token: Token<'a>, at: usize) {
        let last = std::mem::replace(&mut self.last, Last::Other);
        let is_number = match token {
            Token::Other(b'0'..=b'9') => true,
            Token::Other(b'.') => last != Last::Name && self.lexer.number_follows(),
            _ => false,
        };
        if is_number {
            self.lexer.number();
            match last {
                Last::Sign(at) => self.slot_behind_sign(at),
                _ => self.slot(at),
            }
            return;
        }
        match token {
            // 'a' 'b' on two lines are one constant.
            Token::Text(_) if last == Last::Text => {
                if let Some(place) = self.places.last_mut() {
                    place.end = self.lexer.at();
                }
                self.last = Last::Text;
            }
            Token::Text(_) => {
                self.slot(at);
                self.last = Last::Text;
            }
            Token::Other(b'$') if self.lexer.at() > at + 1 => self.slot(at),
            Token::Other(byte) => {
                self.last = match byte {
                    b'(' | b'[' | b',' | b'=' => Last::Opens,
                    b'-' | b'+' if last == Last::Opens => Last::Sign(at),
                    b')' | b']' => Last::Name,
                    _ => Last::Other,
                };
                self.put(b'.', &[byte]);
            }
            Token::Word(word) => {
                self.put(b'w', &word.to_ascii_lowercase());
                self.last = Last::Name;
            }
            Token::Quoted(name) => {
                self.put(b'"', name);
                self.last = Last::Name;
            }
            Token::Unicode => {
                let name = self.text.get(at..self.lexer.at()).unwrap_or_default();
                self.put(b'U', name);
                self.last = Last::Name;
            }
        }
    }

    fn slot(&mut self, at: usize) {
        self.places.push(at..self.lexer.at());
        self.put(b'?', b"");
    }

    /// Adds a number with its sign, which was taken for an operator.
    fn slot_behind_sign(&mut self, at: usize) {
        let is_next = self
            .text
            .get(at + 1)
            .is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.');
        if is_next {
            // The sign's kind, length and byte.
            let len = self.rest.len().saturating_sub(SIGN_LEN);
            self.rest.truncate(len);
            return self.slot(at);
        }
        let end = self.lexer.at();
        let space = self.text.get(at + 1..end).unwrap_or_default();
        let begin = space
            .iter()
            .position(|byte| byte.is_ascii_digit() || *byte == b'.');
        self.places.push(at + 1 + begin.unwrap_or_default()..end);
        self.put(b'?', b"");
    }

    /// Adds a token with its length, so that no two sequences of tokens are written alike.
    fn put(&mut self, kind: u8, bytes: &[u8]) {
        self.rest.push(kind);
        self.rest.extend_from_slice(&bytes.len().to_le_bytes());
        self.rest.extend_from_slice(bytes);
    }
}

/// Number of bytes that a sign takes among the other tokens.
const SIGN_LEN: usize = 1 + size_of::<usize>() + 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(text: &str) -> Option<(Vec<&str>, &str)> {
        let found = Slots::of(text.as_bytes())?;
        let places = found.places.iter().map(|place| &text[place.clone()]);
        Some((places.collect(), &text[found.statement.clone()]))
    }

    #[test]
    fn literals_and_parameters_are_found_in_their_order() {
        for (text, places) in [
            (
                "SELECT 1, 'a', $2, 1.5e3, .5",
                vec!["1", "'a'", "$2", "1.5e3", ".5"],
            ),
            (
                "SELECT a-1, -1, - 1, (-2), f(-3)",
                vec!["1", "-1", "1", "-2", "-3"],
            ),
            ("SELECT a.b, t.1", vec!["1"]),
            (
                "SELECT 'a'\n'b', $$x$$, E'\\'', B'1', DATE '2020-01-01'",
                vec!["'a'\n'b'", "$$x$$", "E'\\''", "B'1'", "'2020-01-01'"],
            ),
            ("SELECT a[1], a1, \"b2\"", vec!["1"]),
        ] {
            assert_eq!(slots(text).unwrap().0, places, "{text}");
        }
    }

    #[test]
    fn comments_and_a_semicolon_are_around_the_statement() {
        assert_eq!(slots(" /* a */ SELECT 1 -- b").unwrap().1, "SELECT 1");
        assert_eq!(slots("SELECT 1 ; -- b\n").unwrap().1, "SELECT 1");
        for text in [
            "SELECT 1; SELECT 2",
            "",
            " -- a",
            ";",
            "SELECT 'a\\'",
            "SELECT 'a",
        ] {
            assert_eq!(slots(text), None, "{text}");
        }
    }

    #[test]
    fn statements_are_alike_if_all_other_tokens_are() {
        let is_like = |one: &str, other: &str| {
            let of = |text: &str| Slots::of(text.as_bytes()).unwrap();
            of(one).is_like(&of(other))
        };
        let rule = "SELECT a FROM t WHERE b = $1 LIMIT $2";
        for text in [
            "select A\nfrom t where b='x' limit 10;",
            "SELECT a FROM t WHERE b = -5 LIMIT $1 /* c */",
        ] {
            assert!(is_like(rule, text), "{text}");
        }
        for text in [
            "SELECT a FROM t WHERE b = $1 OFFSET $2",
            "SELECT a FROM t WHERE \"b\" = $1 LIMIT $2",
            "SELECT a FROM t WHERE b = $1 LIMIT $2 OFFSET 1",
            "SELECT a FROM t WHERE b = b LIMIT $2",
            "SELECT a FROM t WHERE b = - 5 LIMIT 1",
        ] {
            assert!(!is_like(rule, text), "{text}");
        }
        assert!(is_like("SELECT 1, 2", "SELECT 3, '4'"));
        assert!(!is_like("SELECT ab", "SELECT a b"));
    }

    #[test]
    fn parameters_have_numbers() {
        for (slot, number) in [
            ("$1", Some(1)),
            ("$12", Some(12)),
            ("1", None),
            ("$$1$$", None),
        ] {
            assert_eq!(parameter_number(slot.as_bytes()), number, "{slot}");
        }
    }
}
