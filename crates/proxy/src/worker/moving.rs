//! The online upgrade, on both sides: clients that have nothing running go to the next process with their sessions.
//! There they continue as if they had always been there.
//!
//! A client leaves the driver first. Its socket is sent while this process still holds it, and the process closes its
//! copy only when the packet has been handed over. A client that cannot be sent goes back to the driver and loses
//! nothing. Bytes that the client sends meanwhile stay in its socket.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slotmap::Key as _;
use weir_auth::secret::Secret;
use weir_session::client::Client as Session;
use weir_session::fault::Fault;
use weir_session::settings::Reported;
use weir_stats::Endpoint;

use super::Worker;
use super::client::Leaving;
use super::ids::{ClientId, LaneId};
use super::routing::Route;
use super::server::REPORTED_MAX;
use super::slots::{Client, Phase, Stage};
use super::timers::Timer;
use crate::clock;
use crate::driver::{Driver, Key, Owner};
use crate::global::{GlobalGroup, lock};
use crate::handover::{Link, LinkError, LinkMessage, Moved, Proofs};
use crate::listen::Accepted;
use crate::neighbours::Side;
use crate::socket::Stream;

/// Interval between two checks of clients that could not move yet.
const AGAIN: Duration = Duration::from_millis(10);
/// Interval once only clients are left that may stay for hours.
const SELDOM: Duration = Duration::from_secs(1);
/// Maximum number of clients that begin to move in one such check: a full link takes no more of them.
const MOVES_MAX: usize = 256;

/// Client that has come from the process before this one.
pub(crate) struct Arrival {
    pub(crate) moved: Box<Moved>,
    pub(crate) stream: Stream,
}

impl<D: Driver> Worker<D> {
    // --- the old process ---

    /// Starts moving clients to the next process, which accepts clients by now. Clients move as soon as they have
    /// nothing running, unless they leave before.
    pub(super) fn begin_moving(&mut self, link: Arc<Link>) {
        self.driver.stop_accepting();
        if self.ending.hand_over(link, self.tables.clients.len()) {
            let settled = self.global.settled().settings.global.drain_timeout;
            self.timers.arm(self.now.plus(settled), Timer::Stay);
            self.limit_stay();
        }
        let moves = self.move_some(usize::MAX);
        let stay = self.tables.clients.len() - moves;
        let with_tls = self.tables.clients.iter();
        let with_tls = with_tls.filter(|(_, client)| client.identity.tls.is_some());
        tracing::info!(
            "worker {}: {stay} clients stay with this process until they are idle; {} of them use TLS and stay until they leave",
            self.number,
            with_tls.count()
        );
        self.finish_if_drained();
    }

    /// Limits the time that clients may stay with this process.
    pub(super) fn limit_stay(&mut self) {
        if let Some(limit) = self.global.settled().settings.global.upgrade_drain_timeout {
            self.timers.arm(self.now.plus(limit), Timer::Drain);
        }
    }

    /// Tells the next process how many clients stay here until they leave.
    pub(super) fn tell_who_stays(&mut self) {
        self.ending.settle();
        let clients = self.tables.clients.iter().map(|(_, client)| client);
        let clients = clients.filter(|client| !matches!(client.phase, Phase::Console(_)));
        let (clients, with_tls) = clients.fold((0, 0), |(clients, with_tls), client| {
            let has_tls = client.identity.tls.is_some();
            (clients + 1, with_tls + usize::from(has_tls))
        });
        let (succession, workers) = (&self.global.succession, self.global.workers.loads.len());
        let stay = succession.staying.count(clients, with_tls, workers);
        let Some(stay) = stay.filter(|stay| stay.clients > 0) else {
            return;
        };
        tracing::info!(
            "upgrade: {} clients stay with this process until they leave, {} of them with TLS",
            stay.clients,
            stay.with_tls
        );
        let neighbours = &succession.neighbours;
        neighbours.report(Side::Newer, LinkMessage::Stay(stay));
    }

    /// Moves clients that could not move before.
    pub(super) fn move_more(&mut self) {
        self.move_some(MOVES_MAX);
    }

    /// Begins to move up to `max` of the clients that can move now. Returns their number.
    fn move_some(&mut self, max: usize) -> usize {
        let ids: Vec<_> = self.tables.clients.iter().map(|(id, _)| id).collect();
        let mut moves = 0;
        for id in ids {
            if moves < max && self.move_if_idle(id) {
                moves += 1;
            }
        }
        self.close_spare_servers();
        self.global.succession.neighbours.tell();
        if !self.tables.clients.is_empty() && !self.ending.is_over() {
            let pause = if self.ending.is_settled() {
                SELDOM
            } else {
                AGAIN
            };
            self.timers.arm(self.now.plus(pause), Timer::Moving);
        }
        moves
    }

    /// Closes idle servers as soon as no client waits for one, to make room for the next process's servers. Clients that
    /// stay keep the part of their pool that is theirs by number.
    fn close_spare_servers(&mut self) {
        if self
            .tables
            .clients
            .iter()
            .any(|(_, client)| client.ticket.is_some())
        {
            return;
        }
        let mut shares = self.shares();
        let mut spare = Vec::new();
        for (id, server) in &self.tables.servers {
            let share = shares.entry(server.lane).or_default();
            let has_room = *share > 0;
            *share = share.saturating_sub(1);
            if !has_room && matches!(server.stage, Stage::Idle) {
                spare.push(id);
            }
        }
        for id in spare {
            // The pool may have closed this server because of another one.
            if let Some(server) = self.tables.servers.get(id) {
                let lane = server.lane;
                self.close_server(id, "moved to the next process");
                self.pump(lane);
            }
        }
    }

    /// Returns the number of servers that clients here may keep, by lane: the part of the pool's size that these clients are
    /// of all at the beginning of the upgrade, at least one.
    fn shares(&self) -> HashMap<LaneId, usize> {
        let mut clients = HashMap::new();
        for (_, client) in &self.tables.clients {
            if self.tables.groups.contains(client.group) {
                *clients.entry(client.lane).or_default() += 1;
            }
        }
        let before = self.ending.clients_before().max(1);
        let share = |(id, clients): (LaneId, usize)| {
            let lane = self.tables.lanes.get(id)?;
            let size = self.tables.groups.get(lane.group)?.settings.pool_size as usize;
            Some((id, (size * clients).div_ceil(before).min(clients)))
        };
        clients.into_iter().filter_map(share).collect()
    }

    /// Begins to move a client to the next process, if it has nothing running and no state that cannot move. Returns
    /// true if it does.
    pub(super) fn move_if_idle(&mut self, id: ClientId) -> bool {
        if self.ending.successor().is_none() {
            return false;
        }
        let moved = self.portrait(id);
        // A session that is too large never moves.
        let fits = moved.is_some_and(|moved| LinkMessage::Client(Box::new(moved)).fits());
        let client = self
            .tables
            .clients
            .get(id)
            .filter(|client| fits && !client.key.is_null());
        let Some(client) = client else {
            return false;
        };
        self.driver.begin_detach(client.key);
        true
    }

    /// Sends a client that is out of the driver to the next process. A client that is not idle any more, or that the
    /// link does not take, goes on here.
    pub(super) fn client_detached(&mut self, id: ClientId, stream: Stream) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        client.key = Key::null();
        if stream.received.is_empty() && self.send_to_next(id, &stream) {
            // The next process has a copy of the socket.
            drop(stream);
            return self.remove_client(id, Leaving::Orderly, "moved to the next process");
        }
        match self.driver.add(stream, Owner::Client(id)) {
            Ok(key) => {
                if let Some(client) = self.tables.clients.must_get_mut(id) {
                    client.key = key;
                }
            }
            Err(error) => {
                let reason = format!("client connection lost: {error}");
                self.remove_client(id, Leaving::Lost, &reason);
            }
        }
    }

    /// Sends a client with its socket to the next process. Returns false if that cannot be done now.
    fn send_to_next(&mut self, id: ClientId, stream: &Stream) -> bool {
        let moved = self.portrait(id);
        let (Some(link), Some(moved), Some(socket)) = (
            self.ending.successor().cloned(),
            moved,
            stream.socket.descriptor(),
        ) else {
            return false;
        };
        match link.send(&LinkMessage::Client(Box::new(moved)), Some(socket)) {
            Ok(()) => return true,
            // The other side is slow, or the session has become too large: the client moves later, or never.
            Err(LinkError::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(LinkError::TooLong) => {}
            Err(error) => {
                tracing::error!("upgrade: cannot move clients to the next process: {error}");
                self.ending.lose_successor();
            }
        }
        false
    }

    /// Returns all that another process has to know of a client. None while the client cannot move.
    fn portrait(&mut self, id: ClientId) -> Option<Moved> {
        let place = self.place_of(id);
        let is_between = |client: &Client| client.lease.is_none() && client.ticket.is_none();
        if self.tables.clients.get(id).is_some_and(is_between) {
            self.come_home(id);
        }
        // An earlier step, such as the end of another client in a loop, may have ended this one.
        let client = self.tables.clients.get_mut(id)?;
        let is_idle = matches!(client.phase, Phase::Ready)
            && client.lease.is_none()
            && client.ticket.is_none()
            && client.input.is_empty()
            && self.driver.reasons(client.key).is_empty()
            && !client.stalled
            && client.subscriber.is_none()
            && client.pinned.is_none()
            && client.identity.tls.is_none()
            && self.driver.unsent(client.key) == 0;
        if !is_idle {
            return None;
        }
        let group = self.tables.groups.must_get(client.group)?;
        let identity = &client.identity;
        let cancel_key = self.global.cancel_key(identity.cancel_pid, place)?;
        Some(Moved {
            user: identity.user.to_string(),
            database: identity.database.to_string(),
            remote: (identity.remote.address.clone(), identity.remote.port),
            local: (identity.local.address.clone(), identity.local.port),
            remote_pid: identity.remote_pid,
            remote_uid: identity.remote_uid,
            is_loopback: identity.is_loopback,
            age_us: self.now.0.saturating_sub(identity.connected_at.0),
            long_key: identity.long_key,
            cancel_pid: identity.cancel_pid,
            cancel_key: cancel_key.expose().to_vec(),
            session: client.session.export()?,
            wrote: (group.routing.as_ref())
                .map(|_| Route::wrote(client.route.as_deref(), self.now)),
            proofs: proofs(&group.global),
            sent_us: clock::machine_us(),
        })
    }

    // --- the new process ---

    /// Takes over a client from the process before this one; it is already counted in the load.
    pub(super) fn arrived(&mut self, arrival: Arrival) {
        let Arrival { moved, stream } = arrival;
        let endpoint = |(address, port): &(String, u16)| Endpoint {
            address: address.clone(),
            port: *port,
        };
        let added = self.welcome_socket(Accepted {
            stream,
            remote: endpoint(&moved.remote),
            local: endpoint(&moved.local),
            is_loopback: moved.is_loopback,
            remote_pid: moved.remote_pid,
            remote_uid: moved.remote_uid,
        });
        let Some(id) = added.filter(|id| self.tables.clients.contains(*id)) else {
            return;
        };
        let sent_us = moved.sent_us;
        self.arm_client(id, None);
        match self.settle_arrival(id, &moved) {
            Ok(()) => {
                let pause = clock::machine_us().saturating_sub(sent_us);
                self.global
                    .succession
                    .arrivals
                    .count
                    .fetch_add(1, Ordering::Relaxed);
                let longest = &self.global.succession.arrivals.longest_us;
                longest.fetch_max(pause, Ordering::Relaxed);
            }
            Err(fault) => self.fail_client(id, &fault),
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Gives a client that has arrived its former state, as far as this configuration allows.
    fn settle_arrival(&mut self, id: ClientId, moved: &Moved) -> Result<(), Fault> {
        let settled = self.global.settled();
        let port = moved.local.1;
        let mode = settled.settings.pool_mode_of_port(port);
        let settings = (settled.settings).pool_in(&moved.database, &moved.user, mode);
        let settings = settings.ok_or_else(|| Fault::NoDatabase(moved.database.clone()))?;
        let (in_database, of_user) = self.global.client_quotas(&settings, &moved.user);
        let max = Fault::TooManyClients;
        let everybody = self.global.limits.clients.try_enter();
        let everybody = everybody.ok_or_else(|| max("max_client_conn"))?;
        let in_database = in_database.try_enter();
        let in_database = in_database.ok_or_else(|| max("max_db_client_connections"))?;
        let of_user = of_user.try_enter();
        let of_user = of_user.ok_or_else(|| max("max_user_client_connections"))?;
        let pool = self
            .global
            .pool_of_port(settings, port)
            .map_err(|_| max("max_pools"))?;
        leave_proofs(&pool.group, &moved.proofs);
        // The process before has used them: clients wait for them if they are gone now.
        pool.shared.trust_hosts();
        let ((group_id, lane_id), place) = (self.lane_of(&pool), self.place_of(id));
        let (Some(client), Some(group)) = (
            self.tables.clients.must_get_mut(id),
            self.tables.groups.must_get_mut(group_id),
        ) else {
            return Ok(());
        };
        let guards = &mut client.identity.guards;
        guards.client = Some(everybody);
        guards.database = Some(in_database);
        guards.user = Some(of_user);
        client.session = Session::import(
            &moved.session,
            &mut self.tables.registry,
            &pool.group.proven,
        );
        client.session.set_number(client.id);
        share_reported(&mut client.session, &mut group.reported);
        identify(client, moved, self.now);
        self.tables.applications.name(client);
        (client.group, client.lane) = (group_id, lane_id);
        client.route = group.routing.as_ref().map(|routing| {
            let on_the_way = clock::machine_us().saturating_sub(moved.sent_us);
            let route = Route::arrived(self.global.clock.now(), moved.wrote, on_the_way);
            // Reads of other sessions may have to see these commits as well.
            routing.note_earlier_write(&route);
            route
        });
        group.clients += 1;
        let timer = group.has_timeouts.then_some(self.now);
        let key = Secret::new(moved.cancel_key.clone());
        if self.global.register(moved.cancel_pid, key, place) {
            client.identity.cancel_pid = moved.cancel_pid;
        }
        self.arm_client(id, timer);
        self.tables.count_clients(self.now, group_id);
        self.arm_sizing(lane_id);
        self.pump(lane_id);
        Ok(())
    }
}

/// Shares equal sets of reported values: thousands of clients were told the same, and need no copy each.
fn share_reported(session: &mut Session, known: &mut Vec<Arc<Reported>>) {
    match known.iter().find(|known| ***known == **session.reported()) {
        Some(known) => session.share_reported(known),
        None if known.len() < REPORTED_MAX => known.push(Arc::clone(session.reported())),
        None => {}
    }
}

fn identify(client: &mut Client, moved: &Moved, now: weir_pool::Moment) {
    client.phase = Phase::Ready;
    let identity = &mut client.identity;
    identity.user = moved.user.as_str().into();
    identity.database = moved.database.as_str().into();
    identity.long_key = moved.long_key;
    identity.connected_at = weir_pool::Moment(now.0.saturating_sub(moved.age_us));
}

/// Returns the secrets that the pool's clients have left for our logins.
fn proofs(group: &GlobalGroup) -> Proofs {
    let pass_through = lock(&group.pass_through);
    Proofs::new(pass_through.as_ref(), lock(&group.learnt).as_ref())
}

/// Stores such secrets in a pool of ours, unless a client has left newer ones.
fn leave_proofs(group: &GlobalGroup, proofs: &Proofs) {
    group.take_proofs(proofs.pass_through(), proofs.learnt());
}
