//! Setting that a SET or RESET names, as far as its words show.

use crate::functions::{NAME_MAX, is_temporary_schema};
use crate::lex::{Lexer, Token, Unclear};

/// Result of reading the words behind SET or RESET.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// `ALL`
    All,
    /// A setting in lower case; true if it gets a value other than DEFAULT.
    One(String, bool),
    /// A form with words of its own (TIME ZONE, ROLE), with the settings it may change. Empty if PostgreSQL would
    /// refuse the statement.
    Special(&'static [&'static str]),
    /// A setting whose name is unclear.
    Unknown,
}

/// Settings of forms that begin with these words.
const SPECIALS: [(&[u8], &[&str]); 7] = [
    (b"names", &["client_encoding"]),
    (b"role", &["role"]),
    (b"schema", &["search_path"]),
    (
        b"session",
        &[
            "session_authorization",
            "default_transaction_isolation",
            "default_transaction_read_only",
            "default_transaction_deferrable",
        ],
    ),
    (b"time", &["timezone"]),
    (b"transaction", &["transaction_isolation"]),
    (b"xml", &["xmloption"]),
];

/// Reads the words behind SET.
pub(crate) fn set(mut lexer: Lexer<'_>) -> Result<Setting, Unclear> {
    skip_scope(&mut lexer)?;
    setting(lexer, false)
}

/// Reads the words behind SET. Returns true if new objects are temporary from then on, because `search_path` begins
/// with the temporary schema.
pub(crate) fn makes_temporary(mut lexer: Lexer<'_>) -> Result<bool, Unclear> {
    skip_scope(&mut lexer)?;
    let (Some(Token::Word(name) | Token::Quoted(name)), Some(_)) = (lexer.token()?, lexer.token()?)
    else {
        return Ok(false);
    };
    let first = match lexer.token()? {
        Some(Token::Word(word) | Token::Quoted(word)) => word,
        Some(Token::Text([b'\'', text @ ..])) => text,
        _ => return Ok(false),
    };
    Ok(name.eq_ignore_ascii_case(b"search_path") && is_temporary_schema(first))
}

/// Reads the words behind RESET.
pub(crate) fn reset(lexer: Lexer<'_>) -> Result<Setting, Unclear> {
    setting(lexer, true)
}

fn setting(mut lexer: Lexer<'_>, is_reset: bool) -> Result<Setting, Unclear> {
    let mut name = String::new();
    let mut first = None;
    loop {
        let token = lexer.token()?;
        match token {
            Some(Token::Word(word) | Token::Quoted(word)) if is_plain(word) => {
                name.extend(
                    word.iter()
                        .map(|byte| char::from(byte.to_ascii_lowercase())),
                );
            }
            Some(Token::Word(_) | Token::Quoted(_) | Token::Unicode) => {
                return Ok(Setting::Unknown);
            }
            _ => return Ok(Setting::Special(&[])),
        }
        let start = *first.get_or_insert(token);
        match lexer.token()? {
            Some(Token::Other(b'.')) => name.push('.'),
            Some(Token::Other(b'=')) if !is_reset => return value(&mut lexer, name),
            Some(Token::Word(word)) if !is_reset && word.eq_ignore_ascii_case(b"to") => {
                return value(&mut lexer, name);
            }
            None | Some(Token::Other(b';')) if is_reset => {
                return Ok(match start {
                    Some(Token::Word(word)) if word.eq_ignore_ascii_case(b"all") => Setting::All,
                    _ => Setting::One(name, false),
                });
            }
            _ => return Ok(special(start)),
        }
    }
}

/// Skips SESSION and LOCAL, unless they are names themselves.
fn skip_scope(lexer: &mut Lexer<'_>) -> Result<(), Unclear> {
    let mut ahead = lexer.clone();
    let Some(Token::Word(scope)) = ahead.token()? else {
        return Ok(());
    };
    let behind = ahead.clone();
    let is_scope = scope.eq_ignore_ascii_case(b"session") || scope.eq_ignore_ascii_case(b"local");
    if let Some(Token::Word(next) | Token::Quoted(next)) = ahead.token()?
        && is_scope
        && ![&b"to"[..], b"authorization", b"characteristics"]
            .iter()
            .any(|known| next.eq_ignore_ascii_case(known))
    {
        *lexer = behind;
    }
    Ok(())
}

fn value(lexer: &mut Lexer<'_>, name: String) -> Result<Setting, Unclear> {
    let is_default = matches!(lexer.token()?, Some(Token::Word(word))
        if word.eq_ignore_ascii_case(b"default"));
    let is_end = matches!(lexer.token()?, None | Some(Token::Other(b';')));
    Ok(Setting::One(name, !(is_default && is_end)))
}

/// True for a word without escapes or truncation, whose case does not depend on a locale.
fn is_plain(word: &[u8]) -> bool {
    word.is_ascii() && !word.contains(&b'"') && word.len() <= NAME_MAX
}

fn special(first: Option<Token<'_>>) -> Setting {
    let Some(Token::Word(first)) = first else {
        return Setting::Special(&[]);
    };
    let known = SPECIALS
        .iter()
        .find(|(word, _)| first.eq_ignore_ascii_case(word));
    Setting::Special(known.map_or(&[], |(_, names)| names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lex::Reading;

    fn check(function: fn(Lexer<'_>) -> Result<Setting, Unclear>, text: &str, expected: Setting) {
        let lexer = Lexer::new(text.as_bytes(), Reading::Strict);
        assert_eq!(function(lexer), Ok(expected), "{text}");
    }

    fn one(name: &str, has_value: bool) -> Setting {
        Setting::One(name.to_owned(), has_value)
    }

    #[test]
    fn names_are_read() {
        check(set, "a = 1", one("a", true));
        check(set, "SESSION A TO x", one("a", true));
        check(set, "session.a TO x", one("session.a", true));
        check(set, "session TO x", one("session", true));
        check(set, "LOCAL seed = 0.5", one("seed", true));
        check(set, "\"A b\" . \"C\" = DEFAULT;", one("a b.c", false));
        check(reset, "a.b;", one("a.b", false));
        check(reset, "all", Setting::All);
        check(reset, "\"all\"", one("all", false));
    }

    #[test]
    fn other_forms_are_told_apart() {
        check(set, "TIME ZONE 'UTC'", Setting::Special(&["timezone"]));
        check(
            set,
            "SESSION TIME ZONE 'UTC'",
            Setting::Special(&["timezone"]),
        );
        check(set, "ROLE x", Setting::Special(&["role"]));
        check(
            reset,
            "SESSION AUTHORIZATION",
            special(Some(Token::Word(b"session"))),
        );
        check(
            set,
            "SESSION CHARACTERISTICS AS",
            special(Some(Token::Word(b"session"))),
        );
        check(set, "\"a\"\"b\" = 1", Setting::Unknown);
        check(set, "é.a = 1", Setting::Unknown);
    }

    /// A statement that PostgreSQL refuses changes nothing, so nothing is reset.
    #[test]
    fn mistakes_reset_nothing() {
        for text in ["1", "a b", "a", ""] {
            check(set, text, Setting::Special(&[]));
        }
        check(set, "a = DEFAULT b", one("a", true));
        check(reset, "a = DEFAULT", Setting::Special(&[]));
    }
}
