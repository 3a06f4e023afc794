//! One connection at the server's end: login, the model of a session, and cancels.

use weir_testkit::backend::{Backend, REPORTED};
use weir_testkit::say::say;
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::tag;
use weir_wire::startup::{Startup, startup};

use crate::driver::memory::{End, Peer};

/// In the error of every statement that was cancelled.
pub(super) const CANCELLED: &str = "cancelled";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Opening,
    Over,
    Up,
}

/// A cancel request that has reached the server.
#[derive(Debug)]
pub(super) struct CancelCall {
    pub(super) pid: u32,
    pub(super) key: Vec<u8>,
    pub(super) peer: Peer,
    pub(super) signalled: bool,
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Postgres {
    /// 0: a connection that carries a cancel request.
    pub(super) pid: u32,
    pub(super) peer: Peer,
    pub(super) backend: Backend,
    stage: Stage,
    inbox: Vec<u8>,
    /// The message that is being worked on: what a cancel hits.
    running: Option<Vec<u8>>,
    outbox: Vec<u8>,
    /// Everything it was asked to run.
    pub(super) asked: Vec<String>,
    /// A cancel has hit a statement here.
    was_hit: bool,
    /// It hears, but does nothing.
    pub(super) stalled: bool,
    /// What it answers to the next login instead of a welcome: code and text.
    pub(super) refusal: Option<(&'static str, &'static str)>,
}

impl Postgres {
    pub(super) fn new(pid: u32, peer: Peer) -> Self {
        Self {
            pid,
            peer,
            backend: Backend::default(),
            stage: Stage::Opening,
            inbox: Vec::new(),
            running: None,
            outbox: Vec::new(),
            asked: Vec::new(),
            was_hit: false,
            stalled: false,
            refusal: None,
        }
    }

    /// The key for cancels.
    pub(super) fn key(&self) -> [u8; 4] {
        (self.pid ^ 0x5a5a_5a5a).to_be_bytes()
    }

    /// Whether the connection exists for PostgreSQL: a session that was not ended by either side.
    pub(super) fn is_alive(&self) -> bool {
        self.stage != Stage::Over && !self.peer.is_over()
    }

    /// Logged in and between two requests of anybody, with nothing on its way.
    pub(super) fn is_at_rest(&self) -> bool {
        self.stage == Stage::Up
            && self.inbox.is_empty()
            && self.running.is_none()
            && self.outbox.is_empty()
            && self.peer.unread() == 0
            && self.backend.is_at_rest()
    }

    /// Hears, works and speaks as far as it can. True if anything moved.
    pub(super) fn serve(&mut self) -> bool {
        let mut moved = self.hear();
        while !self.stalled && self.work() {
            moved = true;
        }
        moved | self.speak(usize::MAX)
    }

    /// Takes what the worker sent.
    pub(super) fn hear(&mut self) -> bool {
        // A server that does not work fills its buffers and then the worker's.
        let room = if self.stalled { 16 } else { usize::MAX };
        let room = room.saturating_sub(self.inbox.len());
        let bytes = self.peer.receive(room);
        self.inbox.extend_from_slice(&bytes);
        if self.stage != Stage::Over && self.peer.is_over() && self.inbox.is_empty() {
            self.stage = Stage::Over;
            return true;
        }
        !bytes.is_empty()
    }

    /// Begins a message, or finishes the one it has begun.
    pub(super) fn work(&mut self) -> bool {
        match self.stage {
            Stage::Opening => self.open(),
            Stage::Over => false,
            Stage::Up => self.begin() || self.finish(),
        }
    }

    /// Begins the next message.
    pub(super) fn begin(&mut self) -> bool {
        if self.running.is_some() || self.stage != Stage::Up {
            return false;
        }
        let Ok(Some(message)) = frame(&self.inbox, Side::Frontend) else {
            return false;
        };
        let raw = message.raw.to_vec();
        if matches!(raw[0], tag::QUERY | tag::PARSE) {
            self.asked.push(text(message.body));
        }
        self.inbox.drain(..raw.len());
        self.running = Some(raw);
        true
    }

    pub(super) fn finish(&mut self) -> bool {
        let Some(message) = self.running.take() else {
            return false;
        };
        self.check_settings(&text(&message));
        self.backend.feed(&message);
        self.outbox.append(&mut self.backend.take_sent());
        true
    }

    /// Clients of the simulator set their own time zones (`Zn` for client n): nobody works with another's, and a query
    /// that says so finds its own (I-08).
    fn check_settings(&self, message: &str) {
        let Some((_, tag)) = message.split_once("row c") else {
            return;
        };
        let zone = self.backend.setting("TimeZone").unwrap_or_default();
        let owner = tag.split('-').next().unwrap_or_default();
        let own = zone == "UTC" || zone == format!("Z{owner}");
        let digits = tag.split_once('-').map(|(_, rest)| rest);
        let letter =
            digits.and_then(|rest| rest.trim_start_matches(char::is_numeric).chars().next());
        let kept = match letter {
            Some('z') if message.starts_with('Q') => zone != "UTC",
            Some('u') if message.starts_with('Q') => zone == "UTC",
            _ => true,
        };
        // A client that vanished has no claim: a cancel may have hit what set its zone.
        let kept = kept || self.was_hit;
        assert!(
            own && kept,
            "I-08: {message} in {zone} after {:?}",
            self.asked
        );
    }

    /// Sends up to so many bytes as one segment.
    pub(super) fn speak(&mut self, max: usize) -> bool {
        let len = self.outbox.len().min(max);
        let sent = self.peer.send(&self.outbox[..len]);
        self.outbox.drain(..sent);
        if self.stage == Stage::Up && self.backend.is_closed() && self.outbox.is_empty() {
            self.stage = Stage::Over;
            self.peer.end(End::Orderly);
            return true;
        }
        sent > 0
    }

    /// What was not sent is never sent.
    pub(super) fn discard_unsent(&mut self) {
        self.outbox.clear();
    }

    /// Bytes that wait to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.outbox.len()
    }

    /// The signal of a cancel request arrives. True if it hit something.
    pub(super) fn signal(&mut self) -> bool {
        if self.stage == Stage::Up && self.backend.is_copying() {
            self.backend.feed(&say().copy_fail(CANCELLED));
            self.outbox.append(&mut self.backend.take_sent());
            return true;
        }
        let Some(running) = &mut self.running else {
            return false;
        };
        match running[0] {
            tag::QUERY => *running = say().query(&format!("error {CANCELLED}")).into_bytes(),
            tag::EXECUTE => *running = say().execute(CANCELLED, 0).into_bytes(),
            _ => return false,
        }
        self.was_hit = true;
        true
    }

    /// Ends the connection: with a last word, or without.
    pub(super) fn die(&mut self, last_word: bool, how: End) {
        if last_word {
            let mut word = Vec::new();
            fatal(
                &mut word,
                "57P01",
                "terminating connection due to administrator command",
            );
            // A part of it would be none.
            self.outbox.append(&mut word);
            if self.outbox.len() <= self.peer.room() {
                self.speak(usize::MAX);
            }
        }
        self.stage = Stage::Over;
        self.peer.end(how);
    }

    fn open(&mut self) -> bool {
        let Ok(Some((Startup::Startup(_), len))) = startup(&self.inbox) else {
            return false;
        };
        self.inbox.drain(..len);
        let mut out = Vec::new();
        if let Some((code, text)) = self.refusal {
            fatal(&mut out, code, text);
            self.outbox.append(&mut out);
            self.speak(usize::MAX);
            self.stage = Stage::Over;
            self.peer.end(End::Orderly);
            return true;
        }
        encode::authentication_ok(&mut out).unwrap();
        for (name, value) in REPORTED {
            encode::parameter_status(&mut out, name.as_bytes(), value.as_bytes()).unwrap();
        }
        encode::backend_key_data(&mut out, self.pid, &self.key()).unwrap();
        encode::ready_for_query(&mut out, TransactionStatus::Idle).unwrap();
        self.outbox.append(&mut out);
        self.stage = Stage::Up;
        true
    }

    /// If this connection carries a cancel request: what it says.
    pub(super) fn cancel_request(&self) -> Option<(u32, Vec<u8>)> {
        match startup(&self.inbox) {
            Ok(Some((Startup::Cancel(cancel), _))) => Some((cancel.pid, cancel.key.to_vec())),
            _ => None,
        }
    }
}

fn fatal(out: &mut Vec<u8>, code: &str, text: &str) {
    let fields = [
        (b'S', &b"FATAL"[..]),
        (b'V', b"FATAL"),
        (b'C', code.as_bytes()),
        (b'M', text.as_bytes()),
    ];
    encode::error_response(out, &fields).unwrap();
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body)
        .trim_matches('\0')
        .replace('\0', "|")
}
