//! The unnamed prepared statement of a client, which must survive a Sync (manual, 55.2.3) on whatever server the client
//! has.
//!
//! A client keeps its last unnamed statement, and each server has the serial of the one it holds. Before a Bind on
//! another server, Weir sends the Parse again. A definition that was sent but not answered is tentative, so that a
//! skipped Parse changes nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_sql::Effects;

use crate::statement::Statement;

/// Serial for no statement.
pub(crate) const NONE: u64 = 0;

/// Definition of the unnamed statement: a serial unique in the process ([`NONE`]: no statement), and the body of the
/// Parse after the name (empty if it was too long to keep).
#[derive(Debug, Default)]
struct Definition {
    serial: u64,
    body: Vec<u8>,
    effects: Option<Arc<Effects>>,
    /// Named statement of ours that stands in for the unnamed one (`prepare_unnamed_after`).
    stand_in: Option<Arc<Statement>>,
    /// True if the stand-in was used since the client prepared the statement.
    is_used: bool,
}

/// Unnamed statement of a client, see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Unnamed {
    confirmed: Definition,
    tentative: VecDeque<Definition>,
    /// Buffers for reuse, so that in steady state neither a Parse nor a pipeline of them allocates.
    spare: Vec<Vec<u8>>,
}

/// Maximum number of buffers that a client keeps for its next pipeline, and their maximum size: 4 KiB in total.
const SPARE_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 256;

impl Unnamed {
    /// Records a Parse (or, with [`NONE`], a request that drops the statement) that is being sent.
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

    /// Records that a named statement of ours stands in for the newest definition.
    pub(crate) fn stand_in(&mut self, statement: &Arc<Statement>) {
        if let Some(newest) = self.tentative.back_mut() {
            newest.stand_in = Some(Arc::clone(statement));
        }
    }

    /// Returns the statement of ours that stands in for the current definition, if any.
    pub(crate) fn stands_in(&self) -> Option<&Arc<Statement>> {
        let current = self.tentative.back().unwrap_or(&self.confirmed);
        current.stand_in.as_ref()
    }

    /// Marks the current definition as used. Returns true if this is the first use since the client prepared it.
    pub(crate) fn use_now(&mut self) -> bool {
        !std::mem::replace(&mut self.current_mut().is_used, true)
    }

    /// Takes that use back: it had no effect.
    pub(crate) fn was_not_used(&mut self) {
        self.current_mut().is_used = false;
    }

    fn current_mut(&mut self) -> &mut Definition {
        self.tentative.back_mut().unwrap_or(&mut self.confirmed)
    }

    /// Keeps a buffer for reuse; one buffer is kept whatever its size.
    fn keep(&mut self, buffer: Vec<u8>) {
        let is_small = self.spare.len() < SPARE_MAX && buffer.capacity() <= SPARE_BYTES_MAX;
        if buffer.capacity() > 0 && (is_small || self.spare.is_empty()) {
            self.spare.push(buffer);
        }
    }

    /// Confirms the oldest change in flight.
    pub(crate) fn confirm(&mut self) {
        if let Some(next) = self.tentative.pop_front() {
            let old = std::mem::replace(&mut self.confirmed, next);
            self.keep(old.body);
        }
    }

    /// Removes all changes in flight: their server is lost, and what has made them is sent again.
    pub(crate) fn skip_all(&mut self) {
        while self.is_on_its_way() {
            self.skip();
        }
    }

    /// Removes the newest change, which was refused before it was sent.
    pub(crate) fn take_back(&mut self) {
        if let Some(refused) = self.tentative.pop_back() {
            self.keep(refused.body);
        }
    }

    /// Removes the oldest change in flight, which was skipped.
    pub(crate) fn skip(&mut self) {
        if let Some(skipped) = self.tentative.pop_front() {
            self.keep(skipped.body);
        }
    }

    /// Removes the oldest change in flight, which failed. PostgreSQL drops the old statement before it reads the new
    /// one.
    pub(crate) fn fail(&mut self) {
        self.skip();
        self.confirmed = Definition::default();
    }

    /// True if there is no statement, and no definition in flight could still make one.
    pub(crate) fn is_none(&self) -> bool {
        self.confirmed.serial == NONE && self.tentative.iter().all(|next| next.serial == NONE)
    }

    /// True if a change is not answered yet.
    pub(crate) fn is_on_its_way(&self) -> bool {
        !self.tentative.is_empty()
    }

    /// Returns the effects that running the current statement may have on the session.
    pub(crate) fn effects(&self) -> Option<&Arc<Effects>> {
        let current = self.tentative.back().unwrap_or(&self.confirmed);
        current.effects.as_ref()
    }

    /// Returns serial and body of the statement once everything in flight has taken effect.
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
