//! Cancel requests: they go from a client to the server that works for it, and to no other server (hazard COR-24).
//!
//! While a cancel is on its way to a server, no other client gets the server. First PostgreSQL must close the cancel's
//! connection, and the server must answer an empty query: by then the signal has arrived.

use std::sync::Arc;
use std::time::Duration;

use slotmap::Key as _;
use weir_pool::{Entered, Moment};
use weir_session::fault::Fault;
use weir_stats::Blame;
use weir_wire::encode;

use super::client::Leaving;
use super::ids::{CancellerId, ClientId, ServerId};
use super::slots::{Phase, Stage, Test};
use super::timers::Timer;
use super::{Missing, Worker};
use crate::driver::{Driver, Key, Owner};
use crate::global::Place;
use crate::handover::LinkMessage;
use crate::mailbox::{CancelFrom, Message};
use crate::neighbours::{FarAsker, Side};
use crate::securing::Securing;
use crate::socket::Target;
use crate::transport::Outgoing;

/// Maximum cancels on their way at once, per worker. More are dropped, as PostgreSQL drops what it cannot deliver
/// (SEC-66).
const CANCELS_MAX: usize = 128;

/// Maximum cancels on their way to one server at once. More are dropped: a client waits for the end of a cancel before
/// it sends another, so only a flooding client reaches this limit.
const SERVER_CANCELS_MAX: u32 = 4;

/// Age of a query below which its cancel is sent once more if the query still runs later.
///
/// PostgreSQL ignores a cancel that comes before it has read the query, and a client sends a cancel only once. Behind a
/// pool that happens: a client may get its server in the moment in which it gives up.
const CANCEL_FRESH: Duration = Duration::from_millis(200);
/// Time after a cancel at which it is sent once more, if the same query still runs.
const CANCEL_AGAIN: Duration = Duration::from_millis(200);

/// Source of a cancel request, which is told when the request is over.
#[derive(Debug, Clone, Copy)]
pub(super) enum CancelAsker {
    /// Connection of this worker, which is closed then.
    Here(ClientId),
    /// Connection of the process on this side of an upgrade.
    Neighbour(Side, FarAsker),
    /// Connection of another worker.
    There(Place),
}

/// Cancel request that waits until the server works on the client's request, because a request of ours comes first.
pub(super) struct HeldCancel {
    asker: Option<CancelAsker>,
}

/// Progress of a cancel's connection.
pub(super) enum Carrying {
    /// The connection is being made.
    Connecting,
    /// The other side was asked for TLS.
    Negotiating,
    /// The TLS handshake is in progress.
    Securing(Box<Securing>),
    /// The request was sent.
    Sent,
}

/// Receiver of a cancel request.
pub(super) enum Errand {
    /// Another pooler in `[peers]`, with the message for it and a place among the connections to this peer.
    Peer {
        peer_id: u32,
        message: Vec<u8>,
        #[expect(dead_code, reason = "held for its drop")]
        place: Entered,
    },
    /// The host of a server of ours.
    Server(ServerId),
}

/// Connection that carries a cancel request.
pub(super) struct Canceller {
    pub(super) key: Key,
    pub(super) id: u64,
    pub(super) carrying: Carrying,
    pub(super) target: Target,
    /// Protection of the query's connection; the cancel uses the same.
    pub(super) tls: Option<Arc<Outgoing>>,
    errand: Errand,
    /// Connection that asked, closed when the cancel is over.
    asker: Option<CancelAsker>,
    began_at: Moment,
    until: Moment,
}

impl Canceller {
    /// Returns the server that the cancel is for; none if it is for a peer.
    pub(super) fn server(&self) -> Option<ServerId> {
        match self.errand {
            Errand::Peer { .. } => None,
            Errand::Server(server) => Some(server),
        }
    }

    /// Returns the peer that the cancel is for.
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

    /// True if the cancel may go without TLS, should the settings allow that.
    pub(super) fn may_be_plain(&self) -> bool {
        matches!(self.errand, Errand::Peer { .. })
    }
}

impl<D: Driver> Worker<D> {
    /// Cancels the current work of a client of this worker. `asker` is the connection that asked.
    pub(super) fn cancel_client(&mut self, id: ClientId, asker: Option<CancelAsker>) {
        let Some(client) = self.tables.clients.get_mut(id) else {
            // The client has left while the request was on its way.
            return self.cancel_done(asker);
        };
        if matches!(client.phase, Phase::Console(_)) {
            self.cancel_order(id);
            return self.cancel_done(asker);
        }
        if let Some(ticket) = client.ticket.take() {
            let lane_id = client.lane;
            if let Some(lane) = self.tables.lanes.must_get_mut(lane_id) {
                lane.shard.forget(ticket);
            }
            self.pump(lane_id);
            self.cancel_waiter(id);
            return self.cancel_done(asker);
        }
        if client.is_replicating() {
            return self.cancel_walsender(id, asker);
        }
        if client.is_throttled() && self.cancel_throttled(id) {
            self.cancel_waiter(id);
            return self.cancel_done(asker);
        }
        self.hold_cancel(id, asker);
        self.deliver_cancel(id);
    }

    /// Passes a cancel request of a replication connection on. As without a pooler, it hits whatever runs when it arrives: no
    /// other client uses the server.
    fn cancel_walsender(&mut self, id: ClientId, asker: Option<CancelAsker>) {
        let server_id = (self.tables.clients.must_get(id)).and_then(|client| client.lease);
        let server = server_id.and_then(|server| self.tables.servers.must_get(server));
        let has_room = server.is_some_and(|server| server.cancels < SERVER_CANCELS_MAX);
        match server_id.filter(|_| has_room) {
            Some(server) => self.cancel_server(server, asker),
            None => self.cancel_done(asker),
        }
    }

    /// Keeps a cancel request of a client until [`Worker::deliver_cancel`]. A second request replaces the first.
    fn hold_cancel(&mut self, id: ClientId, asker: Option<CancelAsker>) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return self.cancel_done(asker);
        };
        let before = client.held_cancel.replace(Box::new(HeldCancel { asker }));
        if let Some(before) = before {
            self.cancel_done(before.asker);
        }
    }

    /// Sends the cancel request that is held for a client, if its server may get it now. A cancel is never sent while
    /// the server works on a request of ours, which it would hit. If no work of the client is left, the cancel came too
    /// late: it is dropped, as PostgreSQL would ignore it.
    #[inline]
    pub(super) fn deliver_cancel(&mut self, id: ClientId) {
        // An earlier step may have ended the client.
        let client = self.tables.clients.get(id);
        if client.is_some_and(|client| client.held_cancel.is_some()) {
            self.deliver_held_cancel(id);
        }
    }

    #[cold]
    fn deliver_held_cancel(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        let server_id = client.lease;
        let has_more = client.stalled || !client.input.is_empty();
        let is_waiting = client.ticket.is_some() || server_id.is_some() && has_more;
        let server = server_id.and_then(|server| self.tables.servers.must_get(server));
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

    /// Ends a held cancel request of a client that left.
    pub(super) fn forget_cancel(&mut self, held: Option<Box<HeldCancel>>) {
        if let Some(held) = held {
            self.cancel_done(held.asker);
        }
    }

    /// Cancels the query of a client that waits for a server. No server sees the query.
    fn cancel_waiter(&mut self, id: ClientId) {
        let Some(client) = self.tables.clients.must_get_mut(id) else {
            return;
        };
        if matches!(client.phase, Phase::SeekingWalsender(_) | Phase::Welcome) {
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

    /// Opens a connection to a server's host to cancel the server's current work.
    pub(super) fn cancel_server(&mut self, id: ServerId, asker: Option<CancelAsker>) {
        let Some(server) = self.tables.servers.must_get(id) else {
            return;
        };
        let target = server.facts.target.clone();
        let secured = server.facts.tls.as_ref();
        let tls = secured.map(|secured| Arc::clone(&secured.outgoing));
        match self.carry(target, tls, Errand::Server(id), asker) {
            Ok(()) => {
                if let Some(server) = self.tables.servers.must_get_mut(id) {
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
        if self.tables.cancellers.len() >= CANCELS_MAX {
            return Err("too many at once".to_owned());
        }
        let wait = self.global.settled().settings.global.server_connect_timeout;
        let until = wait.map_or(Moment::NEVER, |wait| self.now.plus(wait));
        let (now, number) = (self.now, self.global.next_id());
        let inserted = self.tables.cancellers.try_insert(|id| {
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

    /// Sends the request on a connection that is ready for it.
    pub(super) fn send_cancel(&mut self, id: CancellerId) {
        let Some(canceller) = self.tables.cancellers.must_get_mut(id) else {
            return;
        };
        let message = match &mut canceller.errand {
            Errand::Peer { message, .. } => std::mem::take(message),
            Errand::Server(server) => {
                let Some(server) = self.tables.servers.get(*server) else {
                    // The server was closed meanwhile: there is nothing to cancel.
                    return self.cancel_over(id, false);
                };
                if let Some(client) = server.lease
                    && matches!(server.stage, Stage::Leased)
                    && !server.session.is_busy()
                {
                    if server.is_cancelled_again {
                        // The query is over.
                        return self.cancel_over(id, false);
                    }
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

    /// Handles the end of a cancel's connection. PostgreSQL closes it in order once the signal is sent. A connection
    /// that breaks, or ends before the request was sent on it, does not mean that.
    pub(super) fn cancel_ended(&mut self, id: CancellerId, error: Option<&std::io::Error>) {
        let canceller = self.tables.cancellers.must_get(id);
        let is_sent = canceller.is_some_and(|known| matches!(known.carrying, Carrying::Sent));
        if let Some(error) = error {
            tracing::debug!("connection of a cancel request lost: {error}");
        }
        if let Some(canceller) = self.tables.cancellers.must_get_mut(id) {
            // The driver has dropped the connection, and may give its key to another one.
            canceller.key = Key::null();
        }
        self.cancel_over(id, is_sent && error.is_none());
    }

    /// Ends a cancel whose connection is over. `ended` is true if PostgreSQL closed it, so the signal was sent. If not,
    /// a sent request may still arrive, so its server serves no other client.
    pub(super) fn cancel_over(&mut self, id: CancellerId, ended: bool) {
        let Some(canceller) = self.tables.cancellers.must_remove(id) else {
            return;
        };
        self.timers.disarm(canceller.until, Timer::Canceller(id));
        if !ended {
            self.driver.close(canceller.key);
        }
        self.cancel_done(canceller.asker);
        let Errand::Server(server_id) = canceller.errand else {
            if !ended {
                tracing::warn!(
                    "cancel request for a peer dropped: the connection to the peer failed"
                );
            }
            return;
        };
        let Some(server) = self.tables.servers.get_mut(server_id) else {
            // The server was closed while the cancel was on its way.
            return;
        };
        server.cancels -= 1;
        if !ended && matches!(canceller.carrying, Carrying::Sent) {
            // The cancel may still arrive, at any time: it must not hit another client.
            server.doomed = Some("cancel_wait_timeout");
        }
        let goes_on = server.cancels == 0 && std::mem::take(&mut server.is_cancelled_again);
        if server.cancels == 0 && matches!(server.stage, Stage::BeingCancelled) {
            self.absorb_late_cancel(server_id);
        } else if goes_on {
            self.go_on_after_cancel(server_id);
        } else if ended && canceller.began_at.since(server.request_at) < CANCEL_FRESH {
            server.cancelled_at = server.lease.map(|client| (canceller.began_at, client));
            let at = self.now.plus(CANCEL_AGAIN);
            self.timers.arm(at, Timer::CancelAgain(server_id));
        }
    }

    /// Sends a cancel again that may have come before its query, if the same query still runs.
    pub(super) fn cancel_again(&mut self, server_id: ServerId) {
        // This timer is never disarmed: the server, or its query, may be gone.
        let Some(server) = self.tables.servers.get_mut(server_id) else {
            return;
        };
        let Some((cancelled_at, client)) = server.cancelled_at.take() else {
            return;
        };
        let leased = server.lease.filter(|leased| *leased == client);
        let client = leased.and_then(|client| self.tables.clients.must_get(client));
        let is_same = matches!(server.stage, Stage::Leased)
            && server.request_at <= cancelled_at
            && client.is_some_and(|client| client.replied_at < cancelled_at);
        if is_same && server.cancels == 0 && server.session.is_busy() {
            server.is_cancelled_again = true;
            self.cancel_server(server_id, None);
            let server = self.tables.servers.get_mut(server_id);
            if let Some(server) = server.filter(|server| server.cancels == 0) {
                server.is_cancelled_again = false;
            }
        }
    }

    /// Lets a client's input go on that has waited for the end of a cancel which nobody asked for: its query may have been
    /// over before, and the cancel would have hit the next one.
    fn go_on_after_cancel(&mut self, server_id: ServerId) {
        let server = self.tables.servers.must_get(server_id);
        let Some(id) = server.and_then(|server| server.lease) else {
            return;
        };
        let client = self.tables.clients.must_get(id);
        if client.is_some_and(|client| client.stalled) {
            self.end_stall(id);
            self.after_rest(id, server_id);
        }
    }

    fn absorb_late_cancel(&mut self, server_id: ServerId) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        if let Some(reason) = server.doomed {
            return self.close_server(server_id, reason);
        }
        let mut message = Vec::new();
        server.session.ping(&mut message);
        server.stage = Stage::Testing(Test::Ping);
        self.driver.send(server.key, &message);
        if let Some(lane) = self.tables.lanes.must_get_mut(server.lane) {
            lane.shard.test_started(server_id.into());
        }
    }

    /// Closes the connection that asked for a cancel: for PostgreSQL's clients, the sign that the cancel is done.
    pub(super) fn cancel_done(&mut self, asker: Option<CancelAsker>) {
        match asker {
            Some(CancelAsker::Here(id)) if self.tables.clients.contains(id) => {
                self.remove_client(id, Leaving::Orderly, "cancel request");
            }
            Some(CancelAsker::Neighbour(side, asker)) => {
                let over = LinkMessage::CancelOver(asker);
                self.global.succession.neighbours.report(side, over);
            }
            Some(CancelAsker::There(place)) => {
                self.mail(place.worker, Message::CancelOver(place.client));
            }
            Some(CancelAsker::Here(_)) | None => {}
        }
    }

    /// Handles a cancel that came in on another worker, or in another process.
    pub(super) fn cancel_message(&mut self, client: ClientId, asker: CancelFrom) {
        let asker = match asker {
            CancelFrom::Neighbour(side, asker) => CancelAsker::Neighbour(side, asker),
            CancelFrom::Worker(place) => CancelAsker::There(place),
        };
        self.cancel_client(client, Some(asker));
    }

    /// Reports to other workers that cancels of their connections are over, because this worker stops.
    pub(super) fn drop_cancels(&mut self) {
        let askers = self.tables.cancellers.iter();
        let askers: Vec<_> = askers.filter_map(|(_, known)| known.asker()).collect();
        for asker in askers {
            if matches!(asker, CancelAsker::There(_)) {
                self.cancel_done(Some(asker));
            }
        }
    }
}
