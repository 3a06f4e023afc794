//! HAProxy's configuration as lines of words in sections.

use crate::cursor::{Cursor, SyntaxError};
use crate::leaf::{Leaf, Scalar};

/// Words that begin a section.
const SECTIONS: &[&str] = &[
    "acme",
    "backend",
    "cache",
    "crt-store",
    "defaults",
    "fcgi-app",
    "frontend",
    "global",
    "http-errors",
    "listen",
    "log-forward",
    "log-profile",
    "mailers",
    "peers",
    "program",
    "resolvers",
    "ring",
    "traces",
    "userlist",
];
/// Keyword of the line that begins a section, in its path.
pub(super) const HEAD: &str = "(section)";

/// Reads a text. A line's path has the section's kind, name and number, then the words; its value has the words again, in one
/// text.
pub(crate) fn read(file: &str, text: &str) -> Result<Vec<Leaf>, SyntaxError> {
    let mut cursor = Cursor::new(file, text);
    let mut section: Option<Vec<String>> = None;
    let mut count = 0_usize;
    let mut leaves = Vec::new();
    while !cursor.is_at_end() {
        let begin = cursor.clone();
        let line = cursor.line;
        let words = words(&mut cursor)?;
        let Some(first) = words.first() else {
            continue;
        };
        let (path, words) = if SECTIONS.contains(&first.as_str()) {
            let name = words.get(1).cloned().unwrap_or_default();
            let path = vec![first.clone(), name, count.to_string()];
            count += 1;
            section = Some(path.clone());
            let rest = words.get(2..).unwrap_or_default().iter().cloned();
            let words = std::iter::once(HEAD.to_owned()).chain(rest).collect();
            (path, words)
        } else if first.starts_with('.') {
            // A condition stands wherever it likes.
            (
                vec!["global".to_owned(), String::new(), "condition".to_owned()],
                words,
            )
        } else if let Some(path) = &section {
            (path.clone(), words)
        } else {
            let expected = "a section, such as global, defaults, frontend, backend or listen";
            let mut place = begin;
            place.take_while(|c| c.is_whitespace() && c != '\n');
            return Err(place.expected(expected));
        };
        let value = words.get(1..).unwrap_or_default().join(" ");
        leaves.push(Leaf {
            path: path.into_iter().chain(words).collect(),
            value: Scalar::Text(value),
            file: file.to_owned(),
            line,
        });
    }
    Ok(leaves)
}

/// Reads the words of a line and its end.
fn words(cursor: &mut Cursor<'_>) -> Result<Vec<String>, SyntaxError> {
    let mut words = Vec::new();
    loop {
        cursor.take_while(|c| c.is_whitespace() && c != '\n');
        match cursor.peek() {
            None => return Ok(words),
            Some('\n') => {
                cursor.take();
                return Ok(words);
            }
            Some('#') => {
                cursor.take_while(|c| c != '\n');
            }
            Some(_) => words.push(word(cursor)?),
        }
    }
}

/// Reads a word, parts of which may be in quotes. Variables stay as they are written.
fn word(cursor: &mut Cursor<'_>) -> Result<String, SyntaxError> {
    let mut word = String::new();
    let mut quote: Option<(char, Cursor<'_>)> = None;
    while let Some(c) = cursor.peek() {
        match (&quote, c) {
            (Some((_, begin)), '\n') => {
                return Err(begin.error("expected a closing quote in this line, found none"));
            }
            (None, '#') => return Ok(word),
            (None, c) if c.is_whitespace() => return Ok(word),
            (Some((open, _)), c) if *open == c => {
                cursor.take();
                quote = None;
            }
            (None, '"' | '\'') => {
                quote = Some((c, cursor.clone()));
                cursor.take();
            }
            (None | Some(('"', _)), '\\') => {
                cursor.take();
                match cursor.peek() {
                    None | Some('\n') => {
                        return Err(cursor.expected("a character behind the backslash"));
                    }
                    Some(escaped) => {
                        cursor.take();
                        word.push(match escaped {
                            'n' => '\n',
                            'r' => '\r',
                            't' => '\t',
                            other => other,
                        });
                    }
                }
            }
            _ => {
                cursor.take();
                word.push(c);
            }
        }
    }
    match quote {
        Some((_, begin)) => Err(begin.error("expected a closing quote in this line, found none")),
        None => Ok(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_words_with_quotes() {
        let text = "global # x\n  log /dev/log local0\nlisten pg\n\tbind \"*:50\"'00' name a\\ b\n";
        let leaves = read("h.cfg", text).unwrap();
        let shown: Vec<String> = leaves
            .iter()
            .map(|leaf| format!("{}:{}", leaf.line, leaf.path.join("|")))
            .collect();
        let expected = [
            "1:global||0|(section)",
            "2:global||0|log|/dev/log|local0",
            "3:listen|pg|1|(section)",
            "4:listen|pg|1|bind|*:5000|name|a b",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn mistakes_have_a_place() {
        let fails = |text: &str| read("h.cfg", text).unwrap_err().to_string();
        assert_eq!(
            fails("\n  maxconn 5\n"),
            "h.cfg:2:3: expected a section, such as global, defaults, frontend, backend or listen, found 'm'"
        );
        assert_eq!(
            fails("global\n log 'x\n"),
            "h.cfg:2:6: expected a closing quote in this line, found none"
        );
        assert_eq!(
            fails("global\n log x\\\n"),
            "h.cfg:2:8: expected a character behind the backslash, found the end of the line"
        );
    }
}
