//! Batches that only name or forget statements, from a client that has no server: known statements need none.
//!
//! A batch of nothing but Parse and Close up to its Sync runs nothing and leaves nothing on a server. A Close always
//! succeeds (manual, 55.2.3), and so does a Parse of what a server of the pool has prepared before, under the same
//! settings. Clients that prepare by blocking calls need this, not only to save a round trip: with more of them than
//! servers, those in a transaction may wait for one that waits for a server to prepare something.

use std::sync::Arc;

use weir_wire::frame::{Side, header};
use weir_wire::frontend::{self, tag};

use super::{Rules, STATEMENTS_MAX, STREAM_MIN, StatementCounts, reply};
use crate::client::Client;
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
}

/// What the next messages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    /// Nothing but Parse and Close of names, up to a Sync.
    Alone,
    /// The same as far as they are here.
    Cut,
    /// Something for a server.
    Other,
}

/// Looks at the headers of a batch that begins with a Parse or Close.
pub(super) fn ahead(rules: Rules, rest: &[u8]) -> Ahead {
    if rules.max_prepared == 0 {
        return Ahead::Other;
    }
    let mut at = 0;
    loop {
        let message = rest.get(at..).unwrap_or_default();
        let Ok(Some(header)) = header(message, Side::Frontend) else {
            return if message.is_empty() || message.len() < HEAD {
                Ahead::Cut
            } else {
                Ahead::Other
            };
        };
        at += header.total_len();
        let is_unnamed = header.tag == tag::PARSE && message.get(HEAD) == Some(&0);
        match header.tag {
            tag::PARSE | tag::CLOSE if is_unnamed || at > STREAM_MIN => return Ahead::Other,
            tag::PARSE | tag::CLOSE if at > rest.len() => return Ahead::Cut,
            tag::PARSE | tag::CLOSE => {}
            tag::SYNC if at > rest.len() => return Ahead::Cut,
            tag::SYNC => return Ahead::Alone,
            _ => return Ahead::Other,
        }
    }
}

impl Lobby<'_> {
    /// Answers the messages of such a batch, up to the Sync or to one that needs a server. Returns their length: what a
    /// server would have made of them by then is the same, so the rest of the batch can be put to it.
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
            let body = message.get(HEAD..header.total_len()).unwrap_or_default();
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

    /// Whether it is known that a server would take it; if so, the client has it.
    fn parse(&mut self, body: &[u8]) -> bool {
        let Ok(parse) = frontend::Parse::parse(body) else {
            return false;
        };
        let taken = self.client.statement(parse.name).is_some();
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
            client.remember(parse.name.into(), Some(statement));
        }
        is_proven
    }

    fn close(&mut self, body: &[u8]) -> bool {
        let Ok(close) = frontend::Close::parse(body) else {
            return false;
        };
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
