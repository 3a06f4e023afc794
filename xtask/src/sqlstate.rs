//! Writes the rows of `crates/wire/src/sqlstate/codes.rs` from PostgreSQL's `errcodes.txt`. The head of
//! that file, up to the rows, is written by hand and kept.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};

use crate::workspace::root;

const TABLE: &str = "crates/wire/src/sqlstate/codes.rs";
const ROWS_BEGIN: &str = "\ncodes! {\n";

/// Replaces the rows of the table.
///
/// # Errors
/// If a file cannot be read or written, or the source does not look like `errcodes.txt`.
pub(crate) fn write(errcodes: &Path) -> Result<()> {
    let source = fs::read_to_string(errcodes)
        .with_context(|| format!("cannot read {}", errcodes.display()))?;
    let table = root().join(TABLE);
    let old = fs::read_to_string(&table).with_context(|| format!("cannot read {TABLE}"))?;
    let (head, _) = old
        .split_once(ROWS_BEGIN)
        .ok_or_else(|| anyhow!("{TABLE} has no `codes! {{` line"))?;
    fs::write(&table, format!("{head}{ROWS_BEGIN}{}}}\n", rows(&source)?))?;
    println!("wrote {TABLE}");
    Ok(())
}

/// Converts `Section:` lines to comments, and `sqlstate E/W/S errcode_macro spec_name` lines to rows.
fn rows(source: &str) -> Result<String> {
    let mut text = String::new();
    for line in source.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(section) = line.strip_prefix("Section:") {
            text.push_str(&format!("    // {}\n", section.trim()));
            continue;
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [code, _, constant, name @ ..] = fields.as_slice() else {
            bail!("not a line of errcodes.txt: {line}");
        };
        let constant = constant
            .strip_prefix("ERRCODE_")
            .ok_or_else(|| anyhow!("not a macro of errcodes.txt: {constant}"))?;
        let name = name
            .first()
            .map(|name| format!(" \"{name}\""))
            .unwrap_or_default();
        text.push_str(&format!("    {constant} = \"{code}\"{name};\n"));
    }
    if text.is_empty() {
        bail!("no codes found");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_rows_with_and_without_a_name() {
        let source = "# comment\n\nSection: Class 01 - Warning\n\n\
                      01000    W    ERRCODE_WARNING    warning\n\
                      01003    W    ERRCODE_ODD\n";
        let expected = "    // Class 01 - Warning\n    WARNING = \"01000\" \"warning\";\n    \
                        ODD = \"01003\";\n";
        assert_eq!(rows(source).unwrap(), expected);
    }

    #[test]
    fn something_else_is_refused() {
        assert!(rows("hello\n").is_err());
        assert!(rows("").is_err());
    }
}
