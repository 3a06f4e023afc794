//! Settings that a text assigns to constants: by SET, and by calls of `set_config`.

use std::str::from_utf8;

use crate::code;
use crate::lex::{Lexer, Reading, Token, Unclear};

/// Calls `visit` for each setting that a text assigns to one constant, with its name in lower case and the value. Values
/// that are not constants, lists, and settings of functions and roles are left out. A text that PostgreSQL may read in
/// several ways is read with `standard_conforming_strings`.
pub fn assigned(text: &[u8], visit: &mut dyn FnMut(&str, &str)) {
    let mut lexer = Lexer::new(text, Reading::Standard);
    // A text without an end is refused by PostgreSQL.
    let _ = read(&mut lexer, visit);
}

fn read(lexer: &mut Lexer<'_>, visit: &mut dyn FnMut(&str, &str)) -> Result<(), Unclear> {
    let mut begins = true;
    while let Some(token) = lexer.token()? {
        let found = match token {
            Token::Word(word) if begins && word.eq_ignore_ascii_case(b"set") => {
                set(&mut lexer.clone())?
            }
            Token::Word(word) | Token::Quoted(word) if word.eq_ignore_ascii_case(b"set_config") => {
                call(&mut lexer.clone())?
            }
            _ => None,
        };
        if let Some((name, value)) = found {
            visit(&name, &value);
        }
        begins = token == Token::Other(b';');
    }
    Ok(())
}

/// Reads the words behind SET.
fn set(lexer: &mut Lexer<'_>) -> Result<Option<(String, String)>, Unclear> {
    let mut name = String::new();
    loop {
        let Some(part) = lexer.token()?.and_then(word) else {
            return Ok(None);
        };
        // A scope stands in front of the name, without a dot.
        name.push_str(&part);
        match lexer.token()? {
            Some(Token::Other(b'.')) => name.push('.'),
            Some(Token::Other(b'=')) => break,
            Some(Token::Word(to)) if to.eq_ignore_ascii_case(b"to") => break,
            Some(next @ (Token::Word(_) | Token::Quoted(_)))
                if matches!(&*name, "local" | "session") =>
            {
                name.clear();
                name.extend(word(next));
                match lexer.token()? {
                    Some(Token::Other(b'.')) => name.push('.'),
                    Some(Token::Other(b'=')) => break,
                    Some(Token::Word(to)) if to.eq_ignore_ascii_case(b"to") => break,
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        }
    }
    let value = match lexer.token()? {
        Some(Token::Word(word)) if word.eq_ignore_ascii_case(b"default") => None,
        Some(Token::Text(constant)) => constant_text(constant),
        Some(token) => word(token),
        None => None,
    };
    let is_end = matches!(lexer.token()?, None | Some(Token::Other(b';')));
    Ok(value.filter(|_| is_end).map(|value| (name, value)))
}

/// Reads the arguments of `set_config`.
fn call(lexer: &mut Lexer<'_>) -> Result<Option<(String, String)>, Unclear> {
    let mut argument = |before: u8| -> Result<Option<String>, Unclear> {
        if lexer.token()? != Some(Token::Other(before)) {
            return Ok(None);
        }
        Ok(match lexer.token()? {
            Some(Token::Text(constant)) => constant_text(constant),
            _ => None,
        })
    };
    let (Some(name), Some(value)) = (argument(b'(')?, argument(b',')?) else {
        return Ok(None);
    };
    let is_whole = lexer.token()? == Some(Token::Other(b','));
    Ok(is_whole.then(|| (name.to_ascii_lowercase(), value)))
}

fn word(token: Token<'_>) -> Option<String> {
    match token {
        Token::Word(word) | Token::Quoted(word) => Some(from_utf8(word).ok()?.to_ascii_lowercase()),
        Token::Unicode | Token::Text(_) | Token::Other(_) => None,
    }
}

fn constant_text(constant: &[u8]) -> Option<String> {
    let text = code::unquoted(constant)?;
    Some(from_utf8(&text).ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[(&str, &str)]) {
        let mut found = Vec::new();
        assigned(text.as_bytes(), &mut |name, value| {
            found.push((name.to_owned(), value.to_owned()));
        });
        let found: Vec<_> = found
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn constants_are_read() {
        check("SET weir.role = 'replica'", &[("weir.role", "replica")]);
        check(
            "set session Weir.Role to REPLICA;",
            &[("weir.role", "replica")],
        );
        check(
            "SET LOCAL \"weir\" . \"role\" TO $$x$$",
            &[("weir.role", "x")],
        );
        check(
            "SET a.b = E'it\\'s'; SET c = 'it''s'",
            &[("a.b", "it's"), ("c", "it's")],
        );
        check("/* x */ SET local.b = 'c'", &[("local.b", "c")]);
        check("select set_config('A.b', 'C', false), 1", &[("a.b", "C")]);
    }

    #[test]
    fn other_texts_assign_nothing() {
        for text in [
            "",
            "SET",
            "SET a",
            "SET a.b = DEFAULT",
            "SET a.b = 'c', 'd'",
            "SET a.b = 'c' d",
            "SET a.b = 1",
            "SET a.b = 'no end",
            "RESET a.b",
            "SELECT 'SET a.b = c'",
            "ALTER ROLE x SET a.b = 'c'",
            "UPDATE t SET a = 'b'",
            "select set_config('a.b', $1, false)",
            "select set_config($1, 'c', false)",
            "select set_config('a.b', 'c' || 'd', false)",
        ] {
            check(text, &[]);
        }
    }
}
