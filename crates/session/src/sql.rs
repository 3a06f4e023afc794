//! The one statement whose text is read here: `DEALLOCATE name`, which names a statement that we may have renamed.
//!
//! Read by PostgreSQL's lexical rules (manual, 4.1), never guessed: a text that is anything else, or only looks like it
//! (comments, several statements, Unicode escapes), is left to the server as it is.

/// The name in `DEALLOCATE [PREPARE] name`, folded as PostgreSQL folds identifiers; `None` for every other text,
/// `DEALLOCATE ALL` among them.
pub(crate) fn deallocated_name(sql: &[u8]) -> Option<Vec<u8>> {
    let mut rest = sql;
    // Nearly every statement is told apart by its first letter.
    let first = *trim(rest).first()?;
    if !first.eq_ignore_ascii_case(&b'd') || keyword(&mut rest)? != b"deallocate" {
        return None;
    }
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
        Identifier::Word(word) if word == b"all" => None,
        Identifier::Word(name) | Identifier::Quoted(name) => Some(name),
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
    // Letters beyond ASCII are folded by the server's locale; leave such names to it.
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

/// What follows an opening double quote; a doubled one stands for itself.
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
        let found = deallocated_name(sql.as_bytes());
        assert_eq!(found.as_deref(), name.map(str::as_bytes), "{sql}");
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
    fn everything_else_is_left_to_the_server() {
        for sql in [
            "",
            "select 1",
            "deallocate",
            "deallocate all",
            "deallocate prepare all",
            "deallocate a; select 1",
            "deallocate a b",
            "deallocate \"a",
            "deallocate \"\"",
            "deallocate U&\"a\"",
            "deallocate f\u{fc}r",
            "deallocate a -- comment",
            "deallocate/**/a",
            "deallocated a",
            "discard all",
        ] {
            check(sql, None);
        }
    }
}
