//! Draws a state. Every text is safe for the terminal before it comes here.

mod header;
mod pages;
mod table;
mod tone;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

pub(crate) use self::header::summary_texts;
use self::tone::{Tone, stale};
use crate::data::Data;
use crate::grid::Filter;
use crate::state::{Mode, State};
use crate::text;
use crate::view::View;

/// Smallest terminal that is drawn on.
const COLUMNS_MIN: u16 = 40;
const LINES_MIN: u16 = 10;

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if area.width < COLUMNS_MIN || area.height < LINES_MIN {
        let line = Line::from(format!("needs {COLUMNS_MIN} columns, {LINES_MIN} lines"));
        line.render(area, buffer);
        return;
    }
    let [header, tabs, middle, last] = Layout::vertical([
        Constraint::Length(4),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    header::draw(state, header, buffer);
    draw_tabs(state, tabs, buffer);
    match &state.mode {
        Mode::Detail(line) => pages::detail(state, *line, middle, buffer),
        Mode::Help(line) => pages::help(state, *line, middle, buffer),
        _ => table::draw(state, middle, buffer),
    }
    if state.away().is_some() {
        // The tabs and the last line stay as they are: keys work.
        for area in [header, middle] {
            buffer.set_style(area, stale(state.settings.has_color));
        }
    }
    draw_last(state, last, buffer);
}

/// Writes a line of parts, cut at the end of the area.
fn write(parts: Vec<(String, Tone)>, state: &State, area: Rect, buffer: &mut Buffer) {
    let spans = parts.into_iter().map(|(text, tone)| {
        let style = tone.style(state.settings.has_color);
        Span::styled(text, style)
    });
    Line::from(spans.collect::<Vec<_>>()).render(area, buffer);
}

fn draw_tabs(state: &State, area: Rect, buffer: &mut Buffer) {
    let mut parts = Vec::new();
    for (number, view) in View::ALL.into_iter().enumerate() {
        if number > 0 {
            parts.push((" ".to_owned(), Tone::Plain));
        }
        let tone = if view == state.view {
            Tone::Chosen
        } else {
            Tone::Plain
        };
        parts.push((format!("{} {}", number + 1, view.name()), tone));
    }
    write(parts, state, area, buffer);
}

fn draw_last(state: &State, area: Rect, buffer: &mut Buffer) {
    let keys = "? keys  Enter detail  < > r sort  / filter  space pause  K kill  q quit";
    let parts = match &state.mode {
        Mode::Confirm { label, .. } => {
            let label = text::shortened(label, usize::from(area.width).saturating_sub(32));
            let question = format!("disconnect {label}? ");
            vec![
                (question, Tone::Bad),
                ("y = yes, other keys = no".to_owned(), Tone::Strong),
            ]
        }
        Mode::Filter(filter) => {
            let mistake = Filter::parse(filter).err();
            let mistake = mistake.map_or_else(String::new, |error| format!("  {error}"));
            let hint = "  (Enter applies, Esc leaves, ! in front inverts)";
            vec![
                (format!("/{}", text::clean(filter)), Tone::Strong),
                ("_".to_owned(), Tone::Strong),
                if mistake.is_empty() {
                    (hint.to_owned(), Tone::Faint)
                } else {
                    (text::clean(&mistake), Tone::Warn)
                },
            ]
        }
        _ => match state.notice() {
            Some(notice) => vec![(text::clean(notice), Tone::Strong)],
            None => match state.mode {
                Mode::List => vec![(keys.to_owned(), Tone::Faint)],
                _ => vec![(
                    "j k scroll  y copy  Esc back  q quit".to_owned(),
                    Tone::Faint,
                )],
            },
        },
    };
    write(parts, state, area, buffer);
}

/// Says why a view has no table, and what to do.
pub(crate) fn missing(view: View, data: &Data) -> String {
    let sheets = view.sheets().iter();
    let refused = sheets.rev().find_map(|sheet| {
        let message = data.refusal(sheet.question)?;
        Some((sheet.question, message))
    });
    let Some((question, message)) = refused else {
        return "asking the console …".to_owned();
    };
    let message = text::clean(message);
    let name = question.name();
    if message.starts_with("invalid command") || message.starts_with("unsupported") {
        let version = crate::summary::version(data).unwrap_or_else(|| "this pooler".to_owned());
        let needs = if version.starts_with("Weir") {
            "a newer Weir"
        } else {
            "Weir"
        };
        format!("{version} has no SHOW {name}: this view needs {needs}.")
    } else {
        format!("The console refuses SHOW {name}: {message}")
    }
}

#[cfg(test)]
mod tests;
