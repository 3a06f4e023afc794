//! Classifies a statement by its first words, just enough to answer it. There is no grammar.

/// Kind of answer to a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// `BEGIN`, with the command tag.
    Begin(&'static str),
    /// `COMMIT` or `END`.
    Commit,
    /// `ROLLBACK` or `ABORT`, of the whole transaction.
    Rollback,
    /// Statement without rows, with its command tag. `is_work` is true for the statements of a
    /// load.
    Command { tag: &'static str, is_work: bool },
    /// Statement that sets a parameter: name and value.
    Set(Box<(String, String)>),
    /// `RESET ALL` or `DISCARD ALL`, with the command tag.
    ResetAll(&'static str),
    /// Result of one row with one column.
    One(Box<str>),
    /// `SHOW` of this parameter.
    Show(Box<str>),
    /// Weir's query for the state of the session: three columns and no row.
    State,
    /// Statement that returns the canned result.
    Rows,
    /// COPY that returns the canned result.
    CopyOut,
    /// COPY whose data are received and discarded.
    CopyIn,
    /// White space and comments only.
    Empty,
}

/// First words and the kinds of their statements. The first match counts.
const WORDS: &[(&str, Kind)] = &[
    ("SELECT", Kind::Rows),
    ("BEGIN", Kind::Begin("BEGIN")),
    ("START", Kind::Begin("START TRANSACTION")),
    ("COMMIT", Kind::Commit),
    ("END", Kind::Commit),
    ("ROLLBACK", Kind::Rollback),
    ("ABORT", Kind::Rollback),
    ("UPDATE", work("UPDATE 1")),
    ("INSERT", work("INSERT 0 1")),
    ("DELETE", work("DELETE 1")),
    ("MERGE", work("MERGE 1")),
    ("SAVEPOINT", quiet("SAVEPOINT")),
    ("RELEASE", quiet("RELEASE")),
    ("DEALLOCATE", quiet("DEALLOCATE ALL")),
    ("CLOSE", quiet("CLOSE CURSOR ALL")),
    ("LISTEN", quiet("LISTEN")),
    ("UNLISTEN", quiet("UNLISTEN")),
    ("NOTIFY", quiet("NOTIFY")),
    ("LOCK", work("LOCK TABLE")),
    ("TRUNCATE", work("TRUNCATE TABLE")),
    ("VACUUM", work("VACUUM")),
    ("ANALYZE", work("ANALYZE")),
    ("CHECKPOINT", work("CHECKPOINT")),
    ("CREATE", work("CREATE TABLE")),
    ("DROP", work("DROP TABLE")),
    ("ALTER", work("ALTER TABLE")),
    ("PREPARE", work("PREPARE")),
    ("DO", work("DO")),
];

const fn work(tag: &'static str) -> Kind {
    Kind::Command { tag, is_work: true }
}

const fn quiet(tag: &'static str) -> Kind {
    Kind::Command {
        tag,
        is_work: false,
    }
}

/// Classifies one statement. Unknown statements get the canned result, as `VALUES` and `WITH`
/// should.
pub(super) fn kind(sql: &[u8]) -> Kind {
    let sql = skip_space(sql);
    let (word, rest) = first_word(sql);
    if word.is_empty() && rest.is_empty() {
        return Kind::Empty;
    }
    if is(word, "SELECT") {
        return select(sql, rest);
    }
    let is_to = || has_word(rest, "TO");
    match () {
        () if is(word, "SET") => set(rest),
        () if is(word, "RESET") => match is(first_word(skip_space(rest)).0, "ALL") {
            true => Kind::ResetAll("RESET"),
            false => quiet("RESET"),
        },
        () if is(word, "DISCARD") => Kind::ResetAll("DISCARD ALL"),
        () if is(word, "SHOW") => Kind::Show(name(rest)),
        () if is(word, "COPY") && has_word(rest, "STDIN") => Kind::CopyIn,
        () if is(word, "COPY") && has_word(rest, "STDOUT") => Kind::CopyOut,
        () if is(word, "ROLLBACK") && is_to() => quiet("ROLLBACK"),
        () => {
            let known = WORDS.iter().find(|(known, _)| is(word, known));
            known.map_or(Kind::Rows, |(_, kind)| kind.clone())
        }
    }
}

fn select(sql: &[u8], rest: &[u8]) -> Kind {
    let rest = skip_space(rest);
    // Weir's state queries begin with one of these literals; its set_config applies a setting to
    // the session.
    let asks = [&b"'s', "[..], b"'p', ", b"'n', ", b"'r', "];
    if asks.iter().any(|ask| rest.starts_with(ask)) && contains(sql, b"pg_catalog.") {
        return Kind::State;
    }
    if rest.starts_with(b"pg_catalog.set_config(") {
        return Kind::One("".into());
    }
    if starts_with(rest, b"pg_is_in_recovery()")
        || starts_with(rest, b"pg_catalog.pg_is_in_recovery()")
    {
        return Kind::One("f".into());
    }
    if starts_with(rest, b"version()") {
        return Kind::One("PostgreSQL 15.0 (null backend)".into());
    }
    Kind::Rows
}

/// Parses `SET [SESSION | LOCAL] name { = | TO } value`.
fn set(rest: &[u8]) -> Kind {
    let mut rest = skip_space(rest);
    let (word, after) = first_word(rest);
    if is(word, "LOCAL") || is(word, "SESSION") {
        rest = skip_space(after);
    }
    let found = name(rest);
    let quotes = match rest.first() {
        Some(b'"') => 2,
        _ => 0,
    };
    let after = skip_space(rest.get(found.len() + quotes..).unwrap_or_default());
    let value = match after {
        [b'=', value @ ..] => value,
        _ if is(first_word(after).0, "TO") => first_word(after).1,
        _ => return quiet("SET"),
    };
    let value = String::from_utf8_lossy(value);
    let value = value.trim().trim_end_matches(';').trim_end();
    let bare = value.strip_prefix(['E', 'e']).unwrap_or(value);
    let bare = bare.strip_prefix('\'').and_then(|v| v.strip_suffix('\''));
    let value = bare.map_or_else(|| value.to_owned(), |quoted| quoted.replace("''", "'"));
    Kind::Set(Box::new((found.into(), value)))
}

/// Returns the name at the start, without its quotes.
fn name(sql: &[u8]) -> Box<str> {
    let sql = skip_space(sql);
    let bytes = match sql {
        [b'"', rest @ ..] => rest.split(|byte| *byte == b'"').next().unwrap_or_default(),
        _ => first_word(sql).0,
    };
    String::from_utf8_lossy(bytes).into()
}

/// Splits a text into statements, with regard to quotes and comments. Empty statements are left
/// out.
pub(super) fn statements(sql: &[u8]) -> Statements<'_> {
    Statements { rest: Some(sql) }
}

/// Iterator of [`statements`].
#[derive(Debug)]
pub(super) struct Statements<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Statements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let sql = self.rest?;
            let end = end(sql);
            self.rest = end.and_then(|at| sql.get(at + 1..));
            let one = sql.get(..end.unwrap_or(sql.len())).unwrap_or_default();
            if !skip_space(one).is_empty() {
                return Some(one);
            }
        }
    }
}

/// Returns the position of the first semicolon outside of quotes and comments.
fn end(sql: &[u8]) -> Option<usize> {
    // Most texts have no semicolon.
    if !sql.contains(&b';') {
        return None;
    }
    let mut at = 0;
    while let Some(byte) = sql.get(at) {
        let rest = sql.get(at + 1..).unwrap_or_default();
        at += 1 + match (byte, rest.first()) {
            (b';', _) => return Some(at),
            (b'\'' | b'"', _) => rest.iter().position(|b| b == byte)? + 1,
            (b'-', Some(b'-')) => rest.iter().position(|b| *b == b'\n')?,
            (b'/', Some(b'*')) => comment(rest)?,
            (b'$', _) => dollar(rest),
            _ => 0,
        };
    }
    None
}

/// Returns the length of a comment after its slash.
fn comment(rest: &[u8]) -> Option<usize> {
    let end = rest.get(1..)?.windows(2).position(|pair| pair == b"*/")?;
    Some(end + 3)
}

/// Returns the length of a dollar-quoted text after its first dollar sign; 0 if it is none.
fn dollar(rest: &[u8]) -> usize {
    let is_tag = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let Some(tag) = rest.iter().position(|byte| !is_tag(byte)) else {
        return 0;
    };
    if rest.get(tag) != Some(&b'$') {
        return 0;
    }
    let (opening, body) = rest.split_at(tag + 1);
    let mut closing = b"$".to_vec();
    closing.extend_from_slice(opening);
    let found = body
        .windows(closing.len())
        .position(|window| window == closing);
    found.map_or(rest.len(), |at| opening.len() + at + closing.len())
}

/// Returns the highest `$n` of a statement, which is its number of parameters.
pub(super) fn parameter_count(sql: &[u8]) -> u16 {
    let mut most = 0_u16;
    for part in sql.split(|byte| *byte == b'$').skip(1) {
        let digits = part.iter().take_while(|byte| byte.is_ascii_digit());
        let number = digits.fold(0_u16, |number, digit| {
            number
                .saturating_mul(10)
                .saturating_add(u16::from(digit - b'0'))
        });
        most = most.max(number);
    }
    most
}

fn skip_space(mut sql: &[u8]) -> &[u8] {
    loop {
        sql = match sql {
            [b'-', b'-', rest @ ..] => {
                let end = rest.iter().position(|byte| *byte == b'\n');
                end.and_then(|end| rest.get(end..)).unwrap_or_default()
            }
            [b'/', rest @ ..] if rest.first() == Some(&b'*') => {
                let end = comment(rest).unwrap_or(rest.len());
                rest.get(end..).unwrap_or_default()
            }
            [first, rest @ ..] if first.is_ascii_whitespace() || *first == b';' => rest,
            _ => return sql,
        };
    }
}

/// Splits off the alphanumeric characters, underscores and full stops at the start.
fn first_word(sql: &[u8]) -> (&[u8], &[u8]) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.';
    let end = sql.iter().position(|byte| !is_word(byte));
    sql.split_at(end.unwrap_or(sql.len()))
}

fn is(word: &[u8], known: &str) -> bool {
    word.eq_ignore_ascii_case(known.as_bytes())
}

fn starts_with(sql: &[u8], start: &[u8]) -> bool {
    sql.get(..start.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(start))
}

fn contains(sql: &[u8], part: &[u8]) -> bool {
    sql.windows(part.len()).any(|window| window == part)
}

fn has_word(sql: &[u8], word: &str) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    sql.split(|byte| !is_word(byte))
        .any(|found| is(found, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_decide() {
        let table: &[(&str, Kind)] = &[
            ("select 1", Kind::Rows),
            ("-- why\n /* not */ ;Select 1", Kind::Rows),
            ("WITH a AS (SELECT 1) SELECT * FROM a", Kind::Rows),
            ("begin", Kind::Begin("BEGIN")),
            (
                "START TRANSACTION READ ONLY",
                Kind::Begin("START TRANSACTION"),
            ),
            ("End;", Kind::Commit),
            ("ROLLBACK", Kind::Rollback),
            ("ROLLBACK TO SAVEPOINT a", quiet("ROLLBACK")),
            ("update t set a = 1", work("UPDATE 1")),
            ("DISCARD ALL", Kind::ResetAll("DISCARD ALL")),
            ("RESET ALL", Kind::ResetAll("RESET")),
            ("RESET search_path", quiet("RESET")),
            ("SHOW server_version;", Kind::Show("server_version".into())),
            ("COPY t FROM STDIN", Kind::CopyIn),
            ("COPY (SELECT 1) TO STDOUT", Kind::CopyOut),
            (
                "SELECT 's', name, setting FROM pg_catalog.pg_settings",
                Kind::State,
            ),
            ("SELECT 's', 1", Kind::Rows),
            ("select pg_is_in_recovery()", Kind::One("f".into())),
            (" -- nothing", Kind::Empty),
            ("", Kind::Empty),
        ];
        for (sql, expected) in table {
            assert_eq!(kind(sql.as_bytes()), *expected, "{sql}");
        }
    }

    #[test]
    fn settings_are_read_in_every_spelling() {
        let table = [
            ("SET application_name = 'a''b'", "a'b"),
            ("set session application_name to x;", "x"),
            ("SET \"application_name\" TO E'x y'", "x y"),
            ("SET LOCAL application_name=''", ""),
        ];
        for (sql, value) in table {
            let expected = ("application_name".to_owned(), value.to_owned());
            assert_eq!(kind(sql.as_bytes()), Kind::Set(Box::new(expected)), "{sql}");
        }
        assert_eq!(kind(b"SET TRANSACTION READ ONLY"), quiet("SET"));
    }

    #[test]
    fn semicolons_separate_statements_outside_of_quotes_and_comments() {
        let split = |sql: &'static str| {
            let parts = statements(sql.as_bytes()).map(|part| String::from_utf8_lossy(part));
            parts.map(|part| part.trim().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(split("a; b;; c ;"), ["a", "b", "c"]);
        assert_eq!(split("a"), ["a"]);
        assert_eq!(split(" ; "), [""; 0]);
        assert_eq!(split("';' \";\""), ["';' \";\""]);
        assert_eq!(split("a -- ;\n;b /* ; */; c"), ["a -- ;", "b /* ; */", "c"]);
        assert_eq!(
            split("$$;$$; $a$;$$;$a$; $1;"),
            ["$$;$$", "$a$;$$;$a$", "$1"]
        );
        assert_eq!(split("'open ; "), ["'open ;"]);
    }

    #[test]
    fn parameters_are_counted() {
        assert_eq!(parameter_count(b"select $2, $10 + $1"), 10);
        assert_eq!(parameter_count(b"select 1"), 0);
    }
}
