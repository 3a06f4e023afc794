//! PostgreSQL's lexical rules (manual 4.1), as far as it takes to tell words from what is quoted.
//!
//! Where a text reads differently under `standard_conforming_strings`, another encoding or another
//! version of PostgreSQL, there is no token but [`Unclear`].

/// The text has two readings, or ends inside of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unclear;

/// A piece of a text. White space and comments are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A key word or an identifier, not folded.
    Word(&'a [u8]),
    /// What stands between the double quotes.
    Quoted(&'a [u8]),
    /// A constant in quotes of any kind.
    Text,
    /// A number, a parameter or a piece of an operator: its first byte.
    Other(u8),
}

/// Cuts a text into tokens.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

/// What a byte may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Digit,
    Dollar,
    Double,
    Minus,
    Nul,
    Other,
    Single,
    Slash,
    Space,
    Word,
}

static CLASSES: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(
            clippy::indexing_slicing,
            clippy::cast_possible_truncation,
            reason = "below 256"
        )]
        {
            classes[byte] = match byte as u8 {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => Class::Space,
                b'A'..=b'Z' | b'a'..=b'z' | b'_' | 0x80..=0xff => Class::Word,
                b'0'..=b'9' => Class::Digit,
                b'$' => Class::Dollar,
                b'"' => Class::Double,
                b'-' => Class::Minus,
                b'\'' => Class::Single,
                b'/' => Class::Slash,
                0 => Class::Nul,
                _ => Class::Other,
            };
        }
        byte += 1;
    }
    classes
}

#[inline]
fn class(byte: u8) -> Class {
    CLASSES
        .get(usize::from(byte))
        .copied()
        .unwrap_or(Class::Other)
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The next token; nothing at the end.
    #[inline]
    pub(crate) fn token(&mut self) -> Result<Option<Token<'a>>, Unclear> {
        while let Some(byte) = self.peek() {
            let start = self.at;
            self.at += 1;
            match class(byte) {
                Class::Space => {}
                Class::Word => return self.word(start).map(Some),
                Class::Other => return Ok(Some(Token::Other(byte))),
                Class::Digit => {
                    self.digits();
                    return Ok(Some(Token::Other(byte)));
                }
                Class::Single => return self.plain().map(Some),
                Class::Double => return self.quoted().map(Some),
                Class::Dollar => return self.dollar().map(Some),
                Class::Minus if self.peek() == Some(b'-') => self.line(),
                Class::Slash if self.peek() == Some(b'*') => self.comment()?,
                Class::Minus | Class::Slash => return Ok(Some(Token::Other(byte))),
                Class::Nul => return Err(Unclear),
            }
        }
        Ok(None)
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Letters and digits on their own, so that older versions' reading of `1SET` shows the word too.
    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    #[inline]
    fn word(&mut self, start: usize) -> Result<Token<'a>, Unclear> {
        while let Some(byte) = self.peek() {
            match class(byte) {
                Class::Word | Class::Digit | Class::Dollar => self.at += 1,
                Class::Single if self.at == start + 1 => return self.prefixed(start),
                Class::Other if byte == b'&' && self.at == start + 1 => return self.unicode(start),
                _ => break,
            }
        }
        Ok(Token::Word(
            self.text.get(start..self.at).unwrap_or_default(),
        ))
    }

    /// A letter and a quote: E'', B'', X'', N'' or two tokens.
    fn prefixed(&mut self, start: usize) -> Result<Token<'a>, Unclear> {
        match self.text.get(start) {
            Some(b'e' | b'E') => {
                self.at += 1;
                self.escaped()
            }
            Some(b'b' | b'B' | b'x' | b'X' | b'n' | b'N') => {
                self.at += 1;
                self.plain()
            }
            _ => Ok(Token::Word(
                self.text.get(start..self.at).unwrap_or_default(),
            )),
        }
    }

    /// A letter and `&`. Escapes of `U&""` can spell any word.
    fn unicode(&mut self, start: usize) -> Result<Token<'a>, Unclear> {
        let u = matches!(self.text.get(start), Some(b'u' | b'U'));
        match self.text.get(self.at + 1) {
            Some(b'"') if u => Err(Unclear),
            Some(b'\'') if u => {
                self.at += 2;
                self.plain()
            }
            _ => Ok(Token::Word(
                self.text.get(start..self.at).unwrap_or_default(),
            )),
        }
    }

    /// Up to the closing quote; a doubled one opens a second constant right away, which is the same.
    /// A backslash escapes only without `standard_conforming_strings`: `\'` has two readings.
    fn plain(&mut self) -> Result<Token<'a>, Unclear> {
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\'' if self.peek() == Some(b'\'') => self.at += 1,
                b'\'' => return Ok(Token::Text),
                b'\\' => {
                    self.wide_backslash()?;
                    if self.peek() == Some(b'\'') {
                        return Err(Unclear);
                    }
                    self.at += 1;
                }
                _ => {}
            }
        }
        Err(Unclear)
    }

    fn escaped(&mut self) -> Result<Token<'a>, Unclear> {
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\'' if self.peek() == Some(b'\'') => self.at += 1,
                b'\'' => return Ok(Token::Text),
                b'\\' => {
                    self.wide_backslash()?;
                    self.at += 1;
                }
                _ => {}
            }
        }
        Err(Unclear)
    }

    /// In SJIS, BIG5, GBK, GB18030, UHC and JOHAB a backslash may be the second byte of a letter.
    fn wide_backslash(&self) -> Result<(), Unclear> {
        let before = self.at.checked_sub(2).and_then(|at| self.text.get(at));
        if before.is_some_and(|byte| *byte >= 0x80) {
            Err(Unclear)
        } else {
            Ok(())
        }
    }

    fn quoted(&mut self) -> Result<Token<'a>, Unclear> {
        let start = self.at;
        while let Some(byte) = self.peek() {
            self.at += 1;
            if byte == b'"' {
                if self.peek() != Some(b'"') {
                    return Ok(Token::Quoted(
                        self.text.get(start..self.at - 1).unwrap_or_default(),
                    ));
                }
                self.at += 1;
            }
        }
        Err(Unclear)
    }

    /// A parameter, a constant in dollar quotes, or a stray dollar.
    fn dollar(&mut self) -> Result<Token<'a>, Unclear> {
        let tag_start = self.at;
        if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.digits();
            return Ok(Token::Other(b'$'));
        }
        let mut wide = false;
        while let Some(byte) = self.peek() {
            match class(byte) {
                Class::Word | Class::Digit => {
                    wide |= byte >= 0x80;
                    self.at += 1;
                }
                Class::Dollar => return self.body(tag_start),
                _ => break,
            }
        }
        if wide {
            return Err(Unclear);
        }
        self.at = tag_start;
        Ok(Token::Other(b'$'))
    }

    /// Up to the same tag again.
    fn body(&mut self, tag_start: usize) -> Result<Token<'a>, Unclear> {
        let tag = self.text.get(tag_start..self.at).unwrap_or_default();
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            if byte == b'$' {
                let rest = self.text.get(self.at..).unwrap_or_default();
                if rest.starts_with(tag) && rest.get(tag.len()) == Some(&b'$') {
                    self.at += tag.len() + 1;
                    return Ok(Token::Text);
                }
            }
        }
        Err(Unclear)
    }

    fn line(&mut self) {
        while self
            .peek()
            .is_some_and(|byte| byte != b'\n' && byte != b'\r')
        {
            self.at += 1;
        }
    }

    fn comment(&mut self) -> Result<(), Unclear> {
        self.at += 1;
        let mut depth = 1_usize;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match (byte, self.peek()) {
                (b'*', Some(b'/')) => {
                    self.at += 1;
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                (b'/', Some(b'*')) => {
                    self.at += 1;
                    depth += 1;
                }
                _ => {}
            }
        }
        Err(Unclear)
    }
}
