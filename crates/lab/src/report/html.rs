//! Renders a document as one page: style inside, no script, no external resources, and a policy that forbids them.

use std::fmt::Write as _;

use super::chart::{self, escape};
use super::document::{Block, Document, Entry, Table, Tone};
use super::prose::{Part, Prose};

const STYLE: &str = include_str!("style.css");

/// Length above which text may be broken into lines; a column of numbers must not.
const LONG: usize = 44;

/// Renders the page.
pub(crate) fn render(document: &Document) -> String {
    let mut page = Page::default();
    page.push("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push("<meta name=\"color-scheme\" content=\"light dark\">\n");
    // Enforced by the browser: it refuses any external resource.
    page.push("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ");
    page.push("style-src 'unsafe-inline'\">\n");
    let (title, subtitle) = (escape(&document.title), escape(&document.subtitle));
    page.push(&format!(
        "<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
    ));
    page.push(&format!("<header><h1>{title}</h1>\n<p>{subtitle}</p>\n"));
    page.contents(document);
    page.push("</header>\n<main>\n");
    page.blocks(&document.blocks);
    page.push("</main>\n</body>\n</html>\n");
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    headings: usize,
}

impl Page {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds links to the sections.
    fn contents(&mut self, document: &Document) {
        self.push("<nav aria-label=\"Contents\"><ul>\n");
        let mut number = 0;
        for block in &document.blocks {
            if let Block::Heading { level, text } = block {
                number += 1;
                if *level == 2 {
                    let text = escape(text);
                    self.push(&format!("<li><a href=\"#h{number}\">{text}</a></li>\n"));
                }
            }
        }
        self.push("</ul></nav>\n");
    }

    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Beside(tables) => {
                self.push("<div class=\"beside\">\n");
                for table in tables {
                    self.table(table);
                }
                self.push("</div>\n");
            }
            Block::Charts(charts) => {
                self.push("<div class=\"charts\">\n");
                for chart in charts {
                    let (title, svg) = (escape(&chart.title()), chart.svg());
                    self.push(&format!(
                        "<figure><figcaption>{title}</figcaption>\n{svg}\n</figure>\n"
                    ));
                }
                self.push("</div>\n");
            }
            Block::Drawings(drawings) => {
                self.push("<div class=\"charts\">\n");
                for (title, svg) in drawings {
                    let title = escape(title);
                    self.push(&format!(
                        "<figure><figcaption>{title}</figcaption>\n{svg}\n</figure>\n"
                    ));
                }
                self.push("</div>\n");
            }
            Block::Code(text) => {
                let text = escape(text);
                self.push(&format!("<pre tabindex=\"0\"><code>{text}</code></pre>\n"));
            }
            Block::Words(words) => {
                let words = escape(words);
                self.push(&format!("<pre tabindex=\"0\"><samp>{words}</samp></pre>\n"));
            }
            Block::Details {
                summary, blocks, ..
            } => {
                let summary = escape(summary);
                self.push(&format!("<details><summary>{summary}</summary>\n"));
                self.blocks(blocks);
                self.push("</details>\n");
            }
            Block::Heading { level, text } => {
                self.headings += 1;
                let (number, text) = (self.headings, escape(text));
                self.push(&format!("<h{level} id=\"h{number}\">{text}</h{level}>\n"));
            }
            Block::Legend(entries) => {
                self.push("<ul class=\"legend\">\n");
                for (style, title) in entries {
                    let (mark, title) = (chart::swatch(*style), escape(title));
                    self.push(&format!("<li>{mark}{title}</li>\n"));
                }
                self.push("</ul>\n");
            }
            Block::List(items) => {
                self.push("<ul>\n");
                for item in items {
                    self.push(&format!("<li>{}</li>\n", prose(item)));
                }
                self.push("</ul>\n");
            }
            Block::Note(text) => self.push(&format!("<p class=\"note\">{}</p>\n", prose(text))),
            Block::Prose(text) => self.push(&format!("<p>{}</p>\n", prose(text))),
            Block::Key(table) | Block::Table(table) => self.table(table),
        }
    }

    fn table(&mut self, table: &Table) {
        let class = if table.heat { " class=\"heat\"" } else { "" };
        // A wide table scrolls by itself, also by keyboard; the page does not.
        let label = escape(&table.caption);
        self.push(&format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">"
        ));
        self.push(&format!("<table{class}>\n"));
        if !table.caption.is_empty() {
            self.push(&format!("<caption>{label}</caption>\n"));
        }
        if table.columns.iter().any(|column| !column.title.is_empty()) {
            self.push("<thead><tr>");
            for column in &table.columns {
                let (class, title) = (right(column.right), escape(&column.title));
                self.push(&format!("<th scope=\"col\"{class}>{title}</th>"));
            }
            self.push("</tr></thead>\n");
        }
        self.push("<tbody>\n");
        for row in &table.rows {
            self.push("<tr>");
            for (at, entry) in row.iter().enumerate() {
                let to_right = table.columns.get(at).is_some_and(|column| column.right);
                self.entry(entry, at == 0, to_right);
            }
            self.push("</tr>\n");
        }
        self.push("</tbody>\n</table></div>\n");
    }

    fn entry(&mut self, entry: &Entry, head: bool, to_right: bool) {
        let (tag, scope) = if head {
            ("th", " scope=\"row\"")
        } else {
            ("td", "")
        };
        let mut classes = tone(entry.tone);
        if entry.flagged {
            classes.push_str(" flagged");
        }
        if entry.text.chars().count() > LONG && !entry.code {
            classes.push_str(" long");
        }
        if to_right {
            classes.push_str(" right");
        }
        let mut open = format!("<{tag}{scope}");
        // Writing to a string cannot fail.
        if !classes.trim().is_empty() {
            let _ = write!(open, " class=\"{}\"", classes.trim());
        }
        if !entry.hint.is_empty() {
            let _ = write!(open, " title=\"{}\"", escape(&entry.hint));
        }
        let text = escape(&entry.text);
        let text = if entry.code {
            format!("<code>{text}</code>")
        } else {
            text
        };
        // Hatching is invisible to screen readers, which need a word.
        let said = if entry.flagged {
            "<span class=\"said\"> flagged</span>"
        } else {
            ""
        };
        self.push(&format!("{open}>{text}{said}</{tag}>"));
    }
}

fn right(right: bool) -> &'static str {
    if right { " class=\"right\"" } else { "" }
}

fn tone(tone: Tone) -> String {
    match tone {
        Tone::Plain => String::new(),
        Tone::Base => "base".to_owned(),
        Tone::Better(step) => format!("better b{step}"),
        Tone::Unjudged => "unjudged".to_owned(),
        Tone::Noise => "noise".to_owned(),
        Tone::Void => "void".to_owned(),
        Tone::Worse(step) => format!("worse w{step}"),
    }
}

fn prose(prose: &Prose) -> String {
    let part = |part: &Part| match part {
        Part::Figure { shown, .. } => format!("<b>{}</b>", escape(shown)),
        Part::Name(name) => escape(name),
        Part::Text(text) => escape(text),
    };
    prose.parts.iter().map(part).collect()
}
