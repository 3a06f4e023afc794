//! Serving clients: the hot path, and transfers of servers between lanes.

use crate::action::Checkin;
use crate::action::Checkout;
use crate::action::CloseReason;
use crate::action::Ticket;
use crate::moment::ClientId;
use crate::moment::Moment;
use crate::moment::ServerId;
use crate::shard::Entry;
use crate::shard::Shard;
use crate::shard::State;
use crate::shared::Delivery;
use crate::shared::Permit;
use crate::shared::Transfer;
use crate::shared::older_than;
use crate::want::Want;

impl Shard {
    /// Requests a server for a client.
    pub fn checkout(&mut self, now: Moment, client: ClientId, want: Want) -> Checkout {
        self.checkout_since(now, client, want, now)
    }

    /// Requests a server for a client that has been waiting since `since`, because its server died or failed the check
    /// before it was used. In the queue it gets the place that its waiting time gives it.
    pub fn checkout_since(
        &mut self,
        now: Moment,
        client: ClientId,
        want: Want,
        since: Moment,
    ) -> Checkout {
        self.see(now);
        if self.shared.is_paused() {
            self.close_paused();
            return Checkout::Queued(self.queue.push(client, want, since.min(now)));
        }
        if let Some(server) = self.take_idle(client, want) {
            return self.grant(now, client, server);
        }
        if self.shared.is_failing(now) {
            self.probe(now);
            return Checkout::FailFast;
        }
        let ticket = self.queue.push(client, want, since.min(now));
        self.serve_queue(now);
        Checkout::Queued(ticket)
    }

    /// Removes a waiter that was cancelled, disconnected, or timed out by the caller. False if it was no longer queued,
    /// that is, has been served or failed. O(log n).
    pub fn forget(&mut self, ticket: Ticket) -> bool {
        let found = self.queue.forget(ticket);
        if found {
            self.settle_claim();
            self.announce_wait();
        }
        found
    }

    /// Returns a server that is clean and ready.
    pub fn checkin(&mut self, now: Moment, server: ServerId) -> Checkin {
        self.see(now);
        let after_every_use = self.policy.lifetime.is_some_and(|life| life.is_zero());
        let Some(entry) = self.servers.get_mut(&server) else {
            debug_assert!(false, "check-in of a server that is not here");
            return Checkin::Close(CloseReason::Obsolete);
        };
        debug_assert!(
            matches!(entry.state, State::Active | State::Kept | State::Testing),
            "{:?}",
            entry.state
        );
        entry.used_at = now;
        if matches!(entry.state, State::Kept) {
            self.unkeep(server);
        }
        if after_every_use {
            self.begin_closing(server, CloseReason::Lifetime);
            self.unseat(server);
            return Checkin::Close(CloseReason::Lifetime);
        }
        self.place(now, server)
    }

    /// Marks the server as running a test (check or reset query); it counts as "tested" meanwhile.
    pub fn test_started(&mut self, server: ServerId) {
        self.unkeep(server);
        if let Some(entry) = self.servers.get_mut(&server) {
            debug_assert!(matches!(entry.state, State::Active | State::Testing));
            entry.state = State::Testing;
        }
    }

    /// Marks the test as over: the server is in use again.
    pub fn test_passed(&mut self, server: ServerId) {
        if let Some(entry) = self.servers.get_mut(&server) {
            debug_assert!(matches!(entry.state, State::Active | State::Testing));
            entry.state = State::Active;
        }
    }

    /// Removes a server from this shard, to be sent to the lane that `HandOver` or `asked` named. None if the server is
    /// not here or its login is not complete.
    pub fn detach(&mut self, server: ServerId) -> Option<Transfer> {
        let entry = self.servers.get(&server)?;
        if matches!(entry.state, State::Connecting(_) | State::Closing) {
            return None;
        }
        self.remove_idle(server);
        self.unkeep(server);
        let entry = self.servers.remove(&server)?;
        self.seated -= usize::from(entry.seat.is_some());
        let delivery = match entry.state {
            State::Leaving(delivery) => Some(delivery),
            _ => None,
        };
        let Entry {
            permit,
            alive,
            seat,
            started,
            expires,
            used_at,
            serial,
            users,
            ..
        } = entry;
        let transit = self.shared.depart();
        let users = users.elsewhere();
        Some(Transfer {
            permit,
            alive,
            delivery,
            seat,
            started,
            expires,
            used_at,
            serial,
            users,
            transit,
        })
    }

    /// Takes over a server that arrives from another lane; `server` is its name here.
    pub fn adopt(&mut self, now: Moment, server: ServerId, transfer: Transfer) -> Checkin {
        self.see(now);
        let Transfer {
            permit,
            alive,
            delivery,
            seat,
            started,
            expires,
            used_at,
            serial,
            users,
            transit,
        } = transfer;
        drop(transit);
        self.next_expiry = self.next_expiry.min(expires);
        let state = State::Active;
        let seat = seat.filter(|_| self.policy.limits_assigned);
        self.seated += usize::from(seat.is_some());
        self.insert(
            server,
            Entry {
                state,
                permit,
                alive,
                seat,
                started,
                expires,
                used_at,
                serial,
                users,
            },
        );
        let answer = self.place(now, server);
        // Not before: a lane that relies on this server would count it neither as coming nor as here.
        drop(delivery);
        self.wake |= self.shared.take_deferred();
        // The server has arrived, and waiters beyond it may need another one.
        self.serve_queue(now);
        match answer {
            Checkin::Assigned(client) if self.is_stale(now, used_at) => {
                self.test_started(server);
                Checkin::AssignedCheck(client)
            }
            other => other,
        }
    }

    /// Disposes of a server that cannot be adopted, because its socket broke on the way or the lane is gone. Call this
    /// on any shard of the pool. The places are returned, and the lane that expected the server looks again.
    pub fn lost(&mut self, now: Moment, transfer: Transfer) {
        self.see(now);
        let Transfer {
            permit,
            alive,
            delivery,
            seat,
            transit,
            ..
        } = transfer;
        drop((alive, delivery, seat, transit));
        let _ = permit.release();
        self.wake = true;
    }

    /// Answers another lane that asks for an idle server. Some: `detach` it and send it to that lane. None: drain
    /// [`Shard::poll`], since a kept server may come free, then refuse; that server goes to the longest waiter on its
    /// own.
    pub fn asked(&mut self, now: Moment, by_lane: usize) -> Option<ServerId> {
        self.see(now);
        // Without a seat an idle server is of no use to the other lane.
        let idle = self.idle.front().filter(|_| !self.is_out_of_seats());
        let Some((server, _)) = idle.copied() else {
            self.reclaim(1);
            return None;
        };
        let delivery = self.shared.deliver_to(by_lane)?;
        self.idle.pop_front();
        self.announce_idle();
        self.leave(server, delivery);
        Some(server)
    }

    /// Completes an [`Action::Ask`](crate::Action::Ask); `got` says that a server was adopted before.
    pub fn ask_answered(&mut self, now: Moment, got: bool) {
        self.see(now);
        self.asking = false;
        self.serve_queue_after(now, !got);
    }

    /// Places a free server: closes it, assigns it to the oldest waiter, or leaves it idle.
    pub(super) fn place(&mut self, now: Moment, server: ServerId) -> Checkin {
        let Some(entry) = self.servers.get(&server) else {
            return Checkin::Close(CloseReason::Obsolete);
        };
        if let Some(reason) = self.due(now, entry)
            && self.begin_closing(server, reason)
        {
            self.unseat(server);
            return Checkin::Close(reason);
        }
        if self.queue.is_empty() {
            return self.rest(now, server);
        }
        if !self.seat(server) {
            return self.rest_beside_waiters(now, server);
        }
        let makes_room = self.makes_room(server);
        let since = match makes_room {
            true => self.queue.head_since(),
            false => self.first_met_by(server),
        };
        let Some(since) = since else {
            let answer = self.rest(now, server);
            // Clients that wait for fresh servers may need the place of an idle one.
            self.serve_queue(now);
            return answer;
        };
        let older = older_than(since);
        if let Some(delivery) = self.shared.deliver_to_oldest(self.lane, older) {
            return self.hand_over(server, delivery);
        }
        if makes_room && self.begin_closing(server, CloseReason::NewSession) {
            self.unseat(server);
            return Checkin::Close(CloseReason::NewSession);
        }
        let Some(client) = self.pop_for(server, State::Active) else {
            return self.rest(now, server);
        };
        self.announce_wait();
        Checkin::Assigned(client)
    }

    pub(super) fn insert(&mut self, server: ServerId, entry: Entry) {
        let before = self.servers.insert(server, entry);
        debug_assert!(before.is_none(), "a server is added twice");
        // Room is made here so that no check-in allocates.
        let missing = self.servers.len().saturating_sub(self.idle.len());
        self.idle.reserve(missing);
    }

    /// Removes a server from the idle list; false if it is not idle.
    pub(super) fn remove_idle(&mut self, server: ServerId) -> bool {
        let is_idle = |entry: &Entry| matches!(entry.state, State::Idle);
        if !self.servers.get(&server).is_some_and(is_idle) {
            return false;
        }
        let place = self.idle.iter().position(|(other, _)| *other == server);
        let Some(place) = place else {
            return false;
        };
        self.idle.remove(place);
        self.announce_idle();
        true
    }

    /// Announces the server as idle, since no client that may use it waits here, and then looks for waiters of other
    /// lanes. The order matters; the module page of `shared` says why.
    fn rest(&mut self, now: Moment, server: ServerId) -> Checkin {
        self.lay_down(now, server);
        // Without a seat the server is of no use to waiters of other lanes: they are woken when the next seat is free.
        if !self.seat(server) {
            return Checkin::Idle;
        }
        let Some(delivery) = self.shared.deliver_to_oldest(self.lane, Moment::NEVER) else {
            self.unseat(server);
            return Checkin::Idle;
        };
        self.idle.pop_back();
        self.announce_idle();
        self.hand_over(server, delivery)
    }

    /// Adds a server to the idle list and announces it to the other lanes.
    pub(super) fn lay_down(&mut self, now: Moment, server: ServerId) {
        self.set_state(server, State::Idle);
        // Time stands still within a turn and may not run backwards between lanes.
        let since = self.idle.back().map_or(now, |(_, last)| now.max(*last));
        self.idle.push_back((server, since));
        self.announce_idle();
    }

    fn hand_over(&mut self, server: ServerId, delivery: Delivery) -> Checkin {
        let lane = delivery.lane;
        self.leave(server, delivery);
        Checkin::HandOver { lane }
    }

    fn leave(&mut self, server: ServerId, delivery: Delivery) {
        debug_assert!(
            delivery.lane != self.lane,
            "a server leaves for another lane"
        );
        self.set_state(server, State::Leaving(delivery));
    }

    pub(super) fn set_state(&mut self, server: ServerId, state: State) {
        if let Some(entry) = self.servers.get_mut(&server) {
            entry.state = state;
        }
    }

    fn take_idle(&mut self, client: ClientId, want: Want) -> Option<ServerId> {
        let server = self.idle_for(client, want)?;
        if self.policy.limits_assigned && (!self.queue.is_empty() || !self.seat(server)) {
            return None;
        }
        debug_assert!(
            self.next_for_waiters_here().is_none() || self.queue.is_empty(),
            "an idle server and a waiter that may use it in one shard"
        );
        match want {
            Want::Any if self.policy.round_robin => drop(self.idle.pop_front()),
            Want::Any => drop(self.idle.pop_back()),
            Want::Fresh(_) => return self.remove_idle(server).then_some(server),
        }
        self.announce_idle();
        Some(server)
    }

    /// True if a client that asks for any server now is given one at once.
    #[must_use]
    pub fn has_idle(&self) -> bool {
        let is_open = !self.policy.limits_assigned && !self.shared.is_paused();
        is_open && !self.idle.is_empty()
    }

    /// The idle server that is used next.
    pub(super) fn next_idle(&self) -> Option<(ServerId, Moment)> {
        if self.policy.round_robin {
            self.idle.front().copied()
        } else {
            self.idle.back().copied()
        }
    }

    fn grant(&mut self, now: Moment, client: ClientId, server: ServerId) -> Checkout {
        let Some(entry) = self.servers.get_mut(&server) else {
            debug_assert!(false, "an idle server is known");
            return Checkout::FailFast;
        };
        let used_at = entry.used_at;
        entry.state = State::Active;
        entry.users = entry.users.and(client);
        if self.is_stale(now, used_at) {
            self.set_state(server, State::Testing);
            return Checkout::Check(server);
        }
        Checkout::Granted(server)
    }

    pub(super) fn is_stale_server(&self, now: Moment, server: ServerId) -> bool {
        let entry = self.servers.get(&server);
        entry.is_some_and(|entry| self.is_stale(now, entry.used_at))
    }

    fn is_stale(&self, now: Moment, used_at: Moment) -> bool {
        now.since(used_at) >= self.policy.check_delay
    }

    /// True if this server's place is one of the reserve.
    #[must_use]
    pub fn is_reserve(&self, server: ServerId) -> bool {
        self.servers
            .get(&server)
            .is_some_and(|entry| Permit::is_reserve(&entry.permit))
    }
}
