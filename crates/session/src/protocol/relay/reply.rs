//! Replies: from a server to the client that leases it.

use std::sync::Arc;

use weir_sql::{Reason, Reasons};
use weir_wire::backend::{self, TransactionStatus, tag};
use weir_wire::encode;
use weir_wire::frame::{FrameError, Header, Side, header};
use weir_wire::sqlstate::SqlState;

use super::request::tell;
use super::{STREAM_MIN, failure, fencing, is_too_long, learning, shape};
use crate::client::Client;
use crate::counted::Rows;
use crate::expected::{CopyState, Duty, Kind, Refusal, Undo};
use crate::fault::Fault;
use crate::own_settings::WrongSetting;
use crate::rarities::ServerRarity;
use crate::sequences;
use crate::server::{ERRORS_MAX, Future, Incoming, Sent, Server};
use crate::settings::TooManyReported;
use crate::splice::Splice;
use definitions::Definitions;

mod counting;
pub(crate) mod definitions;
mod descriptions;
mod skipped;
mod unasked;

/// Length of a message header.
const HEAD: usize = weir_wire::frame::HEADER_LEN;

/// Result of processing bytes from a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replied {
    /// Number of bytes consumed; offer the rest again with the bytes that follow.
    pub consumed: usize,
    /// Number of the client's requests that were answered completely.
    pub queries: u32,
    /// Number of the client's transactions that ended.
    pub transactions: u32,
    /// Number of ErrorResponses for the client.
    pub errors: u32,
    /// True if a transaction ended that changed roles, or defaults for new sessions.
    pub altered_roles: bool,
    /// True if a transaction ended that created, altered or dropped objects.
    pub altered_objects: bool,
    /// True if a standby has refused the batch over the net ([`Server::arm_net`]). The client has nothing of the reply.
    pub is_refused: bool,
    /// True if the standby will refuse the batch's text again.
    pub is_refused_by_text: bool,
    /// True if the server's last word, behind the end of a transaction, was hidden ([`Server::take_hidden_words`]).
    pub ends_unheard: bool,
    /// True if a standby has refused a write after a part of the reply had gone to the client.
    pub was_refused_late: bool,
}

/// Reason for which a server connection can no longer be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerFault {
    /// Not a message that PostgreSQL sends.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message whose body does not parse, by tag.
    #[error("malformed message of type '{}'", char::from(*.0))]
    Malformed(u8),
    /// A reply to no request, by tag: its recipient can no longer be known.
    #[error("unexpected message of type '{}'", char::from(*.0))]
    OutOfPlace(u8),
    /// A message is longer than `max_packet_size`; its length in bytes.
    #[error("message of {0} bytes is too long (max_packet_size)")]
    TooLong(usize),
    /// The server reports more parameters than Weir keeps.
    #[error(transparent)]
    TooManyReported(#[from] TooManyReported),
    /// The server refused a request of ours (a setting of the client); body of its ErrorResponse.
    #[error("the server refused a setting")]
    Refused(Box<[u8]>),
}

/// Passes replies of a server on to the client, as far as they are complete.
///
/// # Errors
/// Fails if the server's messages cannot be attributed; it never becomes free again. Bytes in `to_client` are valid.
pub fn replies(
    client: &mut Client,
    server: &mut Server,
    input: &[u8],
    to_client: &mut Splice<'_>,
) -> Result<Replied, ServerFault> {
    if client.is_behind() {
        return Ok(Replied::default());
    }
    let mut work = Work {
        client,
        server,
        to_client,
        replied: Replied::default(),
        end: 0,
        counted: 0,
    };
    let told = work.told_before();
    let result = work.all(input);
    if let Some(told) = told {
        work.settle_net(told);
    }
    let replied = work.replied;
    if result.is_err() {
        // The recipient of the rest is unknown, so the server must never become free again.
        server.future = Future::Dying;
    }
    result.map(|consumed| Replied {
        consumed,
        ..replied
    })
}

/// Writes a reply of our own to a request that no server gets.
pub(super) fn answer(out: &mut Vec<u8>, kind: Kind) {
    let tag = if kind == Kind::Close {
        tag::CLOSE_COMPLETE
    } else {
        tag::PARSE_COMPLETE
    };
    out.extend_from_slice(&[tag, 0, 0, 0, 4]);
}

/// Treatment of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Drop,
    Keep,
}

pub(super) struct Work<'w, 's> {
    pub(super) client: &'w mut Client,
    pub(super) server: &'w mut Server,
    pub(super) to_client: &'w mut Splice<'s>,
    pub(super) replied: Replied,
    /// End of the present message in the input.
    pub(super) end: usize,
    /// End of the last statement or request in the input.
    pub(super) counted: usize,
}

impl Work<'_, '_> {
    /// Processes all input. Returns the number of bytes consumed.
    fn all(&mut self, input: &[u8]) -> Result<usize, ServerFault> {
        let mut at = self.streamed(input);
        self.catch_up();
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let Some(header) = header(rest, Side::Backend)? else {
                break;
            };
            let total = header.total_len();
            if is_too_long(total, self.server.message_max) {
                return Err(ServerFault::TooLong(total));
            }
            let have = rest.len().min(total);
            let is_kept = total <= STREAM_MIN || header.tag == tag::PARAMETER_STATUS;
            if have < total && is_kept && !self.is_passed_on_in_parts(header.tag) {
                break;
            }
            let body = rest.get(HEAD..have).unwrap_or_default();
            self.end = at + have;
            let verdict = self.message(header, body)?;
            match verdict {
                Verdict::Keep => self.to_client.keep(at, at + have),
                Verdict::Drop => {}
            }
            if have < total {
                let missing = (total - have) as u64;
                self.server.incoming = match verdict {
                    Verdict::Drop => Incoming::Drop(missing),
                    Verdict::Keep => Incoming::Forward(missing),
                };
            }
            self.settle(header.tag);
            at += have;
            if header.tag == tag::DATA_ROW && verdict == Verdict::Keep && have == total {
                at = self.more_rows(input, at);
            }
            if header.tag == tag::READY_FOR_QUERY && self.client.is_behind() {
                break;
            }
        }
        self.server.counting.carry(at.saturating_sub(self.counted));
        Ok(at)
    }

    /// Passes on complete DataRows that follow a forwarded one. Most messages of most replies are rows, and only their
    /// ends have to be found.
    #[inline]
    fn more_rows(&mut self, input: &[u8], from: usize) -> usize {
        let mut at = from;
        let sums = self.server.sums_rows();
        while let Some(rest) = input.get(at..)
            && rest.first() == Some(&tag::DATA_ROW)
            && let Ok(Some(header)) = header(rest, Side::Backend)
            && header.total_len() <= rest.len()
            && !is_too_long(header.total_len(), self.server.message_max)
        {
            if sums {
                let body = rest.get(HEAD..header.total_len()).unwrap_or_default();
                self.server.sum_row(header.total_len(), body);
            }
            at += header.total_len();
        }
        if at > from {
            self.to_client.keep(from, at);
        }
        at
    }

    /// Passes on the rest of a message that began earlier. Returns its length.
    fn streamed(&mut self, input: &[u8]) -> usize {
        let before = self.server.incoming;
        if before == Incoming::Nothing {
            return 0;
        }
        let here = self.server.incoming.take(input.len());
        if matches!(before, Incoming::Forward(_)) {
            if self.server.sums_rows() {
                self.server.sum_rest(input.get(..here).unwrap_or_default());
            }
            self.to_client.keep(0, here);
        }
        here
    }

    #[inline]
    fn message(&mut self, header: Header, body: &[u8]) -> Result<Verdict, ServerFault> {
        match header.tag {
            tag::DATA_ROW | tag::COPY_DATA => self.row(header, body),
            tag::READY_FOR_QUERY => self.ready(body),
            tag::COMMAND_COMPLETE => self.complete(body),
            tag::BIND_COMPLETE => self.ends(tag::BIND_COMPLETE, Kind::Bind),
            tag::PARSE_COMPLETE => self.ends(tag::PARSE_COMPLETE, Kind::Parse),
            tag::CLOSE_COMPLETE => self.ends(tag::CLOSE_COMPLETE, Kind::Close),
            tag::NO_DATA => {
                self.described(Some(shape::NO_DATA))?;
                self.ends(tag::NO_DATA, Kind::Describe)
            }
            tag::PORTAL_SUSPENDED => {
                self.count_end(Rows::Max);
                self.ends(tag::PORTAL_SUSPENDED, Kind::Execute)
            }
            tag::ROW_DESCRIPTION => self.row_description(header, body),
            tag::EMPTY_QUERY_RESPONSE => {
                self.count_end(Rows::Tag(b""));
                self.ends_execute(tag::EMPTY_QUERY_RESPONSE)
            }
            tag::PARAMETER_STATUS => self.parameter_status(body),
            tag::NOTICE_RESPONSE => Ok(self.notice(body)),
            tag::NOTIFICATION_RESPONSE => Ok(self.notified(body)),
            tag::ERROR_RESPONSE => self.error(body),
            tag::COPY_IN_RESPONSE => self.copy_in(),
            tag::COPY_OUT_RESPONSE => self.copy(tag::COPY_OUT_RESPONSE, CopyState::Out),
            tag::COPY_BOTH_RESPONSE => self.copy(tag::COPY_BOTH_RESPONSE, CopyState::Both),
            tag::PARAMETER_DESCRIPTION => self.parameter_description(header, body),
            tag::COPY_DONE | tag::FUNCTION_CALL_RESPONSE => self.part_of_a_reply(header.tag),
            other => Err(ServerFault::OutOfPlace(other)),
        }
    }

    /// Sends replies of our own whose turn has come after a message that may have ended a reply.
    #[inline]
    fn settle(&mut self, tag: u8) {
        if matches!(tag, tag::DATA_ROW | tag::COPY_DATA) {
            return;
        }
        let is_behind = tag == tag::READY_FOR_QUERY && self.client.is_behind();
        while !is_behind && let Some(entry) = self.server.queue.next_answer() {
            answer(self.to_client.insert(), entry.kind);
            if entry.unnamed.is_some() {
                self.client.unnamed().confirm();
            }
        }
        if tag == tag::READY_FOR_QUERY {
            self.count_ready();
            let is_over = self.server.status == TransactionStatus::Idle;
            self.server.note_before(self.client);
            if self.server.queue.is_empty() {
                // What is left of a batch behind it was answered by Weir.
                self.server.sent = Sent::Nothing;
                self.server.plans_locally &= !is_over;
            }
            if is_over {
                self.server.progress.transaction_over();
            }
        }
    }

    /// True if this message may be passed on in parts.
    #[inline]
    fn is_passed_on_in_parts(&self, tag: u8) -> bool {
        matches!(tag, tag::DATA_ROW | tag::COPY_DATA)
            && !matches!(self.duty(), Some((_, Duty::Learn)))
    }

    /// Handles a row, and reads it if it answers a question of ours.
    #[inline]
    fn row(&mut self, header: Header, body: &[u8]) -> Result<Verdict, ServerFault> {
        if let Some((_, Duty::Learn)) = self.duty()
            && let Some(asked) = self.server.asked.front_mut()
        {
            // A row that is too long to be complete cannot be read either.
            asked.1.row(body);
        }
        if header.tag == tag::DATA_ROW && self.server.sums_rows() {
            self.server.sum_row(header.total_len(), body);
        }
        self.part_of_a_reply(header.tag)
    }

    #[inline]
    pub(super) fn duty(&self) -> Option<(Kind, Duty)> {
        self.server
            .queue
            .front()
            .map(|front| (front.kind, front.duty))
    }

    /// Handles a message inside the front entry's reply.
    #[inline]
    fn part_of_a_reply(&mut self, tag: u8) -> Result<Verdict, ServerFault> {
        self.server.queue.begin_reply();
        match self.duty() {
            Some((_, Duty::Forward)) => Ok(Verdict::Keep),
            Some(_) => Ok(Verdict::Drop),
            None => Err(ServerFault::OutOfPlace(tag)),
        }
    }

    /// Removes the front entry, whose reply is complete, and applies its effects, also on the unnamed statement.
    #[inline]
    fn finish_front(&mut self) {
        // Most entries. They are not even moved.
        if self.server.watching.is_none() && self.server.queue.pop_plain() {
            return;
        }
        self.finish_front_with_effects();
    }

    fn finish_front_with_effects(&mut self) {
        let Some(mut entry) = self.server.queue.pop() else {
            return;
        };
        self.server.end_watch(&mut entry);
        if let Some(mut required) = entry.required.filter(|required| required.is_due) {
            required.is_due = false;
            required.interrupted += 1;
            self.server.interrupted.push((entry.duty, required));
        }
        if let Some(statement) = &entry.statement {
            if entry.kind == Kind::Parse {
                statement.prove();
                self.server.prepared.was_prepared(statement);
            } else {
                self.server.prepared.was_closed(statement);
            }
        }
        let names_ours = entry.renamed.is_some() || entry.inserted.is_some();
        if entry.statement.is_some() || names_ours {
            self.server.definitions.note_use();
        }
        if let Some(Undo::Owned(name, statement, _)) = entry.undo.as_deref() {
            self.client.owns(name, statement);
        }
        if let Some(effect) = entry.unnamed {
            self.server.unnamed_confirmed = effect.serial;
            if effect.serial == self.server.unnamed {
                self.server.unnamed_unsure = None;
            }
            if effect.of_client {
                self.client.unnamed().confirm();
            }
        }
    }

    /// Handles a message that completes a reply of this kind.
    #[inline]
    fn ends(&mut self, tag: u8, kind: Kind) -> Result<Verdict, ServerFault> {
        self.server.queue.begin_reply();
        match self.duty() {
            Some((front, duty)) if front == kind => {
                self.finish_front();
                Ok(if duty == Duty::Forward {
                    Verdict::Keep
                } else {
                    Verdict::Drop
                })
            }
            _ => Err(ServerFault::OutOfPlace(tag)),
        }
    }

    /// Handles a message that completes an Execute, or one statement of a Query.
    #[inline]
    fn ends_execute(&mut self, tag: u8) -> Result<Verdict, ServerFault> {
        self.server.queue.complete_copy();
        match self.duty() {
            Some((Kind::Execute, _)) => self.ends(tag, Kind::Execute),
            Some((Kind::Query, _)) => self.part_of_a_reply(tag),
            _ => Err(ServerFault::OutOfPlace(tag)),
        }
    }

    /// Returns the name that the front entry removes, if the entry is a DEALLOCATE that we replaced.
    fn deallocates(&self) -> Option<Box<[u8]>> {
        match self.server.queue.front()?.undo.as_deref()? {
            Undo::Deallocate(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// True if the front entry is the client's request.
    fn is_clients(&self) -> bool {
        matches!(self.duty(), Some((_, Duty::Forward)))
    }

    /// Counts the end of a statement with this command tag, for digests and rules.
    #[inline]
    fn end_statement(&mut self, tag: &[u8]) {
        self.count_end(Rows::Tag(tag));
        if self.server.is_watching() && self.is_clients() {
            self.server.watch_tag(tag);
        }
    }

    fn complete(&mut self, body: &[u8]) -> Result<Verdict, ServerFault> {
        self.end_statement(body);
        if self.client.subscriptions.is_some() {
            self.note_channels(body);
        }
        self.server.definitions.note(body);
        match body {
            b"PREPARE\0" if self.deallocates().is_some() => {
                self.server.queue.begin_reply();
                return Ok(Verdict::Drop);
            }
            b"DEALLOCATE\0" => {
                if let Some(name) = self.deallocates() {
                    self.client.forget(&name);
                }
            }
            b"DISCARD ALL\0" => {
                self.server.forget_session();
                self.client.forget_session();
                self.forget_names();
                self.server.discard.complete();
            }
            b"SET\0" | b"RESET\0" | b"DO\0" | b"CALL\0"
                if self.server.rarities.has(ServerRarity::UnreadEnd) && self.is_clients() =>
            {
                // Unknown which setting.
                self.client.certain.insert(Reason::Setting);
                if !self.client.startup.is_empty() {
                    self.server.rarities.insert(ServerRarity::RanUnread);
                }
            }
            b"LOAD\0" if self.server.rarities.has(ServerRarity::Loads) => {
                self.client.certain.insert(Reason::Library);
                self.server.future.spoil();
            }
            b"DISCARD SEQUENCES\0" if self.is_clients() => {
                self.client.certain.remove(Reason::Sequence);
                self.client.sequences.forget();
                self.server.sequences.discard();
            }
            b"ROLLBACK\0" => self.server.definitions.undo(),
            b"ALTER DATABASE\0" | b"ALTER ROLE\0" | b"CREATE ROLE\0" | b"DROP ROLE\0" => {
                self.server.rarities.insert(ServerRarity::AltersRoles);
            }
            tag if sequences::may_move(tag) && self.is_clients() => {
                self.client.inserted(self.server.sequences.are_foreign());
                self.server.sequences.advance();
            }
            b"BEGIN\0" => return self.ends_execute(tag::COMMAND_COMPLETE),
            b"DEALLOCATE ALL\0" if self.is_clients() => {
                self.server.forget_statements();
                self.forget_names();
            }
            _ => {}
        }
        // A SET at the beginning of a block is part of its beginning: SET TRANSACTION must come before any query.
        let is_beginning = body == b"SET\0"
            && self.server.status == TransactionStatus::InTransaction
            && self.server.progress.begins_transaction();
        if self.is_clients() && !is_beginning {
            self.server.progress.work();
            self.server.sequences.work();
        }
        let verdict = self.ends_execute(tag::COMMAND_COMPLETE)?;
        if self.server.queue.complete_inserted(body)
            && self.server.fence.is_none()
            && !Arc::ptr_eq(&self.client.reported, &self.server.reported)
        {
            tell(self.client, &self.server.reported, self.to_client.insert());
        }
        Ok(verdict)
    }

    /// Tracks LISTEN, UNLISTEN and the end of a transaction by command tags, for a client with subscriptions.
    #[cold]
    fn note_channels(&mut self, tag: &[u8]) {
        let is_clients = self.is_clients();
        let Some(own) = &mut self.client.subscriptions else {
            return;
        };
        own.statement_over();
        match tag {
            b"COMMIT\0" if is_clients => own.commit(),
            b"ROLLBACK\0" if is_clients => own.undo(),
            b"UNLISTEN\0" if is_clients => own.has_unlistened(),
            _ => {}
        }
    }

    fn forget_names(&mut self) {
        let queue = self.server.queue.iter();
        self.client
            .forget_all(queue.filter_map(|entry| entry.undo.as_deref()));
    }

    /// Handles ReadyForQuery. Outside a transaction, a client with subscriptions gets it only after all notifications.
    fn ready(&mut self, body: &[u8]) -> Result<Verdict, ServerFault> {
        let verdict = self.ready_of_server(body)?;
        let is_over = self.server.status == TransactionStatus::Idle;
        match &mut self.client.subscriptions {
            Some(own) if is_over && verdict == Verdict::Keep => {
                own.fall_behind();
                Ok(Verdict::Drop)
            }
            _ => Ok(verdict),
        }
    }

    /// Sends a ReadyForQuery that was held back, and what follows it, once the client has all notifications.
    fn catch_up(&mut self) {
        let own = self.client.subscriptions.as_mut();
        if own.is_some_and(|own| own.take_due()) {
            // Six bytes always fit.
            let _ = encode::ready_for_query(self.to_client.insert(), TransactionStatus::Idle);
            self.settle(tag::READY_FOR_QUERY);
        }
    }

    fn ready_of_server(&mut self, body: &[u8]) -> Result<Verdict, ServerFault> {
        let status = backend::ReadyForQuery::parse(body)
            .map_err(|_| ServerFault::Malformed(tag::READY_FOR_QUERY))?
            .0;
        if self.server.queue.take_stray() {
            self.server.status = status;
            return Ok(Verdict::Keep);
        }
        let Some((Kind::Query | Kind::Sync | Kind::FunctionCall, duty)) = self.duty() else {
            return Err(ServerFault::OutOfPlace(tag::READY_FOR_QUERY));
        };
        let is_held_back = self.is_held_back();
        self.finish_front();
        let server = &mut *self.server;
        server.queue.end_copy();
        server.status = status;
        if status == TransactionStatus::Idle {
            if server.is_watching() {
                server.end_mirrored();
            }
            self.transaction_over();
        }
        self.server.may_commit &= !self.server.queue.is_empty();
        if self.server.queue.is_empty()
            && let Some(subscriptions) = &mut self.client.subscriptions
        {
            subscriptions.all_answered();
        }
        let server = &mut *self.server;
        if duty == Duty::Forward {
            self.replied.queries += 1;
            if status == TransactionStatus::Idle {
                self.replied.transactions += 1;
            }
            let is_rare = is_held_back || !server.rarities.is_empty();
            return Ok(match is_rare || server.fence.is_some() {
                true => self.ready_rarely(is_held_back),
                false => Verdict::Keep,
            });
        }
        if duty == Duty::Learn {
            learning::learn(self.client, server);
        }
        if !server.interrupted.is_empty() {
            // It was rolled back as a whole, so nothing has changed yet.
            return Ok(Verdict::Drop);
        }
        // Values that another request of ours is about to change are not reported.
        let next = server.queue.front();
        let is_last =
            next.is_none_or(|next| next.kind != Kind::Query || next.duty == Duty::Forward);
        let has_ready = server.rarities.take(ServerRarity::OwesReady);
        let is_known = has_ready || is_last && !server.rarities.has(ServerRarity::RanUnread);
        if is_known && !Arc::ptr_eq(&self.client.reported, &server.reported) {
            tell(self.client, &server.reported, self.to_client.insert());
        }
        // This ReadyForQuery takes the place of the one held back.
        Ok(if has_ready {
            Verdict::Keep
        } else {
            Verdict::Drop
        })
    }

    /// Decides on a ReadyForQuery for the client behind a fence, or in rare circumstances.
    #[inline(never)]
    fn ready_rarely(&mut self, is_held_back: bool) -> Verdict {
        let server = &mut *self.server;
        if server.status == TransactionStatus::Idle {
            server.ask_again();
        }
        if server.queue.is_ours() {
            server.rarities.remove(ServerRarity::UnreadEnd);
        }
        let ran_unread = server.rarities.has(ServerRarity::RanUnread);
        if !is_held_back && (server.fence.take().is_some() || ran_unread) {
            self.report();
        }
        if self.server.broken_fence.is_some() {
            // The open transaction is ours and is rolled back before anything else.
            // Six bytes always fit.
            let _ = encode::ready_for_query(self.to_client.insert(), TransactionStatus::Idle);
            return Verdict::Drop;
        }
        let owes_ready = ServerRarity::OwesReady;
        self.server.rarities.set(owes_ready, is_held_back);
        if is_held_back {
            Verdict::Drop
        } else {
            Verdict::Keep
        }
    }

    /// True if the front entry's changes of settings must stay hidden until our own request behind it is answered.
    fn is_held_back(&self) -> bool {
        self.server
            .queue
            .front()
            .is_some_and(|front| front.held_back)
    }

    fn asynchronous(&self) -> Verdict {
        match self.duty() {
            Some((_, duty)) if duty.is_fence() => Verdict::Drop,
            Some((Kind::Query, duty)) if duty != Duty::Forward => Verdict::Drop,
            _ => Verdict::Keep,
        }
    }

    fn copy_in(&mut self) -> Result<Verdict, ServerFault> {
        let verdict = self.copy(tag::COPY_IN_RESPONSE, CopyState::None)?;
        self.server.queue.start_copy_in();
        Ok(verdict)
    }

    fn copy(&mut self, tag: u8, state: CopyState) -> Result<Verdict, ServerFault> {
        match self.duty() {
            Some((Kind::Query | Kind::Execute, _)) => {}
            _ => return Err(ServerFault::OutOfPlace(tag)),
        }
        self.server.queue.start_copy(state);
        self.part_of_a_reply(tag)
    }

    /// Replaces the error of a statement that was sent in place of a refused one by Weir's own. Any other error (the
    /// transaction had failed before) is passed on.
    fn refusal(&self, body: &[u8]) -> Option<Vec<u8>> {
        let Some(Undo::Refused(refusal)) = self.server.queue.front()?.undo.as_deref() else {
            return None;
        };
        let code = backend::ErrorFields::parse(body).ok()?.get(b'C')?;
        // The code by which PostgreSQL refuses the statement in its place, or a Bind of a statement that no server has.
        let expected = match self.duty() {
            Some((Kind::Bind, _)) => SqlState::INVALID_SQL_STATEMENT_NAME,
            _ => SqlState::INVALID_TEXT_REPRESENTATION,
        };
        if code != expected.as_str().as_bytes() {
            return None;
        }
        let fault = match refusal {
            Refusal::Rule(rejection) => Fault::Rejected(Arc::clone(rejection)),
            Refusal::Setting(wrong) => Fault::WrongSetting(WrongSetting::clone(wrong)),
            Refusal::State(reasons) if *reasons == Reasons::of(Reason::Sequence) => {
                Fault::SequenceRefused
            }
            Refusal::State(reasons) => Fault::StateRefused(*reasons),
        };
        let mut message = Vec::new();
        fault.encode(&mut message);
        Some(message)
    }

    fn error(&mut self, body: &[u8]) -> Result<Verdict, ServerFault> {
        if self.look_for_refusal(body) {
            return Ok(Verdict::Drop);
        }
        self.server.question.widen();
        let inserted = self.server.queue.inserted();
        let moved = inserted.and_then(|inserted| inserted.repositioned(tag::ERROR_RESPONSE, body));
        self.server.queue.fail_inserted();
        let retyped = || failure::retyped(&self.server.queue, self.client.waiting, body);
        let refusal = self.refusal(body).or(moved).or_else(retyped);
        let refusal = match self.server.is_watching() && self.is_clients() {
            true => self.server.watch_error(body).or(refusal),
            false => refusal,
        };
        let verdict = self.error_of_server(body)?;
        match refusal {
            Some(message) if verdict == Verdict::Keep => {
                self.to_client.insert().extend_from_slice(&message);
                Ok(Verdict::Drop)
            }
            _ => Ok(verdict),
        }
    }

    /// Records an error, which undoes a part of the transaction.
    fn doubt(&mut self) {
        if let Some(subscriptions) = &mut self.client.subscriptions {
            subscriptions.doubt();
        }
        self.server.definitions.undo();
    }

    /// Records the end of a transaction.
    fn transaction_over(&mut self) {
        let server = &mut *self.server;
        self.replied.altered_roles |= server.rarities.take(ServerRarity::AltersRoles);
        let definitions = std::mem::take(&mut server.definitions);
        self.replied.altered_objects |= definitions != Definitions::Kept;
        let is_doubtful = definitions == Definitions::Doubtful;
        if is_doubtful {
            server.prepared.doubt_all();
        }
        if server.queue.is_empty() {
            server.forget_watched_portals();
        }
        (self.client).transaction_over(server.queue.is_empty(), is_doubtful);
        if let Some(subscriptions) = &mut self.client.subscriptions {
            subscriptions.transaction_over();
        }
    }

    fn error_of_server(&mut self, body: &[u8]) -> Result<Verdict, ServerFault> {
        self.doubt();
        if failure::is_fatal(body) {
            self.server.future = Future::Dying;
        }
        self.server.queue.begin_reply();
        let verdict = match self.duty() {
            Some((Kind::Query, _)) if self.is_interrupted(body)? => Verdict::Drop,
            Some((Kind::Query | Kind::FunctionCall | Kind::Sync, duty)) => {
                self.server.queue.end_copy();
                if duty == Duty::Learn
                    && let Some(asked) = self.server.asked.front_mut()
                {
                    if fencing::is_interrupt(body) {
                        asked.1.interrupt();
                    } else {
                        asked.1.fail();
                    }
                }
                if duty == Duty::Swallow && !self.server.is_dying() && !self.server.is_tolerant() {
                    return Err(ServerFault::Refused(body.into()));
                }
                if duty == Duty::Forward || self.server.is_dying() {
                    self.count_failure(body);
                    Verdict::Keep
                } else {
                    Verdict::Drop
                }
            }
            Some(_) => self.skip(body)?,
            None => Verdict::Keep,
        };
        if verdict == Verdict::Keep {
            self.replied.errors += 1;
            if self.server.errors.len() < ERRORS_MAX {
                let fields = backend::ErrorFields::parse(body).ok();
                let code = fields.and_then(|fields| fields.sqlstate());
                self.server.errors.push(code);
            }
        }
        Ok(verdict)
    }
}
