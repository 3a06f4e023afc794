//! The report of a result directory: one self-contained page, the same in Markdown, and as text for a terminal.
//!
//! [`write()`] reads what [`crate::record`] describes and puts `report.html` and `report.md` beside it. A run that was
//! interrupted gives a report too, which says what is missing. Every number in it, in its sentences too, comes from the
//! data; a cell that something speaks against is hatched and never left out.

mod appendix;
pub(crate) mod chart;
pub(crate) mod document;
mod experiment;
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

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory has no `run.json`.
    #[error("{} is no result directory: it has no run.json; name one that `weir bench run` wrote", .0.display())]
    NoResults(PathBuf),
    /// `run.json` is something else.
    #[error("{} does not describe a run", .0.display())]
    NotARun(PathBuf, #[source] serde_json::Error),
    /// A later version of this program wrote it.
    #[error("{} has format {format}, and this program reads up to {}; use a later one", .path.display(), crate::record::FORMAT)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        format: u32,
    },
    /// A file cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A file cannot be written.
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
}

/// What [`write()`] made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The page.
    pub html: PathBuf,
    /// The same in Markdown.
    pub markdown: PathBuf,
    /// The same for a terminal, 1 line feed at its end.
    pub text: String,
    /// Its first two sections, for the end of a run: what came out, and where the project's own program is behind.
    pub verdict: String,
    /// Cells with figures.
    pub measured: usize,
    /// Cells that could not be run.
    pub failed: usize,
    /// Cells that were planned and are not there.
    pub missing: usize,
    /// Cells that something speaks against.
    pub flagged: usize,
    /// Comparisons in which the project's own program is worse, beyond the noise.
    pub losses: usize,
}

/// Reads the result directory, and writes `report.html` and `report.md` into it. Older ones are replaced.
///
/// # Errors
///
/// If the directory cannot be read as [`Results::read`] does, or a report cannot be written.
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
    /// A whole page that needs nothing from elsewhere.
    pub html: String,
    /// Markdown with tables.
    pub markdown: String,
    /// Aligned plain text without colour.
    pub text: String,
}

impl Rendered {
    /// Makes the report of `results`. Pure: the same results give the same bytes.
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

/// The terminal form with colours.
#[must_use]
pub fn coloured(results: &Results) -> String {
    text::render(&document(&View::new(results)), text::Colour::Always)
}

/// The whole report in the order in which it is to be read: the verdict, where we lose, the figures, the doubts, and
/// what is needed to do it again.
fn document(view: &View<'_>) -> Document {
    let mut document = short(view);
    document.blocks.extend(reading::blocks());
    for experiment in &view.experiments {
        document.blocks.extend(experiment::blocks(view, experiment));
    }
    document.blocks.push(Block::section("Threats to validity"));
    document.blocks.push(Block::List(threats::sentences(view)));
    document.blocks.extend(appendix::blocks(view));
    document
}

/// Its beginning.
fn short(view: &View<'_>) -> Document {
    let mut blocks = verdict::blocks(view);
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
