//! What sessions of one database share: advisory locks, sequences, channels, and tables that change their shape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One database; clones are the same one.
///
/// Some things are there without being made: schemas `one`, `two` (table `place` with a column `name text`) and `three`
/// (the same with an int), tables `shape_*` in `public` with a column `v text`, `public.sink` for COPY, and sequences of
/// any name.
#[derive(Debug, Clone, Default)]
pub struct Database(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
pub(super) struct Shared {
    sessions: u64,
    /// By key: the session, and how often it holds it.
    pub(super) locks: BTreeMap<i64, (u64, usize)>,
    sequences: BTreeMap<String, i64>,
    /// Tables whose column is an int by now.
    pub(super) ints: BTreeSet<String>,
    pub(super) listeners: BTreeMap<u64, BTreeSet<String>>,
    pub(super) letters: BTreeMap<u64, Vec<Letter>>,
}

/// One notification: channel and payload.
pub(super) type Letter = (String, String);

impl Database {
    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for one more session.
    pub(super) fn enter(&self) -> u64 {
        let mut shared = self.shared();
        shared.sessions += 1;
        shared.sessions
    }

    /// Nothing is left of a session.
    pub(super) fn leave(&self, session: u64) {
        let mut shared = self.shared();
        shared.locks.retain(|_, (holder, _)| *holder != session);
        shared.listeners.remove(&session);
        shared.letters.remove(&session);
    }

    /// How many advisory locks are held, by anybody.
    pub fn locks(&self) -> usize {
        self.shared().locks.len()
    }
}

impl Shared {
    /// Takes a lock once more; false if somebody else has it.
    pub(super) fn lock(&mut self, key: i64, session: u64) -> bool {
        let (holder, count) = self.locks.entry(key).or_insert((session, 0));
        let is_ours = *holder == session;
        *count += usize::from(is_ours);
        is_ours
    }

    /// Gives it back once; false if the session has not got it.
    pub(super) fn unlock(&mut self, key: i64, session: u64) -> bool {
        let Some((holder, count)) = self.locks.get_mut(&key) else {
            return false;
        };
        if *holder != session {
            return false;
        }
        *count -= 1;
        if *count == 0 {
            self.locks.remove(&key);
        }
        true
    }

    pub(super) fn locks_of(&self, session: u64) -> impl Iterator<Item = i64> {
        let own = self.locks.iter();
        own.filter(move |(_, (holder, _))| *holder == session)
            .map(|(key, _)| *key)
    }

    pub(super) fn nextval(&mut self, sequence: &str) -> i64 {
        let value = self.sequences.entry(sequence.to_owned()).or_default();
        *value += 1;
        *value
    }

    /// Delivers to all that listen.
    pub(super) fn notify(&mut self, letter: &Letter) {
        for (session, channels) in &self.listeners {
            if channels.contains(&letter.0) {
                self.letters
                    .entry(*session)
                    .or_default()
                    .push(letter.clone());
            }
        }
    }
}
