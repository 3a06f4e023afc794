//! Stopping: no new clients are accepted, present clients may finish, and `drain_timeout` limits everything.
//!
//! A worker that has ended all its connections goes on with its messages until all workers have. Another one may have
//! sent it a client, a server or a question before it knew, and nobody else could take them out of its mailbox.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_config::PoolMode;
use weir_pool::Moment;
use weir_session::fault::Fault;

use super::Worker;
use super::ids::{ClientId, GroupId};
use super::slots::{Phase, Stage};
use super::timers::Timer;
use crate::console::Shutdown;
use crate::driver::Driver;
use crate::handover::Link;

/// Interval at which a draining worker without clients looks if others still need it.
const LOOK: Duration = Duration::from_millis(20);

/// State of this worker's ending.
#[derive(Default)]
pub(super) struct Ending {
    /// Shutdown in progress; an upgrade is one that waits for clients.
    how: Option<Shutdown>,
    /// Start of the shutdown, unless an upgrade caused it.
    since: Option<Moment>,
    /// Link to the process that takes over the clients.
    successor: Option<Arc<Link>>,
    /// Number of clients when the upgrade began.
    clients_before: usize,
    /// True once all clients that could move soon have moved; the others stay until they leave.
    is_settled: bool,
    is_over: bool,
}

impl Ending {
    /// Returns the shutdown in progress.
    pub(super) fn how(&self) -> Option<Shutdown> {
        self.how
    }

    /// True if a shutdown or an upgrade has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.how.is_some()
    }

    /// Returns the start of the shutdown, unless an upgrade caused it.
    pub(super) fn since(&self) -> Option<Moment> {
        self.since
    }

    /// Returns the link to the process that takes over the clients.
    pub(super) fn successor(&self) -> Option<&Arc<Link>> {
        self.successor.as_ref()
    }

    /// True if the worker has ended all its connections.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Begins a shutdown or changes its kind. Returns true if none was in progress.
    fn shut_down(&mut self, how: Shutdown, now: Moment) -> bool {
        let begins = self.how.replace(how).is_none();
        if begins {
            self.since = Some(now);
        }
        begins
    }

    /// Number of clients when the upgrade began.
    pub(super) fn clients_before(&self) -> usize {
        self.clients_before
    }

    /// True if what could move has moved.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Notes that what could move has moved.
    pub(super) fn settle(&mut self) {
        self.is_settled = true;
    }

    /// Begins to hand so many clients over to this process. Returns true if neither that nor a shutdown was in progress.
    pub(super) fn hand_over(&mut self, successor: Arc<Link>, clients: usize) -> bool {
        self.successor = Some(successor);
        self.clients_before = clients;
        self.how.replace(Shutdown::WaitForClients).is_none()
    }

    /// Hands no more clients over: the link has failed.
    pub(super) fn lose_successor(&mut self) {
        self.successor = None;
    }
}

impl<D: Driver> Worker<D> {
    pub(super) fn shut_down(&mut self, how: Shutdown) {
        if how == Shutdown::Now {
            self.driver.stop_accepting();
            return self.stop_now();
        }
        self.global.mirrors.stop();
        self.driver.stop_accepting_tcp();
        if self.ending.shut_down(how, self.now) {
            let limit = self.global.settled().settings.global.drain_timeout;
            self.timers.arm(self.now.plus(limit), Timer::Drain);
        }
        if how == Shutdown::WaitForServers {
            let ids: Vec<_> = self.tables.clients.iter().map(|(id, _)| id).collect();
            for id in ids {
                self.close_if_idle(id);
            }
        }
        self.finish_if_drained();
    }

    /// Ends a client that has nothing running, once clients are no longer waited for or its database is gone.
    pub(super) fn close_if_idle(&mut self, id: ClientId) {
        if self.ending.successor().is_some() {
            self.move_if_idle(id);
            return;
        }
        // An earlier step, such as the end of another client in a loop, may have ended this one.
        let Some(client) = self.tables.clients.get(id) else {
            return;
        };
        if matches!(client.phase, Phase::Console(_)) {
            return;
        }
        // A client that logs in has no pool yet.
        let is_removed = self
            .tables
            .groups
            .get(client.group)
            .is_some_and(|group| group.is_removed);
        let fault = match self.ending.how() {
            Some(Shutdown::WaitForServers) if client.ticket.is_some() => Fault::ServerShuttingDown,
            Some(Shutdown::WaitForServers) => Fault::ShuttingDown,
            _ if is_removed => Fault::DatabaseRemoved,
            _ => return,
        };
        let keeps_server = client
            .lease
            .and_then(|server| self.tables.servers.must_get(server));
        // A session in session pooling goes on until its client leaves. A pinned client whose server is free has nothing
        // running.
        let busy = match keeps_server {
            _ if client.is_replicating() => client.is_in_request(),
            Some(_) if self.is_session(client.group) && !is_removed => true,
            Some(server) => !server.session.is_free() || client.session.is_behind(),
            None => client.lease.is_some(),
        };
        if !busy && !matches!(client.phase, Phase::Cancelling) {
            self.fail_client(id, &fault);
        }
    }

    fn is_session(&self, group: GroupId) -> bool {
        let group = self.tables.groups.get(group);
        group.is_some_and(|group| group.settings.pool_mode == PoolMode::Session)
    }

    /// Ends what is left when its time is over.
    pub(super) fn drain_is_over(&mut self) {
        let left = self.tables.clients.len();
        if left > 0 && self.ending.successor().is_some() {
            tracing::warn!(
                "upgrade_drain_timeout: ending {left} clients that stayed with this process"
            );
        }
        self.stop_now();
    }

    /// Ends all clients and servers at once.
    pub(super) fn stop_now(&mut self) {
        self.ending.how = Some(Shutdown::Now);
        let ids: Vec<_> = self.tables.clients.iter().map(|(id, _)| id).collect();
        for id in ids {
            // The end of a client also ends the connections of cancels for it.
            if self.tables.clients.contains(id) {
                self.fail_client(id, &Fault::ShuttingDown);
            }
        }
        let ids: Vec<_> = self.tables.servers.iter().map(|(id, _)| id).collect();
        for id in ids {
            // The pool may have closed this server because of another one.
            if self.tables.servers.contains(id) {
                self.close_server(id, "pooler is shutting down");
            }
        }
        self.drop_cancels();
        self.leave_work();
    }

    /// Works again for a client that another worker has sent before it knew that this one was over.
    pub(super) fn return_to_work(&mut self) {
        if self.ending.is_over() {
            self.ending.is_over = false;
            self.global.workers.at_work.fetch_add(1, Ordering::SeqCst);
            self.timers.arm(self.now, Timer::Moving);
            // The time limit of the upgrade may have ended already.
            self.limit_stay();
        }
    }

    /// True if this worker and all others have ended their connections.
    pub(super) fn has_ended(&self) -> bool {
        self.ending.is_over() && self.global.workers.at_work.load(Ordering::SeqCst) == 0
    }

    /// Stops the worker if it is draining and its last client has left.
    pub(super) fn finish_if_drained(&mut self) {
        if !self.ending.has_begun() || self.ending.is_over() {
            return;
        }
        // Administrators on the console are not waited for, and keep it until clients of all workers have left.
        let mut clients = self.tables.clients.iter();
        if clients.any(|(_, client)| !matches!(client.phase, Phase::Console(_))) {
            return;
        }
        let is_needed = self.listening.is_needed() || self.questions.wait_elsewhere();
        if is_needed || self.is_last_to_go() {
            return self.timers.arm(self.now.plus(LOOK), Timer::Drained);
        }
        // A server that finishes requests of a client that left in order is waited for, too.
        let working = self
            .tables
            .servers
            .iter()
            .any(|(_, server)| matches!(server.stage, Stage::Cleaning | Stage::Parting));
        if !working {
            self.stop_now();
        }
    }

    /// True if this worker has to stay until clients on other workers have ended: worker 0 accepts administrators unless another
    /// process does, and any worker may have some. Called when this worker has no other clients.
    fn is_last_to_go(&self) -> bool {
        let loads = self.global.workers.loads.iter();
        let everybody: usize = loads.map(|load| load.load(Ordering::Relaxed)).sum();
        let have_clients = everybody > self.global.limits.open_consoles.used();
        let accepts = self.number == 0 && self.ending.successor().is_none();
        (accepts || !self.tables.clients.is_empty()) && have_clients
    }
}

impl<D> Worker<D> {
    /// Counts this worker as one without connections. The last one wakes the others, which wait for it.
    fn leave_work(&mut self) {
        let was_over = std::mem::replace(&mut self.ending.is_over, true);
        if !was_over && self.global.workers.at_work.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.global.wake_all();
        }
    }
}

impl<D> Drop for Worker<D> {
    /// The other workers do not wait for one whose thread has failed.
    fn drop(&mut self) {
        self.leave_work();
    }
}
