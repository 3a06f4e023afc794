//! The clients of one lane that wait for a server, longest first.

use std::collections::VecDeque;

use crate::action::Ticket;
use crate::line::Line;
use crate::moment::ClientId;
use crate::moment::Moment;
use crate::shared::HEADS_PUBLISHED;
use crate::want::Want;

/// Maximum number of entries searched for heads to publish, those of waiters that have left included.
const SCAN_MAX: usize = 32;

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    client: ClientId,
    want: Want,
    /// The waiter left from the middle of the queue; its entry is skipped and removed later.
    gone: bool,
}

/// Waiters of one lane, ordered by ticket. **Invariant:** the first entry is never gone; `gone` counts entries that
/// are.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiters: VecDeque<Waiter>,
    gone: usize,
    /// Number of waiters that do not want just any server.
    choosy: usize,
    next_number: u64,
    /// Waiters up to this ticket have been told that they wait.
    notified: Option<Ticket>,
}

impl Queue {
    pub(crate) fn push(&mut self, client: ClientId, want: Want, since: Moment) -> Ticket {
        let ticket = Ticket {
            since,
            number: self.next_number,
        };
        self.next_number += 1;
        let waiter = Waiter {
            ticket,
            client,
            want,
            gone: false,
        };
        self.choosy += usize::from(want != Want::Any);
        if self.waiters.back().is_none_or(|last| last.ticket < ticket) {
            self.waiters.push_back(waiter);
        } else {
            let place = self.waiters.partition_point(|other| other.ticket < ticket);
            self.waiters.insert(place, waiter);
        }
        ticket
    }

    pub(crate) fn pop(&mut self) -> Option<ClientId> {
        let waiter = self.waiters.pop_front()?;
        debug_assert!(!waiter.gone, "the head is alive");
        self.choosy -= usize::from(waiter.want != Want::Any);
        self.drop_gone_heads();
        Some(waiter.client)
    }

    /// Removes and returns the first waiter whose requirement is met.
    pub(crate) fn pop_where(
        &mut self,
        is_met: impl Fn(ClientId, Want) -> bool,
    ) -> Option<ClientId> {
        if self.choosy == 0 {
            return self.pop();
        }
        let fits = |waiter: &&Waiter| !waiter.gone && is_met(waiter.client, waiter.want);
        let found = self.waiters.iter().find(fits)?;
        let (ticket, client) = (found.ticket, found.client);
        let _ = self.forget(ticket);
        Some(client)
    }

    /// The client that waits longest, and its requirement.
    pub(crate) fn head(&self) -> Option<(ClientId, Want)> {
        (self.waiters.front()).map(|waiter| (waiter.client, waiter.want))
    }

    /// Moment since which the first waiter waits whose requirement is met.
    pub(crate) fn first_where(&self, is_met: impl Fn(ClientId, Want) -> bool) -> Option<Moment> {
        let fits = |waiter: &&Waiter| !waiter.gone && is_met(waiter.client, waiter.want);
        let found = self.waiters.iter().find(fits);
        found.map(|waiter| waiter.ticket.since)
    }

    /// Number of waiters that do not want just any server.
    pub(crate) fn choosy(&self) -> usize {
        self.choosy
    }

    /// Removes a waiter; false if it is no longer in the queue.
    pub(crate) fn forget(&mut self, ticket: Ticket) -> bool {
        let Ok(place) = self
            .waiters
            .binary_search_by_key(&ticket, |waiter| waiter.ticket)
        else {
            return false;
        };
        let Some(waiter) = self.waiters.get_mut(place) else {
            return false;
        };
        if std::mem::replace(&mut waiter.gone, true) {
            return false;
        }
        self.choosy -= usize::from(waiter.want != Want::Any);
        self.gone += 1;
        self.drop_gone_heads();
        // Amortised: a sweep costs no more than the departures since the last sweep.
        if self.gone > self.waiters.len() / 2 {
            self.waiters.retain(|waiter| !waiter.gone);
            self.gone = 0;
        }
        true
    }

    /// Returns the next waiter that has waited since `due` or longer and has not been told.
    pub(crate) fn notify(&mut self, due: Moment) -> Option<ClientId> {
        let (ticket, client) = self.unnotified()?;
        if ticket.since > due {
            return None;
        }
        self.notified = Some(ticket);
        Some(client)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiters.len() - self.gone
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Moment since which the longest waiter waits.
    pub(crate) fn head_since(&self) -> Option<Moment> {
        self.waiters.front().map(|waiter| waiter.ticket.since)
    }

    /// Moment since which the waiter at this place (0 = longest) waits.
    pub(crate) fn since_at(&self, place: usize) -> Option<Moment> {
        let mut alive = self.waiters.iter().filter(|waiter| !waiter.gone);
        alive.nth(place).map(|waiter| waiter.ticket.since)
    }

    pub(crate) fn unnotified_since(&self) -> Option<Moment> {
        self.unnotified().map(|(ticket, _)| ticket.since)
    }

    /// Publishes the waiters that want just any server, and the first `choosy` others.
    pub(crate) fn line(&self, choosy: usize) -> Line {
        let mut line = Line {
            count: self.len() - self.choosy + choosy,
            ..Line::EMPTY
        };
        let mut left = choosy;
        let mut is_shown = |waiter: &&Waiter| {
            let is_any = waiter.want == Want::Any;
            let is_shown = !waiter.gone && (is_any || left > 0);
            left -= usize::from(is_shown && !is_any);
            is_shown
        };
        let scanned = self.waiters.iter().take(SCAN_MAX);
        let alive = scanned.filter(|waiter| is_shown(waiter));
        for (slot, waiter) in line.heads.iter_mut().zip(alive) {
            *slot = waiter.ticket.since;
        }
        debug_assert!(line.heads.len() == HEADS_PUBLISHED);
        line
    }

    fn unnotified(&self) -> Option<(Ticket, ClientId)> {
        let told = |waiter: &Waiter| self.notified.is_some_and(|last| waiter.ticket <= last);
        let first = self.waiters.partition_point(told);
        let mut rest = self.waiters.range(first..);
        rest.find(|waiter| !waiter.gone)
            .map(|waiter| (waiter.ticket, waiter.client))
    }

    fn drop_gone_heads(&mut self) {
        while self.waiters.front().is_some_and(|waiter| waiter.gone) {
            self.waiters.pop_front();
            self.gone -= 1;
        }
    }
}
