//! The pure core: what is shown, and how keys and answers change it. Events come in, effects go out; the clock is an
//! argument.

mod detail;
mod keys;
mod position;

use std::time::Duration;

use jiff::tz::TimeZone;

pub(crate) use self::keys::KEYS;
use self::position::LINES_AROUND;
pub(crate) use self::position::Position;
use self::position::Positions;
use crate::clock::Moment;
use crate::columns::Scene;
use crate::console::Lost;
use crate::data::{Data, Reply};
use crate::grid::Grid;
use crate::question::Question;
use crate::rates::Rates;
use crate::view::{HEADER, View};

/// Shortest time between two refreshes.
pub const INTERVAL_MIN: Duration = Duration::from_millis(500);
/// Longest time between two refreshes.
pub const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Lines for the text of the chosen diagnosis, and the number of lines from which on there is room for them.
const PANEL: usize = 6;
const PANEL_FROM: usize = 10;

/// Time beyond two intervals after which a console counts as silent.
const SILENCE: Duration = Duration::from_secs(2);

/// Time for which a notice is shown.
const NOTICE: Duration = Duration::from_secs(6);

/// Choices of the command line.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address of the console, to be shown.
    pub address: String,
    /// First view.
    pub view: View,
    /// Time between two refreshes.
    pub interval: Duration,
    /// True if keys that change the pooler are refused.
    pub is_read_only: bool,
    /// True if colours may be used.
    pub has_color: bool,
}

/// Key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Backspace,
    Char(char),
    Down,
    End,
    Enter,
    Esc,
    Home,
    /// Ctrl-C.
    Interrupt,
    Left,
    PageDown,
    PageUp,
    Right,
    Up,
}

/// News for the state.
#[derive(Debug)]
pub(crate) enum Event {
    /// Answers to the questions of the plan, with the time at which they were asked.
    Answers(Moment, Vec<(Question, Reply)>),
    Key(Key),
    /// A client was disconnected, or the console's refusal.
    Killed(String, Result<(), String>),
    /// There is no connection to the console, for this reason.
    Lost(Lost),
    /// A text was pasted, which is no sequence of keys.
    Paste(String),
    /// A file was written, by its name; or not, for this reason.
    Saved(Result<String, String>),
    /// Columns and lines of the terminal.
    Size(u16, u16),
    /// Time has passed.
    Tick,
}

/// Work for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Put a text into the clipboard.
    Copy(String),
    /// Disconnect the client with this id.
    Kill(String),
    /// Ask these questions from now on.
    Plan(Plan),
    Quit,
    Save {
        name: String,
        text: String,
    },
}

/// Questions that the console is asked, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) questions: Vec<Question>,
    pub(crate) interval: Duration,
}

/// Duration in the column of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Timed {
    /// Time of the present query, or of the wait for a server.
    Query,
    /// Time of the present step of a transaction: its query, the wait for the next one, or the wait for a server.
    #[default]
    Xact,
    /// Time since the connection was made.
    Session,
}

impl Timed {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Xact => "xact",
            Self::Session => "session",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::Query => Self::Xact,
            Self::Xact => Self::Session,
            Self::Session => Self::Query,
        }
    }
}

/// Receiver of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A question to disconnect the client with this id, described by the label.
    Confirm {
        id: String,
        label: String,
    },
    /// All columns of the chosen row, from this line on.
    Detail(usize),
    /// A filter is being typed.
    Filter(String),
    /// The list of keys, from this line on.
    Help(usize),
    List,
}

/// Choices for all views.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Display {
    pub(crate) is_wide: bool,
    pub(crate) hides_idle: bool,
    pub(crate) timed: Timed,
}

/// Answers, and whether more come.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    data: Data,
    /// Answers of the time at which the user paused.
    frozen: Option<Data>,
    pub(crate) rates: Rates,
    /// Reason why no answers come, while there is none.
    pub(crate) lost: Option<String>,
}

impl Feed {
    /// Answers to be shown.
    pub(crate) fn data(&self) -> &Data {
        self.frozen.as_ref().unwrap_or(&self.data)
    }

    pub(crate) const fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }
}

/// All that is shown.
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) view: View,
    pub(crate) display: Display,
    pub(crate) interval: Duration,
    pub(crate) feed: Feed,
    pub(crate) mode: Mode,
    /// Rows of the view; `None` if its table is not there.
    pub(crate) grid: Option<Grid>,
    pub(crate) now: Moment,
    /// Columns and lines of the terminal.
    pub(crate) size: (u16, u16),
    positions: Positions,
    notice: Option<(Duration, String)>,
    zone: TimeZone,
}

impl State {
    /// State before the first answer, and the plan to begin with.
    pub(crate) fn new(settings: Settings, now: Moment, zone: TimeZone) -> (Self, Plan) {
        let state = Self {
            view: settings.view,
            display: Display::default(),
            interval: settings.interval.clamp(INTERVAL_MIN, INTERVAL_MAX),
            feed: Feed::default(),
            mode: Mode::List,
            grid: None,
            now,
            size: (80, 24),
            positions: Positions::default(),
            notice: None,
            zone,
            settings,
        };
        let plan = state.plan();
        (state, plan)
    }

    /// Takes an event and returns what is to be done.
    pub(crate) fn handle(&mut self, now: Moment, event: Event) -> Vec<Effect> {
        self.now = now;
        let effects = match event {
            Event::Answers(at, replies) => self.handle_answers(at, replies),
            Event::Key(key) => self.handle_key(key),
            Event::Killed(id, result) => {
                let notice = match result {
                    Ok(()) => format!("client {id} is disconnected"),
                    Err(error) => format!("client {id} is not disconnected: {error}"),
                };
                self.say(notice);
                Vec::new()
            }
            Event::Lost(lost) => {
                self.feed.lost = Some(lost.to_string());
                Vec::new()
            }
            Event::Paste(text) => {
                self.handle_paste(&text);
                Vec::new()
            }
            Event::Saved(result) => {
                self.say(match result {
                    Ok(name) => format!("saved as {name}"),
                    Err(error) => format!("not saved: {error}"),
                });
                Vec::new()
            }
            Event::Size(columns, lines) => {
                self.size = (columns, lines);
                Vec::new()
            }
            Event::Tick => return Vec::new(),
        };
        self.refresh();
        effects
    }

    fn handle_answers(&mut self, at: Moment, replies: Vec<(Question, Reply)>) -> Vec<Effect> {
        let before = self.plan();
        self.feed.lost = None;
        self.feed.data.add(at, replies);
        let data = &self.feed.data;
        if let Some(stats) = data.table(Question::Stats) {
            let waiting = crate::summary::Summary::of(data).map(|summary| summary.waiting);
            self.feed.rates.add(at.since, stats, waiting);
        }
        let plan = self.plan();
        if plan == before {
            Vec::new()
        } else {
            vec![Effect::Plan(plan)]
        }
    }

    /// Questions for the header and the present view.
    pub(crate) fn plan(&self) -> Plan {
        let has_diagnosis = self.feed.data.table(Question::Diagnosis).is_some();
        let mut questions = HEADER.to_vec();
        if !(self.view == View::Diagnoses && has_diagnosis) {
            questions.extend(self.view.questions());
        }
        Plan {
            questions,
            interval: self.interval,
        }
    }

    fn refresh(&mut self) {
        let view = self.view;
        let choice = self.positions.of(view).choice(self.display);
        self.grid = Grid::new(view, self.scene(), &choice);
        let lines = self.grid.as_ref().map_or(&[][..], |grid| &grid.lines);
        let height = self.row_count();
        self.positions.of(view).follow(lines, height);
    }

    /// Inputs of the values that are shown. Ages count up to the time of the answers.
    pub(crate) fn scene(&self) -> Scene<'_> {
        let data = self.feed.data();
        Scene {
            data,
            wall: data.at().map_or(self.now.wall, |at| at.wall),
            zone: &self.zone,
            timed: self.display.timed,
            has_rates: true,
        }
    }

    /// Number of rows that have a place on the screen.
    pub(crate) fn row_count(&self) -> usize {
        let lines = usize::from(self.size.1).saturating_sub(LINES_AROUND);
        lines.saturating_sub(self.panel_height())
    }

    /// Number of lines below the rows for the text of the chosen diagnosis.
    pub(crate) fn panel_height(&self) -> usize {
        let lines = usize::from(self.size.1).saturating_sub(LINES_AROUND);
        if self.view == View::Diagnoses && lines >= PANEL_FROM {
            PANEL
        } else {
            0
        }
    }

    /// Place in the present view.
    pub(crate) fn position(&self) -> Position {
        self.positions.get(self.view)
    }

    /// Age of the answers that are shown.
    pub(crate) fn age(&self) -> Option<Duration> {
        let at = self.feed.data().at()?;
        Some(self.now.since.saturating_sub(at.since))
    }

    /// Reason why the answers are old, if they are: the connection is lost, or the console is silent.
    pub(crate) fn away(&self) -> Option<&str> {
        let lost = self.feed.lost.as_deref();
        lost.or_else(|| {
            let at = self.feed.data.at()?;
            let age = self.now.since.saturating_sub(at.since);
            (age > self.interval * 2 + SILENCE).then_some("the console does not answer")
        })
    }

    fn say(&mut self, notice: impl Into<String>) {
        self.notice = Some((self.now.since, notice.into()));
    }

    /// Message about the last key, unless it is old.
    pub(crate) fn notice(&self) -> Option<&str> {
        let (at, text) = self.notice.as_ref()?;
        (self.now.since.saturating_sub(*at) < NOTICE).then_some(text.as_str())
    }
}

#[cfg(test)]
mod tests;
