//! Exposed clients: their statements may fail for reasons that no twin can know (cancels, timeouts, roles that were
//! taken away).
//!
//! Each has one request of one statement in flight. Its twin is told of the request when the answer has come. If the
//! answer has an error that the twin would not have sent, the twin's statement is made to fail at the same message.

use weir_testkit::backend::Sight;
use weir_testkit::cuts::Dice;
use weir_testkit::reading::{messages, outline};
use weir_testkit::say::say;
use weir_wire::backend::TransactionStatus;
use weir_wire::frame::{Frame, Side, frame};
use weir_wire::frontend::tag;

use super::super::super::postgres::CANCELLED;
use super::super::super::world::World;
use super::{Actor, hides, inserts, is_fatal, is_last_word, may_change};

/// Request that was sent and is not answered.
#[derive(Debug)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    /// State of the twin when the request was sent.
    before: Vec<String>,
    /// Number of its statements that a server ran.
    ran: usize,
    /// True if they only read: they may have run before, on a server that was lost.
    is_read: bool,
    /// True if a cancel was in flight at some time since the request was sent.
    tainted: bool,
}

impl Actor {
    pub(super) fn act_exposed(
        &mut self,
        world: &mut World,
        caller: usize,
        dice: &mut Dice,
    ) -> Option<String> {
        if self.pending.is_some() {
            return None;
        }
        let step = self.speaker.next_alone(&self.twin, dice);
        let is_unsettled = std::mem::take(&mut self.is_unsettled);
        self.uncertain = is_unsettled;
        self.listens_apart |= self.may_listen_apart(&step);
        self.uncertain = may_change(&step) || self.is_checked || is_unsettled;
        self.inserts |= inserts(&step);
        self.hides |= hides(&step);
        self.ask(world, caller, &step.bytes);
        Some(step.text)
    }

    pub(super) fn ask(&mut self, world: &mut World, caller: usize, bytes: &[u8]) {
        self.pending = Some(Pending {
            bytes: bytes.to_vec(),
            before: self.twin.visible_state(),
            ran: 0,
            is_read: false,
            tainted: self.is_cancelling(world),
        });
        world.callers[caller].say(bytes);
    }

    /// Sends a cancel request for the client's statement.
    pub(in super::super) fn cancel(&mut self, world: &mut World) {
        if !self.person.is_exposed || self.greeted.is_none() {
            return;
        }
        if let Some(caller) = self.caller.filter(|_| self.askers.len() < 5) {
            if let Some(pending) = &mut self.pending {
                pending.tainted = true;
            }
            self.askers.push(world.request_cancel(caller));
        }
    }

    fn is_cancelling(&mut self, world: &World) -> bool {
        self.askers
            .retain(|asker| !world.callers[*asker].peer.is_closed());
        !self.askers.is_empty()
    }

    pub(super) fn finish_exposed(&mut self, world: &mut World, caller: usize) {
        if self.pending.is_some() {
            return;
        }
        if self.twin.status() != TransactionStatus::Idle {
            self.ask(world, caller, &say().query("ROLLBACK"));
        } else if !self.twin.holds_nothing() || std::mem::take(&mut self.hides) {
            self.ask(world, caller, &say().query("DISCARD ALL"));
        }
    }

    /// Notes that a server ran a statement of the request in flight. Returns the state that the twin had.
    pub(super) fn saw_exposed(&mut self, sight: &Sight, is_read: bool) -> Option<Vec<String>> {
        let pending = self.pending.as_mut();
        let pending = pending.unwrap_or_else(|| panic!("I-05: {sight:?} after its answer"));
        pending.ran += usize::from(pending.ran == 0 || !is_read);
        pending.is_read = is_read;
        Some(pending.before.clone())
    }

    /// Judges the bytes received since the last answer.
    pub(super) fn check_exposed(&mut self, body: &[u8], closed: bool) {
        let fresh = &body[self.judged..];
        let (found, _) = messages(fresh);
        let ready = found.iter().position(|message| message.tag == b'Z');
        let Some(ready) = ready else {
            if closed {
                self.check_end(body);
            }
            return;
        };
        let len = found[..=ready]
            .iter()
            .map(|message| message.raw.len())
            .sum();
        let (answer, rest) = fresh.split_at(len);
        let pending = self.pending.take();
        let pending = pending.unwrap_or_else(|| panic!("I-03: nobody asked: {}", self.story(body)));
        self.judged += len;
        self.judge(&pending, answer, body);
        if closed || !rest.is_empty() {
            self.check_end(body);
        }
    }

    /// Tells the twin the request, and the error that it could not know.
    fn judge(&mut self, pending: &Pending, answer: &[u8], body: &[u8]) {
        let mut imposed = false;
        let (answer, _) = self.in_order(answer);
        let mut rest = answer.as_slice();
        let mut request = pending.bytes.as_slice();
        while let Ok(Some(message)) = frame(request, Side::Frontend) {
            request = &request[message.raw.len()..];
            let error = imposed_on(message.header.tag, rest);
            let error = error.filter(|(error, _)| !imposed && self.is_imposed(error.raw, pending));
            let mut said = match error {
                Some((_, behind)) => {
                    imposed = true;
                    rest = behind;
                    self.impose(message.raw)
                }
                None => self.twin.converse(message.raw),
            };
            let (sorted, _) = self.in_order(&said);
            let same = rest.starts_with(&sorted);
            let told = if same { &rest[..said.len()] } else { &[] };
            rest = &rest[told.len()..];
            self.expected.append(&mut said);
            assert!(
                same,
                "I-01: {} answers {}: {}",
                outline(&answer),
                String::from_utf8_lossy(&pending.bytes),
                self.story(body)
            );
        }
        assert!(rest.is_empty(), "I-03: too much: {}", self.story(body));
        self.is_unsettled = imposed && self.uncertain;
        let runs = self.twin.take_sights().len();
        // A statement that ran and was undone had no effect.
        let right = pending.ran == runs || imposed && (pending.ran <= runs || pending.is_read);
        assert!(right, "I-05: ran {}: {}", pending.ran, self.story(body));
    }

    /// Makes the twin fail at this message. Returns the twin's output after its error.
    fn impose(&mut self, message: &[u8]) -> Vec<u8> {
        let at_sync = message[0] == tag::SYNC;
        if at_sync {
            // The implicit transaction fails at its end.
            self.twin.interrupt(&say().execute("", 0), CANCELLED);
        } else {
            self.twin.interrupt(message, CANCELLED);
        }
        let said = self.twin.take_sent();
        let own = frame(&said, Side::Backend).ok().flatten();
        let own = own.map_or(0, |own| own.raw.len());
        let mut said = said[own..].to_vec();
        if at_sync {
            said.append(&mut self.twin.converse(message));
        }
        said
    }

    /// True for an error from outside of the session.
    fn is_imposed(&self, error: &[u8], pending: &Pending) -> bool {
        let line = outline(error);
        if error[0] != b'E' || line.contains("FATAL") {
            return false;
        }
        if line.contains(CANCELLED) {
            assert!(
                pending.tainted,
                "I-07: cancelled later: {}",
                self.story(error)
            );
            return true;
        }
        self.person.is_struck
            && ["57014", "42501", "22023"]
                .iter()
                .any(|code| line.contains(code))
    }

    /// Checks an ended connection: one fatal error after the last answer, or within the next one.
    fn check_end(&self, body: &[u8]) {
        let fresh = &body[self.judged..];
        let last = (0..=fresh.len())
            .rev()
            .find(|at| is_fatal(&fresh[*at..], true));
        let spoken = self.left || self.twin.is_closed() || !messages(fresh).1.is_empty();
        let Some(at) = last else {
            assert!(spoken, "closed without a word: {}", self.story(body));
            return;
        };
        let tag = format!("{}-", self.speaker.tag());
        let (before, _) = messages(&fresh[..at]);
        for message in before.iter().filter(|message| message.tag == b'D') {
            let shown = String::from_utf8_lossy(message.body.get(6..).unwrap_or_default());
            let foreign = shown.starts_with('c') && shown.contains('-') && !shown.starts_with(&tag);
            assert!(!foreign, "I-01: {}", self.story(body));
        }
        let idle = self.pending.is_none() && self.twin.is_at_rest();
        let told = is_last_word(&fresh[at..]);
        let lost = self.uncertain || self.is_kept() || !self.twin.holds_nothing();
        let lost = lost || self.cannot_move(&fresh[at..]);
        assert!(
            !idle || told || lost,
            "COR-20: idle, and yet ended: {}",
            self.story(body)
        );
    }
}

/// Returns the error that an answer to this message begins with, perhaps behind a notice or the description of its
/// rows. Returns also the bytes after the error.
fn imposed_on(message: u8, answer: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    if [tag::FLUSH, tag::COPY_DATA].contains(&message) {
        return None;
    }
    let first = |bytes| frame(bytes, Side::Backend).ok().flatten();
    let mut rest = answer;
    let mut found = first(rest)?;
    let is_ahead = |tag| tag == b'N' || (message == tag::QUERY && tag == b'T');
    while is_ahead(found.header.tag) {
        rest = &rest[found.raw.len()..];
        found = first(rest)?;
    }
    Some((found, &rest[found.raw.len()..]))
}
