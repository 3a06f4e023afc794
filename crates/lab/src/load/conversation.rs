//! State machine of one client's transactions: what to send next, and when a transaction is over. It has no access
//! to sockets.

use rand::rngs::Xoshiro256PlusPlus;
use weir_wire::backend::{ReadyForQuery, TransactionStatus, tag};
use weir_wire::encode;
use weir_wire::encode::EncodeError;

use crate::load::failure::Failure;
use crate::load::plan::Protocol;
use crate::load::work::{CopyData, Script, Sending, Values, Work};

/// Number of unsent bytes below which more COPY data are produced.
const COPY_AHEAD: usize = 64 * 1024;

/// State of one client.
///
/// ```text
/// Idle ──begin──► Waiting ──ReadyForQuery, more to send──► Waiting
///                    │ ReadyForQuery, all sent or failed
///                    ├──in a transaction that failed──► RollingBack ──ReadyForQuery──► Idle
///                    └─────────────────────────────────────────────────────────────► Idle
/// ```
#[derive(Debug, Default)]
pub(super) struct Conversation {
    state: State,
    script: usize,
    /// Next step of the script to be sent.
    step: usize,
    values: Values,
    /// Statements that are prepared on this connection, by number of the statement.
    prepared: Vec<bool>,
    /// Statements that the current batch prepares, in order; `parsed` is how many of them are confirmed.
    parses: Vec<usize>,
    parsed: usize,
    /// Bytes of COPY data sent so far, while a COPY is in progress.
    copying: Option<u64>,
    failure: Option<Failure>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Waiting,
    RollingBack,
}

/// Arguments of a conversation's step.
pub(super) struct Turn<'a> {
    pub(super) work: &'a Work,
    pub(super) random: &'a mut Xoshiro256PlusPlus,
    pub(super) out: &'a mut Vec<u8>,
}

/// End of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) failure: Option<Failure>,
}

impl Conversation {
    /// Resets the state for a new connection.
    pub(super) fn reset(&mut self) {
        self.state = State::Idle;
        self.prepared.clear();
        self.copying = None;
        self.failure = None;
    }

    /// Chooses a transaction and sends its first batch.
    pub(super) fn begin(&mut self, turn: &mut Turn<'_>) -> Result<(), Failure> {
        self.script = turn.work.choose(turn.random);
        self.step = 0;
        self.failure = None;
        self.state = State::Waiting;
        if turn.work.protocol == Protocol::Prepared {
            self.prepared.resize(turn.work.statement_count, false);
        }
        self.send(turn)
    }

    /// Returns the reason that the server gave for closing the connection, if any.
    pub(super) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Handles one message of the server.
    pub(super) fn hear(
        &mut self,
        tag: u8,
        body: &[u8],
        turn: &mut Turn<'_>,
    ) -> Result<Option<Over>, Failure> {
        match tag {
            tag::PARSE_COMPLETE => {
                let number = self.parses.get(self.parsed).copied();
                self.parsed += 1;
                if let Some(known) = number.and_then(|number| self.prepared.get_mut(number)) {
                    *known = true;
                }
            }
            tag::COPY_IN_RESPONSE => self.copy_in(turn)?,
            tag::ERROR_RESPONSE => {
                self.copying = None;
                // The first error is the reason.
                self.failure.get_or_insert_with(|| Failure::reported(body));
            }
            tag::READY_FOR_QUERY => return self.ready(body, turn),
            _ => {}
        }
        Ok(None)
    }

    fn ready(&mut self, body: &[u8], turn: &mut Turn<'_>) -> Result<Option<Over>, Failure> {
        let is_idle =
            ReadyForQuery::parse(body).is_ok_and(|ready| ready.0 == TransactionStatus::Idle);
        let script = turn.work.scripts.get(self.script);
        let has_more = script.is_some_and(|script| self.step < script.steps.len());
        match self.state {
            State::Idle => return Ok(None),
            State::Waiting if self.failure.is_none() && has_more => {
                self.send(turn)?;
                return Ok(None);
            }
            State::Waiting if self.failure.is_some() && !is_idle => {
                encode::query(turn.out, b"ROLLBACK")?;
                self.state = State::RollingBack;
                return Ok(None);
            }
            State::Waiting | State::RollingBack => {}
        }
        self.state = State::Idle;
        let failure = self.failure.take();
        Ok(Some(Over { failure }))
    }

    /// Sends the next batch.
    fn send(&mut self, turn: &mut Turn<'_>) -> Result<(), Failure> {
        self.parses.clear();
        self.parsed = 0;
        let Some(script) = turn.work.scripts.get(self.script) else {
            return Ok(());
        };
        let is_simple = self.batch(script, turn)?;
        if !is_simple {
            encode::sync(turn.out)?;
        }
        Ok(())
    }

    /// Appends the statements of the next batch. Returns true if they were sent as Query, which needs no Sync.
    fn batch(&mut self, script: &Script, turn: &mut Turn<'_>) -> Result<bool, EncodeError> {
        for sent in 0..turn.work.pipeline {
            let Some(step) = script.steps.get(self.step).copied() else {
                break;
            };
            // COPY data must wait for the server's CopyInResponse, so no other statement can share the batch.
            if step.is_copy_in && sent > 0 {
                break;
            }
            let mut to = Sending {
                protocol: turn.work.protocol,
                values: &mut self.values,
                random: turn.random,
                prepared: &self.prepared,
                parses: &mut self.parses,
                out: turn.out,
            };
            script.send(step, &mut to)?;
            self.step += 1;
            if step.is_copy_in {
                return Ok(true);
            }
        }
        Ok(turn.work.protocol == Protocol::Simple)
    }

    fn copy_in(&mut self, turn: &mut Turn<'_>) -> Result<(), EncodeError> {
        match self.copy_data(turn.work) {
            Some(_) => self.copying = Some(0),
            None => {
                encode::copy_fail(turn.out, b"the plan has no data for it")?;
                // The server has skipped the Sync that came with the statement.
                if turn.work.protocol != Protocol::Simple {
                    encode::sync(turn.out)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the data of the current statement, if it copies.
    fn copy_data<'a>(&self, work: &'a Work) -> Option<&'a CopyData> {
        work.scripts.get(self.script)?.copy_before(self.step)
    }

    /// Appends COPY data if there are any to send and little is waiting. Returns the number of bytes of data.
    pub(super) fn fill(&mut self, work: &Work, out: &mut Vec<u8>) -> Result<u64, EncodeError> {
        let mut made = 0;
        while let Some(sent) = self.copying {
            if out.len() >= COPY_AHEAD {
                break;
            }
            let data = self.copy_data(work);
            match data.and_then(|data| data.message(sent)) {
                Some(bytes) => {
                    encode::copy_data(out, bytes)?;
                    made += bytes.len() as u64;
                    self.copying = Some(sent + bytes.len() as u64);
                }
                None => {
                    encode::copy_done(out)?;
                    self.copying = None;
                }
            }
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests;
