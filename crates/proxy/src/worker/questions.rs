//! Requests of this worker's consoles that wait: for the other workers' parts of a snapshot, or for the end of an order.

use std::collections::HashMap;

use super::console::{Gathering, Purpose};
use super::ids::ClientId;
use super::orders::{By, Pending, Until};

/// Waiting requests by number. A message that another worker answers has the number.
#[derive(Default)]
pub(super) struct Questions {
    last: u64,
    /// Answers that wait for the other workers.
    pub(super) gathering: HashMap<u64, Gathering>,
    /// Orders that are not done.
    pub(super) pending: HashMap<u64, Pending>,
    /// Console client that has suspended everything.
    suspender: Option<ClientId>,
}

impl Questions {
    /// Returns a number that no other request of this worker has.
    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// True if this client waits for an answer or an order.
    pub(super) fn owes_answer(&self, client: ClientId) -> bool {
        let is_its = |purpose: Purpose| matches!(purpose, Purpose::Client(id) if id == client);
        let mut gathering = self.gathering.values();
        gathering.any(|gathering| is_its(gathering.purpose)) || self.is_ordering(client)
    }

    /// True if this client waits for an order.
    pub(super) fn is_ordering(&self, client: ClientId) -> bool {
        let mut pending = self.pending.values();
        pending.any(|pending| is_by(pending, client))
    }

    /// True if an order is done here, and its console learns that once other processes have done it.
    pub(super) fn wait_elsewhere(&self) -> bool {
        let mut pending = self.pending.values();
        pending.any(|pending| matches!(pending.until, Until::Elsewhere))
    }

    /// Removes the order that this client waits for, and returns its condition.
    pub(super) fn take_order(&mut self, client: ClientId) -> Option<Until> {
        let mut pending = self.pending.iter();
        let number = *pending.find(|(_, pending)| is_by(pending, client))?.0;
        self.pending.remove(&number).map(|pending| pending.until)
    }

    /// Records that this client has suspended everything.
    pub(super) fn suspended_by(&mut self, client: ClientId) {
        self.suspender = Some(client);
    }

    /// Forgets the client that has suspended everything. Returns false if it is another one.
    pub(super) fn take_suspender(&mut self, client: ClientId) -> bool {
        self.suspender.take_if(|by| *by == client).is_some()
    }
}

fn is_by(pending: &Pending, client: ClientId) -> bool {
    matches!(pending.by, By::Console(by) if by == client)
}
