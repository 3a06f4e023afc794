//! LISTEN without a server per client: one connection per database listens for all clients that do.
//!
//! The connection belongs to one worker, which the database's name decides. There a [`Hub`] decides what to ask the
//! server and which clients get which notifications. Messages inform the clients' workers, in order.
//! `listening/subscriber.rs` has the clients' side, and `listening/outbox.rs` keeps messages that find a mailbox full.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use weir_pool::{Checkout, Moment, Ticket, WaitError, Want};
use weir_session::channels::{Channel, Event, Hub, Request, Seat, Seats};
use weir_session::fault::Fault;

use super::ids::{LaneId, ListenerId, ServerId, Slots};
use super::slots::Stage;
use super::{Broken, Missing, Worker};
use crate::driver::Driver;
use crate::global::{GlobalPool, Purpose, lock};
use crate::mailbox::Message;

mod flush;
mod outbox;
mod subscriber;

use outbox::Outbox;
pub(super) use subscriber::Subscriber;

/// Interval at which a listening connection is asked for a sign of life. A dead one is found out after at most twice
/// that time.
const CHECK_EVERY: Duration = Duration::from_secs(15);

/// Wish of a client that listens.
pub(crate) struct Asking {
    /// The client's pool.
    pool: Arc<GlobalPool>,
    seat: Seat,
    wish: Wish,
}

enum Wish {
    /// To get all notifications that are committed by now.
    Flush,
    /// To listen or to unlisten.
    Request(Request),
}

/// Client that does not listen any more.
pub(crate) struct Leaver {
    database: Arc<str>,
    seat: Seat,
    /// Channel that the client has left; none means all.
    channel: Option<Channel>,
}

/// Event for the clients of one worker.
pub(crate) enum Heard {
    /// The server has carried out a request.
    Done(Seat),
    /// Everything is delivered that the client wanted to get first.
    Flushed(Seat),
    /// From here on, notifications of this server process are the client's own, as long as it has that server.
    Leased(Seat, u32),
    /// These clients get no notifications any more.
    Lost(Vec<Seat>, Loss),
    /// A NotificationResponse as it came.
    Notification(Arc<[u8]>, Seats),
    /// The server refused a request; this is the body of its ErrorResponse.
    Refused(Seat, Box<[u8]>),
}

/// Reason why notifications have ended.
#[derive(Clone)]
pub(crate) enum Loss {
    Fault(Fault),
    /// Body of the server's last message.
    LastWord(Arc<[u8]>),
}

/// Listeners of this worker, and its messages about listening.
pub(super) struct Listening {
    listeners: Slots<ListenerId, Listener>,
    by_database: HashMap<Arc<str>, ListenerId>,
    outbox: Outbox,
}

/// Listener of one database.
struct Listener {
    hub: Hub,
    database: Arc<str>,
    /// Pool that the connection comes from: that of its first client's user.
    pool: Arc<GlobalPool>,
    link: Link,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Down,
    /// This server listens.
    Up(ServerId),
    Waiting(Ticket),
}

impl Listening {
    pub(super) fn new(workers: usize, broken: &Arc<Broken>) -> Self {
        Self {
            listeners: Slots::new(broken),
            by_database: HashMap::new(),
            outbox: Outbox::new(workers),
        }
    }

    /// True if clients, perhaps of other workers, listen by a server of this worker.
    pub(super) fn is_needed(&self) -> bool {
        let mut listeners = self.listeners.iter();
        listeners.any(|(_, listener)| !listener.hub.is_idle())
    }

    /// Number of messages that wait for room in mailboxes.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.outbox.len()
    }

    /// Numbers of channels and of clients of the listeners here.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        let hubs = || self.listeners.iter().map(|(_, listener)| &listener.hub);
        (
            hubs().map(Hub::channel_count).sum(),
            hubs().map(Hub::seat_count).sum(),
        )
    }
}

impl<D: Driver> Worker<D> {
    /// Returns the worker whose connection listens for a database.
    fn listening_worker(&self, database: &str) -> usize {
        let mut hasher = DefaultHasher::new();
        database.hash(&mut hasher);
        let workers = self.global.worker_count() as u64;
        usize::try_from(hasher.finish() % workers).unwrap_or(0)
    }

    // --- what clients want ---

    pub(super) fn listen_asked(&mut self, asking: Asking) {
        let Asking { pool, seat, wish } = asking;
        let id = match self.listening.by_database.get(&pool.group.key.database) {
            Some(id) => *id,
            None if matches!(wish, Wish::Flush) => {
                // The listener has ended, and the client was told the reason.
                return self.tell(seat.worker, vec![Heard::Flushed(seat)]);
            }
            None => match self.add_listener(&pool) {
                Some(id) => id,
                None => {
                    let fault = Fault::TooManyClients("max_pools");
                    let lost = Heard::Lost(vec![seat], Loss::Fault(fault));
                    return self.tell(seat.worker, vec![lost]);
                }
            },
        };
        if let Some(listener) = self.listening.listeners.must_get_mut(id) {
            match wish {
                Wish::Flush => listener.hub.flush(seat),
                Wish::Request(request) => listener.hub.request(seat, request),
            }
        }
        self.pump_listener(id);
    }

    fn add_listener(&mut self, clients: &GlobalPool) -> Option<ListenerId> {
        let pool = self.global.listener_pool(clients).ok()?;
        let database = Arc::clone(&clients.group.key.database);
        let id = self.listening.listeners.insert(Listener {
            hub: Hub::default(),
            database: Arc::clone(&database),
            pool,
            link: Link::Down,
        });
        self.listening.by_database.insert(database, id);
        Some(id)
    }

    pub(super) fn listen_ended(&mut self, leaver: &Leaver) {
        let Some(id) = self.listening.by_database.get(&leaver.database).copied() else {
            // The listener has ended, and its clients were told.
            return;
        };
        if let Some(listener) = self.listening.listeners.must_get_mut(id) {
            match &leaver.channel {
                Some(channel) => listener.hub.leave_channel(leaver.seat, channel),
                None => listener.hub.leave(leaver.seat),
            }
        }
        self.pump_listener(id);
    }

    // --- the connection ---

    /// Carries out the actions of a hub; call it after each command to the hub.
    fn pump_listener(&mut self, id: ListenerId) {
        let Some(listener) = self.listening.listeners.must_get_mut(id) else {
            return;
        };
        let output = listener.hub.take_output();
        let heard = heard(&mut listener.hub, self.global.worker_count());
        let link = listener.link;
        let (is_idle, wants) = (listener.hub.is_idle(), listener.hub.wants_connection());
        if let Link::Up(server) = link
            && let Some(server) = self.tables.servers.must_get_mut(server)
            && !output.is_empty()
        {
            server.request_at = self.now;
            self.driver.send(server.key, &output);
        }
        for (worker, heard) in heard.into_iter().enumerate() {
            self.tell(worker, heard);
        }
        if is_idle {
            self.rest_listener(id);
        } else if wants && link == Link::Down {
            self.connect_listener(id);
        }
    }

    /// Gets a connection from the pool, or a place in its queue.
    pub(super) fn connect_listener(&mut self, id: ListenerId) {
        let Some(listener) = self.listening.listeners.get_mut(id) else {
            // The listener has ended while a server was tested for it.
            return;
        };
        listener.link = Link::Down;
        // Notifications exist on the primary only.
        listener.pool = self.global.pool_of_primary(&listener.pool);
        let pool = Arc::clone(&listener.pool);
        let (_, lane_id) = self.lane_of(&pool);
        while let Some(lane) = self.tables.lanes.must_get_mut(lane_id) {
            match lane.shard.checkout(self.now, id.into(), Want::Any) {
                Checkout::Granted(server) => {
                    let server = ServerId::from(server);
                    let has_news = |server: &super::slots::Server| self.driver.has_news(server.key);
                    if !self.tables.servers.must_get(server).is_some_and(has_news) {
                        self.listener_up(id, server);
                        break;
                    }
                    self.close_server(server, "idle server got dirty");
                }
                // A new server is as good as a checked one.
                Checkout::Check(server) => {
                    self.close_server(server.into(), "unused for too long to listen");
                }
                Checkout::Queued(ticket) => {
                    if let Some(listener) = self.listening.listeners.must_get_mut(id) {
                        listener.link = Link::Waiting(ticket);
                    }
                    break;
                }
                Checkout::FailFast => {
                    self.listener_not_served(id, WaitError::ServerDown);
                    break;
                }
            }
        }
        self.pump(lane_id);
    }

    /// Lets listeners that wait for a primary look for one again.
    pub(super) fn move_listeners(&mut self) {
        let waiting = self
            .listening
            .listeners
            .iter()
            .filter_map(|(id, listener)| {
                let is_held = listener.pool.is_waiting_room();
                let Link::Waiting(ticket) = listener.link else {
                    return None;
                };
                is_held.then(|| (id, ticket, Arc::clone(&listener.pool)))
            });
        for (id, ticket, pool) in waiting.collect::<Vec<_>>() {
            let found = self.tables.find_lane(&pool);
            if let Some(lane) = found.and_then(|(_, lane)| self.tables.lanes.must_get_mut(lane)) {
                lane.shard.forget(ticket);
            }
            self.connect_listener(id);
        }
    }

    /// Gives a listener the server that it waited for.
    pub(super) fn listener_up(&mut self, id: ListenerId, server_id: ServerId) {
        let Some(server) = self.tables.servers.must_get_mut(server_id) else {
            return;
        };
        let Some(listener) = self.listening.listeners.get_mut(id) else {
            // No client needs the listener any more.
            server.stage = Stage::Leased;
            return self.release_later(server_id);
        };
        server.stage = Stage::Listening(id);
        listener.link = Link::Up(server_id);
        listener.hub.connected();
        self.arm_server(server_id, Some(CHECK_EVERY));
        self.pump_listener(id);
    }

    /// Handles input from a listening server. Returns the number of bytes handled.
    pub(super) fn listener_received(
        &mut self,
        server_id: ServerId,
        id: ListenerId,
        input: &[u8],
    ) -> usize {
        let Some(listener) = self.listening.listeners.must_get_mut(id) else {
            return input.len();
        };
        match listener.hub.handle(input) {
            Ok(taken) => {
                self.pump_listener(id);
                taken
            }
            Err(fault) => {
                self.close_server(server_id, &fault.to_string());
                input.len()
            }
        }
    }

    /// Checks a listening server: closes it if the last check was not answered, else asks for a sign of life. No check
    /// takes place while listening connections are paused.
    pub(super) fn check_listener(&mut self, server_id: ServerId, id: ListenerId) {
        let is_held_back = self.listening.outbox.is_holding_back();
        let Some(listener) = self.listening.listeners.must_get_mut(id) else {
            return;
        };
        if !is_held_back && !listener.hub.check() {
            return self.close_server(server_id, "listening server does not answer");
        }
        self.arm_server(server_id, Some(CHECK_EVERY));
        self.pump_listener(id);
    }

    /// Ends a listener without clients. Its connection goes back to the pool, where the idle timeout ends it.
    fn rest_listener(&mut self, id: ListenerId) {
        let Some(mut listener) = self.listening.listeners.must_remove(id) else {
            return;
        };
        self.listening.by_database.remove(&listener.database);
        match listener.link {
            Link::Down => {}
            Link::Waiting(ticket) => {
                let Some((_, lane_id)) = self.tables.find_lane(&listener.pool) else {
                    return self.global.broken.report(Missing::Lane);
                };
                if let Some(lane) = self.tables.lanes.must_get_mut(lane_id) {
                    lane.shard.forget(ticket);
                }
                self.pump(lane_id);
            }
            Link::Up(server_id) => {
                self.arm_server(server_id, None);
                let is_clean = listener.hub.give_back();
                if let Some(server) = self.tables.servers.must_get_mut(server_id) {
                    server.stage = Stage::Leased;
                    if !is_clean {
                        server.doomed = Some("its session was changed while it listened");
                    }
                    self.release_later(server_id);
                }
            }
        }
    }

    // --- when it fails ---

    /// Ends a listener that cannot get a connection.
    pub(super) fn listener_not_served(&mut self, id: ListenerId, error: WaitError) {
        let Some(listener) = self.listening.listeners.must_get(id) else {
            return;
        };
        let loss = match error {
            WaitError::ServerDown => {
                let last = lock(&listener.pool.last_error).clone();
                let text = last
                    .as_ref()
                    .map_or("no server connection", |last| last.text.as_str())
                    .to_owned();
                match last.and_then(|last| last.body) {
                    Some(body) => Loss::LastWord(body.into()),
                    None => Loss::Fault(Fault::ServerUnavailable(text)),
                }
            }
            _ => Loss::Fault(listener.pool.late(Moment(0), self.now)),
        };
        self.end_listener(id, &loss);
    }

    /// Ends a listener whose connection is lost, and with it the notifications of the meantime. Its clients are told,
    /// as if the connection had been their own.
    pub(super) fn listener_lost(&mut self, id: ListenerId, name: &str, reason: &str) {
        let Some(listener) = self.listening.listeners.must_get_mut(id) else {
            return;
        };
        tracing::warn!(
            "{name} listening connection lost, its {} clients are disconnected: {reason}",
            listener.hub.seat_count()
        );
        let loss = match listener.hub.take_last_words() {
            Some(body) => Loss::LastWord(body.into()),
            None => Loss::Fault(Fault::ServerLost),
        };
        self.end_listener(id, &loss);
    }

    fn end_listener(&mut self, id: ListenerId, loss: &Loss) {
        let Some(mut listener) = self.listening.listeners.must_remove(id) else {
            return;
        };
        self.listening.by_database.remove(&listener.database);
        let seats = listener.hub.disconnected();
        let workers = self.global.worker_count();
        for of_worker in seats.chunk_by(|one, next| one.worker == next.worker) {
            if let Some(first) = of_worker.first() {
                let lost = Heard::Lost(of_worker.to_vec(), loss.clone());
                self.tell(first.worker, vec![lost]);
            }
        }
        for (worker, heard) in heard(&mut listener.hub, workers).into_iter().enumerate() {
            self.tell(worker, heard);
        }
    }

    /// Closes the pool's listening connection if the configuration leads elsewhere: notifications there would not reach
    /// the old connection.
    pub(super) fn close_listener_of(&mut self, lane_id: LaneId) {
        let is_listener =
            |lane: &super::slots::Lane| lane.global.group.key.purpose == Purpose::Listener;
        if !self.tables.lanes.must_get(lane_id).is_some_and(is_listener) {
            return;
        }
        let found = self.tables.servers.iter().find(|(_, server)| {
            server.lane == lane_id && matches!(server.stage, Stage::Listening(_))
        });
        if let Some((server, _)) = found {
            self.close_server(server, "obsolete connection");
        }
    }

    fn tell(&mut self, worker: usize, heard: Vec<Heard>) {
        if !heard.is_empty() {
            self.mail(worker, Message::Heard(heard));
        }
    }
}

/// Returns the events of a hub, by worker. Any client that knows the channel can send the mark of a lease, so its worker
/// may not exist.
fn heard(hub: &mut Hub, workers: usize) -> Vec<Vec<Heard>> {
    let mut heard = Vec::new();
    while let Some(event) = hub.poll() {
        let (worker, one) = match event {
            Event::Deliver {
                worker,
                message,
                to,
            } => (worker, Heard::Notification(message, to)),
            Event::Done(seat) => (seat.worker, Heard::Done(seat)),
            Event::Flushed(seat) => (seat.worker, Heard::Flushed(seat)),
            Event::Leased(seat, pid) => (seat.worker, Heard::Leased(seat, pid)),
            Event::Refused(seat, body) => (seat.worker, Heard::Refused(seat, body)),
        };
        if worker >= workers {
            continue;
        }
        if heard.len() <= worker {
            heard.resize_with(worker + 1, Vec::new);
        }
        if let Some(of_worker) = heard.get_mut(worker) {
            of_worker.push(one);
        }
    }
    heard
}
