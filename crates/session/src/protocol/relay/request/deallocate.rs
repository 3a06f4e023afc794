//! Handles SQL-level `DEALLOCATE` of a statement of the protocol.
//!
//! Drivers drop statements by SQL text (psycopg does, in pipelines with the extended protocol). Other clients may use
//! the server's copy, so the server gets another statement to deallocate instead. Its replies and errors then have the
//! right content and order.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_wire::backend::TransactionStatus;
use weir_wire::encode;
use weir_wire::frontend::{self, tag};

use super::meaning::Meaning;
use super::{Message, Work};
use crate::client::key;
use crate::expected::{Duty, Expected, Kind, Renamed, Undo};
use crate::inserted::{Inserted, Piece};
use crate::relay::ClientFault;
use crate::server::Sent;
use crate::sql::{self, Deallocated};
use crate::statement::{Statement, put_parse};
use crate::unnamed;

/// Prepares a statement and deallocates it; the reply to the first part is dropped.
const QUERY: &[u8] = b"PREPARE weir_deallocate AS SELECT 1; DEALLOCATE weir_deallocate";

/// `DEALLOCATE weir_deallocate` in a Parse, without parameter types.
const TEXT: &[u8] = b"DEALLOCATE weir_deallocate\0\0\0";

/// Body of a Parse of an empty statement, which costs no time.
const NOTHING: &[u8] = b"\0\0\0";

/// Maximum number of portals that are remembered. A forgotten one is answered as if there were nothing to deallocate.
const PORTALS_MAX: usize = 64;

/// Unnamed statement and portals of a client that deallocate its names.
#[derive(Debug, Default)]
pub(crate) struct Deallocating {
    /// Serial of the unnamed statement and the name, if it deallocates one.
    unnamed: Option<(u64, Box<[u8]>)>,
    /// Portals that deallocate a name when they are executed.
    portals: VecDeque<Portal>,
}

/// Name of a portal, and the name that it deallocates.
type Portal = (Box<[u8]>, Box<[u8]>);

impl Deallocating {
    /// Returns the state of a client whose unnamed statement, with this number, deallocates a name.
    pub(crate) fn by_unnamed(serial: u64, name: &[u8]) -> Self {
        Self {
            unnamed: Some((serial, name.into())),
            portals: VecDeque::new(),
        }
    }

    /// Name that the unnamed statement with this number deallocates.
    pub(crate) fn unnamed_name(&self, serial: u64) -> Option<&[u8]> {
        let unnamed = self.unnamed.as_ref();
        let unnamed = unnamed.filter(|(number, _)| *number == serial);
        unnamed.map(|(_, name)| &**name)
    }

    /// Records that a portal was bound to a statement that deallocates `name`, if any.
    fn bind(&mut self, portal: &[u8], name: Option<Box<[u8]>>) {
        self.portals.retain(|(bound, _)| **bound != *portal);
        if let Some(name) = name {
            self.portals.truncate(PORTALS_MAX - 1);
            self.portals.push_front((portal.into(), name));
        }
    }

    fn name(&self, portal: &[u8]) -> Option<&[u8]> {
        let mut portals = self.portals.iter();
        let found = portals.find(|(bound, _)| **bound == *portal);
        found.map(|(_, name)| &**name)
    }
}

impl Work<'_, '_, '_, '_> {
    /// Returns what a text deallocates; `None` if it does not concern statements of the protocol.
    pub(super) fn deallocated_by(&self, text: &[u8]) -> Option<Deallocated> {
        let has_names = self.link.client.statement_count() > 0;
        let may_have_names = has_names || self.link.server.queue.changes_names();
        if !may_have_names || !self.tracks_names() {
            return None;
        }
        sql::deallocated(text)
    }

    pub(super) fn has_statement(&self, name: &[u8]) -> bool {
        matches!(self.link.client.statement(name), Some((_, Some(_))))
    }

    /// Passes on a simple query.
    pub(super) fn pass_query(
        &mut self,
        message: Message,
        deallocated: Option<Deallocated>,
        insertions: Option<(Inserted, Vec<Piece>)>,
    ) {
        let mut entry = Expected::new(Kind::Query, Duty::Forward);
        match deallocated {
            Some(Deallocated::One(name)) if self.has_statement(&name) => {
                let effect = self.define_unnamed(unnamed::NONE, &[], None);
                // Cannot fail: a constant text fits.
                let _ = encode::query(self.to_server.insert(), QUERY);
                entry = entry.with_undo(Undo::Deallocate(name.into()));
                return self.expect(entry.with_unnamed(effect));
            }
            Some(Deallocated::All) => entry = entry.with_undo(Undo::DeallocateAll),
            _ => {}
        }
        entry.counted = self.count_query(message);
        entry.watched = self.watch_query(message);
        let effect = self.define_unnamed(unnamed::NONE, &[], None);
        match insertions {
            None => self.pass(message, None),
            Some((inserted, pieces)) => {
                self.pass_with(message, &pieces);
                entry.inserted = Some(Box::new(inserted));
            }
        }
        self.expect(entry.with_unnamed(effect));
    }

    /// Replaces an unnamed Parse of a text that deallocates a name. Returns true if the Parse is done with.
    pub(super) fn parse_deallocate(&mut self, name: Vec<u8>, serial: u64) -> bool {
        if !self.has_statement(&name) {
            return false;
        }
        let deallocating = self.link.client.deallocating.get_or_insert_default();
        deallocating.unnamed = Some((serial, name.into()));
        self.link.server.sent = Sent::OpenBatch;
        let effect = self.define_unnamed(serial, TEXT, None);
        put_parse(self.to_server.insert(), b"", &[TEXT]);
        self.expect(Expected::new(Kind::Parse, Duty::Forward).with_unnamed(effect));
        true
    }

    /// Records for a Bind which name its portal deallocates. If the statement is a named one, another takes its place.
    pub(super) fn bind_deallocate(
        &mut self,
        portal: &[u8],
        statement: &[u8],
        meaning: Meaning,
    ) -> Meaning {
        let client = &mut *self.link.client;
        let current = client.current_unnamed().0;
        let deallocating = client.deallocating.get_or_insert_default();
        if statement.is_empty() {
            let name = deallocating.unnamed_name(current).map(Box::from);
            deallocating.bind(portal, name);
            return meaning;
        }
        let name = meaning
            .statement()
            .and_then(|ours| ours.deallocates.clone());
        let name = name.filter(|name| self.has_statement(name));
        if let Some(name) = &name
            && self.is_unsettled(name, false)
        {
            return Meaning::Open;
        }
        let has_name = name.is_some();
        let client = &mut *self.link.client;
        let deallocating = client.deallocating.get_or_insert_default();
        deallocating.bind(portal, name);
        if !has_name || self.link.server.status() == TransactionStatus::Failed {
            return meaning;
        }
        let ours = self.intern(TEXT);
        self.ensure(&ours);
        Meaning::Ours {
            renamed: Renamed {
                ours,
                theirs: statement.into(),
            },
            is_fresh: false,
        }
    }

    /// Handles an Execute of such a portal: prepares something to deallocate if the client has the name. Returns `None`
    /// for any other portal.
    pub(super) fn execute_deallocate(
        &mut self,
        message: Message,
    ) -> Result<Option<Expected>, ClientFault> {
        let Some(deallocating) = &self.link.client.deallocating else {
            return Ok(None);
        };
        let execute = frontend::Execute::parse(self.body(message))
            .map_err(|_| ClientFault::Malformed(tag::EXECUTE))?;
        let Some(name) = deallocating.name(execute.portal) else {
            return Ok(None);
        };
        let name: Arc<[u8]> = name.into();
        let ours = self.link.registry.victim();
        let entry = Expected::new(Kind::Execute, Duty::Forward).with_renamed(Some(Renamed {
            ours: Arc::clone(&ours),
            theirs: Arc::clone(&name),
        }));
        if !self.has_statement(key(&name)) || self.link.server.queue.is_skipping() {
            return Ok(Some(entry));
        }
        self.put_empty(&ours);
        // Undone like a Close: requests behind it in the batch are skipped with it.
        let Some((statement, parsed)) = self.link.client.forget(&name) else {
            return Ok(Some(entry));
        };
        Ok(Some(entry.with_undo(Undo::Closed(name, statement, parsed))))
    }

    /// Prepares an empty statement under a constant name of ours.
    pub(super) fn put_empty(&mut self, ours: &Statement) {
        self.close_empty(ours);
        put_parse(self.to_server.insert(), &ours.name, &[NOTHING]);
        self.expect(Expected::new(Kind::Parse, Duty::Swallow));
    }

    /// Closes the statement of that name, which an earlier, failed batch may have left.
    pub(super) fn close_empty(&mut self, ours: &Statement) {
        // Cannot fail: a constant name fits.
        let kind = frontend::Kind::Statement;
        let _ = encode::close(self.to_server.insert(), kind, &ours.name);
        self.expect(Expected::new(Kind::Close, Duty::Swallow));
    }
}
