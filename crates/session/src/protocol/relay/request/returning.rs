//! Handles requests that return settings to the client's start values: RESET, SET TO DEFAULT, DISCARD ALL.
//!
//! Servers begin without those values, so Weir sets them right behind the statement. In a simple query it inserts them
//! into the text ([`crate::inserted`]); behind an Execute it sends requests of its own. DISCARD ALL must stand alone in
//! a text, so there the values are set behind the query.

use std::sync::Arc;

use weir_sql::{Effects, Resets};
use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frontend::{self, tag};

use super::{HEAD, Link, Message, Work, tell};
use crate::expected::{Duty, Expected, Kind};
use crate::inserted::{self, Inserted, Piece};
use crate::rarities::ServerRarity;
use crate::relay::ClientFault;
use crate::server::{Discard, Sent};
use crate::settings::Settings;
use crate::statement::put_parse;

/// Name of the statement and of the portal that set a value. Both are closed at once.
const NAME: &[u8] = b"weir_returns";

/// Rest of a Bind behind its names: no formats, no parameters, no result formats.
const NO_PARAMETERS: [u8; 6] = [0; 6];

/// Maximum number of portals per transaction that are remembered; no client needs more that reset something.
const PORTALS_MAX: usize = 64;

impl Work<'_, '_, '_, '_> {
    /// Returns the insertions for a text with these effects.
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

    /// Passes on a simple query with these insertions.
    pub(super) fn pass_with(&mut self, message: Message, pieces: &[Piece]) {
        let more: usize = pieces.iter().map(|(_, piece)| piece.len()).sum();
        let out = self.to_server.insert();
        out.push(tag::QUERY);
        // Far below the limit of a length: the text is in memory, and so are the client's values.
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

    /// Records that a statement with these effects is bound to a portal.
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

    /// Sets the client's values behind an Execute of such a portal.
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
        if self.link.server.discard != Discard::Nothing && self.link.server.bound == 1 {
            self.link.server.discard = Discard::Sent;
            return Ok(());
        }
        for sql in &sets.clone() {
            self.run(sql);
        }
        Ok(())
    }

    /// Runs a statement of ours among the client's requests of the extended protocol: if it fails, so do they.
    pub(super) fn run(&mut self, sql: &str) {
        self.run_for(Duty::Try, sql);
    }

    /// Does the same as [`Work::run`]. With [`Duty::Swallow`] the client does not get the error.
    pub(super) fn run_for(&mut self, duty: Duty, sql: &str) {
        let out = self.to_server.insert();
        put_parse(out, NAME, &[sql.as_bytes(), &[0, 0, 0]]);
        // Cannot fail: constant names fit, and so does the rest.
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

    /// Sets the client's start values before its next message, behind a DISCARD ALL of the extended protocol or a text
    /// that was not read. Returns false if the message must wait.
    pub(super) fn returns(&mut self, tag: u8) -> bool {
        let server = &*self.link.server;
        (!server.discard.is_underway() || self.return_behind_discard(tag))
            && (!self.link.server.rarities.has(ServerRarity::RanUnread)
                || self.return_what_is_learnt())
    }

    /// Sets the start values behind a DISCARD ALL, which PostgreSQL commits by itself. They must not be part of what
    /// follows in the batch, since an error there would undo them. So they are sent in between, once the server has
    /// completed the DISCARD ALL. If a Sync follows, nothing waits: they are set behind it.
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
            // The values are set behind the Sync.
            _ if tag == tag::SYNC => {
                server.discard = Discard::Due;
                return true;
            }
            // The DISCARD ALL has failed.
            _ => {
                server.discard = Discard::Nothing;
                return true;
            }
        }
        server.discard = Discard::Nothing;
        server.sent = Sent::Whole;
        server.bound = 0;
        // Cannot fail: five bytes fit.
        let _ = encode::sync(self.to_server.insert());
        let mut sync = Expected::new(Kind::Sync, Duty::Swallow);
        sync.held_back = true;
        self.expect(sync);
        self.set_startup();
        false
    }

    /// Sets start values that an unread text has reset before anything else of the client's runs. Returns false if that
    /// request, or the question behind the text, is unanswered. If the client sent more without waiting for the text,
    /// or is in a transaction, the values are not known in time, and its messages go on.
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
            tell(client, &server.reported, self.to_client);
            return true;
        }
        server.rarities.remove(ServerRarity::RanUnread);
        let changes = server.settings.changes_to(&client.settings);
        if changes.is_empty() {
            tell(client, &server.reported, self.to_client);
            return true;
        }
        server.settings = Arc::clone(&client.settings);
        // Cannot fail: the values were on a server before, so they contain no NUL.
        let _ = server.require(changes.join(";"), Duty::Swallow, self.to_server.insert());
        false
    }

    /// Sets the start values behind a DISCARD ALL, unless a COPY may be in progress, which would take the query for
    /// data.
    #[inline]
    pub(super) fn return_to_startup(&mut self) {
        if !self.link.server.rarities.is_empty() {
            self.return_to_startup_now();
        }
    }

    #[cold]
    fn return_to_startup_now(&mut self) {
        let server = &mut *self.link.server;
        if server.discard == Discard::Nothing
            || server.sent == Sent::OpenBatch
            || !server.queue.takes_queries()
        {
            return;
        }
        server.discard = Discard::Nothing;
        if server.bound > 1 {
            // The values are set already, and the client may have changed them since.
            return;
        }
        // Values that are reported to the client must be current by then.
        server.queue.hold_back();
        self.set_startup();
    }

    /// Sets the client's start values before anything else of the client's runs.
    fn set_startup(&mut self) {
        let Link { client, server, .. } = &mut *self.link;
        for (name, _) in client.startup.iter() {
            server.question.add_name(name);
        }
        let sql = Settings::default().statements_to(&client.startup);
        // Cannot fail: values of a start-up packet contain no NUL and are short.
        let _ = server.require(sql, Duty::Try, self.to_server.insert());
    }
}
