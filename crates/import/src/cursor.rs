//! Place in a text that is read character by character, and the error that names it. Nothing here may show more of a text
//! than one character: the rest may be a secret.

use std::fmt;

/// Maximum depth of blocks inside of blocks, far above that of real files.
pub(crate) const DEPTH_MAX: usize = 20;

/// Reason why a file cannot be read, and the place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyntaxError {
    /// Name of the file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Expected text, and the one found.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            message,
        } = self;
        write!(f, "{file}:{line}:{column}: {message}")
    }
}

impl std::error::Error for SyntaxError {}

/// Rest of a text, with its place.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) file: &'a str,
    rest: &'a str,
    pub(crate) line: usize,
    column: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self {
            file,
            rest: text.strip_prefix('\u{feff}').unwrap_or(text),
            line: 1,
            column: 1,
        }
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(crate) fn starts_with(&self, text: &str) -> bool {
        self.rest.starts_with(text)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes the next character.
    pub(crate) fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = self.rest.get(next.len_utf8()..).unwrap_or_default();
        match next {
            '\n' => {
                self.line += 1;
                self.column = 1;
            }
            _ => self.column += 1,
        }
        Some(next)
    }

    /// Takes the next character if it is this one.
    pub(crate) fn eat(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.take();
        }
        is_next
    }

    /// Takes the characters that fit, and returns them.
    pub(crate) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let text = self.rest;
        while self.peek().is_some_and(&fits) {
            self.take();
        }
        let len = text.len() - self.rest.len();
        text.get(..len).unwrap_or_default()
    }

    /// Error at this place. `expected` is what the format wants here.
    pub(crate) fn expected(&self, expected: &str) -> SyntaxError {
        let found = match self.peek() {
            None => "the end of the file".to_owned(),
            Some('\n' | '\r') => "the end of the line".to_owned(),
            Some(found) => format!("{found:?}"),
        };
        self.error(format!("expected {expected}, found {found}"))
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError {
            file: self.file.to_owned(),
            line: self.line,
            column: self.column,
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_and_characters() {
        let mut cursor = Cursor::new("f", "äb\ncd");
        assert_eq!(cursor.take_while(|c| c != '\n'), "äb");
        assert_eq!(
            cursor.expected("a value").to_string(),
            "f:1:3: expected a value, found the end of the line"
        );
        cursor.take();
        assert!(cursor.eat('c') && !cursor.eat('c'));
        assert_eq!(
            cursor.expected("a value").to_string(),
            "f:2:2: expected a value, found 'd'"
        );
        cursor.take();
        assert_eq!(
            cursor.expected("a value").to_string(),
            "f:2:3: expected a value, found the end of the file"
        );
    }
}
