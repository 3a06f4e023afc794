//! Lists of the statements that users may run: the files in `statement_list_dir`, and how they are written.

use std::fmt::Write;

use weir_rules::{Form, StatementEntry};

use crate::directory;
use crate::files::Files;
use crate::native;
use crate::raw::Raw;

/// Name of the option.
pub(crate) const OPTION: &str = "statement_list_dir";

/// Reads all files of the directory, in the order of their names.
pub(crate) fn read(raw: &mut Raw, files: &mut dyn Files) {
    let advice = "it needs one for each user";
    directory::read(raw, files, (OPTION, advice), native::read_statements);
}

/// Returns a file of `statement_list_dir` with these statements of a user, sorted by their texts, so that versions of it can be
/// compared line by line.
///
/// ```
/// use weir_rules::StatementEntry;
///
/// let (_, entry) = StatementEntry::of(b"SELECT a FROM t WHERE b = 7");
/// let text = weir_config::statement_list_text("app", vec![entry]);
/// assert!(text.ends_with("\n[[statements]]\ntext = \"SELECT a FROM t WHERE b = ?\"\n"));
/// ```
#[must_use]
pub fn statement_list_text(user: &str, mut entries: Vec<StatementEntry>) -> String {
    let key = |entry: &StatementEntry| match entry.form {
        Form::Hash(known) => known.to_string(),
        Form::Text | Form::Whole => String::new(),
    };
    entries.sort_by_cached_key(|entry| (entry.text.to_string(), key(entry)));
    entries.dedup();
    let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let mut out = format!(
        "# Statements that this user may run (statement_policy), as `weir statements export` writes them.\nuser = {}\n",
        text(user)
    );
    for entry in &entries {
        let key = match entry.form {
            Form::Whole => "whole",
            Form::Hash(_) | Form::Text => "text",
        };
        // Writing to a String cannot fail.
        let _ = write!(out, "\n[[statements]]\n{key} = {}\n", text(&entry.text));
        if let Form::Hash(known) = entry.form {
            let _ = writeln!(out, "sha256 = \"{known}\"");
        }
        if let Some(fingerprint) = entry.fingerprint {
            let _ = writeln!(out, "fingerprint = \"{fingerprint}\"");
        }
    }
    out
}

#[cfg(test)]
mod tests;
