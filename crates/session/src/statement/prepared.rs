//! What one server has prepared, as far as it is known.

use std::collections::HashMap;
use std::sync::Arc;

use lru::LruCache;

use super::{Statement, is_roomy};

/// What one server has prepared, least recently used first.
///
/// Entries change when the Parse or Close is *sent*. Until the server has answered, an error may make it skip the change
/// (hazard COR-09), so what it has confirmed is kept apart, and a later batch does not rely on the rest.
#[derive(Debug)]
pub struct Prepared {
    /// Once everything sent was processed.
    held: LruCache<u64, Held>,
    /// As far as the server has answered.
    confirmed: HashMap<u64, Arc<Statement>>,
    /// Of no use any more, or perhaps not there any more: closed before anything else is prepared.
    lost: HashMap<u64, Arc<Statement>>,
    /// Changes on their way; empty in steady state.
    coming: HashMap<u64, Coming>,
}

/// One copy of a statement.
#[derive(Debug)]
struct Held {
    statement: Arc<Statement>,
    copy: Copy,
}

/// What is known of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Copy {
    /// Time of the pool's clock at which its Parse was sent; 0: unknown, so it may be older than any other.
    pub parsed_at: u64,
    /// It takes and returns what its statement does. Until the server has said so, it is for the client that sent the Parse.
    pub is_described: bool,
}

/// Changes of one statement that are on their way.
#[derive(Debug)]
struct Coming {
    statement: Arc<Statement>,
    count: usize,
    /// The batch of the first of them that an error may skip.
    unsure_since: Option<u64>,
}

/// Whether a server will have a statement by the time of the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// No.
    Absent,
    /// Yes, unless that message is skipped as well.
    Held,
    /// It depends on a batch that is not answered yet.
    Unsure,
}

impl Default for Prepared {
    fn default() -> Self {
        Self {
            held: LruCache::unbounded(),
            confirmed: HashMap::new(),
            lost: HashMap::new(),
            coming: HashMap::new(),
        }
    }
}

impl Prepared {
    /// Tells if the server has it, seen from a message of this batch; if so it becomes the most recently used. Also what
    /// is known of that copy.
    pub(crate) fn touch(&mut self, statement: &Statement, batch: u64) -> (Presence, Copy) {
        let held = self.held.get(&statement.id).map(|held| held.copy);
        let unsure_since = if self.coming.is_empty() {
            None
        } else {
            let coming = self.coming.get(&statement.id);
            coming.and_then(|coming| coming.unsure_since)
        };
        let presence = match unsure_since {
            Some(since) if since != batch => Presence::Unsure,
            _ if held.is_some() => Presence::Held,
            _ => Presence::Absent,
        };
        (presence, held.unwrap_or_default())
    }

    fn put(&mut self, statement: &Arc<Statement>, copy: Copy) {
        let held = Held {
            statement: Arc::clone(statement),
            copy,
        };
        self.held.put(statement.id, held);
    }

    /// The server has described it as its statement is described.
    pub(crate) fn was_described(&mut self, statement: &Statement) {
        if let Some(held) = self.held.peek_mut(&statement.id) {
            held.copy.is_described = true;
        }
    }

    /// Age of the copy that the server will have, and whether it was described; None if there will be none.
    pub(crate) fn copy(&self, statement: &Statement) -> Option<Copy> {
        self.held.peek(&statement.id).map(|held| held.copy)
    }

    /// Nobody knows what its copy is, or it is another statement's: no client may use it.
    pub(crate) fn doubt(&mut self, statement: &Statement) {
        if let Some(held) = self.held.peek_mut(&statement.id) {
            held.copy = Copy::default();
        }
    }

    /// Each copy may have been resolved, or resolved again, to what no commit has made so: no client may use it.
    pub(crate) fn doubt_all(&mut self) {
        for (_, held) in &mut self.held {
            held.copy = Copy::default();
        }
    }

    /// Adds one, whose Parse is being sent; returns what has to be closed so that at most `max` are held after this batch: the least recently used
    /// ones, those that are lost, and those that an error in an earlier batch may leave there.
    pub(crate) fn add(
        &mut self,
        statement: &Arc<Statement>,
        max: usize,
        batch: u64,
        copy: Copy,
    ) -> Vec<Arc<Statement>> {
        self.put(statement, copy);
        let mut gone = Vec::new();
        for (id, coming) in &self.coming {
            let unsure = coming.unsure_since.is_some_and(|since| since != batch);
            if unsure && !self.held.contains(id) {
                gone.push(Arc::clone(&coming.statement));
            }
        }
        for (id, lost) in &self.lost {
            if *id == statement.id || !self.held.contains(id) {
                gone.push(Arc::clone(lost));
            }
        }
        while self.held.len() > max.max(1) {
            gone.extend(self.held.pop_lru().map(|(_, old)| old.statement));
        }
        gone
    }

    /// A Parse or Close of it was sent in this batch; `sure`: nothing can make the server skip it.
    pub fn sent(&mut self, statement: &Arc<Statement>, batch: u64, sure: bool) {
        let new = || Coming {
            statement: Arc::clone(statement),
            count: 0,
            unsure_since: None,
        };
        let coming = self.coming.entry(statement.id).or_insert_with(new);
        coming.count += 1;
        if !sure {
            coming.unsure_since.get_or_insert(batch);
        }
    }

    /// The server has prepared it.
    pub fn was_prepared(&mut self, statement: &Arc<Statement>) {
        self.arrived(statement);
        self.lost.remove(&statement.id);
        self.confirmed.insert(statement.id, Arc::clone(statement));
    }

    /// The server has closed it.
    pub fn was_closed(&mut self, statement: &Statement) {
        self.arrived(statement);
        self.lost.remove(&statement.id);
        self.confirmed.remove(&statement.id);
    }

    /// The server has skipped a change of it, or failed to prepare it. [`Prepared::recall`] has to follow.
    pub fn was_skipped(&mut self, statement: &Statement) {
        self.arrived(statement);
        if !self.coming.contains_key(&statement.id) {
            // Perhaps it is the copy from before that is there.
            self.doubt(statement);
        }
    }

    /// What is held is what was confirmed, with the changes that are still on their way: statements and whether they
    /// are being prepared (or closed).
    pub fn recall<'a>(&mut self, coming: impl Iterator<Item = (&'a Arc<Statement>, bool)>) {
        let mut wanted = self.confirmed.clone();
        for (statement, prepares) in coming {
            if prepares {
                wanted.insert(statement.id, Arc::clone(statement));
            } else {
                wanted.remove(&statement.id);
            }
        }
        let held = self.held.iter().map(|(id, _)| *id);
        let gone: Vec<u64> = held.filter(|id| !wanted.contains_key(id)).collect();
        for id in gone {
            self.held.pop(&id);
        }
        for (id, statement) in wanted {
            if !self.held.contains(&id) {
                self.put(&statement, Copy::default());
            }
        }
    }

    /// Whether the server has it unless something on its way takes it away.
    pub fn has_confirmed(&self, statement: &Statement) -> bool {
        self.confirmed.contains_key(&statement.id)
    }

    /// Whether exactly one change of it is on its way.
    pub fn changes_once(&self, statement: &Statement) -> bool {
        let coming = self.coming.get(&statement.id);
        coming.is_some_and(|coming| coming.count == 1)
    }

    /// The server's copy is of no use any more.
    pub fn lose(&mut self, statement: &Arc<Statement>) {
        let was_held = self.held.pop(&statement.id).is_some();
        let was_confirmed = self.confirmed.remove(&statement.id).is_some();
        if was_held || was_confirmed {
            self.lost.insert(statement.id, Arc::clone(statement));
        }
    }

    /// The server does not have one that it should have: perhaps it has dropped all. [`Prepared::recall`] has to follow.
    pub fn lose_all(&mut self) {
        self.lost.extend(self.confirmed.drain());
    }

    /// The server has dropped all of them. [`Prepared::recall`] has to follow, which leaves those that are on their way.
    pub fn clear(&mut self) {
        self.confirmed.clear();
        self.lost.clear();
    }

    fn arrived(&mut self, statement: &Statement) {
        if let Some(coming) = self.coming.get_mut(&statement.id) {
            coming.count -= 1;
            if coming.count == 0 {
                self.coming.remove(&statement.id);
            }
        }
    }

    /// Gives back room that a burst took.
    pub(crate) fn give_back(&mut self) {
        for map in [&mut self.confirmed, &mut self.lost] {
            if is_roomy(map.capacity(), map.len()) {
                map.shrink_to_fit();
            }
        }
        if is_roomy(self.coming.capacity(), self.coming.len()) {
            self.coming.shrink_to_fit();
        }
    }

    /// Everything that the server may have.
    pub(crate) fn all(&self) -> Vec<Arc<Statement>> {
        let held = self.held.iter().map(|(_, held)| &held.statement);
        let lost = self.lost.values();
        held.chain(lost).map(Arc::clone).collect()
    }

    /// All of them, most recently used first.
    pub fn iter(&self) -> impl Iterator<Item = &Statement> {
        self.held.iter().map(|(_, held)| &*held.statement)
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
    use crate::statement::Registry;

    fn at(parsed_at: u64) -> Copy {
        Copy {
            parsed_at,
            is_described: true,
        }
    }

    #[test]
    fn the_least_recently_used_statement_goes_first() {
        let mut registry = Registry::new(0, 1);
        let (a, b, c) = (
            registry.private(b"a\0"),
            registry.private(b"b\0"),
            registry.private(b"c\0"),
        );
        let mut prepared = Prepared::default();
        assert_eq!(prepared.add(&a, 2, 0, at(1)).len(), 0);
        assert_eq!(prepared.add(&b, 2, 0, at(1)).len(), 0);
        assert_eq!(prepared.touch(&a, 0), (Presence::Held, at(1)));
        let gone: Vec<_> = prepared.add(&c, 2, 0, at(1)).iter().map(|s| s.id).collect();
        assert_eq!(gone, [b.id]);
    }

    #[test]
    fn cor_09_a_later_batch_does_not_rely_on_what_is_not_answered() {
        let mut registry = Registry::new(0, 1);
        let a = registry.private(b"a\0");
        let mut prepared = Prepared::default();
        assert_eq!(prepared.add(&a, 2, 0, at(1)).len(), 0);
        prepared.sent(&a, 1, false);
        assert_eq!(prepared.touch(&a, 1).0, Presence::Held);
        assert_eq!(prepared.touch(&a, 2).0, Presence::Unsure);
        prepared.was_prepared(&a);
        assert_eq!(prepared.touch(&a, 2).0, Presence::Held);
    }

    #[test]
    fn cor_09_skipped_changes_leave_what_was_confirmed() {
        let mut registry = Registry::new(0, 1);
        let (a, b) = (registry.private(b"a\0"), registry.private(b"b\0"));
        let mut prepared = Prepared::default();
        assert_eq!(prepared.add(&a, 1, 0, at(1)).len(), 0);
        prepared.sent(&a, 0, true);
        prepared.was_prepared(&a);
        assert_eq!(prepared.add(&b, 1, 0, at(1)).len(), 1);
        prepared.was_skipped(&b);
        prepared.recall(std::iter::empty());
        let held: Vec<_> = prepared.iter().map(|statement| statement.id).collect();
        assert_eq!(held, [a.id]);
    }

    #[test]
    fn a_copy_whose_parse_was_skipped_is_as_old_as_it_was() {
        let mut registry = Registry::new(0, 1);
        let a = registry.private(b"a\0");
        let mut prepared = Prepared::default();
        prepared.add(&a, 1, 0, at(5));
        prepared.sent(&a, 0, true);
        prepared.was_prepared(&a);
        prepared.add(&a, 1, 0, at(9));
        prepared.sent(&a, 0, false);
        assert_eq!(prepared.touch(&a, 0), (Presence::Held, at(9)));
        prepared.was_skipped(&a);
        prepared.recall(std::iter::empty());
        assert_eq!(prepared.touch(&a, 1), (Presence::Held, Copy::default()));
    }
}
