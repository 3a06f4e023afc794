//! The server role of a conversation after login: the replies, the session state and the reported values of a
//! PostgreSQL connection.
//!
//! A [`Server`] has no socket; [`crate::relay`] passes it the bytes. [`Server::is_free`] ensures that no client gets
//! another client's replies.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_sql::{Definition, Pieces};
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frontend;
use weir_wire::sqlstate::SqlState;

use crate::client::{Client, Parsed};
use crate::counted::Counting;
use crate::expected::{CopyState, Duty, Expected, Kind, Queue, Required, Undo, UnnamedEffect};
use crate::rarities::{Rarities, ServerRarity};
use crate::relay::{Before, Definitions, Guard, Net, Warning};
use crate::repeat::Repeat;
use crate::settings::{Reported, Settings};
use crate::state::{Answer, Question};
use crate::statement::{Prepared, Statement};
use crate::unnamed;
use crate::watched::Watching;

mod asking;
mod comparison;
mod rest;
mod states;

pub(crate) use comparison::Comparison;
pub use rest::Unfit;
pub(crate) use states::{Discard, Future, HostFacts, Incoming, Progress, Sent, SequenceValues};

/// Maximum number of error codes that wait to be counted; the caller takes them after each receive.
pub const ERRORS_MAX: usize = 64;

/// Errors that interrupt a statement without being its fault. Causes are a cancel request that came late or was meant
/// for other work, a timeout that an earlier client set, and `lock_timeout`.
pub(crate) const INTERRUPTS: [SqlState; 2] =
    [SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE];

/// Rest of a Bind behind its names: no parameters and no formats.
const NO_PARAMETERS: [u8; 6] = [0; 6];

/// Number of times a required request is sent again before the client gets the error. An earlier client's settings may
/// leave each statement only a millisecond.
pub(crate) const INTERRUPTED_MAX: u8 = 8;

/// A server's side of the conversation.
///
/// ```text
///            requests()                replies()
///  client ───────────────► Server ◄──────────────── PostgreSQL
///                            │  queue: who gets the next reply
///                            │  status, sent, incoming: may it go back to the pool
///                            └─ settings, reported, prepared: what the session holds
/// ```
#[derive(Debug)]
pub struct Server {
    pub(crate) queue: Queue,
    pub(crate) status: TransactionStatus,
    pub(crate) sent: Sent,
    pub(crate) incoming: Incoming,
    /// True if a request that was sent and not answered may commit.
    pub(crate) may_commit: bool,
    pub(crate) future: Future,
    pub(crate) progress: Progress,
    pub(crate) prepared: Prepared,
    /// Serial of the unnamed statement that the server has once everything sent was processed.
    pub(crate) unnamed: u64,
    /// Serial of the unnamed statement as far as the server has answered.
    pub(crate) unnamed_confirmed: u64,
    /// Batch with a Parse of ours for the unnamed statement that an error may skip.
    pub(crate) unnamed_unsure: Option<u64>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) reported: Arc<Reported>,
    defaults: Arc<Reported>,
    /// True if a text in flight may have changed settings that affect planning, for the rest of its transaction.
    pub(crate) plans_locally: bool,
    /// Question for the server before it goes to another client.
    pub(crate) question: Question,
    /// Code that the client is about to define and that may change sessions.
    pub(crate) defines: Vec<Definition>,
    /// Question that the server did not answer; asked again after the next transaction.
    pub(crate) unanswered: Option<Box<Question>>,
    /// Number of times the server has interrupted the present question.
    pub(crate) questions_interrupted: u8,
    /// Questions in flight, with the answers so far; boxed, since few sessions have any.
    pub(crate) asked: VecDeque<Box<(Question, Answer)>>,
    /// Number of statements bound since the last Sync.
    pub(crate) bound: u32,
    /// True if a statement may exist under the name of [`crate::statement::Registry::taken`].
    pub(crate) has_taken: bool,
    /// Started only with [`ServerRarity::Discards`].
    pub(crate) discard: Discard,
    /// Rare circumstances, tested as one on the path of every message.
    pub(crate) rarities: Rarities<ServerRarity>,
    /// Reader for the rest of a text about data that passes in pieces.
    pub(crate) pieces: Option<Box<Pieces>>,
    /// Portals of the client whose statements reset settings, with the SQL that sets the client's values again.
    pub(crate) returning: Vec<(Box<[u8]>, Vec<String>)>,
    /// Number of the client that used the server last.
    pub(crate) user: u64,
    /// Number of that client's last lease of this server.
    pub(crate) lease: u64,
    /// Process id of the server.
    pub(crate) process: u32,
    /// SQL that stops this server from listening on its client's behalf ([`crate::channels`]).
    pub(crate) lent: Option<Box<str>>,
    pub(crate) sequences: SequenceValues,
    /// Codes of the errors that the client was sent and that were not counted yet.
    pub(crate) errors: Vec<Option<SqlState>>,
    /// Batch in progress.
    pub(crate) repeat: Repeat,
    /// Net below that batch, if the server is a replica.
    pub(crate) net: Net,
    /// Last message of a primary that the net has hidden.
    pub(crate) hidden_words: Option<Box<[u8]>>,
    /// Messages up to that one, or up to a warning of a shutdown and with it, if they are the reply to the batch over the
    /// net; else empty.
    pub(crate) hidden_reply: Vec<u8>,
    /// Warning of a shutdown that the net has kept back.
    pub(crate) warning: Option<Warning>,
    /// Guard of that batch, if a replica may be too old for it.
    pub(crate) guard: Option<Box<Guard>>,
    /// Treatment of reported values that belong to the host.
    pub(crate) host_facts: HostFacts,
    /// Required requests that the server has interrupted and that must be sent again, in order.
    pub(crate) interrupted: Vec<(Duty, Box<Required>)>,
    /// Statements of the fence in flight ([`Duty::Fence`]), as one text.
    pub(crate) fence: Option<Box<str>>,
    /// Set, with [`ServerRarity::BrokenFence`], if a fence was interrupted and its transaction must be ended; the duty is that of a Sync to send before, if
    /// any.
    pub(crate) broken_fence: Option<Option<Duty>>,
    /// Comparison that the client's next message waits for.
    pub(crate) comparison: Option<Box<Comparison>>,
    /// Definitions that the present transaction has changed or undone.
    pub(crate) definitions: Definitions,
    /// Parameter types of the description in progress, in the layout of ParameterDescription; empty if unknown.
    pub(crate) parameters: Vec<u8>,
    /// True if the server has statements under its client's names.
    pub(crate) has_own_names: bool,
    /// Settings of the client before its transaction, if the client may outlive the server in it.
    pub(crate) before: Before,
    /// Maximum length in bytes of a message from the server, by the rules of the last request.
    pub(crate) message_max: u32,
    pub(crate) counting: Counting,
    /// Watches of query rules over statements; none before the first one.
    pub(crate) watching: Option<Box<Watching>>,
}

/// Steps needed before a server whose client left can be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abandoned {
    /// Close the connection: a message is incomplete, or the session cannot be recovered.
    Close,
    /// Read replies until [`Server::is_free`].
    Drain {
        /// True if replies were owed before our own requests were added, so a statement may be running (worth a
        /// cancel).
        running: bool,
    },
    /// No steps: the server is free.
    Free,
}

impl Server {
    /// Creates a server that has just logged in and reported `reported`.
    pub fn new(reported: Arc<Reported>) -> Self {
        Self {
            queue: Queue::default(),
            status: TransactionStatus::Idle,
            sent: Sent::Nothing,
            incoming: Incoming::Nothing,
            may_commit: false,
            future: Future::Open,
            progress: Progress::Fresh,
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
            has_taken: false,
            discard: Discard::Nothing,
            rarities: Rarities::default(),
            pieces: None,
            returning: Vec::new(),
            user: 0,
            lease: 0,
            process: 0,
            lent: None,
            sequences: SequenceValues::Own,
            errors: Vec::new(),
            repeat: Repeat::default(),
            net: Net::default(),
            warning: None,
            guard: None,
            hidden_words: None,
            hidden_reply: Vec::new(),
            host_facts: HostFacts::default(),
            interrupted: Vec::new(),
            fence: None,
            broken_fence: None,
            comparison: None,
            definitions: Definitions::default(),
            parameters: Vec::new(),
            has_own_names: false,
            before: Before::default(),
            message_max: u32::MAX,
            counting: Counting::default(),
            watching: None,
        }
    }

    /// Sends a request of ours whose replies are dropped.
    ///
    /// # Errors
    /// Fails if `sql` contains a NUL or is longer than PostgreSQL accepts.
    pub fn ask(&mut self, sql: &str, out: &mut Vec<u8>) -> Result<(), encode::EncodeError> {
        self.ask_for(sql, Duty::Swallow, out)
    }

    /// Sends a request like [`Server::ask`], but [`crate::relay::replies`] forwards its replies, including an error.
    ///
    /// # Errors
    /// Same as [`Server::ask`].
    pub fn ask_aloud(&mut self, sql: &str, out: &mut Vec<u8>) -> Result<(), encode::EncodeError> {
        self.ask_for(sql, Duty::Forward, out)
    }

    /// Sends a request like [`Server::ask`], with another duty for its replies.
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

    /// Sends a request of ours that must succeed before anything of the client's may run. No message of the client is
    /// passed on until the server has answered it ([`Queue::awaits_required`]). If the server interrupts it
    /// ([`INTERRUPTS`]), it is sent again. Any other failure ends the client and the server connection.
    ///
    /// # Errors
    /// Fails if `sql` contains a NUL or is longer than PostgreSQL accepts.
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

    /// Sends what [`Server::has_to_repeat`] requires, except batches of the client. These are required requests that
    /// the server has interrupted, and an empty query whose reply proves that no earlier reply is outstanding.
    pub fn resume(&mut self, out: &mut Vec<u8>) {
        if !self.mend_fence(out) {
            return;
        }
        for (duty, required) in std::mem::take(&mut self.interrupted) {
            // Cannot fail: it was encoded before.
            let _ = self.require_again(duty, required, out);
        }
        if self.queue.is_in_doubt() {
            // Cannot fail: an empty query fits.
            let _ = self.ask("", out);
        }
    }

    /// Ends the batch and the transaction after an interrupted fence. Returns false if a reply must come first.
    fn mend_fence(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(sync) = &mut self.broken_fence else {
            return true;
        };
        if let Some(duty) = sync.take() {
            // Cannot fail: five bytes fit.
            let _ = encode::sync(out);
            self.queue.expect(Expected::new(Kind::Sync, duty));
            self.sent = Sent::Whole;
        }
        if self.queue.is_skipping() || !self.queue.is_empty() {
            return false;
        }
        if self.status != TransactionStatus::Idle {
            // The ROLLBACK is sent again if it is interrupted too. Cannot fail to encode: a constant text fits.
            let _ = self.ask_for("ROLLBACK", Duty::Try, out);
            return false;
        }
        self.broken_fence = None;
        self.rarities.remove(ServerRarity::BrokenFence);
        true
    }

    /// Sends statements of ours in front of the client's next batch or query. They form a transaction of their own,
    /// without a Sync, so that PostgreSQL skips the client's messages if a statement fails.
    ///
    /// # Errors
    /// Fails if a statement contains a NUL or is longer than PostgreSQL accepts.
    pub(crate) fn put_fence(
        &mut self,
        statements: &[String],
        out: &mut Vec<u8>,
    ) -> Result<(), encode::EncodeError> {
        let all = statements.iter().map(String::as_str);
        let all = std::iter::once("BEGIN").chain(all).chain(["COMMIT"]);
        self.put_in_front(all, Duty::Fence, out)?;
        self.fence = Some(statements.join(";").into_boxed_str());
        Ok(())
    }

    /// Sends statements of ours in front of the client's next batch or query, without a Sync.
    pub(crate) fn put_in_front<'s>(
        &mut self,
        statements: impl Iterator<Item = &'s str>,
        duty: Duty,
        out: &mut Vec<u8>,
    ) -> Result<(), encode::EncodeError> {
        for sql in statements {
            encode::parse(out, b"", sql.as_bytes(), &[0, 0])?;
            encode::bind_head(out, b"", b"", NO_PARAMETERS.len())?;
            out.extend_from_slice(&NO_PARAMETERS);
            encode::execute(out, b"", 0)?;
            for kind in [Kind::Parse, Kind::Bind, Kind::Execute] {
                self.expect_in_front(kind, duty);
            }
        }
        encode::close(out, frontend::Kind::Statement, b"")?;
        self.expect_in_front(Kind::Close, duty);
        self.unnamed = unnamed::NONE;
        self.sent.add();
        Ok(())
    }

    fn expect_in_front(&mut self, kind: Kind, duty: Duty) {
        let defines = matches!(kind, Kind::Parse | Kind::Close);
        let effect = UnnamedEffect {
            serial: unnamed::NONE,
            of_client: false,
            of_server: true,
        };
        let entry = Expected::new(kind, duty).with_unnamed(defines.then_some(effect));
        self.queue.expect(entry);
    }

    /// Makes the server answer a fence now, where PostgreSQL would delay the answer. That is the case if the client has
    /// sent nothing after the fence, or if its next message is `stalled` until the answer.
    pub(crate) fn hear_of_fence(&mut self, stalled: bool, out: &mut Vec<u8>) {
        // Cannot fail: five bytes fit.
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
        self.sent.add();
    }

    /// Sets the process id of the server, which its notifications contain.
    pub fn set_process(&mut self, pid: u32) {
        self.process = pid;
    }

    /// Number of the client that used the server last; 0 if there is none.
    pub fn user(&self) -> u64 {
        self.user
    }

    /// True if the session has state that can never be removed, so that no other client may use the server.
    pub fn is_spoiled(&self) -> bool {
        self.future == Future::Spoiled
    }

    /// Makes the server finish or roll back what its client, which has left, began. Writes the requests to `out`.
    pub fn abandon(&mut self, client: &Client, out: &mut Vec<u8>) -> Abandoned {
        // A required request was taken back: the session's settings differ from `settings`.
        let lost = self.is_dying() || self.queue.is_lost() || !self.interrupted.is_empty();
        if lost || client.is_sending_to_server() || self.queue.copy() == CopyState::Both {
            return Abandoned::Close;
        }
        self.progress = Progress::Alone;
        // Its start values matter no more.
        self.discard = Discard::Nothing;
        self.repeat.forget();
        self.comparison = None;
        self.disarm_net();
        self.before = Before::Unneeded;
        let running = !self.queue.is_empty();
        if running {
            // A COPY that waits for data and ignores Sync may be running, or may start yet. At other times both
            // messages are harmless.
            if encode::copy_fail(out, b"the client left during COPY").is_err() {
                return Abandoned::Close;
            }
            self.queue
                .expect(Expected::new(Kind::CopyEnd, Duty::Swallow));
        }
        if self.sent == Sent::OpenBatch {
            // A lone Sync would commit what the client never asked to commit (hazard COR-02).
            let _ = self.ask("ROLLBACK", out);
        }
        if running || self.sent != Sent::Nothing || self.queue.is_skipping() {
            // Cannot fail: five bytes fit.
            let _ = encode::sync(out);
            self.queue.expect(Expected::new(Kind::Sync, Duty::Swallow));
            self.sent = Sent::Whole;
            // A reply that is more than a ReadyForQuery proves that no earlier one is outstanding.
            let _ = self.ask("", out);
        }
        if self.is_quiet_and_synced() && !self.roll_back(out) {
            return Abandoned::Free;
        }
        Abandoned::Drain { running }
    }

    /// Ends an open transaction after the replies to [`Server::abandon`] were read. Returns false if there is none.
    pub fn roll_back(&mut self, out: &mut Vec<u8>) -> bool {
        self.status != TransactionStatus::Idle && self.ask("ROLLBACK", out).is_ok()
    }

    /// True if the client has begun a batch, has bound nothing in it, and has all replies. The client would not notice
    /// if Weir ended that batch. Drivers flush a Parse and send the Bind after its reply.
    #[inline]
    pub fn has_open_batch(&self) -> bool {
        self.sent == Sent::OpenBatch
            && self.bound == 0
            && self.status == TransactionStatus::Idle
            && self.queue.is_quiet()
            && !self.is_dying()
    }

    /// Ends that batch; the reply is dropped.
    pub fn end_batch(&mut self, out: &mut Vec<u8>) {
        // Cannot fail: five bytes fit.
        let _ = encode::sync(out);
        self.queue.expect(Expected::new(Kind::Sync, Duty::Swallow));
        self.sent = Sent::Whole;
        self.repeat.forget();
    }

    /// Frees memory that a burst of statements or a long pipeline took.
    pub fn give_back(&mut self) {
        self.queue.give_back();
        self.prepared.give_back();
    }

    /// Sends an empty query. When it is answered, everything sent before (a cancel) has arrived.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        self.progress = Progress::Alone;
        // Cannot fail: an empty query fits.
        let _ = self.ask("", out);
    }

    /// Ends [`Server::abandon`] and [`Server::ping`] once the server is free: errors in answer to our own requests count
    /// again, and the server can be used.
    pub fn settle(&mut self) {
        self.progress.settle();
        self.errors = Vec::new();
    }

    /// Takes the codes of the errors that were passed on since the last call, at most [`ERRORS_MAX`]. `None` stands for
    /// a code that could not be read.
    pub fn take_errors(&mut self) -> Vec<Option<SqlState>> {
        std::mem::take(&mut self.errors)
    }

    /// True if a message for the client has begun and not ended.
    pub fn is_mid_message(&self) -> bool {
        matches!(self.incoming, Incoming::Forward(_))
    }

    /// True if a FATAL was read: the connection is about to end.
    #[inline]
    pub fn is_dying(&self) -> bool {
        self.future == Future::Dying
    }

    /// True if every owed reply has arrived, the last was ReadyForQuery `I`, and no message is partly read. Only then
    /// may another client get the server.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.status == TransactionStatus::Idle && self.is_quiet_and_synced()
    }

    /// Same as [`Server::is_free`], but possibly inside a transaction.
    pub fn is_quiet_and_synced(&self) -> bool {
        let is_whole = self.incoming == Incoming::Nothing;
        let is_done = self.sent == Sent::Nothing && is_whole && !self.is_dying();
        is_done && self.queue.is_quiet() && !self.has_to_repeat()
    }

    /// True if the server has got the beginning of a batch, and not its end.
    pub fn is_in_batch(&self) -> bool {
        self.sent == Sent::OpenBatch
    }

    /// True if a batch or a request of ours must be sent again: [`crate::relay::requests`] must be called, even without
    /// input.
    #[inline]
    pub fn has_to_repeat(&self) -> bool {
        self.repeat.is_due()
            || !self.interrupted.is_empty()
            || self.broken_fence.is_some()
            || self.queue.is_in_doubt()
    }

    /// True if nothing of the client's may be sent before an answer to a request of ours.
    #[inline]
    pub fn awaits_required(&self) -> bool {
        let is_broken = !self.interrupted.is_empty() || self.broken_fence.is_some();
        let is_interrupted = is_broken && !self.queue.is_skipping();
        self.queue.awaits_required() || self.queue.is_fence_followed() || is_interrupted
    }

    /// True if the server only has to get the client's settings back, and the client waits for nothing. False in a batch
    /// of the client's: PostgreSQL skips the rest of a batch whose fence was interrupted, and another server would not.
    pub fn is_only_resuming(&self) -> bool {
        let is_resuming = self.awaits_required() || self.broken_fence.is_some();
        is_resuming
            && self.sent != Sent::OpenBatch
            && !self.is_uncertain()
            && !self.rarities.has(ServerRarity::OwesReady)
            && !self.owes_client()
    }

    /// True if a client is between two transactions, and loses nothing but values of sequences with this server.
    pub fn is_between(&self, client: &Client) -> bool {
        self.queue.is_empty() && self.is_free() && self.is_settled() && client.may_lose_server()
    }

    /// True if errors in answer to our own requests are ignored: the server is being cleaned or waits for a late cancel.
    #[inline]
    pub(crate) fn is_tolerant(&self) -> bool {
        self.progress == Progress::Alone
    }

    /// True if the client has done nothing on this lease yet.
    pub fn is_untouched(&self) -> bool {
        self.progress == Progress::Fresh
    }

    /// True if a cancel would hit a request of the client that may be running. A query of ours does not count (hazard
    /// COR-27). Other messages of ours belong to the client's batch, and PostgreSQL may have answered them without
    /// sending the reply yet.
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

    /// True if the client sent no further request behind the present one. Only then may abandoned work be cancelled. A
    /// cancel that hits the BEGIN of a pipeline would let the statement behind it commit by itself.
    pub fn is_at_last_request(&self) -> bool {
        let ends = |entry: &&Expected| {
            entry.duty == Duty::Forward
                && matches!(entry.kind, Kind::FunctionCall | Kind::Query | Kind::Sync)
        };
        self.queue.iter().filter(ends).nth(1).is_none()
    }

    /// True if a reply is owed to the client.
    pub fn owes_client(&self) -> bool {
        self.queue.iter().any(|entry| entry.duty == Duty::Forward)
    }

    /// Transaction status of the last ReadyForQuery.
    #[inline]
    pub fn status(&self) -> TransactionStatus {
        self.status
    }

    /// Number of owed replies.
    pub fn owed_replies(&self) -> usize {
        self.queue.len()
    }

    /// Number of prepared statements on the server.
    pub fn prepared_count(&self) -> usize {
        self.prepared.len()
    }

    /// Iterates over the statements prepared on the server once everything sent was processed, most recently used
    /// first.
    pub fn prepared(&self) -> impl Iterator<Item = &Statement> {
        self.prepared.iter()
    }

    /// Returns the values that the server last reported.
    pub fn reported(&self) -> &Arc<Reported> {
        &self.reported
    }

    /// Replaces the reported values by an equal shared set, so that comparing them is one pointer comparison.
    pub fn share_reported(&mut self, shared: &Arc<Reported>) {
        debug_assert_eq!(*self.reported, **shared, "only equal sets are shared");
        self.reported = Arc::clone(shared);
    }

    /// Returns the parameter values that were set on the server.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Resets the session state after our reset query: nothing is left, and nothing has to be asked.
    pub fn was_reset(&mut self) {
        self.forget_session();
        self.has_own_names = false;
        self.question = Question::default();
        self.unanswered = None;
        self.rarities.remove(ServerRarity::Unanswered);
        self.lent = None;
        self.asked.clear();
        self.discard = Discard::Nothing;
    }

    /// Resets the session state after `DISCARD ALL`: nothing of the session is left.
    pub fn forget_session(&mut self) {
        self.forget_statements();
        self.settings = Arc::default();
        self.sequences.discard();
    }

    /// Returns SQL that removes statements under the last client's names, to be sent before anything else; `None` if
    /// there are none.
    #[inline]
    pub(crate) fn forget_own_names(&mut self) -> Option<&'static str> {
        if !std::mem::take(&mut self.has_own_names) {
            return None;
        }
        self.forget_statements();
        Some("DEALLOCATE ALL")
    }

    /// Updates the record of prepared statements after `DEALLOCATE ALL`: only those in flight are left.
    pub(crate) fn forget_statements(&mut self) {
        self.prepared.clear();
        self.recall_prepared();
    }

    /// True if a Parse of a statement that the server has would certainly succeed, so that the server need not be
    /// asked.
    pub(crate) fn would_parse(&self) -> bool {
        self.status != TransactionStatus::Failed && self.queue.is_plain()
    }

    /// True if the next request of ours cannot be skipped.
    pub(crate) fn is_clear(&self) -> bool {
        self.status != TransactionStatus::Failed && self.queue.is_clear()
    }

    /// Returns the session's default for a parameter, as reported at login.
    pub fn default_of(&self, name: &str) -> Option<&str> {
        self.defaults.get(name)
    }

    /// Ends the rare circumstances that concern only the lease before.
    #[cold]
    pub(crate) fn end_rarities(&mut self) {
        self.discard = Discard::Nothing;
        for of_lease in [
            ServerRarity::Discards,
            ServerRarity::Loads,
            ServerRarity::RanUnread,
            ServerRarity::UnreadEnd,
        ] {
            self.rarities.remove(of_lease);
        }
    }

    /// Undoes a request that was refused before it was sent.
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

    /// Updates the server's final unnamed statement after requests in flight were skipped.
    pub(crate) fn recall_unnamed(&mut self) {
        self.unnamed = self.queue.last_unnamed().unwrap_or(self.unnamed_confirmed);
    }

    /// Updates the server's final prepared statements after requests in flight were skipped.
    pub(crate) fn recall_prepared(&mut self) {
        let changes = self.queue.iter().filter_map(|entry| {
            let statement = entry.statement.as_ref()?;
            Some((statement, entry.kind == Kind::Parse))
        });
        self.prepared.recall(changes);
    }

    /// Undoes skipped requests (last first): their effects on the server's records and on the client's names.
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
