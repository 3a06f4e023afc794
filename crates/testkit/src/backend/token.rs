//! Tokens of SQL, by PostgreSQL's lexical rules as far as the model needs them.

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// Unquoted identifier or keyword, in lower case.
    Word(String),
    /// Identifier in double quotes.
    Quoted(String),
    /// String constant: plain, with `E`, or dollar-quoted.
    Text(String),
    Number(String),
    Symbol(char),
}

/// Text of a statement, and its tokens.
pub(super) type Statement<'t> = (&'t str, Vec<Token>);

/// Splits a text into statements; none if a token is unterminated or not valid in SQL.
pub(super) fn statements(text: &str) -> Option<Vec<Statement<'_>>> {
    let mut all = Vec::new();
    let mut tokens = Vec::new();
    // Bounds of a statement: from its first token to the end of its last.
    let (mut begin, mut end) = (text, text);
    let mut rest = skip(text)?;
    loop {
        let found = match rest {
            Some(text) => next(text)?,
            None => None,
        };
        let ends = found
            .as_ref()
            .is_none_or(|(token, _)| *token == Token::Symbol(';'));
        if ends && !tokens.is_empty() {
            let text = begin.get(..begin.len() - end.len()).unwrap_or_default();
            all.push((text, std::mem::take(&mut tokens)));
        }
        let Some((token, tail)) = found else {
            return Some(all);
        };
        if !ends {
            if tokens.is_empty() {
                begin = rest.unwrap_or_default();
            }
            tokens.push(token);
            end = tail;
        }
        rest = skip(tail)?;
    }
}

/// Reads the first token; returns it and the text behind it.
fn next(text: &str) -> Option<Option<(Token, &str)>> {
    let first = text.chars().next()?;
    if let Some(rest) = text
        .strip_prefix(['e', 'E'])
        .and_then(|rest| rest.strip_prefix('\''))
    {
        return quoted(rest, '\'', true).map(|(value, rest)| Some((Token::Text(value), rest)));
    }
    Some(Some(match first {
        '\'' => {
            let (value, rest) = quoted(text.get(1..)?, '\'', false)?;
            (Token::Text(value), rest)
        }
        '"' => {
            let (value, rest) = quoted(text.get(1..)?, '"', false)?;
            (Token::Quoted(value), rest)
        }
        '$' if text.get(1..)?.starts_with(|c: char| c.is_ascii_digit()) => {
            (Token::Symbol('$'), text.get(1..)?)
        }
        '$' => {
            let (value, rest) = text.strip_prefix("$$")?.split_once("$$")?;
            (Token::Text(value.to_owned()), rest)
        }
        '0'..='9' => {
            let (number, rest) = run(text, |c| c.is_ascii_digit() || c == '.');
            (Token::Number(number.to_owned()), rest)
        }
        c if c.is_ascii_alphabetic() || c == '_' => {
            let (word, rest) = run(text, |c| c.is_ascii_alphanumeric() || c == '_');
            (Token::Word(word.to_ascii_lowercase()), rest)
        }
        c => (Token::Symbol(c), text.get(c.len_utf8()..)?),
    }))
}

/// Skips white space and comments. The outer `None` means an unterminated comment.
fn skip(mut text: &str) -> Option<Option<&str>> {
    loop {
        text = text.trim_start();
        if let Some(rest) = text.strip_prefix("/*") {
            text = rest.split_once("*/")?.1;
        } else if let Some(rest) = text.strip_prefix("--") {
            text = rest.split_once('\n').map_or("", |(_, rest)| rest);
        } else {
            return Some((!text.is_empty()).then_some(text));
        }
    }
}

/// Reads up to the closing quote; a doubled quote stands for itself.
fn quoted(text: &str, quote: char, escapes: bool) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && escapes {
            value.push(chars.next()?.1);
        } else if c != quote {
            value.push(c);
        } else if chars.peek().is_some_and(|(_, next)| *next == quote) {
            chars.next();
            value.push(quote);
        } else {
            return Some((value, text.get(at + 1..)?));
        }
    }
    None
}

fn run(text: &str, is_part: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_in_strings_and_comments_separate_nothing() {
        let found =
            statements("SET \"a\".b TO E'x;''\\\\' /* ; */; -- ;\nDO $$begin; end$$").unwrap();
        let text = |text: &str| Token::Text(text.to_owned());
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].1.last(), Some(&text("x;'\\")));
        assert_eq!(found[1].1[1], text("begin; end"));
        assert_eq!(found[1].0, "DO $$begin; end$$");
    }

    #[test]
    fn what_does_not_end_is_nothing() {
        assert_eq!(statements("select 'x"), None);
        assert_eq!(statements("select /* x"), None);
    }
}
