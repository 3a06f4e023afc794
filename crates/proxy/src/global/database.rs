//! Facts about a database that its pools share, for all users.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_pool::Moment;
use weir_session::custom::CustomNames;
use weir_sql::{Catalogue, Definition};

use super::lock;

/// Maximum number of definitions kept until the catalogue shows them; beyond it the oldest are dropped.
const DEFINED_MAX: usize = 512;
/// Time after which a definition that the catalogue does not show was rolled back or replaced by another one.
const DEFINED_FOR: Duration = Duration::from_secs(600);

/// State of one database, shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct DatabaseState {
    /// Names of custom settings seen in the database.
    pub(crate) names: CustomNames,
    /// Version of the catalogue; 0 = none was read.
    generation: AtomicU64,
    /// True if a server was asked for the catalogue, whether it could answer or not.
    is_loaded: AtomicBool,
    /// Time of the next query for changes of the catalogue, in microseconds.
    next_look: AtomicU64,
    /// Time at which a client last changed objects, in microseconds.
    expired_at: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Catalogue as a server returned it.
    loaded: Arc<Catalogue>,
    /// Code that clients have defined since the catalogue was read, and the time of each definition.
    defined: Vec<(Definition, Moment)>,
    /// Catalogue extended by that code.
    current: Arc<Catalogue>,
}

impl DatabaseState {
    /// Returns the generation of the catalogue; 0 = none was read.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// True if a server was asked for the catalogue, whether it could answer or not.
    pub(crate) fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Acquire)
    }

    /// Forgets that the catalogue was read, since the database has moved: the next server reads it before use.
    pub(crate) fn forget(&self) {
        self.is_loaded.store(false, Ordering::Release);
    }

    /// Returns the catalogue and its generation.
    pub(crate) fn catalogue(&self) -> (Arc<Catalogue>, u64) {
        let known = lock(&self.known);
        (Arc::clone(&known.current), self.generation())
    }

    /// Returns the version of the database's objects at the last read.
    pub(crate) fn stamp(&self) -> Box<[u8]> {
        lock(&self.known).loaded.stamp().into()
    }

    /// True if the next query for changes is due; for one caller per interval only.
    #[inline]
    pub(crate) fn is_look_due(&self, now: Moment, every: Duration) -> bool {
        let due = self.next_look.load(Ordering::Relaxed);
        due <= now.0 && self.take_look(due, now.plus(every))
    }

    /// True if the next query for changes is due, for whichever server goes back to its pool next.
    pub(crate) fn wants_look(&self, now: Moment) -> bool {
        self.next_look.load(Ordering::Relaxed) <= now.0
    }

    /// Makes the next query for changes due at once.
    pub(crate) fn expire(&self, now: Moment) {
        self.expired_at.fetch_max(now.0, Ordering::Relaxed);
        self.next_look.store(0, Ordering::Relaxed);
    }

    /// Returns the time at which a client last changed objects, or zero.
    pub(crate) fn expired_at(&self) -> Moment {
        Moment(self.expired_at.load(Ordering::Relaxed))
    }

    #[cold]
    fn take_look(&self, due: u64, next: Moment) -> bool {
        let order = Ordering::Relaxed;
        (self.next_look)
            .compare_exchange(due, next.0, order, order)
            .is_ok()
    }

    /// Stores the catalogue that a server returned; `None` if it could not answer, and the catalogue stays.
    pub(crate) fn learn(&self, catalogue: Option<Catalogue>, now: Moment, every: Duration) {
        self.next_look.store(now.plus(every).0, Ordering::Relaxed);
        let mut known = lock(&self.known);
        if let Some(catalogue) = catalogue {
            self.names.add(catalogue.settings());
            known.defined.retain(|(definition, at)| {
                !catalogue.covers(definition) && now.since(*at) < DEFINED_FOR
            });
            known.loaded = Arc::new(catalogue);
        }
        self.settle(&mut known);
        self.is_loaded.store(true, Ordering::Release);
    }

    /// Adds code that a client is about to define, and makes the next query for changes due at once.
    pub(crate) fn define(&self, definitions: Vec<Definition>, now: Moment) {
        let mut known = lock(&self.known);
        for definition in definitions {
            let is_known = |known: &Catalogue| known.covers(&definition);
            if is_known(&known.current) {
                continue;
            }
            let settings = definition.effects.asks.names.iter();
            self.names.add(settings.map(|name| &**name));
            if known.defined.len() >= DEFINED_MAX {
                known.defined.remove(0);
            }
            known.defined.push((definition, now));
        }
        self.next_look.store(0, Ordering::Relaxed);
        self.settle(&mut known);
    }

    fn settle(&self, known: &mut Known) {
        let defined = known.defined.iter().map(|(definition, _)| definition);
        let current = known.loaded.with(defined);
        if *known.current != current {
            known.current = Arc::new(current);
            self.generation.fetch_add(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(15);

    fn catalogue(rows: &[[&str; 5]]) -> Catalogue {
        let rows = rows.iter().map(|row| row.map(str::as_bytes));
        Catalogue::load(rows).unwrap()
    }

    fn definition(name: &str) -> Definition {
        let mut definition = Definition {
            names: vec![name.as_bytes().into()],
            ..Definition::default()
        };
        definition.effects.asks = weir_sql::Asks::of(["app.tenant"]);
        definition
    }

    #[test]
    fn one_of_all_workers_looks() {
        let database = DatabaseState::default();
        let now = Moment(5);
        assert!(database.is_look_due(now, EVERY));
        assert!(!database.is_look_due(now, EVERY));
        assert!(database.is_look_due(now.plus(EVERY), EVERY));
    }

    #[test]
    fn a_definition_counts_until_the_catalogue_shows_it() {
        let database = DatabaseState::default();
        database.learn(Some(catalogue(&[["H", "1", "", "", ""]])), Moment(1), EVERY);
        let before = database.generation();
        database.define(vec![definition("login")], Moment(2));
        assert!(database.generation() > before);
        assert!(database.is_look_due(Moment(3), EVERY), "at once");
        // Its transaction is not over yet.
        database.learn(Some(catalogue(&[["H", "1", "", "", ""]])), Moment(3), EVERY);
        assert_eq!(database.catalogue().0.len(), 1);
        let code = "begin set app.tenant = 'A'; end";
        let rows = [
            ["H", "2", "", "", ""],
            ["F", "p1", "login", "plpgsql", code],
        ];
        database.learn(Some(catalogue(&rows)), Moment(4), EVERY);
        assert_eq!(database.catalogue().0.len(), 1);
        let rows = [["H", "3", "", "", ""]];
        database.learn(Some(catalogue(&rows)), Moment(5), EVERY);
        assert!(database.catalogue().0.is_empty());
    }

    #[test]
    fn a_definition_that_came_to_nothing_is_forgotten_in_time() {
        let database = DatabaseState::default();
        database.define(vec![definition("login")], Moment(1));
        let later = Moment(1).plus(DEFINED_FOR);
        database.learn(Some(catalogue(&[["H", "1", "", "", ""]])), later, EVERY);
        assert!(database.catalogue().0.is_empty());
    }

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        let database = DatabaseState::default();
        database.learn(None, Moment(1), EVERY);
        assert!(database.is_loaded(), "it was tried");
        database.forget();
        assert!(!database.is_loaded());
        database.learn(None, Moment(1), EVERY);
        assert!(!database.is_look_due(Moment(2), EVERY));
    }
}
