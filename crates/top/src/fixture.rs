//! Answers of real consoles, for tests: PgBouncer 1.18 of Debian 12 and Weir, both with the same clients. Tables of
//! diagnoses, hosts and hostile names are made by hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde_json::Value;
use weir_proxy::blocking::Table;

use crate::clock::Moment;
use crate::data::Reply;
use crate::question::Question;
use crate::state::{Event, Key, Settings, State};
use crate::view::View;

pub(crate) const PGBOUNCER: &str = include_str!("../testdata/pgbouncer-1.18.json");
pub(crate) const WEIR: &str = include_str!("../testdata/weir.json");
pub(crate) const DIAGNOSIS: &str = include_str!("../testdata/weir-diagnosis.json");
pub(crate) const HOSTILE: &str = include_str!("../testdata/hostile.json");

/// Answers by the text of the question.
#[derive(Clone, Default)]
pub(crate) struct Answers(BTreeMap<String, Reply>);

impl Answers {
    /// Reads fixtures; tables of later ones replace those of earlier ones.
    pub(crate) fn read(texts: &[&str]) -> Self {
        let mut answers = BTreeMap::new();
        for text in texts {
            let all: BTreeMap<String, Value> = serde_json::from_str(text).unwrap();
            answers.extend(all.into_iter().map(|(sql, value)| (sql, reply(&value))));
        }
        Self(answers)
    }

    /// Answer as the console would give it.
    pub(crate) fn reply(&self, question: Question) -> Reply {
        let none = || {
            Err(format!(
                "invalid command '{}', use SHOW HELP;",
                question.sql()
            ))
        };
        self.0.get(question.sql()).cloned().unwrap_or_else(none)
    }

    /// Changes one value of a table.
    pub(crate) fn set(&mut self, question: Question, row: usize, column: &str, value: &str) {
        let mut table = Table::clone(self.reply(question).as_ref().unwrap());
        let place = crate::data::place(&table, column).unwrap();
        table.rows[row][place] = Some(value.to_owned());
        self.0
            .insert(question.sql().to_owned(), Ok(Arc::new(table)));
    }

    /// Answers of PgBouncer 1.25 with the clients of Weir's: its columns come first in Weir's tables, which have more.
    pub(crate) fn of_pgbouncer_1_25() -> Self {
        let all = Self::read(&[WEIR]);
        let columns = [
            (Question::Clients, 21),
            (Question::Databases, 17),
            (Question::Pools, 17),
            (Question::Servers, 21),
            (Question::Stats, 25),
            (Question::Version, 1),
        ];
        let cut = |(question, count): (Question, usize)| {
            let mut table = Table::clone(all.reply(question).as_ref().unwrap());
            table.columns.truncate(count);
            table.rows.iter_mut().for_each(|row| row.truncate(count));
            (question.sql().to_owned(), Ok(Arc::new(table)))
        };
        Self(columns.map(cut).into())
    }

    /// Takes all rows of a table away.
    pub(crate) fn clear(&mut self, question: Question) {
        let mut table = Table::clone(self.reply(question).as_ref().unwrap());
        table.rows.clear();
        self.0
            .insert(question.sql().to_owned(), Ok(Arc::new(table)));
    }
}

fn reply(value: &Value) -> Reply {
    if let Some(error) = value["error"].as_str() {
        return Err(error.to_owned());
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let rows = value["rows"].as_array().unwrap().iter();
    let rows = rows.map(|row| row.as_array().unwrap().iter().map(text).collect());
    let columns = value["columns"].as_array().unwrap().iter();
    Ok(Arc::new(Table {
        columns: columns.map(|column| text(column).unwrap()).collect(),
        rows: rows.collect(),
        ..Table::default()
    }))
}

/// A state with a virtual clock.
pub(crate) struct Player {
    pub(crate) state: State,
    pub(crate) answers: Answers,
    seconds: f64,
}

impl Player {
    /// A display of this size that has been answered once.
    pub(crate) fn new(answers: &Answers, view: View, size: (u16, u16)) -> Self {
        let settings = Settings {
            address: "127.0.0.1:6432".to_owned(),
            view,
            interval: Duration::from_secs(1),
            is_read_only: false,
            has_color: true,
        };
        let (state, _) = State::new(settings, moment(0.0), TimeZone::UTC);
        let mut player = Self {
            state,
            answers: answers.clone(),
            seconds: 0.0,
        };
        player.event(Event::Size(size.0, size.1));
        player.answer();
        player
    }

    pub(crate) fn event(&mut self, event: Event) -> Vec<crate::state::Effect> {
        self.state.handle(moment(self.seconds), event)
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, seconds: f64) {
        self.seconds += seconds;
        self.event(Event::Tick);
    }

    /// Answers the questions of the present plan.
    pub(crate) fn answer(&mut self) {
        let plan = self.state.plan();
        let questions = plan.questions.into_iter();
        let replies = questions.map(|question| (question, self.answers.reply(question)));
        let replies = replies.collect();
        self.event(Event::Answers(moment(self.seconds), replies));
    }

    /// Presses a key for each character; `\n` is Enter, `\x1b` is Esc, `\x08` is Backspace.
    pub(crate) fn press(&mut self, keys: &str) -> Vec<crate::state::Effect> {
        let keys = keys.chars().map(|character| match character {
            '\n' => Key::Enter,
            '\x1b' => Key::Esc,
            '\x08' => Key::Backspace,
            character => Key::Char(character),
        });
        keys.flat_map(|key| self.event(Event::Key(key))).collect()
    }
}

/// Time of the fixtures, and these seconds.
pub(crate) fn moment(seconds: f64) -> Moment {
    let start = "2026-11-27T14:06:44Z".parse::<jiff::Timestamp>().unwrap();
    let since = Duration::from_secs_f64(seconds);
    Moment {
        since,
        wall: start + since,
    }
}
