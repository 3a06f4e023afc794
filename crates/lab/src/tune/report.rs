//! Report of a finding: `finding.json`, a self-contained page, Markdown, and text.

mod drawing;
mod figures;
mod sections;

use std::fs;
use std::path::{Path, PathBuf};

use super::finding::{FILE, Finding};
use crate::collector;
use crate::error::{Error, Result};
use crate::report::document::{Block, Document};
use crate::report::{format, html, markdown, text};

/// Result of [`write()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Path of the HTML page.
    pub html: PathBuf,
    /// Path of the Markdown page.
    pub markdown: PathBuf,
    /// Path of `finding.json`.
    pub json: PathBuf,
    /// Text of `finding.json`.
    pub finding: String,
    /// The report for a terminal.
    pub text: String,
    /// Beginning of the report: the answers and the figures.
    pub answer: String,
}

/// Reads a result directory, and writes `finding.json`, `report.html` and `report.md` into it. Older ones are replaced.
///
/// # Errors
/// There is no result, or a file cannot be written.
pub fn write(directory: &Path) -> Result<Files> {
    let finding = Finding::read(directory)?;
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(Error::file("write", &path))?;
        Ok::<_, Error>(path)
    };
    let kept = directory.join(FILE);
    // Without samples, the file cannot be made again and stays as it is.
    let json = if collector::file(directory).is_file() {
        let text = json(&finding)?;
        put(FILE, &text)?;
        text
    } else {
        fs::read_to_string(&kept).map_err(Error::file("read", &kept))?
    };
    let whole = document(&finding);
    Ok(Files {
        html: put("report.html", &html::render(&whole))?,
        markdown: put("report.md", &markdown::render(&whole))?,
        json: kept,
        finding: json,
        text: text::render(&whole, text::Colour::Never),
        answer: text::render(&short(&finding), text::Colour::Never),
    })
}

/// Renders the page and the Markdown of a finding. The same finding gives the same bytes.
#[must_use]
pub fn rendered(finding: &Finding) -> (String, String) {
    let whole = document(finding);
    (html::render(&whole), markdown::render(&whole))
}

fn json(finding: &Finding) -> Result<String> {
    let text = serde_json::to_string_pretty(finding).map_err(|error| Error::Unexpected {
        what: "the finding".to_owned(),
        text: error.to_string(),
    })?;
    Ok(text + "\n")
}

/// Returns the report in reading order: the answer, the curves, the figures, the doubts, and how to repeat the run.
fn document(finding: &Finding) -> Document {
    let mut blocks = sections::answers(finding);
    blocks.extend(drawing::blocks(finding));
    for series in &finding.series {
        blocks.extend(figures::blocks(finding, series));
    }
    blocks.extend(sections::round_trips(finding));
    blocks.extend(sections::published(finding));
    blocks.extend(sections::doubts(finding));
    blocks.extend(sections::appendix(finding));
    headed(finding, blocks)
}

fn short(finding: &Finding) -> Document {
    let mut blocks = sections::answers(finding);
    blocks.extend(
        finding
            .series
            .iter()
            .map(|series| Block::Table(figures::figures(finding, series))),
    );
    headed(finding, blocks)
}

fn headed(finding: &Finding, blocks: Vec<Block>) -> Document {
    let title = match finding.kind.as_str() {
        "watch" => format!("weir tune watch: {}", finding.server),
        _ => format!("weir tune: {}", finding.settings.name),
    };
    let seconds = u64::try_from(finding.started_ms / 1000).unwrap_or_default();
    let subtitle = format!(
        "{}, PostgreSQL {}, {} of {} cells with figures",
        format::moment(seconds),
        finding.server_version,
        finding.measured,
        finding.settings.planned
    );
    Document {
        title,
        subtitle,
        judges: false,
        blocks,
    }
}

#[cfg(test)]
mod tests;
