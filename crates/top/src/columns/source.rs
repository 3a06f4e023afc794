//! Values of columns in a row of a table.

use std::collections::HashMap;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use weir_proxy::blocking::Table;

use super::{Column, Sheet, Source};
use crate::cell::Value;
use crate::data::{Data, Dated, field, micros, number, place};
use crate::question::Question;
use crate::state::Timed;
use crate::text::Side;

type Row = [Option<String>];
/// Places of the columns that name a row, and the rows by their values there.
type Index<'a> = HashMap<Vec<Option<&'a str>>, &'a Row>;

/// Inputs of a view's values.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) data: &'a Data,
    pub(crate) wall: Timestamp,
    /// Zone of this machine, to read a console's timestamps that are not in UTC.
    pub(crate) zone: &'a TimeZone,
    pub(crate) timed: Timed,
    /// True if there will be a table before, and rates with it.
    pub(crate) has_rates: bool,
}

impl Column {
    /// True if the tables have what the column shows.
    pub(crate) fn exists(&self, scene: Scene<'_>, table: &Table) -> bool {
        let has = |name: &str| place(table, name).is_some();
        let joined = |question: Question, field: &str| {
            let other = scene.data.table(question);
            other.is_some_and(|other| place(other, field).is_some())
        };
        if self.unless.is_some_and(has) {
            return false;
        }
        match self.source {
            Source::Age(name) | Source::Count(name, _) => has(name),
            Source::Field(names) => names.iter().any(|name| has(name)),
            Source::Joined {
                question, field, ..
            } => joined(question, field),
            Source::Rate(name) => scene.has_rates && has(name),
            Source::RateOf {
                question, field, ..
            } => scene.has_rates && joined(question, field),
            Source::ServerState | Source::Timed => true,
            Source::Wait([whole, _]) => has(whole),
        }
    }

    /// Prepares to read the values of this column.
    pub(crate) fn reader<'a>(
        &self,
        scene: Scene<'a>,
        table: &'a Table,
        sheet: &Sheet,
    ) -> Reader<'a> {
        let source = self.source;
        let none = Reader {
            source,
            is_number: self.format.side() == Side::Right,
            scene,
            table,
            other: None,
            before: None,
        };
        match source {
            Source::Joined { question, on, .. } => {
                let theirs: Vec<_> = on.iter().map(|(_, theirs)| *theirs).collect();
                let ours: Vec<_> = on.iter().map(|(ours, _)| *ours).collect();
                let other = scene.data.table(question);
                let other = other.map(|other| Other::new(table, &ours, other, &theirs));
                Reader { other, ..none }
            }
            Source::ServerState => {
                let other = scene.data.table(Question::Clients);
                let other = other.map(|other| Other::new(table, &["link"], other, &["ptr"]));
                Reader { other, ..none }
            }
            Source::Timed if place(table, "activity").is_none() => {
                let other = scene.data.table(Question::Clients);
                let other = other.filter(|_| sheet.question == Question::Servers);
                let other = other.map(|other| Other::new(table, &["link"], other, &["ptr"]));
                Reader { other, ..none }
            }
            Source::Rate(_) => Reader {
                before: Before::new(scene.data, sheet.question, table, sheet.key, sheet.key),
                ..none
            },
            Source::RateOf {
                question,
                on: (ours, theirs),
                ..
            } => {
                let other = scene.data.table(question);
                Reader {
                    other: other.map(|other| Other::new(table, &[ours], other, &[theirs])),
                    before: Before::new(scene.data, question, table, &[ours], &[theirs]),
                    ..none
                }
            }
            _ => none,
        }
    }
}

/// Rows of another table, found by columns of ours.
struct Other<'a> {
    table: &'a Table,
    index: Index<'a>,
    ours: Vec<usize>,
}

impl<'a> Other<'a> {
    fn new(own: &Table, ours: &[&str], table: &'a Table, theirs: &[&str]) -> Self {
        let places = |table: &Table, names: &[&str]| {
            names
                .iter()
                .map(|name| place(table, name).unwrap_or(usize::MAX))
                .collect::<Vec<_>>()
        };
        let theirs = places(table, theirs);
        let mut index = Index::new();
        for row in &table.rows {
            // The first of several is the longest wait, or the like.
            index.entry(key(row, &theirs)).or_insert(row);
        }
        Self {
            table,
            index,
            ours: places(own, ours),
        }
    }

    fn row(&self, own: &Row) -> Option<&'a Row> {
        let key = key(own, &self.ours);
        if key.iter().any(|value| value.is_none_or(str::is_empty)) {
            return None;
        }
        self.index.get(&key).copied()
    }
}

fn key<'a>(row: &'a Row, places: &[usize]) -> Vec<Option<&'a str>> {
    let value = |place: &usize| row.get(*place).and_then(Option::as_deref);
    places.iter().map(value).collect()
}

/// Table before, for rates.
struct Before<'a> {
    rows: Other<'a>,
    seconds: f64,
}

impl<'a> Before<'a> {
    fn new(
        data: &'a Data,
        question: Question,
        own: &Table,
        ours: &[&str],
        theirs: &[&str],
    ) -> Option<Self> {
        let (now, before) = data.pair(question)?;
        let Dated { table, at } = before?;
        let seconds = now.at.checked_sub(*at)?.as_secs_f64();
        let rows = Other::new(own, ours, table, theirs);
        (seconds > 0.0).then_some(Self { rows, seconds })
    }

    /// Increase per second; a counter that fell has no rate, and a row that was not there before counts from 0.
    fn rate(&self, own: &Row, field: &str, now: Option<f64>) -> Value {
        let before = match self.rows.row(own) {
            Some(row) => number(self.rows.table, row, field),
            None => Some(0.0),
        };
        match (now, before) {
            (Some(now), Some(before)) if now >= before => {
                Value::Number((now - before) / self.seconds)
            }
            _ => Value::Unknown,
        }
    }
}

/// Reads the values of a column.
pub(crate) struct Reader<'a> {
    source: Source,
    /// True if the column is for numbers.
    is_number: bool,
    scene: Scene<'a>,
    table: &'a Table,
    other: Option<Other<'a>>,
    before: Option<Before<'a>>,
}

impl Reader<'_> {
    pub(crate) fn value(&self, row: &Row) -> Value {
        let table = self.table;
        match self.source {
            Source::Age(name) => self.age(field(table, row, name)),
            Source::Count(name, factor) => Value::number(field(table, row, name)).times(factor),
            Source::Field(names) => {
                let mut values = names.iter().map(|name| field(table, row, name));
                let value = values.find(|value| value.is_some_and(|text| !text.is_empty()));
                self.parsed(value.flatten())
            }
            Source::Joined { field: name, .. } => self.parsed(self.joined(row, name)),
            Source::Rate(name) => self.rate(row, name, number(table, row, name)),
            Source::RateOf { field: name, .. } => {
                let now = self.joined(row, name).and_then(|value| value.parse().ok());
                self.rate(row, name, now)
            }
            Source::ServerState => {
                let activity = self.joined(row, "activity");
                // A client that waits has this server in view only, and one that has left shows none.
                let activity = activity.filter(|activity| !matches!(*activity, "idle" | "waiting"));
                Value::text(activity.or_else(|| field(table, row, "state")))
            }
            Source::Timed => self.timed(row),
            Source::Wait(names) => micros(table, row, names).map_or(Value::Unknown, Value::Number),
        }
    }

    fn parsed(&self, value: Option<&str>) -> Value {
        if self.is_number {
            Value::number(value)
        } else {
            Value::text(value)
        }
    }

    fn joined(&self, row: &Row, name: &str) -> Option<&str> {
        let other = self.other.as_ref()?;
        field(other.table, other.row(row)?, name)
    }

    fn rate(&self, row: &Row, name: &str, now: Option<f64>) -> Value {
        let before = self.before.as_ref();
        before.map_or(Value::Unknown, |before| before.rate(row, name, now))
    }

    /// Duration of the query, of the step in a transaction, or of the session.
    fn timed(&self, row: &Row) -> Value {
        let table = self.table;
        if self.scene.timed == Timed::Session {
            return self.age(field(table, row, "connect_time"));
        }
        let own = |name: &str| field(table, row, name);
        let activity = own("activity").or_else(|| self.joined(row, "activity"));
        let lasts = own("activity_us").or_else(|| self.joined(row, "activity_us"));
        match (self.scene.timed, activity, own("state")) {
            (_, Some("in query" | "waiting"), _)
            | (Timed::Xact, Some("idle in transaction"), _) => Value::number(lasts),
            (_, Some(_), _) => Value::Unknown,
            (_, None, Some("waiting")) => {
                micros(table, row, ["wait", "wait_us"]).map_or(Value::Unknown, Value::Number)
            }
            // PgBouncer does not tell when the transaction began: it is at least as old as its last request.
            (_, None, Some("active")) => self.age(own("request_time")),
            _ => Value::Unknown,
        }
    }

    /// Microseconds since a timestamp such as `2026-11-27 14:06:39 UTC`. Its zone is UTC or that of this machine, else
    /// the age is unknown.
    fn age(&self, timestamp: Option<&str>) -> Value {
        let Some((time, zone)) = timestamp.and_then(|text| text.rsplit_once(' ')) else {
            return Value::Unknown;
        };
        let Ok(time) = DateTime::strptime("%Y-%m-%d %H:%M:%S", time) else {
            return Value::Unknown;
        };
        let at = if matches!(zone, "UTC" | "GMT") {
            time.to_zoned(TimeZone::UTC)
        } else {
            time.to_zoned(self.scene.zone.clone())
        };
        let at = at
            .ok()
            .filter(|at| matches!(zone, "UTC" | "GMT") || at.strftime("%Z").to_string() == zone);
        let seconds = at.map(|at| self.scene.wall.duration_since(at.timestamp()).as_secs_f64());
        // Whole seconds, as the timestamps are; clocks may differ a little.
        seconds.map_or(Value::Unknown, |seconds| {
            Value::Number(seconds.floor().max(0.0) * 1e6)
        })
    }
}
