//! PostgreSQL's lexical rules (manual 4.1), as far as needed to tell words from quoted text.
//!
//! A text may read differently with `standard_conforming_strings` off, in another client encoding or in an older
//! PostgreSQL. The strict reading stops there with [`Unclear`]; the other readings decide.

use std::ops::Range;

use crate::table::PerByte;

/// Reason for which the strict reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unclear {
    /// `\'` in a constant without E, which may or may not be its end.
    Backslash,
    /// A constant, a name or a comment has no end. PostgreSQL refuses the whole text.
    End,
    /// A zero byte.
    Nul,
    /// `U&""`, whose escapes can spell any name.
    Unicode,
    /// A backslash or a dollar tag behind a byte beyond ASCII. In SJIS, BIG5, GBK, GB18030, UHC and JOHAB the second
    /// byte of a character may look like ASCII.
    Wide,
}

/// Way to read an unclear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Stop with an error.
    Strict,
    /// Read as with `standard_conforming_strings` on, where the second byte of a character is never ASCII.
    Standard,
    /// Read as with `standard_conforming_strings` off; otherwise like `Standard`.
    Escaping,
}

/// Token of a text, except white space and comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A key word or an identifier, not folded.
    Word(&'a [u8]),
    /// The text between double quotes.
    Quoted(&'a [u8]),
    /// `U&""`
    Unicode,
    /// A constant in quotes of any kind, including its quotes.
    Text(&'a [u8]),
    /// A number, a parameter or part of an operator: its first byte.
    Other(u8),
}

/// Item that step 1 looks at within a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// An identifier, quoted or not.
    Name(&'a [u8]),
    /// `;`
    Semicolon,
}

/// Splits a text into tokens.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// Position of the last token that [`Lexer::token`] returned.
    began: usize,
    reading: Reading,
    /// Depth of the deepest comment so far. PostgreSQL's own time is quadratic in it.
    depth_max: usize,
}

/// Kind of token that a byte may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Digit,
    Dollar,
    Double,
    Minus,
    Nul,
    Other,
    Semicolon,
    Single,
    Slash,
    Space,
    Word,
}

static CLASSES: PerByte<Class> = classes();
/// Bytes that step 1 skips between two words.
static BORING: PerByte<bool> = boring();
/// Bytes that may continue an identifier.
pub(crate) static IDENTIFIER: PerByte<bool> = identifier();

const fn class_of(byte: u8) -> Class {
    match byte {
        // 0x0b since PostgreSQL 16; before that it is an error.
        b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => Class::Space,
        b'A'..=b'Z' | b'a'..=b'z' | b'_' | 0x80..=0xff => Class::Word,
        b'0'..=b'9' => Class::Digit,
        b'$' => Class::Dollar,
        b'"' => Class::Double,
        b'-' => Class::Minus,
        b'\'' => Class::Single,
        b'/' => Class::Slash,
        b';' => Class::Semicolon,
        0 => Class::Nul,
        _ => Class::Other,
    }
}

const fn classes() -> PerByte<Class> {
    let mut table = PerByte::new([Class::Nul; 256]);
    let mut byte = u8::MAX;
    while byte > 0 {
        table.set(byte, class_of(byte));
        byte -= 1;
    }
    table
}

const fn boring() -> PerByte<bool> {
    let mut table = PerByte::new([false; 256]);
    let mut byte = u8::MAX;
    while byte > 0 {
        let class = class_of(byte);
        table.set(
            byte,
            matches!(class, Class::Space | Class::Digit | Class::Other),
        );
        byte -= 1;
    }
    table
}

const fn identifier() -> PerByte<bool> {
    let mut table = PerByte::new([false; 256]);
    let mut byte = u8::MAX;
    while byte > 0 {
        let class = class_of(byte);
        table.set(
            byte,
            matches!(class, Class::Word | Class::Digit | Class::Dollar),
        );
        byte -= 1;
    }
    table
}

/// Returns the number of bytes of an identifier at the beginning of a text.
#[inline]
fn identifier_len(text: &[u8]) -> usize {
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk() {
        let others = others(u64::from_le_bytes(*word));
        if others != 0 {
            return text.len() - rest.len() + others.trailing_zeros() as usize / 8;
        }
        rest = behind;
    }
    let end = rest.iter().position(|byte| !IDENTIFIER.at(*byte));
    text.len() - rest.len() + end.unwrap_or(rest.len())
}

/// Sets the highest bit of each of eight bytes that is not in [`IDENTIFIER`].
#[inline]
const fn others(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // Sets the highest bit of bytes below 0x80 that are in the range.
    const fn within(low: u64, first: u8, last: u8) -> u64 {
        (low + (0x80 - first as u64) * EACH) ^ (low + (0x7f - last as u64) * EACH)
    }
    let low = word & !HIGH;
    let letters = within(low | (0x20 * EACH), b'a', b'z');
    let found =
        letters | within(low, b'0', b'9') | within(low, b'_', b'_') | within(low, b'$', b'$');
    !(found | word) & HIGH
}

/// Returns the end of a number, of which the text up to `at` is part: digits, letters such as in `0x1F` and `1e5`, a point,
/// and the sign of an exponent.
#[inline]
pub(crate) fn number_end(text: &[u8], at: usize) -> usize {
    let mut at = at;
    while let Some(byte) = text.get(at) {
        let is_part = match byte {
            b'+' | b'-' => ends_in_exponent(text, at),
            // `1..2` is two numbers.
            b'.' => text.get(at + 1) != Some(&b'.'),
            byte => byte.is_ascii_alphanumeric() || *byte == b'_',
        };
        if !is_part {
            break;
        }
        at += 1;
    }
    at
}

/// True if a digit and the letter of an exponent precede this position, and a digit follows the byte there.
fn ends_in_exponent(text: &[u8], at: usize) -> bool {
    let byte = |at: Option<usize>| at.and_then(|at| text.get(at)).copied();
    let is_digit = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_digit());
    let before = byte(at.checked_sub(2));
    let is_number = is_digit(before) || before == Some(b'.');
    let is_letter = matches!(byte(at.checked_sub(1)), Some(b'e' | b'E'));
    is_letter && is_number && is_digit(byte(Some(at + 1)))
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8], reading: Reading) -> Self {
        Self {
            text,
            at: 0,
            began: 0,
            reading,
            depth_max: 0,
        }
    }

    /// Goes on at this position, up to which tokens were read without this lexer.
    pub(crate) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Returns the present position in bytes.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// True if the last token was a name in quotes.
    pub(crate) fn ends_in_quote(&self) -> bool {
        let last = self.at.checked_sub(1);
        last.and_then(|last| self.text.get(last)) == Some(&b'"')
    }

    pub(crate) fn depth_max(&self) -> usize {
        self.depth_max
    }

    /// Returns the next identifier or `;`, skipping everything else; `None` at the end.
    #[inline]
    pub(crate) fn item(&mut self) -> Result<Option<Item<'a>>, Unclear> {
        loop {
            let rest = self.rest();
            let Some(skip) = rest.iter().position(|byte| !BORING.at(*byte)) else {
                self.at = self.text.len();
                return Ok(None);
            };
            let start = self.at + skip;
            self.at = start;
            let token = match self.text.get(start).map(|byte| CLASSES.at(*byte)) {
                Some(Class::Word) => self.word(start)?,
                Some(Class::Semicolon) => {
                    self.at += 1;
                    return Ok(Some(Item::Semicolon));
                }
                _ => match self.token()? {
                    None => return Ok(None),
                    Some(token) => token,
                },
            };
            match token {
                Token::Word(name) | Token::Quoted(name) => return Ok(Some(Item::Name(name))),
                // A semicolon behind a comment.
                Token::Other(b';') => return Ok(Some(Item::Semicolon)),
                Token::Unicode => return Err(Unclear::Unicode),
                Token::Text(_) | Token::Other(_) => {}
            }
        }
    }

    /// Returns the position of the last token that [`Lexer::token`] returned.
    pub(crate) fn began(&self) -> usize {
        self.began
    }

    /// Returns the next token; `None` at the end.
    #[inline(always)]
    pub(crate) fn token(&mut self) -> Result<Option<Token<'a>>, Unclear> {
        while let Some(byte) = self.peek() {
            let start = self.at;
            self.began = start;
            match CLASSES.at(byte) {
                Class::Word => return self.word(start).map(Some),
                Class::Space => self.at += 1,
                Class::Other | Class::Semicolon => {
                    self.at += 1;
                    return Ok(Some(Token::Other(byte)));
                }
                // A word directly behind a number is a token of its own: before PostgreSQL 15 `1SET` was two tokens.
                Class::Digit => {
                    self.digits();
                    return Ok(Some(Token::Other(byte)));
                }
                Class::Single => return self.plain(start, start).map(Some),
                Class::Double => return self.quoted(start).map(Token::Quoted).map(Some),
                Class::Dollar => return self.dollar(start).map(Some),
                Class::Minus if self.follows(1, b'-') => self.line(),
                Class::Slash if self.follows(1, b'*') => self.comment()?,
                Class::Minus | Class::Slash => {
                    self.at += 1;
                    return Ok(Some(Token::Other(byte)));
                }
                Class::Nul => return Err(Unclear::Nul),
            }
        }
        Ok(None)
    }

    /// Skips white space and comments.
    #[inline]
    pub(crate) fn skip(&mut self) -> Result<(), Unclear> {
        while let Some(byte) = self.peek() {
            match CLASSES.at(byte) {
                Class::Space => self.at += 1,
                Class::Minus if self.follows(1, b'-') => self.line(),
                Class::Slash if self.follows(1, b'*') => self.comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    /// True if a digit follows at once.
    pub(crate) fn number_follows(&self) -> bool {
        self.peek().is_some_and(|byte| byte.is_ascii_digit())
    }

    /// Skips the rest of a number.
    pub(crate) fn number(&mut self) {
        self.at = number_end(self.text, self.at);
    }

    /// Returns the first byte of the next token; `None` at the end. A token that cannot be read has some byte.
    #[inline]
    pub(crate) fn ahead(&self) -> Option<u8> {
        let mut rest = self.rest().iter();
        let byte = rest.find(|byte| CLASSES.at(**byte) != Class::Space)?;
        match CLASSES.at(*byte) {
            // Comments may begin so.
            Class::Minus | Class::Slash => self.behind_comments(),
            _ => Some(*byte),
        }
    }

    #[cold]
    fn behind_comments(&self) -> Option<u8> {
        match self.clone().token() {
            Ok(None) => None,
            Ok(Some(Token::Other(byte))) => Some(byte),
            Ok(Some(_)) | Err(_) => Some(b'?'),
        }
    }

    /// Returns the part of the text that has not been read yet.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn slice(&self, range: Range<usize>) -> &'a [u8] {
        self.text.get(range).unwrap_or_default()
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn follows(&self, distance: usize, byte: u8) -> bool {
        self.text.get(self.at + distance) == Some(&byte)
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    #[inline(always)]
    fn word(&mut self, start: usize) -> Result<Token<'a>, Unclear> {
        let rest = self.text.get(start..).unwrap_or_default();
        let length = identifier_len(rest);
        self.at = start + length;
        if length == 1 {
            return self.letter(start);
        }
        Ok(Token::Word(self.slice(start..self.at)))
    }

    /// Reads a single character; with a quote behind it, it may begin E'', B'', X'', N'', U&'' or U&"".
    fn letter(&mut self, start: usize) -> Result<Token<'a>, Unclear> {
        let rest = self.text.get(start..).unwrap_or_default();
        match rest {
            [b'e' | b'E', b'\'', ..] => self.escaped(start),
            [b'b' | b'B' | b'x' | b'X', b'\'', ..] => self.digital(start),
            [b'n' | b'N', b'\'', ..] => self.plain(start, start + 1),
            [b'u' | b'U', b'&', b'\'', ..] => self.plain(start, start + 2),
            [b'u' | b'U', b'&', b'"', ..] if self.reading == Reading::Strict => {
                Err(Unclear::Unicode)
            }
            [b'u' | b'U', b'&', b'"', ..] => self.quoted(start + 2).map(|_| Token::Unicode),
            _ => Ok(Token::Word(self.slice(start..self.at))),
        }
    }

    /// Reads up to the closing quote, where a doubled quote does not close. `quote` is the position of the opening one.
    fn plain(&mut self, start: usize, quote: usize) -> Result<Token<'a>, Unclear> {
        self.at = quote + 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\'' if self.follows(0, b'\'') => self.at += 1,
                b'\'' => return Ok(Token::Text(self.slice(start..self.at))),
                b'\\' => match self.reading {
                    Reading::Strict => {
                        self.narrow()?;
                        if self.follows(0, b'\'') {
                            return Err(Unclear::Backslash);
                        }
                        self.at += 1;
                    }
                    Reading::Standard => {}
                    Reading::Escaping => self.at += 1,
                },
                _ => {}
            }
        }
        Err(Unclear::End)
    }

    /// Reads B'' and X'', which have neither doubled quotes nor escapes.
    fn digital(&mut self, start: usize) -> Result<Token<'a>, Unclear> {
        self.at = start + 2;
        let end = self.rest().iter().position(|byte| *byte == b'\'');
        self.at += end.ok_or(Unclear::End)? + 1;
        Ok(Token::Text(self.slice(start..self.at)))
    }

    /// Reads E'', where a backslash escapes the next byte.
    fn escaped(&mut self, start: usize) -> Result<Token<'a>, Unclear> {
        self.at = start + 2;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\'' if self.follows(0, b'\'') => self.at += 1,
                b'\'' => {
                    self.continued()?;
                    return Ok(Token::Text(self.slice(start..self.at)));
                }
                b'\\' => {
                    if self.reading == Reading::Strict {
                        self.narrow()?;
                    }
                    self.at += 1;
                }
                _ => {}
            }
        }
        Err(Unclear::End)
    }

    /// Continues `E'a'` with `'b\'c'` on a new line, where escapes still apply. On the same line it would not continue.
    fn continued(&mut self) -> Result<(), Unclear> {
        let mut ahead = self.clone();
        let mut is_next_line = false;
        while let Some(byte) = ahead.peek() {
            match CLASSES.at(byte) {
                Class::Space => {
                    is_next_line |= matches!(byte, b'\n' | b'\r');
                    ahead.at += 1;
                }
                Class::Minus if ahead.follows(1, b'-') => ahead.line(),
                Class::Single if is_next_line => {
                    // Reads as if an E stood before the quote.
                    ahead.escaped(ahead.at - 1)?;
                    self.at = ahead.at;
                    break;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Checks that the backslash just passed is not the second byte of a character.
    fn narrow(&self) -> Result<(), Unclear> {
        let before = self.at.checked_sub(2).and_then(|at| self.text.get(at));
        if before.is_some_and(|byte| *byte >= 0x80) {
            return Err(Unclear::Wide);
        }
        Ok(())
    }

    fn quoted(&mut self, quote: usize) -> Result<&'a [u8], Unclear> {
        let start = quote + 1;
        self.at = start;
        while let Some(byte) = self.peek() {
            self.at += 1;
            if byte == b'"' {
                if !self.follows(0, b'"') {
                    return Ok(self.slice(start..self.at - 1));
                }
                self.at += 1;
            }
        }
        Err(Unclear::End)
    }

    /// Reads a parameter, a constant in dollar quotes, or a stray dollar.
    fn dollar(&mut self, start: usize) -> Result<Token<'a>, Unclear> {
        self.at += 1;
        if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.digits();
            return Ok(Token::Other(b'$'));
        }
        let mut wide = false;
        while let Some(byte) = self.peek() {
            match CLASSES.at(byte) {
                Class::Word | Class::Digit => wide |= byte >= 0x80,
                Class::Dollar => return self.body(start),
                _ => break,
            }
            self.at += 1;
        }
        if wide && self.reading == Reading::Strict {
            return Err(Unclear::Wide);
        }
        self.at = start + 1;
        Ok(Token::Other(b'$'))
    }

    /// Reads up to the next occurrence of the tag.
    fn body(&mut self, start: usize) -> Result<Token<'a>, Unclear> {
        self.at += 1;
        let tag = self.slice(start..self.at);
        loop {
            let skip = self.rest().iter().position(|byte| *byte == b'$');
            self.at += skip.ok_or(Unclear::End)?;
            if self.rest().starts_with(tag) {
                self.at += tag.len();
                return Ok(Token::Text(self.slice(start..self.at)));
            }
            self.at += 1;
        }
    }

    fn line(&mut self) {
        let end = self
            .rest()
            .iter()
            .position(|byte| matches!(byte, b'\n' | b'\r'));
        self.at = end.map_or(self.text.len(), |end| self.at + end);
    }

    fn comment(&mut self) -> Result<(), Unclear> {
        let mut depth = 0_usize;
        loop {
            match self.rest() {
                [b'/', b'*', ..] => {
                    depth += 1;
                    self.depth_max = self.depth_max.max(depth);
                    self.at += 2;
                }
                [b'*', b'/', ..] => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                [_, ..] => self.at += 1,
                [] => return Err(Unclear::End),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bytes_are_told_apart_as_single_ones_are() {
        for byte in 0..=u8::MAX {
            for place in 0..8 {
                let mut bytes = *b"aZ09_$\x80z";
                bytes[place] = byte;
                let expected = bytes.map(|byte| if IDENTIFIER.at(byte) { 0 } else { 0x80 });
                assert_eq!(others(u64::from_le_bytes(bytes)).to_le_bytes(), expected);
                let mut text = [b'x'; 20];
                text[place + 7] = byte;
                let end = text.iter().position(|byte| !IDENTIFIER.at(*byte));
                assert_eq!(
                    identifier_len(&text),
                    end.unwrap_or(20),
                    "{byte} at {place}"
                );
            }
        }
    }
}
