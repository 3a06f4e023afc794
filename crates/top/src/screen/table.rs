//! The table of a view: its heading, the columns that fit, and the rows around the chosen one.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Tone, missing, write};
use crate::arrange::{GAP, Placed};
use crate::cell::{Cell, Format};
use crate::grid::{Grid, Line};
use crate::state::State;
use crate::text;

/// Columns for the names in the text of a diagnosis.
const PANEL_NAME: usize = 10;

pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let line = |number: u16| Rect {
        y: area.y + number.min(area.height.saturating_sub(1)),
        height: 1,
        ..area
    };
    let Some(grid) = &state.grid else {
        let purpose = vec![(state.view.purpose().to_owned(), Tone::Heading)];
        write(purpose, state, line(0), buffer);
        draw_text(&absent(state), state, area, buffer);
        return;
    };
    write(heading(state, grid), state, line(0), buffer);
    if grid.lines.is_empty() {
        draw_text(&empty(state, grid), state, area, buffer);
        return;
    }
    let placed = state.placed(grid);
    let names = placed.iter().filter_map(|placed| {
        let heading = grid.headings.get(placed.column)?;
        Some((heading.text, heading.column.format, placed.width))
    });
    let names = names.map(|(name, format, width)| text::fitted(name, width, format.side()));
    let names = names.collect::<Vec<_>>().join(&" ".repeat(GAP));
    write(vec![(names, Tone::Strong)], state, line(1), buffer);
    let position = state.position();
    let height = u16::try_from(state.row_count()).unwrap_or(area.height);
    let rows = grid.lines.iter().enumerate().skip(position.top);
    for ((number, row), place) in rows.zip(0..height) {
        let parts = parts(grid, row, &placed);
        write(parts, state, line(place + 2), buffer);
        if number == position.row {
            buffer.set_style(
                line(place + 2),
                Tone::Chosen.style(state.settings.has_color),
            );
        }
    }
    draw_panel(state, area, buffer);
}

/// Draws the text of the chosen diagnosis below the rows.
fn draw_panel(state: &State, area: Rect, buffer: &mut Buffer) {
    let height = u16::try_from(state.panel_height()).unwrap_or_default();
    let Some(fields) = state.fields().filter(|_| height > 0) else {
        return;
    };
    let room = usize::from(area.width).saturating_sub(PANEL_NAME);
    let mut lines = vec![Vec::new()];
    for name in ["evidence", "advice", "command"] {
        let field = fields
            .iter()
            .find(|field| field.name == name && field.value != "-");
        let Some(field) = field else { continue };
        let mut name = name;
        for line in text::wrapped(&field.value, room) {
            let name = text::fitted(std::mem::take(&mut name), PANEL_NAME, text::Side::Left);
            lines.push(vec![(name, Tone::Heading), (line, Tone::Plain)]);
        }
    }
    let first = area.bottom().saturating_sub(height);
    for (line, y) in lines.into_iter().zip(first..area.bottom()) {
        let row = Rect {
            y,
            height: 1,
            ..area
        };
        write(line, state, row, buffer);
    }
}

fn parts(grid: &Grid, row: &Line, placed: &[Placed]) -> Vec<(String, Tone)> {
    let mut parts = Vec::new();
    for placed in placed {
        let cell = row.cells.get(placed.column);
        let heading = grid.headings.get(placed.column);
        let (Some(cell), Some(heading)) = (cell, heading) else {
            continue;
        };
        let format = heading.column.format;
        if !parts.is_empty() {
            parts.push((" ".repeat(GAP), Tone::Plain));
        }
        let value = text::fitted(cell.text(), placed.width, format.side());
        parts.push((value, tone(cell, format, heading.text)));
    }
    parts
}

fn tone(cell: &Cell, format: Format, heading: &str) -> Tone {
    match (format, heading, cell.text()) {
        (Format::Severity, _, word) => Tone::of_severity(word),
        (_, "waiting" | "errors" | "login" | "paused" | "disabled", "0" | "-") => Tone::Plain,
        (_, "waiting" | "errors" | "paused" | "disabled", _) => Tone::Warn,
        (_, "state", "waiting" | "idle in transaction") => Tone::Warn,
        (_, "state", "down" | "unreachable") => Tone::Bad,
        _ => Tone::Plain,
    }
}

/// Purpose of the view, number of rows, order and filter.
fn heading(state: &State, grid: &Grid) -> Vec<(String, Tone)> {
    let (sorted, direction) = grid.sort;
    let mut headings = grid.headings.iter();
    let heading = headings.find(|heading| heading.column.heading == sorted);
    let heading = heading.map_or(sorted, |heading| heading.text);
    let shown = grid.lines.len();
    let rows = match grid.total {
        total if total == shown => format!("  {total}"),
        total => format!("  {shown} of {total}"),
    };
    let order = format!(" by {heading}, {}", direction.name());
    let mut parts = vec![
        (state.view.purpose().to_owned(), Tone::Heading),
        (rows + &order, Tone::Plain),
    ];
    if let Some(filter) = &state.position().filter {
        parts.push((format!("  /{}", text::clean(filter)), Tone::Warn));
    }
    if state.display.hides_idle {
        parts.push(("  idle hidden".to_owned(), Tone::Plain));
    }
    if state.display.is_wide {
        parts.push(("  wide".to_owned(), Tone::Plain));
    }
    if !grid.sheet.note.is_empty() {
        parts.push((format!("  {}", grid.sheet.note), Tone::Faint));
    }
    parts
}

/// Says why there is no table.
fn absent(state: &State) -> String {
    let data = state.feed.data();
    let sheets = state.view.sheets().iter();
    let is_refused = sheets
        .clone()
        .any(|sheet| data.refusal(sheet.question).is_some());
    match state.away() {
        _ if is_refused => missing(state.view, data),
        _ if state.feed.is_paused() => {
            "The display was paused in another view: space shows this one.".to_owned()
        }
        Some(reason) => format!("no data of this view yet: {}", text::clean(reason)),
        None => missing(state.view, data),
    }
}

/// Says why a table has no rows.
fn empty(state: &State, grid: &Grid) -> String {
    if grid.total == 0 {
        return grid.sheet.empty.to_owned();
    }
    let filter = state.position().filter;
    let total = grid.total;
    match (filter, state.display.hides_idle) {
        (Some(_), true) => {
            format!(
                "None of {total} rows matches the filter and is busy: n ends the filter, i shows idle rows."
            )
        }
        (Some(_), false) => format!("None of {total} rows matches the filter: n ends it."),
        _ => format!("All {total} rows are idle: i shows them."),
    }
}

/// Writes a sentence below the heading.
fn draw_text(sentence: &str, state: &State, area: Rect, buffer: &mut Buffer) {
    let lines = text::wrapped(sentence, usize::from(area.width).saturating_sub(2));
    for (line, number) in lines.into_iter().zip(2..area.height) {
        let row = Rect {
            y: area.y + number,
            height: 1,
            ..area
        };
        write(vec![(line, Tone::Plain)], state, row, buffer);
    }
}
