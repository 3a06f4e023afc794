//! A client of the load: reads, autocommitted writes and transactions, plain and prepared, at a steady pace. It never
//! repeats a request, so that each of its rows has one fate.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::ledger::CLOSED;
use super::ledger::Fate;
use super::ledger::Place;
use super::ledger::Record;
use super::ledger::SILENT;
use super::ledger::STANDBY;
use super::ledger::fate_by;
use super::subject::Entrance;
use crate::Raw;
use crate::clock::now;
use crate::frontend;
use crate::random::Random;
use crate::raw::Message;

/// Time limit of a request, longer than each of Weir's own (`failover_hold` is 60 s).
const PATIENCE: Duration = Duration::from_secs(100);
/// Pause between two requests, also inside a transaction, at most; half of it on average.
const PAUSE_MS_MAX: usize = 40;
/// Pause before a refused login is tried again.
const AGAIN: Duration = Duration::from_millis(50);
/// Every client whose number is a multiple of this only reads: the others soon wait with a write when the primary goes.
const READER_EACH: u32 = 5;
/// Rows of a client have ids from its number times this on.
const IDS: i64 = 1_000_000_000;

/// Signals between a client's thread and the drill.
#[derive(Debug, Default)]
pub(super) struct Signals {
    pub(super) stop: AtomicBool,
    /// Requests and transactions that succeeded.
    pub(super) successes: AtomicU64,
}

/// Protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Simple,
    Prepared,
}

/// A statement about one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statement {
    Insert,
    Look,
}

impl Statement {
    /// Name as a prepared statement.
    fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Look => "look",
        }
    }

    /// Text with this in the place of the row's id.
    fn text(self, client: i64, id: &str) -> String {
        match self {
            Self::Insert => format!("INSERT INTO ledger VALUES ({id}, {client})"),
            Self::Look => format!("SELECT count(*) FROM ledger WHERE id = {id}"),
        }
    }
}

/// Error that a request ended with.
#[derive(Debug)]
struct Failure {
    /// SQLSTATE, or [`CLOSED`] or [`SILENT`].
    code: String,
    text: String,
}

/// First column of the first row; empty without rows.
type Answer = Result<String, Failure>;

#[derive(Debug)]
struct Session {
    raw: Raw,
    /// Statements that the session has prepared.
    prepared: Vec<Statement>,
}

/// A client, which runs in a thread of its own.
#[derive(Debug)]
pub(super) struct Client {
    entrance: Entrance,
    number: i64,
    only_reads: bool,
    random: Random,
    session: Option<Session>,
    last_id: i64,
    /// Newest acknowledged row.
    acknowledged: Option<i64>,
    record: Record,
}

impl Client {
    /// Client with this number, from 0 on.
    pub(super) fn new(entrance: Entrance, number: u32, seed: u64) -> Self {
        let only_reads = number.is_multiple_of(READER_EACH);
        let number = i64::from(number) + 1;
        Self {
            entrance,
            number,
            only_reads,
            random: Random::new(seed ^ number.unsigned_abs()),
            session: None,
            last_id: number * IDS,
            acknowledged: None,
            record: Record::default(),
        }
    }

    /// Works until it is told to stop, and returns its record.
    pub(super) fn run(mut self, signals: &Signals) -> Record {
        while !signals.stop.load(Ordering::Relaxed) {
            if self.session.is_none() && !self.log_in() {
                thread::park_timeout(AGAIN);
                continue;
            }
            if self.work() {
                signals.successes.fetch_add(1, Ordering::Relaxed);
            }
            self.pause();
        }
        if let Some(session) = self.session.take() {
            session.raw.terminate();
        }
        self.record
    }

    /// Logs in at the first address that serves it; true if there is one. A login that fails is one error.
    fn log_in(&mut self) -> bool {
        let mut last = None;
        for address in &self.entrance.addresses {
            let before = now();
            let login = log_in_at(*address, &self.entrance);
            self.record.longest_login = self.record.longest_login.max(now() - before);
            match login {
                Ok(raw) => {
                    let prepared = Vec::new();
                    self.session = Some(Session { raw, prepared });
                    // A new session need not see the commits of another one.
                    self.acknowledged = None;
                    return true;
                }
                Err(failure) => last = Some(failure),
            }
        }
        if let Some(failure) = last {
            self.note(Place::Login, &failure);
        }
        false
    }

    fn pause(&mut self) {
        let pause = self.random.below(PAUSE_MS_MAX);
        thread::park_timeout(Duration::from_millis(pause.try_into().unwrap_or(0)));
    }

    /// Runs a request or a transaction; true if it succeeded.
    fn work(&mut self) -> bool {
        let protocol = match self.random.chance(50) {
            true => Protocol::Simple,
            false => Protocol::Prepared,
        };
        match self.random.below(100) {
            _ if self.only_reads => self.read(protocol),
            0..45 => self.read(protocol),
            45..70 => self.write(protocol),
            70..90 => self.transaction(protocol),
            _ => self.read_only_transaction(protocol),
        }
    }

    fn read(&mut self, protocol: Protocol) -> bool {
        match self.look(protocol) {
            Ok(count) => {
                self.compare(self.acknowledged.unwrap_or_default(), &count);
                self.record.reads.push(now());
                true
            }
            Err(failure) => {
                self.note(Place::Read, &failure);
                false
            }
        }
    }

    fn write(&mut self, protocol: Protocol) -> bool {
        let id = self.next_id();
        match self.ask(protocol, Statement::Insert, id) {
            Ok(_) => {
                self.acknowledge(&[id]);
                true
            }
            Err(failure) => {
                let fate = self.fate_by(&failure);
                self.record.rows.insert(id, fate);
                self.note(Place::Write, &failure);
                false
            }
        }
    }

    fn fate_by(&self, failure: &Failure) -> Fate {
        match failure.code.as_str() {
            "08006" if self.entrance.knows_outcomes => Fate::Refused,
            // The server ends in the middle of its work: a record of the commit may be written.
            _ if failure.text.starts_with("PANIC") => Fate::Unknown,
            code => fate_by(code),
        }
    }

    fn transaction(&mut self, protocol: Protocol) -> bool {
        let ids = [self.next_id(), self.next_id()];
        // Until COMMIT is sent, no row can be there.
        self.record.rows.extend(ids.map(|id| (id, Fate::Refused)));
        if let Err(failure) = self.ask_text("BEGIN") {
            self.note(Place::Begin, &failure);
            return false;
        }
        for id in ids {
            if let Err(failure) = self.ask(protocol, Statement::Insert, id) {
                return self.abandon(&failure);
            }
            self.pause();
            match self.ask(protocol, Statement::Look, id) {
                Ok(count) => self.compare(id, &count),
                Err(failure) => return self.abandon(&failure),
            }
            self.pause();
        }
        match self.commit() {
            Ok(()) => {
                self.acknowledge(&ids);
                true
            }
            Err(failure) => {
                let fate = self.fate_by(&failure);
                self.record.rows.extend(ids.map(|id| (id, fate)));
                self.note(Place::Commit, &failure);
                false
            }
        }
    }

    fn read_only_transaction(&mut self, protocol: Protocol) -> bool {
        if let Err(failure) = self.ask_text("BEGIN READ ONLY") {
            self.note(Place::Begin, &failure);
            return false;
        }
        for _ in 0..2 {
            let answer = self.look(protocol);
            match answer {
                Ok(count) => self.compare(self.acknowledged.unwrap_or_default(), &count),
                Err(failure) => return self.abandon(&failure),
            }
            self.pause();
        }
        // Nothing was written: a lost COMMIT leaves no fate open.
        if let Err(failure) = self.commit() {
            self.note(Place::Inside, &failure);
            return false;
        }
        self.record.reads.push(now());
        true
    }

    /// Ends a transaction that has failed.
    fn abandon(&mut self, failure: &Failure) -> bool {
        self.note(Place::Inside, failure);
        if self.session.is_some()
            && let Err(failure) = self.ask_text("ROLLBACK")
        {
            self.note(Place::Inside, &failure);
        }
        false
    }

    fn compare(&mut self, id: i64, count: &str) {
        let wanted = if id == 0 { "0" } else { "1" };
        if count != wanted {
            let what = format!("row {id} is there {count} times");
            self.record.stale.push(what);
        }
    }

    fn acknowledge(&mut self, ids: &[i64]) {
        self.record
            .rows
            .extend(ids.iter().map(|id| (*id, Fate::Acknowledged)));
        self.acknowledged = ids.last().copied();
        self.record.writes.push(now());
    }

    fn note(&mut self, place: Place, failure: &Failure) {
        self.record
            .error(now(), place, &failure.code, &failure.text);
    }

    fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    fn look(&mut self, protocol: Protocol) -> Answer {
        let id = self.acknowledged.unwrap_or_default();
        self.ask(protocol, Statement::Look, id)
    }

    fn ask(&mut self, protocol: Protocol, statement: Statement, id: i64) -> Answer {
        let id = id.to_string();
        if protocol == Protocol::Simple {
            return self.ask_text(&statement.text(self.number, &id));
        }
        let session = self.session.as_ref();
        let is_prepared = session.is_some_and(|session| session.prepared.contains(&statement));
        let mut batch = Vec::new();
        let name = statement.name();
        if !is_prepared {
            // An earlier attempt may have prepared it before it failed.
            batch.extend(frontend::close(b'S', name));
            batch.extend(frontend::parse(
                name,
                &statement.text(self.number, "$1"),
                &[],
            ));
        }
        batch.extend(frontend::bind("", name, &[Some(id.as_bytes())]));
        batch.extend(frontend::execute("", 0));
        batch.extend(frontend::sync());
        let answer = self.exchange(&batch).map(|messages| first_value(&messages));
        if let (Ok(_), Some(session), false) = (&answer, &mut self.session, is_prepared) {
            session.prepared.push(statement);
        }
        answer
    }

    fn ask_text(&mut self, sql: &str) -> Answer {
        let messages = self.exchange(&frontend::query(sql))?;
        Ok(first_value(&messages))
    }

    fn commit(&mut self) -> Result<(), Failure> {
        let messages = self.exchange(&frontend::query("COMMIT"))?;
        let mut tags = messages.iter().filter(|message| message.tag == b'C');
        if tags.any(|tag| tag.body.starts_with(b"COMMIT")) {
            return Ok(());
        }
        let (code, text) = ("25P02".to_owned(), "COMMIT has rolled back".to_owned());
        Err(Failure { code, text })
    }

    /// Sends a batch and waits for its end. A connection that is lost is forgotten.
    fn exchange(&mut self, batch: &[u8]) -> Result<Vec<Message>, Failure> {
        let Some(session) = &mut self.session else {
            let code = CLOSED.to_owned();
            let text = "no session".to_owned();
            return Err(Failure { code, text });
        };
        let before = now();
        let asked = session.raw.ask(batch);
        self.record.longest = self.record.longest.max(now() - before);
        match asked {
            Ok(messages) => {
                if messages.last().is_none_or(|last| last.tag != b'Z') {
                    self.session = None;
                }
                check(messages)
            }
            Err(error) => {
                self.session = None;
                Err(lost(&error))
            }
        }
    }
}

fn log_in_at(address: SocketAddr, entrance: &Entrance) -> Result<Raw, Failure> {
    let limit = entrance.login_max().unwrap_or(PATIENCE);
    let started = Raw::at(address, limit).and_then(|mut raw| {
        let parameters = [("user", "postgres"), ("database", "postgres")];
        let messages = raw.ask(&frontend::startup(frontend::VERSION_3_0, &parameters))?;
        raw.stream().set_read_timeout(Some(PATIENCE))?;
        Ok((raw, messages))
    });
    let (raw, messages) = started.map_err(|error| lost(&error))?;
    let messages = check(messages)?;
    let is_standby =
        |message: &Message| message.tag == b'S' && message.body.starts_with(b"in_hot_standby\0on");
    if entrance.seeks_primary && messages.iter().any(is_standby) {
        raw.terminate();
        let (code, text) = (STANDBY.to_owned(), "session is read-only".to_owned());
        return Err(Failure { code, text });
    }
    Ok(raw)
}

/// Fails with the first error of a batch.
fn check(messages: Vec<Message>) -> Result<Vec<Message>, Failure> {
    match messages.iter().find(|message| message.tag == b'E') {
        None => Ok(messages),
        Some(error) => Err(Failure {
            code: error.field(b'C').unwrap_or_default(),
            text: with_notices(error, &messages),
        }),
    }
}

/// Text of an error, behind the notices that have come before it.
fn with_notices(error: &Message, messages: &[Message]) -> String {
    let notices = messages.iter().filter(|message| message.tag == b'N');
    let texts = notices.map(|notice| format!(" (with {})", notice.error()));
    error.error() + &texts.collect::<String>()
}

fn first_value(messages: &[Message]) -> String {
    let row = messages.iter().find(|message| message.tag == b'D');
    let first = row.and_then(|row| row.row().ok()?.into_iter().next()?);
    first.unwrap_or_default()
}

fn lost(error: &anyhow::Error) -> Failure {
    let io = error
        .chain()
        .find_map(|source| source.downcast_ref::<io::Error>());
    let is_silent = io.is_some_and(|io| {
        matches!(
            io.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        )
    });
    let code = if is_silent { SILENT } else { CLOSED };
    Failure {
        code: code.to_owned(),
        text: format!("{error:#}"),
    }
}
