//! Renders a document as Markdown with tables. Charts are left out: the tables have their figures.

use super::document::{Block, Document, Entry, Table, Tone};

/// Explanation of the marks that replace HTML's colours and hatching.
pub(super) const MARKS: &str =
    "In the tables: + better, - worse, ~ within the noise, ? not judged, ≠ other work, ! flagged.";

/// Renders the page, with exactly one title.
pub(crate) fn render(document: &Document) -> String {
    let mut text = format!(
        "# {}\n\n{}\n",
        escape(&document.title),
        escape(&document.subtitle)
    );
    if document.judges {
        text.push_str(&format!("\n{}\n", escape(MARKS)));
    }
    blocks(&mut text, &document.blocks);
    text
}

fn blocks(text: &mut String, blocks: &[Block]) {
    for block in blocks {
        let part = match block {
            Block::Charts(_) | Block::Drawings(_) | Block::Key(_) | Block::Legend(_) => continue,
            Block::Beside(tables) => tables.iter().map(table).collect::<Vec<_>>().join("\n"),
            Block::Code(code) => format!("```sh\n{code}\n```\n"),
            Block::Details {
                summary,
                blocks: inner,
                ..
            } => {
                let mut folded = format!("<details><summary>{}</summary>\n", escape(summary));
                self::blocks(&mut folded, inner);
                folded.push_str("\n</details>\n");
                folded
            }
            Block::Heading { level, text } => {
                format!("{} {}\n", "#".repeat(usize::from(*level)), escape(text))
            }
            Block::List(items) => items
                .iter()
                .map(|item| format!("- {}\n", escape(&item.plain())))
                .collect(),
            Block::Note(prose) | Block::Prose(prose) => format!("{}\n", escape(&prose.plain())),
            Block::Table(table) => self::table(table),
            Block::Words(words) => {
                // Four blanks make a block of code that no word inside can end.
                words.lines().map(|line| format!("    {line}\n")).collect()
            }
        };
        text.push('\n');
        text.push_str(&part);
    }
}

fn table(table: &Table) -> String {
    let mut text = String::new();
    if !table.caption.is_empty() {
        text = format!("**{}**\n\n", escape(&table.caption));
    }
    let titles = table.columns.iter().map(|column| escape(&column.title));
    text.push_str(&line(titles));
    let rules = table.columns.iter().enumerate().map(|(at, column)| {
        if column.right || (table.heat && at > 0) {
            "--:"
        } else {
            "---"
        }
    });
    text.push_str(&line(rules.map(str::to_owned)));
    for row in &table.rows {
        text.push_str(&line(row.iter().map(|entry| escape(&marked(entry)))));
    }
    text
}

fn line(entries: impl Iterator<Item = String>) -> String {
    let joined: Vec<String> = entries.collect();
    format!("| {} |\n", joined.join(" | "))
}

/// Returns an entry's text with its mark, which replaces colour and hatching: `+` better, `-`
/// worse, `!` flagged.
pub(super) fn marked(entry: &Entry) -> String {
    let sign = match entry.tone {
        Tone::Better(_) if entry.text.parse::<f64>().is_ok() => " +",
        Tone::Worse(_) if entry.text.parse::<f64>().is_ok() => " -",
        _ => "",
    };
    let flag = if entry.flagged { " !" } else { "" };
    format!("{}{sign}{flag}", entry.text)
}

/// Escapes characters that have a meaning in Markdown.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => escaped.push(' '),
            '<' => escaped.push_str("&lt;"),
            '~' | '|' | '*' | '_' | '`' | '[' | '\\' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}
