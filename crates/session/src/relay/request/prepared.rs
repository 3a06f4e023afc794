//! Requests about named prepared statements: the client's names, our own, and what has to be put in front.

use std::sync::Arc;

use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frontend::{self, BindHead, tag};

use super::{HEAD, Message, Work};
use crate::client::{Pin, Rest};
use crate::expected::{Duty, Expected, Kind, Renamed, Undo};
use crate::relay::{ClientFault, Link, STATEMENT_MAX, STATEMENTS_MAX};
use crate::statement::{NAME_PREFIX, OUTDATED, Presence, Statement};
use crate::unnamed;

impl Work<'_, '_, '_, '_> {
    pub(super) fn parse(&mut self, message: Message) -> Result<bool, ClientFault> {
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
            return Ok(self.parse_unnamed(message, definition));
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

    pub(super) fn parse_named(&mut self, message: Message, name: &[u8], definition: &[u8]) {
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
            .remember(Arc::clone(&name), Some(Arc::clone(&statement)));
        let presence = self.presence(&statement);
        if presence == Presence::Held && self.link.server.would_parse() {
            self.expect(Expected::new(Kind::Parse, Duty::Answer).with_undo(undo));
        } else {
            // What comes of the Parse is for the server to say, so it has to be a real one.
            if presence != Presence::Absent {
                self.close_ours(&statement, false);
            }
            self.prepare(&statement, Duty::Forward, Some(undo));
            // This client was told nothing yet; the next one that finds the statement here may have been.
            self.compare(&statement, &name, Duty::Try);
        }
    }

    /// A name that is taken: PostgreSQL refuses (42P05), in its own words, so it is asked to prepare what it has.
    pub(super) fn parse_duplicate(&mut self, name: &[u8], definition: &[u8], mut renamed: Renamed) {
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
    pub(super) fn intern(&mut self, body: &[u8]) -> Arc<Statement> {
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
    pub(super) fn as_meant_now(
        &mut self,
        name: &Arc<[u8]>,
        statement: Arc<Statement>,
    ) -> Arc<Statement> {
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
        if statement.is_useless() {
            server.prepared.lose(&statement);
        }
        let next = if server.is_settings_unsure() {
            // What the server holds it plans again as it has to. What it does not hold nobody else may get.
            let presence = server.prepared.touch(&statement, server.queue.batch());
            if presence != Presence::Absent || statement.is_private() {
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
        if statement.has_changed() && statement.shape() != next.shape() {
            return registry.outdated();
        }
        next
    }

    pub(super) fn presence(&mut self, statement: &Statement) -> Presence {
        let server = &mut *self.link.server;
        server.prepared.touch(statement, server.queue.batch())
    }

    /// Makes sure that the server has a statement by the time of the next message, if the client has it by then.
    pub(super) fn ensure(&mut self, statement: &Arc<Statement>, name: &[u8]) {
        match self.presence(statement) {
            Presence::Held => return,
            // The client did not wait for its own Parse: if that fails, what comes next has to fail too.
            Presence::Unsure if self.link.server.queue.is_named_last(statement, name) => return,
            Presence::Unsure => self.close_ours(statement, false),
            Presence::Absent => {}
        }
        self.prepare(statement, Duty::Swallow, None);
        self.compare(statement, name, Duty::Swallow);
    }

    /// Has the server say what it has just prepared, if clients rely on what they were told about it.
    fn compare(&mut self, statement: &Arc<Statement>, name: &[u8], duty: Duty) {
        if statement.shape() == 0 {
            return;
        }
        let kind = frontend::Kind::Statement;
        // Names of ours are short and hold no NUL.
        let _ = encode::describe(self.to_server.insert(), kind, &statement.name);
        let renamed = Renamed {
            ours: Arc::clone(statement),
            theirs: name.into(),
        };
        self.expect(Expected::new(Kind::Describe, duty).with_renamed(Some(renamed)));
    }

    /// Sends a Parse under our own name, after a Close for each statement that has to make room.
    pub(super) fn prepare(&mut self, statement: &Arc<Statement>, duty: Duty, undo: Option<Undo>) {
        let max = self.link.rules.max_prepared;
        let clear = self.link.server.is_clear();
        let server = &mut *self.link.server;
        let evicted = server.prepared.add(statement, max, server.queue.batch());
        for old in evicted {
            self.close_ours(&old, clear);
        }
        self.statements.server_parses += 1;
        // One of the client's own is read by its settings anyway.
        let (before, after) = match duty {
            Duty::Forward => Default::default(),
            _ => statement.literals(&self.link.client.settings),
        };
        before.iter().for_each(|sql| self.run(sql));
        put_parse(self.to_server.insert(), &statement.name, &statement.body);
        let mut entry = Expected::new(Kind::Parse, duty).with_statement(statement);
        entry.undo = undo.map(Box::new);
        // A Parse of the client may hold anything; one of ours has succeeded before.
        let sure = clear && duty == Duty::Swallow && before.is_empty();
        self.expect_change(entry, statement, sure);
        after.iter().for_each(|sql| self.run(sql));
    }

    /// Sends a Close of a statement of ours.
    pub(super) fn close_ours(&mut self, statement: &Arc<Statement>, sure: bool) {
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
        if self.is_unsettled(head.statement, true) {
            return Ok(self.stall());
        }
        self.statements.binds += 1;
        self.link.server.bound += 1;
        self.note_bound(head.portal, head.statement);
        self.link.server.needs_sync = true;
        let stand_in = self.stood_in_for(head.statement);
        if head.statement.is_empty() && stand_in.is_none() {
            self.ensure_unnamed();
        }
        if self.link.client.deallocating.is_some() {
            self.bind_deallocate(head.portal, head.statement);
        }
        let renamed = stand_in.or_else(|| self.renamed(head.statement));
        match &renamed {
            Some(renamed) => {
                self.link.server.plans_locally |= renamed.ours.plans_locally;
                self.bind_renamed(message, &head, &renamed.ours)?;
            }
            None => self.pass(message, None),
        }
        self.expect(Expected::new(Kind::Bind, Duty::Forward).with_renamed(renamed));
        Ok(true)
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

    /// If a client's name has to be replaced: by what. The server has that statement by the time of the next message.
    pub(super) fn renamed(&mut self, name: &[u8]) -> Option<Renamed> {
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
            if *renamed.ours.name != *OUTDATED {
                self.ensure(&renamed.ours, &known);
            }
            return Some(renamed);
        }
        looks_like_ours(name).then(|| Renamed {
            ours: self.link.registry.nobody(),
            theirs: name.into(),
        })
    }

    pub(super) fn describe(&mut self, message: Message) -> Result<bool, ClientFault> {
        let describe = frontend::Describe::parse(self.body(message))
            .map_err(|_| ClientFault::Malformed(tag::DESCRIBE))?;
        let statement = describe.kind == frontend::Kind::Statement;
        if statement && self.is_unsettled(describe.name, true) {
            return Ok(self.stall());
        }
        self.link.server.needs_sync = true;
        let stand_in = match describe.kind {
            frontend::Kind::Statement => self.stood_in_for(describe.name),
            frontend::Kind::Portal => None,
        };
        if describe.kind == frontend::Kind::Statement
            && describe.name.is_empty()
            && stand_in.is_none()
        {
            self.ensure_unnamed();
        }
        let renamed = match describe.kind {
            _ if stand_in.is_some() => stand_in,
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
    pub(super) fn close(&mut self, message: Message) -> Result<bool, ClientFault> {
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

pub(super) fn put_parse(out: &mut Vec<u8>, name: &[u8], body: &[u8]) {
    // The body was taken from a Parse message within the limits, and our names are short; the head cannot overflow.
    if encode::parse_head(out, name, body.len()).is_ok() {
        out.extend_from_slice(body);
    }
}
