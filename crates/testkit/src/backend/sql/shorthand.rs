//! The shorthand: a few words, enough for every shape of reply.

use super::{Notice, Select, Setting, Sql};

pub(super) fn statement(text: &str) -> Result<Sql, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let bad = || format!("syntax error at or near \"{text}\"");
    let number = |word: &str| word.parse().map_err(|_| bad());
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    Ok(match (lower.as_slice(), words.as_slice()) {
        (["copy", "in"], _) => Sql::CopyIn(None),
        (["copy", "out", lines], _) => Sql::CopyOut {
            lines: number(lines)?,
            first: 0,
            what: "line ".to_owned(),
        },
        (["die"], _) => Sql::Die,
        (["do", ..], _) => Sql::Do,
        (["error", "parse", ..], _) => return Err(bad()),
        (["error", ..], [_, rest @ ..]) => Sql::Error("22012", format!("error {}", rest.join(" "))),
        (["notice", ..], [_, rest @ ..]) => Sql::Notice(Notice::Warning, rest.join(" ")),
        // What Weir sends in place of a statement that it refuses.
        (["select", "''::pg_catalog.int4"], _) => Sql::Error(
            "22P02",
            "invalid input syntax for type integer: \"\"".to_owned(),
        ),
        (["row", _], [_, what]) => rows(1, what),
        (["rows", count, _], [_, _, what]) => rows(number(count)?, what),
        (["set", name, _], [.., value]) => Sql::Set(Setting {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
            local: false,
            any: true,
        }),
        _ => return Err(bad()),
    })
}

fn rows(count: usize, what: &str) -> Sql {
    Sql::Select(Select::Rows(count, what.to_owned()))
}
