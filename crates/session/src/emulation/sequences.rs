//! Sequence values of a session (`currval`, `lastval`; manual, 9.17), which stay on the server that generated them.
//!
//! An INSERT advances the sequence of a `serial` column, and its text does not show that. Pinning every client that
//! inserts would be too much, since few applications read these values after the transaction. So a pool learns which
//! applications do: a client has advanced a sequence, and a later transaction begins with a read. From then on, clients
//! of that application keep the server on which they insert, and find no values of other clients there.
//!
//! To get even the first read right, a client is *on trial* when it has advanced a sequence for the first time. It
//! keeps its server until its next request shows if it reads, provided that this request comes soon.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::relay::SequencePolicy;

/// Maximum number of applications that are told apart; if more read, every application counts as a reader.
const APPLICATIONS_MAX: usize = 16;

/// Applications of a pool (by `application_name`) that read sequence values of an earlier transaction.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// Number of changes; the only field read in steady state.
    version: AtomicU32,
    names: Mutex<Vec<Box<str>>>,
}

impl Readers {
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn has(&self, application: &str) -> bool {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.len() >= APPLICATIONS_MAX || names.iter().any(|name| **name == *application)
    }

    /// Records that a client of this application has read.
    pub(crate) fn learn(&self, application: &str) {
        if self.has(application) {
            return;
        }
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() < APPLICATIONS_MAX {
            names.push(application.into());
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}

/// A client's use of sequences.
#[derive(Debug, Default)]
pub(crate) struct Use {
    /// True if the client may have advanced a sequence.
    pub(crate) has_moved: bool,
    /// True if the client's application reads sequence values.
    pub(crate) reads: bool,
    /// Rule of the client's pool at its last request.
    policy: SequencePolicy,
    /// [`Readers::version`] at which `reads` was determined.
    version: u32,
    trial: Trial,
}

/// Use of sequences, exported to another process; a trial ends with the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortableUse {
    has_moved: bool,
    /// True if the client's application reads; the other process must learn that too.
    pub(crate) reads: bool,
}

/// Test if a client reads after it has advanced a sequence for the first time.
#[derive(Debug, Default, PartialEq, Eq)]
enum Trial {
    /// The client has just advanced a sequence.
    Due,
    /// The trial has ended, or will not take place.
    Over,
    #[default]
    Untried,
}

impl Use {
    /// Updates the pool's rule, and what is known of the client's application.
    #[inline]
    pub(crate) fn refresh(
        &mut self,
        policy: SequencePolicy,
        readers: &Readers,
        application: impl FnOnce() -> String,
    ) {
        self.policy = policy;
        let version = readers.version();
        if version != self.version {
            self.version = version;
            self.reads = readers.has(&application());
        }
    }

    /// True if the client keeps its server when it advances a sequence.
    #[inline]
    pub(crate) fn keeps_moved(&self) -> bool {
        match self.policy {
            SequencePolicy::Learn => self.reads,
            SequencePolicy::Pin => true,
            SequencePolicy::Refuse => false,
        }
    }

    /// True if no client keeps its server for sequence values.
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        self.policy == SequencePolicy::Refuse
    }

    /// True if a statement with this text may begin the client's trial.
    #[inline]
    pub(crate) fn is_tried_by(&self, text: &[u8]) -> bool {
        self.trial == Trial::Untried
            && self.policy == SequencePolicy::Learn
            && !self.reads
            && may_insert(text)
    }

    /// Ends the client's trial, also one that has not begun.
    pub(crate) fn try_never(&mut self) {
        self.trial = Trial::Over;
    }

    /// Records that the client may have advanced a sequence. `is_foreign` is true if other clients may have left values
    /// on the server. A trial takes place only without such values, since only then can a read be correct.
    pub(crate) fn moved(&mut self, is_foreign: bool) {
        if self.is_refused() {
            return;
        }
        self.has_moved = true;
        if !is_foreign && self.policy == SequencePolicy::Learn && self.trial == Trial::Untried {
            self.trial = Trial::Due;
        }
    }

    /// Ends a trial: the client's next request has arrived, or the pooler does not wait for it.
    #[inline]
    pub(crate) fn end_trial(&mut self) {
        if self.trial == Trial::Due {
            self.trial = Trial::Over;
        }
    }

    #[inline]
    pub(crate) fn is_on_trial(&self) -> bool {
        self.trial == Trial::Due
    }

    pub(crate) fn export(&self) -> PortableUse {
        PortableUse {
            has_moved: self.has_moved,
            reads: self.reads,
        }
    }

    pub(crate) fn import(portable: PortableUse) -> Self {
        Self {
            has_moved: portable.has_moved,
            trial: match portable.has_moved {
                true => Trial::Over,
                false => Trial::Untried,
            },
            ..Self::default()
        }
    }

    /// Resets the use of sequences after the session was discarded.
    pub(crate) fn forget(&mut self) {
        self.has_moved = false;
        self.end_trial();
    }
}

/// True if a text begins with a verb whose command tag [`may_move`] knows.
fn may_insert(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    [&b"INSERT"[..], b"COPY", b"MERGE"].iter().any(|verb| {
        text.get(..verb.len())
            .is_some_and(|word| word.eq_ignore_ascii_case(verb))
    })
}

/// True if a statement with this command tag may have advanced a sequence that its text does not name.
#[inline]
pub(crate) fn may_move(tag: &[u8]) -> bool {
    [&b"INSERT "[..], b"COPY ", b"MERGE "]
        .iter()
        .any(|word| tag.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_are_told_apart_up_to_a_number() {
        let readers = Readers::default();
        readers.learn("web");
        readers.learn("web");
        assert_eq!(readers.version(), 1);
        assert!(readers.has("web") && !readers.has("psql"));
        for number in 0..2 * APPLICATIONS_MAX {
            readers.learn(&number.to_string());
        }
        assert!(readers.has("psql"));
        assert_eq!(readers.names.lock().unwrap().len(), APPLICATIONS_MAX);
    }

    #[test]
    fn only_the_first_move_is_a_trial() {
        let mut used = Use::default();
        assert!(!used.is_on_trial());
        used.moved(false);
        assert!(used.is_on_trial());
        used.end_trial();
        used.moved(false);
        assert!(!used.is_on_trial() && used.has_moved);
    }

    #[test]
    fn a_move_among_values_of_others_is_no_trial() {
        let mut used = Use::default();
        used.moved(true);
        assert!(used.has_moved && used.is_tried_by(b"INSERT") && !used.is_on_trial());
        used.moved(false);
        assert!(used.is_on_trial());
    }

    #[test]
    fn verbs_of_what_may_insert_are_told_apart() {
        for text in [
            "insert into t values (1)",
            " \n COPY t from stdin",
            "Merge into t",
        ] {
            assert!(may_insert(text.as_bytes()), "{text}");
        }
        for text in ["", "in", "select 1", "update t set a = 1"] {
            assert!(!may_insert(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_a_pool_learns_its_clients_find_out() {
        let (readers, mut used) = (Readers::default(), Use::default());
        used.refresh(SequencePolicy::Learn, &readers, || {
            unreachable!("nothing is new")
        });
        readers.learn("web");
        used.refresh(SequencePolicy::Learn, &readers, || "psql".to_owned());
        assert!(!used.reads);
        readers.learn("psql");
        used.refresh(SequencePolicy::Learn, &readers, || "psql".to_owned());
        assert!(used.reads);
    }

    #[test]
    fn a_pool_that_pins_keeps_each_client_and_tries_none() {
        let (readers, mut used) = (Readers::default(), Use::default());
        used.refresh(SequencePolicy::Pin, &readers, || unreachable!());
        used.moved(false);
        assert!(used.keeps_moved() && used.has_moved && !used.is_on_trial());
    }

    #[test]
    fn a_pool_that_refuses_keeps_nobody_and_tries_none() {
        let (readers, mut used) = (Readers::default(), Use::default());
        readers.learn("web");
        used.refresh(SequencePolicy::Refuse, &readers, || "web".to_owned());
        used.moved(false);
        assert!(!used.keeps_moved() && !used.has_moved && !used.is_on_trial());
    }

    #[test]
    fn tags_of_what_may_insert_are_told_apart() {
        assert!(may_move(b"INSERT 0 1\0") && may_move(b"COPY 5\0") && may_move(b"MERGE 1\0"));
        assert!(!may_move(b"SELECT 1\0") && !may_move(b"UPDATE 1\0"));
    }
}
