//! Splits a file into statements at its semicolons, as psql does. Knows strings, quoted names and comments, nothing
//! else of SQL.

use std::fmt;

/// Statement of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Statement<'t> {
    /// Line on which the statement begins, from 1.
    pub(crate) line: usize,
    /// Text without the semicolon, and without comments in front.
    pub(crate) text: &'t str,
}

/// Mistake in a file, on this line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) line: usize,
    pub(crate) fault: Fault,
}

/// Reason for which a file cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Command of psql.
    Backslash,
    /// String, name or comment without an end.
    Unterminated(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backslash => f.write_str("commands of psql are not supported, only statements"),
            Self::Unterminated(what) => write!(f, "{what} has no end"),
        }
    }
}

/// Splits a text. Empty statements are left out.
pub(crate) fn split(text: &str) -> Result<Vec<Statement<'_>>, Mistake> {
    let mut statements = Vec::new();
    let mut begin = None;
    let mut at = 0;
    // Lines are counted once, since a file may have many statements.
    let (mut line, mut counted) = (1, 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let mistake = |fault| Mistake {
            line: 1 + breaks(text, 0, at),
            fault,
        };
        let token = token(rest).map_err(mistake)?;
        match token.kind {
            Kind::Blank => {}
            Kind::End => {
                if let Some(begin) = begin.take() {
                    line += breaks(text, counted, begin);
                    counted = begin;
                    statements.push(statement(text, line, begin, at));
                }
            }
            Kind::Backslash if begin.is_none() => return Err(mistake(Fault::Backslash)),
            Kind::Backslash | Kind::Other => begin = begin.or(Some(at)),
        }
        at += token.len;
    }
    if let Some(begin) = begin {
        line += breaks(text, counted, begin);
        statements.push(statement(text, line, begin, text.len()));
    }
    Ok(statements)
}

fn statement(text: &str, line: usize, begin: usize, end: usize) -> Statement<'_> {
    Statement {
        line,
        text: text.get(begin..end).unwrap_or_default().trim_end(),
    }
}

/// Number of line breaks in a part of the text.
fn breaks(text: &str, begin: usize, end: usize) -> usize {
    let part = text.as_bytes().get(begin..end).unwrap_or_default();
    part.iter().filter(|byte| **byte == b'\n').count()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Backslash,
    /// Blanks and comments.
    Blank,
    /// Semicolon.
    End,
    Other,
}

struct Token {
    kind: Kind,
    len: usize,
}

fn token(rest: &str) -> Result<Token, Fault> {
    let other = |len| Token {
        kind: Kind::Other,
        len,
    };
    let mut chars = rest.chars();
    let first = chars.next().unwrap_or_default();
    let len = match first {
        ';' => {
            return Ok(Token {
                kind: Kind::End,
                len: 1,
            });
        }
        '\\' => {
            return Ok(Token {
                kind: Kind::Backslash,
                len: 1,
            });
        }
        '\'' => quoted(rest, '\'', false).ok_or(Fault::Unterminated("a string"))?,
        '"' => quoted(rest, '"', false).ok_or(Fault::Unterminated("a quoted name"))?,
        'e' | 'E' if chars.as_str().starts_with('\'') => {
            let string = quoted(chars.as_str(), '\'', true);
            1 + string.ok_or(Fault::Unterminated("a string"))?
        }
        '$' => dollar(rest)?,
        _ if first.is_alphanumeric() || first == '_' => word(rest),
        _ => return blank(rest, first).map(|len| len.unwrap_or_else(|| other(first.len_utf8()))),
    };
    Ok(other(len))
}

/// Reads a blank or a comment, if there is one.
fn blank(rest: &str, first: char) -> Result<Option<Token>, Fault> {
    let len = if first.is_whitespace() {
        first.len_utf8()
    } else if rest.starts_with("--") {
        rest.find('\n').unwrap_or(rest.len())
    } else if rest.starts_with("/*") {
        comment(rest).ok_or(Fault::Unterminated("a comment"))?
    } else {
        return Ok(None);
    };
    Ok(Some(Token {
        kind: Kind::Blank,
        len,
    }))
}

fn word(rest: &str) -> usize {
    rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$')))
        .unwrap_or(rest.len())
}

/// Returns the length of a text in quotes. A doubled quote falls into two texts, with the same result.
fn quoted(rest: &str, quote: char, has_escapes: bool) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' && has_escapes {
            is_escaped = true;
        } else if c == quote {
            return Some(at + 1);
        }
    }
    None
}

/// Returns the length of a parameter, of a string in dollar quotes, or of a lone dollar sign.
fn dollar(rest: &str) -> Result<usize, Fault> {
    let inner = rest.get(1..).unwrap_or_default();
    let len = inner
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(inner.len());
    let is_quote = inner.get(len..).is_some_and(|rest| rest.starts_with('$'))
        && !inner.starts_with(|c: char| c.is_ascii_digit());
    if !is_quote {
        return Ok(1 + len);
    }
    let tag = rest.get(..len + 2).unwrap_or_default();
    let body = rest.get(tag.len()..).unwrap_or_default();
    let end = body.find(tag).ok_or(Fault::Unterminated("a string"))?;
    Ok(tag.len() + end + tag.len())
}

fn comment(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(pair) = bytes.get(at..at + 2) {
        match pair {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" if depth <= 1 => return Some(at + 2),
            b"*/" => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_end_statements_and_lines_are_counted() {
        let text = "-- first\nSELECT 1;\n\n/* a; /* b; */ */ SELECT ';', \";\", $$;$$, $x$;$$;$x$,\n E'\\';', 'it'';'; ;\n\
                    UPDATE t SET a = $1 -- ; end\n";
        let found = split(text).unwrap();
        let found: Vec<_> = found.iter().map(|it| (it.line, it.text)).collect();
        let second = "SELECT ';', \";\", $$;$$, $x$;$$;$x$,\n E'\\';', 'it'';'";
        let third = "UPDATE t SET a = $1 -- ; end";
        assert_eq!(found, [(2, "SELECT 1"), (4, second), (6, third)]);
        assert_eq!(split(" ; \n-- nothing"), Ok(Vec::new()));
    }

    #[test]
    fn mistakes_have_their_lines() {
        for (text, line, fault) in [
            ("SELECT 1;\n\\d t\n", 2, Fault::Backslash),
            ("SELECT 1;\nSELECT 'a", 2, Fault::Unterminated("a string")),
            ("\n\nSELECT $a$ $$", 3, Fault::Unterminated("a string")),
            ("SELECT \"a", 1, Fault::Unterminated("a quoted name")),
            ("/* /* */", 1, Fault::Unterminated("a comment")),
        ] {
            assert_eq!(split(text), Err(Mistake { line, fault }), "{text}");
        }
    }
}
