//! Odyssey's configuration as settings: a keyword, its values, and perhaps a block in braces.

use crate::cursor::{Cursor, DEPTH_MAX, SyntaxError};
use crate::leaf::{Leaf, Scalar};

/// Statements that have a block. Each block gets a number in the path of what is inside.
const BLOCKS: &[&str] = &[
    "backend_startup_options",
    "balancing",
    "conn_drop_options",
    "database",
    "drop",
    "group",
    "ldap_endpoint",
    "ldap_storage_credentials",
    "listen",
    "method",
    "online_restart_drop_options",
    "options",
    "shared_pool",
    "soft_oom",
    "storage",
    "user",
    "watchdog",
];
/// Blocks of pairs of texts.
const PAIRS: &[&str] = &["options", "backend_startup_options"];
/// Kinds of connections behind the name of a user or group.
const KINDS: &[&str] = &["local", "host", "hostssl", "hostnossl"];

/// Reads a text, in the order of its lines. Names of blocks become settings `name`, `default`, `address` and `connection`.
pub(super) fn read(file: &str, text: &str) -> Result<Vec<Leaf>, SyntaxError> {
    let mut reader = Reader {
        cursor: Cursor::new(file, text),
        path: Vec::new(),
        counts: Vec::new(),
        leaves: Vec::new(),
    };
    reader.items(0)?;
    Ok(reader.leaves)
}

/// Value of a statement.
enum Value {
    /// A text in quotes.
    Quoted(String),
    /// A number or keyword.
    Bare(Scalar),
}

impl Value {
    fn scalar(self) -> Scalar {
        match self {
            Self::Quoted(text) => Scalar::Text(text),
            Self::Bare(scalar) => scalar,
        }
    }
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    path: Vec<String>,
    /// Number of blocks so far, by path.
    counts: Vec<(Vec<String>, usize)>,
    leaves: Vec<Leaf>,
}

impl Reader<'_> {
    /// Reads statements up to the end of the block, or of the file outside of all blocks.
    fn items(&mut self, depth: usize) -> Result<(), SyntaxError> {
        loop {
            self.skip();
            match self.cursor.peek() {
                None if depth == 0 => return Ok(()),
                None => return Err(self.cursor.expected("a closing brace")),
                Some('}') if depth > 0 => {
                    self.cursor.take();
                    return Ok(());
                }
                Some(c) if c.is_ascii_alphabetic() || c == '_' => self.statement(depth)?,
                Some(_) => return Err(self.cursor.expected("the name of a setting")),
            }
        }
    }

    fn statement(&mut self, depth: usize) -> Result<(), SyntaxError> {
        let line = self.cursor.line;
        let name = self.word().to_owned();
        let mut values = Vec::new();
        while let Some(value) = self.value(&name)? {
            values.push(value);
        }
        self.skip();
        if BLOCKS.contains(&name.as_str()) && self.cursor.peek() == Some('{') {
            if depth == DEPTH_MAX {
                return Err(self
                    .cursor
                    .error("expected at most 20 blocks inside each other"));
            }
            self.cursor.take();
            return self.block(&name, values, line, depth);
        }
        match values.pop() {
            None => {
                let kind = match BLOCKS.contains(&name.as_str()) {
                    true => "a name or an opening brace",
                    false => "a value",
                };
                Err(self.cursor.expected(kind))
            }
            Some(_) if !values.is_empty() => Err(self.cursor.expected("an opening brace")),
            Some(value) => {
                self.leaf(&name, value.scalar(), line);
                Ok(())
            }
        }
    }

    fn block(
        &mut self,
        name: &str,
        values: Vec<Value>,
        line: usize,
        depth: usize,
    ) -> Result<(), SyntaxError> {
        let mut path = self.path.clone();
        path.push(name.to_owned());
        let number = match self.counts.iter_mut().find(|(known, _)| *known == path) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                self.counts.push((path, 0));
                0
            }
        };
        self.path.push(name.to_owned());
        self.path.push(number.to_string());
        for (at, value) in values.into_iter().enumerate() {
            let key = match (&value, at) {
                (Value::Quoted(_), 0) => "name",
                (Value::Quoted(_), _) => "address",
                (Value::Bare(_), 0) => "default",
                (Value::Bare(_), _) => "connection",
            };
            self.leaf(key, value.scalar(), line);
        }
        match PAIRS.contains(&name) {
            true => self.pairs()?,
            false => self.items(depth + 1)?,
        }
        self.path.pop();
        self.path.pop();
        Ok(())
    }

    /// Reads pairs of texts up to the closing brace.
    fn pairs(&mut self) -> Result<(), SyntaxError> {
        loop {
            self.skip();
            if self.cursor.eat('}') {
                return Ok(());
            }
            let line = self.cursor.line;
            if self.cursor.peek() != Some('"') {
                return Err(self.cursor.expected("a text in quotes, or a closing brace"));
            }
            let key = self.text()?;
            self.skip();
            if self.cursor.peek() != Some('"') {
                return Err(self.cursor.expected("a text in quotes"));
            }
            let value = self.text()?;
            self.leaf(&key, Scalar::Text(value), line);
        }
    }

    /// Reads a value if one follows.
    fn value(&mut self, name: &str) -> Result<Option<Value>, SyntaxError> {
        self.skip();
        match self.cursor.peek() {
            Some('"') => self.text().map(|text| Some(Value::Quoted(text))),
            Some(c) if c.is_ascii_digit() || c == '-' => {
                self.number().map(|number| Some(Value::Bare(number)))
            }
            Some(c) if c.is_ascii_alphabetic() => {
                let mut ahead = self.cursor.clone();
                let word = ahead.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
                let is_route = matches!(name, "user" | "group");
                let value = match word {
                    "yes" => Scalar::Flag(true),
                    "no" => Scalar::Flag(false),
                    "default" => Scalar::Text(word.to_owned()),
                    _ if is_route && KINDS.contains(&word) => Scalar::Text(word.to_owned()),
                    _ => return Ok(None),
                };
                self.cursor = ahead;
                Ok(Some(Value::Bare(value)))
            }
            _ => Ok(None),
        }
    }

    /// Reads a number, which may have a unit of size.
    fn number(&mut self) -> Result<Scalar, SyntaxError> {
        let begin = self.cursor.clone();
        let sign = if self.cursor.eat('-') { "-" } else { "" };
        let digits = self.cursor.take_while(|c| c.is_ascii_digit());
        let suffix = self
            .cursor
            .take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        if digits.is_empty() {
            return Err(self.cursor.expected("a digit"));
        }
        let factor = match suffix.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1 << 10,
            "m" | "mb" => 1 << 20,
            "g" | "gb" => 1 << 30,
            _ => {
                return Err(
                    begin.error("expected a number with the unit B, kB, MB or GB, or without one")
                );
            }
        };
        let number = format!("{sign}{digits}").parse::<i64>().ok();
        let number = number.and_then(|number| number.checked_mul(factor));
        let number = number.ok_or_else(|| begin.error("expected a number of at most 64 bits"))?;
        Ok(Scalar::Number(number))
    }

    /// Reads a text in quotes. A backslash is plain, except in front of a quote.
    fn text(&mut self) -> Result<String, SyntaxError> {
        let begin = self.cursor.clone();
        self.cursor.take();
        let mut text = String::new();
        while let Some(c) = self.cursor.take() {
            match c {
                '"' => return Ok(text),
                '\\' if self.cursor.eat('"') => text.push('"'),
                c => text.push(c),
            }
        }
        Err(begin.error("expected a closing quote (\") behind this one, found the end of the file"))
    }

    fn word(&mut self) -> &str {
        self.cursor
            .take_while(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    fn skip(&mut self) {
        skip(&mut self.cursor);
    }

    fn leaf(&mut self, name: &str, value: Scalar, line: usize) {
        let mut path = self.path.clone();
        path.push(name.to_owned());
        self.leaves.push(Leaf {
            path,
            value,
            file: self.cursor.file.to_owned(),
            line,
        });
    }
}

/// Skips white space and comments.
fn skip(cursor: &mut Cursor<'_>) {
    loop {
        cursor.take_while(char::is_whitespace);
        if !cursor.eat('#') {
            return;
        }
        cursor.take_while(|c| c != '\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let show = |leaf: &Leaf| format!("{}:{} = {}", leaf.line, leaf.path.join("."), leaf.value);
        let leaves = read("o.conf", text).unwrap();
        leaves.iter().map(show).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn blocks_have_numbers_and_names() {
        let text = "workers 2 # two\nlisten { host \"*\"\nport 6432 }\n\
            storage \"pg\" { type \"remote\" }\n\
            database \"default\" { user default hostssl \"10.0.0.0/8\" {\n\
            storage \"pg\" options { \"a\" \"b\" } log_debug no } }\n\
            database default { user \"u\" { password \"x\\\"y\" } }\nlisten { backlog 1kb }";
        let expected = "1:workers = 2
2:listen.0.host = \"*\"
3:listen.0.port = 6432
4:storage.0.name = \"pg\"
4:storage.0.type = \"remote\"
5:database.0.name = \"default\"
5:database.0.user.0.default = \"default\"
5:database.0.user.0.connection = \"hostssl\"
5:database.0.user.0.address = \"10.0.0.0/8\"
6:database.0.user.0.storage = \"pg\"
6:database.0.user.0.options.0.a = \"b\"
6:database.0.user.0.log_debug = false
7:database.1.default = \"default\"
7:database.1.user.0.name = \"u\"
7:database.1.user.0.password = \"x\\\"y\"
8:listen.1.backlog = 1024";
        assert_eq!(shown(text), expected);
    }

    #[test]
    fn mistakes_have_a_place() {
        let fails = |text: &str| read("o.conf", text).unwrap_err().to_string();
        let expected = [
            (
                "workers\n",
                "o.conf:2:1: expected a value, found the end of the file",
            ),
            (
                "listen {\n port 1",
                "o.conf:2:8: expected a closing brace, found the end of the file",
            ),
            (
                "a \"b",
                "o.conf:1:3: expected a closing quote (\") behind this one, found the end of the file",
            ),
            (
                "a 1 2\n",
                "o.conf:2:1: expected an opening brace, found the end of the file",
            ),
            ("}", "o.conf:1:1: expected the name of a setting, found '}'"),
            (
                "a 1x",
                "o.conf:1:3: expected a number with the unit B, kB, MB or GB, or without one",
            ),
            (
                "storage {\n}\nstorage\n",
                "o.conf:4:1: expected a name or an opening brace, found the end of the file",
            ),
        ];
        for (text, error) in expected {
            assert_eq!(fails(text), error);
        }
    }
}
