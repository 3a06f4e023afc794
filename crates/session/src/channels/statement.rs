//! `LISTEN name`, `UNLISTEN name` and `UNLISTEN *` as a text, by PostgreSQL's lexical rules (manual, 4.1).

use super::Request;
use crate::sql::{Identifier, identifier, is_end, trim};

/// Longer names are cut by PostgreSQL, with a notice; that is left to it.
const NAME_MAX: usize = 63;

/// What a text asks for, if it is exactly one such statement. A text that only looks like it (comments, several
/// statements, Unicode escapes) is left to the server.
pub(super) fn read(sql: &[u8]) -> Option<Request> {
    let mut rest = sql;
    // Nearly every statement is told apart by its first letter.
    let first = trim(rest).first()?.to_ascii_lowercase();
    if !matches!(first, b'l' | b'u') {
        return None;
    }
    let Identifier::Word(verb) = identifier(&mut rest)? else {
        return None;
    };
    let is_listen = match verb.as_slice() {
        b"listen" => true,
        b"unlisten" => false,
        _ => return None,
    };
    if !is_listen && let Some(behind) = trim(rest).strip_prefix(b"*") {
        return is_end(behind).then_some(Request::UnlistenAll);
    }
    let name = match identifier(&mut rest)? {
        Identifier::Word(name) if is_reserved(&name) => return None,
        Identifier::Quoted(name) | Identifier::Word(name) => name,
    };
    if name.len() > NAME_MAX || name.contains(&0) || !is_end(rest) {
        return None;
    }
    Some(if is_listen {
        Request::Listen(name.into())
    } else {
        Request::Unlisten(name.into())
    })
}

/// Words that are no names unless quoted; the server has to refuse them (manual, Appendix C).
fn is_reserved(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok_and(|word| RESERVED.contains(&word))
}

/// Reserved key words, and those reserved but for names of functions and types: no `ColId` (gram.y of PostgreSQL 18).
const RESERVED: [&str; 101] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "binary",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "natural",
    "not",
    "notnull",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "overlaps",
    "placing",
    "primary",
    "references",
    "returning",
    "right",
    "select",
    "session_user",
    "similar",
    "some",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, expected: Option<Request>) {
        assert_eq!(read(sql.as_bytes()), expected, "{sql}");
    }

    fn name(name: &str) -> crate::channels::Channel {
        name.as_bytes().into()
    }

    #[test]
    fn the_name_is_folded_unless_quoted() {
        check("LISTEN foo", Some(Request::Listen(name("foo"))));
        check("  listen\n\tFoo ; ", Some(Request::Listen(name("foo"))));
        check("listen \"A \"\"b\"", Some(Request::Listen(name("A \"b"))));
        check("Unlisten foo", Some(Request::Unlisten(name("foo"))));
        check("UNLISTEN * ;", Some(Request::UnlistenAll));
        check("unlisten*", Some(Request::UnlistenAll));
        check("unlisten \"*\"", Some(Request::Unlisten(name("*"))));
        check("listen \"table\"", Some(Request::Listen(name("table"))));
        check("listen listen", Some(Request::Listen(name("listen"))));
    }

    #[test]
    fn everything_else_is_left_to_the_server() {
        let long = format!("listen {}", "x".repeat(64));
        for sql in [
            "",
            "listen",
            "listen *",
            "listen a, b",
            "listen a; listen b",
            "listen a; ;",
            "listen a.b",
            "listen 'a'",
            "listen 1",
            "listen table",
            "listen SELECT",
            "listen a -- comment",
            "/* x */ listen a",
            "listen U&\"a\"",
            "listen f\u{fc}r",
            "unlisten",
            "unlisten * a",
            "lock table a",
            "update t set a = 1",
            "notify a",
            &long,
        ] {
            check(sql, None);
        }
    }
}
