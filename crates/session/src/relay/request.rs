//! Requests: from a client to the server it leases.

use std::sync::Arc;

use weir_sql::Effects;
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frame::{Header, Side, header};
use weir_wire::frontend::{self, BindHead, tag};

use super::{ClientFault, Link, STATEMENT_MAX, STATEMENTS_MAX, STREAM_MIN};
use crate::client::{self, Client, Pin, Rest};
use crate::expected::{Duty, Expected, Kind, Renamed, Undo, UnnamedEffect};
use crate::server::Server;
use crate::splice::Splice;
use crate::sql::{self, Deallocated};
use crate::statement::{NAME_PREFIX, Presence, Statement};
use crate::unnamed;

mod effects;

/// Prepares something and deallocates it; the first of the two answers is not for the client.
const DEALLOCATE: &[u8] = b"PREPARE weir_deallocate AS SELECT 1; DEALLOCATE weir_deallocate";

/// Bytes of a message before its body.
const HEAD: usize = weir_wire::frame::HEADER_LEN;

/// See [`requests`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of the input that are dealt with; the rest has to be offered again with what follows it.
    pub consumed: usize,
    /// The client said good-bye: nothing after `consumed` matters.
    pub terminate: bool,
    /// What comes next depends on replies that are still to come: the rest has to be offered again after any of them,
    /// without anything to follow it.
    pub stalled: bool,
    /// What was asked of prepared statements.
    pub statements: StatementCounts,
}

/// Messages about prepared statements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatementCounts {
    /// Parse messages of the client for named statements.
    pub client_parses: u32,
    /// Parse messages sent to the server for them.
    pub server_parses: u32,
    /// Bind messages of the client.
    pub binds: u32,
}

/// Starts a lease: puts the client's settings on the server if they differ, and tells the client of reported values
/// that differ from what it knows.
///
/// # Errors
/// If a setting cannot be sent (it holds a NUL).
pub fn begin(
    client: &mut Client,
    server: &mut Server,
    to_server: &mut Splice<'_>,
    to_client: &mut Vec<u8>,
) -> Result<(), encode::EncodeError> {
    server.is_fresh = true;
    if server.user != client.number {
        server.has_foreign_sequences |= server.user != 0;
        server.user = client.number;
    }
    if !Arc::ptr_eq(&client.settings, &server.settings) {
        if client.settings == server.settings {
            share(&mut client.settings, &mut server.settings);
        } else {
            let sql = server.settings.statements_to(&client.settings);
            server.settings = Arc::clone(&client.settings);
            return server.ask(&sql, to_server.insert());
        }
    }
    if !Arc::ptr_eq(&client.reported, &server.reported) {
        if client.reported == server.reported {
            share(&mut client.reported, &mut server.reported);
        } else {
            tell(client, server, to_client);
        }
    }
    Ok(())
}

/// Makes two equal sets one, always the one at the lower address: among any number of clients and servers that meet,
/// one set remains before long, and comparing is comparing pointers.
fn share<T>(one: &mut Arc<T>, other: &mut Arc<T>) {
    if Arc::as_ptr(one) < Arc::as_ptr(other) {
        *other = Arc::clone(one);
    } else {
        *one = Arc::clone(other);
    }
}

/// Sends the client the reported values of its server that it does not know yet (hazard COR-18).
pub(super) fn tell(client: &mut Client, server: &Server, to_client: &mut Vec<u8>) {
    for (name, value) in server.reported.iter() {
        if client.reported.get(name) != Some(value) {
            // A value came from a server in a message of the same layout, so it fits into one.
            let _ = encode::parameter_status(to_client, name.as_bytes(), value.as_bytes());
        }
    }
    client.reported = Arc::clone(&server.reported);
}

/// Passes on what a client sent, as far as it is complete.
///
/// `to_server` gets the bytes to send to the server, `to_client` answers that need no server.
///
/// # Errors
/// A message that PostgreSQL would not take either. What was passed on before it stays passed on.
pub fn requests(
    link: &mut Link<'_>,
    input: &[u8],
    to_server: &mut Splice<'_>,
    to_client: &mut Vec<u8>,
) -> Result<Taken, ClientFault> {
    let mut work = Work {
        link,
        input,
        to_server,
        to_client,
        stalled: false,
        statements: StatementCounts::default(),
    };
    let mut at = work.streamed();
    loop {
        let rest = input.get(at..).unwrap_or_default();
        let Some(header) = header(rest, Side::Frontend)? else {
            break;
        };
        let total = header.total_len();
        if header.tag == tag::TERMINATE {
            return Ok(work.taken(at, true));
        }
        if rest.len() < total && total <= STREAM_MIN {
            break;
        }
        let message = Message {
            header,
            at,
            have: rest.len().min(total),
        };
        if !work.message(message)? {
            break;
        }
        at += message.have;
    }
    Ok(work.taken(at, false))
}

/// One message in the input, perhaps cut.
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

    /// The rest of a message that began earlier.
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
        }
        here
    }

    /// Deals with one message; false if more of it has to come first.
    fn message(&mut self, message: Message) -> Result<bool, ClientFault> {
        match message.header.tag {
            tag::QUERY if self.link.rules.refuse_simple_query => {
                return Err(ClientFault::SimpleQuery);
            }
            tag::QUERY => return Ok(self.query(message)),
            tag::BIND => return self.bind(message),
            tag::EXECUTE => self.pass_extended(message, Kind::Execute),
            tag::SYNC => {
                self.link.server.needs_sync = false;
                self.pass(message, Some(Kind::Sync));
                self.return_to_startup();
            }
            tag::PARSE => return self.parse(message),
            tag::DESCRIBE => return self.describe(message),
            tag::CLOSE => return self.close(message),
            tag::FLUSH => {
                self.link.server.needs_sync = true;
                self.pass(message, None);
            }
            tag::COPY_DATA => self.pass(message, None),
            tag::COPY_DONE | tag::COPY_FAIL => self.pass(message, Some(Kind::CopyEnd)),
            tag::FUNCTION_CALL => {
                self.note_function(message);
                self.pass(message, Some(Kind::FunctionCall));
            }
            other => return Err(ClientFault::OutOfPlace(other)),
        }
        Ok(true)
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
        self.link.server.needs_sync = true;
        self.pass(message, Some(kind));
    }

    fn begin_rest(&mut self, message: Message, rest: Rest) {
        if !message.is_whole() {
            self.link.client.owed = message.missing();
            self.link.client.rest = rest;
        }
    }

    /// Queues an owed reply, and answers what is our own turn.
    fn expect(&mut self, entry: Expected) {
        let Link { client, server, .. } = &mut *self.link;
        // A late end of COPY is ignored by the server: it changes nothing.
        server.synced &= entry.kind == Kind::CopyEnd;
        if let Some(refused) = server.queue.expect(entry) {
            server.take_back_refused(refused, client);
        }
        while let Some(answer) = server.queue.next_answer() {
            super::reply::answer(self.to_client, answer.kind);
        }
    }

    // --- the unnamed statement ---

    /// What a simple query deallocates; None if it has nothing to do with statements of the protocol.
    fn deallocates(&self, message: Message) -> Option<Deallocated> {
        let has_names = self.link.client.statement_count() > 0;
        let may_have_names = has_names || self.link.server.queue.changes_names();
        if !may_have_names || !message.is_whole() || !self.tracks_names() {
            return None;
        }
        sql::deallocated(self.body(message).strip_suffix(b"\0")?)
    }

    fn query(&mut self, message: Message) -> bool {
        let deallocated = self.deallocates(message);
        if let Some(Deallocated::One(name)) = &deallocated
            && self.is_unsettled(name, false)
        {
            return self.stall();
        }
        self.return_to_startup();
        let effects = self.effects_of_query(message);
        let may_follow = effects.as_ref().is_some_and(|effects| {
            // Behind a text that reads data from the client, it would be read as such.
            effects.statements == 1 || !has_word(self.body(message), b"copy")
        });
        if let Some(effects) = &effects
            && self.refuses(effects)
        {
            self.refuse_query(effects.reasons);
            return true;
        }
        if let Some(effects) = &effects {
            self.note(effects);
        }
        self.pass_query(message, deallocated);
        if may_follow {
            self.return_to_startup();
        }
        true
    }

    fn pass_query(&mut self, message: Message, deallocated: Option<Deallocated>) {
        let mut entry = Expected::new(Kind::Query, Duty::Forward);
        match deallocated {
            Some(Deallocated::One(name))
                if matches!(self.link.client.statement(&name), Some((_, Some(_)))) =>
            {
                let effect = self.define_unnamed(unnamed::NONE, &[], None);
                // Other clients may use what the server has, so PostgreSQL is given one to deallocate: its answers and
                // errors are the right ones. A constant text fits.
                let _ = encode::query(self.to_server.insert(), DEALLOCATE);
                entry = entry.with_undo(Undo::Deallocate(name.into()));
                return self.expect(entry.with_unnamed(effect));
            }
            Some(Deallocated::All) => entry = entry.with_undo(Undo::DeallocateAll),
            _ => {}
        }
        let effect = self.define_unnamed(unnamed::NONE, &[], None);
        self.pass(message, None);
        self.expect(entry.with_unnamed(effect));
    }

    /// Whether it depends on replies to come if the client has this name. One that a real Parse gives is no question: a
    /// message that `only_uses` it fails exactly if that Parse does.
    fn is_unsettled(&self, name: &[u8], only_uses: bool) -> bool {
        let Link { client, server, .. } = &*self.link;
        if !server.queue.changes_names() || server.queue.is_skipping() {
            return false;
        }
        if name.is_empty() {
            return only_uses && server.queue.is_unnamed_unsettled();
        }
        let is_given = only_uses
            && client.statement(name).is_some_and(|(known, statement)| {
                statement.is_some_and(|given| {
                    !server.prepared.has_confirmed(given)
                        && server.queue.is_named_once(given, known)
                })
            });
        !is_given && server.queue.is_unsettled(client::key(name))
    }

    /// The message has to wait for a reply.
    fn stall(&mut self) -> bool {
        self.stalled = true;
        false
    }

    fn parse_unnamed(&mut self, message: Message, definition: &[u8]) {
        let serial = self.link.registry.serial();
        let kept = if message.is_whole() { definition } else { &[] };
        let effects = self.effects_of_parse(message, definition);
        if let Some(effects) = &effects
            && self.refuses(effects)
        {
            return self.refuse_parse(b"", effects.reasons);
        }
        if let Some(effects) = &effects {
            // Here, since nothing can be put in front of its Bind in the same batch.
            self.note_sequences(effects.sequences);
        }
        self.link.server.needs_sync = true;
        let effect = self.define_unnamed(serial, kept, effects);
        self.pass(message, None);
        self.expect(Expected::new(Kind::Parse, Duty::Forward).with_unnamed(effect));
    }

    /// The client's request changes the unnamed statement; None if neither side has or gets one.
    fn define_unnamed(
        &mut self,
        serial: u64,
        body: &[u8],
        effects: Option<Arc<Effects>>,
    ) -> Option<UnnamedEffect> {
        let Link {
            client,
            server,
            rules,
            ..
        } = &mut *self.link;
        let nothing_changes = serial == unnamed::NONE
            && server.unnamed == unnamed::NONE
            && server.unnamed_confirmed == unnamed::NONE
            && client.has_no_unnamed();
        if nothing_changes || !rules.tracks_unnamed {
            return None;
        }
        client.unnamed().define(serial, body, effects);
        server.unnamed = serial;
        server.unnamed_unsure = None;
        Some(UnnamedEffect {
            serial,
            of_client: true,
        })
    }

    /// Makes the server hold the client's unnamed statement, or none if the client has none.
    fn ensure_unnamed(&mut self) {
        let Link {
            client,
            server,
            rules,
            ..
        } = &mut *self.link;
        let (serial, body) = client.current_unnamed();
        let batch = server.queue.batch();
        let has =
            serial == server.unnamed && server.unnamed_unsure.is_none_or(|sent| sent == batch);
        if has || !rules.tracks_unnamed || server.queue.is_skipping() {
            return;
        }
        // One that was too long to keep is lost with its server: PostgreSQL then says that there is none.
        let serial = if body.is_empty() {
            unnamed::NONE
        } else {
            serial
        };
        let kind = if serial == unnamed::NONE {
            // A constant message fits.
            let _ = encode::close(self.to_server.insert(), frontend::Kind::Statement, b"");
            Kind::Close
        } else {
            put_parse(self.to_server.insert(), b"", body);
            Kind::Parse
        };
        server.unnamed = serial;
        server.unnamed_unsure = (!server.is_clear()).then_some(batch);
        let effect = UnnamedEffect {
            serial,
            of_client: false,
        };
        self.expect(Expected::new(kind, Duty::Swallow).with_unnamed(Some(effect)));
    }

    fn tracks_names(&self) -> bool {
        self.link.rules.max_prepared > 0
    }

    // --- prepared statements ---

    fn parse(&mut self, message: Message) -> Result<bool, ClientFault> {
        let body = self.body(message);
        let Some(end) = body.iter().position(|byte| *byte == 0) else {
            return if message.is_whole() {
                Err(ClientFault::Malformed(tag::PARSE))
            } else {
                Ok(false)
            };
        };
        let (name, definition) = (
            body.get(..end).unwrap_or_default(),
            body.get(end + 1..).unwrap_or_default(),
        );
        if name.is_empty() {
            self.parse_unnamed(message, definition);
            return Ok(true);
        }
        if !self.tracks_names() {
            self.link.client.has_untracked_effects |=
                self.effects_of_parse(message, definition).is_some();
            self.pass_extended(message, Kind::Parse);
            return Ok(true);
        }
        if !message.is_whole() {
            if message.header.total_len() <= STATEMENT_MAX {
                return Ok(false);
            }
            self.link.client.set_pin(Pin::LargeStatement);
            self.link.client.has_untracked_effects = true;
            self.link.client.remember(name.into(), None);
            self.pass_extended(message, Kind::Parse);
            return Ok(true);
        }
        if frontend::Parse::parse(body).is_err() {
            return Err(ClientFault::Malformed(tag::PARSE));
        }
        if self.is_unsettled(name, false) {
            return Ok(self.stall());
        }
        if self.link.client.statement_count() >= STATEMENTS_MAX {
            return Err(ClientFault::TooManyStatements);
        }
        self.parse_named(message, name, definition);
        Ok(true)
    }

    fn parse_named(&mut self, message: Message, name: &[u8], definition: &[u8]) {
        self.link.server.needs_sync = true;
        match self.link.client.statement(name) {
            Some((_, None)) => return self.pass_extended(message, Kind::Parse),
            Some((known, Some(statement))) => {
                let renamed = Renamed {
                    ours: Arc::clone(statement),
                    theirs: Arc::clone(known),
                };
                return self.parse_duplicate(name, definition, renamed);
            }
            None => {}
        }
        self.statements.client_parses += 1;
        let statement = self.intern(definition);
        if let Some(effects) = self.effects_of(&statement)
            && self.refuses(&effects)
        {
            return self.refuse_parse(name, effects.reasons);
        }
        let name: Arc<[u8]> = name.into();
        let undo = Undo::Named(Arc::clone(&name), Arc::clone(&statement));
        self.link
            .client
            .remember(name, Some(Arc::clone(&statement)));
        let presence = self.presence(&statement);
        if presence == Presence::Held && self.link.server.would_parse() {
            self.expect(Expected::new(Kind::Parse, Duty::Answer).with_undo(undo));
        } else {
            // What comes of the Parse is for the server to say, so it has to be a real one.
            if presence != Presence::Absent {
                self.close_ours(&statement, false);
            }
            self.prepare(&statement, Duty::Forward, Some(undo));
        }
    }

    /// A name that is taken: PostgreSQL refuses (42P05), in its own words, so it is asked to prepare what it has.
    fn parse_duplicate(&mut self, name: &[u8], definition: &[u8], mut renamed: Renamed) {
        let known = std::mem::replace(&mut renamed.theirs, name.into());
        if self.link.server.queue.is_plain() {
            self.ensure(&renamed.ours, &known);
        } else {
            // Should the statement be forgotten by then, the client's text must not get our name.
            self.close_ours(&renamed.ours, false);
            self.prepare(&renamed.ours, Duty::Swallow, None);
        }
        put_parse(self.to_server.insert(), &renamed.ours.name, definition);
        self.expect(Expected::new(Kind::Parse, Duty::Forward).with_renamed(Some(renamed)));
    }

    /// The statement that this body is for the client now.
    fn intern(&mut self, body: &[u8]) -> Arc<Statement> {
        let Link {
            client,
            server,
            registry,
            proven,
            ..
        } = &mut *self.link;
        if server.is_settings_unsure() {
            return registry.private(body);
        }
        let context = client.planned.context(&client.settings, registry, proven);
        registry.intern(context, body)
    }

    /// A statement of the client, as PostgreSQL would take it now: where settings that change planning have changed since
    /// its Parse, that is another one (hazard COR-15).
    fn as_meant_now(&mut self, name: &Arc<[u8]>, statement: Arc<Statement>) -> Arc<Statement> {
        let Link {
            client,
            server,
            registry,
            proven,
            ..
        } = &mut *self.link;
        if server.status() == TransactionStatus::Failed {
            // Only what ends the transaction runs, and that means the same everywhere.
            return statement;
        }
        if statement.is_outdated() {
            server.prepared.lose(&statement);
        }
        let next = if server.is_settings_unsure() {
            // What the server holds it plans again as it has to. What it does not hold nobody else may get.
            if server.prepared.touch(&statement, server.queue.batch()) != Presence::Absent {
                return statement;
            }
            registry.private(&statement.body)
        } else {
            let context = client.planned.context(&client.settings, registry, proven);
            if statement.is_of(context) {
                return statement;
            }
            registry.intern(context, &statement.body)
        };
        client.remember(Arc::clone(name), Some(Arc::clone(&next)));
        next
    }

    fn presence(&mut self, statement: &Statement) -> Presence {
        let server = &mut *self.link.server;
        server.prepared.touch(statement, server.queue.batch())
    }

    /// Makes sure that the server has a statement by the time of the next message, if the client has it by then.
    fn ensure(&mut self, statement: &Arc<Statement>, name: &[u8]) {
        match self.presence(statement) {
            Presence::Held => return,
            // The client did not wait for its own Parse: if that fails, what comes next has to fail too.
            Presence::Unsure if self.link.server.queue.is_named_last(statement, name) => return,
            Presence::Unsure => self.close_ours(statement, false),
            Presence::Absent => {}
        }
        self.prepare(statement, Duty::Swallow, None);
    }

    /// Sends a Parse under our own name, after a Close for each statement that has to make room.
    fn prepare(&mut self, statement: &Arc<Statement>, duty: Duty, undo: Option<Undo>) {
        let max = self.link.rules.max_prepared;
        let clear = self.link.server.is_clear();
        let server = &mut *self.link.server;
        let evicted = server.prepared.add(statement, max, server.queue.batch());
        for old in evicted {
            self.close_ours(&old, clear);
        }
        self.statements.server_parses += 1;
        put_parse(self.to_server.insert(), &statement.name, &statement.body);
        let mut entry = Expected::new(Kind::Parse, duty).with_statement(statement);
        entry.undo = undo.map(Box::new);
        // A Parse of the client may hold anything; one of ours has succeeded before.
        self.expect_change(entry, statement, clear && duty == Duty::Swallow);
    }

    /// Sends a Close of a statement of ours.
    fn close_ours(&mut self, statement: &Arc<Statement>, sure: bool) {
        // Names of ours are short and hold no NUL.
        let _ = encode::close(
            self.to_server.insert(),
            frontend::Kind::Statement,
            &statement.name,
        );
        let entry = Expected::new(Kind::Close, Duty::Swallow).with_statement(statement);
        self.expect_change(entry, statement, sure);
    }

    /// As [`Work::expect`], for a request that changes what the server has prepared.
    fn expect_change(&mut self, entry: Expected, statement: &Arc<Statement>, sure: bool) {
        let server = &mut *self.link.server;
        let before = server.queue.len();
        let batch = server.queue.batch();
        server.prepared.sent(statement, batch, sure);
        self.expect(entry);
        if self.link.server.queue.len() == before {
            self.link.server.prepared.was_skipped(statement);
            self.link.server.recall_prepared();
        }
    }

    fn bind(&mut self, message: Message) -> Result<bool, ClientFault> {
        let body = self.body(message);
        let head = match frontend::Bind::head(body) {
            Ok(Some(head)) => head,
            Ok(None) if !message.is_whole() => return Ok(false),
            _ => return Err(ClientFault::Malformed(tag::BIND)),
        };
        if self.is_unsettled(head.statement, true) {
            return Ok(self.stall());
        }
        self.statements.binds += 1;
        self.note_bound(head.statement);
        self.link.server.needs_sync = true;
        if head.statement.is_empty() {
            self.ensure_unnamed();
        }
        let renamed = self.renamed(head.statement);
        match &renamed {
            Some(renamed) => self.bind_renamed(message, &head, &renamed.ours)?,
            None => self.pass(message, None),
        }
        self.expect(Expected::new(Kind::Bind, Duty::Forward).with_renamed(renamed));
        Ok(true)
    }

    fn bind_renamed(
        &mut self,
        message: Message,
        head: &BindHead<'_>,
        statement: &Arc<Statement>,
    ) -> Result<(), ClientFault> {
        let rest_len = message.header.body_len() - head.len_consumed;
        encode::bind_head(
            self.to_server.insert(),
            head.portal,
            &statement.name,
            rest_len,
        )
        .map_err(|_| ClientFault::Malformed(tag::BIND))?;
        let rest_at = message.at + HEAD + head.len_consumed;
        self.to_server.keep(rest_at, message.at + message.have);
        self.begin_rest(message, Rest::Forward);
        Ok(())
    }

    /// If a client's name has to be replaced: by what. The server has that statement by the time of the next message.
    fn renamed(&mut self, name: &[u8]) -> Option<Renamed> {
        if name.is_empty() || !self.tracks_names() || self.link.server.queue.is_skipping() {
            return None;
        }
        if let Some((known, statement)) = self.link.client.statement(name) {
            let (known, statement) = (Arc::clone(known), Arc::clone(statement?));
            let renamed = Renamed {
                ours: self.as_meant_now(&known, statement),
                // PostgreSQL repeats a name as it was sent, not as it compares it.
                theirs: if known.len() == name.len() {
                    Arc::clone(&known)
                } else {
                    name.into()
                },
            };
            self.ensure(&renamed.ours, &known);
            return Some(renamed);
        }
        looks_like_ours(name).then(|| Renamed {
            ours: self.link.registry.nobody(),
            theirs: name.into(),
        })
    }

    fn describe(&mut self, message: Message) -> Result<bool, ClientFault> {
        let describe = frontend::Describe::parse(self.body(message))
            .map_err(|_| ClientFault::Malformed(tag::DESCRIBE))?;
        let statement = describe.kind == frontend::Kind::Statement;
        if statement && self.is_unsettled(describe.name, true) {
            return Ok(self.stall());
        }
        self.link.server.needs_sync = true;
        if describe.kind == frontend::Kind::Statement && describe.name.is_empty() {
            self.ensure_unnamed();
        }
        let renamed = match describe.kind {
            frontend::Kind::Statement => self.renamed(describe.name),
            frontend::Kind::Portal => None,
        };
        if let Some(renamed) = &renamed {
            // Names of ours are short and hold no NUL.
            let _ = encode::describe(
                self.to_server.insert(),
                frontend::Kind::Statement,
                &renamed.ours.name,
            );
        } else {
            self.pass(message, None);
        }
        self.expect(Expected::new(Kind::Describe, Duty::Forward).with_renamed(renamed));
        Ok(true)
    }

    /// Other clients may use the statement: only the name goes. The server is asked to close the client's name, which it
    /// does not know, so that its answer comes exactly if it would have come directly.
    fn close(&mut self, message: Message) -> Result<bool, ClientFault> {
        let close = frontend::Close::parse(self.body(message))
            .map_err(|_| ClientFault::Malformed(tag::CLOSE))?;
        let statement = close.kind == frontend::Kind::Statement;
        if statement && self.is_unsettled(close.name, false) {
            return Ok(self.stall());
        }
        self.link.server.needs_sync = true;
        let mut entry = Expected::new(Kind::Close, Duty::Forward);
        if close.kind == frontend::Kind::Statement && close.name.is_empty() {
            entry = entry.with_unnamed(self.define_unnamed(unnamed::NONE, &[], None));
        } else if close.kind == frontend::Kind::Statement && self.tracks_names() {
            let Link { client, .. } = &mut *self.link;
            if let Some((name, Some(_))) = client.statement(close.name) {
                let name = Arc::clone(name);
                let statement = client.forget(close.name).flatten();
                entry = entry.with_undo(Undo::Closed(name, statement));
            }
        }
        if statement && self.tracks_names() && looks_like_ours(close.name) {
            let nobody = self.link.registry.nobody();
            // Names of ours are short and hold no NUL.
            let _ = encode::close(self.to_server.insert(), close.kind, &nobody.name);
        } else {
            self.pass(message, None);
        }
        self.expect(entry);
        Ok(true)
    }
}

/// A name that could be one that we gave to a statement of another client.
fn looks_like_ours(name: &[u8]) -> bool {
    name.starts_with(NAME_PREFIX)
}

/// Whether the letters of a word (in lower case) stand somewhere in a text.
fn has_word(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len())
        .any(|letters| letters.eq_ignore_ascii_case(word))
}

fn put_parse(out: &mut Vec<u8>, name: &[u8], body: &[u8]) {
    // The body was taken from a Parse message within the limits, and our names are short; the head cannot overflow.
    if encode::parse_head(out, name, body.len()).is_ok() {
        out.extend_from_slice(body);
    }
}
