//! Report of a result directory: one self-contained HTML page, and the same content in Markdown and as text for a
//! terminal.
//!
//! [`write()`] reads the records of [`crate::record`] and puts `report.html` and `report.md` beside them. An
//! interrupted run gives a report too, which lists what is missing. Every number, in sentences too, comes from the
//! data. A flagged cell is hatched and never left out.

mod answers;
mod appendix;
pub(crate) mod chart;
pub(crate) mod document;
mod experiment;
mod failures;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod format;
pub(crate) mod html;
pub(crate) mod judge;
mod losses;
pub(crate) mod markdown;
pub(crate) mod metric;
pub(crate) mod prose;
mod published;
mod reading;
mod results;
pub(crate) mod text;
mod threats;
mod verdict;
pub(crate) mod view;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use self::results::Results;

use self::document::{Block, Document};
use self::view::View;

/// Reason why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory has no `run.json`.
    #[error("{} is no result directory: it has no run.json; name one that `weir bench run` wrote", .0.display())]
    NoResults(PathBuf),
    /// `run.json` does not describe a run.
    #[error("{} does not describe a run", .0.display())]
    NotARun(PathBuf, #[source] serde_json::Error),
    /// A later version of this program wrote it.
    #[error("{} has format {format}, and this program reads up to {}; use a later one", .path.display(), crate::record::FORMAT)]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        format: u32,
    },
    /// A file cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A file cannot be written.
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
}

/// Result of [`write()`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Path of the HTML page.
    pub html: PathBuf,
    /// Path of the Markdown page.
    pub markdown: PathBuf,
    /// Text for a terminal, with one line feed at its end.
    pub text: String,
    /// First sections of the text, for the end of a run: which pooler to take, the results, and where the project's own
    /// program is behind.
    pub verdict: String,
    /// Number of cells with figures.
    pub measured: usize,
    /// Number of cells that could not be run.
    pub failed: usize,
    /// Number of planned cells that are absent.
    pub missing: usize,
    /// Number of flagged cells.
    pub flagged: usize,
    /// Number of comparisons in which the project's own program is worse, beyond the noise.
    pub losses: usize,
}

/// Reads the result directory, and writes `report.html` and `report.md` into it. Existing ones are replaced.
///
/// # Errors
///
/// The directory cannot be read (see [`Results::read`]), or a report cannot be written.
pub fn write(directory: &Path) -> Result<Summary, Error> {
    let results = Results::read(directory)?;
    let rendered = Rendered::new(&results);
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        match fs::write(&path, text) {
            Ok(()) => Ok(path),
            Err(source) => Err(Error::Write(path, source)),
        }
    };
    let view = View::new(&results);
    Ok(Summary {
        html: put("report.html", &rendered.html)?,
        markdown: put("report.md", &rendered.markdown)?,
        verdict: text::render(&short(&view), text::Colour::Never),
        text: rendered.text,
        measured: results
            .cells
            .iter()
            .filter(|cell| cell.outcome.is_some())
            .count(),
        failed: results
            .cells
            .iter()
            .filter(|cell| cell.outcome.is_none())
            .count(),
        missing: view
            .experiments
            .iter()
            .map(|experiment| experiment.missing.len())
            .sum(),
        flagged: results
            .cells
            .iter()
            .filter(|cell| !cell.flags.is_empty())
            .count(),
        losses: losses::count(&view),
    })
}

/// A report in its three forms.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rendered {
    /// Self-contained HTML page.
    pub html: String,
    /// Markdown with tables.
    pub markdown: String,
    /// Aligned plain text without colour.
    pub text: String,
}

impl Rendered {
    /// Renders the report of `results`. Pure: the same results give the same bytes.
    #[must_use]
    pub fn new(results: &Results) -> Self {
        let document = document(&View::new(results));
        Self {
            html: html::render(&document),
            markdown: markdown::render(&document),
            text: text::render(&document, text::Colour::Never),
        }
    }
}

/// Renders the text for a terminal with colours.
#[must_use]
pub fn coloured(results: &Results) -> String {
    text::render(&document(&View::new(results)), text::Colour::Always)
}

/// Returns the whole report in reading order: which pooler, the verdict, where Weir loses, the figures, the doubts, and
/// how to repeat the run.
fn document(view: &View<'_>) -> Document {
    let mut document = short(view);
    document.blocks.extend(reading::blocks());
    for experiment in &view.experiments {
        document.blocks.extend(experiment::blocks(view, experiment));
    }
    document.blocks.push(Block::section("Threats to validity"));
    document.blocks.push(Block::List(threats::sentences(view)));
    document.blocks.extend(failures::blocks(view));
    document.blocks.extend(appendix::blocks(view));
    document
}

/// Returns the beginning of the report.
fn short(view: &View<'_>) -> Document {
    let mut blocks = answers::blocks(view);
    blocks.extend(verdict::blocks(view));
    blocks.extend(losses::blocks(view));
    Document {
        title: format!("weir bench: {}", view.results.run.profile),
        subtitle: verdict::subtitle(view),
        judges: true,
        blocks,
    }
}

#[cfg(test)]
mod tests;
