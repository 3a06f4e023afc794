//! Cancel requests: from a client to the server that works for it, and to nobody else (hazard COR-24).
//!
//! A server that a cancel is on its way to is not given to another client before the cancel's connection is closed by
//! PostgreSQL and an empty query has been answered: by then the signal has arrived.

use std::sync::Arc;
use std::time::Duration;

use slotmap::Key as _;
use weir_pool::{Entered, Moment};
use weir_session::fault::Fault;
use weir_stats::Blame;
use weir_stats::Endpoint;
use weir_wire::encode;

use super::client::Leaving;
use super::ids::{CancellerId, ClientId, ServerId};
use super::secure::Securing;
use super::slots::{Phase, Stage, Test};
use super::timers::Timer;
use super::{Missing, Worker};
use crate::driver::{Driver, Key, Owner};
use crate::global::Place;
use crate::listen::Accepted;
use crate::mailbox::CancelFrom;
use crate::socket::{Stream, Target};
use crate::transport::Outgoing;

/// Cancels on their way at once, per worker; more are dropped, as PostgreSQL drops what it cannot deliver (SEC-66).
const CANCELS_MAX: usize = 128;

/// Cancels on their way to one server at once; more are dropped. A client waits for the end of a cancel before it sends
/// another, so only one that floods comes here.
const SERVER_CANCELS_MAX: u32 = 4;

/// PostgreSQL ignores a cancel that comes before it has read the query, and a client sends one only once. Behind a pool that
/// happens: a client may get its server in the moment in which it gives up. So a cancel of a query that is younger than
/// this ...
const CANCEL_FRESH: Duration = Duration::from_millis(200);
/// ... is sent once more if so much later the same query still runs.
const CANCEL_AGAIN: Duration = Duration::from_millis(200);

/// Source of a cancel request, which is told when the request is over.
#[derive(Debug, Clone, Copy)]
pub(super) enum CancelAsker {
    /// A connection of this worker, which is closed then.
    Here(ClientId),
    /// A connection of the other process of an upgrade.
    Neighbour(Place),
}

/// A cancel request that waits until the server works on what it is for: a request of ours comes first.
pub(super) struct HeldCancel {
    asker: Option<CancelAsker>,
}

/// How far a cancel has come.
pub(super) enum Carrying {
    /// The connection is being made.
    Connecting,
    /// It was asked for TLS.
    Negotiating,
    /// Its TLS handshake is going on.
    Securing(Box<Securing>),
    /// The request is on its way.
    Sent,
}

/// Who gets a cancel request.
pub(super) enum Errand {
    /// A pooler beside this one, the request as it is, and a place among the connections to it.
    Peer {
        peer_id: u32,
        message: Vec<u8>,
        #[expect(dead_code, reason = "held for its drop")]
        place: Entered,
    },
    /// The host of a server of ours.
    Server(ServerId),
}

/// A connection that carries a cancel request.
pub(super) struct Canceller {
    pub(super) key: Key,
    pub(super) id: u64,
    pub(super) carrying: Carrying,
    pub(super) target: Target,
    /// The protection of the query that it is for.
    pub(super) tls: Option<Arc<Outgoing>>,
    errand: Errand,
    /// The connection that asked, closed when this is over.
    asker: Option<CancelAsker>,
    began_at: Moment,
    until: Moment,
}

impl Canceller {
    /// The server that it is for, if it is not for a peer.
    pub(super) fn server(&self) -> Option<ServerId> {
        match self.errand {
            Errand::Peer { .. } => None,
            Errand::Server(server) => Some(server),
        }
    }

    /// The peer that it is for.
    pub(super) fn peer(&self) -> Option<u32> {
        match self.errand {
            Errand::Peer { peer_id, .. } => Some(peer_id),
            Errand::Server(_) => None,
        }
    }

    pub(super) fn is_sent(&self) -> bool {
        matches!(self.carrying, Carrying::Sent)
    }

    pub(super) fn asker(&self) -> Option<CancelAsker> {
        self.asker
    }

    pub(super) fn began_at(&self) -> Moment {
        self.began_at
    }

    /// Whether TLS may be missing if the settings say so.
    pub(super) fn may_be_plain(&self) -> bool {
        matches!(self.errand, Errand::Peer { .. })
    }
}

impl<D: Driver> Worker<D> {
    /// Cancels what a client of this worker is doing. `asker` is the connection that asked.
    pub(super) fn cancel_client(&mut self, id: ClientId, asker: Option<CancelAsker>) {
        let Some(client) = self.clients.get_mut(id) else {
            // It has left while the request was on its way.
            return self.cancel_done(asker);
        };
        if matches!(client.phase, Phase::Console(_)) {
            self.cancel_order(id);
            return self.cancel_done(asker);
        }
        if let Some(ticket) = client.ticket.take() {
            let pool_id = client.pool;
            if let Some(pool) = self.pools.must_get_mut(pool_id) {
                pool.shard.forget(ticket);
            }
            self.pump(pool_id);
            self.cancel_waiter(id);
            return self.cancel_done(asker);
        }
        self.hold_cancel(id, asker);
        self.deliver_cancel(id);
    }

    /// Keeps a cancel request of a client until [`Worker::deliver_cancel`]; a second one takes the place of the first.
    fn hold_cancel(&mut self, id: ClientId, asker: Option<CancelAsker>) {
        let Some(client) = self.clients.must_get_mut(id) else {
            return self.cancel_done(asker);
        };
        let before = client.held_cancel.replace(Box::new(HeldCancel { asker }));
        if let Some(before) = before {
            self.cancel_done(before.asker);
        }
    }

    /// Passes on the cancel request that a client's server may get now, if there is one. It is never sent while the server
    /// works on a request of ours, which it would hit instead; and if nothing of the client's is left to cancel, it came too
    /// late, and PostgreSQL would ignore it.
    #[inline]
    pub(super) fn deliver_cancel(&mut self, id: ClientId) {
        // What came before may have ended the client.
        let client = self.clients.get(id);
        if client.is_some_and(|client| client.held_cancel.is_some()) {
            self.deliver_held_cancel(id);
        }
    }

    #[cold]
    fn deliver_held_cancel(&mut self, id: ClientId) {
        let Some(client) = self.clients.must_get_mut(id) else {
            return;
        };
        let server_id = client.lease;
        let has_more = client.stalled || !client.input.is_empty();
        let is_waiting = client.ticket.is_some() || server_id.is_some() && has_more;
        let server = server_id.and_then(|server| self.servers.must_get(server));
        let leased = server.filter(|server| server.lease == Some(id));
        let leased = leased.filter(|server| matches!(server.stage, Stage::Leased));
        if leased.is_some_and(|server| server.session.is_busy()) {
            let has_room = leased.is_some_and(|server| server.cancels < SERVER_CANCELS_MAX);
            if let (Some(held), Some(server)) = (client.held_cancel.take(), server_id) {
                match has_room {
                    true => self.cancel_server(server, held.asker),
                    false => self.cancel_done(held.asker),
                }
            }
            return;
        }
        let is_owed = leased.is_some_and(|server| server.session.owes_client());
        if is_owed || is_waiting {
            return;
        }
        if let Some(held) = client.held_cancel.take() {
            self.cancel_done(held.asker);
        }
    }

    /// The client left: there is nothing to cancel any more.
    pub(super) fn forget_cancel(&mut self, held: Option<Box<HeldCancel>>) {
        if let Some(held) = held {
            self.cancel_done(held.asker);
        }
    }

    /// The client waits for a server, and its query is not wanted any more: no server sees it.
    fn cancel_waiter(&mut self, id: ClientId) {
        let Some(client) = self.clients.must_get_mut(id) else {
            return;
        };
        if matches!(client.phase, Phase::Welcome) {
            return self.fail_client(id, &Fault::AdminShutdown);
        }
        let Some(first) = client.input.first().copied() else {
            return self.global.broken.report(Missing::State);
        };
        client.session.refuse_batch(first);
        let mut message = Vec::new();
        Fault::Cancelled.encode(&mut message);
        self.driver.send(client.key, &message);
        self.count_error(Blame::Pooler, Some(Fault::Cancelled.code()));
        self.take_input(id);
    }

    /// Opens a connection to a server's host to cancel what it is doing.
    pub(super) fn cancel_server(&mut self, id: ServerId, asker: Option<CancelAsker>) {
        let Some(server) = self.servers.must_get(id) else {
            return;
        };
        let target = server.facts.target.clone();
        let secured = server.facts.tls.as_ref();
        let tls = secured.map(|secured| Arc::clone(&secured.outgoing));
        match self.carry(target, tls, Errand::Server(id), asker) {
            Ok(()) => {
                if let Some(server) = self.servers.must_get_mut(id) {
                    server.cancels += 1;
                }
            }
            Err(error) => {
                tracing::warn!("cancel request could not be sent: {error}");
                self.cancel_done(asker);
            }
        }
    }

    /// Opens a connection for a cancel request.
    pub(super) fn carry(
        &mut self,
        target: Target,
        tls: Option<Arc<Outgoing>>,
        errand: Errand,
        asker: Option<CancelAsker>,
    ) -> Result<(), String> {
        if self.cancellers.len() >= CANCELS_MAX {
            return Err("too many at once".to_owned());
        }
        let wait = self.global.settled().settings.global.server_connect_timeout;
        let until = wait.map_or(Moment::NEVER, |wait| self.now.plus(wait));
        let (now, number) = (self.now, self.global.next_id());
        let inserted = self.cancellers.try_insert(|id| {
            let connected = self.driver.connect(&target, Owner::Cancel(id));
            connected.map(|key| Canceller {
                key,
                id: number,
                carrying: Carrying::Connecting,
                target,
                tls,
                errand,
                asker,
                began_at: now,
                until,
            })
        });
        let id = inserted.map_err(|error| error.to_string())?;
        self.timers.arm(until, Timer::Canceller(id));
        Ok(())
    }

    /// The connection is ready for the request itself.
    pub(super) fn send_cancel(&mut self, id: CancellerId) {
        let Some(canceller) = self.cancellers.must_get_mut(id) else {
            return;
        };
        let message = match &mut canceller.errand {
            Errand::Peer { message, .. } => std::mem::take(message),
            Errand::Server(server) => {
                let Some(server) = self.servers.get(*server) else {
                    // It was closed meanwhile: there is nothing to cancel.
                    return self.cancel_over(id, false);
                };
                if let Some(client) = server.lease
                    && matches!(server.stage, Stage::Leased)
                    && !server.session.is_busy()
                {
                    let asker = canceller.asker.take();
                    self.cancel_over(id, false);
                    self.hold_cancel(client, asker);
                    return self.deliver_cancel(client);
                }
                let mut message = Vec::new();
                // The key came from a BackendKeyData message.
                let _ = encode::cancel_request(&mut message, server.facts.pid, &server.facts.key);
                message
            }
        };
        canceller.carrying = Carrying::Sent;
        self.driver.send(canceller.key, &message);
    }

    /// The other side has ended a cancel's connection. PostgreSQL closes it in order once the signal is sent; a connection
    /// that breaks, or ends before the request was sent on it, says nothing of the kind.
    pub(super) fn cancel_ended(&mut self, id: CancellerId, error: Option<&std::io::Error>) {
        let canceller = self.cancellers.must_get(id);
        let is_sent = canceller.is_some_and(|known| matches!(known.carrying, Carrying::Sent));
        if let Some(error) = error {
            tracing::debug!("the connection of a cancel request broke: {error}");
        }
        if let Some(canceller) = self.cancellers.must_get_mut(id) {
            // The driver has let go of it, and may give its number to another connection.
            canceller.key = Key::null();
        }
        self.cancel_over(id, is_sent && error.is_none());
    }

    /// A cancel's connection is closed. `ended`: by PostgreSQL, so the signal was sent. If it was not, a request that was sent
    /// may still arrive: its server serves nobody else.
    pub(super) fn cancel_over(&mut self, id: CancellerId, ended: bool) {
        let Some(canceller) = self.cancellers.must_remove(id) else {
            return;
        };
        self.timers.disarm(canceller.until, Timer::Canceller(id));
        if !ended {
            self.driver.close(canceller.key);
        }
        self.cancel_done(canceller.asker);
        let Errand::Server(server_id) = canceller.errand else {
            if !ended {
                tracing::warn!("a cancel request did not get through to a peer");
            }
            return;
        };
        let Some(server) = self.servers.get_mut(server_id) else {
            // It was closed while the cancel was on its way.
            return;
        };
        server.cancels -= 1;
        if !ended && matches!(canceller.carrying, Carrying::Sent) {
            // It may still arrive, at any time: nobody else must be hit.
            server.doomed = Some("cancel_wait_timeout");
        }
        if server.cancels == 0 && matches!(server.stage, Stage::BeingCancelled) {
            self.absorb_late_cancel(server_id);
        } else if ended && canceller.began_at.since(server.request_at) < CANCEL_FRESH {
            server.cancelled_at = server.lease.map(|client| (canceller.began_at, client));
            let at = self.now.plus(CANCEL_AGAIN);
            self.timers.arm(at, Timer::CancelAgain(server_id));
        }
    }

    /// A cancel may have come before its query: is that still running, and nothing else?
    pub(super) fn cancel_again(&mut self, server_id: ServerId) {
        // This timer is never disarmed: the server, or its query, may be gone.
        let Some(server) = self.servers.get_mut(server_id) else {
            return;
        };
        let Some((cancelled_at, client)) = server.cancelled_at.take() else {
            return;
        };
        let leased = server.lease.filter(|leased| *leased == client);
        let client = leased.and_then(|client| self.clients.must_get(client));
        let is_same = matches!(server.stage, Stage::Leased)
            && server.request_at <= cancelled_at
            && client.is_some_and(|client| client.replied_at < cancelled_at);
        if is_same && server.cancels == 0 && server.session.is_busy() {
            self.cancel_server(server_id, None);
        }
    }

    fn absorb_late_cancel(&mut self, server_id: ServerId) {
        let Some(server) = self.servers.must_get_mut(server_id) else {
            return;
        };
        if let Some(reason) = server.doomed {
            return self.close_server(server_id, reason);
        }
        let mut message = Vec::new();
        server.session.ping(&mut message);
        server.stage = Stage::Testing(Test::Ping);
        self.driver.send(server.key, &message);
        if let Some(pool) = self.pools.must_get_mut(server.pool) {
            pool.shard.test_started(server_id.into());
        }
    }

    /// The connection that asked for a cancel is closed: PostgreSQL's way to say "done".
    pub(super) fn cancel_done(&mut self, asker: Option<CancelAsker>) {
        match asker {
            Some(CancelAsker::Here(id)) if self.clients.contains(id) => {
                self.remove_client(id, Leaving::Orderly, "cancel request");
            }
            Some(CancelAsker::Neighbour(place)) => self.global.neighbour.cancel_over(place),
            Some(CancelAsker::Here(_)) | None => {}
        }
    }

    /// A cancel that came in on another worker, or in another process.
    pub(super) fn cancel_letter(&mut self, client: ClientId, asker: CancelFrom) {
        let asker = match asker {
            CancelFrom::Nobody => None,
            CancelFrom::Neighbour(place) => Some(CancelAsker::Neighbour(place)),
            CancelFrom::Socket(stream) => self.adopt_asker(stream),
        };
        self.cancel_client(client, asker);
    }

    /// The connection of a cancel request that came in on another worker; it is only held until that is over.
    fn adopt_asker(&mut self, stream: Stream) -> Option<CancelAsker> {
        if let Some(load) = self.global.loads.get(self.lane) {
            load.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        let id = self.welcome_socket(Accepted {
            stream,
            remote: Endpoint::default(),
            local: Endpoint::default(),
            is_loopback: false,
            remote_pid: 0,
            remote_uid: None,
        })?;
        // A client too many is ended at once.
        let client = self.clients.get_mut(id)?;
        client.phase = Phase::Cancelling;
        Some(CancelAsker::Here(id))
    }
}
