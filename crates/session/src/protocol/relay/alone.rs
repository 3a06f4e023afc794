//! Answers batches of Parse and Close without a server, for a client that has no server and can get none.
//!
//! A batch of nothing but Parse and Close up to its Sync runs nothing and leaves nothing on a server. A Close always
//! succeeds (manual, 55.2.3). So does a Parse of a statement that a server of the pool has prepared before, under the
//! same settings. Clients that prepare with blocking calls need this. With more clients than servers, a client in a
//! transaction may wait for another client that waits for a server only to prepare something. Names and types are
//! resolved when the statement is first used, so a Parse goes to a server if one is free.

use std::sync::Arc;

use weir_wire::frame::{Side, header};
use weir_wire::frontend::{self, tag};

use super::{Batch, Rules, STATEMENTS_MAX, StatementCounts, reply};
use crate::client::{Client, Parsed};
use crate::expected::Kind;
use crate::ruled::Ruling;
use crate::statement::{Proven, Registry, Statement};
use crate::unnamed;

/// Length of a message header.
const HEAD: usize = weir_wire::frame::HEADER_LEN;

/// A client without a server, with the known statements.
#[derive(Debug)]
pub struct Lobby<'a> {
    /// The client.
    pub client: &'a mut Client,
    /// Prepared statements of the worker.
    pub registry: &'a mut Registry,
    /// Statements known to be valid in the client's pool.
    pub proven: &'a Arc<Proven>,
    /// Rules of the pool.
    pub rules: Rules,
    /// Query rules that may concern the client, if there are any.
    pub ruling: Option<Ruling<'a>>,
    /// True if a server is free, so that no Parse has to be answered without one.
    pub has_server: bool,
}

impl Lobby<'_> {
    /// True if a batch contains only Parse and Close of names, so that it may be answered without a server.
    ///
    /// If requests for a server follow a Parse, the Parse goes to the server with them, which saves a separate write
    /// for it.
    #[inline]
    pub(super) fn may_answer(&self, batch: &Batch<'_>) -> bool {
        self.rules.max_prepared > 0 && batch.extent().only_prepares
    }

    /// Answers the messages of such a batch, up to the Sync, an incomplete message, or a message that needs a server.
    /// Returns their length. A server would have the same state by then, so the rest can be sent to one.
    pub(super) fn answer(
        &mut self,
        rest: &[u8],
        to_client: &mut Vec<u8>,
        statements: &mut StatementCounts,
    ) -> usize {
        let mut at = 0;
        loop {
            let message = rest.get(at..).unwrap_or_default();
            let Ok(Some(header)) = header(message, Side::Frontend) else {
                return at;
            };
            let Some(body) = message.get(HEAD..header.total_len()) else {
                return at;
            };
            let kind = match header.tag {
                tag::PARSE if self.parse(body) => Kind::Parse,
                tag::CLOSE if self.close(body) => Kind::Close,
                _ => return at,
            };
            statements.client_parses += u32::from(kind == Kind::Parse);
            reply::answer(to_client, kind);
            at += header.total_len();
        }
    }

    /// Answers a Parse and records its name if no server is free and a server is known to accept it. Returns false
    /// otherwise. Names and types are resolved when the statement is first used.
    fn parse(&mut self, body: &[u8]) -> bool {
        !self.has_server && self.define(body, Statement::is_proven)
    }

    /// Records the name of a Parse whose statement is valid; servers get the statement when it is first used. False if it
    /// is not valid, or the client cannot have the name.
    pub(super) fn define(&mut self, body: &[u8], is_valid: fn(&Statement) -> bool) -> bool {
        let Ok(parse) = frontend::Parse::parse(body) else {
            return false;
        };
        let taken = self.client.statement(parse.name).is_some();
        let taken = taken || self.client.maps_names == Some(false);
        if taken || self.client.statement_count() >= STATEMENTS_MAX {
            return false;
        }
        let definition = body.get(parse.name.len() + 1..).unwrap_or_default();
        let client = &mut *self.client;
        let settings = &client.settings;
        let context = (client.planned).context(settings, self.registry, self.proven);
        let statement = self.registry.intern(context, definition);
        let is_valid = is_valid(&statement);
        if is_valid {
            client.maps_names = Some(true);
            client.remember(parse.name.into(), Some(statement), Parsed::Deferred);
        }
        is_valid
    }

    fn close(&mut self, body: &[u8]) -> bool {
        let Ok(close) = frontend::Close::parse(body) else {
            return false;
        };
        if self.client.maps_names == Some(false) {
            return false;
        }
        // Portals end with the transaction; those that do not pin the client to its server.
        if close.kind == frontend::Kind::Statement && !close.name.is_empty() {
            self.client.forget(close.name);
        } else if close.kind == frontend::Kind::Statement && !self.client.has_no_unnamed() {
            self.client.unnamed().define(unnamed::NONE, &[], None);
            self.client.unnamed().confirm();
        }
        true
    }
}
