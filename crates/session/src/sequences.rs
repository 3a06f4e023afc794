//! What sequences gave a session (`currval`, `lastval`; manual, 9.17): it stays on the server where it was given.
//!
//! An INSERT moves the sequence of a `serial` column, and no text shows it. To pin whoever inserts would be too much for
//! nearly all applications, since few ask for such values beyond their transaction. So a pool learns which ones do: those
//! whose clients read, at the beginning of a transaction, after they have moved a sequence before. From then on their
//! clients keep the server on which they insert, and find no values of others there.
//!
//! So that already the first read is right, a client is *on trial* when it has moved a sequence for the first time: it
//! keeps its server until its next request shows whether it reads, if that comes soon.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::relay::SequencePolicy;

/// Applications that are told apart; with more of them reading, every one counts as reading.
const APPLICATIONS_MAX: usize = 16;

/// The applications of a pool (by `application_name`) that read what sequences gave them in an earlier transaction.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// Counts the changes; what is looked at in steady state.
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

    /// A client of this application has read.
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

/// What a client does with sequences.
#[derive(Debug, Default)]
pub(crate) struct Use {
    /// It may have moved one.
    pub(crate) has_moved: bool,
    /// Its application reads.
    pub(crate) reads: bool,
    /// The rule of its pool at its last request.
    policy: SequencePolicy,
    /// [`Readers::version`] when that was found out.
    version: u32,
    trial: Trial,
}

/// The same for another process; a trial is over there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortableUse {
    has_moved: bool,
    /// Its application reads: the other process has to learn that, too.
    pub(crate) reads: bool,
}

/// Whether a client's first move is followed by a read.
#[derive(Debug, Default, PartialEq, Eq)]
enum Trial {
    /// It has moved one just now.
    Due,
    /// Nobody asks any more.
    Over,
    #[default]
    Untried,
}

impl Use {
    /// The pool's rule, and what is known of the client's application by now.
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

    /// True if the client keeps its server when it moves a sequence.
    #[inline]
    pub(crate) fn keeps_moved(&self) -> bool {
        match self.policy {
            SequencePolicy::Learn => self.reads,
            SequencePolicy::Pin => true,
            SequencePolicy::Refuse => false,
        }
    }

    /// True if no server is kept for what sequences gave.
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

    /// Records that the client may have moved a sequence on a server where others may have left values, or not. Only
    /// without these can a read be right, so only then there is a trial.
    pub(crate) fn moved(&mut self, is_foreign: bool) {
        if self.is_refused() {
            return;
        }
        self.has_moved = true;
        if !is_foreign && self.policy == SequencePolicy::Learn && self.trial == Trial::Untried {
            self.trial = Trial::Due;
        }
    }

    /// Its next request is here, or nobody waits for that.
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

    /// Nothing of its session is left.
    pub(crate) fn forget(&mut self) {
        self.has_moved = false;
        self.end_trial();
    }
}

/// True if a text begins with a verb whose tag [`may_move`] knows.
fn may_insert(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    [&b"INSERT"[..], b"COPY", b"MERGE"].iter().any(|verb| {
        text.get(..verb.len())
            .is_some_and(|word| word.eq_ignore_ascii_case(verb))
    })
}

/// Whether a statement with this tag may have moved a sequence that its text does not name.
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
