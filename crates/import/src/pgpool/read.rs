//! Files of Pgpool-II as settings: `pgpool.conf` has the syntax of `postgresql.conf`, the others have a line per entry.

use crate::cursor::{Cursor, SyntaxError};
use crate::leaf::{Leaf, Scalar};

/// First part of the path of lines that do not come from `pgpool.conf`.
pub(crate) const HBA: &str = "pool_hba";
pub(crate) const PASSWORDS: &str = "pool_passwd";
pub(crate) const PCP: &str = "pcp";

/// Reads a file. Its name tells which one of the four it is.
pub(crate) fn read(file: &str, text: &str) -> Result<Vec<Leaf>, SyntaxError> {
    let name = file.rsplit('/').next().unwrap_or_default();
    if name.contains("hba") {
        Ok(lines(file, text, HBA))
    } else if name.contains("passwd") {
        secrets(file, text, PASSWORDS)
    } else if name.starts_with("pcp") {
        secrets(file, text, PCP)
    } else {
        settings(file, text)
    }
}

/// Reads lines as they stand. Line ends behind a backslash are not joined, as in Pgpool-II.
pub(crate) fn lines(file: &str, text: &str, name: &str) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        leaves.push(Leaf {
            path: vec![name.to_owned(), (leaves.len()).to_string()],
            value: Scalar::Text(line.to_owned()),
            file: file.to_owned(),
            line: at + 1,
        });
    }
    leaves
}

/// Reads lines `user:secret`.
fn secrets(file: &str, text: &str, name: &str) -> Result<Vec<Leaf>, SyntaxError> {
    let mut cursor = Cursor::new(file, text);
    let mut leaves = Vec::new();
    while !cursor.is_at_end() {
        cursor.take_while(|c| c.is_whitespace());
        if cursor.peek() == Some('#') {
            cursor.take_while(|c| c != '\n');
            continue;
        }
        if cursor.is_at_end() {
            break;
        }
        let line = cursor.line;
        let user = cursor.take_while(|c| c != ':' && c != '\n');
        if !cursor.eat(':') {
            return Err(cursor.expected("a colon between user and password"));
        }
        let secret = cursor.take_while(|c| c != '\n').trim_end();
        leaves.push(Leaf {
            path: vec![name.to_owned(), user.trim().to_owned()],
            value: Scalar::Text(secret.to_owned()),
            file: file.to_owned(),
            line,
        });
    }
    Ok(leaves)
}

/// Reads `name = value` per line; the equals sign may be missing.
fn settings(file: &str, text: &str) -> Result<Vec<Leaf>, SyntaxError> {
    let mut cursor = Cursor::new(file, text);
    let mut leaves = Vec::new();
    loop {
        cursor.take_while(char::is_whitespace);
        if cursor.is_at_end() {
            return Ok(leaves);
        }
        if cursor.eat('#') {
            cursor.take_while(|c| c != '\n');
            continue;
        }
        let line = cursor.line;
        let name = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() {
            return Err(cursor.expected("the name of a setting"));
        }
        blanks(&mut cursor);
        cursor.eat('=');
        blanks(&mut cursor);
        let value = value(&mut cursor)?;
        blanks(&mut cursor);
        if cursor.eat('#') {
            cursor.take_while(|c| c != '\n');
        }
        if !cursor.is_at_end() && !cursor.eat('\n') {
            return Err(cursor.expected("the end of the line"));
        }
        leaves.push(Leaf {
            path: vec![name.to_owned()],
            value,
            file: file.to_owned(),
            line,
        });
    }
}

fn blanks(cursor: &mut Cursor<'_>) {
    cursor.take_while(|c| c.is_whitespace() && c != '\n');
}

fn value(cursor: &mut Cursor<'_>) -> Result<Scalar, SyntaxError> {
    if cursor.peek() == Some('\'') {
        return quoted(cursor).map(Scalar::Text);
    }
    let word = cursor.take_while(|c| !c.is_whitespace() && c != '#' && c != '\'');
    if word.is_empty() {
        return Err(cursor.expected("a value"));
    }
    let number = match word.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    };
    // Permissions keep their leading zero.
    let is_octal = word.len() > 1 && word.starts_with('0') && !word.starts_with("0x");
    Ok(match number.filter(|_| !is_octal) {
        Some(number) => Scalar::Number(number),
        None => Scalar::Text(word.to_owned()),
    })
}

/// Reads a text in quotes. `''` is a quote, and a backslash begins an escape.
fn quoted(cursor: &mut Cursor<'_>) -> Result<String, SyntaxError> {
    let begin = cursor.clone();
    cursor.take();
    let mut text = String::new();
    loop {
        match cursor.peek() {
            None | Some('\n') => {
                return Err(begin.error("expected a closing quote (') in this line, found none"));
            }
            Some('\'') => {
                cursor.take();
                if !cursor.eat('\'') {
                    return Ok(text);
                }
                text.push('\'');
            }
            Some('\\') => {
                cursor.take();
                escape(cursor, &mut text);
            }
            Some(c) => {
                cursor.take();
                text.push(c);
            }
        }
    }
}

/// Reads what follows a backslash: up to three octal digits, a letter for a control character, or a plain character.
fn escape(cursor: &mut Cursor<'_>, text: &mut String) {
    let mut code = 0;
    let mut digits = 0;
    while let Some(digit) = cursor
        .peek()
        .and_then(|c| c.to_digit(8))
        .filter(|_| digits < 3)
    {
        cursor.take();
        code = code * 8 + digit;
        digits += 1;
    }
    if digits > 0 {
        text.extend(char::from_u32(code));
        return;
    }
    match cursor.peek() {
        None | Some('\n') => {}
        Some(c) => {
            cursor.take();
            text.push(match c {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_the_syntax_of_postgresql_conf() {
        let text = "a = 'it''s \\101\\n' # x\nb 5min\n\nc=0x10\r\nd = 0600#y\ne = ''";
        let leaves = read("pgpool.conf", text).unwrap();
        let values: Vec<(usize, String)> =
            leaves.iter().map(|leaf| (leaf.line, leaf.text())).collect();
        let expected = [
            (1, "it's A\n"),
            (2, "5min"),
            (4, "16"),
            (5, "0600"),
            (6, ""),
        ];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(values, expected);
    }

    #[test]
    fn mistakes_have_a_place() {
        let fails = |file: &str, text: &str| read(file, text).unwrap_err().to_string();
        assert_eq!(
            fails("pgpool.conf", "port = 1\nx = 'y\n"),
            "pgpool.conf:2:5: expected a closing quote (') in this line, found none"
        );
        assert_eq!(
            fails("pgpool.conf", "port =\n"),
            "pgpool.conf:1:7: expected a value, found the end of the line"
        );
        assert_eq!(
            fails("pgpool.conf", "port = 1 2\n"),
            "pgpool.conf:1:10: expected the end of the line, found '2'"
        );
        assert_eq!(
            fails("pool_passwd", "# x\nann md5\n"),
            "pool_passwd:2:8: expected a colon between user and password, found the end of the line"
        );
    }
}
