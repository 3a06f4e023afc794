//! A report before it has a form: the blocks that HTML, Markdown and terminal text are made from.

use super::chart::Chart;
use super::prose::Prose;

/// The whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Document {
    /// Title of the page.
    pub(crate) title: String,
    /// Under it, one line.
    pub(crate) subtitle: String,
    /// Whether its tables judge: then text says what its marks mean.
    pub(crate) judges: bool,
    /// What follows.
    pub(crate) blocks: Vec<Block>,
}

/// A part of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    /// Tables that stand side by side where there is room.
    Beside(Vec<Table>),
    /// Pictures side by side; HTML only, as the tables have the same figures.
    Charts(Vec<Chart>),
    /// Something to type.
    Code(String),
    /// Other pictures, by title; HTML only.
    Drawings(Vec<(String, String)>),
    /// Folded up in HTML.
    Details {
        summary: String,
        blocks: Vec<Self>,
        /// Whether a terminal shows it too.
        terminal: bool,
    },
    /// Level 2 to 4.
    Heading { level: u8, text: String },
    /// What the colours of the maps mean; HTML only.
    Key(Table),
    /// Which mark and colour stand for which target; HTML only.
    Legend(Vec<(usize, String)>),
    /// Bullets.
    List(Vec<Prose>),
    /// Small print under something.
    Note(Prose),
    /// A paragraph.
    Prose(Prose),
    /// Rows and columns.
    Table(Table),
}

/// Rows and columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table {
    /// What it shows.
    pub(crate) caption: String,
    /// Whether entries are tiles of colour.
    pub(crate) heat: bool,
    /// Heads, the first over the rows' names.
    pub(crate) columns: Vec<Column>,
    /// As wide as there are columns.
    pub(crate) rows: Vec<Vec<Entry>>,
}

/// The head of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Text.
    pub(crate) title: String,
    /// Numbers stand to the right.
    pub(crate) right: bool,
}

/// One entry.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Entry {
    /// Text.
    pub(crate) text: String,
    /// How it stands to the base.
    pub(crate) tone: Tone,
    /// Something speaks against it.
    pub(crate) flagged: bool,
    /// More, for a pointer that rests on it.
    pub(crate) hint: String,
    /// Set in the type of commands.
    pub(crate) code: bool,
}

/// How good or bad an entry is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// No judgement.
    #[default]
    Plain,
    /// The base itself.
    Base,
    /// Better, by steps 1 to 5.
    Better(u8),
    /// Could not be judged.
    Unjudged,
    /// Within the noise.
    Noise,
    /// Nothing there.
    Void,
    /// Worse, by steps 1 to 5.
    Worse(u8),
}

impl Table {
    /// With its heads: a leading `>` sets the column to the right.
    pub(crate) fn new(caption: impl Into<String>, heads: &[&str]) -> Self {
        let column = |head: &&str| Column {
            title: head.strip_prefix('>').unwrap_or(head).to_owned(),
            right: head.starts_with('>'),
        };
        Self {
            caption: caption.into(),
            columns: heads.iter().map(column).collect(),
            ..Self::default()
        }
    }

    /// Adds a row of plain entries.
    pub(crate) fn row(&mut self, entries: impl IntoIterator<Item = String>) {
        self.rows
            .push(entries.into_iter().map(Entry::new).collect());
    }
}

impl Entry {
    /// Without judgement.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Something to type.
    pub(crate) fn code(text: impl Into<String>) -> Self {
        Self {
            code: true,
            ..Self::new(text)
        }
    }
}

impl Block {
    /// A section of the report.
    pub(crate) fn section(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Heading { level: 2, text }
    }

    /// A part of a section.
    pub(crate) fn heading(level: u8, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Heading { level, text }
    }
}
