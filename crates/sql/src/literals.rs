//! Statements of which the literals say what they do, and not only on which values: DO, CREATE FUNCTION, COPY with a file.

use crate::lex::{Lexer, Reading, Token};

/// First words of statements whose literals are values, numbers of rows, names of transactions or passwords.
const VALUES: [&str; 31] = [
    "abort",
    "begin",
    "call",
    "close",
    "commit",
    "deallocate",
    "declare",
    "delete",
    "discard",
    "end",
    "execute",
    "fetch",
    "insert",
    "listen",
    "lock",
    "merge",
    "move",
    "notify",
    "prepare",
    "release",
    "reset",
    "rollback",
    "savepoint",
    "select",
    "show",
    "start",
    "table",
    "unlisten",
    "update",
    "values",
    "with",
];

/// Words between CREATE and TABLE.
const MODIFIERS: [&str; 5] = ["global", "local", "temp", "temporary", "unlogged"];

/// Settings that say as which role statements run.
const ROLES: [&str; 3] = ["authorization", "role", "session_authorization"];

/// First words of statements that begin, end and divide transactions, or remove a prepared statement.
const CONTROL: [&str; 9] = [
    "abort",
    "begin",
    "commit",
    "deallocate",
    "end",
    "release",
    "rollback",
    "savepoint",
    "start",
];

/// Token outside parentheses.
#[derive(Debug, PartialEq, Eq)]
enum Top {
    /// Word in lower case, in quotes or not.
    Word(String),
    Literal,
    Open,
    Other,
    /// The rest cannot be read.
    Unclear,
}

/// Reads the tokens outside parentheses.
struct Tops<'a> {
    lexer: Lexer<'a>,
    depth: u32,
}

impl<'a> Tops<'a> {
    fn new(statement: &'a [u8]) -> Self {
        Self {
            lexer: Lexer::new(statement, Reading::Strict),
            depth: 0,
        }
    }

    fn has(&mut self, word: &str) -> bool {
        self.any(|top| matches!(top, Top::Word(found) if found == word))
    }
}

impl Iterator for Tops<'_> {
    type Item = Top;

    fn next(&mut self) -> Option<Top> {
        loop {
            let top = match self.lexer.token() {
                Err(_) | Ok(Some(Token::Unicode)) => Top::Unclear,
                Ok(None) => return None,
                Ok(Some(Token::Word(word) | Token::Quoted(word))) => {
                    Top::Word(String::from_utf8_lossy(word).to_ascii_lowercase())
                }
                Ok(Some(Token::Text(_))) => Top::Literal,
                Ok(Some(Token::Other(byte))) => match byte {
                    b'(' => {
                        self.depth += 1;
                        if self.depth > 1 {
                            continue;
                        }
                        return Some(Top::Open);
                    }
                    b')' => {
                        self.depth = self.depth.saturating_sub(1);
                        continue;
                    }
                    b'0'..=b'9' => Top::Literal,
                    _ => Top::Other,
                },
            };
            if self.depth == 0 || top == Top::Unclear {
                return Some(top);
            }
        }
    }
}

/// True if another literal may make another statement of this one, as in DO, CREATE FUNCTION or COPY with a file. Also true if
/// the statement cannot be read for sure.
///
/// ```
/// use weir_sql::literals_matter;
///
/// assert!(literals_matter(b"DO $$BEGIN PERFORM f(); END$$"));
/// assert!(!literals_matter(b"SELECT a FROM t WHERE b = 'x'"));
/// ```
#[must_use]
pub fn literals_matter(statement: &[u8]) -> bool {
    let mut tops = Tops::new(statement);
    let first = match tops.next() {
        Some(Top::Word(word)) => word,
        // A query in parentheses.
        Some(Top::Open) => return false,
        _ => return true,
    };
    let may_matter = match first.as_str() {
        "alter" | "create" => defines(&first, &mut tops),
        "copy" => !copies_here(&mut tops),
        // EXPLAIN (ANALYZE 'on') runs what EXPLAIN (ANALYZE 'off') does not run.
        "explain" => matches!(tops.next(), Some(Top::Open | Top::Unclear)),
        "set" => tops.any(|top| match top {
            Top::Word(word) => ROLES.contains(&word.as_str()),
            top => top == Top::Unclear,
        }),
        first => !VALUES.contains(&first),
    };
    may_matter && has_literals(statement)
}

/// True if a statement only begins, ends or divides a transaction, or removes a prepared statement: these have no effect on
/// data. PREPARE TRANSACTION and COMMIT PREPARED are others.
#[must_use]
pub fn is_control(statement: &[u8]) -> bool {
    let mut tops = Tops::new(statement);
    let Some(Top::Word(first)) = tops.next() else {
        return false;
    };
    CONTROL.contains(&first.as_str())
        && !tops.any(|top| top == Top::Unclear || top == Top::Word("prepared".to_owned()))
}

/// True if CREATE or ALTER may define by literals: not of a table from a query, and not of a role with its password.
fn defines(first: &str, tops: &mut Tops<'_>) -> bool {
    let is_modifier =
        |top: &Top| matches!(top, Top::Word(word) if MODIFIERS.contains(&word.as_str()));
    let Some(Top::Word(object)) = tops.find(|top| !is_modifier(top)) else {
        return true;
    };
    match (first, object.as_str()) {
        ("create", "table") => !tops.has("as"),
        (_, "group" | "role" | "user") => tops.any(|top| match top {
            Top::Word(word) => matches!(word.as_str(), "mapping" | "set"),
            top => top == Top::Unclear,
        }),
        _ => true,
    }
}

/// True if COPY reads from or writes to its client.
fn copies_here(tops: &mut Tops<'_>) -> bool {
    let is_way = |top: &Top| matches!(top, Top::Word(word) if word == "from" || word == "to");
    let _ = tops.find(is_way);
    matches!(tops.next(), Some(Top::Word(word)) if word == "stdin" || word == "stdout")
}

fn has_literals(statement: &[u8]) -> bool {
    let mut lexer = Lexer::new(statement, Reading::Strict);
    loop {
        match lexer.token() {
            Ok(None) => return false,
            Ok(Some(Token::Text(_) | Token::Other(b'0'..=b'9'))) | Err(_) => return true,
            Ok(Some(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_statements_about_data_are_values() {
        for text in [
            "SELECT 'x'",
            "(SELECT 1) UNION (SELECT 'x')",
            "WITH a AS (SELECT 1) DELETE FROM t",
            "INSERT INTO t VALUES (1, 'x')",
            "EXPLAIN ANALYZE SELECT 1",
            "COPY t (a, b) FROM STDIN WITH (DELIMITER ';')",
            "COPY (SELECT a FROM t WHERE b = 'from') TO stdout",
            "SET application_name = 'x'",
            "SET LOCAL statement_timeout = 5",
            "CREATE TEMP TABLE n AS SELECT * FROM t WHERE a = 5",
            "ALTER ROLE joe PASSWORD 'x'",
            "CREATE USER joe VALID UNTIL 'tomorrow'",
            "NOTIFY a, 'x'",
            "FETCH 100 FROM c",
            "PREPARE TRANSACTION 'x'",
            "EXECUTE p(1, 'x')",
            "CREATE TABLE t (a int)",
            "DROP TABLE t",
        ] {
            assert!(!literals_matter(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn literals_that_are_code_files_roles_and_definitions_matter() {
        for text in [
            "DO 'x'",
            "/* a */ do language plpgsql $$x$$",
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "CREATE OR REPLACE PROCEDURE p() AS $$x$$ LANGUAGE plpgsql",
            "COPY t FROM '/etc/passwd'",
            "COPY stdin FROM PROGRAM 'x'",
            "COPY (SELECT 1 FROM stdin) TO PROGRAM 'x'",
            "EXPLAIN (ANALYZE 'on') DELETE FROM t",
            "SET ROLE 'admin'",
            "SET SESSION AUTHORIZATION 'admin'",
            "SET \"Role\" = 'admin'",
            "ALTER SYSTEM SET archive_command = 'x'",
            "ALTER ROLE joe SET search_path = 'x'",
            "CREATE USER MAPPING FOR joe SERVER s OPTIONS (user 'x')",
            "CREATE TABLE t (a int DEFAULT 5)",
            "CREATE TABLE t (a int GENERATED ALWAYS AS (b + 5) STORED)",
            "CREATE VIEW v AS SELECT 5",
            "LOAD 'x'",
            "no statement 'x'",
            "SELECTX 'x'",
            "SET U&\"r\\006fle\" = 'admin'",
        ] {
            assert!(literals_matter(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn control_of_transactions_is_told_apart() {
        for text in [
            "BEGIN",
            "start transaction read only",
            "COMMIT AND CHAIN",
            "ROLLBACK TO SAVEPOINT a",
            "SAVEPOINT \"_auto1\"",
            "RELEASE s",
            "DEALLOCATE ALL",
            "/* x */ End",
        ] {
            assert!(is_control(text.as_bytes()), "{text}");
        }
        for text in [
            "PREPARE TRANSACTION 'x'",
            "COMMIT PREPARED 'x'",
            "rollback prepared 'x'",
            "SELECT 1",
            "",
            "(BEGIN)",
            "DISCARD ALL",
        ] {
            assert!(!is_control(text.as_bytes()), "{text}");
        }
    }
}
