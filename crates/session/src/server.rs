//! The server role of a conversation after login: what one PostgreSQL connection owes, holds and was told.
//!
//! Never knows a socket. [`crate::relay`] feeds it; [`Server::is_free`] is promise 1 of the design.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_sql::{Definition, Pieces};
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frontend;
use weir_wire::sqlstate::SqlState;

use crate::client::{Client, Parsed};
use crate::expected::{CopyState, Duty, Expected, Kind, Queue, Required, Undo, UnnamedEffect};
use crate::relay::Definitions;
use crate::repeat::Repeat;
use crate::settings::{Reported, Settings};
use crate::state::{Answer, Question};
use crate::statement::{Prepared, Statement};
use crate::unnamed;

mod asking;

/// Codes of errors that wait to be counted; whoever passes on replies takes them after each receive.
pub const ERRORS_MAX: usize = 64;

/// Errors that interrupt a statement without saying anything against it: a cancel request that came late or from somebody
/// else (also for a timeout that an earlier client set), and `lock_timeout`.
pub(crate) const INTERRUPTS: [SqlState; 2] =
    [SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE];

/// Behind the names of a Bind: no parameters and no formats.
const NO_PARAMETERS: [u8; 6] = [0; 6];

/// Times that a required request is sent again before the client hears of it. The settings of an earlier client may leave
/// each of its statements a millisecond.
pub(crate) const INTERRUPTED_MAX: u8 = 8;

/// One server connection's side of the conversation.
///
/// ```text
///            requests()                replies()
///  client ───────────────► Server ◄──────────────── PostgreSQL
///                            │  queue: who gets the next reply
///                            │  status, synced, owed: may it go back to the pool
///                            └─ settings, reported, prepared: what the session holds
/// ```
#[derive(Debug)]
pub struct Server {
    pub(crate) queue: Queue,
    pub(crate) status: TransactionStatus,
    /// Nothing was sent since the last ReadyForQuery was read.
    pub(crate) synced: bool,
    /// An extended-protocol message was sent and no Sync since.
    pub(crate) needs_sync: bool,
    /// Bytes still to come of a server message that is passed on while it arrives.
    pub(crate) owed: u64,
    /// Whether those bytes are for the client.
    pub(crate) owed_forward: bool,
    /// A FATAL was read: the end of the connection follows.
    pub(crate) dying: bool,
    /// Errors in answer to our own requests are of no consequence (cleaning up, waiting for a late cancel).
    pub(crate) tolerant: bool,
    pub(crate) prepared: Prepared,
    /// The number of the unnamed statement that it holds once everything sent was processed.
    pub(crate) unnamed: u64,
    /// The same as far as the server has answered.
    pub(crate) unnamed_confirmed: u64,
    /// The batch of a Parse of ours for it that an error may skip.
    pub(crate) unnamed_unsure: Option<u64>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) reported: Arc<Reported>,
    defaults: Arc<Reported>,
    /// A text on its way may have changed settings that count for planning, for the rest of its transaction.
    pub(crate) plans_locally: bool,
    /// What it has to be asked before it goes to anybody else.
    pub(crate) question: Question,
    /// Code that the client is about to define, by which sessions may be changed.
    pub(crate) defines: Vec<Definition>,
    /// A question that the server did not answer: it is put again after the next transaction.
    pub(crate) unanswered: Option<Box<Question>>,
    /// Times that the server has interrupted the question under way.
    pub(crate) questions_interrupted: u8,
    /// Questions on their way, with what was answered so far; boxed, since few sessions have any.
    pub(crate) asked: VecDeque<Box<(Question, Answer)>>,
    /// Statements bound since the last Sync.
    pub(crate) bound: u32,
    /// More than one client has used it.
    pub(crate) has_past: bool,
    /// The client has discarded all, so its start-up values have to be set behind its batch.
    pub(crate) discards: bool,
    /// True if a statement may be there under the name of [`crate::statement::Registry::taken`].
    pub(crate) has_taken: bool,
    /// The DISCARD ALL that was the client's last message but one.
    pub(crate) discard: Discard,
    /// True if the client's last query begins as a statement about data, and its text was not read to the end.
    pub(crate) has_unread_end: bool,
    /// Reads the rest of a text about data that passes by in pieces.
    pub(crate) pieces: Option<Box<Pieces>>,
    /// True if the client has run a text that was not read, which may have reset what the client began with.
    pub(crate) ran_unread: bool,
    /// Portals of the client whose statements reset something, with what sets its own values then.
    pub(crate) returning: Vec<(Box<[u8]>, Vec<String>)>,
    /// The number of the client that used it last.
    pub(crate) user: u64,
    /// Its own; 0: it has none.
    number: u64,
    /// Which lease of that client this was.
    pub(crate) lease: u64,
    /// Its process id.
    pub(crate) process: u32,
    /// What ends that it listens to what its client listens to elsewhere ([`crate::channels`]).
    pub(crate) lent: Option<Box<str>>,
    /// What currval and lastval say may come from another client, or be older than what the client got elsewhere since.
    pub(crate) has_foreign_sequences: bool,
    /// The client has not yet done anything on this lease, but for beginning a transaction.
    pub(crate) is_fresh: bool,
    /// True if the client may have moved a sequence in this lease.
    pub(crate) has_moved_sequence: bool,
    /// The same for the transaction.
    pub(crate) is_beginning: bool,
    /// Nothing has been done on it since its sequences were discarded for the client.
    pub(crate) is_emptied: bool,
    /// It holds something that nothing takes away: it serves nobody else.
    pub(crate) spoiled: bool,
    /// A ReadyForQuery for the client waits for what we ask on its behalf.
    pub(crate) owes_ready: bool,
    /// A question that no statement gave a reason for found something.
    pub(crate) found: bool,
    /// Codes of the errors that the client was sent and that nobody has counted yet.
    pub(crate) errors: Vec<Option<SqlState>>,
    /// The batch under way.
    pub(crate) repeat: Repeat,
    /// Required requests that the server has interrupted and that have to be sent again, in order.
    pub(crate) interrupted: Vec<(Duty, Box<Required>)>,
    /// The statements of the fence that is on its way ([`Duty::Fence`]), as one text.
    pub(crate) fence: Option<Box<str>>,
    /// A fence was interrupted, and its transaction has to be ended: `Some` duty of a Sync that has to be sent before that.
    pub(crate) broken_fence: Option<Option<Duty>>,
    /// What it was asked before the client's next message, about the statement in that.
    pub(crate) comparison: Option<Box<Comparison>>,
    /// A statement of the transaction under way has changed roles or defaults of sessions.
    pub(crate) alters_roles: bool,
    /// Definitions that the transaction under way has changed, and whether that is undone.
    pub(crate) definitions: Definitions,
    /// Parameter types in the description that is under way, as ParameterDescription has them; empty: not known.
    pub(crate) parameters: Vec<u8>,
    /// A LOAD is on its way, and its success counts.
    pub(crate) may_load: bool,
    /// It has statements under names of its client's.
    pub(crate) has_own_names: bool,
    /// Longest message in bytes that it may send, by the rules of the last request.
    pub(crate) message_max: u32,
}

/// What a statement of the client returns is asked before the client's message may use it.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// What the client's name stands for so far.
    pub of: Arc<Statement>,
    /// What takes its place if it returns the same; perhaps itself.
    pub next: Arc<Statement>,
    /// The server has said that it does.
    pub is_same: bool,
}

/// An Execute of DISCARD ALL, as long as no message follows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Discard {
    /// The server has been asked to answer it now.
    Asked,
    /// The server has carried it out.
    Done,
    #[default]
    None,
    Sent,
}

/// What has to happen before a server whose client left can be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abandoned {
    /// The server is in the middle of a message that nobody will finish, or in a state that has no way out: close it.
    Close,
    /// Read replies until [`Server::is_free`]; `running` says that a statement may be executing (worth a cancel).
    Drain {
        /// Whether replies were owed before we added our own requests.
        running: bool,
    },
    /// Nothing: it is free.
    Free,
}

impl Server {
    /// A server that has just logged in and reported `reported`.
    pub fn new(reported: Arc<Reported>) -> Self {
        Self {
            queue: Queue::default(),
            status: TransactionStatus::Idle,
            synced: true,
            needs_sync: false,
            owed: 0,
            owed_forward: false,
            dying: false,
            tolerant: false,
            prepared: Prepared::default(),
            unnamed: unnamed::NONE,
            unnamed_confirmed: unnamed::NONE,
            unnamed_unsure: None,
            settings: Arc::default(),
            defaults: Arc::clone(&reported),
            reported,
            plans_locally: false,
            question: Question::default(),
            defines: Vec::new(),
            unanswered: None,
            questions_interrupted: 0,
            asked: VecDeque::new(),
            bound: 0,
            has_past: false,
            discards: false,
            has_taken: false,
            discard: Discard::default(),
            has_unread_end: false,
            pieces: None,
            ran_unread: false,
            returning: Vec::new(),
            user: 0,
            number: 0,
            lease: 0,
            process: 0,
            lent: None,
            has_foreign_sequences: false,
            is_fresh: true,
            has_moved_sequence: false,
            is_beginning: true,
            is_emptied: false,
            spoiled: false,
            owes_ready: false,
            found: false,
            errors: Vec::new(),
            repeat: Repeat::default(),
            interrupted: Vec::new(),
            fence: None,
            broken_fence: None,
            comparison: None,
            alters_roles: false,
            definitions: Definitions::default(),
            parameters: Vec::new(),
            may_load: false,
            has_own_names: false,
            message_max: u32::MAX,
        }
    }

    /// Queues a request of our own whose replies nobody sees, and writes it.
    ///
    /// # Errors
    /// If `sql` holds a NUL or is longer than PostgreSQL takes.
    pub fn ask(&mut self, sql: &str, out: &mut Vec<u8>) -> Result<(), encode::EncodeError> {
        self.ask_for(sql, Duty::Swallow, out)
    }

    /// As [`Server::ask`], but the replies, also an error, come out of [`crate::relay::replies`].
    ///
    /// # Errors
    /// As [`Server::ask`].
    pub fn ask_aloud(&mut self, sql: &str, out: &mut Vec<u8>) -> Result<(), encode::EncodeError> {
        self.ask_for(sql, Duty::Forward, out)
    }

    /// As [`Server::ask`], with another use of the replies.
    pub(crate) fn ask_for(
        &mut self,
        sql: &str,
        duty: Duty,
        out: &mut Vec<u8>,
    ) -> Result<(), encode::EncodeError> {
        encode::query(out, sql.as_bytes())?;
        self.expect_query(duty, None);
        Ok(())
    }

    /// Sends a request of our own that has to succeed before anything that the client sends next may run: no message of the
    /// client is passed on until the server has answered it ([`Queue::awaits_required`]). One that the server interrupts
    /// ([`INTERRUPTS`]) is sent again; any other failure ends the client and the server connection.
    ///
    /// # Errors
    /// If `sql` holds a NUL or is longer than PostgreSQL takes.
    pub(crate) fn require(
        &mut self,
        sql: String,
        duty: Duty,
        out: &mut Vec<u8>,
    ) -> Result<(), encode::EncodeError> {
        let required = Required {
            sql: sql.into_boxed_str(),
            interrupted: 0,
            is_due: false,
        };
        self.require_again(duty, Box::new(required), out)
    }

    fn require_again(
        &mut self,
        duty: Duty,
        required: Box<Required>,
        out: &mut Vec<u8>,
    ) -> Result<(), encode::EncodeError> {
        encode::query(out, required.sql.as_bytes())?;
        self.expect_query(duty, Some(required));
        Ok(())
    }

    /// Sends what [`Server::has_to_repeat`] is about, but for batches of the client: required requests that the server has
    /// interrupted; and a request whose answer tells that no earlier one is still to come.
    pub fn resume(&mut self, out: &mut Vec<u8>) {
        if !self.mend_fence(out) {
            return;
        }
        for (duty, required) in std::mem::take(&mut self.interrupted) {
            // It was encoded before.
            let _ = self.require_again(duty, required, out);
        }
        if self.queue.is_in_doubt() {
            // An empty query always fits.
            let _ = self.ask("", out);
        }
    }

    /// After an interrupted fence: ends the batch and the transaction. False if an answer has to come first.
    fn mend_fence(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(sync) = &mut self.broken_fence else {
            return true;
        };
        if let Some(duty) = sync.take() {
            // Five bytes always fit.
            let _ = encode::sync(out);
            self.queue.expect(Expected::new(Kind::Sync, duty));
            self.needs_sync = false;
            self.synced = false;
        }
        if self.queue.is_skipping() || !self.queue.is_empty() {
            return false;
        }
        if self.status != TransactionStatus::Idle {
            // Should this be interrupted, too, it is sent again. A constant text fits.
            let _ = self.ask_for("ROLLBACK", Duty::Try, out);
            return false;
        }
        self.broken_fence = None;
        true
    }

    /// Sends statements of our own in front of the client's next batch or query: in a transaction of their own, and without a
    /// Sync, so that PostgreSQL skips what the client sends if one of them fails.
    ///
    /// # Errors
    /// If one of them holds a NUL or is longer than PostgreSQL takes.
    pub(crate) fn put_fence(
        &mut self,
        statements: &[String],
        out: &mut Vec<u8>,
    ) -> Result<(), encode::EncodeError> {
        let all = statements.iter().map(String::as_str);
        for sql in std::iter::once("BEGIN").chain(all).chain(["COMMIT"]) {
            encode::parse(out, b"", sql.as_bytes(), &[0, 0])?;
            encode::bind_head(out, b"", b"", NO_PARAMETERS.len())?;
            out.extend_from_slice(&NO_PARAMETERS);
            encode::execute(out, b"", 0)?;
            for kind in [Kind::Parse, Kind::Bind, Kind::Execute] {
                self.expect_fence(kind);
            }
        }
        encode::close(out, frontend::Kind::Statement, b"")?;
        self.expect_fence(Kind::Close);
        self.unnamed = unnamed::NONE;
        self.synced = false;
        self.fence = Some(statements.join(";").into_boxed_str());
        Ok(())
    }

    fn expect_fence(&mut self, kind: Kind) {
        let defines = matches!(kind, Kind::Parse | Kind::Close);
        let effect = UnnamedEffect {
            serial: unnamed::NONE,
            of_client: false,
            of_server: true,
        };
        let entry = Expected::new(kind, Duty::Fence).with_unnamed(defines.then_some(effect));
        self.queue.expect(entry);
    }

    /// Has the server answer to a fence now, where PostgreSQL would keep the answer for later: nothing of the client's
    /// follows yet, or what comes next is `stalled` until then.
    pub(crate) fn hear_of_fence(&mut self, stalled: bool, out: &mut Vec<u8>) {
        // Five bytes always fit.
        if self.queue.ends_with_fence() {
            let _ = encode::sync(out);
            self.queue.expect(Expected::new(Kind::Sync, Duty::Fence));
        } else if stalled && !self.queue.is_fence_followed() {
            let _ = encode::flush(out);
        }
    }

    fn expect_query(&mut self, duty: Duty, required: Option<Box<Required>>) {
        // A simple query drops the unnamed statement.
        self.unnamed = unnamed::NONE;
        let effect = UnnamedEffect {
            serial: unnamed::NONE,
            of_client: false,
            of_server: true,
        };
        let mut entry = Expected::new(Kind::Query, duty).with_unnamed(Some(effect));
        entry.required = required;
        self.queue.expect(entry);
        self.synced = false;
    }

    /// Its process id, which notifications that were said on it show.
    pub fn set_process(&mut self, pid: u32) {
        self.process = pid;
    }

    /// The number of the client that used it last; 0 is nobody.
    pub fn user(&self) -> u64 {
        self.user
    }

    /// Gives it a number from the same count as [`Client::set_number`]: the greater one came later.
    pub fn set_number(&mut self, number: u64) {
        self.number = number;
    }

    /// Whether this client may do on it what it would do on a connection of its own. What others have used answers a few
    /// things in another way ([`crate::relay::wants_new`]); and where whatever is created is temporary, PostgreSQL tells
    /// whether the session has had temporary objects before. One that nobody has used, but that was there before the client
    /// came, has been counted as a session before.
    #[inline]
    pub fn suits(&self, client: &Client) -> bool {
        let is_own = self.user == client.number && !self.has_past;
        let is_new = self.user == 0 && self.number > client.number;
        is_own || is_new || !client.wants_new_server()
    }

    /// Whether it holds something that nothing takes away, so that it can serve nobody else.
    pub fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// The client is gone: makes the server finish what it began, in `out`.
    pub fn abandon(&mut self, client: &Client, out: &mut Vec<u8>) -> Abandoned {
        // A required request was taken back: the session is not what `settings` says.
        let lost = self.dying || self.queue.is_lost() || !self.interrupted.is_empty();
        if lost || client.is_sending_to_server() || self.queue.copy() == CopyState::Both {
            return Abandoned::Close;
        }
        self.tolerant = true;
        self.repeat.forget();
        self.comparison = None;
        let running = !self.queue.is_empty();
        if running {
            // What is running may be, or may yet become, a COPY that waits for data and takes no Sync. At any other
            // time both messages are harmless.
            if encode::copy_fail(out, b"the client left during COPY").is_err() {
                return Abandoned::Close;
            }
            self.queue
                .expect(Expected::new(Kind::CopyEnd, Duty::Swallow));
        }
        if self.needs_sync {
            // A Sync alone would commit what the client never asked to be committed (hazard COR-02).
            let _ = self.ask("ROLLBACK", out);
        }
        if running || self.needs_sync || !self.synced || self.queue.is_skipping() {
            // Five bytes always fit.
            let _ = encode::sync(out);
            self.queue.expect(Expected::new(Kind::Sync, Duty::Swallow));
            self.needs_sync = false;
            self.synced = false;
            // An answer that is not just one more ReadyForQuery, so that no earlier one can be still to come.
            let _ = self.ask("", out);
        }
        if self.is_quiet_and_synced() && !self.roll_back(out) {
            return Abandoned::Free;
        }
        Abandoned::Drain { running }
    }

    /// After the replies to [`Server::abandon`] were read: ends an open transaction. False if there is none.
    pub fn roll_back(&mut self, out: &mut Vec<u8>) -> bool {
        self.status != TransactionStatus::Idle && self.ask("ROLLBACK", out).is_ok()
    }

    /// Whether its client has begun a batch in which nothing was bound, and all of it is answered: it would not notice if
    /// that were a batch of its own (drivers flush a Parse, and bind in answer to it).
    #[inline]
    pub fn has_open_batch(&self) -> bool {
        self.needs_sync
            && self.bound == 0
            && self.status == TransactionStatus::Idle
            && self.queue.is_quiet()
            && !self.dying
    }

    /// Ends that batch; nobody sees the answer.
    pub fn end_batch(&mut self, out: &mut Vec<u8>) {
        // Five bytes always fit.
        let _ = encode::sync(out);
        self.queue.expect(Expected::new(Kind::Sync, Duty::Swallow));
        self.needs_sync = false;
        self.synced = false;
        self.repeat.forget();
    }

    /// Gives back room that a burst of statements or a long pipeline took.
    pub fn give_back(&mut self) {
        self.queue.give_back();
        self.prepared.give_back();
    }

    /// Asks something whose only purpose is to be answered: whatever was on its way (a cancel) has arrived by then.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        self.tolerant = true;
        // An empty query always fits.
        let _ = self.ask("", out);
    }

    /// Errors in answer to our own requests count again: the server goes back to work.
    pub fn settle(&mut self) {
        self.tolerant = false;
        self.errors = Vec::new();
    }

    /// The codes of the errors that were passed on since the last call, at most [`ERRORS_MAX`]; `None` for one whose code
    /// could not be read.
    pub fn take_errors(&mut self) -> Vec<Option<SqlState>> {
        std::mem::take(&mut self.errors)
    }

    /// A message for the client has begun and not ended.
    pub fn is_mid_message(&self) -> bool {
        self.owed > 0 && self.owed_forward
    }

    /// A FATAL was read: the connection is about to end.
    pub fn is_dying(&self) -> bool {
        self.dying
    }

    /// Promise 1: every owed reply has arrived, the last was ReadyForQuery `I`, and no message is half read.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.status == TransactionStatus::Idle && self.is_quiet_and_synced()
    }

    /// As [`Server::is_free`], but perhaps inside a transaction.
    pub fn is_quiet_and_synced(&self) -> bool {
        let is_done = self.synced && self.owed == 0 && !self.dying;
        is_done && self.queue.is_quiet() && !self.has_to_repeat()
    }

    /// A batch, or a request of ours, has to be put to it again: [`crate::relay::requests`] has to be called, even without
    /// input.
    #[inline]
    pub fn has_to_repeat(&self) -> bool {
        self.repeat.is_due() || !self.interrupted.is_empty() || self.queue.is_in_doubt()
    }

    /// True if nothing of the client's may be sent before an answer to a request of ours.
    #[inline]
    pub fn awaits_required(&self) -> bool {
        let is_interrupted = !self.interrupted.is_empty() && !self.queue.is_skipping();
        self.queue.awaits_required() || self.queue.is_fence_followed() || is_interrupted
    }

    /// True if all that the server has to do is to get the client's settings back, for a client that waits for nothing.
    pub fn is_only_resuming(&self) -> bool {
        let is_resuming = self.awaits_required() || self.broken_fence.is_some();
        is_resuming && !self.is_uncertain() && !self.owes_ready && !self.owes_client()
    }

    /// True if the client has done nothing on this lease yet.
    pub fn is_untouched(&self) -> bool {
        self.is_fresh
    }

    /// True if a cancel would hit a request of the client, which may be running. A query of our own is none (hazard
    /// COR-27); other messages of ours belong to the client's batch, and PostgreSQL may have answered them without saying
    /// so yet.
    pub fn is_busy(&self) -> bool {
        match self.queue.front() {
            None => false,
            Some(front) if front.duty == Duty::Forward => true,
            Some(front) => {
                let is_query = matches!(front.kind, Kind::FunctionCall | Kind::Query | Kind::Sync);
                !is_query && self.owes_client()
            }
        }
    }

    /// True if the client asked nothing behind what runs now. Only then is a cancel of abandoned work safe: one that hits
    /// the BEGIN of a pipeline would let the statement behind it commit by itself.
    pub fn is_at_last_request(&self) -> bool {
        let ends = |entry: &&Expected| {
            entry.duty == Duty::Forward
                && matches!(entry.kind, Kind::FunctionCall | Kind::Query | Kind::Sync)
        };
        self.queue.iter().filter(ends).nth(1).is_none()
    }

    /// True if an answer is owed to the client.
    pub fn owes_client(&self) -> bool {
        self.queue.iter().any(|entry| entry.duty == Duty::Forward)
    }

    /// Transaction status of the last ReadyForQuery.
    #[inline]
    pub fn status(&self) -> TransactionStatus {
        self.status
    }

    /// The number of owed replies.
    pub fn owed_replies(&self) -> usize {
        self.queue.len()
    }

    /// How many statements it holds prepared.
    pub fn prepared_count(&self) -> usize {
        self.prepared.len()
    }

    /// The statements that it holds prepared once everything sent was processed, most recently used first.
    pub fn prepared(&self) -> impl Iterator<Item = &Statement> {
        self.prepared.iter()
    }

    /// What the server last reported.
    pub fn reported(&self) -> &Arc<Reported> {
        &self.reported
    }

    /// Replaces the reported values by an equal set that others share, so that comparing them is one pointer.
    pub fn share_reported(&mut self, shared: &Arc<Reported>) {
        debug_assert_eq!(*self.reported, **shared, "only equal sets are shared");
        self.reported = Arc::clone(shared);
    }

    /// The parameter values that were set on it.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Our own reset query was run: nothing of a session is left, and nothing has to be asked.
    pub fn was_reset(&mut self) {
        self.forget_session();
        self.has_own_names = false;
        self.question = Question::default();
        self.unanswered = None;
        self.lent = None;
        self.asked.clear();
        self.discards = false;
    }

    /// `DISCARD ALL` was run: nothing of a session is left.
    pub fn forget_session(&mut self) {
        self.forget_statements();
        self.settings = Arc::default();
        self.has_foreign_sequences = false;
    }

    /// What takes statements away that bear names of the last client's, in front of whatever comes next; empty if there are
    /// none.
    #[inline]
    pub(crate) fn forget_own_names(&mut self) -> Option<&'static str> {
        if !std::mem::take(&mut self.has_own_names) {
            return None;
        }
        self.forget_statements();
        Some("DEALLOCATE ALL")
    }

    /// `DEALLOCATE ALL` was run: what is left is what is on its way.
    pub(crate) fn forget_statements(&mut self) {
        self.prepared.clear();
        self.recall_prepared();
    }

    /// Whether a Parse of a statement that the server holds would succeed for certain: then the server need not be asked.
    pub(crate) fn would_parse(&self) -> bool {
        self.status != TransactionStatus::Failed && self.queue.is_plain()
    }

    /// Whether a request of our own that comes next cannot be skipped.
    pub(crate) fn is_clear(&self) -> bool {
        self.status != TransactionStatus::Failed && self.queue.is_clear()
    }

    /// A value that the session has by default, as reported at login.
    pub fn default_of(&self, name: &str) -> Option<&str> {
        self.defaults.get(name)
    }

    /// A request was refused before it was on its way.
    pub(crate) fn take_back_refused(&mut self, entry: Expected, client: &mut Client) {
        if let Some(effect) = entry.unnamed {
            if effect.of_client {
                client.unnamed().take_back();
            }
            self.recall_unnamed();
        }
        let recall = entry.statement.is_some();
        Self::take_back_name(entry, client);
        if recall {
            self.recall_prepared();
        }
    }

    /// After requests on their way were skipped: what the server will hold in the end.
    pub(crate) fn recall_unnamed(&mut self) {
        self.unnamed = self.queue.last_unnamed().unwrap_or(self.unnamed_confirmed);
    }

    /// After requests on their way were skipped: which statements the server will have in the end.
    pub(crate) fn recall_prepared(&mut self) {
        let changes = self.queue.iter().filter_map(|entry| {
            let statement = entry.statement.as_ref()?;
            Some((statement, entry.kind == Kind::Parse))
        });
        self.prepared.recall(changes);
    }

    /// Requests on their way (last first) will not be answered: takes back what they did to us and to the client's names.
    pub(crate) fn take_back(
        &mut self,
        skipped: impl IntoIterator<Item = Expected>,
        client: &mut Client,
    ) {
        let mut recall = false;
        for entry in skipped {
            if let Some(statement) = &entry.statement {
                self.prepared.was_skipped(statement);
                recall = true;
            }
            if let Some(renamed) = entry.renamed.as_ref().filter(|_| entry.is_fresh) {
                if renamed.theirs.is_empty() && entry.duty == Duty::Forward {
                    client.unnamed().was_not_used();
                } else if entry.kind == Kind::Describe {
                    client.was_not_described(&renamed.theirs, &renamed.ours);
                    self.prepared.doubt(&renamed.ours);
                }
            }
            Self::take_back_name(entry, client);
        }
        if recall {
            self.recall_prepared();
        }
    }

    fn take_back_name(entry: Expected, client: &mut Client) {
        match entry.undo.map(|undo| *undo) {
            Some(Undo::Began(name)) => client.defer(&name),
            Some(Undo::Named(name, ..)) => drop(client.forget(&name)),
            Some(Undo::Closed(name, statement, parsed)) => {
                client.remember(name, statement, parsed);
            }
            Some(Undo::Owned(name, statement, true)) => {
                let parsed = Parsed::of(&statement);
                client.remember(name, Some(statement), parsed);
            }
            Some(
                Undo::Deallocate(_) | Undo::DeallocateAll | Undo::Owned(..) | Undo::Refused(_),
            ) => {}
            None => {}
        }
    }
}
