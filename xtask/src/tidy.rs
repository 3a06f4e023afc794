//! Checks of this repository beyond those of the compiler and clippy. They also run as a test, so
//! that plain `cargo test` includes them. Every finding says what to do instead.

mod arrows;
mod defaults;
mod text;
mod words;

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use weir_lab::process::run_to_end;

use crate::docs;
use crate::tidy::defaults::Defaults;
use crate::workspace::root;

/// A finding.
#[derive(Debug, PartialEq)]
struct Finding {
    /// Path from the root of the repository.
    file: String,
    /// Line number, from 1.
    line: usize,
    what: String,
    instead: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            what,
            instead,
        } = self;
        write!(formatter, "{file}:{line}: {what}; {instead}")
    }
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>, instead: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            what: what.into(),
            instead: instead.into(),
        }
    }
}

/// A text file of the repository.
struct Source {
    path: String,
    text: String,
}

/// Files that readers expect in a repository.
const EXPECTED: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
];

/// Runs all checks.
///
/// # Errors
/// All findings, one per line.
pub(crate) fn run() -> Result<()> {
    let findings = findings()?;
    if findings.is_empty() {
        println!("tidy: nothing to mend");
        return Ok(());
    }
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    bail!("{} things to mend:\n{}", lines.len(), lines.join("\n"));
}

fn findings() -> Result<Vec<Finding>> {
    let defaults = Defaults::new(&weir_config::reference_markdown());
    let mut findings: Vec<Finding> = sources()?
        .iter()
        .flat_map(|source| {
            let words = words::check(&source.path, &source.text);
            let defaults = defaults.check(&source.path, &source.text);
            let text = text::check(&source.path, &source.text).into_iter();
            text.chain(words).chain(defaults)
        })
        .collect();
    findings.extend(
        EXPECTED
            .iter()
            .filter(|file| !root().join(file).is_file())
            .map(|file| Finding::new(file, 1, "is missing", "write it")),
    );
    findings.extend(
        docs::stale()?
            .iter()
            .map(|page| Finding::new(page, 1, "is stale", "run cargo xtask docs")),
    );
    findings.extend(arrows::check()?);
    Ok(findings)
}

/// Returns tracked files and new ones that are not ignored. Files that are not UTF-8 are skipped.
fn sources() -> Result<Vec<Source>> {
    let mut command = Command::new("git");
    command.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let list = run_to_end(command.current_dir(root())).context("tidy asks git for the files")?;
    let mut paths: Vec<&str> = list.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    Ok(paths
        .into_iter()
        .filter_map(|path| {
            let full: PathBuf = root().join(path);
            let text = String::from_utf8(fs::read(full).ok()?).ok()?;
            Some(Source {
                path: path.to_owned(),
                text,
            })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        if let Err(error) = super::run() {
            panic!("{error:#}");
        }
    }
}
