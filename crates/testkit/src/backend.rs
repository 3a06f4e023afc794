//! Model of one PostgreSQL session after login: it takes bytes from a client and returns the server's bytes.
//!
//! The model follows `tcop/postgres.c`. An error in the extended protocol skips everything up to Sync, *including*
//! Query. Flush and Sync are ignored while COPY data is expected; late COPY messages are ignored at any other time. A
//! statement that cannot run in a failed transaction fails with 25P02. Changed parameters are reported before
//! ReadyForQuery.
//!
//! These were compared by hand with PostgreSQL 15, raw bytes against raw bytes: skipping, COPY in both protocols
//! (late, failed, twice in one Query, Sync ahead of the data), failed transactions, portals with row limits,
//! duplicate and unknown names, the lifetime of the unnamed statement and portal, `DISCARD ALL` and `DEALLOCATE ALL`,
//! FunctionCall. Since release 14, a message that has no place in a COPY FROM STDIN ends the session ("protocol
//! synchronization was lost"); the model does the same.
//!
//! The model understands PostgreSQL's own statements in the forms that `sql` lists, enough for every kind of session
//! state: settings with the semantics of transactions and savepoints, roles, prepared statements of both kinds,
//! temporary tables, advisory locks, channels, cursors that outlive a transaction, sequences. State that several
//! sessions share is in a [`Database`]. `conformance/tests/model.rs` compares generated programs of these statements
//! with PostgreSQL 15.
//!
//! A shorthand serves tests that only need replies of some shape: `row X`, `rows N X`, `do X`, `error X` (when it
//! runs), `error parse` (a syntax error, as is any unknown text), `copy in` (data `bad` fails it), `copy out N`,
//! `notice X`, `set NAME VALUE`, `die` (FATAL).

use std::collections::{BTreeMap, VecDeque};

use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::tag;

use crate::cluster::Site;

mod copy;
mod database;
mod extended;
mod guc;
mod resolved;
mod run;
mod select;
mod session;
mod site;
mod sql;
mod token;
mod witness;

pub use database::Database;
pub use resolved::{NUMBERS, Number};
pub use witness::Sight;

use copy::Copying;
use extended::{Portal, Prepared};
use guc::Defaults;
use session::Session;
use sql::{Notice, Sql};
use witness::Witness;

/// Parameters that PostgreSQL 15 reports, in the order of the login.
const REPORTED_15: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];
const REPORTED_FEW: [&str; 3] = ["application_name", "server_version", "TimeZone"];

/// Parameters that [`Backend::new`] reports, with their defaults, in the order of the login.
pub const REPORTED: [(&str, &str); 3] = [
    ("application_name", ""),
    ("server_version", "15.18"),
    ("TimeZone", "UTC"),
];

/// Time at which replies leave the server. PostgreSQL buffers them as long as it can; a peer must not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// Sends at Flush, ErrorResponse, ReadyForQuery, CopyInResponse and the end of the session.
    #[default]
    Buffered,
    /// Sends immediately.
    Immediate,
}

/// Model of one session; see the module.
#[derive(Debug)]
pub struct Backend {
    output: Output,
    unread: Vec<u8>,
    buffered: Vec<u8>,
    sent: Vec<u8>,
    status: TransactionStatus,
    /// Prepared statements by name; the unnamed statement has the empty name.
    statements: BTreeMap<Vec<u8>, Prepared>,
    /// Portals of the protocol, and cursors.
    portals: BTreeMap<Vec<u8>, Portal>,
    copying: Option<Copying>,
    /// True while an error skips to the next Sync.
    extended: bool,
    skipping: bool,
    /// True if a message of the extended protocol was processed since the last ReadyForQuery.
    in_batch: bool,
    /// True if a statement was executed since the implicit transaction began.
    pipelining: bool,
    /// True if the Query has several statements.
    in_implicit_block: bool,
    database: Database,
    /// Host of the session; none if the database has one host.
    site: Option<Site>,
    /// True in a block that began with READ ONLY.
    is_read_only: bool,
    defaults: Defaults,
    session: Session,
    reported: &'static [&'static str],
    /// Reported values as the client knows them.
    told: BTreeMap<&'static str, String>,
    closed: bool,
    process: u32,
    witness: Witness,
    /// Error that interrupts the next message.
    interruption: Option<&'static str>,
}

/// Failure of a statement: SQLSTATE and text.
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

impl Default for Backend {
    fn default() -> Self {
        Self::new(Output::default())
    }
}

impl Backend {
    /// Creates a session that has just sent ReadyForQuery, alone in its database. It reports fewer parameters than
    /// PostgreSQL does, and its settings accept any value.
    pub fn new(output: Output) -> Self {
        let mut made = Self::made(output, Database::default(), "ann", &REPORTED_FEW);
        made.defaults.lenient = true;
        made
    }

    /// Creates a session of this superuser with these parameters in its start-up packet, as in PostgreSQL 15. Values
    /// that a setting does not accept are left out.
    pub fn open(database: &Database, user: &str, parameters: &[(&str, &str)]) -> Self {
        let mut made = Self::made(Output::default(), database.clone(), user, &REPORTED_15);
        for (name, value) in parameters {
            // PostgreSQL would end the session; no test needs that.
            let _ = made.defaults.start(name, value);
        }
        made.told = made.reported_now().collect();
        made
    }

    fn made(
        output: Output,
        database: Database,
        user: &str,
        reported: &'static [&'static str],
    ) -> Self {
        let number = database.enter();
        let mut made = Self {
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
            in_implicit_block: false,
            database,
            site: None,
            is_read_only: false,
            defaults: Defaults::of(user),
            session: Session::new(number),
            reported,
            told: BTreeMap::new(),
            closed: false,
            process: 0,
            witness: Witness::default(),
            interruption: None,
        };
        made.told = made.reported_now().collect();
        made
    }

    /// Returns the parameters that a login reports, in order.
    pub fn greeting(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.reported_now()
    }

    fn reported_now(&self) -> impl Iterator<Item = (&'static str, String)> {
        let value = |name| self.show(name).unwrap_or_default();
        self.reported.iter().map(move |name| (*name, value(name)))
    }

    /// Processes bytes of a client, split at any position.
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

    /// Changes when replies leave the server, from now on.
    pub fn set_output(&mut self, output: Output) {
        self.output = output;
    }

    /// Processes one message and cancels the statement in the middle of it (57014) with this text. Sync, Flush and
    /// skipped messages cannot be cancelled. True if a statement was cancelled.
    pub fn interrupt(&mut self, message: &[u8], text: &'static str) -> bool {
        if self.is_copying() {
            self.fail(&Failure::new("57014", text));
            self.feed(message);
            return true;
        }
        self.interruption = Some(text);
        self.feed(message);
        self.interruption.take().is_none()
    }

    /// Returns the bytes that have left the server since the last call.
    pub fn take_sent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sent)
    }

    /// Exchanges messages: [`Backend::feed`], then [`Backend::take_sent`].
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

    /// True for a statement prepared by Parse that runs another one or fetches from a cursor, by name (EXECUTE, FETCH).
    ///
    /// PostgreSQL describes it as of the time of the Parse. A pooler that parses it again describes it as of now, which is
    /// a documented difference (docs/internals/prepared-statements.md), so programs do not ask.
    pub fn runs_another(&self, name: &[u8]) -> bool {
        let found = self.statements.get(name);
        let first = found.and_then(|found| found.statements.first());
        matches!(first, Some(Sql::Execute(_) | Sql::Fetch(..)))
    }

    /// Drops the prepared statements without a message, as a function may.
    pub fn lose_prepared(&mut self) {
        self.statements.clear();
    }

    /// Number of open portals.
    pub fn portal_count(&self) -> usize {
        self.portals.len()
    }

    /// Value of a parameter, in its base unit.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.defaults.base(&self.session.state.values, name)
    }

    /// True if no reply is held back and no message is skipped: the client knows every result.
    pub fn has_said_all(&self) -> bool {
        self.buffered.is_empty() && !self.skipping
    }

    /// True if the session waits for the data of a COPY.
    pub fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// True if the session has ended, after FATAL or Terminate.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// True between two requests: no message is half read or half sent, and no batch, COPY or transaction is open.
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
        let is_statement = ![tag::SYNC, tag::FLUSH, tag::TERMINATE].contains(&tag);
        if is_statement && let Some(text) = self.interruption.take() {
            self.in_batch |= self.extended;
            return self.fail(&Failure::new("57014", text));
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
                self.close();
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
        self.in_implicit_block = statements.len() > 1;
        self.run_rest(VecDeque::from(statements), alone)
    }

    /// Runs the remaining statements of a Query; stops at a COPY FROM STDIN, which continues with the rest later.
    fn run_rest(&mut self, mut rest: VecDeque<Sql>, alone: bool) -> Result<(), Failure> {
        while let Some(next) = rest.pop_front() {
            match &next {
                Sql::CopyIn(table) if !self.is_failed() => {
                    self.copy_target(table.as_ref())?;
                    self.start_copy(Copying::query(table.clone(), rest, alone));
                    return Ok(());
                }
                _ => self.run(&next, alone)?,
            }
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

    /// Ends a successful request: commits, unless a transaction block is open.
    fn finish(&mut self) {
        self.pipelining = false;
        self.in_implicit_block = false;
        if self.status == TransactionStatus::Idle {
            self.end_transaction(true);
        }
    }

    /// Ends the transaction, by commit or by rollback.
    fn end_transaction(&mut self, commits: bool) {
        self.is_read_only = false;
        self.portals.retain(|_, portal| portal.outlives(commits));
        self.end_session_transaction(commits);
    }

    fn fail(&mut self, failure: &Failure) {
        if failure.fatal {
            return self.fatal(failure.code, &failure.text);
        }
        self.report("ERROR", failure.code, &failure.text);
        self.copying = None;
        self.pipelining = false;
        self.in_implicit_block = false;
        match self.status {
            TransactionStatus::Idle => self.end_transaction(false),
            TransactionStatus::InTransaction => {
                self.abort_innermost();
                self.status = TransactionStatus::Failed;
            }
            TransactionStatus::Failed => {}
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
        self.close();
    }

    /// Sets the process id that notifications of this session show; the default is 0.
    pub fn set_process(&mut self, process: u32) {
        self.process = process;
    }

    /// Ends the session.
    pub fn close(&mut self) {
        self.closed = true;
        self.database.leave(self.session.number);
    }

    /// Sends notifications and changed parameters, then ReadyForQuery.
    fn ready(&mut self) {
        if self.status == TransactionStatus::Idle {
            self.deliver();
        }
        let changed: Vec<_> = self
            .reported_now()
            .filter(|(name, now)| self.told.get(name) != Some(now))
            .collect();
        for (name, now) in changed {
            self.put(|out| encode::parameter_status(out, name.as_bytes(), now.as_bytes()));
            self.told.insert(name, now);
        }
        self.in_batch = false;
        let status = self.status;
        self.put(|out| encode::ready_for_query(out, status));
        self.flush();
    }

    /// Sends the notifications that have arrived.
    fn deliver(&mut self) {
        let letters = self.database.shared().letters.remove(&self.session.number);
        for letter in letters.unwrap_or_default() {
            let (channel, payload) = (letter.channel.as_bytes(), letter.payload.as_bytes());
            let process = letter.process;
            self.put(|out| encode::notification_response(out, process, channel, payload));
        }
    }

    /// Sends what PostgreSQL sends unasked: notifications, if the session is idle.
    pub fn speak_up(&mut self) {
        let idle = self.status == TransactionStatus::Idle && !self.in_batch;
        if idle && !self.closed && self.unread.is_empty() && self.copying.is_none() {
            self.deliver();
            self.flush();
        }
    }

    fn notice(&mut self, kind: Notice, code: &str, text: &str) {
        let severity: &[u8] = match kind {
            Notice::Notice => b"NOTICE",
            Notice::Warning => b"WARNING",
        };
        let fields = [
            (b'S', severity),
            (b'V', severity),
            (b'C', code.as_bytes()),
            (b'M', text.as_bytes()),
        ];
        self.put(|out| encode::notice_response(out, &fields));
    }

    fn report(&mut self, severity: &str, code: &str, text: &str) {
        let severity = severity.as_bytes();
        let mut fields = vec![
            (b'S', severity),
            (b'V', severity),
            (b'C', code.as_bytes()),
            (b'M', text.as_bytes()),
        ];
        if text == extended::RESULT_CHANGED {
            fields.push((b'R', b"RevalidateCachedQuery"));
        }
        self.put(|out| encode::error_response(out, &fields));
        // PostgreSQL never holds this reply back; apart from notices it is the only one (elog.c,
        // `send_message_to_frontend`).
        self.flush();
    }

    fn flush(&mut self) {
        self.sent.append(&mut self.buffered);
    }

    /// Writes one message.
    fn put(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), encode::EncodeError>) {
        write(&mut self.buffered).expect("the model's messages are short and hold no NUL");
    }
}

/// Releases the session's locks and channels.
impl Drop for Backend {
    fn drop(&mut self) {
        self.database.leave(self.session.number);
    }
}

#[cfg(test)]
mod tests;
