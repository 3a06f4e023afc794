//! The database and user columns of a rule.

use std::fmt;

use regex::{Regex, RegexBuilder};

use crate::error::Mistake;
use crate::limits::{REGEX_BYTES_MAX, REGEXES_MAX};
use crate::tokens::{Token, quote};
use crate::visitor::{Answer, Fact, Facts, Visitor};

/// Result of comparing a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    No,
    /// The result depends on a fact that was not looked up yet.
    Needs(Fact),
    /// The result depends on a fact that could not be found out.
    Unknown(Fact),
    Yes,
}

impl Fit {
    pub(crate) const fn from_bool(fits: bool) -> Self {
        if fits { Self::Yes } else { Self::No }
    }

    /// Combines two alternatives: yes wins, then an undecided one.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::No, open) | (open, _) => open,
        }
    }
}

/// A regular expression, compiled when the file is read.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    source: String,
    pub(crate) regex: Regex,
}

impl Pattern {
    /// Searches anywhere in the text, unless the expression has anchors.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quote(f, &format!("/{}", self.source))
    }
}

/// Compiles regular expressions up to a limit on their number.
#[derive(Default)]
pub(crate) struct Patterns {
    count: usize,
}

impl Patterns {
    /// Compiles the expression of a token that begins with a slash, quoted or not.
    pub(crate) fn compile(&mut self, token: &Token) -> Result<Option<Pattern>, Mistake> {
        let Some(source) = token.text.strip_prefix('/') else {
            return Ok(None);
        };
        if source.is_empty() {
            return Err(Mistake::EmptyRegex);
        }
        if let Some(part) = ambiguous(source) {
            return Err(Mistake::AmbiguousRegex {
                pattern: source.to_owned(),
                part,
            });
        }
        self.count += 1;
        if self.count > REGEXES_MAX {
            return Err(Mistake::TooManyRegexes);
        }
        // In PostgreSQL's expressions a dot matches any character, including a line feed.
        let regex = RegexBuilder::new(source)
            .dot_matches_new_line(true)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .build();
        match regex {
            Ok(regex) => Ok(Some(Pattern {
                source: source.to_owned(),
                regex,
            })),
            Err(error) => Err(Mistake::BadRegex {
                pattern: source.to_owned(),
                reason: last_line(&error.to_string()),
            }),
        }
    }
}

/// Returns the first construct that both engines accept but read differently.
fn ambiguous(source: &str) -> Option<&'static str> {
    let mut chars = source.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        match (c, next) {
            // Word escapes. In PostgreSQL they mean a backspace, a backslash, and two plain characters.
            ('\\', Some('b' | 'B' | '<' | '>')) => return Some("an escape such as \\b or \\<"),
            ('\\', _) => {
                chars.next();
            }
            ('{', Some(',')) if !in_class => return Some("{,"),
            ('[', _) if !in_class => {
                in_class = true;
                chars.next_if_eq(&'^');
                chars.next_if_eq(&']');
            }
            (']', _) => in_class = false,
            ('[', Some(':')) => {
                let mut last = chars.next();
                if matches!(chars.peek(), Some('<' | '>')) {
                    return Some("[[:<:]]");
                }
                for c in chars.by_ref() {
                    if last == Some(':') && c == ']' {
                        break;
                    }
                    last = Some(c);
                }
            }
            ('[', _) => return Some("a [ inside brackets"),
            ('&', Some('&')) | ('-', Some('-')) | ('~', Some('~')) if in_class => {
                return Some("&&, -- or ~~ inside brackets");
            }
            _ => {}
        }
    }
    None
}

/// Returns the last line of an error: above it the regex compiler draws a picture of the expression.
fn last_line(text: &str) -> String {
    let line = text.lines().last().unwrap_or_default();
    line.strip_prefix("error: ")
        .unwrap_or(line)
        .trim()
        .to_owned()
}

/// An entry of the database column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Database {
    All,
    Matches(Pattern),
    Name(String),
    Replication,
    SameRole,
    SameUser,
}

impl Database {
    pub(crate) fn parse(token: &Token, patterns: &mut Patterns) -> Result<Self, Mistake> {
        if let Some(pattern) = patterns.compile(token)? {
            return Ok(Self::Matches(pattern));
        }
        if !token.quoted {
            match token.text.as_str() {
                "all" => return Ok(Self::All),
                "replication" => return Ok(Self::Replication),
                "samerole" | "samegroup" => return Ok(Self::SameRole),
                "sameuser" => return Ok(Self::SameUser),
                _ => {}
            }
        }
        match token.text.as_str() {
            "" => Err(Mistake::Empty("database name")),
            name => Ok(Self::Name(name.to_owned())),
        }
    }

    /// Compares as PostgreSQL's `check_db`: physical replication fits only its own keyword.
    pub(crate) fn fits(&self, visitor: &Visitor<'_>, facts: &Facts<'_>) -> Fit {
        if visitor.physical_replication {
            return Fit::from_bool(matches!(self, Self::Replication));
        }
        match self {
            Self::All => Fit::Yes,
            Self::Matches(pattern) => Fit::from_bool(pattern.matches(visitor.database)),
            Self::Name(name) => Fit::from_bool(name == visitor.database),
            Self::Replication => Fit::No,
            Self::SameRole => member(visitor.database, facts),
            Self::SameUser => Fit::from_bool(visitor.user == visitor.database),
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Matches(pattern) => pattern.fmt(f),
            Self::Name(name) => {
                let reserved = matches!(
                    name.as_str(),
                    "all" | "replication" | "samegroup" | "samerole" | "sameuser"
                );
                word(f, name, reserved)
            }
            Self::Replication => f.write_str("replication"),
            Self::SameRole => f.write_str("samerole"),
            Self::SameUser => f.write_str("sameuser"),
        }
    }
}

/// An entry of the user column, or of the third column of an ident map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum User {
    All,
    Matches(Pattern),
    /// `+role`: every member of the role, and the role itself.
    Member(String),
    Name(String),
}

impl User {
    pub(crate) fn parse(token: &Token, patterns: &mut Patterns) -> Result<Self, Mistake> {
        if let Some(pattern) = patterns.compile(token)? {
            return Ok(Self::Matches(pattern));
        }
        if let Some(role) = token.behind('+') {
            return match role {
                "" => Err(Mistake::Empty("role name behind +")),
                role => Ok(Self::Member(role.to_owned())),
            };
        }
        match token.text.as_str() {
            "" => Err(Mistake::Empty("user name")),
            "all" if !token.quoted => Ok(Self::All),
            // PgBouncer reads these as in the database column, PostgreSQL as names.
            word @ ("sameuser" | "samerole" | "samegroup") if !token.quoted => {
                Err(Mistake::ReservedUser(word.to_owned()))
            }
            name => Ok(Self::Name(name.to_owned())),
        }
    }

    /// Compares as PostgreSQL's `check_role`.
    pub(crate) fn fits(&self, user: &str, facts: &Facts<'_>) -> Fit {
        match self {
            Self::All => Fit::Yes,
            Self::Matches(pattern) => Fit::from_bool(pattern.matches(user)),
            Self::Member(role) => member(role, facts),
            Self::Name(name) => Fit::from_bool(name == user),
        }
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Matches(pattern) => pattern.fmt(f),
            Self::Member(role) => {
                f.write_str("+")?;
                word(f, role, false)
            }
            Self::Name(name) => {
                let reserved =
                    matches!(name.as_str(), "all" | "samegroup" | "samerole" | "sameuser");
                word(f, name, reserved)
            }
        }
    }
}

/// Combines the entries of a column: yes if any entry fits.
pub(crate) fn one_of(fits: impl Iterator<Item = Fit>) -> Fit {
    let mut all = Fit::No;
    for fit in fits {
        all = all.or(fit);
        if all == Fit::Yes {
            break;
        }
    }
    all
}

fn member(role: &str, facts: &Facts<'_>) -> Fit {
    match facts.roles {
        Answer::Failed => Fit::Unknown(Fact::Roles),
        Answer::Known(roles) => Fit::from_bool(roles.iter().any(|known| known == role)),
        Answer::NotAsked => Fit::Needs(Fact::Roles),
    }
}

/// Writes a name, in quotes if it would mean something else without them.
pub(crate) fn word(f: &mut fmt::Formatter<'_>, name: &str, reserved: bool) -> fmt::Result {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !reserved && !name.is_empty() && name.chars().all(plain) {
        f.write_str(name)
    } else {
        quote(f, name)
    }
}

#[cfg(test)]
mod tests;
