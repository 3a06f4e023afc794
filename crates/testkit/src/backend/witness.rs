//! Remembers the session's state at each statement that shows whose it is, for checkers.

use std::fmt::Write;

use super::Backend;
use super::sql::{Select, Sql};

/// A statement ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// The statement, as text for people.
    pub statement: String,
    /// [`Backend::visible_state`] when it began.
    pub state: Vec<String>,
}

/// Sights since they were taken.
#[derive(Debug, Default)]
pub(super) struct Witness(Option<Vec<Sight>>);

impl Backend {
    /// From now on [`Backend::take_sights`] has something to give.
    pub fn watch(&mut self) {
        self.witness.0.get_or_insert_default();
    }

    /// Statements that read or write rows of somebody's own and that ran since the last call.
    pub fn take_sights(&mut self) -> Vec<Sight> {
        self.witness
            .0
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    pub(super) fn see(&mut self, sql: &Sql) {
        let text = match sql {
            _ if self.witness.0.is_none() => return,
            Sql::Insert(_, value) | Sql::Select(Select::Literal(value)) => value,
            Sql::CopyOut { what, .. } | Sql::Select(Select::Series(_, what)) => what,
            _ => return,
        };
        let mut statement = String::new();
        let kind = match sql {
            Sql::Insert(..) => "insert",
            Sql::CopyOut { .. } => "copy",
            _ => "select",
        };
        let shown = text.get(..40).unwrap_or(text);
        // Writing to a String cannot fail.
        let _ = write!(statement, "{shown} {kind}");
        let state = self.visible_state();
        if let Some(sights) = &mut self.witness.0 {
            sights.push(Sight { statement, state });
        }
    }

    /// Rows of COPY FROM STDIN.
    pub(super) fn see_rows(&mut self, lines: &[String]) {
        if let Some(first) = lines.first() {
            let name = super::sql::Name {
                schema: None,
                table: String::new(),
            };
            self.see(&Sql::Insert(name, first.clone()));
        }
    }
}
