//! Clients that wait before their transactions get a server, because a query rule delays them or its bulkhead is full.
//!
//! Such a client has no server. It waits for a time, or for its turn in the bulkhead's queue, up to `query_wait_timeout`. The
//! permit belongs to the statement: whatever ends the statement, or its client or server, gives the permit back, and at the end of
//! the worker's turn the next client gets it.

use slotmap::{Key as _, KeyData};
use weir_pool::Moment;
use weir_rules::{Entry, Limit, Permit, Waiter};
use weir_session::fault::Fault;
use weir_session::relay::{Batch, full};
use weir_stats::Blame;

use super::Worker;
use super::ids::ClientId;
use super::slots::Client;
use super::timers::Timer;
use crate::driver::Driver;
use crate::mailbox::Message;

/// Progress of a client that a query rule lets wait.
#[derive(Debug)]
pub(super) enum Throttled {
    /// The client waits for this time, and then for this bulkhead.
    Delayed(Moment, Option<Limit>),
    /// The client waits for its turn, at most until this time.
    Queued(Moment, Limit),
    /// The client may ask for a server.
    Passed,
}

/// Answer to a client that is about to ask for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// The client may ask.
    Open,
    /// The client waits.
    Waits,
    /// The client's batch was refused.
    Refused,
}

impl Client {
    /// True if the client waits because of a query rule.
    #[inline]
    pub(super) fn is_throttled(&self) -> bool {
        let throttled = self.throttled.as_deref();
        throttled.is_some_and(|throttled| !matches!(throttled, Throttled::Passed))
    }
}

impl<D: Driver> Worker<D> {
    /// Lets a client wait if the rules for its next batch say so.
    #[inline]
    pub(super) fn throttle(&mut self, id: ClientId) -> Gate {
        if !self.has_rules {
            return Gate::Open;
        }
        self.throttle_by_rules(id)
    }

    #[cold]
    fn throttle_by_rules(&mut self, id: ClientId) -> Gate {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return Gate::Open;
        };
        // Whoever has waited goes on.
        if client.throttled.take().is_some() {
            return Gate::Open;
        }
        let Some(wishes) = client.session.wishes_before_lease() else {
            return Gate::Open;
        };
        let limit = wishes.limit.clone();
        let Some(delay) = &wishes.delay else {
            return limit.map_or(Gate::Open, |limit| self.enter_bulkhead(id, limit));
        };
        let at = self.now.plus(delay.value);
        tracing::debug!("{client} waits because of rule {}", delay.rule);
        client.throttled = Some(Box::new(Throttled::Delayed(at, limit)));
        self.timers.arm(at, Timer::Throttle(id));
        Gate::Waits
    }

    /// Lets a client's batch pass a bulkhead, or its client wait in front.
    fn enter_bulkhead(&mut self, id: ClientId, limit: Limit) -> Gate {
        let waiter = self.waiter(id);
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return Gate::Open;
        };
        match limit.bulkhead.enter(waiter) {
            Ok(Entry::Permit(permit)) => {
                client.session.permit(permit);
                Gate::Open
            }
            Ok(Entry::Waits) => {
                tracing::debug!("{client} waits in front of rule {}", limit.rule);
                let group = self.tables.groups.must_get(client.group);
                let wait = group.and_then(|group| group.settings.query_wait_timeout);
                let until = wait.map_or(Moment::NEVER, |wait| self.now.plus(wait));
                client.throttled = Some(Box::new(Throttled::Queued(until, limit)));
                self.timers.arm(until, Timer::Throttle(id));
                Gate::Waits
            }
            Err(_) => {
                self.refuse_by_bulkhead(id, &limit);
                Gate::Refused
            }
        }
    }

    /// Tells a client that its batch cannot run now, and drops the batch.
    fn refuse_by_bulkhead(&mut self, id: ClientId, limit: &Limit) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.throttled = None;
        client.session.refuse_decided();
        let fault = Fault::Rejected(full(&limit.rule, limit.max));
        let mut message = Vec::new();
        fault.encode(&mut message);
        self.send_to_client(id, &message);
        self.count_error(Blame::Pooler, Some(fault.code()));
    }

    /// Refuses the batch of a client that is one too many in its pool's queue (`max_waiting`). False if it may wait, or does
    /// not.
    #[cold]
    pub(super) fn refuses_to_queue(&mut self, id: ClientId, batch: &Batch<'_>) -> bool {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return false;
        };
        let group = self.tables.groups.must_get(client.group);
        let max = group.map_or(0, |group| group.settings.max_waiting);
        let lane = self.tables.lanes.must_get_mut(client.lane);
        let (Some(lane), 1..) = (lane, max) else {
            return false;
        };
        let is_full = lane.shard.waiting_anywhere() > usize::try_from(max).unwrap_or(usize::MAX);
        let Some(ticket) = client.ticket.take_if(|_| is_full) else {
            return false;
        };
        lane.shard.forget(ticket);
        tracing::debug!("{client} is one too many in the queue (max_waiting)");
        client
            .session
            .refuse_batch(batch.input.first().copied().unwrap_or_default());
        let fault = Fault::TooManyWaiting;
        let mut message = Vec::new();
        fault.encode(&mut message);
        self.send_to_client(id, &message);
        self.count_error(Blame::Pooler, Some(fault.code()));
        true
    }

    /// Handles the end of a client's delay, or of its time in a queue.
    pub(super) fn throttle_timer(&mut self, id: ClientId) {
        let waiter = self.waiter(id);
        // This timer is never disarmed: the client may be gone, or wait for something else.
        let Some(client) = self.tables.clients.get_mut(id) else {
            return;
        };
        let Some(throttled) = client.throttled.take() else {
            return;
        };
        match *throttled {
            Throttled::Delayed(at, limit) if at <= self.now => {
                let gate = limit.map_or(Gate::Open, |limit| self.enter_bulkhead(id, limit));
                match gate {
                    Gate::Open => self.pass_throttle(id),
                    Gate::Refused => self.take_input(id),
                    Gate::Waits => {}
                }
            }
            Throttled::Queued(until, limit) if until <= self.now => {
                if limit.bulkhead.leave(waiter, true) {
                    self.refuse_by_bulkhead(id, &limit);
                    self.take_input(id);
                } else {
                    // The permit is on its way.
                    client.throttled = Some(Box::new(Throttled::Queued(Moment::NEVER, limit)));
                }
            }
            other => client.throttled = Some(Box::new(other)),
        }
    }

    fn pass_throttle(&mut self, id: ClientId) {
        if let Some(client) = self.tables.clients.must_get_mut(id) {
            client.throttled = Some(Box::new(Throttled::Passed));
            self.take_input(id);
        }
    }

    /// Gives a client the permit that it has waited for. If the client has left, the permit goes to the next one.
    pub(super) fn permitted(&mut self, id: ClientId, permit: Permit) {
        let Some(client) = self.tables.clients.get_mut(id) else {
            return;
        };
        let is_waiting = matches!(
            client.throttled.as_deref(),
            Some(Throttled::Queued(_, limit)) if permit.is_of(&limit.bulkhead)
        );
        if is_waiting {
            client.session.permit(permit);
            self.pass_throttle(id);
        }
    }

    /// Ends the wait of a client that leaves, or that cancels its request. True if the client has waited.
    pub(super) fn leave_throttle(&self, id: ClientId, throttled: Option<Box<Throttled>>) -> bool {
        let Some(throttled) = throttled else {
            return false;
        };
        if let Throttled::Queued(_, limit) = &*throttled {
            limit.bulkhead.leave(self.waiter(id), false);
        }
        !matches!(*throttled, Throttled::Passed)
    }

    /// Gives permits that have become free to the clients that wait for them, on any worker.
    #[inline]
    pub(super) fn grant_permits(&mut self) {
        if !self.bulkheads.is_empty() {
            self.grant_free_permits();
        }
    }

    #[cold]
    fn grant_free_permits(&mut self) {
        let bulkheads = std::mem::take(&mut self.bulkheads);
        for bulkhead in &bulkheads {
            while let Some((waiter, permit)) = bulkhead.grant() {
                let client = ClientId::from(KeyData::from_ffi(waiter.client));
                match waiter.worker == self.number {
                    true => self.permitted(client, permit),
                    false => self.mail(waiter.worker, Message::Permit(client, permit)),
                }
            }
        }
        self.bulkheads = bulkheads;
    }

    fn waiter(&self, id: ClientId) -> Waiter {
        Waiter {
            worker: self.number,
            client: id.data().as_ffi(),
        }
    }

    /// Collects the bulkheads of the rules in force.
    pub(super) fn settle_bulkheads(&mut self) {
        self.bulkheads = self.global.bulkheads();
    }

    /// Ends the wait of a client that cancels its request. True if it has waited.
    pub(super) fn cancel_throttled(&mut self, id: ClientId) -> bool {
        let client = self.tables.clients.must_get_mut(id);
        let throttled = client.filter(|client| client.is_throttled());
        let throttled = throttled.and_then(|client| client.throttled.take());
        self.leave_throttle(id, throttled)
    }
}
