//! `docs/benchmarks`: kept results with their reports, and a page that quotes them. Reports are made from the raw
//! data, and so is every figure on the page, which stands between two marks:
//!
//! ```text
//! <!-- from 2026-11-quick: ## p1: | **Pooler CPU -->
//! | clients | 50 | 500 |      what follows the line that begins so, in the section that begins so, of report.md:
//! ...                         the list that the line begins, or else the next table before another heading, or else all.
//!                             Of a list, words behind the dash choose the items that begin with them
//! <!-- end -->
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use weir_lab::report::{Rendered, Results};
use weir_lab::tune::{self, Finding};

use super::Page;
use crate::workspace;

const DIRECTORY: &str = "docs/benchmarks";
/// Pages with figures of the reports.
const QUOTING: [&str; 2] = ["docs/benchmarks/README.md", "README.md"];
/// File that distinguishes the result of a bench from that of a tuning.
const BENCH: &str = "run.json";
const TUNE: &str = "finding.json";
const BEGIN: &str = "<!-- from ";
const END: &str = "<!-- end -->";

/// Reports of all kept results, and the page with their figures.
pub(super) fn pages() -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    let mut reports = BTreeMap::new();
    for directory in results()? {
        let (html, markdown) = report(&directory)?;
        let name = directory.file_name().context("a directory has a name")?;
        let name = name.to_string_lossy().into_owned();
        let page = |file: &str, text: &str| Page {
            path: format!("{DIRECTORY}/{name}/{file}"),
            text: text.to_owned(),
        };
        pages.push(page("report.html", &html));
        pages.push(page("report.md", &markdown));
        reports.insert(name, markdown);
    }
    for path in QUOTING {
        if let Ok(text) = fs::read_to_string(workspace::root().join(path)) {
            let text = fill(&text, &reports).with_context(|| path.to_owned())?;
            let path = path.to_owned();
            pages.push(Page { path, text });
        }
    }
    Ok(pages)
}

/// HTML page and Markdown of one result, of `weir bench` or of `weir tune`.
fn report(directory: &Path) -> Result<(String, String)> {
    if directory.join(BENCH).is_file() {
        let rendered = Rendered::new(&Results::read(directory)?);
        return Ok((rendered.html, rendered.markdown));
    }
    let finding =
        Finding::read(directory).map_err(|error| anyhow!("{}: {error}", directory.display()))?;
    Ok(tune::rendered(&finding))
}

/// Directories with the data of a run.
fn results() -> Result<Vec<PathBuf>> {
    let root = workspace::root().join(DIRECTORY);
    if !root.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(&root).with_context(|| root.display().to_string())?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.join(BENCH).is_file() || path.join(TUNE).is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the page with up-to-date figures.
fn fill(page: &str, reports: &BTreeMap<String, String>) -> Result<String> {
    let mut filled = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        filled.push_str(line);
        filled.push('\n');
        let Some(mark) = line.strip_prefix(BEGIN) else {
            continue;
        };
        let mark = mark.trim_end_matches("-->").trim();
        let (name, places) = mark.split_once(':').context("a mark names no result")?;
        let report = reports
            .get(name)
            .with_context(|| format!("no result {name} in {DIRECTORY}"))?;
        let part = part(report, places).with_context(|| format!("{name} has no {places}"))?;
        filled.push_str(&part);
        lines
            .by_ref()
            .find(|line| *line == END)
            .with_context(|| format!("no {END} behind {places}"))?;
        filled.push_str(END);
        filled.push('\n');
    }
    Ok(filled)
}

/// Finds the part of a report behind these line beginnings, which are looked for in sequence.
fn part(report: &str, places: &str) -> Option<String> {
    let lines: Vec<&str> = report.lines().collect();
    let mut at = 0;
    let mut last = "";
    for place in places.split(" | ").map(str::trim) {
        let rest = lines.get(at..)?;
        at += rest.iter().position(|line| line.starts_with(place))?;
        last = place;
    }
    let (first, rest) = lines.get(at..)?.split_first()?;
    let behind = rest.iter().take_while(|line| !line.starts_with('#'));
    let here: Vec<&str> = std::iter::once(first).chain(behind).copied().collect();
    let part: Vec<&str> = if last.starts_with('-') {
        let item = if last == "-" { "- " } else { last };
        here.iter()
            .take_while(|line| line.starts_with(item))
            .copied()
            .collect()
    } else {
        let of_table = |line: &&&str| line.starts_with('|');
        let table = here.iter().skip_while(|line| !of_table(line));
        table.take_while(of_table).copied().collect()
    };
    let part = match part.is_empty() {
        true => here.get(1..)?.join("\n").trim().to_owned(),
        false => part.join("\n"),
    };
    (!part.is_empty()).then(|| format!("\n{part}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "# All\n\n## p1: One\n\n- first\n- second\n\n**CPU, ratio**\n\n| a | b |\n| --- | --- |\n\n\
                          ## p2: Two\n\n**CPU, ratio**\n\n| c | d |\n";

    #[test]
    fn a_table_or_a_list_is_found_by_how_its_lines_begin() {
        let table = part(REPORT, "## p1: | **CPU").unwrap();
        assert_eq!(table, "\n| a | b |\n| --- | --- |\n\n");
        assert_eq!(part(REPORT, "## p2: | **CPU").unwrap(), "\n| c | d |\n\n");
        assert_eq!(
            part(REPORT, "## p1: | - ").unwrap(),
            "\n- first\n- second\n\n"
        );
        assert_eq!(part(REPORT, "## p1: | - second").unwrap(), "\n- second\n\n");
        assert_eq!(part(REPORT, "## p1: | - fi").unwrap(), "\n- first\n\n");
        assert_eq!(part(REPORT, "## p3: | **CPU"), None);
        let losses = "## Where\n\nNowhere.\n\n## p1:\n\n| a |\n";
        assert_eq!(part(losses, "## Where").unwrap(), "\nNowhere.\n\n");
    }

    #[test]
    fn what_stands_between_the_marks_is_replaced_and_nothing_else() {
        let reports = BTreeMap::from([("x".to_owned(), REPORT.to_owned())]);
        let page = "before\n<!-- from x: ## p2: | **CPU -->\nold\n<!-- end -->\nbehind\n";
        let filled = fill(page, &reports).unwrap();
        let expected =
            "before\n<!-- from x: ## p2: | **CPU -->\n\n| c | d |\n\n<!-- end -->\nbehind\n";
        assert_eq!(filled, expected);
        assert_eq!(fill(&filled, &reports).unwrap(), expected);
        assert!(fill("<!-- from y: ## p2: -->\n<!-- end -->\n", &reports).is_err());
        assert!(fill("<!-- from x: ## p2: | **CPU -->\n", &reports).is_err());
    }
}
