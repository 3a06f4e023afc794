//! Batches that only name or forget statements, from a client that has no server and to which none can be given: known
//! statements need none.
//!
//! A batch of nothing but Parse and Close up to its Sync runs nothing and leaves nothing on a server. A Close always
//! succeeds (manual, 55.2.3), and so does a Parse of what a server of the pool has prepared before, under the same
//! settings. Clients that prepare by blocking calls need this: with more of them than servers, those in a transaction may wait
//! for one that waits for a server to prepare something. What the Parse resolves is another matter, and is found out when
//! the statement is first used; so a Parse goes to a server if one is free.

use std::sync::Arc;

use weir_wire::frame::{Side, header};
use weir_wire::frontend::{self, tag};

use super::{Rules, STATEMENTS_MAX, STREAM_MIN, StatementCounts, reply};
use crate::client::{Client, Parsed};
use crate::expected::Kind;
use crate::statement::{Proven, Registry};
use crate::unnamed;

/// Bytes of a message before its body.
const HEAD: usize = weir_wire::frame::HEADER_LEN;

/// A client without a server, and what is known about statements.
#[derive(Debug)]
pub struct Lobby<'a> {
    /// The client.
    pub client: &'a mut Client,
    /// The worker's statements.
    pub registry: &'a mut Registry,
    /// What is known to be good in the client's pool.
    pub proven: &'a Arc<Proven>,
    /// The pool's rules.
    pub rules: Rules,
    /// A server is free, so that nothing has to be answered without one.
    pub has_server: bool,
}

/// Whether nothing but Parse and Close of names is there, up to a Sync or to the end of what has come.
///
/// Messages behind a Parse that go to a server take it along: that saves the client a send of its own.
pub(super) fn is_alone(rules: Rules, rest: &[u8]) -> bool {
    let mut at = 0;
    while rules.max_prepared > 0 && at <= STREAM_MIN {
        let message = rest.get(at..).unwrap_or_default();
        let Ok(Some(header)) = header(message, Side::Frontend) else {
            return message.len() < HEAD;
        };
        let is_unnamed = header.tag == tag::PARSE && message.get(HEAD) == Some(&0);
        match header.tag {
            tag::PARSE | tag::CLOSE if !is_unnamed => at += header.total_len(),
            tag::SYNC => return true,
            _ => return false,
        }
    }
    false
}

impl Lobby<'_> {
    /// Answers the messages of such a batch, up to the Sync, to a message that is cut, or to one that needs a server.
    /// Returns their length: what a server would have made of them by then is the same, so the rest can be put to it.
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

    /// Whether it is known that a server would take it, and none is free to do so; if so, the client has it. Names and types
    /// are resolved when the statement is first used.
    fn parse(&mut self, body: &[u8]) -> bool {
        let Ok(parse) = frontend::Parse::parse(body) else {
            return false;
        };
        let taken = self.client.statement(parse.name).is_some();
        let taken = taken || self.has_server || self.client.maps_names == Some(false);
        if taken || self.client.statement_count() >= STATEMENTS_MAX {
            return false;
        }
        let definition = body.get(parse.name.len() + 1..).unwrap_or_default();
        let client = &mut *self.client;
        let settings = &client.settings;
        let context = (client.planned).context(settings, self.registry, self.proven);
        let statement = self.registry.intern(context, definition);
        let is_proven = statement.is_proven();
        if is_proven {
            client.maps_names = Some(true);
            client.remember(parse.name.into(), Some(statement), Parsed::Deferred);
        }
        is_proven
    }

    fn close(&mut self, body: &[u8]) -> bool {
        let Ok(close) = frontend::Close::parse(body) else {
            return false;
        };
        if self.client.maps_names == Some(false) {
            return false;
        }
        // Portals do not outlive the transaction; those that do keep the client on its server.
        if close.kind == frontend::Kind::Statement && !close.name.is_empty() {
            self.client.forget(close.name);
        } else if close.kind == frontend::Kind::Statement && !self.client.has_no_unnamed() {
            self.client.unnamed().define(unnamed::NONE, &[], None);
            self.client.unnamed().confirm();
        }
        true
    }
}
