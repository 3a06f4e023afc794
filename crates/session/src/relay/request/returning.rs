//! Requests after which settings have the values that the client began with: RESET, SET TO DEFAULT, DISCARD ALL.
//!
//! Servers begin without those values, so they are set right behind the statement: inside of the text of a simple query
//! ([`crate::inserted`]), and by requests of our own behind an Execute. DISCARD ALL cannot stand beside anything else in a
//! text, so there they are set behind the query.

use std::sync::Arc;

use weir_sql::{Effects, Resets};
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frontend::{self, tag};

use super::{HEAD, Link, Message, Work, tell};
use crate::expected::{Duty, Expected, Kind};
use crate::inserted::{self, Inserted, Piece};
use crate::relay::ClientFault;
use crate::server::Discard;
use crate::settings::Settings;
use crate::statement::put_parse;

/// The name of the statement, and of the portal, that sets something. Both are gone when it is done.
const NAME: &[u8] = b"weir_returns";

/// Behind the names of a Bind: no formats, no parameters, no formats of results.
const NO_PARAMETERS: [u8; 6] = [0; 6];

/// Portals of one transaction that are remembered. Nobody needs more that reset something.
const PORTALS_MAX: usize = 64;

impl Work<'_, '_, '_, '_> {
    /// What has to be put into a text with these effects.
    pub(super) fn insertions(
        &self,
        text: Option<&[u8]>,
        effects: &Effects,
    ) -> Option<(Inserted, Vec<Piece>)> {
        let startup = &self.link.client.startup;
        if effects.returns.is_empty() || startup.is_empty() {
            return None;
        }
        inserted::pieces(text?, &effects.returns, startup)
    }

    /// Passes a simple query on, with these pieces in its text.
    pub(super) fn pass_with(&mut self, message: Message, pieces: &[Piece]) {
        let more: usize = pieces.iter().map(|(_, piece)| piece.len()).sum();
        let out = self.to_server.insert();
        out.push(tag::QUERY);
        // Far below what a length can say: the text is at hand, and so are the client's values.
        let length = u32::try_from(message.header.body_len() + more + 4).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_be_bytes());
        let start = message.at + HEAD;
        let mut done = 0;
        for (at, piece) in pieces {
            self.to_server.keep(start + done, start + at);
            self.to_server.insert().extend_from_slice(piece.as_bytes());
            done = *at;
        }
        self.to_server.keep(start + done, message.at + message.have);
    }

    /// A statement with these effects goes to a portal.
    pub(super) fn note_portal(&mut self, portal: &[u8], effects: Option<&Effects>) {
        let resets = effects.map(|effects| (&effects.resets, &effects.resets_locally));
        let resets = resets.filter(|both| *both != (&Resets::Nothing, &Resets::Nothing));
        let portals = &mut self.link.server.returning;
        if resets.is_none() && portals.is_empty() {
            return;
        }
        portals.retain(|(name, _)| **name != *portal);
        let startup = &self.link.client.startup;
        let Some((for_session, locally)) = resets.filter(|_| !startup.is_empty()) else {
            return;
        };
        let mut sets = inserted::statements(for_session, false, startup);
        sets.extend(inserted::statements(locally, true, startup));
        if !sets.is_empty() && portals.len() < PORTALS_MAX {
            portals.push((portal.into(), sets));
        }
    }

    /// Behind an Execute of such a portal.
    pub(super) fn return_behind(&mut self, execute: Message) -> Result<(), ClientFault> {
        if self.link.server.returning.is_empty() {
            return Ok(());
        }
        let execute = frontend::Execute::parse(self.body(execute))
            .map_err(|_| ClientFault::Malformed(tag::EXECUTE))?;
        let portals = &self.link.server.returning;
        let found = portals.iter().find(|(name, _)| **name == *execute.portal);
        let Some((_, sets)) = found.filter(|_| !self.link.server.queue.is_skipping()) else {
            return Ok(());
        };
        if self.link.server.discards && self.link.server.bound == 1 {
            self.link.server.discard = Discard::Sent;
            return Ok(());
        }
        for sql in &sets.clone() {
            self.run(sql);
        }
        Ok(())
    }

    /// Runs one statement of our own among the client's requests of the extended protocol: if it fails, so do they.
    pub(super) fn run(&mut self, sql: &str) {
        self.run_for(Duty::Try, sql);
    }

    /// As [`Work::run`]. With [`Duty::Swallow`] the client is told nothing of a failure.
    pub(super) fn run_for(&mut self, duty: Duty, sql: &str) {
        let out = self.to_server.insert();
        put_parse(out, NAME, &[sql.as_bytes(), &[0, 0, 0]]);
        // Constant names fit, and so does what stands behind them.
        if encode::bind_head(out, NAME, NAME, NO_PARAMETERS.len()).is_ok() {
            out.extend_from_slice(&NO_PARAMETERS);
        }
        let _ = encode::execute(out, NAME, 0);
        let _ = encode::close(out, frontend::Kind::Portal, NAME);
        let _ = encode::close(out, frontend::Kind::Statement, NAME);
        for kind in [
            Kind::Parse,
            Kind::Bind,
            Kind::Execute,
            Kind::Close,
            Kind::Close,
        ] {
            self.expect(Expected::new(kind, duty));
        }
    }

    /// In front of the client's next message, behind a DISCARD ALL of the extended protocol or a text that was not read:
    /// sets what the client began with. False if the message has to wait for that.
    #[inline]
    pub(super) fn returns(&mut self, tag: u8) -> bool {
        let server = &*self.link.server;
        (server.discard == Discard::None || self.return_behind_discard(tag))
            && (!self.link.server.ran_unread || self.return_what_is_learnt())
    }

    /// PostgreSQL commits a DISCARD ALL by itself. What sets the values again must not be part of what follows in the batch,
    /// since an error there would take it back: so they are set in between, once the server has said that it is done. A Sync
    /// waits for nothing: they are set behind it.
    #[cold]
    fn return_behind_discard(&mut self, tag: u8) -> bool {
        let server = &mut *self.link.server;
        let is_answered = server.queue.is_ours();
        match server.discard {
            Discard::Done if tag != tag::SYNC => {}
            Discard::Sent if tag != tag::SYNC && !is_answered => {
                server.discard = Discard::Asked;
                self.flush();
                return false;
            }
            Discard::Asked if !is_answered => return false,
            before => {
                server.discard = Discard::None;
                // It has failed, unless that is still to come.
                server.discards &= before == Discard::Done || tag == tag::SYNC;
                return true;
            }
        }
        server.discard = Discard::None;
        server.discards = false;
        server.needs_sync = false;
        server.bound = 0;
        // Five bytes always fit.
        let _ = encode::sync(self.to_server.insert());
        let mut sync = Expected::new(Kind::Sync, Duty::Swallow);
        sync.held_back = true;
        self.expect(sync);
        self.set_startup();
        false
    }

    /// Sets what the client began with, and a text that was not read has reset, before anything else of the client's runs.
    /// False if that, or the question behind the text, has not been answered yet. Where the client has sent more without
    /// waiting for the text, or is in a transaction, nothing is known in time, and its messages go on.
    #[cold]
    fn return_what_is_learnt(&mut self) -> bool {
        let Link { client, server, .. } = &mut *self.link;
        if !server.queue.is_ours() {
            return true;
        }
        if !server.queue.is_empty() {
            return false;
        }
        if server.status() != TransactionStatus::Idle || !server.question.is_nothing() {
            tell(client, server, self.to_client);
            return true;
        }
        server.ran_unread = false;
        let changes = server.settings.changes_to(&client.settings);
        if changes.is_empty() {
            tell(client, server, self.to_client);
            return true;
        }
        server.settings = Arc::clone(&client.settings);
        // The values were on a server before, so they hold no NUL.
        let _ = server.require(changes.join(";"), Duty::Swallow, self.to_server.insert());
        false
    }

    /// Behind a DISCARD ALL. Not while a COPY may be going on, which would take it for its data.
    pub(super) fn return_to_startup(&mut self) {
        let server = &mut *self.link.server;
        if !server.discards || server.needs_sync || !server.queue.takes_queries() {
            return;
        }
        server.discards = false;
        if server.bound > 1 {
            // Set already, and perhaps changed again since.
            return;
        }
        // What the client is told must be true by then.
        server.queue.hold_back();
        self.set_startup();
    }

    /// Sets what the client began with, before anything else of the client's runs.
    fn set_startup(&mut self) {
        let Link { client, server, .. } = &mut *self.link;
        for (name, _) in client.startup.iter() {
            server.question.add_name(name);
        }
        let sql = Settings::default().statements_to(&client.startup);
        // Values of a start-up packet hold no NUL and are short.
        let _ = server.require(sql, Duty::Try, self.to_server.insert());
    }
}
