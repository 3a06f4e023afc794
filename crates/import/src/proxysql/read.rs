//! Files of libconfig as settings: groups in braces, lists in parentheses, arrays in brackets.

use crate::cursor::{Cursor, DEPTH_MAX, SyntaxError};
use crate::leaf::{Leaf, Scalar};

/// Reads a text, in the order of its lines. Elements of lists and arrays have their numbers as names.
pub(crate) fn read(file: &str, text: &str) -> Result<Vec<Leaf>, SyntaxError> {
    let mut reader = Reader {
        cursor: Cursor::new(file, text),
        path: Vec::new(),
        leaves: Vec::new(),
    };
    reader.settings(None, 0)?;
    Ok(reader.leaves)
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    path: Vec<String>,
    leaves: Vec<Leaf>,
}

impl Reader<'_> {
    /// Reads settings up to the closing character, or to the end of the file.
    fn settings(&mut self, end: Option<char>, depth: usize) -> Result<(), SyntaxError> {
        loop {
            self.skip()?;
            match self.cursor.peek() {
                None if end.is_none() => return Ok(()),
                None => {
                    return Err(self
                        .cursor
                        .expected("the name of a setting, or a closing brace"));
                }
                Some(c) if Some(c) == end => {
                    self.cursor.take();
                    return Ok(());
                }
                Some('@') => self.include()?,
                Some(c) if c.is_ascii_alphabetic() || c == '*' => self.setting(depth)?,
                Some(_) => return Err(self.cursor.expected("the name of a setting")),
            }
        }
    }

    fn setting(&mut self, depth: usize) -> Result<(), SyntaxError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | '_' | '-');
        let name = self.cursor.take_while(fits).to_owned();
        self.skip()?;
        if !self.cursor.eat('=') && !self.cursor.eat(':') {
            return Err(self.cursor.expected("an equals sign or a colon"));
        }
        self.path.push(name);
        self.value(depth)?;
        self.path.pop();
        self.skip()?;
        if !self.cursor.eat(';') {
            self.cursor.eat(',');
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<(), SyntaxError> {
        self.skip()?;
        if depth == DEPTH_MAX {
            return Err(self
                .cursor
                .error("expected at most 20 groups inside each other"));
        }
        let line = self.cursor.line;
        let scalar = match self.cursor.peek() {
            Some('{') => {
                self.cursor.take();
                return self.settings(Some('}'), depth + 1);
            }
            Some('(') => return self.elements(')', depth),
            Some('[') => return self.elements(']', depth),
            Some('"') => Scalar::Text(self.text()?),
            Some(_) => self.scalar()?,
            None => return Err(self.cursor.expected("a value")),
        };
        self.leaf(scalar, line);
        Ok(())
    }

    /// Reads the elements of a list or an array.
    fn elements(&mut self, end: char, depth: usize) -> Result<(), SyntaxError> {
        self.cursor.take();
        let mut count = 0_usize;
        loop {
            self.skip()?;
            if self.cursor.eat(end) {
                return Ok(());
            }
            self.path.push(count.to_string());
            self.value(depth + 1)?;
            self.path.pop();
            count += 1;
            self.skip()?;
            if !self.cursor.eat(',') && self.cursor.peek() != Some(end) {
                return Err(self.cursor.expected(&format!("a comma or {end:?}")));
            }
        }
    }

    /// Reads a number or a flag.
    fn scalar(&mut self) -> Result<Scalar, SyntaxError> {
        let begin = self.cursor.clone();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let word = self.cursor.take_while(fits);
        let lower = word.to_ascii_lowercase();
        let digits = lower.trim_end_matches('l');
        let number = match digits.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        };
        match (lower.as_str(), number) {
            ("true", _) => Ok(Scalar::Flag(true)),
            ("false", _) => Ok(Scalar::Flag(false)),
            (_, Some(number)) => Ok(Scalar::Number(number)),
            _ if is_float(digits) => Ok(Scalar::Text(word.to_owned())),
            _ => Err(begin.expected("a text in quotes, a number, true, false, or a group")),
        }
    }

    /// Reads texts in quotes; texts that follow each other are one.
    fn text(&mut self) -> Result<String, SyntaxError> {
        let mut text = String::new();
        while self.cursor.peek() == Some('"') {
            let begin = self.cursor.clone();
            self.cursor.take();
            loop {
                match self.cursor.take() {
                    Some('"') => break,
                    Some('\\') => self.escape(&mut text)?,
                    Some(c) => text.push(c),
                    None => {
                        return Err(begin.error(
                            "expected a closing quote (\") behind this one, found the end of the file",
                        ));
                    }
                }
            }
            self.skip()?;
        }
        Ok(text)
    }

    fn escape(&mut self, text: &mut String) -> Result<(), SyntaxError> {
        let begin = self.cursor.clone();
        let c = match self.cursor.take() {
            Some('x') => {
                let mut code = 0;
                for _ in 0..2 {
                    let digit = self.cursor.peek().and_then(|c| c.to_digit(16));
                    let digit = digit.ok_or_else(|| self.cursor.expected("a hexadecimal digit"))?;
                    self.cursor.take();
                    code = code * 16 + digit;
                }
                char::from_u32(code).unwrap_or('?')
            }
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('f') => '\u{c}',
            Some(c @ ('\\' | '"')) => c,
            _ => return Err(begin.expected("an escape: one of \\ \" f n r t x")),
        };
        text.push(c);
        Ok(())
    }

    /// Reads `@include "FILE"`.
    fn include(&mut self) -> Result<(), SyntaxError> {
        let begin = self.cursor.clone();
        self.cursor.take();
        if self.cursor.take_while(|c| c.is_ascii_alphabetic()) != "include" {
            return Err(begin.expected("the name of a setting, or @include"));
        }
        self.skip()?;
        if self.cursor.peek() != Some('"') {
            return Err(self.cursor.expected("the name of a file in quotes"));
        }
        let line = self.cursor.line;
        let name = self.text()?;
        self.path.push("@include".to_owned());
        self.leaf(Scalar::Text(name), line);
        self.path.pop();
        Ok(())
    }

    /// Skips white space and the three kinds of comments.
    fn skip(&mut self) -> Result<(), SyntaxError> {
        loop {
            self.cursor.take_while(char::is_whitespace);
            if self.cursor.starts_with("//") || self.cursor.starts_with("#") {
                self.cursor.take_while(|c| c != '\n');
            } else if self.cursor.starts_with("/*") {
                let begin = self.cursor.clone();
                while !self.cursor.starts_with("*/") {
                    if self.cursor.take().is_none() {
                        return Err(begin
                            .error("expected */ behind this comment, found the end of the file"));
                    }
                }
                self.cursor.take();
                self.cursor.take();
            } else {
                return Ok(());
            }
        }
    }

    fn leaf(&mut self, value: Scalar, line: usize) {
        self.leaves.push(Leaf {
            path: self.path.clone(),
            value,
            file: self.cursor.file.to_owned(),
            line,
        });
    }
}

fn is_float(text: &str) -> bool {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    is_number && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_lists_and_arrays_become_paths() {
        let text =
            "datadir=\"/var\" \"/lib\"\n/* two\nlines */ v = { a : true; b = 0x10L, \"c\" = 1 }";
        assert_eq!(
            read("p.cnf", text).unwrap_err().to_string(),
            "p.cnf:3:37: expected the name of a setting, found '\"'"
        );
        let text =
            "@include \"x.cnf\"\ns = ( { h=\"a\\x41\\n\" }, { h=\"b\" } ) // end\nn = [1, 2.5];";
        let leaves = read("p.cnf", text).unwrap();
        let show = |leaf: &Leaf| format!("{}:{} = {}", leaf.line, leaf.path.join("."), leaf.value);
        let shown: Vec<String> = leaves.iter().map(show).collect();
        let expected = [
            "1:@include = \"x.cnf\"",
            "2:s.0.h = \"aA\\n\"",
            "2:s.1.h = \"b\"",
            "3:n.0 = 1",
            "3:n.1 = \"2.5\"",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn mistakes_have_a_place() {
        let fails = |text: &str| read("p.cnf", text).unwrap_err().to_string();
        let expected = [
            (
                "a",
                "p.cnf:1:2: expected an equals sign or a colon, found the end of the file",
            ),
            (
                "a = {\nb = 1\n",
                "p.cnf:3:1: expected the name of a setting, or a closing brace, found the end of the file",
            ),
            (
                "a = ( 1 2 )",
                "p.cnf:1:9: expected a comma or ')', found '2'",
            ),
            (
                "a = yes",
                "p.cnf:1:5: expected a text in quotes, a number, true, false, or a group, found 'y'",
            ),
            (
                "a = \"x",
                "p.cnf:1:5: expected a closing quote (\") behind this one, found the end of the file",
            ),
        ];
        for (text, error) in expected {
            assert_eq!(fails(text), error);
        }
    }
}
