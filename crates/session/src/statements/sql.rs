//! Parses the few statements whose text the session reads: `DEALLOCATE name`, whose name Weir may have replaced, and
//! statements that remove all names.
//!
//! The parser follows PostgreSQL's lexical rules (manual, 4.1) and never guesses. Any other text, or one that only
//! looks similar (comments, several statements, Unicode escapes), goes to the server unchanged.

use crate::client::NAME_MAX;

/// Calls `found` with every word and quoted identifier that PostgreSQL may see in a text, and possibly with others.
/// Returns false if there may be more: names with Unicode escapes are not read.
pub(crate) fn names_in(text: &[u8], found: &mut impl FnMut(&[u8])) -> bool {
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || *byte >= 0x80;
    for word in text
        .split(|byte| !is_part(byte))
        .filter(|word| !word.is_empty())
    {
        found(&word.to_ascii_lowercase());
        if !word.is_ascii() {
            // Folded as UTF-8; few locales fold other encodings.
            found(String::from_utf8_lossy(word).to_lowercase().as_bytes());
        }
    }
    // Tries each quote as a start: a quote inside a constant breaks the pairing.
    let quotes = text.iter().enumerate().filter(|(_, byte)| **byte == b'"');
    for (at, _) in quotes {
        found(&quoted_name(text.get(at + 1..).unwrap_or_default()));
    }
    !text
        .windows(3)
        .any(|letters| letters.eq_ignore_ascii_case(b"u&\""))
}

/// Returns the name behind a double quote, truncated like PostgreSQL's names.
fn quoted_name(text: &[u8]) -> Vec<u8> {
    let mut name = Vec::new();
    let mut bytes = text.iter().peekable();
    while let Some(byte) = bytes.next()
        && name.len() < NAME_MAX
        && (*byte != b'"' || bytes.next_if_eq(&&b'"').is_some())
    {
        name.push(*byte);
    }
    name
}

/// Names that a statement deallocates.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Deallocated {
    /// `DEALLOCATE ALL` or `DISCARD ALL`.
    All,
    /// `DEALLOCATE [PREPARE] name`, with the name folded as PostgreSQL folds identifiers.
    One(Vec<u8>),
}

/// Returns what a text deallocates, if it is one of these statements and nothing else.
pub(crate) fn deallocated(sql: &[u8]) -> Option<Deallocated> {
    let mut rest = sql;
    // The first character rules out nearly every statement.
    let first = *trim(rest).first()?;
    if !first.eq_ignore_ascii_case(&b'd') {
        return None;
    }
    match keyword(&mut rest)?.as_slice() {
        b"deallocate" => deallocate(rest),
        b"discard" => {
            let is_all = keyword(&mut rest)? == b"all" && is_end(rest);
            is_all.then_some(Deallocated::All)
        }
        _ => None,
    }
}

/// Commands that return no rows, always the same columns, or (EXECUTE, FETCH) the rows of another statement. Sorted.
const FIXED: [&[u8]; 41] = [
    b"abort",
    b"alter",
    b"analyze",
    b"begin",
    b"checkpoint",
    b"close",
    b"cluster",
    b"comment",
    b"commit",
    b"copy",
    b"create",
    b"deallocate",
    b"declare",
    b"discard",
    b"do",
    b"drop",
    b"end",
    b"execute",
    b"explain",
    b"fetch",
    b"grant",
    b"import",
    b"listen",
    b"load",
    b"lock",
    b"move",
    b"notify",
    b"prepare",
    b"reassign",
    b"refresh",
    b"reindex",
    b"release",
    b"reset",
    b"revoke",
    b"rollback",
    b"savepoint",
    b"set",
    b"show",
    b"start",
    b"truncate",
    b"vacuum",
];

/// True if a statement may return rows with columns of its own, so that PostgreSQL refuses to run it after they have
/// changed.
pub(crate) fn may_return_rows(sql: &[u8]) -> bool {
    let rest = behind_comments(sql);
    let word = rest.iter().take_while(|byte| byte.is_ascii_alphabetic());
    let word: Vec<u8> = word.map(u8::to_ascii_lowercase).collect();
    match word.as_slice() {
        b"insert" | b"update" | b"delete" | b"merge" => {
            let returning = b"returning";
            let mut words = rest.windows(returning.len());
            words.any(|word| word.eq_ignore_ascii_case(returning))
        }
        word => !rest.is_empty() && FIXED.binary_search(&word).is_err(),
    }
}

fn behind_comments(sql: &[u8]) -> &[u8] {
    let mut rest = trim(sql);
    loop {
        let end = if rest.starts_with(b"--") {
            rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'))
        } else if rest.starts_with(b"/*") {
            end_of_comment(rest)
        } else {
            return rest;
        };
        rest = trim(rest.get(end.unwrap_or(rest.len())..).unwrap_or_default());
    }
}

/// Returns the end of a block comment; these nest (manual, 4.1.5).
fn end_of_comment(sql: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        match sql.get(at..at + 2)? {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return Some(at);
        }
    }
}

fn deallocate(mut rest: &[u8]) -> Option<Deallocated> {
    let mut name = identifier(&mut rest)?;
    if name == Identifier::Word(b"prepare".to_vec()) {
        match identifier(&mut rest) {
            Some(next) => name = next,
            None if is_end(rest) => {}
            None => return None,
        }
    }
    if !is_end(rest) {
        return None;
    }
    match name {
        Identifier::Word(word) if word == b"all" => Some(Deallocated::All),
        Identifier::Word(name) | Identifier::Quoted(name) => Some(Deallocated::One(name)),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Identifier {
    Quoted(Vec<u8>),
    Word(Vec<u8>),
}

fn trim(sql: &[u8]) -> &[u8] {
    let spaces = sql
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x0b));
    sql.get(spaces.count()..).unwrap_or_default()
}

fn is_end(sql: &[u8]) -> bool {
    let rest = trim(sql);
    rest.is_empty() || trim(rest.strip_prefix(b";").unwrap_or(rest)).is_empty()
}

fn keyword(rest: &mut &[u8]) -> Option<Vec<u8>> {
    match identifier(rest)? {
        Identifier::Word(word) => Some(word),
        Identifier::Quoted(_) => None,
    }
}

fn identifier(rest: &mut &[u8]) -> Option<Identifier> {
    let sql = trim(rest);
    if let Some(quoted) = sql.strip_prefix(b"\"") {
        return quoted_identifier(quoted, rest);
    }
    let is_start = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    // The server's locale folds characters beyond ASCII; leave such names to the server.
    sql.first().filter(|first| is_start(first))?;
    let is_part = |byte: &&u8| is_start(byte) || byte.is_ascii_digit() || **byte == b'$';
    let len = sql.iter().take_while(is_part).count();
    let (word, after) = sql.split_at_checked(len)?;
    // A byte beyond ASCII, or U&"…", would belong to the word.
    if after
        .first()
        .is_some_and(|next| *next >= 0x80 || matches!(next, b'&' | b'"' | b'\''))
    {
        return None;
    }
    *rest = after;
    Some(Identifier::Word(word.to_ascii_lowercase()))
}

/// Parses the rest of a quoted identifier; a doubled quote stands for a quote.
fn quoted_identifier<'a>(mut sql: &'a [u8], rest: &mut &'a [u8]) -> Option<Identifier> {
    let mut name = Vec::new();
    loop {
        let len = sql.iter().position(|byte| *byte == b'"')?;
        let (part, after) = sql.split_at_checked(len)?;
        name.extend_from_slice(part);
        let after = after.strip_prefix(b"\"")?;
        match after.strip_prefix(b"\"") {
            Some(more) => {
                name.push(b'"');
                sql = more;
            }
            None => {
                *rest = after;
                return (!name.is_empty()).then_some(Identifier::Quoted(name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, name: Option<&str>) {
        let one = |name: &str| Deallocated::One(name.into());
        assert_eq!(deallocated(sql.as_bytes()), name.map(one), "{sql}");
    }

    #[test]
    fn what_may_return_other_columns_by_and_by() {
        assert!(FIXED.is_sorted());
        for sql in [
            "select 1",
            " -- why\n /* not /* so */ */ SELECT 1",
            "(values (1))",
            "with a as (select) table a",
            "insert into t values (1) RETURNING *",
            "call p()",
            "unheard of",
        ] {
            assert!(may_return_rows(sql.as_bytes()), "{sql}");
        }
        for sql in [
            "",
            " /* nothing",
            "-- nothing",
            "update t set a = 1",
            "/* x */ execute p",
            "FETCH c",
            "show all",
            "begin",
        ] {
            assert!(!may_return_rows(sql.as_bytes()), "{sql}");
        }
    }

    #[test]
    fn all_of_them_are_told_apart() {
        for sql in [
            "deallocate all",
            "DEALLOCATE PREPARE ALL;",
            " Discard All ; ",
        ] {
            assert_eq!(deallocated(sql.as_bytes()), Some(Deallocated::All), "{sql}");
        }
    }

    #[test]
    fn the_name_is_folded_unless_quoted() {
        check("deallocate foo", Some("foo"));
        check("  DEALLOCATE\n\tPrepare Foo ; ", Some("foo"));
        check("deallocate \"_pg3_0\"", Some("_pg3_0"));
        check("Deallocate \"A \"\"b\"", Some("A \"b"));
        check("deallocate prepare", Some("prepare"));
        check("deallocate \"all\"", Some("all"));
        check("deallocate s$1", Some("s$1"));
    }

    #[test]
    fn every_name_in_a_text_is_found() {
        let names = |text: &str| {
            let mut names = Vec::new();
            let all = names_in(text.as_bytes(), &mut |name| {
                names.push(String::from_utf8(name.to_vec()).unwrap());
            });
            (names, all)
        };
        let has = |text: &str, name: &str| names(text).0.iter().any(|one| one == name);
        assert!(has("explain execute P(1)", "p"));
        assert!(has("EXECUTE/**/s$1;", "s$1"));
        assert!(has("execute \"A \"\"b\"(1)", "A \"b"));
        assert!(has("select '\"'; execute \"P\"", "P"));
        assert!(has("execute F\u{dc}R", "f\u{fc}r"));
        let long = "x".repeat(100);
        assert!(has(&format!("execute \"{long}\""), &long[..NAME_MAX]));
        assert!(names("execute p").1 && !names("execute U&\"p\"").1);
        let hostile = "\"".repeat(30_000);
        assert!(names(&hostile).1);
    }

    #[test]
    fn everything_else_is_left_to_the_server() {
        for sql in [
            "",
            "select 1",
            "deallocate",
            "deallocate all; select 1",
            "discard plans",
            "discard \"all\"",
            "deallocate a; select 1",
            "deallocate a b",
            "deallocate \"a",
            "deallocate \"\"",
            "deallocate U&\"a\"",
            "deallocate f\u{fc}r",
            "deallocate a -- comment",
            "deallocate/**/a",
            "deallocated a",
        ] {
            check(sql, None);
        }
    }
}
