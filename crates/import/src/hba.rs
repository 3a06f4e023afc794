//! Lines of the HBA file. A line that Weir cannot keep must never let in more clients than before: it becomes one that
//! refuses those that it meets.

use weir_access::Hba;

use crate::draft::{Draft, Table, Term};
use crate::finding::Outcome;

/// Words that are no names.
const KEYWORDS: [&str; 5] = ["all", "sameuser", "samerole", "samegroup", "replication"];

/// Adds a line if Weir's own parser accepts it; else one that refuses the same clients.
pub(crate) fn copy(line: &str, draft: &mut Draft) -> Outcome {
    match problem(line) {
        None => {
            draft.hba(line.to_owned());
            Outcome::Mapped("auth_hba_file".to_owned())
        }
        Some(why) => {
            refuse(line, draft);
            Outcome::NotMapped(format!(
                "Weir refuses the line, so it refuses its clients: {why}"
            ))
        }
    }
}

/// Adds a line that refuses the clients that a line meets; where that is not clear, all clients.
pub(crate) fn refuse(line: &str, draft: &mut Draft) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let front = if words.first() == Some(&"local") {
        3..=3
    } else {
        4..=5
    };
    // The longest front first: an address may be followed by its mask.
    let tries = front.rev().filter_map(|len| words.get(..len));
    let lines = tries.map(|words| format!("{} reject", words.join(" ")));
    match lines.into_iter().find(|line| problem(line).is_none()) {
        Some(line) => draft.hba(line),
        None => everybody(draft),
    }
}

fn everybody(draft: &mut Draft) {
    draft.hba("local all all reject".to_owned());
    draft.hba("host all all all reject".to_owned());
}

/// Adds lines for the clients of a database and user, by socket and by TCP.
pub(crate) fn pair(database: &str, user: &str, method: &str, draft: &mut Draft) {
    add(format!("local {database} {user} {method}"), draft);
    add(format!("host {database} {user} all {method}"), draft);
}

/// Adds a line unless Weir refuses it, as with an empty name, which nobody has.
pub(crate) fn add(line: String, draft: &mut Draft) {
    if problem(&line).is_none() {
        draft.hba(line);
    }
}

/// Switches to the HBA file.
pub(crate) fn begin(draft: &mut Draft) {
    draft.set(Table::Global, "auth_type", Term::text("hba"));
}

/// Names of the console, as a column of a line.
pub(crate) const CONSOLE: &str = "pgbouncer,weir";

/// Formats a name as a column of a line.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    match !name.is_empty() && name.chars().all(is_plain) && !KEYWORDS.contains(&name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Returns the reason for which Weir refuses a line.
fn problem(line: &str) -> Option<String> {
    // A file with a mistake is refused as a whole, so each line is tried alone.
    if line.contains(['\n', '\r']) || line.trim_end().ends_with('\\') {
        return Some("a line ends with its statement".to_owned());
    }
    let problems = Hba::parse("line", line).err()?;
    let first = problems.iter().next();
    Some(first.map_or_else(String::new, |problem| problem.mistake.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(line: &str) -> String {
        let mut draft = Draft::default();
        let _outcome = copy(line, &mut draft);
        draft.hba_file()
    }

    #[test]
    fn lines_that_weir_refuses_let_in_nobody() {
        assert_eq!(lines("host all all all md5"), "host all all all md5\n");
        assert_eq!(
            lines("host shop all 10.0.0.0/8 gss"),
            "host shop all 10.0.0.0/8 reject\n"
        );
        assert_eq!(
            lines("host shop all 10.0.0.0 255.0.0.0 radius x=y"),
            "host shop all 10.0.0.0 255.0.0.0 reject\n"
        );
        assert_eq!(lines("local all app ident"), "local all app reject\n");
        let all = "local all all reject\nhost all all all reject\n";
        assert_eq!(lines("hots all all all md5"), all);
        assert_eq!(lines("host \"all"), all);
    }
}
