//! State machine of one session of the null backend: bytes in, bytes out. It has no access to
//! sockets.

mod answer;

use std::collections::HashMap;
use std::mem;

use weir_wire::MessageError;
use weir_wire::backend::TransactionStatus;
use weir_wire::encode::{self, EncodeError, ErrorReport, Severity};
use weir_wire::frame::{FrameError, HEADER_LEN, Side, frame, header};
use weir_wire::frontend::{Bind, Close, Describe, Execute, Kind as Named, Parse, Query, tag};

use weir_wire::sqlstate::SqlState;
use weir_wire::startup::{Startup, StartupError, startup};

use crate::null::canned::Canned;
use crate::null::parameters::Parameters;
use crate::null::session::answer::Pending;
use crate::null::sql::{self, Kind};

/// Number of unsent bytes below which more answers are produced.
const OUT_HIGH: usize = 64 * 1024;

/// Counters of the sessions of one thread.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) logins: u64,
    pub(super) statements: u64,
    pub(super) transactions: u64,
    pub(super) copied_in: u64,
}

/// Arguments of a session's step.
pub(super) struct Turn<'a> {
    pub(super) canned: &'a Canned,
    /// True if TLS is offered.
    pub(super) has_tls: bool,
    /// Process id for the next session.
    pub(super) pid: u32,
    pub(super) done: &'a mut Done,
    pub(super) out: &'a mut Vec<u8>,
}

/// Reason why a session ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The client sent Terminate, or the connection was only a cancel request.
    Goodbye,
    /// The client violates the protocol.
    Stranger,
}

/// Result of feeding input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Took {
    /// Number of bytes taken. The rest waits for more input, or for the output to be sent.
    Bytes(usize),
    /// Number of bytes taken; a TLS handshake follows.
    BeforeTls(usize),
}

/// Session of the null backend.
#[derive(Default)]
pub(super) struct Session {
    is_open: bool,
    is_secure: bool,
    status: Status,
    /// True after an error in a batch: messages up to its Sync are skipped.
    skips: bool,
    /// Set while COPY data are received. `true`: by the simple protocol.
    copy_in: Option<bool>,
    /// Remaining bytes of a message of COPY data.
    copy_left: usize,
    /// True if a statement of a load has run since the session was last idle.
    worked: bool,
    parameters: Parameters,
    statements: HashMap<Vec<u8>, Prepared>,
    portals: HashMap<Vec<u8>, Kind>,
    /// Answers that are not in the output yet.
    pending: Pending,
}

#[derive(Debug, Clone)]
struct Prepared {
    kind: Kind,
    parameter_count: u16,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Status {
    #[default]
    Idle,
    Open,
    Failed,
}

impl From<FrameError> for End {
    fn from(_: FrameError) -> Self {
        Self::Stranger
    }
}

impl From<MessageError> for End {
    fn from(_: MessageError) -> Self {
        Self::Stranger
    }
}

impl From<StartupError> for End {
    fn from(_: StartupError) -> Self {
        Self::Stranger
    }
}

impl From<EncodeError> for End {
    fn from(_: EncodeError) -> Self {
        Self::Stranger
    }
}

impl Session {
    /// Records that the TLS handshake has begun.
    pub(super) fn secured(&mut self) {
        self.is_secure = true;
    }

    /// True if the session waits for the output to be sent.
    pub(super) fn is_blocked(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Answers as much of `input` as there is room for.
    pub(super) fn feed(&mut self, input: &[u8], turn: &mut Turn<'_>) -> Result<Took, End> {
        let mut at = 0;
        loop {
            self.pending.pump(turn.canned, turn.out);
            let rest = input.get(at..).unwrap_or_default();
            if self.is_blocked() || turn.out.len() >= OUT_HIGH {
                return Ok(Took::Bytes(at));
            }
            if self.copy_left > 0 {
                let count = self.copy_left.min(rest.len());
                self.copy_left -= count;
                at += count;
                if count == 0 {
                    return Ok(Took::Bytes(at));
                }
                continue;
            }
            if !self.is_open {
                let Some((count, is_tls)) = self.open(rest, turn)? else {
                    return Ok(Took::Bytes(at));
                };
                at += count;
                if is_tls {
                    return Ok(Took::BeforeTls(at));
                }
                continue;
            }
            if let Some(head) = header(rest, Side::Frontend)?
                && head.tag == tag::COPY_DATA
            {
                turn.done.copied_in += head.body_len() as u64;
                self.copy_left = head.body_len();
                at += HEADER_LEN;
                continue;
            }
            let Some(message) = frame(rest, Side::Frontend)? else {
                return Ok(Took::Bytes(at));
            };
            at += message.raw.len();
            self.message(message.header.tag, message.body, turn)?;
        }
    }

    /// Handles a start-up message; returns the bytes taken, and whether TLS begins.
    fn open(&mut self, input: &[u8], turn: &mut Turn<'_>) -> Result<Option<(usize, bool)>, End> {
        let Some((opening, count)) = startup(input)? else {
            return Ok(None);
        };
        match opening {
            Startup::Ssl if turn.has_tls && !self.is_secure => {
                turn.out.push(b'S');
                return Ok(Some((count, true)));
            }
            Startup::Ssl | Startup::GssEnc => turn.out.push(b'N'),
            Startup::Cancel(_) => return Err(End::Goodbye),
            Startup::Startup(message) => {
                encode::authentication_ok(turn.out)?;
                self.parameters = Parameters::new(message.params());
                self.parameters.tell(turn.out)?;
                encode::backend_key_data(turn.out, turn.pid, &turn.pid.to_be_bytes())?;
                encode::ready_for_query(turn.out, TransactionStatus::Idle)?;
                turn.done.logins += 1;
                self.is_open = true;
            }
        }
        Ok(Some((count, false)))
    }

    fn message(&mut self, tag: u8, body: &[u8], turn: &mut Turn<'_>) -> Result<(), End> {
        match tag {
            tag::TERMINATE => return Err(End::Goodbye),
            tag::COPY_DONE => return self.copy_done(true, turn),
            tag::COPY_FAIL => return self.copy_done(false, turn),
            // PostgreSQL ignores these messages during COPY (manual, "COPY Operations").
            tag::SYNC | tag::FLUSH if self.copy_in.is_some() => {}
            tag::SYNC => {
                self.skips = false;
                self.portals.clear();
                self.ready(turn)?;
            }
            tag::QUERY => self.query(Query::parse(body)?.sql, turn)?,
            _ if self.skips => {}
            tag::PARSE => self.parse(&Parse::parse(body)?, turn)?,
            tag::BIND => self.bind(&Bind::parse(body)?, turn)?,
            tag::DESCRIBE => self.describe(&Describe::parse(body)?, turn)?,
            tag::EXECUTE => {
                let portal = Execute::parse(body)?.portal;
                match self.portals.get(portal).cloned() {
                    Some(kind) => self.answer(&kind, false, turn)?,
                    None => self.error(SqlState::UNDEFINED_CURSOR, "no such portal", turn)?,
                }
            }
            tag::CLOSE => {
                let close = Close::parse(body)?;
                match close.kind {
                    Named::Statement => drop(self.statements.remove(close.name)),
                    Named::Portal => drop(self.portals.remove(close.name)),
                }
                encode::close_complete(self.out(turn))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn query(&mut self, sql: &[u8], turn: &mut Turn<'_>) -> Result<(), End> {
        let mut count = 0;
        for statement in sql::statements(sql) {
            count += 1;
            self.answer(&sql::kind(statement), true, turn)?;
            if self.skips {
                break;
            }
        }
        if count == 0 {
            encode::empty_query_response(self.out(turn))?;
        }
        self.skips = false;
        match self.copy_in {
            Some(_) => Ok(()),
            None => self.ready(turn),
        }
    }

    fn parse(&mut self, parse: &Parse<'_>, turn: &mut Turn<'_>) -> Result<(), End> {
        if !parse.name.is_empty() && self.statements.contains_key(parse.name) {
            let code = SqlState::DUPLICATE_PSTATEMENT;
            return self.error(code, "the prepared statement is there already", turn);
        }
        let prepared = Prepared {
            kind: sql::kind(parse.sql),
            parameter_count: sql::parameter_count(parse.sql),
        };
        self.statements.insert(parse.name.to_vec(), prepared);
        encode::parse_complete(self.out(turn))?;
        Ok(())
    }

    fn bind(&mut self, bind: &Bind<'_>, turn: &mut Turn<'_>) -> Result<(), End> {
        let Some(prepared) = self.statements.get(bind.statement) else {
            let code = SqlState::UNDEFINED_PSTATEMENT;
            return self.error(code, "no such prepared statement", turn);
        };
        let kind = prepared.kind.clone();
        match self.portals.get_mut(bind.portal) {
            Some(portal) => *portal = kind,
            None => drop(self.portals.insert(bind.portal.to_vec(), kind)),
        }
        encode::bind_complete(self.out(turn))?;
        Ok(())
    }

    fn describe(&mut self, describe: &Describe<'_>, turn: &mut Turn<'_>) -> Result<(), End> {
        let kind = match describe.kind {
            Named::Portal => self.portals.get(describe.name).cloned(),
            Named::Statement => match self.statements.get(describe.name) {
                None => None,
                Some(prepared) => {
                    let (kind, count) = (prepared.kind.clone(), prepared.parameter_count);
                    answer::parameter_description(self.out(turn), count);
                    Some(kind)
                }
            },
        };
        let Some(kind) = kind else {
            return self.error(SqlState::UNDEFINED_PSTATEMENT, "nothing to describe", turn);
        };
        if !answer::describe(&kind, turn.canned, self.pending.sink(turn.out))? {
            encode::no_data(self.out(turn))?;
        }
        Ok(())
    }

    /// Runs one statement. In the simple protocol its rows are described too.
    fn answer(&mut self, kind: &Kind, is_simple: bool, turn: &mut Turn<'_>) -> Result<(), End> {
        if self.status == Status::Failed && !matches!(kind, Kind::Commit | Kind::Rollback) {
            let message =
                "current transaction is aborted, commands ignored until end of transaction block";
            return self.error(SqlState::IN_FAILED_SQL_TRANSACTION, message, turn);
        }
        turn.done.statements += 1;
        if is_simple {
            answer::describe(kind, turn.canned, self.pending.sink(turn.out))?;
        }
        match kind {
            Kind::Begin(tag) => {
                self.status = Status::Open;
                self.complete(tag, turn)?;
            }
            Kind::Commit if self.status != Status::Failed => {
                self.status = Status::Idle;
                self.complete("COMMIT", turn)?;
            }
            Kind::Commit | Kind::Rollback => {
                self.status = Status::Idle;
                self.complete("ROLLBACK", turn)?;
            }
            Kind::Command { tag, is_work } => {
                self.worked |= is_work;
                self.complete(tag, turn)?;
            }
            Kind::Set(setting) => {
                let (name, value) = setting.as_ref();
                let out = self.pending.sink(turn.out);
                self.parameters.set(name, value, out)?;
                self.complete("SET", turn)?;
            }
            Kind::ResetAll(tag) => self.reset_all(tag, turn)?,
            Kind::One(value) => self.one(value, "SELECT 1", turn)?,
            Kind::Show(name) => {
                let value = self.parameters.value(name).to_owned();
                self.one(&value, "SHOW", turn)?;
            }
            Kind::State => self.complete("SELECT 0", turn)?,
            Kind::Rows => self.rows(false, turn),
            Kind::CopyOut => {
                answer::copy_response(self.out(turn), b'H');
                self.rows(true, turn);
            }
            Kind::CopyIn => {
                answer::copy_response(self.out(turn), b'G');
                self.copy_in = Some(is_simple);
            }
            Kind::Empty => encode::empty_query_response(self.out(turn))?,
        }
        Ok(())
    }

    fn reset_all(&mut self, tag: &str, turn: &mut Turn<'_>) -> Result<(), EncodeError> {
        if tag == "DISCARD ALL" {
            self.statements.clear();
        }
        let out = self.pending.sink(turn.out);
        self.parameters.reset(out)?;
        self.complete(tag, turn)
    }

    fn complete(&mut self, tag: &str, turn: &mut Turn<'_>) -> Result<(), EncodeError> {
        encode::command_complete(self.out(turn), tag.as_bytes())
    }

    fn one(&mut self, value: &str, tag: &str, turn: &mut Turn<'_>) -> Result<(), EncodeError> {
        encode::data_row(self.out(turn), &[Some(value.as_bytes())])?;
        self.complete(tag, turn)
    }

    /// Answers with the canned result, as much at once as there is room for.
    fn rows(&mut self, is_copy: bool, turn: &mut Turn<'_>) {
        self.worked = true;
        let canned = turn.canned;
        self.pending.push_rows(is_copy, canned, turn.out);
        let out = self.pending.sink(turn.out);
        if is_copy {
            // CopyDone; it has no body.
            out.extend_from_slice(b"c\0\0\0\x04");
            out.extend_from_slice(&canned.copy_complete);
        } else {
            out.extend_from_slice(&canned.selected);
        }
    }

    fn copy_done(&mut self, is_good: bool, turn: &mut Turn<'_>) -> Result<(), End> {
        let Some(is_simple) = self.copy_in.take() else {
            return Ok(());
        };
        match is_good {
            true => {
                self.worked = true;
                self.complete("COPY 1", turn)?;
            }
            false => self.error(SqlState::QUERY_CANCELED, "COPY from stdin failed", turn)?,
        }
        if is_simple {
            self.skips = false;
            self.ready(turn)?;
        }
        Ok(())
    }

    fn error(&mut self, code: SqlState, message: &str, turn: &mut Turn<'_>) -> Result<(), End> {
        if self.status == Status::Open {
            self.status = Status::Failed;
        }
        self.skips = true;
        Ok(ErrorReport::new(Severity::Error, code, message).encode(self.out(turn))?)
    }

    fn ready(&mut self, turn: &mut Turn<'_>) -> Result<(), End> {
        let status = match self.status {
            Status::Idle => TransactionStatus::Idle,
            Status::Open => TransactionStatus::InTransaction,
            Status::Failed => TransactionStatus::Failed,
        };
        if self.status == Status::Idle && mem::take(&mut self.worked) {
            turn.done.transactions += 1;
        }
        Ok(encode::ready_for_query(self.out(turn), status)?)
    }

    /// Returns the buffer for the next bytes.
    fn out<'a>(&'a mut self, turn: &'a mut Turn<'_>) -> &'a mut Vec<u8> {
        self.pending.sink(turn.out)
    }
}

#[cfg(test)]
mod tests;
