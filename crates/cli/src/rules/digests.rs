//! Reader of the digests that `weir digests --format json` prints.

use std::io::BufRead;

use serde_json::{Map, Value};
use weir_sql::Facts;

use super::input::InputError;
use super::tally::{Client, Digest, Seen};

/// Ends a statement that is longer than what is shown of it.
const CUT: &str = "...";

/// Stands in place of the statement in the row of all others.
const OTHERS: &str = "(others)";

/// Calls `visit` with the statement of each row.
///
/// # Errors
/// The input cannot be read, or is no list of digests.
pub(super) fn read(
    input: &mut dyn BufRead,
    visit: &mut dyn FnMut(Seen<'_>),
) -> Result<(), InputError> {
    let rows: Vec<Map<String, Value>> = serde_json::from_reader(input).map_err(|error| {
        if error.is_io() {
            return InputError::Io(error.into());
        }
        InputError::at(
            error.line(),
            "not the output of `weir digests --format json`",
        )
    })?;
    for (number, row) in (1..).zip(&rows) {
        let Some(statement) = text(row, "statement") else {
            let mistake = format!(": row {number} has no statement");
            return Err(InputError::Content(mistake));
        };
        let figure = |name: &str| row.get(name).and_then(Value::as_u64);
        // Rules meet statements whether or not they fail on the server.
        let calls = figure("calls").unwrap_or_default();
        let calls = calls.saturating_add(figure("errors").unwrap_or_default());
        let digest = digest(statement, text(row, "fingerprint").is_some());
        visit(Seen {
            text: statement.as_bytes(),
            is_whole: true,
            digest: Some(&digest),
            client: Client {
                database: text(row, "database"),
                user: text(row, "user"),
                application: None,
            },
            calls,
            server_us: figure("server_us"),
        });
    }
    Ok(())
}

fn text<'r>(row: &'r Map<String, Value>, name: &str) -> Option<&'r str> {
    row.get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// Facts of a statement, as far as its text tells them.
fn digest(statement: &str, has_fingerprint: bool) -> Digest {
    // A statement that was not parsed when it was shown has `?` for literals.
    let facts = Facts::of(statement).or_else(|| Facts::of(&statement.replace('?', "$1")));
    let is_cut = statement.ends_with(CUT) || statement == OTHERS;
    match facts {
        None if is_cut || has_fingerprint => Digest::Unknown,
        facts => Digest::Facts(facts.map(Box::new)),
    }
}

#[cfg(test)]
mod tests {
    use weir_sql::StatementKind;

    use super::*;

    fn rows(text: &str) -> Result<Vec<String>, String> {
        let mut rows = Vec::new();
        let read = read(&mut text.as_bytes(), &mut |seen| {
            let names = [seen.client.database, seen.client.user];
            let names = names.map(Option::unwrap_or_default).join("/");
            let facts = match seen.digest.unwrap() {
                Digest::Facts(facts) => format!("{:?}", facts.as_ref().map(|facts| facts.kind)),
                Digest::Unknown => "unknown".to_owned(),
            };
            rows.push(format!(
                "{names} {} {:?} {facts}",
                seen.calls, seen.server_us
            ));
        });
        match read {
            Ok(()) => Ok(rows),
            Err(InputError::Content(mistake)) => Err(mistake),
            Err(InputError::Io(error)) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_row_has_its_client_calls_and_time() {
        let text = r#"[
            {"database": "shop", "user": "ann", "fingerprint": "0123456789012345", "calls": 5, "errors": 2, "server_us": 90,
             "statement": "SELECT a FROM t WHERE b = $1"},
            {"database": "shop", "user": null, "fingerprint": null, "calls": 1, "errors": 0, "statement": "no SQL"},
            {"database": null, "user": null, "fingerprint": null, "calls": 7, "errors": 0, "server_us": 1, "statement": "(others)"}
        ]"#;
        let found = rows(text).unwrap();
        assert_eq!(
            found,
            [
                "shop/ann 7 Some(90) Some(Select)",
                "shop/ 1 None None",
                "/ 7 Some(1) unknown"
            ]
        );
    }

    #[test]
    fn what_a_shown_text_does_not_tell_stays_unknown() {
        let kind = |statement: &str, has_fingerprint| match digest(statement, has_fingerprint) {
            Digest::Facts(facts) => Some(facts.map(|facts| facts.kind)),
            Digest::Unknown => None,
        };
        assert_eq!(
            kind("SELECT a FROM t WHERE b = ?", false),
            Some(Some(StatementKind::Select))
        );
        assert_eq!(kind("SELECT a, b, c...", false), None);
        assert_eq!(kind("SELECT data ? ?", true), None);
        assert_eq!(kind("no SQL", false), Some(None));
    }

    #[test]
    fn another_file_is_told_with_its_line() {
        let told = rows("[\n{\"database\": \"shop\"},\n 7]").unwrap_err();
        assert_eq!(told, ":3: not the output of `weir digests --format json`");
        let told = rows("[{\"statement\": \"SELECT 1\"}, {\"database\": \"shop\"}]").unwrap_err();
        assert_eq!(told, ": row 2 has no statement");
    }
}
