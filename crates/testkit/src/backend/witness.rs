//! Records the session's state at each statement that identifies its client, for checkers.

use std::fmt::Write;

use super::Backend;
use super::sql::{Select, Sql};

/// Record of an executed statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// The statement, as readable text.
    pub statement: String,
    /// [`Backend::visible_state`] when the statement began.
    pub state: Vec<String>,
}

/// Records since the last call that took them; none unless recording is on.
#[derive(Debug, Default)]
pub(super) struct Witness(Option<Vec<Sight>>);

impl Backend {
    /// Starts recording for [`Backend::take_sights`].
    pub fn watch(&mut self) {
        self.witness.0.get_or_insert_default();
    }

    /// Returns the statements since the last call that read or wrote rows which identify their
    /// client.
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

    /// Records rows of COPY FROM STDIN.
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
