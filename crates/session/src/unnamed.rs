//! The unnamed prepared statement of a client, which has to survive a Sync as the manual says (55.2.3): on whatever
//! server the client is by then.
//!
//! A client remembers its last one, and servers remember by a number whose they hold; a Bind on another server has the
//! Parse put in front. What was sent but not yet answered is tentative, so that a skipped Parse changes nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_sql::Effects;

use crate::statement::Statement;

/// No statement.
pub(crate) const NONE: u64 = 0;

/// One definition: a number unique in the process ([`NONE`]: there is none), and the body of the Parse after the name
/// (empty if it was too long to keep).
#[derive(Debug, Default)]
struct Definition {
    serial: u64,
    body: Vec<u8>,
    effects: Option<Arc<Effects>>,
    /// The named statement of ours that stands for it (`prepare_unnamed_after`).
    stand_in: Option<Arc<Statement>>,
    /// A server was asked about that since the client prepared it.
    is_used: bool,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Unnamed {
    confirmed: Definition,
    tentative: VecDeque<Definition>,
    /// Reused, so that a Parse in steady state allocates nothing, nor do those of a pipeline.
    spare: Vec<Vec<u8>>,
}

/// Buffers that a client keeps for its next pipeline, and the size up to which it does: together 4 KiB.
const SPARE_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 256;

impl Unnamed {
    /// A Parse (or with [`NONE`], something that drops the statement) is on its way.
    pub(crate) fn define(&mut self, serial: u64, body: &[u8], effects: Option<Arc<Effects>>) {
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(body);
        self.tentative.push_back(Definition {
            serial,
            body: kept,
            effects,
            stand_in: None,
            is_used: false,
        });
    }

    /// The newest one is on servers under a name of ours.
    pub(crate) fn stand_in(&mut self, statement: &Arc<Statement>) {
        if let Some(newest) = self.tentative.back_mut() {
            newest.stand_in = Some(Arc::clone(statement));
        }
    }

    /// The statement of ours that stands for the current one, if any does.
    pub(crate) fn stands_in(&self) -> Option<&Arc<Statement>> {
        let current = self.tentative.back().unwrap_or(&self.confirmed);
        current.stand_in.as_ref()
    }

    /// It is used: whether that is the first time since the client prepared it.
    pub(crate) fn use_now(&mut self) -> bool {
        !std::mem::replace(&mut self.current_mut().is_used, true)
    }

    /// That use has come to nothing.
    pub(crate) fn was_not_used(&mut self) {
        self.current_mut().is_used = false;
    }

    fn current_mut(&mut self) -> &mut Definition {
        self.tentative.back_mut().unwrap_or(&mut self.confirmed)
    }

    /// One buffer stays whatever its size.
    fn keep(&mut self, buffer: Vec<u8>) {
        let is_small = self.spare.len() < SPARE_MAX && buffer.capacity() <= SPARE_BYTES_MAX;
        if buffer.capacity() > 0 && (is_small || self.spare.is_empty()) {
            self.spare.push(buffer);
        }
    }

    /// The oldest change on its way has taken effect.
    pub(crate) fn confirm(&mut self) {
        if let Some(next) = self.tentative.pop_front() {
            let old = std::mem::replace(&mut self.confirmed, next);
            self.keep(old.body);
        }
    }

    /// The newest change was refused before it was on its way.
    pub(crate) fn take_back(&mut self) {
        if let Some(refused) = self.tentative.pop_back() {
            self.keep(refused.body);
        }
    }

    /// The oldest change on its way was skipped.
    pub(crate) fn skip(&mut self) {
        if let Some(skipped) = self.tentative.pop_front() {
            self.keep(skipped.body);
        }
    }

    /// The oldest change on its way failed: PostgreSQL drops the old statement before it looks at the new one.
    pub(crate) fn fail(&mut self) {
        self.skip();
        self.confirmed = Definition::default();
    }

    /// Whether there is none, and none was defined that could still turn out to hold.
    pub(crate) fn is_none(&self) -> bool {
        self.confirmed.serial == NONE && self.tentative.iter().all(|next| next.serial == NONE)
    }

    /// Whether a change is not answered yet.
    pub(crate) fn is_on_its_way(&self) -> bool {
        !self.tentative.is_empty()
    }

    /// What running the current one may do to the session.
    pub(crate) fn effects(&self) -> Option<&Arc<Effects>> {
        let current = self.tentative.back().unwrap_or(&self.confirmed);
        current.effects.as_ref()
    }

    /// What holds once everything on its way has taken effect: number and body.
    pub(crate) fn current(&self) -> (u64, &[u8]) {
        let current = self.tentative.back().unwrap_or(&self.confirmed);
        (current.serial, &current.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_parse_leaves_the_old_statement() {
        let mut unnamed = Unnamed::default();
        unnamed.define(1, b"one", None);
        unnamed.confirm();
        unnamed.define(2, b"two", None);
        assert_eq!(unnamed.current(), (2, &b"two"[..]));
        unnamed.skip();
        assert_eq!(unnamed.current(), (1, &b"one"[..]));
    }

    #[test]
    fn a_parse_behind_a_failed_one_counts() {
        let mut unnamed = Unnamed::default();
        unnamed.define(1, b"no sql", None);
        unnamed.define(2, b"two", None);
        unnamed.fail();
        assert_eq!(unnamed.current(), (2, &b"two"[..]));
    }

    #[test]
    fn a_failed_parse_leaves_none() {
        let mut unnamed = Unnamed::default();
        unnamed.define(1, b"one", None);
        unnamed.confirm();
        unnamed.define(2, b"two", None);
        unnamed.fail();
        assert_eq!(unnamed.current(), (NONE, &b""[..]));
    }

    #[test]
    fn a_parse_in_steady_state_reuses_its_buffers() {
        let mut unnamed = Unnamed::default();
        for serial in 1..10 {
            unnamed.define(serial, b"select 1", None);
            unnamed.confirm();
        }
        assert_eq!(unnamed.spare.len(), 1);
        assert_eq!(unnamed.current().0, 9);
    }
}
