//! `EXPLAIN ROUTE [FOR database[/user]] STATEMENT`: its grammar, and the rows of its answer.

use weir_proxy::console::{RouteAnswer, RouteQuestion};

use crate::show::{Heading, Row, text};
use crate::statement::Refused;

/// Columns of the answer.
pub(crate) static HEADINGS: &[Heading] = &[text("item"), text("value")];

/// Error for a question without a statement.
const USAGE: &str = "a statement is required: EXPLAIN ROUTE [FOR database[/user]] STATEMENT";

/// Returns the part of a query behind EXPLAIN ROUTE, or none if it is another command.
pub(crate) fn behind_words(sql: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(sql).ok()?;
    word(word(text, "EXPLAIN")?, "ROUTE")
}

/// Reads the arguments.
pub(crate) fn read(arguments: &str) -> Result<RouteQuestion, Refused> {
    let (database, user, statement) = match word(arguments, "FOR") {
        Some(rest) => {
            let (database, rest) = name(rest).ok_or_else(|| Refused::new(USAGE))?;
            match rest.strip_prefix('/') {
                Some(rest) => {
                    let (user, rest) = name(rest).ok_or_else(|| Refused::new(USAGE))?;
                    (Some(database), Some(user), rest)
                }
                None => (Some(database), None, rest),
            }
        }
        None => (None, None, arguments),
    };
    // Clients send texts without the last semicolon, as psql does.
    let statement = statement.trim().trim_end_matches(';').trim_end();
    if statement.is_empty() {
        return Err(Refused::new(USAGE));
    }
    Ok(RouteQuestion {
        database,
        user,
        text: statement.into(),
    })
}

/// Returns the text behind a keyword that it begins with, after blanks and comments.
pub(crate) fn word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let text = without_blanks(text);
    let (first, rest) = text.split_at_checked(word.len())?;
    let ends = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$'));
    (first.eq_ignore_ascii_case(word) && rest.chars().next().is_none_or(ends)).then_some(rest)
}

/// Reads a name: a word, or anything in double quotes.
pub(crate) fn name(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    if let Some(quoted) = text.strip_prefix('"') {
        let mut name = String::new();
        let mut rest = quoted;
        loop {
            let (part, after) = rest.split_once('"')?;
            name.push_str(part);
            match after.strip_prefix('"') {
                Some(after) => {
                    name.push('"');
                    rest = after;
                }
                None => return (!name.is_empty()).then_some((name, after)),
            }
        }
    }
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | ';'));
    let (name, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
    (!name.is_empty()).then(|| (name.to_owned(), rest))
}

fn without_blanks(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        let behind = match (text.strip_prefix("--"), text.strip_prefix("/*")) {
            (Some(comment), _) => comment.split_once('\n'),
            (_, Some(comment)) => comment.split_once("*/"),
            (None, None) => return text,
        };
        text = behind.map_or("", |(_, behind)| behind);
    }
}

/// Returns the rows of an answer.
pub(crate) fn rows(answer: RouteAnswer) -> Vec<Row> {
    let row = |item: &str, value: String| vec![Some(item.to_owned()), Some(value)];
    let mut rows = vec![row("verdict", answer.verdict.to_owned())];
    rows.extend(answer.host.map(|host| row("runs_on", host)));
    rows.push(row("reason", answer.reason));
    rows.push(row("rules", answer.rules));
    rows.extend(answer.hosts.into_iter().map(|host| row("host", host)));
    rows.extend(answer.notes.into_iter().map(|note| row("note", note)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(sql: &str) -> (Option<String>, Option<String>, String) {
        let arguments = behind_words(sql.as_bytes()).unwrap();
        let question = read(arguments).unwrap();
        let text = String::from_utf8(question.text).unwrap();
        (question.database, question.user, text)
    }

    #[test]
    fn a_question_names_database_and_user() {
        let some = |name: &str| Some(name.to_owned());
        for (sql, database, user) in [
            ("explain route select 1;", None, None),
            (
                "EXPLAIN /* a */ ROUTE FOR shop select 1",
                some("shop"),
                None,
            ),
            (
                "-- x\nExplain Route for shop/ann\nselect 1 ; ",
                some("shop"),
                some("ann"),
            ),
            (
                r#"EXPLAIN ROUTE FOR "my ""shop"/"ann b" select 1"#,
                some("my \"shop"),
                some("ann b"),
            ),
        ] {
            assert_eq!(question(sql), (database, user, "select 1".to_owned()));
        }
        assert_eq!(question("explain route forget").2, "forget");
    }

    #[test]
    fn a_question_without_a_statement_is_refused() {
        for arguments in ["", " ; ", " FOR", " FOR shop", " FOR shop/", " FOR \"shop"] {
            assert!(read(arguments).is_err(), "{arguments}");
        }
    }

    #[test]
    fn other_commands_are_no_questions() {
        for sql in ["EXPLAIN SELECT 1", "EXPLAINROUTE x", "EXPLAIN ROUTES", ""] {
            assert!(behind_words(sql.as_bytes()).is_none(), "{sql}");
        }
    }
}
