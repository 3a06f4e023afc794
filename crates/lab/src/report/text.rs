//! Renders a document as aligned text for a terminal. Colour only repeats what the text says.

use super::document::{Block, Document, Table, Tone};
use super::markdown::{MARKS, marked};

/// Use of colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Colours by escape sequences.
    Always,
    /// Plain text.
    Never,
}

/// Width at which prose is broken; tables keep their own width.
const WIDTH: usize = 100;

/// Renders the text.
pub(crate) fn render(document: &Document, colour: Colour) -> String {
    let mut text = format!("{}\n", harmless(&document.title));
    text.push_str(&wrapped(&document.subtitle, "", ""));
    if document.judges {
        text.push_str(&wrapped(MARKS, "", ""));
    }
    blocks(&mut text, &document.blocks, colour);
    text
}

/// Replaces control characters in the data, which could control the terminal.
fn harmless(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

fn blocks(text: &mut String, blocks: &[Block], colour: Colour) {
    for block in blocks {
        let part = match block {
            Block::Charts(_)
            | Block::Drawings(_)
            | Block::Key(_)
            | Block::Legend(_)
            | Block::Details {
                terminal: false, ..
            } => continue,
            Block::Beside(tables) => {
                let each = tables.iter().map(|table| self::table(table, colour));
                each.collect::<Vec<_>>().join("\n")
            }
            Block::Code(code) => format!("    {}\n", harmless(code)),
            Block::Details {
                summary,
                blocks: inner,
                ..
            } => {
                let mut folded = format!("{}\n", harmless(summary));
                self::blocks(&mut folded, inner, colour);
                folded
            }
            Block::Heading { level: 2, text } => heading(text, "="),
            Block::Heading { text, .. } => heading(text, "-"),
            Block::List(items) => items
                .iter()
                .map(|item| wrapped(&item.plain(), "- ", "  "))
                .collect(),
            Block::Note(prose) | Block::Prose(prose) => wrapped(&prose.plain(), "", ""),
            Block::Table(table) => self::table(table, colour),
            Block::Words(words) => words
                .lines()
                .map(|line| format!("    {}\n", harmless(line)))
                .collect(),
        };
        text.push('\n');
        text.push_str(&part);
    }
}

fn heading(text: &str, line: &str) -> String {
    format!(
        "{}\n{}\n",
        harmless(text),
        line.repeat(text.chars().count())
    )
}

/// Renders a table. Columns are as wide as their widest entry, with two blanks between them.
pub(crate) fn table(table: &Table, colour: Colour) -> String {
    let mut cells: Vec<Vec<(String, Tone)>> = Vec::new();
    if table.columns.iter().any(|column| !column.title.is_empty()) {
        let heads = table
            .columns
            .iter()
            .map(|column| (harmless(&column.title), Tone::Plain));
        cells.push(heads.collect());
    }
    let body = table.rows.iter().map(|row| {
        row.iter()
            .map(|entry| (harmless(&marked(entry)), entry.tone))
            .collect()
    });
    cells.extend(body);
    let width = |at: usize| {
        cells
            .iter()
            .filter_map(|row| Some(row.get(at)?.0.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let mut text = String::new();
    if !table.caption.is_empty() {
        text = format!("{}\n", harmless(&table.caption));
    }
    for row in &cells {
        let mut line = String::new();
        for (at, ((entry, tone), width)) in row.iter().zip(&widths).enumerate() {
            let right =
                table.columns.get(at).is_some_and(|column| column.right) || (table.heat && at > 0);
            let room = " ".repeat(width.saturating_sub(entry.chars().count()));
            let entry = painted(entry, *tone, colour);
            line.push_str(if at == 0 { "" } else { "  " });
            line.push_str(&if right {
                format!("{room}{entry}")
            } else {
                format!("{entry}{room}")
            });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn painted(text: &str, tone: Tone, colour: Colour) -> String {
    let code = match (colour, tone) {
        (Colour::Always, Tone::Better(_)) => "32",
        (Colour::Always, Tone::Worse(_)) => "31",
        (Colour::Always, Tone::Noise | Tone::Unjudged | Tone::Void) => "2",
        _ => return text.to_owned(),
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Breaks text between words, with `first` before the first line and `rest` before the others.
pub(crate) fn wrapped(text: &str, first: &str, rest: &str) -> String {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in harmless(text).split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines.join("\n") + "\n"
}
