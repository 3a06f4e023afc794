//! Pages in place of the table: all columns of a row, and the keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Tone, write};
use crate::state::{KEYS, State};
use crate::text;

/// A name, and the lines of its value.
type Entry = (String, String);

/// Draws all columns of the chosen row.
pub(super) fn detail(state: &State, first: usize, area: Rect, buffer: &mut Buffer) {
    let fields = state.fields();
    let Some(fields) = fields else {
        let gone = "the row is gone; Esc goes back to the view".to_owned();
        write(vec![(gone, Tone::Plain)], state, area, buffer);
        return;
    };
    let entries = fields.into_iter().map(|field| (field.name, field.value));
    page(state, entries.collect(), first, area, buffer);
}

/// Draws the list of keys.
pub(super) fn help(state: &State, first: usize, area: Rect, buffer: &mut Buffer) {
    let entries = KEYS.map(|(key, meaning)| (key.to_owned(), meaning.to_owned()));
    page(state, entries.to_vec(), first, area, buffer);
}

fn page(state: &State, entries: Vec<Entry>, first: usize, area: Rect, buffer: &mut Buffer) {
    let names = entries.iter().map(|(name, _)| text::width(name));
    let width = names.max().unwrap_or_default();
    let room = usize::from(area.width).saturating_sub(width + 2);
    let mut lines = Vec::new();
    for (name, value) in entries {
        let mut name = name;
        for line in text::wrapped(&value, room) {
            let name = std::mem::take(&mut name);
            let name = text::fitted(&name, width, text::Side::Left) + "  ";
            lines.push(vec![(name, Tone::Heading), (line, Tone::Plain)]);
        }
    }
    // The last line stays on the screen.
    let first = first.min(lines.len().saturating_sub(usize::from(area.height)));
    for (line, number) in lines.into_iter().skip(first).zip(0..area.height) {
        let row = Rect {
            y: area.y + number,
            height: 1,
            ..area
        };
        write(line, state, row, buffer);
    }
}
