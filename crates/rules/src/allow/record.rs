//! Lists of statements, and the record of those that were seen besides.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_sql::Fingerprint;

use super::entry::{Entry, Known};

/// Maximum number of statements in the record of a user.
const STATEMENTS_MAX: usize = 10_000;

/// Maximum size of the texts in the record of a user, in bytes.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// List of the statements that a user may run, as it was reviewed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatementList(BTreeMap<Known, Entry>);

/// Relation of a recorded statement to the policies of its user, the last one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The statement was not in the list and was learnt.
    Learnt,
    /// The statement was not in the list, ran, and was reported.
    Warned,
    /// The statement was refused.
    Refused,
}

/// Statement of a record.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Identity of the statement.
    pub known: Known,
    /// The statement.
    pub entry: Arc<Entry>,
    /// Treatment of the statement.
    pub standing: Standing,
}

/// Counts of a user's record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Statements in the record.
    pub recorded: u64,
    /// Statements that found no room in the record, some of them counted several times.
    pub left_out: u64,
    /// Executions of statements that were not in the list, with the policy `warn`.
    pub warned: u64,
    /// Refused statements.
    pub refused: u64,
    /// Statements that were not read: too long, or calls of functions by the protocol.
    pub unread: u64,
}

/// Statements of one user that were not in the list, shared by all workers. Only statements that are new to a worker touch its
/// lock.
#[derive(Debug, Default)]
pub struct Record {
    state: Mutex<State>,
    warned: AtomicU64,
    refused: AtomicU64,
    unread: AtomicU64,
}

/// Result of looking for a statement in a record.
pub(super) enum Looked {
    /// The record has no room for it.
    Full,
    /// The record has it, with this fingerprint.
    Known(Option<Fingerprint>),
    New,
}

#[derive(Debug, Default)]
struct State {
    statements: BTreeMap<Known, (Arc<Entry>, Standing)>,
    bytes: usize,
    left_out: u64,
}

impl StatementList {
    /// Adds a statement. False if the list had it.
    pub fn insert(&mut self, known: Known, entry: Entry) -> bool {
        self.0.insert(known, entry).is_none()
    }

    /// True if the list has the statement.
    #[must_use]
    pub fn contains(&self, known: &Known) -> bool {
        self.0.contains_key(known)
    }

    /// Number of statements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the list has no statements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the statements.
    pub fn iter(&self) -> impl Iterator<Item = (&Known, &Entry)> {
        self.0.iter()
    }
}

impl Standing {
    /// Name in answers of the console.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Learnt => "learnt",
            Self::Warned => "warned",
            Self::Refused => "refused",
        }
    }
}

impl Record {
    /// Looks a statement up.
    pub(super) fn find(&self, known: &Known) -> Looked {
        let state = self.state();
        match state.statements.get(known) {
            Some((entry, _)) => Looked::Known(entry.fingerprint),
            None if state.statements.len() >= STATEMENTS_MAX => Looked::Full,
            None if state.bytes >= BYTES_MAX => Looked::Full,
            None => Looked::New,
        }
    }

    /// Records a statement. False if it had the same standing before, or there is no room.
    pub(super) fn add(&self, known: Known, entry: &Entry, standing: Standing) -> bool {
        let mut state = self.state();
        if let Some((_, before)) = state.statements.get_mut(&known) {
            return std::mem::replace(before, standing) != standing;
        }
        let bytes = state.bytes + entry.text.len();
        if state.statements.len() >= STATEMENTS_MAX || bytes > BYTES_MAX {
            state.left_out += 1;
            return false;
        }
        state.bytes = bytes;
        let entry = Arc::new(entry.clone());
        state.statements.insert(known, (entry, standing));
        true
    }

    pub(super) fn count_warned(&self) {
        self.warned.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_unread(&self) {
        self.unread.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the recorded statements.
    #[must_use]
    pub fn statements(&self) -> Vec<Recorded> {
        let state = self.state();
        let statements = state.statements.iter();
        let recorded = statements.map(|(known, (entry, standing))| Recorded {
            known: *known,
            entry: Arc::clone(entry),
            standing: *standing,
        });
        recorded.collect()
    }

    /// Returns the counts.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let (recorded, left_out) = {
            let state = self.state();
            (state.statements.len() as u64, state.left_out)
        };
        Totals {
            recorded,
            left_out,
            warned: self.warned.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            unread: self.unread.load(Ordering::Relaxed),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in this module panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
