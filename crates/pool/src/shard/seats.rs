//! The limit on assigned servers. A server gets a seat when it is assigned to a client, and keeps it when it passes to
//! the next client. It gives the seat up only if no client waits or the limit has fallen. Pools without such a limit
//! have no seats and pay one look at their policy.

use crate::action::Action;
use crate::action::Checkin;
use crate::moment::Moment;
use crate::moment::ServerId;
use crate::shard::Shard;
use crate::shard::State;
use crate::shared::older_than;

/// Use of the pool on this lane since the shard began, if assigned servers are limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Assigned servers, integrated over time: server-microseconds.
    pub in_use_us: u64,
    /// Clients in the queue, integrated over time: client-microseconds.
    pub waiting_us: u64,
}

impl Shard {
    /// Returns the use up to now.
    pub fn usage(&mut self, now: Moment) -> Usage {
        self.see(now);
        self.usage
    }

    /// Number of assigned servers of this lane; 0 if assigned servers are not limited.
    #[must_use]
    pub const fn assigned(&self) -> usize {
        self.seated
    }

    pub(super) fn integrate(&mut self, now: Moment) {
        let passed = now.0.saturating_sub(self.last.0);
        let add = |count: usize| passed.saturating_mul(count as u64);
        self.usage.in_use_us += add(self.seated);
        self.usage.waiting_us += add(self.queue.len());
    }

    /// Takes a seat for this server. True if it may be assigned now, which is always so without a limit.
    pub(super) fn seat(&mut self, server: ServerId) -> bool {
        if !self.policy.limits_assigned {
            return true;
        }
        let Some(entry) = self.servers.get_mut(&server) else {
            return false;
        };
        if let Some(seat) = entry.seat.take() {
            entry.seat = seat.renewed();
            self.seated -= usize::from(entry.seat.is_none());
            if entry.seat.is_some() {
                return true;
            }
        }
        entry.seat = self.shared.take_seat();
        self.seated += usize::from(entry.seat.is_some());
        entry.seat.is_some()
    }

    /// Gives up this server's seat: it is no longer assigned.
    pub(super) fn unseat(&mut self, server: ServerId) {
        if !self.policy.limits_assigned {
            return;
        }
        let entry = self.servers.get_mut(&server);
        if let Some(seat) = entry.and_then(|entry| entry.seat.take()) {
            self.seated -= 1;
            self.wake |= seat.release();
        }
    }

    /// True if no seat is free: clients then wait until a server is released, even beside idle servers.
    pub(super) fn is_out_of_seats(&self) -> bool {
        self.policy.limits_assigned && !self.shared.has_seat()
    }

    /// Assigns idle servers to waiters, as far as seats are free. True if the rest of the queue needs servers that are
    /// not on this lane; false if it waits for seats or for its turn.
    pub(super) fn seat_waiters(&mut self, now: Moment) -> bool {
        while let Some(server) = self.next_for_waiters_here()
            && let Some(since) = self.first_met_by(server)
        {
            let gives_way = self.policy.limits_assigned && self.gives_way(since);
            if gives_way || !self.seat(server) {
                return false;
            }
            self.remove_idle(server);
            let check = self.is_stale_server(now, server);
            let state = if check { State::Testing } else { State::Active };
            let Some(client) = self.pop_for(server, state) else {
                debug_assert!(false, "a waiter may use the server");
                return false;
            };
            self.actions.push_back(Action::Assign {
                client,
                server,
                check,
            });
        }
        self.announce_wait();
        if self.queue.is_empty() || !self.policy.limits_assigned {
            return true;
        }
        self.shared.look_for_seat()
    }

    /// Leaves a free seat to the oldest waiter, whose lane is awake for the reasons given at `yield_to_older`.
    fn gives_way(&self, since: Moment) -> bool {
        let before = older_than(since);
        if !self.shared.has_older_waiter(self.lane, before) {
            return false;
        }
        self.shared.defer();
        self.shared.has_older_waiter(self.lane, before)
    }

    /// Keeps a server idle beside waiters, because they have no seat.
    pub(super) fn rest_beside_waiters(&mut self, now: Moment, server: ServerId) -> Checkin {
        self.lay_down(now, server);
        Checkin::Idle
    }

    /// Starts or stops counting assigned servers, after a change of the policy.
    pub(super) fn count_assigned(&mut self) {
        let is_limited = self.policy.limits_assigned;
        for entry in self.servers.values_mut() {
            let is_assigned = matches!(
                entry.state,
                State::Active | State::Kept | State::Testing | State::Leaving(_)
            );
            if !is_limited {
                if let Some(seat) = entry.seat.take() {
                    self.wake |= seat.release();
                }
            } else if is_assigned && entry.seat.is_none() {
                entry.seat = Some(self.shared.take_seat_anyway());
            }
        }
        let seated = self.servers.values().filter(|entry| entry.seat.is_some());
        self.seated = seated.count();
    }
}
