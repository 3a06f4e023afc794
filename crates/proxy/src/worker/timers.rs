//! Deadlines of clients, servers and pools. A transaction in steady state arms none.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_pool::Moment;
use weir_session::fault::Fault;

use super::Worker;
use super::ids::{CancellerId, ClientId, LaneId, ServerId};
use super::replication::PARTED;
use super::slots::{Phase, Stage};
use super::tables::Tables;
use crate::driver::Driver;

/// Purpose of a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    CancelAgain(ServerId),
    Canceller(CancellerId),
    Client(ClientId),
    Drain,
    Drained,
    Flush,
    Hold(ClientId),
    House,
    Moving,
    Orders,
    Outbox,
    Lane(LaneId),
    OwnedLane(LaneId),
    Pin(ClientId),
    Server(ServerId),
    Sizing,
    Stats,
    Stay,
    Throttle(ClientId),
    Watch(ServerId),
}

/// Deadlines in order.
#[derive(Debug, Default)]
pub(super) struct Timers {
    set: BTreeSet<(Moment, Timer)>,
}

impl Timers {
    pub(super) fn next(&self) -> Option<Moment> {
        self.set.first().map(|(at, _)| *at)
    }

    pub(super) fn arm(&mut self, at: Moment, timer: Timer) {
        self.set.insert((at, timer));
    }

    pub(super) fn disarm(&mut self, at: Moment, timer: Timer) {
        self.set.remove(&(at, timer));
    }

    fn due(&mut self, now: Moment) -> Option<Timer> {
        let first = *self.set.first().filter(|(at, _)| *at <= now)?;
        self.set.remove(&first);
        Some(first.1)
    }
}

impl<D: Driver> Worker<D> {
    pub(super) fn run_timers(&mut self) {
        while let Some(timer) = self.timers.due(self.now) {
            match timer {
                Timer::CancelAgain(id) => self.cancel_again(id),
                Timer::Canceller(id) => self.cancel_over(id, false),
                Timer::Client(id) => self.client_timer(id),
                Timer::Drain => self.drain_is_over(),
                Timer::Drained => self.finish_if_drained(),
                Timer::Flush => self.flush_suspended(),
                Timer::Hold(id) => self.route_waiter_again(id),
                Timer::Moving => self.move_more(),
                Timer::Orders => self.look_at_orders(),
                Timer::Stay => self.tell_who_stays(),
                Timer::Outbox => self.send_outboxes(),
                Timer::Lane(id) => self.lane_timer(id),
                Timer::OwnedLane(id) => self.drop_owned_lane(id),
                Timer::Pin(id) => self.pin_timer(id),
                Timer::Server(id) => self.server_timer(id),
                Timer::Sizing => self.sizing_timer(),
                Timer::House => self.keep_house(),
                Timer::Stats => self.stats_timer(),
                Timer::Throttle(id) => self.throttle_timer(id),
                Timer::Watch(id) => self.watch_timer(id),
            }
        }
    }

    /// Sets a client's only timer.
    pub(super) fn arm_client(&mut self, id: ClientId, at: Option<Moment>) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        if client.timer == at {
            return;
        }
        if let Some(old) = std::mem::replace(&mut client.timer, at) {
            self.timers.disarm(old, Timer::Client(id));
        }
        if let Some(at) = at {
            self.timers.arm(at, Timer::Client(id));
        }
    }

    /// Sets a server's only timer.
    pub(super) fn arm_server(&mut self, id: ServerId, after: Option<Duration>) {
        let at = after.map(|after| self.now.plus(after));
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        if let Some(old) = std::mem::replace(&mut server.timer, at) {
            self.timers.disarm(old, Timer::Server(id));
        }
        if let Some(at) = at {
            self.timers.arm(at, Timer::Server(id));
        }
    }

    fn client_timer(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.timer = None;
        match client.phase {
            Phase::Ready => self.check_client_times(id),
            // None of these times limits a replication connection: its streams last.
            Phase::Console(_) | Phase::Replicating(_) => {}
            Phase::AwaitingHeader
            | Phase::Opening(_)
            | Phase::Securing(_)
            | Phase::Authenticating(_)
            | Phase::Cancelling
            | Phase::SeekingWalsender(_)
            | Phase::Welcome => self.login_time_over(id),
        }
    }

    /// Checks the client timeouts (part 1.6). Each is checked when the first of them could be over, and again from then
    /// on, so that requests need not touch the timers.
    fn check_client_times(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get(id) else {
            return;
        };
        let Some(group) = self.tables.groups.must_get(client.group) else {
            return;
        };
        let settings = &group.settings;
        let server = client
            .lease
            .and_then(|server| self.tables.servers.must_get(server));
        let busy = server.is_some_and(|server| server.session.is_busy());
        // A pinned client has its server between transactions, too.
        let at_work = server.is_some_and(|server| !server.session.is_free());
        let waits = client.ticket.is_some() || client.is_throttled();
        let idle = !at_work && !waits;
        let checks = [
            (
                settings.query_timeout,
                busy,
                client.request_at,
                Fault::QueryTimeout,
            ),
            (
                settings.query_timeout,
                waits,
                client.request_at,
                Fault::QueryTimeoutWaiting,
            ),
            (
                settings.transaction_timeout,
                at_work,
                client.transaction_at,
                Fault::TransactionTimeout,
            ),
            (
                settings.idle_transaction_timeout,
                at_work && !busy,
                client.replied_at,
                Fault::IdleTransactionTimeout,
            ),
            (
                settings.client_idle_timeout,
                idle,
                client.request_at,
                Fault::ClientIdleTimeout,
            ),
        ];
        let mut next = None;
        for (timeout, applies, since, fault) in checks {
            let Some(timeout) = timeout else { continue };
            let over = if applies {
                since.plus(timeout)
            } else {
                self.now.plus(timeout)
            };
            if over <= self.now {
                return self.fail_client(id, &fault);
            }
            next = Some(next.map_or(over, |next: Moment| next.min(over)));
        }
        self.arm_client(id, next);
    }

    fn server_timer(&mut self, id: ServerId) {
        let Some(server) = self.tables.servers.must_get_mut(id) else {
            return;
        };
        server.timer = None;
        if server.stage.is_beginning() {
            if !self.look_up_is_late(id) {
                self.login_timed_out(id);
            }
            return;
        }
        match server.stage {
            Stage::Testing(test) => {
                self.gave_up_looking(id, test);
                self.close_server(id, test.failure());
            }
            Stage::Cleaning => self.clean_on(id),
            Stage::Listening(listener) => self.check_listener(id, listener),
            Stage::BeingCancelled => self.close_server(id, "cancel_wait_timeout"),
            Stage::Moving(_) => self.close_server(id, "cannot be handed over"),
            Stage::Parting => self.close_server(id, PARTED),
            Stage::Leased => drop(self.release_kept(id)),
            _ => {}
        }
    }

    fn lane_timer(&mut self, id: LaneId) {
        let Some(lane) = self.tables.lanes.must_get_mut(id) else {
            return;
        };
        lane.tick = None;
        lane.shard.tick(self.now);
        self.pump(id);
    }

    pub(super) fn arm_stats(&mut self) {
        let period = self.global.settled().settings.global.stats_period;
        self.timers.arm(self.now.plus(period), Timer::Stats);
    }

    fn stats_timer(&mut self) {
        for (_, group) in &mut self.tables.groups {
            let [last, _] = group.period;
            group.period = [group.counters, last];
            if let Some(timing) = &mut group.timing {
                timing.begin_period();
            }
        }
        self.console.begin_period();
        self.stalls.begin_period();
        self.log_stats();
        self.tables.give_back();
        self.arm_stats();
    }
}

impl Tables {
    /// Frees memory that bursts of statements took. Visits each client, server and statement.
    fn give_back(&mut self) {
        for (_, client) in &mut self.clients {
            client.session.give_back();
        }
        for (_, server) in &mut self.servers {
            server.session.give_back();
        }
        self.registry.give_back();
    }
}
