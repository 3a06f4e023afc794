//! A model of one PostgreSQL session after login: bytes of a client in, bytes of the server out.
//!
//! It follows `tcop/postgres.c`: an error in the extended protocol skips everything up to Sync, *including* Query;
//! Flush and Sync are ignored while COPY data is expected, and late COPY messages at any other time; a statement that
//! cannot run in a failed transaction says 25P02; changed parameters are reported before ReadyForQuery.
//!
//! Compared by hand with PostgreSQL 15, raw bytes against raw bytes: skipping, COPY in both protocols
//! (late, failed, twice in one Query, Sync ahead of the data), failed transactions, portals with row limits, duplicate
//! and unknown names, the life of the unnamed statement and portal, `DISCARD ALL` and `DEALLOCATE ALL`, FunctionCall.
//! Since release 14, a message that has no place in a COPY FROM STDIN ends the session ("protocol synchronization was
//! lost"); so it does here.
//!
//! Statements, several separated by `;`: `row X`, `rows N X`, `do X`, `error X` (when it runs), `error parse` (a syntax
//! error, as is anything unknown), `begin`, `commit`, `rollback`, `copy in` (data `bad` fails it), `copy out N`,
//! `notice X`, `set NAME VALUE`, `reset NAME`, `discard all`, `deallocate all`, `die` (FATAL).

use std::collections::{BTreeMap, VecDeque};

use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::tag;

mod copy;
mod extended;
mod run;
mod sql;

use copy::Copying;
use extended::Portal;
use sql::Sql;

/// Parameters that are reported, with their defaults, in the order of the login.
pub const REPORTED: [(&str, &str); 3] = [
    ("application_name", ""),
    ("server_version", "15.18"),
    ("TimeZone", "UTC"),
];

/// When replies leave the server. PostgreSQL collects them until it has to; a peer must not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// At Flush, ReadyForQuery, CopyInResponse and the end of the session.
    #[default]
    Buffered,
    /// At once.
    Immediate,
}

/// See the module.
#[derive(Debug)]
pub struct Backend {
    output: Output,
    unread: Vec<u8>,
    buffered: Vec<u8>,
    sent: Vec<u8>,
    status: TransactionStatus,
    /// By name; the unnamed one is the empty name.
    statements: BTreeMap<Vec<u8>, Vec<Sql>>,
    portals: BTreeMap<Vec<u8>, Portal>,
    copying: Option<Copying>,
    /// An error now skips to the next Sync.
    extended: bool,
    skipping: bool,
    /// A message of the extended protocol was processed since the last ReadyForQuery.
    in_batch: bool,
    /// Something was executed since the implicit transaction began.
    pipelining: bool,
    settings: Settings,
    closed: bool,
}

/// A statement failed: SQLSTATE and text.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    code: &'static str,
    text: String,
    fatal: bool,
}

impl Failure {
    fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            fatal: false,
        }
    }

    fn in_failed_transaction() -> Self {
        Self::new(
            "25P02",
            "current transaction is aborted, commands ignored until end of transaction block",
        )
    }
}

/// Parameter values: as they are, as they will be after a rollback, and as the client knows them.
#[derive(Debug)]
struct Settings {
    now: BTreeMap<String, String>,
    committed: BTreeMap<String, String>,
    told: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        let defaults: BTreeMap<_, _> = REPORTED
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()))
            .collect();
        Self {
            now: defaults.clone(),
            committed: defaults.clone(),
            told: defaults,
        }
    }
}

impl Default for Backend {
    fn default() -> Self {
        Self::new(Output::default())
    }
}

impl Backend {
    /// A session that has just said ReadyForQuery.
    pub fn new(output: Output) -> Self {
        Self {
            output,
            unread: Vec::new(),
            buffered: Vec::new(),
            sent: Vec::new(),
            status: TransactionStatus::Idle,
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            copying: None,
            extended: false,
            skipping: false,
            in_batch: false,
            pipelining: false,
            settings: Settings::default(),
            closed: false,
        }
    }

    /// Takes bytes of a client, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        while !self.closed {
            let unread = std::mem::take(&mut self.unread);
            let done = match frame(&unread, Side::Frontend) {
                Ok(Some(frame)) => {
                    self.message(frame.header.tag, frame.body);
                    frame.raw.len()
                }
                Ok(None) => {
                    self.unread = unread;
                    break;
                }
                Err(error) => {
                    self.fatal("08P01", &error.to_string());
                    break;
                }
            };
            self.unread = unread.get(done..).unwrap_or_default().to_vec();
        }
        if self.output == Output::Immediate {
            self.flush();
        }
    }

    /// What has left the server since the last call.
    pub fn take_sent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sent)
    }

    /// A whole exchange: [`Backend::feed`], then [`Backend::take_sent`].
    pub fn converse(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.feed(bytes);
        self.take_sent()
    }

    /// The transaction status.
    pub fn status(&self) -> TransactionStatus {
        self.status
    }

    /// Names of the named prepared statements, sorted.
    pub fn prepared(&self) -> impl Iterator<Item = &[u8]> {
        let names = self.statements.keys().map(Vec::as_slice);
        names.filter(|name| !name.is_empty())
    }

    /// How many portals are open.
    pub fn portal_count(&self) -> usize {
        self.portals.len()
    }

    /// The value of a parameter.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let value = self.settings.now.get(&name.to_ascii_lowercase());
        value.map(String::as_str)
    }

    /// Whether nothing is held back and nothing skipped: the client knows how everything went.
    pub fn has_said_all(&self) -> bool {
        self.buffered.is_empty() && !self.skipping
    }

    /// Whether it waits for the data of a COPY.
    pub fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// Whether the session has ended: after FATAL or Terminate.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether it is between two requests of anybody: nothing half read, half sent, half done or skipped.
    pub fn is_at_rest(&self) -> bool {
        self.unread.is_empty()
            && self.buffered.is_empty()
            && self.sent.is_empty()
            && self.copying.is_none()
            && !self.in_batch
            && self.status == TransactionStatus::Idle
            && self.portals.is_empty()
    }

    // --- one message ---

    fn message(&mut self, tag: u8, body: &[u8]) {
        if self.copying.is_some() {
            return self.copy_message(tag, body);
        }
        match tag {
            tag::QUERY | tag::FUNCTION_CALL => self.extended = false,
            tag::SYNC | tag::TERMINATE => {
                self.extended = false;
                self.skipping = false;
            }
            tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => return,
            _ => self.extended = true,
        }
        if self.skipping {
            return;
        }
        let outcome = match tag {
            tag::QUERY => self.query(body),
            tag::FUNCTION_CALL => self.function_call(body),
            tag::SYNC => {
                self.finish();
                self.ready();
                Ok(())
            }
            tag::TERMINATE => {
                self.closed = true;
                Ok(())
            }
            tag::FLUSH => {
                self.flush();
                Ok(())
            }
            _ => {
                self.in_batch = true;
                self.extended_message(tag, body)
            }
        };
        if let Err(failure) = outcome {
            self.fail(&failure);
        }
    }

    fn query(&mut self, body: &[u8]) -> Result<(), Failure> {
        self.statements.remove(&b""[..]);
        let text = body.strip_suffix(b"\0").unwrap_or(body);
        let statements = sql::parse(text).map_err(|error| Failure::new("42601", error))?;
        if statements.is_empty() {
            self.put(encode::empty_query_response);
        } else {
            self.portals.remove(&b""[..]);
        }
        let alone = statements.len() == 1;
        self.run_rest(VecDeque::from(statements), alone)
    }

    /// Runs the statements of a Query from here on; stops at a COPY FROM STDIN, which goes on with them later.
    fn run_rest(&mut self, mut rest: VecDeque<Sql>, alone: bool) -> Result<(), Failure> {
        while let Some(next) = rest.pop_front() {
            if next == Sql::CopyIn && self.status != TransactionStatus::Failed {
                self.start_copy(Copying::query(rest, alone));
                return Ok(());
            }
            self.run(&next, alone)?;
        }
        self.finish();
        self.ready();
        Ok(())
    }

    fn function_call(&mut self, body: &[u8]) -> Result<(), Failure> {
        if self.status == TransactionStatus::Failed {
            return Err(Failure::in_failed_transaction());
        }
        let oid: [u8; 4] = body.first_chunk().copied().unwrap_or_default();
        if oid == [0; 4] {
            return Err(Failure::new("42883", "function with OID 0 does not exist"));
        }
        // FunctionCallResponse: a value of four bytes.
        let response = [b'V', 0, 0, 0, 12, 0, 0, 0, 4];
        self.buffered.extend_from_slice(&response);
        self.buffered.extend_from_slice(&oid);
        self.finish();
        self.ready();
        Ok(())
    }

    // --- ends ---

    /// The end of a request that went well: commits, unless a transaction block is open.
    fn finish(&mut self) {
        self.pipelining = false;
        if self.status == TransactionStatus::Idle {
            self.settings.committed = self.settings.now.clone();
            self.portals.clear();
        }
    }

    fn fail(&mut self, failure: &Failure) {
        if failure.fatal {
            return self.fatal(failure.code, &failure.text);
        }
        self.report("ERROR", failure.code, &failure.text);
        self.copying = None;
        self.pipelining = false;
        self.settings.now = self.settings.committed.clone();
        if self.status == TransactionStatus::Idle {
            self.portals.clear();
        } else {
            self.status = TransactionStatus::Failed;
        }
        if self.extended {
            self.skipping = true;
        } else {
            self.ready();
        }
    }

    fn fatal(&mut self, code: &str, text: &str) {
        self.report("FATAL", code, text);
        self.flush();
        self.closed = true;
    }

    /// Changed parameters, then ReadyForQuery.
    fn ready(&mut self) {
        for (name, _) in REPORTED {
            let key = name.to_ascii_lowercase();
            let now = self.settings.now.get(&key).cloned().unwrap_or_default();
            if self.settings.told.get(&key) != Some(&now) {
                self.put(|out| encode::parameter_status(out, name.as_bytes(), now.as_bytes()));
                self.settings.told.insert(key, now);
            }
        }
        self.in_batch = false;
        let status = self.status;
        self.put(|out| encode::ready_for_query(out, status));
        self.flush();
    }

    fn report(&mut self, severity: &str, code: &str, text: &str) {
        let severity = severity.as_bytes();
        let fields = [
            (b'S', severity),
            (b'V', severity),
            (b'C', code.as_bytes()),
            (b'M', text.as_bytes()),
        ];
        self.put(|out| encode::error_response(out, &fields));
    }

    fn flush(&mut self) {
        self.sent.append(&mut self.buffered);
    }

    /// Writes one message.
    fn put(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), encode::EncodeError>) {
        write(&mut self.buffered).expect("the model's messages are short and hold no NUL");
    }
}

#[cfg(test)]
mod tests;
