//! Prepared statements: one shared identity per text and parameter types, and which of them a server holds.
//!
//! A statement is found by a keyed hash but always compared by its full bytes (text and type oids), so that no two
//! statements can be taken for each other. Its name on servers is ours and unique in the process; clients never see it.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lru::LruCache;

/// Below so many statements the registry does not look for ones that nobody uses any more.
const SWEEP_MIN: usize = 1024;

/// A statement known to this worker.
#[derive(Debug)]
pub struct Statement {
    /// Unique in the process.
    pub id: u64,
    /// Its name on every server: `weir_` and the id.
    pub name: Box<[u8]>,
    /// The Parse message after the name: text, NUL, number of parameter types, their oids.
    pub body: Box<[u8]>,
}

#[derive(Debug)]
struct ByBody(Arc<Statement>);

impl Borrow<[u8]> for ByBody {
    fn borrow(&self) -> &[u8] {
        &self.0.body
    }
}

impl Hash for ByBody {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.body.hash(state);
    }
}

impl PartialEq for ByBody {
    fn eq(&self, other: &Self) -> bool {
        self.0.body == other.0.body
    }
}

impl Eq for ByBody {}

// === Registry ===

/// All statements of one worker. Bounded by what clients and servers refer to: unused entries are swept away.
#[derive(Debug)]
pub struct Registry {
    known: HashSet<ByBody>,
    next: u64,
    step: u64,
    sweep_at: usize,
}

impl Registry {
    /// Of worker `lane` out of `lanes`; ids of different workers never meet.
    pub fn new(lane: usize, lanes: usize) -> Self {
        Self {
            known: HashSet::new(),
            next: lane as u64,
            step: lanes.max(1) as u64,
            sweep_at: SWEEP_MIN,
        }
    }

    /// The one statement with this body (the Parse message after the name).
    pub fn intern(&mut self, body: &[u8]) -> Arc<Statement> {
        if let Some(known) = self.known.get(body) {
            return Arc::clone(&known.0);
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|entry| Arc::strong_count(&entry.0) > 1);
            self.sweep_at = (2 * self.known.len()).max(SWEEP_MIN);
        }
        let id = self.serial();
        let name = format!("weir_{id}").into_bytes().into_boxed_slice();
        let statement = Arc::new(Statement {
            id,
            name,
            body: body.into(),
        });
        self.known.insert(ByBody(Arc::clone(&statement)));
        statement
    }

    /// A number that nothing else in the process has.
    pub(crate) fn serial(&mut self) -> u64 {
        self.next += self.step;
        self.next
    }

    /// How many statements are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

// === Prepared ===

/// What one server has prepared, least recently used first.
///
/// Entries are added when the Parse is *sent*; whoever learns that it failed takes the entry out again.
#[derive(Debug)]
pub struct Prepared {
    held: LruCache<u64, Arc<Statement>>,
}

impl Default for Prepared {
    fn default() -> Self {
        Self {
            held: LruCache::unbounded(),
        }
    }
}

impl Prepared {
    /// Whether the server has it; if so it becomes the most recently used.
    pub fn touch(&mut self, statement: &Statement) -> bool {
        self.held.get(&statement.id).is_some()
    }

    /// Adds one; returns the least recently used ones that have to go so that at most `max` are held.
    pub fn add(
        &mut self,
        statement: &Arc<Statement>,
        max: usize,
    ) -> impl Iterator<Item = Arc<Statement>> {
        self.held.put(statement.id, Arc::clone(statement));
        let excess = self.held.len().saturating_sub(max.max(1));
        std::iter::from_fn(move || self.held.pop_lru().map(|(_, old)| old)).take(excess)
    }

    /// Puts one back that turned out not to be closed. May exceed the maximum until the next [`Prepared::add`].
    pub fn restore(&mut self, statement: Arc<Statement>) {
        self.held.put(statement.id, statement);
    }

    /// Takes one out.
    pub fn remove(&mut self, statement: &Statement) {
        self.held.pop(&statement.id);
    }

    /// The server has dropped all of them.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// All of them, most recently used first.
    pub fn iter(&self) -> impl Iterator<Item = &Statement> {
        self.held.iter().map(|(_, statement)| &**statement)
    }

    /// How many the server has.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether the server has none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_body_is_the_same_statement_and_another_is_not() {
        let mut registry = Registry::new(0, 1);
        let one = registry.intern(b"select 1\0\0\0");
        assert!(Arc::ptr_eq(&one, &registry.intern(b"select 1\0\0\0")));
        assert_ne!(one.id, registry.intern(b"select 1\0\0\x01\0\0\0\x17").id);
    }

    #[test]
    fn names_of_two_workers_never_meet() {
        let (mut a, mut b) = (Registry::new(0, 2), Registry::new(1, 2));
        let names = [
            a.intern(b"x\0"),
            a.intern(b"y\0"),
            b.intern(b"x\0"),
            b.intern(b"y\0"),
        ];
        let distinct: HashSet<_> = names.iter().map(|s| s.name.clone()).collect();
        assert_eq!(distinct.len(), 4);
    }

    #[test]
    fn statements_that_nobody_uses_are_swept_away() {
        let mut registry = Registry::new(0, 1);
        let kept = registry.intern(b"kept\0");
        for i in 0..10 * SWEEP_MIN {
            registry.intern(format!("{i}\0").as_bytes());
        }
        assert!(registry.len() <= SWEEP_MIN + 1, "{}", registry.len());
        assert!(Arc::ptr_eq(&kept, &registry.intern(b"kept\0")));
    }

    #[test]
    fn the_least_recently_used_statement_goes_first() {
        let mut registry = Registry::new(0, 1);
        let (a, b, c) = (
            registry.intern(b"a\0"),
            registry.intern(b"b\0"),
            registry.intern(b"c\0"),
        );
        let mut prepared = Prepared::default();
        assert_eq!(prepared.add(&a, 2).count(), 0);
        assert_eq!(prepared.add(&b, 2).count(), 0);
        assert!(prepared.touch(&a));
        let gone: Vec<_> = prepared.add(&c, 2).map(|s| s.id).collect();
        assert_eq!(gone, [b.id]);
    }
}
