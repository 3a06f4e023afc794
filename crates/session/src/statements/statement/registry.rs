//! All statements of one worker, found by text, parameter types and context.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use weir_sql::{Short, slot};

use super::planning::{self, Context, Contexts};
use super::proven::Proven;
use super::{NAME_PREFIX, Statement, is_roomy};
use crate::settings::Settings;

/// Number of statements below which unused ones are not looked for.
const SWEEP_MIN: usize = 1024;

/// Lookup key of a statement: id of its context, and its body.
trait Meaning {
    fn meaning(&self) -> (u64, &[u8]);
}

impl Meaning for (u64, &[u8]) {
    fn meaning(&self) -> (u64, &[u8]) {
        *self
    }
}

impl PartialEq for dyn Meaning + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.meaning() == other.meaning()
    }
}

impl Eq for dyn Meaning + '_ {}

impl Hash for dyn Meaning + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.meaning().hash(state);
    }
}

/// A statement that is looked up by meaning instead of id.
#[derive(Debug)]
struct ByMeaning(Arc<Statement>);

impl Meaning for ByMeaning {
    fn meaning(&self) -> (u64, &[u8]) {
        let context = self.0.context.as_ref();
        (context.map_or(0, |context| context.id), &self.0.body)
    }
}

impl<'a> Borrow<dyn Meaning + 'a> for ByMeaning {
    fn borrow(&self) -> &(dyn Meaning + 'a) {
        self
    }
}

impl Hash for ByMeaning {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.meaning().hash(state);
    }
}

impl PartialEq for ByMeaning {
    fn eq(&self, other: &Self) -> bool {
        self.meaning() == other.meaning()
    }
}

impl Eq for ByMeaning {}

/// Statements of one worker, see the module documentation. Bounded by what clients and servers refer to: unused entries
/// are swept.
#[derive(Debug)]
pub struct Registry {
    known: HashSet<ByMeaning>,
    contexts: Contexts,
    next: u64,
    step: u64,
    sweep_at: usize,
    nobody: Arc<Statement>,
    victim: Arc<Statement>,
    outdated: Arc<Statement>,
    taken: Arc<Statement>,
    /// Short texts of Parse messages; true if they may plan locally.
    local: Short<bool>,
}

impl Registry {
    /// Creates the registry of one of `workers` workers; ids of different workers are never equal.
    pub fn new(worker: usize, workers: usize) -> Self {
        let named = |name: &[u8]| {
            Arc::new(Statement {
                name: [NAME_PREFIX, name].concat().into(),
                ..Statement::new(0, b"", None)
            })
        };
        Self {
            known: HashSet::new(),
            contexts: Contexts::default(),
            next: worker as u64,
            step: workers.max(1) as u64,
            sweep_at: SWEEP_MIN,
            nobody: named(b"none"),
            victim: named(b"deallocate"),
            outdated: named(b"outdated"),
            taken: named(b"taken"),
            local: Short::default(),
        }
    }

    /// Does the same as [`planning::may_plan_locally`] for the text of a Parse, which programs repeat.
    #[inline]
    pub(crate) fn may_plan_locally(&mut self, text: &[u8]) -> bool {
        let place = slot(text);
        if let Some(known) = self.local.find(place, text) {
            return *known;
        }
        let is_local = planning::may_plan_locally(text);
        self.local.keep(place, text, is_local);
        is_local
    }

    /// Returns the context of a client of this pool with these settings.
    pub(crate) fn context(&mut self, settings: &Settings, pool: &Arc<Proven>) -> Arc<Context> {
        if self.contexts.is_full() {
            self.sweep();
            self.contexts.sweep();
        }
        self.contexts.intern(settings, pool)
    }

    /// Returns the shared statement with this body (the Parse message after the name) in this context.
    pub(crate) fn intern(&mut self, context: &Arc<Context>, body: &[u8]) -> Arc<Statement> {
        let meaning = (context.id, body);
        let known = self.known.get(&meaning as &dyn Meaning);
        if let Some(known) = known.filter(|known| !known.0.is_retired()) {
            return Arc::clone(&known.0);
        }
        self.known.take(&meaning as &dyn Meaning);
        if self.known.len() >= self.sweep_at {
            self.sweep();
        }
        let statement = Statement::new(self.serial(), body, Some(Arc::clone(context)));
        let statement = Arc::new(statement);
        self.known.insert(ByMeaning(Arc::clone(&statement)));
        statement
    }

    /// Returns the statement with the text, parameter types and columns of `like` in this context. This is the
    /// statement for new Parses of the text if its description is the same, otherwise one that is not shared.
    pub(crate) fn version(&mut self, context: &Arc<Context>, like: &Statement) -> Arc<Statement> {
        let current = self.intern(context, &like.body);
        let known = like.description();
        if known.is_none_or(|known| current.describe(&known.types, known.shape)) {
            return current;
        }
        let own = Statement::new(self.serial(), &like.body, Some(Arc::clone(context)));
        own.retire();
        Self::described(own, like)
    }

    /// Returns a private statement ([`Registry::private`]) with the parameter types and columns of `like`.
    pub(crate) fn private_version(&mut self, like: &Statement) -> Arc<Statement> {
        Self::described(Statement::new(self.serial(), &like.body, None), like)
    }

    fn described(own: Statement, like: &Statement) -> Arc<Statement> {
        if let Some(known) = like.description() {
            own.describe(&known.types, known.shape);
        }
        Arc::new(own)
    }

    /// Creates a statement that is not shared, because its meaning depends on unknown settings.
    pub(crate) fn private(&mut self, body: &[u8]) -> Arc<Statement> {
        Arc::new(Statement::new(self.serial(), body, None))
    }

    /// Forgets statements that no client or server refers to, and frees memory that a burst took. Called by a timer:
    /// the sweep on new statements misses those dropped after the last one.
    pub fn give_back(&mut self) {
        self.sweep();
        self.contexts.sweep();
    }

    fn sweep(&mut self) {
        self.known.retain(|entry| Arc::strong_count(&entry.0) > 1);
        if is_roomy(self.known.capacity(), self.known.len()) {
            self.known.shrink_to_fit();
        }
        self.sweep_at = (2 * self.known.len()).max(SWEEP_MIN);
    }

    /// Returns a number that is unique in the process.
    pub(crate) fn serial(&mut self) -> u64 {
        self.next += self.step;
        self.next
    }

    /// Returns a name that no server has a statement for.
    pub(crate) fn nobody(&self) -> Arc<Statement> {
        Arc::clone(&self.nobody)
    }

    /// Returns a name for a statement that only makes another Parse of that name fail.
    pub(crate) fn taken(&self) -> Arc<Statement> {
        Arc::clone(&self.taken)
    }

    /// Returns a name for a statement that is prepared only to be deallocated.
    pub(crate) fn victim(&self) -> Arc<Statement> {
        Arc::clone(&self.victim)
    }

    /// Returns the statement that is bound in place of one whose columns the client does not expect.
    pub(crate) fn outdated(&self) -> Arc<Statement> {
        Arc::clone(&self.outdated)
    }

    /// Number of known statements.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True if no statement is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    #[cfg(test)]
    pub(super) fn context_count(&self) -> usize {
        self.contexts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(registry: &mut Registry) -> Arc<Context> {
        registry.context(&Settings::default(), &Arc::default())
    }

    #[test]
    fn the_same_meaning_is_the_same_statement_and_another_is_not() {
        let mut registry = Registry::new(0, 1);
        let (here, there) = (plain(&mut registry), plain(&mut registry));
        let one = registry.intern(&here, b"select 1\0\0\0");
        assert!(Arc::ptr_eq(
            &one,
            &registry.intern(&here, b"select 1\0\0\0")
        ));
        let others = [
            registry.intern(&here, b"select 1\0\0\x01\0\0\0\x17"),
            registry.intern(&there, b"select 1\0\0\0"),
            registry.private(b"select 1\0\0\0"),
        ];
        assert!(others.iter().all(|other| other.id != one.id));
    }

    #[test]
    fn cor_16_a_text_that_is_described_in_another_way_is_another_statement() {
        let mut registry = Registry::new(0, 1);
        let context = plain(&mut registry);
        let old = registry.intern(&context, b"select $1\0\0\0");
        assert!(old.describe(&[0, 1, 0, 0, 0, 23], 7) && !old.describe(&[0, 1, 0, 0, 0, 25], 7));
        assert!(!old.describe(&[0, 1, 0, 0, 0, 23], 8));
        old.retire();
        let new = registry.intern(&context, b"select $1\0\0\0");
        assert_ne!(old.id, new.id);
        // A client with the old statement keeps it, and a client with another finds an equal one.
        assert!(new.is_of(&context) && old.is_of(&context));
        let told = |oid| super::super::Description {
            types: [0, 1, 0, 0, 0, oid].into(),
            shape: 7,
        };
        let apart = old.apart(Some(told(25)));
        let placed = registry.version(&context, &apart);
        assert!(Arc::ptr_eq(&placed, &new) && placed.description() == Some(&told(25)));
        let other = registry.version(&context, &old.apart(Some(told(26))));
        assert!(other.id != old.id && other.id != new.id);
        assert!(Arc::ptr_eq(
            &new,
            &registry.intern(&context, b"select $1\0\0\0")
        ));
    }

    #[test]
    fn names_of_two_workers_never_meet() {
        let (mut a, mut b) = (Registry::new(0, 2), Registry::new(1, 2));
        let (in_a, in_b) = (plain(&mut a), plain(&mut b));
        let names = [
            a.intern(&in_a, b"x\0"),
            a.intern(&in_a, b"y\0"),
            b.intern(&in_b, b"x\0"),
            b.intern(&in_b, b"y\0"),
            b.private(b"y\0"),
        ];
        let distinct: HashSet<_> = names.iter().map(|s| s.name.clone()).collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn a_burst_that_is_over_leaves_nothing_behind() {
        let mut registry = Registry::new(0, 1);
        let context = plain(&mut registry);
        let texts = (0..10 * SWEEP_MIN).map(|number| format!("{number}\0"));
        let burst: Vec<_> = texts
            .map(|text| registry.intern(&context, text.as_bytes()))
            .collect();
        let kept = Arc::clone(&burst[7]);
        drop(burst);
        registry.give_back();
        assert_eq!(registry.len(), 1);
        assert!(registry.known.capacity() < 64);
        assert!(Arc::ptr_eq(&kept, &registry.intern(&context, b"7\0")));
    }

    #[test]
    fn statements_that_nobody_uses_are_swept_away() {
        let mut registry = Registry::new(0, 1);
        let context = plain(&mut registry);
        let kept = registry.intern(&context, b"kept\0");
        for i in 0..10 * SWEEP_MIN {
            registry.intern(&context, format!("{i}\0").as_bytes());
        }
        assert!(registry.len() <= SWEEP_MIN + 1, "{}", registry.len());
        assert!(Arc::ptr_eq(&kept, &registry.intern(&context, b"kept\0")));
    }
}
