//! Record of the statements prepared on one server.

use std::collections::HashMap;
use std::sync::Arc;

use lru::LruCache;

use super::{Statement, is_roomy};

/// Statements prepared on one server, least recently used first.
///
/// Entries change when the Parse or Close is *sent*. Until the server has answered, an error may make it skip the
/// change (hazard COR-09). So confirmed statements are recorded separately, and a later batch does not rely on the
/// others.
#[derive(Debug)]
pub struct Prepared {
    /// Statements that the server has once everything sent was processed.
    held: LruCache<u64, Held>,
    /// Statements that the server has confirmed.
    confirmed: HashMap<u64, Arc<Statement>>,
    /// Statements that are invalid or may be gone; closed before anything else is prepared.
    lost: HashMap<u64, Arc<Statement>>,
    /// Changes in flight; empty in steady state.
    coming: HashMap<u64, Coming>,
}

/// Copy of a statement on the server.
#[derive(Debug)]
struct Held {
    statement: Arc<Statement>,
    copy: Copy,
}

/// State of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Copy {
    /// Time of the pool's clock at which the copy's Parse was sent; 0 if unknown, so it may be older than any other.
    pub parsed_at: u64,
    /// True if the server has confirmed that the copy takes and returns what its statement does. Until then, only the
    /// client that sent the Parse may use it.
    pub is_described: bool,
}

/// Changes of one statement that are in flight.
#[derive(Debug)]
struct Coming {
    statement: Arc<Statement>,
    count: usize,
    /// Batch of the first change that an error may skip.
    unsure_since: Option<u64>,
}

/// Presence of a statement on a server by the time of the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The server will not have the statement.
    Absent,
    /// The server will have the statement, unless that message is skipped as well.
    Held,
    /// An unanswered batch decides.
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
    /// Returns the presence of a statement for a message of this batch, and its copy. Marks the statement as most
    /// recently used.
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

    /// Records that the server's description of the copy equals that of its statement.
    pub(crate) fn was_described(&mut self, statement: &Statement) {
        if let Some(held) = self.held.peek_mut(&statement.id) {
            held.copy.is_described = true;
        }
    }

    /// Returns the copy that the server will have, if any.
    pub(crate) fn copy(&self, statement: &Statement) -> Option<Copy> {
        self.held.peek(&statement.id).map(|held| held.copy)
    }

    /// Marks the copy as unknown or of another statement: no client may use it.
    pub(crate) fn doubt(&mut self, statement: &Statement) {
        if let Some(held) = self.held.peek_mut(&statement.id) {
            held.copy = Copy::default();
        }
    }

    /// Marks all copies as doubtful: they may have been resolved to definitions that were never committed. No client
    /// may use them.
    pub(crate) fn doubt_all(&mut self) {
        for (_, held) in &mut self.held {
            held.copy = Copy::default();
        }
    }

    /// Adds a statement whose Parse is being sent. Returns the statements to close so that at most `max` are held after
    /// this batch. These are the least recently used ones, lost ones, and those that an error in an earlier batch may
    /// leave.
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

    /// Records that a Parse or Close was sent in this batch; `sure` is true if nothing can make the server skip it.
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

    /// Records that the server has prepared the statement.
    pub fn was_prepared(&mut self, statement: &Arc<Statement>) {
        self.arrived(statement);
        self.lost.remove(&statement.id);
        self.confirmed.insert(statement.id, Arc::clone(statement));
    }

    /// Records that the server has closed the statement.
    pub fn was_closed(&mut self, statement: &Statement) {
        self.arrived(statement);
        self.lost.remove(&statement.id);
        self.confirmed.remove(&statement.id);
    }

    /// Records that the server has skipped a change, or failed to prepare the statement. The caller must call
    /// [`Prepared::recall`].
    pub fn was_skipped(&mut self, statement: &Statement) {
        self.arrived(statement);
        if !self.coming.contains_key(&statement.id) {
            // The server may have the earlier copy.
            self.doubt(statement);
        }
    }

    /// Recomputes the held statements from the confirmed ones and the changes in flight: statements, with true if they
    /// are being prepared and false if closed.
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

    /// True if the server has the statement, unless a request in flight removes it.
    pub fn has_confirmed(&self, statement: &Statement) -> bool {
        self.confirmed.contains_key(&statement.id)
    }

    /// True if exactly one change of the statement is in flight.
    pub fn changes_once(&self, statement: &Statement) -> bool {
        let coming = self.coming.get(&statement.id);
        coming.is_some_and(|coming| coming.count == 1)
    }

    /// Marks the server's copy as invalid.
    pub fn lose(&mut self, statement: &Arc<Statement>) {
        let was_held = self.held.pop(&statement.id).is_some();
        let was_confirmed = self.confirmed.remove(&statement.id).is_some();
        if was_held || was_confirmed {
            self.lost.insert(statement.id, Arc::clone(statement));
        }
    }

    /// Marks all copies as lost, after one was missing. The caller must call [`Prepared::recall`].
    pub fn lose_all(&mut self) {
        self.lost.extend(self.confirmed.drain());
    }

    /// Removes all statements after the server has dropped them. The caller must call [`Prepared::recall`], which keeps
    /// those in flight.
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

    /// Frees memory that a burst took.
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

    /// Returns every statement that the server may have.
    pub(crate) fn all(&self) -> Vec<Arc<Statement>> {
        let held = self.held.iter().map(|(_, held)| &held.statement);
        let lost = self.lost.values();
        held.chain(lost).map(Arc::clone).collect()
    }

    /// Iterates over the statements, most recently used first.
    pub fn iter(&self) -> impl Iterator<Item = &Statement> {
        self.held.iter().map(|(_, held)| &*held.statement)
    }

    /// Number of statements.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// True if there are no statements.
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
