//! State that the sessions of one database share: advisory locks, sequences, channels, and tables that change their
//! shape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::resolved::{Number, Pending};

/// A database; clones refer to the same database.
///
/// Some objects always exist: schemas `one`, `two` (table `place` with a column `name text`) and `three` (the same
/// table with an int), tables `shape_*` in `public` with a column `v text`, `public.sink` for COPY and INSERT, and
/// sequences of any name. Tables `kind_*` and the views `spot` are for statements that are resolved when they are
/// parsed.
#[derive(Debug, Clone, Default)]
pub struct Database(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
pub(super) struct Shared {
    sessions: u64,
    /// Locks by key.
    pub(super) locks: BTreeMap<i64, Lock>,
    sequences: BTreeMap<String, i64>,
    /// Tables whose column is an int now.
    pub(super) ints: BTreeSet<String>,
    pub(super) listeners: BTreeMap<u64, BTreeSet<String>>,
    pub(super) letters: BTreeMap<u64, Vec<Letter>>,
    pub(super) ledger: Vec<String>,
    /// Types that the column of each table `kind_*` has had, the current type last; without an entry it is an
    /// integer.
    numbers: BTreeMap<String, Vec<Number>>,
    /// Numbers of the committed views `ann.spot`, the current one last; `None` where there was no view.
    views: Vec<Option<u64>>,
    /// Number of the view that was created last.
    view_last: u64,
    /// Session whose transaction changes the view.
    view_owner: Option<u64>,
    /// Roles that no session may become, and values that no setting accepts any more.
    pub(super) forbidden: BTreeSet<String>,
}

/// Holder of an advisory lock, and how many times the session and its transaction hold it.
#[derive(Debug)]
pub(super) struct Lock {
    holder: u64,
    session: usize,
    transaction: usize,
}

impl Lock {
    fn is_held(&self) -> bool {
        self.session + self.transaction > 0
    }
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter {
    /// Process that sent it.
    pub(super) process: u32,
    pub(super) channel: String,
    pub(super) payload: String,
}

impl Database {
    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number for a new session.
    pub(super) fn enter(&self) -> u64 {
        let mut shared = self.shared();
        shared.sessions += 1;
        shared.sessions
    }

    /// Removes all shared state of a session.
    pub(super) fn leave(&self, session: u64) {
        let mut shared = self.shared();
        shared.locks.retain(|_, lock| lock.holder != session);
        shared.listeners.remove(&session);
        shared.letters.remove(&session);
        shared.unlock_view(session);
    }

    /// Returns the types that the column of this table has had, in order, the current type last.
    pub fn numbers(&self, table: &str) -> Vec<Number> {
        let shared = self.shared();
        let changed = shared.numbers.get(table).into_iter().flatten();
        [Number::Integer].iter().chain(changed).copied().collect()
    }

    /// Returns for each change, in order, if there was a view `ann.spot`; the current state is last.
    pub fn views(&self) -> Vec<bool> {
        let shared = self.shared();
        let changed = shared.views.iter().map(Option::is_some);
        [false].into_iter().chain(changed).collect()
    }

    /// Changes the type of a table's column, as a session outside the model.
    pub fn retype(&self, table: &str, number: Number) {
        self.shared().retype(table, number);
    }

    /// Creates or drops the view `ann.spot`, as a session outside the model. False if a transaction is changing it.
    pub fn change_view(&self) -> bool {
        let mut shared = self.shared();
        // No session has this number.
        let Some(number) = shared.lock_view(0) else {
            return false;
        };
        let pending = match shared.view() {
            None => Pending::Made(number),
            Some(_) => Pending::Dropped,
        };
        shared.commit_view(pending);
        shared.unlock_view(0);
        true
    }

    /// Committed rows of `public.sink` that begin with `tag`, in the order of the commits.
    pub fn ledger(&self, tag: &str) -> Vec<String> {
        let shared = self.shared();
        let own = shared.ledger.iter().filter(|row| row.starts_with(tag));
        own.cloned().collect()
    }

    /// Forbids this role, or this value of a setting, to all sessions from now on.
    pub fn forbid(&self, what: &str) {
        self.shared().forbidden.insert(what.to_owned());
    }

    /// Revokes all prohibitions.
    pub fn allow_everything(&self) {
        self.shared().forbidden.clear();
    }

    /// Number of advisory locks held by all sessions.
    pub fn locks(&self) -> usize {
        self.shared().locks.len()
    }
}

impl Shared {
    /// Takes a lock once more; false if another session holds it.
    pub(super) fn lock(&mut self, key: i64, session: u64, for_transaction: bool) -> bool {
        let lock = self.locks.entry(key).or_insert(Lock {
            holder: session,
            session: 0,
            transaction: 0,
        });
        let is_ours = lock.holder == session;
        if for_transaction {
            lock.transaction += usize::from(is_ours);
        } else {
            lock.session += usize::from(is_ours);
        }
        is_ours
    }

    /// Releases a lock once; false if the session does not hold it, even if its transaction does.
    pub(super) fn unlock(&mut self, key: i64, session: u64) -> bool {
        let lock = self.locks.get_mut(&key);
        let Some(lock) = lock.filter(|lock| lock.holder == session && lock.session > 0) else {
            return false;
        };
        lock.session -= 1;
        self.locks.retain(|_, lock| lock.is_held());
        true
    }

    /// Releases a lock that an ended transaction took once.
    pub(super) fn unlock_transaction(&mut self, key: i64) {
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.transaction = lock.transaction.saturating_sub(1);
        }
        self.locks.retain(|_, lock| lock.is_held());
    }

    /// Releases all locks that the session took; locks of its transaction stay.
    pub(super) fn unlock_all(&mut self, session: u64) {
        self.locks.retain(|_, lock| {
            if lock.holder == session {
                lock.session = 0;
            }
            lock.is_held()
        });
    }

    pub(super) fn locks_of(&self, session: u64) -> impl Iterator<Item = i64> {
        let own = self.locks.iter();
        own.filter(move |(_, lock)| lock.holder == session)
            .map(|(key, _)| *key)
    }

    pub(super) fn nextval(&mut self, sequence: &str) -> i64 {
        let value = self.sequences.entry(sequence.to_owned()).or_default();
        *value += 1;
        *value
    }

    pub(super) fn number_of(&self, table: &str) -> Number {
        let last = self.numbers.get(table).and_then(|all| all.last());
        last.copied().unwrap_or(Number::Integer)
    }

    pub(super) fn retype(&mut self, table: &str, number: Number) {
        let all = self.numbers.entry(table.to_owned()).or_default();
        all.push(number);
    }

    /// Number of the committed view `ann.spot`.
    pub(super) fn view(&self) -> Option<u64> {
        self.views.last().copied().flatten()
    }

    /// Locks the view for this session's transaction and returns a number for a new view; none if another session has
    /// it.
    pub(super) fn lock_view(&mut self, session: u64) -> Option<u64> {
        if *self.view_owner.get_or_insert(session) != session {
            return None;
        }
        self.view_last += 1;
        Some(self.view_last)
    }

    pub(super) fn unlock_view(&mut self, session: u64) {
        self.view_owner.take_if(|owner| *owner == session);
    }

    pub(super) fn commit_view(&mut self, pending: Pending) {
        self.views.push(match pending {
            Pending::Dropped => None,
            Pending::Made(number) => Some(number),
        });
    }

    /// Delivers a notification to all listening sessions.
    pub(super) fn notify(&mut self, letter: &Letter) {
        for (session, channels) in &self.listeners {
            if channels.contains(&letter.channel) {
                self.letters
                    .entry(*session)
                    .or_default()
                    .push(letter.clone());
            }
        }
    }
}
