//! Report without a format: the blocks from which HTML, Markdown and terminal text are rendered.

use super::chart::Chart;
use super::prose::Prose;

/// Whole report.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Document {
    /// Title of the page.
    pub(crate) title: String,
    /// Line under the title.
    pub(crate) subtitle: String,
    /// True if its tables judge; the text form then explains its marks.
    pub(crate) judges: bool,
    /// Contents.
    pub(crate) blocks: Vec<Block>,
}

/// Part of a report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    /// Tables that stand side by side where there is room.
    Beside(Vec<Table>),
    /// Charts side by side; HTML only, as the tables have the same figures.
    Charts(Vec<Chart>),
    /// Command line.
    Code(String),
    /// Other pictures, with their titles; HTML only.
    Drawings(Vec<(String, String)>),
    /// Part that is folded in HTML.
    Details {
        summary: String,
        blocks: Vec<Self>,
        /// True if a terminal shows it too.
        terminal: bool,
    },
    /// Heading of level 2 to 4.
    Heading { level: u8, text: String },
    /// Key to the colours of heat maps; HTML only.
    Key(Table),
    /// Marks and colours of the targets; HTML only.
    Legend(Vec<(usize, String)>),
    /// Bullet list.
    List(Vec<Prose>),
    /// Small print.
    Note(Prose),
    /// A paragraph.
    Prose(Prose),
    /// Rows and columns.
    Table(Table),
    /// Words of programs, line by line.
    Words(String),
}

/// Rows and columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table {
    /// Caption.
    pub(crate) caption: String,
    /// True for a heat map, whose entries are coloured tiles.
    pub(crate) heat: bool,
    /// Columns; the first has the names of the rows.
    pub(crate) columns: Vec<Column>,
    /// Rows, each with as many entries as there are columns.
    pub(crate) rows: Vec<Vec<Entry>>,
}

/// The head of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Text.
    pub(crate) title: String,
    /// True if the column is aligned to the right, as numbers are.
    pub(crate) right: bool,
}

/// Entry of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Entry {
    /// Text.
    pub(crate) text: String,
    /// Judgement against the base.
    pub(crate) tone: Tone,
    /// True if the figure is flagged.
    pub(crate) flagged: bool,
    /// Tooltip.
    pub(crate) hint: String,
    /// True if it is set in monospace.
    pub(crate) code: bool,
}

/// Judgement of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// No judgement.
    #[default]
    Plain,
    /// The base itself.
    Base,
    /// Better, by steps 1 to 5.
    Better(u8),
    /// Not enough data to judge.
    Unjudged,
    /// Within the noise.
    Noise,
    /// No value.
    Void,
    /// Worse, by steps 1 to 5.
    Worse(u8),
}

impl Table {
    /// Creates a table with these heads. A leading `>` aligns the column to the right.
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
    /// Creates an entry without judgement.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Creates an entry in monospace.
    pub(crate) fn code(text: impl Into<String>) -> Self {
        Self {
            code: true,
            ..Self::new(text)
        }
    }
}

impl Block {
    /// Returns the heading of a section of the report.
    pub(crate) fn section(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Heading { level: 2, text }
    }

    /// Returns the heading of a part of a section.
    pub(crate) fn heading(level: u8, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Heading { level, text }
    }
}
