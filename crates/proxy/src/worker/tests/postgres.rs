//! Server's end of one connection: login, the model of a session, and cancels.

use std::sync::{Arc, Mutex};

use weir_testkit::backend::{Backend, Database};
use weir_testkit::cluster::Site;
use weir_testkit::reading::messages;
use weir_testkit::say::say;
use weir_wire::backend::{self, TransactionStatus};
use weir_wire::encode::{self, ErrorReport, Severity};
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::{self, tag};
use weir_wire::sqlstate::SqlState;
use weir_wire::startup::{Startup, startup};

use crate::driver::memory::{End, Peer};
use crate::global::lock;

/// Error text of every cancelled statement.
pub(super) const CANCELLED: &str = "canceling statement due to user request";
/// Error text of every statement that took too long.
pub(super) const TIMED_OUT: &str = "canceling statement due to statement timeout";
/// Text of the FATAL error before the end of a connection.
pub(super) const LAST_WORD: &str = "terminating connection due to administrator command";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Opening,
    Over,
    Up,
}

/// Cancel request that has reached the server.
#[derive(Debug)]
pub(super) struct CancelCall {
    pub(super) pid: u32,
    pub(super) key: Vec<u8>,
    pub(super) peer: Peer,
    pub(super) signalled: bool,
}

/// Answers to statements with a parameter: rows, by the parameter's value.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub(super) rows: Vec<(&'static str, Vec<Vec<Option<&'static str>>>)>,
    /// True if the statement is refused.
    pub(super) fails: bool,
    /// True if every LISTEN is refused, as on a hot standby.
    pub(super) is_standby: bool,
    /// Parameters that were bound.
    pub(super) looked_up: Vec<String>,
    /// Current number of the role; `defaults` are those of its sessions.
    pub(super) role: u32,
    pub(super) defaults: Option<&'static str>,
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Postgres {
    /// Process number; 0 for a connection that carries a cancel request.
    pub(super) pid: u32,
    pub(super) peer: Peer,
    pub(super) backend: Backend,
    /// Database whose sessions behave as PostgreSQL's, with parameters of the start-up packet. Without one, sessions
    /// understand the shorthand.
    pub(super) database: Option<Database>,
    /// Host of the connection, in a world with several.
    pub(super) site: Option<Site>,
    stage: Stage,
    inbox: Vec<u8>,
    /// Message that is being executed: the target of a cancel.
    running: Option<Vec<u8>>,
    /// Error that ends the running message in place of its result.
    interruption: Option<&'static str>,
    outbox: Vec<u8>,
    /// Texts that the server was asked to run.
    pub(super) asked: Vec<String>,
    /// Number of bytes received.
    pub(super) heard: usize,
    /// Parameters of the start-up packet.
    pub(super) parameters: Vec<(String, String)>,
    pub(super) catalog: Arc<Mutex<Catalog>>,
    /// Value bound to a parsed statement with a parameter.
    question: Option<String>,
    /// Number of the role at login.
    role: u32,
    /// Number of role checks that the server was asked for.
    pub(super) role_checks: u32,
    /// True if a cancel has hit a statement here.
    was_hit: bool,
    /// True if the server receives, but executes nothing.
    pub(super) stalled: bool,
    /// Error for the next login instead of a welcome: code and text.
    pub(super) refusal: Option<(&'static str, &'static str)>,
    /// Setting that the role may not change any more.
    pub(super) denied: Option<&'static str>,
}

impl Postgres {
    pub(super) fn new(pid: u32, peer: Peer) -> Self {
        Self {
            pid,
            peer,
            backend: Backend::default(),
            database: None,
            site: None,
            stage: Stage::Opening,
            inbox: Vec::new(),
            running: None,
            interruption: None,
            outbox: Vec::new(),
            asked: Vec::new(),
            heard: 0,
            parameters: Vec::new(),
            catalog: Arc::default(),
            question: None,
            role: 0,
            role_checks: 0,
            was_hit: false,
            stalled: false,
            refusal: None,
            denied: None,
        }
    }

    /// Makes a server that has received these bytes already.
    pub(super) fn hearing(pid: u32, peer: Peer, bytes: &[u8]) -> Self {
        let mut server = Self::new(pid, peer);
        server.inbox.extend_from_slice(bytes);
        server
    }

    /// Returns the cancel key.
    pub(super) fn key(&self) -> [u8; 4] {
        (self.pid ^ 0x5a5a_5a5a).to_be_bytes()
    }

    /// True if the connection exists for PostgreSQL: neither side has ended the session.
    pub(super) fn is_alive(&self) -> bool {
        self.stage != Stage::Over && !self.peer.is_over()
    }

    /// True if the server is logged in and between two requests, with nothing in flight.
    pub(super) fn is_at_rest(&self) -> bool {
        self.stage == Stage::Up
            && self.hears_nothing_new()
            && self.outbox.is_empty()
            && self.peer.unread() == 0
            && self.backend.is_at_rest()
    }

    /// True if no input is left but data of a failed COPY, which PostgreSQL ignores.
    fn hears_nothing_new(&self) -> bool {
        let late = [tag::COPY_DATA, tag::COPY_DONE, tag::COPY_FAIL];
        let is_late = |message: &[u8]| message.first().is_none_or(|first| late.contains(first));
        let mut rest = self.inbox.as_slice();
        while let Ok(Some(message)) = frame(rest, Side::Frontend) {
            if !is_late(message.raw) {
                return false;
            }
            rest = &rest[message.raw.len()..];
        }
        is_late(rest) && self.running.as_deref().is_none_or(is_late)
    }

    /// Receives, executes and sends as far as possible. True if anything moved.
    pub(super) fn serve(&mut self) -> bool {
        let moves = self.peer.moves();
        let mut moved = self.hear();
        while !self.stalled && self.work() {
            moved = true;
        }
        if !self.stalled && self.stage != Stage::Over && self.peer.is_over() {
            // What is left is a part of a message. PostgreSQL ends the session when it finds the connection closed.
            self.backend.close();
            self.stage = Stage::Over;
            moved = true;
        }
        if !self.stalled && self.stage == Stage::Up && self.running.is_none() {
            self.backend.speak_up();
            self.outbox.append(&mut self.backend.take_sent());
        }
        moved | self.speak(usize::MAX) | (self.peer.moves() != moves)
    }

    /// Receives bytes from the worker. True if anything changed.
    pub(super) fn hear(&mut self) -> bool {
        // A stalled server fills its own buffers, then the worker's.
        let room = if self.stalled { 16 } else { usize::MAX };
        let room = room.saturating_sub(self.inbox.len());
        let bytes = self.peer.receive(room);
        self.inbox.extend_from_slice(&bytes);
        self.heard += bytes.len();
        if self.stage != Stage::Over && self.peer.is_over() && self.inbox.is_empty() {
            // Without a Terminate: PostgreSQL ends the session when it finds the connection closed.
            self.backend.close();
            self.stage = Stage::Over;
            return true;
        }
        !bytes.is_empty()
    }

    /// Begins a message, or finishes the running one.
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
        if matches!(raw[0], tag::QUERY | tag::PARSE) && !is_role_check(&raw) {
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
        if is_role_check(&message) {
            self.tell_role();
            return true;
        }
        if let Some(name) = self.denied.filter(|name| text(&message).contains(*name)) {
            self.deny(name);
            return true;
        }
        self.check_settings(&text(&message));
        let message = self.questioned(message);
        match self.interruption.take() {
            Some(text) => drop(self.backend.interrupt(&message, text)),
            None => self.backend.feed(&message),
        }
        let mut sent = self.backend.take_sent();
        if !sent.is_empty() {
            sent = self.answered(sent);
        }
        self.outbox.append(&mut sent);
        true
    }

    fn deny(&mut self, name: &str) {
        let code = SqlState::INSUFFICIENT_PRIVILEGE;
        let message = format!("permission denied to set parameter \"{name}\"");
        let report = ErrorReport::new(Severity::Error, code, &message);
        report.encode(&mut self.outbox).unwrap();
        encode::ready_for_query(&mut self.outbox, TransactionStatus::Idle).unwrap();
    }

    /// Answers a role check: the role that a login would find, and the one of this session.
    fn tell_role(&mut self) {
        self.role_checks += 1;
        let catalog = lock(&self.catalog);
        let (role, session) = (catalog.role.to_string(), self.role.to_string());
        let defaults = catalog.defaults.map(str::as_bytes);
        let row = [Some(role.as_bytes()), Some(session.as_bytes()), defaults];
        encode::data_row(&mut self.outbox, &row).unwrap();
        encode::command_complete(&mut self.outbox, b"SELECT 1").unwrap();
        encode::ready_for_query(&mut self.outbox, TransactionStatus::Idle).unwrap();
    }

    /// Replaces a statement with a parameter by one without rows: the shorthand has no parameters.
    fn questioned(&mut self, message: Vec<u8>) -> Vec<u8> {
        match message[0] {
            tag::QUERY if text(&message).contains("LISTEN ") && lock(&self.catalog).is_standby => {
                say()
                    .query("error cannot execute LISTEN during recovery")
                    .into_bytes()
            }
            tag::PARSE if text(&message).contains("$1") && self.database.is_none() => {
                self.question = Some(String::new());
                let verb = if lock(&self.catalog).fails {
                    "error"
                } else {
                    "do"
                };
                say()
                    .parse("", &format!("{verb} permission denied"))
                    .into_bytes()
            }
            tag::BIND => {
                let bind = frontend::Bind::parse(&message[5..]).unwrap();
                if let Some(value) = &mut self.question {
                    // No formats of parameters, one parameter, its length and value, no formats of results.
                    let value_of = |rest: &[u8]| {
                        let rest = rest.strip_prefix(&[0, 0, 0, 1])?.strip_suffix(&[0, 0])?;
                        let (len, value) = rest.split_first_chunk()?;
                        let fits = usize::try_from(i32::from_be_bytes(*len)) == Ok(value.len());
                        fits.then(|| String::from_utf8_lossy(value).into_owned())
                    };
                    *value = value_of(bind.rest).expect("one parameter in text form");
                    lock(&self.catalog).looked_up.push(value.clone());
                }
                message
            }
            _ => message,
        }
    }

    /// Puts the rows of a parameterised statement before its end.
    fn answered(&mut self, sent: Vec<u8>) -> Vec<u8> {
        let Some(value) = self.question.take() else {
            return sent;
        };
        let mut rows = Vec::new();
        let catalog = lock(&self.catalog);
        for (_, found) in catalog.rows.iter().filter(|(name, _)| *name == value) {
            for row in found {
                let row: Vec<_> = row.iter().map(|column| column.map(str::as_bytes)).collect();
                encode::data_row(&mut rows, &row).unwrap();
            }
        }
        let (messages, _) = messages(&sent);
        let parts = messages.iter().map(|message| match message.tag {
            backend::tag::COMMAND_COMPLETE => [&rows, message.raw].concat(),
            _ => message.raw.to_vec(),
        });
        parts.collect::<Vec<_>>().concat()
    }

    /// Checks the time zone of a simulator's client (`Zn` for client n): no statement runs with another client's zone,
    /// and a query that names its client finds that client's zone (I-08).
    fn check_settings(&self, message: &str) {
        let Some((_, tag)) = message.split_once("row c") else {
            return;
        };
        let zone = self.backend.setting("TimeZone").unwrap_or_default();
        let owner = tag.split('-').next().unwrap_or_default();
        let own = zone == "UTC" || zone == format!("Z{owner}");
        let digits = tag.split_once('-').map(|(_, rest)| rest);
        let kind = digits.and_then(|rest| rest.trim_start_matches(char::is_numeric).chars().next());
        let kept = match kind {
            Some('z') if message.starts_with('Q') => zone != "UTC",
            Some('u') if message.starts_with('Q') => zone == "UTC",
            _ => true,
        };
        // The check does not apply to a vanished client: a cancel may have hit its SET.
        let kept = kept || self.was_hit;
        assert!(
            own && kept,
            "I-08: {message} in {zone} after {:?}",
            self.asked
        );
    }

    /// Sends up to `max` bytes as one segment.
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

    /// Drops the bytes that were not sent.
    pub(super) fn discard_unsent(&mut self) {
        self.outbox.clear();
    }

    /// Number of bytes that wait to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.outbox.len()
    }

    /// Receives the signal of a cancel request. True if it hit a statement.
    pub(super) fn signal(&mut self) -> bool {
        self.strike(CANCELLED)
    }

    /// Makes the running message fail with this text. True if a message was running.
    pub(super) fn strike(&mut self, text: &'static str) -> bool {
        if self.stage == Stage::Up && self.backend.is_copying() {
            self.backend.interrupt(&[], text);
            self.outbox.append(&mut self.backend.take_sent());
            return true;
        }
        let can_fail = [tag::QUERY, tag::PARSE, tag::BIND, tag::EXECUTE];
        let Some(running) = &self.running else {
            return false;
        };
        if !can_fail.contains(&running[0]) {
            return false;
        }
        self.interruption = Some(text);
        self.was_hit = true;
        true
    }

    /// Executes all that has arrived, and ends the connection before any answer leaves.
    pub(super) fn die_unheard(&mut self) {
        while self.work() {}
        self.discard_unsent();
        self.die(false, End::Reset);
    }

    /// Ends the connection, with a FATAL error first or without.
    pub(super) fn die(&mut self, last_word: bool, how: End) {
        if last_word {
            self.say_last_word();
        }
        self.stage = Stage::Over;
        self.peer.end(how);
    }

    /// Ends as PostgreSQL does after a crash of another process, without an answer.
    pub(super) fn crash(&mut self) {
        self.crash_behind(0);
    }

    /// Likewise behind this number of bytes that were not sent yet, in one packet with them.
    pub(super) fn crash_behind(&mut self, len: usize) {
        self.outbox.truncate(len);
        fatal(&mut self.outbox, "57P02", LAST_WORD);
        // A warning: the severity does not matter to anybody.
        self.outbox[len] = backend::tag::NOTICE_RESPONSE;
        self.speak(usize::MAX);
        self.die(false, End::Orderly);
    }

    /// Sends a FATAL error, whole or not at all.
    pub(super) fn say_last_word(&mut self) {
        fatal(&mut self.outbox, "57P01", LAST_WORD);
        if self.outbox.len() <= self.peer.room() {
            self.speak(usize::MAX);
        }
    }

    fn open(&mut self) -> bool {
        let Ok(Some((Startup::Startup(message), len))) = startup(&self.inbox) else {
            return false;
        };
        let parameters = message
            .params()
            .map(|(name, value)| (text(name), text(value)));
        self.parameters = parameters.collect();
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
        self.role = lock(&self.catalog).role;
        encode::authentication_ok(&mut out).unwrap();
        if let Some(database) = &self.database {
            let own = |name: &str| !["user", "database"].contains(&name);
            let settings = self.parameters.iter().filter(|(name, _)| own(name));
            let settings: Vec<_> = settings.map(|(n, v)| (n.as_str(), v.as_str())).collect();
            self.backend = match &self.site {
                Some(site) => Backend::open_at(database, site, self.user(), &settings),
                None => Backend::open(database, self.user(), &settings),
            };
            self.backend.set_process(self.pid);
            self.backend.watch();
        }
        for (name, value) in self.backend.greeting() {
            encode::parameter_status(&mut out, name.as_bytes(), value.as_bytes()).unwrap();
        }
        encode::backend_key_data(&mut out, self.pid, &self.key()).unwrap();
        encode::ready_for_query(&mut out, TransactionStatus::Idle).unwrap();
        self.outbox.append(&mut out);
        self.stage = Stage::Up;
        true
    }

    /// Returns the user of the session.
    pub(super) fn user(&self) -> &str {
        self.parameter("user").unwrap_or_default()
    }

    /// Returns a parameter of the start-up packet.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let mut found = self.parameters.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// Returns process number and key, if this connection carries a cancel request.
    pub(super) fn cancel_request(&self) -> Option<(u32, Vec<u8>)> {
        match startup(&self.inbox) {
            Ok(Some((Startup::Cancel(cancel), _))) => Some((cancel.pid, cancel.key.to_vec())),
            _ => None,
        }
    }
}

/// True for Weir's own role check, which the model does not answer.
fn is_role_check(message: &[u8]) -> bool {
    message.starts_with(b"Q") && text(message).contains("Weir: role_check_delay")
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
