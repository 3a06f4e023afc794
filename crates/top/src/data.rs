//! Answers of the console that are kept to be shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_proxy::blocking::Table;

use crate::clock::Moment;
use crate::question::Question;

/// Answer to a question: a table, or the message of the server's error.
pub(crate) type Reply = Result<Arc<Table>, String>;

/// A table with the time at which it was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Dated {
    pub(crate) table: Arc<Table>,
    pub(crate) at: Duration,
}

/// Latest answer to a question.
#[derive(Debug, Clone)]
struct Kept {
    reply: Reply,
    /// Time at which the reply was asked for.
    at: Duration,
    /// Table before this one, for rates.
    before: Option<Dated>,
}

/// Latest answers to all questions asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Data {
    replies: BTreeMap<Question, Kept>,
    /// Time of the latest answers.
    at: Option<Moment>,
}

impl Data {
    /// Replaces the answers to these questions.
    pub(crate) fn add(&mut self, at: Moment, replies: Vec<(Question, Reply)>) {
        self.at = Some(at);
        for (question, reply) in replies {
            let before = self.replies.remove(&question);
            let before = before.and_then(|kept| {
                let table = kept.reply.ok()?;
                Some(Dated { table, at: kept.at })
            });
            let at = at.since;
            self.replies.insert(question, Kept { reply, at, before });
        }
    }

    /// Forgets the answers to all questions but these.
    pub(crate) fn keep(&mut self, questions: &[Question]) {
        self.replies
            .retain(|question, _| questions.contains(question));
    }

    /// Time of the latest answers.
    pub(crate) const fn at(&self) -> Option<Moment> {
        self.at
    }

    /// Table of a question, unless it was refused or is not there yet.
    pub(crate) fn table(&self, question: Question) -> Option<&Table> {
        let kept = self.replies.get(&question)?;
        kept.reply.as_deref().ok()
    }

    /// Latest table with its time, and the table before it.
    pub(crate) fn pair(&self, question: Question) -> Option<(Dated, Option<&Dated>)> {
        let kept = self.replies.get(&question)?;
        let table = kept.reply.as_ref().ok()?.clone();
        Some((Dated { table, at: kept.at }, kept.before.as_ref()))
    }

    /// Message with which the server has refused a question.
    pub(crate) fn refusal(&self, question: Question) -> Option<&str> {
        let kept = self.replies.get(&question)?;
        kept.reply.as_ref().err().map(String::as_str)
    }
}

/// Place of the column of this name.
pub(crate) fn place(table: &Table, name: &str) -> Option<usize> {
    table.columns.iter().position(|column| column == name)
}

/// Value of a row in the column of this name; `None` if there is no such column, or NULL.
pub(crate) fn field<'a>(table: &Table, row: &'a [Option<String>], name: &str) -> Option<&'a str> {
    row.get(place(table, name)?)?.as_deref()
}

/// Number in a row in the column of this name.
pub(crate) fn number(table: &Table, row: &[Option<String>], name: &str) -> Option<f64> {
    field(table, row, name)?.parse().ok()
}

/// Duration in microseconds of which one column has the whole seconds and another the rest.
pub(crate) fn micros(
    table: &Table,
    row: &[Option<String>],
    [whole, rest]: [&str; 2],
) -> Option<f64> {
    let rest = number(table, row, rest).unwrap_or_default();
    Some(number(table, row, whole)? * 1e6 + rest)
}

/// Database of the console itself, whose figures are those of whoever looks.
pub(crate) fn is_console(database: &str) -> bool {
    database == "pgbouncer" || database == "weir"
}
