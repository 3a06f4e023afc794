//! Conditions that look at a text.

use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};

pub(crate) use many::Look;
use many::Member;

mod many;

/// Maximum size of a compiled regular expression, and of the states that a thread keeps for it, in bytes.
const COMPILED_MAX: usize = 256 * 1024;

/// Maximum length of a comment that is read, and of the part of a text in which one is looked for, in bytes.
const COMMENT_MAX: usize = 4 * 1024;

/// Pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadText {
    /// The regular expression has a mistake; its description in one line.
    #[error("not a regular expression: {0}")]
    Syntax(String),
    /// The regular expression is larger than 256 KiB when compiled.
    #[error("the regular expression is too large; shorten it, or bound its repetitions")]
    TooLarge,
    /// The regular expression matches the empty text, and so every text.
    #[error("the regular expression matches every text")]
    Everything,
}

/// Regular expression over the text of a statement as it was sent, with comments and literals. `.` matches line breaks, and
/// the case of letters counts unless the pattern begins with `(?i)`.
#[derive(Debug, Clone)]
pub struct TextPattern {
    /// Shared, so that all copies keep states once for each thread.
    regex: Arc<Regex>,
    /// Place in a set of patterns ([`TextPattern::join`]).
    member: Option<Member>,
}

impl Eq for TextPattern {}

impl PartialEq for TextPattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl TextPattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The pattern has a mistake, is too large, or matches every text.
    pub fn new(pattern: &str) -> Result<Self, BadText> {
        let mut builder = RegexBuilder::new(pattern);
        builder.dot_matches_new_line(true);
        builder
            .size_limit(COMPILED_MAX)
            .dfa_size_limit(COMPILED_MAX);
        let regex = builder.build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => BadText::TooLarge,
            error => BadText::Syntax(one_line(&error.to_string())),
        })?;
        match regex.is_match(b"") {
            true => Err(BadText::Everything),
            false => Ok(Self {
                regex: Arc::new(regex),
                member: None,
            }),
        }
    }

    /// True if the pattern matches anywhere in the text.
    #[must_use]
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }
}

/// Last line of the library's message, which says what is wrong.
fn one_line(message: &str) -> String {
    let last = message.lines().last().unwrap_or_default();
    last.trim().trim_start_matches("error: ").to_owned()
}

/// Key and value in a comment as sqlcommenter writes them: `/*route='%2Fcart',controller='orders'*/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CommentPattern {
    key: String,
    /// Value, or its beginning.
    value: String,
    is_open: bool,
}

impl CommentPattern {
    /// Creates a pattern for a key with this value; a `*` at the end stands for anything.
    #[must_use]
    pub fn new(key: &str, value: &str) -> Self {
        let (value, is_open) = match value.strip_suffix('*') {
            Some(begin) => (begin, true),
            None => (value, false),
        };
        Self {
            key: key.to_owned(),
            value: value.to_owned(),
            is_open,
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value, with a `*` if more may follow.
    #[must_use]
    pub fn value(&self) -> String {
        let end = if self.is_open { "*" } else { "" };
        format!("{}{end}", self.value)
    }

    /// True if a comment at the beginning or at the end of the text has the key with the value.
    #[must_use]
    pub fn is_match(&self, text: &[u8]) -> bool {
        comments(text).into_iter().flatten().any(|comment| {
            pairs(comment).any(|(key, value)| {
                key == self.key
                    && match self.is_open {
                        true => value.starts_with(&self.value),
                        false => value == self.value,
                    }
            })
        })
    }
}

/// Comments at the beginning and at the end of a text.
fn comments(text: &[u8]) -> [Option<&str>; 2] {
    let text = text.trim_ascii();
    let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii_end();
    let head = text.get(..COMMENT_MAX).unwrap_or(text);
    let front = head.strip_prefix(b"/*").and_then(|rest| {
        let end = rest.windows(2).position(|pair| pair == b"*/")?;
        rest.get(..end)
    });
    let tail = text.get(text.len().saturating_sub(COMMENT_MAX)..);
    let back = tail
        .and_then(|tail| tail.strip_suffix(b"*/"))
        .and_then(|tail| {
            let begin = tail.windows(2).rposition(|pair| pair == b"/*")?;
            tail.get(begin + 2..)
        });
    [front, back].map(|comment| comment.and_then(|comment| std::str::from_utf8(comment).ok()))
}

/// Pairs of a comment, with their values decoded.
fn pairs(comment: &str) -> impl Iterator<Item = (String, String)> {
    comment.split(',').filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        let value = value.trim().strip_prefix('\'')?.strip_suffix('\'')?;
        Some((decoded(key.trim()), decoded(&value.replace("\\'", "'"))))
    })
}

/// Decodes `%2F`. What is no code stays.
fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        let code = behind.get(..2).filter(|_| *byte == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) => {
                out.push(code);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_meets_newlines_and_whatever_stands_before() {
        let pattern = TextPattern::new("(?i)from\\s+big_table.*order").unwrap();
        assert!(pattern.is_match(b"SELECT *\nFROM  big_table\n-- x\nORDER BY a"));
        assert!(!pattern.is_match(b"SELECT * FROM small_table ORDER BY a"));
    }

    #[test]
    fn a_pattern_that_is_of_no_use_is_refused() {
        for (pattern, why) in [
            ("(", "not a regular expression: unclosed group"),
            ("a*", "the regular expression matches every text"),
            (
                "(\\w{1,500}){500}",
                "the regular expression is too large; shorten it, or bound its repetitions",
            ),
        ] {
            let refused = TextPattern::new(pattern).unwrap_err();
            assert_eq!(refused.to_string(), why);
        }
    }

    #[test]
    fn keys_of_comments_are_found_at_both_ends() {
        let pattern = CommentPattern::new("route", "/cart*");
        for text in [
            "SELECT 1 /*controller='a',route='%2Fcart%2F7'*/",
            "/*route='/cart'*/ SELECT 1;",
            "SELECT 1 /* x */ /*route='%2Fcart',db_driver='y'*/ ; ",
        ] {
            assert!(pattern.is_match(text.as_bytes()), "{text}");
        }
        for text in [
            "SELECT 1",
            "SELECT '/*route=''/cart''*/'",
            "SELECT 1 /*route='/card'*/",
            "SELECT /*route='/cart'*/ 1",
            "/*route='/cart",
        ] {
            assert!(!pattern.is_match(text.as_bytes()), "{text}");
        }
        assert!(CommentPattern::new("a b", "it's").is_match(b"SELECT 1 /*a%20b='it\\'s'*/"));
    }
}
