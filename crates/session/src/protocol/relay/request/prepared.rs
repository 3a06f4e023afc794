//! Handles requests about named prepared statements: replaces the client's names by ours and adds what the server
//! lacks.

use std::sync::Arc;

use weir_sql::Reason;
use weir_wire::backend::TransactionStatus;
use weir_wire::before_nul;
use weir_wire::encode;
use weir_wire::frame::{Side, frame};
use weir_wire::frontend::{self, BindHead, tag};

use super::meaning::Meaning;
use super::{HEAD, Message, Work};
use crate::client::{Parsed, Pin, Rest, key};
use crate::expected::{Duty, Expected, Kind, Renamed, Undo};
use crate::relay::{ClientFault, Link, STATEMENT_MAX, STATEMENTS_MAX};
use crate::server::Sent;
use crate::statement::{Copy, NAME_PREFIX, Statement, put_parse};
use crate::unnamed;

/// Stands for no name of the client's.
const UNNAMED: &[u8] = b"";

/// Maximum number of statements per server for clients that had some before a reload turned them off.
const KEPT_MAX: usize = 100;

impl Work<'_, '_, '_, '_> {
    pub(super) fn parse(&mut self, message: Message) -> Result<bool, ClientFault> {
        let body = self.body(message);
        let end = before_nul(body).len();
        if end == body.len() {
            return if message.is_whole() {
                Err(ClientFault::Malformed(tag::PARSE))
            } else {
                Ok(false)
            };
        }
        let (name, definition) = (
            body.get(..end).unwrap_or_default(),
            body.get(end + 1..).unwrap_or_default(),
        );
        if self.link.server.status() != TransactionStatus::Idle {
            self.note_commit(message.is_whole().then(|| before_nul(definition)));
        }
        if name.is_empty() {
            return Ok(self.parse_unnamed(message, definition));
        }
        let maps_names = self.tracks_names();
        self.link.client.maps_names = Some(maps_names);
        if (!maps_names || !message.is_whole() && message.header.total_len() > STATEMENT_MAX)
            && self.refuses_unkept(message, name, definition)
        {
            return Ok(true);
        }
        if !maps_names {
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
            self.link.client.remember_own(name.into());
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
        Ok(self.parse_named(message, name, definition))
    }

    /// Decides on a Parse whose text is not kept. True if a query rule rejects it.
    fn refuses_unkept(&mut self, message: Message, name: &[u8], definition: &[u8]) -> bool {
        let text = before_nul(definition);
        let Some(refusal) = self.judge_parse(text, message.is_whole()) else {
            self.note_unlisted();
            return false;
        };
        self.link.server.sent = Sent::OpenBatch;
        self.refuse_parse(name, refusal);
        self.begin_rest(message, Rest::Discard);
        true
    }

    /// Handles a Parse of a named statement. Returns false if it must wait.
    pub(super) fn parse_named(&mut self, message: Message, name: &[u8], definition: &[u8]) -> bool {
        let begins = self.link.server.sent != Sent::OpenBatch;
        match self.link.client.statement(name) {
            Some((_, None)) if self.link.client.own_names.is_none() => {
                self.pass_extended(message, Kind::Parse);
                return true;
            }
            Some((_, Some(_))) => {
                self.link.server.sent = Sent::OpenBatch;
                self.parse_duplicate(name, definition);
                return true;
            }
            Some((_, None)) | None => {}
        }
        let statement = self.intern(definition);
        if let Some(refusal) = self.judge_parse(statement.text(), true) {
            self.link.server.sent = Sent::OpenBatch;
            self.refuse_parse(name, refusal);
            return true;
        }
        let effects = self.effects_of(&statement);
        if let Some(effects) = &effects
            && let Some(refusal) = self.refusal_of(effects, statement.text())
        {
            self.link.server.sent = Sent::OpenBatch;
            self.refuse_parse(name, refusal);
            return true;
        }
        // Must happen here: nothing can be put in front of its Bind in the same batch.
        let sequences = effects.as_ref().map(|effects| effects.sequences);
        let begins_trial = self.link.client.sequences.is_tried_by(statement.text());
        self.clean_sequences(sequences.unwrap_or_default(), begins_trial);
        if self.link.server.queue.awaits_required() {
            return self.stall();
        }
        if let Some(effects) = &effects {
            if effects.names && !self.share_names(effects, statement.text(), false) {
                return false;
            }
            self.lend_channels(effects, begins);
        }
        self.link.server.sent = Sent::OpenBatch;
        self.statements.client_parses += 1;
        if self.keeps_names() {
            self.parse_own(message, name, &statement);
        } else {
            self.parse_mapped(message, name, &statement);
        }
        true
    }

    /// Sends a Parse of a new name under our name. Only the server can decide if it is valid, so it is really sent.
    fn parse_mapped(&mut self, message: Message, name: &[u8], statement: &Arc<Statement>) {
        let name: Arc<[u8]> = name.into();
        let is_described_next = self.is_described_next(message, &name);
        let (given, ours) = (Arc::clone(&name), Arc::clone(statement));
        let undo = |own| Undo::Named(given, ours, own);
        let client = &mut *self.link.client;
        client.remember(Arc::clone(&name), None, Parsed::Deferred);
        self.parse_anew(&name, statement, Duty::Forward, undo, is_described_next);
    }

    /// True if the client's next message is a Describe of this statement.
    fn is_described_next(&self, message: Message, name: &[u8]) -> bool {
        let rest = self.input.get(message.at + message.have..);
        let next = rest.and_then(|rest| frame(rest, Side::Frontend).ok()?);
        let Some(next) = next.filter(|next| next.header.tag == tag::DESCRIBE) else {
            return false;
        };
        let describe = frontend::Describe::parse(next.body);
        describe.is_ok_and(|next| next.kind == frontend::Kind::Statement && next.name == name)
    }

    /// Has PostgreSQL refuse a name that is taken (42P05), in its own words, even if that statement no longer exists on
    /// the server. The text is prepared under a name of ours that an empty statement has.
    pub(super) fn parse_duplicate(&mut self, name: &[u8], definition: &[u8]) {
        let ours = self.link.registry.taken();
        self.put_empty(&ours);
        self.link.server.has_taken = true;
        put_parse(self.to_server.insert(), &ours.name, &[definition]);
        let theirs = name.into();
        let renamed = Renamed { ours, theirs };
        self.expect(Expected::new(Kind::Parse, Duty::Forward).with_renamed(Some(renamed)));
    }

    /// Returns the statement that this Parse body now stands for.
    pub(super) fn intern(&mut self, body: &[u8]) -> Arc<Statement> {
        let is_temporary = self.may_be_temporary();
        let Link {
            client,
            server,
            registry,
            proven,
            ..
        } = &mut *self.link;
        if server.is_settings_unsure() || is_temporary {
            return registry.private(body);
        }
        let context = client.planned.context(&client.settings, registry, proven);
        registry.intern(context, body)
    }

    /// True if the session has temporary objects, or may have: these hide objects of the same name.
    pub(super) fn may_be_temporary(&self) -> bool {
        let Link { client, server, .. } = &*self.link;
        client.makes_temporary()
            || server
                .may_hold(client.held_reasons())
                .contains(Reason::TemporaryObject)
    }

    /// Sends a Parse of a copy, with the parameter types that clients rely on.
    pub(super) fn prepare(&mut self, statement: &Arc<Statement>, duty: Duty, undo: Option<Undo>) {
        let now = statement.tick();
        self.send_parse(statement, duty, undo, now);
        if !statement.is_settled() {
            // This copy defines the types, unless another copy has defined them by then.
            self.describe_ours(statement, UNNAMED, true);
        }
    }

    /// Sends a Parse under our own name, after a Close for each statement that must make room. The client's own Parse
    /// resolves names and types; any other Parse states the types.
    pub(super) fn send_parse(
        &mut self,
        statement: &Arc<Statement>,
        duty: Duty,
        undo: Option<Undo>,
        now: u64,
    ) {
        let max = match self.link.rules.max_prepared {
            0 => KEPT_MAX,
            max => max,
        };
        let clear = self.link.server.is_clear();
        let server = &mut *self.link.server;
        let has_columns = statement.shape() != 0 || !statement.is_settled();
        let copy = Copy {
            parsed_at: now,
            is_described: !statement.needs_description() || undo.is_none() && !has_columns,
        };
        let evicted = (server.prepared).add(statement, max, server.queue.batch(), copy);
        for old in evicted {
            self.statements.evictions += 1;
            self.close_ours(&old, clear);
        }
        self.statements.server_parses += 1;
        // The client's own Parse is read under its settings anyway.
        let (before, after) = match duty {
            Duty::Forward => Default::default(),
            _ => statement.literals(&self.link.client.settings),
        };
        before.iter().for_each(|sql| self.run(sql));
        let out = self.to_server.insert();
        match &undo {
            Some(_) => put_parse(out, &statement.name, &[&statement.body]),
            None => statement.put_parse(out, &statement.name),
        }
        let mut entry = Expected::new(Kind::Parse, duty).with_statement(statement);
        if duty == Duty::Forward {
            entry.counted = self.count_statement(statement);
        }
        entry.undo = undo.map(Box::new);
        // A Parse of the client's may contain anything; one of ours has succeeded before.
        let sure = clear && duty == Duty::Swallow && before.is_empty();
        self.expect_change(entry, statement, sure);
        after.iter().for_each(|sql| self.run(sql));
    }

    /// Sends a Close of a statement of ours.
    pub(super) fn close_ours(&mut self, statement: &Arc<Statement>, sure: bool) {
        // Cannot fail: names of ours are short and contain no NUL.
        let _ = encode::close(
            self.to_server.insert(),
            frontend::Kind::Statement,
            &statement.name,
        );
        let entry = Expected::new(Kind::Close, Duty::Swallow).with_statement(statement);
        self.expect_change(entry, statement, sure);
    }

    /// Does the same as [`Work::expect`] for a request that changes the server's prepared statements.
    pub(super) fn expect_change(
        &mut self,
        entry: Expected,
        statement: &Arc<Statement>,
        sure: bool,
    ) {
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

    pub(super) fn bind(&mut self, message: Message) -> Result<bool, ClientFault> {
        let body = self.body(message);
        let head = match frontend::Bind::head(body) {
            Ok(Some(head)) => head,
            Ok(None) if !message.is_whole() => return Ok(false),
            _ => return Err(ClientFault::Malformed(tag::BIND)),
        };
        self.use_listed(head.statement);
        if self.is_unsettled(head.statement, true) {
            return Ok(self.stall());
        }
        if !self.note_bound(head.portal, head.statement) {
            return Ok(false);
        }
        if let Some(refusal) = self.judge_bind(&head) {
            self.refuse_bind(message, &head, refusal)?;
            return Ok(true);
        }
        let asked = self.link.server.comparison.as_ref();
        let changed = asked.map(|asked| Arc::clone(&asked.next));
        let meaning = match self.meaning_of_bind(head.portal, head.statement) {
            Meaning::Open => {
                self.keep_decision();
                return Ok(self.stall());
            }
            meaning => meaning,
        };
        self.count_bound(&head, meaning.statement());
        self.watch_bound(message, &head);
        let begins = meaning.is_ours() && self.begins_batch();
        self.statements.binds += 1;
        self.link.server.bound += 1;
        self.link.server.sent = Sent::OpenBatch;
        match meaning.statement() {
            Some(ours) => {
                if self.link.server.status() != TransactionStatus::Idle {
                    self.note_commit(Some(ours.text()));
                }
                if let Some(changed) = changed.filter(|_| ours.is_outdated()) {
                    self.bind_first(message, &head, changed);
                }
                self.link.server.plans_locally |= ours.plans_locally;
                self.bind_renamed(message, &head, ours)?;
            }
            None => self.pass(message, None),
        }
        self.expect(meaning.entry(Kind::Bind, begins));
        Ok(true)
    }

    fn meaning_of_bind(&mut self, portal: &[u8], name: &[u8]) -> Meaning {
        if let Some(stand_in) = self.stood_in_for(name) {
            return stand_in;
        }
        if name.is_empty() {
            self.ensure_unnamed();
        }
        let meaning = self.meaning(name);
        let deallocates = meaning
            .statement()
            .is_some_and(|ours| ours.deallocates.is_some());
        if !deallocates && self.link.client.deallocating.is_none() {
            return meaning;
        }
        self.bind_deallocate(portal, name, meaning)
    }

    /// Returns true if the next message is the first in its batch to use a statement, and the batch is its own
    /// transaction. From then on the batch is kept: if that message fails because of a statement of ours, it can be
    /// sent again.
    fn begins_batch(&mut self) -> bool {
        let server = &mut *self.link.server;
        let is_first = server.bound == 0 && !server.repeat.is_open() && server.queue.only_names();
        let begins = is_first && server.status() == TransactionStatus::Idle;
        if begins {
            server.repeat.begin();
        }
        begins
    }

    /// Sends a Bind of the copy whose columns have changed in front of the client's. PostgreSQL reads parameters before
    /// it notices changed columns, so errors in them must come first.
    fn bind_first(&mut self, message: Message, head: &BindHead<'_>, ours: Arc<Statement>) {
        let rest_at = message.at + HEAD + head.len_consumed;
        let rest = self.input.get(rest_at..message.at + message.have);
        let Some(rest) = rest.filter(|_| message.is_whole()) else {
            return;
        };
        let out = self.to_server.insert();
        if encode::bind_head(out, head.portal, &ours.name, rest.len()).is_err() {
            return;
        }
        out.extend_from_slice(rest);
        let theirs = head.statement.into();
        let renamed = Some(Renamed { ours, theirs });
        self.expect(Expected::new(Kind::Bind, Duty::Try).with_renamed(renamed));
    }

    pub(super) fn bind_renamed(
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

    pub(super) fn describe(&mut self, message: Message) -> Result<bool, ClientFault> {
        let describe = frontend::Describe::parse(self.body(message))
            .map_err(|_| ClientFault::Malformed(tag::DESCRIBE))?;
        let statement = describe.kind == frontend::Kind::Statement;
        if statement {
            self.use_listed(describe.name);
        }
        if statement && self.is_unsettled(describe.name, true) {
            return Ok(self.stall());
        }
        if statement && !self.share_names_to_describe(describe.name) {
            return Ok(false);
        }
        let meaning = match describe.kind {
            frontend::Kind::Portal => Meaning::AsItIs,
            frontend::Kind::Statement => match self.meaning_of_describe(describe.name) {
                Meaning::Open => return Ok(self.stall()),
                meaning => meaning,
            },
        };
        let begins = meaning.is_ours() && self.begins_batch();
        self.link.server.sent = Sent::OpenBatch;
        if let Some(ours) = meaning.statement() {
            let out = self.to_server.insert();
            // Cannot fail: names of ours are short and contain no NUL.
            let _ = encode::describe(out, frontend::Kind::Statement, &ours.name);
        } else {
            self.pass(message, None);
        }
        self.expect(meaning.entry(Kind::Describe, begins));
        Ok(true)
    }

    fn meaning_of_describe(&mut self, name: &[u8]) -> Meaning {
        if let Some(stand_in) = self.stood_in_for(name) {
            return stand_in;
        }
        if name.is_empty() {
            self.ensure_unnamed();
        }
        self.meaning(name)
    }

    /// Handles a Close. Other clients may use the statement, so only the client's name is removed. The server is asked
    /// to close the client's name, which it does not know, so that the reply comes in the right place.
    pub(super) fn close(&mut self, message: Message) -> Result<bool, ClientFault> {
        let close = frontend::Close::parse(self.body(message))
            .map_err(|_| ClientFault::Malformed(tag::CLOSE))?;
        let statement = close.kind == frontend::Kind::Statement;
        if statement && self.is_unsettled(close.name, false) {
            return Ok(self.stall());
        }
        self.link.server.sent = Sent::OpenBatch;
        let mut entry = Expected::new(Kind::Close, Duty::Forward);
        if close.kind == frontend::Kind::Statement && close.name.is_empty() {
            entry = entry.with_unnamed(self.define_unnamed(unnamed::NONE, &[], None));
        } else if close.kind == frontend::Kind::Statement && self.tracks_names() {
            if let Some(own) = &mut self.link.client.own_names {
                own.unchecked.remove(key(close.name));
                self.link.server.question.add_reason(Reason::Prepared);
            }
            let Link { client, .. } = &mut *self.link;
            if let Some((name, Some(_))) = client.statement(close.name) {
                let name = Arc::clone(name);
                if let Some((statement, parsed)) = client.forget(close.name) {
                    entry = entry.with_undo(Undo::Closed(name, statement, parsed));
                }
            }
        }
        if statement && self.tracks_names() && looks_like_ours(close.name) {
            let nobody = self.link.registry.nobody();
            // Cannot fail: names of ours are short and contain no NUL.
            let _ = encode::close(self.to_server.insert(), close.kind, &nobody.name);
        } else {
            self.pass(message, None);
        }
        self.expect(entry);
        Ok(true)
    }
}

/// True if the name could be one of ours for a statement of another client.
pub(super) fn looks_like_ours(name: &[u8]) -> bool {
    name.starts_with(NAME_PREFIX)
}
