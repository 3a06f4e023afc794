//! Splits a line into fields, each a list of tokens: PostgreSQL's tokenizer (`hba.c`, manual 21.1).
//!
//! Blanks separate fields, commas the tokens of a field. Double quotes keep blanks, commas and `#` together; two of
//! them inside quotes mean one. A token that begins with a quote is plain text: it is no keyword, no `+role`, no
//! `@file`.
//!
//! There are two differences. A comma may stand after a blank (`a , b` is one list), as in PgBouncer; PostgreSQL splits
//! this into too few fields for a line. And text that PostgreSQL silently reads as something else than it looks (a
//! quote that is never closed, invisible characters) is a mistake here.

use std::iter::Peekable;
use std::str::CharIndices;

use zeroize::Zeroizing;

use crate::error::Mistake;

/// A word of a line.
#[derive(Clone)]
pub(crate) struct Token {
    /// Text without its quotes. Wiped when dropped, because it may be a password.
    pub(crate) text: Zeroizing<String>,
    /// True if the token began with a quote, which removes any special meaning.
    pub(crate) quoted: bool,
    /// True if a comment follows without a blank.
    pub(crate) comment_glued: bool,
}

impl Token {
    /// Returns the text behind the mark, if the token begins with it and is not quoted.
    pub(crate) fn behind(&self, mark: char) -> Option<&str> {
        match self.quoted {
            true => None,
            false => self.text.strip_prefix(mark),
        }
    }
}

/// Selects if a `#` begins a comment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comments {
    Hash,
    None,
}

/// Iterator over the tokens of one line.
pub(crate) struct Tokens<'t> {
    chars: Peekable<CharIndices<'t>>,
    comments: Comments,
    /// Start of the line's comment, once it was reached.
    pub(crate) comment_at: Option<usize>,
}

impl<'t> Tokens<'t> {
    pub(crate) fn new(line: &'t str, comments: Comments) -> Self {
        Self {
            chars: line.char_indices().peekable(),
            comments,
            comment_at: None,
        }
    }

    /// Returns the next token, and true if the list goes on behind it; `None` at the end of the line.
    pub(crate) fn next(&mut self) -> Result<Option<(Token, bool)>, Mistake> {
        while self
            .chars
            .next_if(|c| is_blank(c.1) || c.1 == ',')
            .is_some()
        {}
        let mut text = Zeroizing::new(String::new());
        let (mut in_quote, mut was_quote, mut saw_quote, mut quoted) = (false, false, false, false);
        let mut comment_glued = false;
        let mut goes_on = false;
        while let Some(&(at, c)) = self.chars.peek() {
            if !in_quote && is_blank(c) {
                break;
            }
            if !in_quote && c == '#' && self.comments == Comments::Hash {
                self.comment_at = Some(at);
                comment_glued = true;
                self.chars = "".char_indices().peekable();
                break;
            }
            self.chars.next();
            if !in_quote && c == ',' {
                goes_on = true;
                break;
            }
            if c == '\0' || !in_quote && (c.is_control() || c.is_whitespace()) {
                return Err(Mistake::StrangeCharacter(u32::from(c)));
            }
            if c != '"' || was_quote {
                text.push(c);
            }
            was_quote = in_quote && c == '"' && !was_quote;
            if c == '"' {
                in_quote = !in_quote;
                saw_quote = true;
                quoted |= text.is_empty();
            }
        }
        if in_quote {
            return Err(Mistake::UnterminatedQuote);
        }
        if !saw_quote && text.is_empty() {
            return Ok(None);
        }
        let goes_on = goes_on || self.skip_to_comma();
        let token = Token {
            text,
            quoted,
            comment_glued,
        };
        Ok(Some((token, goes_on)))
    }

    /// Skips blanks and a comma behind them. True if there was a comma.
    fn skip_to_comma(&mut self) -> bool {
        let mut ahead = self.chars.clone();
        while ahead.next_if(|c| is_blank(c.1)).is_some() {}
        let found = ahead.next_if(|c| c.1 == ',').is_some();
        if found {
            self.chars = ahead;
        }
        found
    }
}

/// Returns the tokens of a text without lines, all in one list.
pub(crate) fn flat(text: &str) -> Result<Vec<Token>, Mistake> {
    let mut tokens = Tokens::new(text, Comments::None);
    let mut all = Vec::new();
    while let Some((token, _)) = tokens.next()? {
        all.push(token);
    }
    Ok(all)
}

/// PostgreSQL's `pg_isblank`.
const fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r')
}

/// Writes a word so that it is read back as the same text without special meaning.
pub(crate) fn quote(f: &mut std::fmt::Formatter<'_>, word: &str) -> std::fmt::Result {
    write!(f, "\"{}\"", word.replace('"', "\"\""))
}

#[cfg(test)]
mod tests;
