//! The model's language of statements: a handful of words, enough for every shape of reply.

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sql {
    Begin,
    Commit,
    CopyIn,
    /// `copy out N`: so many lines.
    CopyOut(usize),
    DeallocateAll,
    /// `die`: the server ends the session with FATAL.
    Die,
    DiscardAll,
    /// `do X`: no rows.
    Do,
    /// `error X`: fails when it runs.
    Error(String),
    /// `notice X`.
    Notice(String),
    Reset(String),
    Rollback,
    /// `row X` and `rows N X`.
    Rows(usize, String),
    /// `set NAME VALUE`, also as `SET "NAME" TO E'VALUE'`.
    Set(String, String),
}

impl Sql {
    pub(super) fn returns_rows(&self) -> bool {
        matches!(self, Self::Rows(..))
    }

    pub(super) fn ends_transaction(&self) -> bool {
        matches!(self, Self::Commit | Self::Rollback)
    }

    /// What PostgreSQL commits at once, even inside of a pipeline.
    pub(super) fn commits_at_once(&self) -> bool {
        self.ends_transaction() || matches!(self, Self::Begin | Self::DiscardAll)
    }
}

/// The statements of a text; a syntax error anywhere spoils the whole text, as in PostgreSQL.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Sql>, String> {
    let text = String::from_utf8_lossy(text);
    let parts = text.split(';').map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(statement)
        .collect()
}

fn statement(text: &str) -> Result<Sql, String> {
    let words: Vec<String> = text.split_whitespace().map(unquoted).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let bad = || format!("syntax error at or near \"{text}\"");
    let number = |word: &str| word.parse().map_err(|_| bad());
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    Ok(match (lower.as_slice(), words.as_slice()) {
        (["begin"], _) => Sql::Begin,
        (["commit"], _) => Sql::Commit,
        (["rollback"], _) => Sql::Rollback,
        (["copy", "in"], _) => Sql::CopyIn,
        (["copy", "out", lines], _) => Sql::CopyOut(number(lines)?),
        (["deallocate", "all"], _) => Sql::DeallocateAll,
        (["discard", "all"], _) => Sql::DiscardAll,
        (["die"], _) => Sql::Die,
        (["do", ..], _) => Sql::Do,
        (["error", "parse", ..], _) => return Err(bad()),
        (["error", ..], [_, rest @ ..]) => Sql::Error(rest.join(" ")),
        (["notice", ..], [_, rest @ ..]) => Sql::Notice(rest.join(" ")),
        (["row", _], [_, what]) => Sql::Rows(1, (*what).to_owned()),
        (["rows", count, _], [_, _, what]) => Sql::Rows(number(count)?, (*what).to_owned()),
        (["reset", name], _) => Sql::Reset((*name).to_owned()),
        (["set", name, "to", _], [.., value]) | (["set", name, _], [.., value]) => {
            Sql::Set((*name).to_owned(), (*value).to_owned())
        }
        _ => return Err(bad()),
    })
}

/// A word without the quotes that Weir puts around names and values.
fn unquoted(word: &str) -> String {
    let literal = word
        .strip_prefix("E'")
        .and_then(|rest| rest.strip_suffix('\''));
    let name = word
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    literal.or(name).unwrap_or(word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_set_mean_the_same() {
        let set = Sql::Set("timezone".into(), "CET".into());
        let parsed = parse(b"set TimeZone CET;SET \"timezone\" TO E'CET';");
        assert_eq!(parsed, Ok(vec![set.clone(), set]));
    }

    #[test]
    fn one_syntax_error_spoils_the_text() {
        assert_eq!(
            parse(b"row a; error parse"),
            Err("syntax error at or near \"error parse\"".into())
        );
    }
}
