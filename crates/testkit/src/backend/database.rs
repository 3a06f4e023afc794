//! What sessions of one database share: advisory locks, sequences, channels, and tables that change their shape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One database; clones are the same one.
///
/// Some things are there without being made: schemas `one`, `two` (table `place` with a column `name text`) and `three`
/// (the same with an int), tables `shape_*` in `public` with a column `v text`, `public.sink` for COPY and INSERT, and sequences of
/// any name.
#[derive(Debug, Clone, Default)]
pub struct Database(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
pub(super) struct Shared {
    sessions: u64,
    /// By key.
    pub(super) locks: BTreeMap<i64, Lock>,
    sequences: BTreeMap<String, i64>,
    /// Tables whose column is an int by now.
    pub(super) ints: BTreeSet<String>,
    pub(super) listeners: BTreeMap<u64, BTreeSet<String>>,
    pub(super) letters: BTreeMap<u64, Vec<Letter>>,
    pub(super) ledger: Vec<String>,
    /// Roles that nobody may become, and values that no setting takes any more.
    pub(super) forbidden: BTreeSet<String>,
}

/// Who holds an advisory lock, and how often in each way.
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

/// One notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter {
    /// The process that said it.
    pub(super) process: u32,
    pub(super) channel: String,
    pub(super) payload: String,
}

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
        shared.locks.retain(|_, lock| lock.holder != session);
        shared.listeners.remove(&session);
        shared.letters.remove(&session);
    }

    /// The committed rows of `public.sink` that begin with this, in the order of the commits.
    pub fn ledger(&self, tag: &str) -> Vec<String> {
        let shared = self.shared();
        let own = shared.ledger.iter().filter(|row| row.starts_with(tag));
        own.cloned().collect()
    }

    /// From now on nobody may become this role, or no setting takes this value.
    pub fn forbid(&self, what: &str) {
        self.shared().forbidden.insert(what.to_owned());
    }

    /// Takes back all that was forbidden.
    pub fn allow_everything(&self) {
        self.shared().forbidden.clear();
    }

    /// How many advisory locks are held, by anybody.
    pub fn locks(&self) -> usize {
        self.shared().locks.len()
    }
}

impl Shared {
    /// Takes a lock once more; false if somebody else has it.
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

    /// Gives it back once; false if the session has not got it, but perhaps the transaction.
    pub(super) fn unlock(&mut self, key: i64, session: u64) -> bool {
        let lock = self.locks.get_mut(&key);
        let Some(lock) = lock.filter(|lock| lock.holder == session && lock.session > 0) else {
            return false;
        };
        lock.session -= 1;
        self.locks.retain(|_, lock| lock.is_held());
        true
    }

    /// The transaction that took it once is over.
    pub(super) fn unlock_transaction(&mut self, key: i64) {
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.transaction = lock.transaction.saturating_sub(1);
        }
        self.locks.retain(|_, lock| lock.is_held());
    }

    /// Those of the transaction stay.
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

    /// Delivers to all that listen.
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
