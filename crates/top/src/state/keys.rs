//! Keys: which one does what in which mode.

use std::time::Duration;

use super::{Effect, Key, Mode, State};
use crate::arrange::{Placed, by_rank, in_order};
use crate::columns::WIDE;
use crate::grid::{Filter, Grid};
use crate::once;
use crate::view::View;

/// Maximum length of a filter in bytes.
const FILTER_MAX: usize = 200;
/// Maximum length of a copied text in bytes; terminals ignore longer ones.
const COPY_MAX: usize = 48 * 1024;

/// Intervals between which `+` and `-` choose, in milliseconds.
const INTERVALS_MS: [u64; 12] = [
    500, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10_000,
];

/// Direction of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Back,
    Forward,
}

/// Keys and their meanings, for the page of help.
pub(crate) const KEYS: [(&str, &str); 18] = [
    (
        "1 to 8",
        "diagnoses pools clients servers pins errors hosts statements",
    ),
    ("j k, arrows", "move; PgUp, PgDn, Home and End move further"),
    ("Enter", "all columns of the row"),
    ("Esc", "back"),
    ("< >", "sort by the column to the left or right"),
    ("r", "reverse the order"),
    (
        "/",
        "filter rows by a regular expression; ! in front inverts it",
    ),
    ("n", "no filter"),
    ("space", "pause or resume the display"),
    ("+ -", "longer or shorter interval, 0.5 s to 10 s"),
    ("w", "wide: all columns; left and right move over them"),
    ("i", "hide or show what is idle"),
    ("t", "time of clients and servers: xact, session or query"),
    ("y", "copy the row (OSC 52)"),
    ("s", "save the view to a file"),
    ("K", "disconnect the client of the row; y confirms"),
    ("?", "this page"),
    ("q, Ctrl-C", "quit"),
];

impl State {
    pub(super) fn handle_key(&mut self, key: Key) -> Vec<Effect> {
        if key == Key::Interrupt {
            return vec![Effect::Quit];
        }
        match self.mode.clone() {
            Mode::Confirm { id, .. } => self.confirm_key(key, id),
            Mode::Detail(line) => self.page_key(key, line, Mode::Detail),
            Mode::Filter(text) => {
                self.filter_key(key, text);
                Vec::new()
            }
            Mode::Help(line) => self.page_key(key, line, Mode::Help),
            Mode::List => self.list_key(key),
        }
    }

    /// Takes a pasted text as a part of a filter that is being typed. Elsewhere it is ignored: its characters are not meant
    /// as commands.
    pub(super) fn handle_paste(&mut self, text: &str) {
        if let Mode::Filter(filter) = &self.mode {
            let filter = filter.clone() + text.trim_end_matches(['\n', '\r']);
            if filter.len() <= FILTER_MAX {
                self.mode = Mode::Filter(filter);
            }
        }
    }

    fn confirm_key(&mut self, key: Key, id: String) -> Vec<Effect> {
        self.mode = Mode::List;
        if key == Key::Char('y') {
            self.say(format!("asking the pooler to disconnect client {id}"));
            return vec![Effect::Kill(id)];
        }
        self.say("nothing is disconnected");
        Vec::new()
    }

    fn page_key(&mut self, key: Key, line: usize, mode: fn(usize) -> Mode) -> Vec<Effect> {
        let page = usize::from(self.size.1).saturating_sub(4);
        match key {
            Key::Up | Key::Char('k') => self.mode = mode(line.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.mode = mode(line + 1),
            Key::PageUp => self.mode = mode(line.saturating_sub(page)),
            Key::PageDown => self.mode = mode(line + page),
            Key::Home => self.mode = mode(0),
            Key::Esc | Key::Enter | Key::Backspace => self.mode = Mode::List,
            Key::Char('?') => self.mode = Mode::List,
            Key::Char('y') => return self.copy(),
            Key::Char('q') => return vec![Effect::Quit],
            _ => {}
        }
        Vec::new()
    }

    fn filter_key(&mut self, key: Key, mut text: String) {
        match key {
            Key::Esc => self.mode = Mode::List,
            Key::Enter => {
                let filter = Some(text.clone()).filter(|text| !text.is_empty());
                if let Some(Err(error)) = filter.as_deref().map(Filter::parse) {
                    self.say(format!("no regular expression: {error}"));
                    return;
                }
                self.positions.of(self.view).filter = filter;
                self.mode = Mode::List;
            }
            Key::Backspace => {
                text.pop();
                self.mode = Mode::Filter(text);
            }
            Key::Char(character) if text.len() + character.len_utf8() <= FILTER_MAX => {
                text.push(character);
                self.mode = Mode::Filter(text);
            }
            _ => {}
        }
    }

    fn list_key(&mut self, key: Key) -> Vec<Effect> {
        let page = self.row_count().max(1);
        let row = self.position().row;
        match key {
            Key::Up | Key::Char('k') => self.choose(row.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.choose(row + 1),
            Key::PageUp => self.choose(row.saturating_sub(page)),
            Key::PageDown => self.choose(row + page),
            Key::Home => self.choose(0),
            Key::End => self.choose(usize::MAX),
            Key::Left => self.move_column(Step::Back),
            Key::Right => self.move_column(Step::Forward),
            Key::Enter if self.fields().is_some() => self.mode = Mode::Detail(0),
            Key::Char(character) => return self.letter(character),
            _ => {}
        }
        Vec::new()
    }

    fn letter(&mut self, character: char) -> Vec<Effect> {
        match character {
            'q' => return vec![Effect::Quit],
            'y' => return self.copy(),
            's' => return self.save(),
            '+' | '=' => return self.change_interval(Step::Forward),
            '-' => return self.change_interval(Step::Back),
            'K' => self.ask_to_kill(),
            '<' => self.sort_by_neighbour(Step::Back),
            '>' => self.sort_by_neighbour(Step::Forward),
            'r' => self.reverse(),
            '/' => {
                let text = self.position().filter.unwrap_or_default();
                self.mode = Mode::Filter(text);
            }
            'n' => self.positions.of(self.view).filter = None,
            ' ' => self.pause(),
            'w' => self.display.is_wide = !self.display.is_wide,
            'i' => {
                self.display.hides_idle = !self.display.hides_idle;
                let now = if self.display.hides_idle {
                    "hidden"
                } else {
                    "shown"
                };
                self.say(format!("idle rows are {now}"));
            }
            't' => self.display.timed = self.display.timed.next(),
            '?' => self.mode = Mode::Help(0),
            key => {
                if let Some(view) = View::of_key(key) {
                    return self.change_view(view);
                }
            }
        }
        Vec::new()
    }

    fn change_view(&mut self, view: View) -> Vec<Effect> {
        if view == self.view {
            return Vec::new();
        }
        self.view = view;
        let plan = self.plan();
        // While no answers come, old ones are better than none.
        if self.away().is_none() {
            self.feed.data.keep(&plan.questions);
        }
        vec![Effect::Plan(plan)]
    }

    fn choose(&mut self, row: usize) {
        let lines = self.grid.as_ref().map_or(&[][..], |grid| &grid.lines);
        self.positions.of(self.view).choose(row, lines);
    }

    /// Moves over the columns of a wide display.
    fn move_column(&mut self, step: Step) {
        let count = self.grid.as_ref().map_or(0, |grid| grid.headings.len());
        let position = self.positions.of(self.view);
        position.column = match step {
            Step::Back => position.column.saturating_sub(1),
            Step::Forward => (position.column + 1).min(count.saturating_sub(1)),
        };
    }

    fn pause(&mut self) {
        self.feed.frozen = match self.feed.frozen.take() {
            Some(_) => None,
            None => Some(self.feed.data.clone()),
        };
    }

    fn change_interval(&mut self, step: Step) -> Vec<Effect> {
        let mut intervals = INTERVALS_MS.iter().map(|ms| Duration::from_millis(*ms));
        let next = match step {
            Step::Back => intervals.rfind(|interval| *interval < self.interval),
            Step::Forward => intervals.find(|interval| *interval > self.interval),
        };
        self.interval = next.unwrap_or(self.interval);
        vec![Effect::Plan(self.plan())]
    }

    /// Columns on the screen.
    pub(crate) fn placed(&self, grid: &Grid) -> Vec<Placed> {
        let available = usize::from(self.size.0);
        if self.display.is_wide {
            in_order(&grid.needs(), available, self.position().column)
        } else {
            by_rank(&grid.needs(), available, WIDE - 1)
        }
    }

    fn sort_by_neighbour(&mut self, step: Step) {
        let Some(grid) = &self.grid else { return };
        let (heading, direction) = grid.sort;
        let shown = self.placed(grid);
        let headings = shown
            .iter()
            .filter_map(|placed| grid.headings.get(placed.column));
        let headings: Vec<_> = headings.map(|heading| heading.column.heading).collect();
        let place = headings.iter().position(|found| *found == heading);
        let next = match (place, step) {
            (Some(place), Step::Forward) => place + 1,
            (Some(place), Step::Back) => place.saturating_sub(1),
            (None, _) => 0,
        };
        if let Some(heading) = headings.get(next) {
            self.positions.of(self.view).sort = Some((heading, direction));
        }
    }

    fn reverse(&mut self) {
        let Some(grid) = &self.grid else { return };
        let (heading, direction) = grid.sort;
        self.positions.of(self.view).sort = Some((heading, direction.reversed()));
    }

    fn copy(&mut self) -> Vec<Effect> {
        let Some(text) = self.row_text() else {
            self.say("no row to copy");
            return Vec::new();
        };
        if text.len() > COPY_MAX {
            self.say("the row is too long to be copied; s saves the view");
            return Vec::new();
        }
        self.say("the row is copied, if the terminal takes OSC 52");
        vec![Effect::Copy(text)]
    }

    fn save(&mut self) -> Vec<Effect> {
        let Some(grid) = &self.grid else {
            self.say("nothing to save");
            return Vec::new();
        };
        let wall = self.feed.data().at().map_or(self.now.wall, |at| at.wall);
        let at = wall.to_zoned(self.zone.clone());
        let name = at.strftime("%Y%m%d-%H%M%S");
        let name = format!("weir-top-{}-{name}.txt", self.view.name());
        let mut text = format!("{}  {}\n", self.settings.address, at.strftime("%F %T %Z"));
        for line in crate::screen::summary_texts(self) {
            text += &line;
            text.push('\n');
        }
        text += &format!("\n{}\n{}", self.view.name(), once::plain(grid));
        vec![Effect::Save { name, text }]
    }

    fn ask_to_kill(&mut self) {
        if !matches!(self.view, View::Clients | View::Pins) {
            self.say("K works in view 3 (clients) and view 5 (pins)");
            return;
        }
        if self.settings.is_read_only {
            self.say("nothing is disconnected with --read-only");
            return;
        }
        match self.client() {
            Some((id, label)) => self.mode = Mode::Confirm { id, label },
            None if self
                .grid
                .as_ref()
                .is_some_and(|grid| !grid.lines.is_empty()) =>
            {
                self.say("this pooler shows no ids of clients, and cannot disconnect one");
            }
            None => self.say("no client is chosen"),
        }
    }
}
