//! Requests: from a client to the server it leases.

use std::sync::Arc;

use weir_sql::Resets;
use weir_wire::encode;
use weir_wire::frame::{Header, Side, header};
use weir_wire::frontend::tag;

use super::{ClientFault, Link, STREAM_MIN, is_too_long};
use crate::client::{Client, Rest};
use crate::expected::{Duty, Expected, Kind};
use crate::ruled::Judged;
use crate::server::{HostFacts, Progress, Sent, Server};
use crate::settings::Reported;
use crate::splice::Splice;
use crate::sql::Deallocated;

mod counting;
pub(crate) mod deallocate;
mod effects;
mod meaning;
mod outcome;
pub(crate) mod own_names;
mod prepared;
mod returning;
pub(crate) mod ruled;
mod sequences;
mod settling;

/// Length of a message header.
const HEAD: usize = weir_wire::frame::HEADER_LEN;

/// Maximum number of settings that go in front of a batch. More are cheaper in one query, which is awaited.
const FENCE_MAX: usize = 8;

/// Result of [`requests`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Number of bytes consumed; offer the rest again with the bytes that follow.
    pub consumed: usize,
    /// True if the client sent Terminate: nothing after `consumed` matters.
    pub terminate: bool,
    /// True if the next message depends on outstanding replies. Offer the rest again after any of them, even if no more
    /// bytes have arrived.
    pub stalled: bool,
    /// Counts of prepared-statement messages.
    pub statements: StatementCounts,
}

/// Counts of messages about prepared statements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatementCounts {
    /// Number of the client's Parse messages for named statements.
    pub client_parses: u32,
    /// Number of Parse messages sent to the server for named statements.
    pub server_parses: u32,
    /// Number of the client's Bind messages.
    pub binds: u32,
    /// Number of statements that the server forgets to make room (`max_prepared_statements`).
    pub evictions: u32,
}

/// Starts a lease: sends the client's settings to the server if they differ, and reports values to the client that it
/// does not know. [`requests`] accepts no input until the server has confirmed the settings ([settings
/// fence](../../../../docs/internals/decisions/settings-fence.md)).
///
/// # Errors
/// Fails if a setting cannot be sent because it contains a NUL.
pub fn begin(
    client: &mut Client,
    server: &mut Server,
    to_server: &mut Splice<'_>,
    to_client: &mut Vec<u8>,
) -> Result<(), encode::EncodeError> {
    begin_by(client, server, to_server, to_client, false)
}

/// Starts a lease like [`begin`], if [`requests`] follows for the same write. Where PostgreSQL skips the client's first
/// batch if the settings fail, the settings are sent in that write too.
///
/// # Errors
/// Same as [`begin`].
pub fn begin_in_front(
    client: &mut Client,
    server: &mut Server,
    to_server: &mut Splice<'_>,
    to_client: &mut Vec<u8>,
) -> Result<(), encode::EncodeError> {
    begin_by(client, server, to_server, to_client, true)
}

fn begin_by(
    client: &mut Client,
    server: &mut Server,
    to_server: &mut Splice<'_>,
    to_client: &mut Vec<u8>,
    has_company: bool,
) -> Result<(), encode::EncodeError> {
    client.leave_own_names();
    server.counting.forget_portals();
    server.forget_watched_portals();
    server.progress = Progress::Fresh;
    server.returning.clear();
    server.pieces = None;
    if !server.rarities.is_empty() {
        server.end_rarities();
    }
    server.bound = 0;
    client.wants_new = false;
    client.leases += 1;
    let is_same = server.user == client.number;
    if !is_same || server.lease + 1 != client.leases {
        server.sequences.meet(server.user != 0);
        server.user = client.number;
    } else {
        server.sequences.stay();
    }
    server.lease = client.leases;
    let may_notify = server.host_facts != HostFacts::HiddenOnStandby;
    let own = client.subscriptions.as_ref();
    let own = own.filter(|_| !is_same && may_notify);
    let mark = own.and_then(|own| own.mark());
    settings(client, server, (to_server, to_client), mark, has_company)
}

/// Sends the client's settings to the server, makes the server forget the last client's names, and sends the lease
/// mark. Reports values that the client does not know.
#[inline]
fn settings(
    client: &mut Client,
    server: &mut Server,
    (to_server, to_client): (&mut Splice<'_>, &mut Vec<u8>),
    mark: Option<String>,
    has_company: bool,
) -> Result<(), encode::EncodeError> {
    let forget = server.forget_own_names();
    let mut changes = Vec::new();
    let reopens = std::mem::take(&mut client.reopens);
    let mut is_awaited = !has_company || forget.is_some() || reopens;
    if !Arc::ptr_eq(&client.settings, &server.settings) {
        if client.settings == server.settings {
            share(&mut client.settings, &mut server.settings);
        } else {
            changes = server.settings.changes_to(&client.settings);
            is_awaited |= server.settings.has_to_be_awaited();
            is_awaited |= client.settings.has_to_be_awaited();
            is_awaited |= changes.iter().any(|sql| sql.contains('\0'));
            server.settings = Arc::clone(&client.settings);
        }
    }
    changes.extend(mark);
    if !is_awaited && !changes.is_empty() && changes.len() <= FENCE_MAX {
        return server.put_fence(&changes, to_server.insert());
    }
    let mut sql: Vec<_> = forget
        .map(str::to_owned)
        .into_iter()
        .chain(changes)
        .collect();
    if reopens {
        if !sql.is_empty() {
            // The settings are not part of the client's block: its ROLLBACK does not undo them.
            sql.push("COMMIT".to_owned());
        }
        sql.push("BEGIN ISOLATION LEVEL READ COMMITTED".to_owned());
    }
    if !sql.is_empty() {
        // One request: the values that the server reports are passed to the client when it is done.
        return server.require(sql.join(";"), Duty::Swallow, to_server.insert());
    }
    if !Arc::ptr_eq(&client.reported, &server.reported) {
        if client.reported == server.reported {
            share(&mut client.reported, &mut server.reported);
        } else {
            tell(client, &server.reported, to_client);
        }
    }
    Ok(())
}

/// Makes two equal sets one, always the one at the lower address. Clients and servers that meet thus soon share one
/// set, and comparing them is a pointer comparison.
fn share<T>(one: &mut Arc<T>, other: &mut Arc<T>) {
    if Arc::as_ptr(one) < Arc::as_ptr(other) {
        *other = Arc::clone(one);
    } else {
        *one = Arc::clone(other);
    }
}

/// Sends the client the reported values, of its server or of before, that it does not know (hazard COR-18).
pub(super) fn tell(client: &mut Client, reported: &Arc<Reported>, to_client: &mut Vec<u8>) {
    for (name, value) in reported.iter() {
        if client.reported.get(name) != Some(value) {
            // Cannot fail: the value came from a server in a message of the same layout.
            let _ = encode::parameter_status(to_client, name.as_bytes(), value.as_bytes());
        }
    }
    client.reported = Arc::clone(reported);
}

/// Reports values like [`tell`], behind a text that was not read. Leaves out values that the text may have reset: the
/// client's own value is set again before its next message.
#[cold]
pub(super) fn tell_but_reset(client: &mut Client, server: &Server, to_client: &mut Vec<u8>) {
    for (name, value) in server.reported.iter() {
        let is_known = client.reported.get(name) == Some(value);
        let is_default = server.default_of(name) == Some(value);
        if is_known || is_default && client.began_with_another(name, value) {
            continue;
        }
        // Cannot fail, as above; the server keeps no more values than a client.
        let _ = encode::parameter_status(to_client, name.as_bytes(), value.as_bytes());
        let _ = Arc::make_mut(&mut client.reported).set(name, value);
    }
}

/// Passes a client's complete messages on.
///
/// `to_server` gets the bytes for the server, `to_client` the replies that need no server.
///
/// # Errors
/// Fails on a message that PostgreSQL would not accept either. Earlier messages stay passed on.
pub fn requests(
    link: &mut Link<'_>,
    input: &[u8],
    to_server: &mut Splice<'_>,
    to_client: &mut Vec<u8>,
) -> Result<Taken, ClientFault> {
    link.look_at_sequences();
    link.server.message_max = link.rules.message_max;
    let mut work = Work {
        link,
        input,
        to_server,
        to_client,
        stalled: false,
        sets_modes: false,
        judged: None,
        statements: StatementCounts::default(),
    };
    let at = work.streamed();
    // A request of ours must not stand inside a message.
    if work.link.client.owed == 0 && work.link.server.has_to_repeat() {
        work.link.server.resume(work.to_server.insert());
    }
    if !work.repeat()? {
        work.stalled = true;
        return Ok(work.taken(at, false));
    }
    work.discard_sequences_for_readers(at);
    if work.link.server.guard.is_some() && work.link.server.owes_guard() && !input.is_empty() {
        work.link.server.put_guard(work.to_server.insert());
    }
    let (at, terminate) = work.all(at)?;
    if work.link.server.queue.is_fenced() {
        let stalled = work.stalled;
        (work.link.server).hear_of_fence(stalled, work.to_server.insert());
    }
    Ok(work.taken(at, terminate))
}

/// A message in the input, possibly incomplete.
#[derive(Debug, Clone, Copy)]
struct Message {
    header: Header,
    at: usize,
    have: usize,
}

impl Message {
    fn is_whole(self) -> bool {
        self.have == self.header.total_len()
    }

    fn missing(self) -> u64 {
        (self.header.total_len() - self.have) as u64
    }
}

struct Work<'w, 'l, 'i, 's> {
    link: &'w mut Link<'l>,
    input: &'i [u8],
    to_server: &'w mut Splice<'s>,
    to_client: &'w mut Vec<u8>,
    stalled: bool,
    /// True if the present text may set the modes of a transaction that has begun.
    sets_modes: bool,
    /// Decision of the query rules about the present statement.
    judged: Option<Judged>,
    statements: StatementCounts,
}

impl<'i> Work<'_, '_, 'i, '_> {
    fn taken(&self, consumed: usize, terminate: bool) -> Taken {
        Taken {
            consumed,
            terminate,
            stalled: self.stalled,
            statements: self.statements,
        }
    }

    /// Processes every message from `at` on. Returns the end of the last one, and true if a Terminate follows.
    fn all(&mut self, mut at: usize) -> Result<(usize, bool), ClientFault> {
        loop {
            let rest = self.input.get(at..).unwrap_or_default();
            let Some(header) = header(rest, Side::Frontend)? else {
                return Ok((at, false));
            };
            let total = header.total_len();
            if is_too_long(total, self.link.rules.message_max) {
                return Err(ClientFault::TooLong(total));
            }
            if header.tag == tag::TERMINATE {
                return Ok((at, true));
            }
            if rest.len() < total && (total <= STREAM_MIN || self.is_read_whole(header)) {
                return Ok((at, false));
            }
            let message = Message {
                header,
                at,
                have: rest.len().min(total),
            };
            if !self.message(message)? {
                self.link.client.waiting = header.tag;
                return Ok((at, false));
            }
            self.record(message);
            at += message.have;
        }
    }

    /// Keeps a message that may have to be sent again.
    #[inline]
    fn record(&mut self, message: Message) {
        let repeat = &mut self.link.server.repeat;
        if repeat.is_open() {
            let bytes = self.input.get(message.at..message.at + message.have);
            let missing = !message.is_whole();
            repeat.add(message.header.tag, bytes.unwrap_or_default(), missing);
        }
    }

    /// Sends a batch again, if that is due. Returns false if a part of it must wait for replies.
    fn repeat(&mut self) -> Result<bool, ClientFault> {
        let Some((bytes, behind_sync)) = self.link.server.repeat.take() else {
            return Ok(true);
        };
        if behind_sync {
            // The server skips everything else. Cannot fail: five bytes fit.
            let _ = encode::sync(self.to_server.insert());
            self.expect(Expected::new(Kind::Sync, Duty::Swallow));
        }
        self.link.server.bound = 0;
        let mut buffer = Vec::new();
        let mut to_server = Splice::new(&bytes, &mut buffer);
        let mut work = Work {
            link: &mut *self.link,
            input: &bytes,
            to_server: &mut to_server,
            to_client: &mut *self.to_client,
            stalled: false,
            sets_modes: false,
            judged: None,
            // The client's request was counted before.
            statements: StatementCounts::default(),
        };
        let (said, _) = work.all(0)?;
        let parses = work.statements.server_parses;
        self.statements.server_parses += parses;
        self.to_server
            .insert()
            .extend_from_slice(to_server.finish());
        self.link.server.repeat.give_back(bytes, said);
        Ok(!self.link.server.has_to_repeat())
    }

    /// Passes on the rest of a message that began earlier. Returns its length.
    fn streamed(&mut self) -> usize {
        let client = &mut *self.link.client;
        if client.owed == 0 {
            return 0;
        }
        let here = usize::try_from(client.owed)
            .unwrap_or(usize::MAX)
            .min(self.input.len());
        client.owed -= here as u64;
        if client.rest == Rest::Forward {
            self.to_server.keep(0, here);
            self.note_piece(self.input.get(..here).unwrap_or_default());
        }
        here
    }

    /// Handles one message. Returns false if it must wait for replies or for the rest of its bytes.
    fn message(&mut self, message: Message) -> Result<bool, ClientFault> {
        if self.link.server.awaits_required() {
            return Ok(self.stall());
        }
        if !self.link.server.rarities.is_empty() && !self.returns(message.header.tag) {
            return Ok(self.stall());
        }
        if self.link.client.subscriptions.is_some() && self.waits_to_hear(message.header.tag) {
            return Ok(self.stall());
        }
        match message.header.tag {
            tag::QUERY if self.link.rules.refuse_simple_query => {
                return Err(ClientFault::SimpleQuery);
            }
            tag::QUERY => {
                let is_passed = self.query(message);
                match is_passed {
                    true => self.link.server.sent = Sent::Whole,
                    false => self.keep_decision(),
                }
                return Ok(is_passed);
            }
            tag::BIND => return self.bind(message),
            tag::EXECUTE => self.execute(message)?,
            tag::SYNC => {
                self.link.server.sent = Sent::Whole;
                self.pass(message, Some(Kind::Sync));
                self.link.client.forget_decision();
                self.return_to_startup();
                self.link.server.bound = 0;
            }
            tag::PARSE => return self.parse(message),
            tag::DESCRIBE => return self.describe(message),
            tag::CLOSE => return self.close(message),
            tag::FLUSH | tag::COPY_DATA => self.pass(message, None),
            tag::COPY_DONE | tag::COPY_FAIL => self.pass(message, Some(Kind::CopyEnd)),
            tag::FUNCTION_CALL => self.call(message),
            other => return Err(ClientFault::OutOfPlace(other)),
        }
        Ok(true)
    }

    fn call(&mut self, message: Message) {
        self.link.server.sent = Sent::Whole;
        if let Some(refusal) = self.judge_function() {
            // A call and a simple query fail in the same way.
            self.refuse_query(refusal);
            return self.begin_rest(message, Rest::Discard);
        }
        self.note_function(message);
        self.note_commit(None);
        self.pass(message, Some(Kind::FunctionCall));
    }

    fn body(&self, message: Message) -> &'i [u8] {
        self.input
            .get(message.at + HEAD..message.at + message.have)
            .unwrap_or_default()
    }

    /// Forwards a message as it is.
    fn pass(&mut self, message: Message, owes: Option<Kind>) {
        self.to_server.keep(message.at, message.at + message.have);
        self.begin_rest(message, Rest::Forward);
        if let Some(kind) = owes {
            self.expect(Expected::new(kind, Duty::Forward));
        }
    }

    fn pass_extended(&mut self, message: Message, kind: Kind) {
        self.link.server.sent = Sent::OpenBatch;
        self.pass(message, Some(kind));
    }

    fn execute(&mut self, message: Message) -> Result<(), ClientFault> {
        match self.execute_deallocate(message)? {
            None => {
                self.note_execute();
                let counted = self.count_execute(message);
                let watched = self.watch_execute(message);
                self.link.server.sent = Sent::OpenBatch;
                self.pass(message, None);
                let mut entry = Expected::new(Kind::Execute, Duty::Forward).with_counted(counted);
                entry.watched = watched;
                self.expect(entry);
                self.return_behind(message)?;
            }
            Some(entry) => {
                self.pass(message, None);
                self.expect(entry);
            }
        }
        Ok(())
    }

    fn begin_rest(&mut self, message: Message, rest: Rest) {
        if !message.is_whole() {
            self.link.client.owed = message.missing();
            self.link.client.rest = rest;
        }
    }

    /// Queues an owed reply, and sends replies of our own whose turn has come.
    fn expect(&mut self, entry: Expected) {
        let Link { client, server, .. } = &mut *self.link;
        // The server ignores a late end of COPY, so it changes nothing.
        if entry.kind != Kind::CopyEnd {
            server.sent.add();
        }
        if let Some(refused) = server.queue.expect(entry) {
            server.take_back_refused(refused, client);
        }
        if client.is_behind() {
            // Replies must follow the ReadyForQuery that is held back.
            return;
        }
        while let Some(answer) = server.queue.next_answer() {
            super::reply::answer(self.to_client, answer.kind);
            if answer.unnamed.is_some() {
                client.unnamed().confirm();
            }
        }
    }

    fn query(&mut self, message: Message) -> bool {
        let text = self.body(message).strip_suffix(b"\0");
        let text = text.filter(|_| message.is_whole());
        let deallocated = text.and_then(|text| self.deallocated_by(text));
        if let Some(Deallocated::One(name)) = &deallocated
            && self.is_unsettled(name, false)
        {
            return self.stall();
        }
        self.note_local(text);
        self.return_to_startup();
        if let Some(refusal) = self.judge_query(message) {
            self.refuse_query(refusal);
            self.begin_rest(message, Rest::Discard);
            return true;
        }
        let effects = self.effects_of_query(message);
        if let Some(effects) = &effects
            && effects.resets == Resets::Session
            && !self.link.server.queue.is_ours()
        {
            // Requests in front of a DISCARD ALL decide if it can succeed.
            return self.stall();
        }
        let sequences = effects.as_ref().map(|effects| effects.sequences);
        let text_or_part = text.unwrap_or_else(|| self.body(message));
        let begins_trial = self.link.client.sequences.is_tried_by(text_or_part);
        self.sets_modes = self.is_in_block() && sequences::may_set_modes(text_or_part);
        self.clean_sequences(sequences.unwrap_or_default(), begins_trial);
        if self.link.server.queue.awaits_required() {
            return self.stall();
        }
        if let Some(effects) = &effects
            && let Some(refusal) = self.refusal_of(effects, text_or_part)
        {
            self.refuse_query(refusal);
            self.begin_rest(message, Rest::Discard);
            return true;
        }
        let mut insertions = None;
        if let Some(effects) = &effects {
            let is_ours =
                matches!(&deallocated, Some(Deallocated::One(name)) if self.has_statement(name));
            let body = self.body(message);
            if effects.names && !is_ours && !self.share_names(effects, text.unwrap_or(body), true) {
                return false;
            }
            self.note(effects);
            self.begin_pieces(message);
            insertions = self.insertions(text, effects);
        }
        self.note_commit(text);
        self.pass_query(message, deallocated, insertions);
        // Earlier Binds do not matter from here on.
        self.link.server.bound = 0;
        self.return_to_startup();
        true
    }
}
