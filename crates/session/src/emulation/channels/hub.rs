//! Subscribers of each channel, and the conversation with the server connection that listens for them.
//!
//! A client receives exactly the notifications committed after its LISTEN and before its UNLISTEN. The hub finds both
//! limits by the server's replies: before PostgreSQL answers a request, it sends every notification that is committed
//! by then. So notifications before the answer to a LISTEN are older than the LISTEN. Notifications before the answer
//! to a query sent after an UNLISTEN are the last ones that the client receives.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use weir_wire::backend::{self, ErrorFields, NotificationResponse, tag};
use weir_wire::encode;
use weir_wire::frame::{Frame, FrameError, Side, frame};

use super::{Channel, LEASES, Request, Seat, lease, statement};

/// Protocol violation by the listening server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HubFault {
    /// Not a valid server message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message whose body does not parse, by tag.
    #[error("malformed message of type {0} from the listening server")]
    Malformed(u8),
    /// A message that answers no request, or a ReadyForQuery inside a transaction; by tag.
    #[error("unexpected message of type {0} from the listening server")]
    OutOfPlace(u8),
}

/// Subscribers on one worker. Modified in place unless an undelivered notification shares the list.
pub type Seats = Arc<Vec<Seat>>;

/// Event for clients, to be processed in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Deliver a NotificationResponse, unchanged, to clients of one worker.
    Deliver {
        /// Worker of the clients.
        worker: usize,
        /// The complete message.
        message: Arc<[u8]>,
        /// Clients that receive the message.
        to: Seats,
    },
    /// The client's request succeeded.
    Done(Seat),
    /// The client has all notifications that were committed before its [`Hub::flush`].
    Flushed(Seat),
    /// From here on, notifications of the server process with this pid are this client's, as long as it has that
    /// server.
    Leased(Seat, u32),
    /// The server refused the client's request; body of its ErrorResponse.
    Refused(Seat, Box<[u8]>),
}

/// Subscribers of one channel.
#[derive(Debug, Default)]
struct Listeners {
    /// Subscribers by worker, so that a notification costs two reference counts per worker, not one per client.
    workers: BTreeMap<usize, Seats>,
    /// Number of LISTENs not yet answered.
    coming: usize,
    /// True once the server has confirmed a LISTEN.
    is_listened: bool,
}

/// A query sent to the server, and the client that waits for its answer; `None` if there is none or it has left.
#[derive(Debug)]
struct Asked {
    seat: Option<Seat>,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Check that the connection is alive.
    Check,
    /// Flush: wait for all notifications committed by now.
    Flush,
    /// UNLISTEN a channel that has no subscribers left.
    Forget(Channel),
    /// UNLISTEN the channel of lease marks.
    NoLeases,
    Request(Request),
}

/// The subscribers of one database and its listening connection.
///
/// Commands: [`Hub::request`], [`Hub::flush`], [`Hub::leave`], [`Hub::connected`], [`Hub::disconnected`],
/// [`Hub::check`]. Bytes from the server go to [`Hub::handle`]. After each of them, drain [`Hub::poll`] and send
/// [`Hub::take_output`].
///
/// ```text
///             request                     connected
///   (idle) ───────────► wants connection ──────────► up ───► is_idle: the connection can go
///      ▲                       │                      │
///      └──── disconnected: returns every subscriber and waiting client, and forgets them
/// ```
///
/// **Invariant:** while the hub is up, the server listens to every channel that the table marks as listened, once it
/// has processed everything sent to it. A client is in the table only if the server has confirmed its LISTEN.
#[derive(Debug, Default)]
pub struct Hub {
    channels: HashMap<Channel, Listeners>,
    seats: HashMap<Seat, HashSet<Channel>>,
    /// Clients that wait for the answer to a request.
    askers: HashSet<Seat>,
    /// Queries that wait for a connection.
    waiting: VecDeque<Asked>,
    /// Queries that the server has not answered, oldest first.
    asked: VecDeque<Asked>,
    is_up: bool,
    /// True if the server has confirmed that it listens for lease marks. It does so as long as there is a channel.
    hears_leases: bool,
    /// Error in answer to the oldest query.
    error: Option<Box<[u8]>>,
    /// FATAL error that ended the connection.
    last_words: Option<Box<[u8]>>,
    /// True if the session differs from its state after login.
    is_changed: bool,
    /// Number of answers so far.
    answered: u64,
    answered_at_check: u64,
    events: VecDeque<Event>,
    output: Vec<u8>,
}

impl Hub {
    /// Requests LISTEN or UNLISTEN for a client, which must have no other request in progress.
    pub fn request(&mut self, seat: Seat, request: Request) {
        debug_assert!(!self.askers.contains(&seat), "one question at a time");
        let own = self.seats.get(&seat);
        let is_so = match &request {
            Request::Listen(channel) => own.is_some_and(|own| own.contains(channel)),
            Request::Unlisten(channel) => own.is_none_or(|own| !own.contains(channel)),
            Request::UnlistenAll => own.is_none(),
        };
        if is_so {
            return self.events.push_back(Event::Done(seat));
        }
        if let Request::Listen(channel) = &request {
            self.channels.entry(Arc::clone(channel)).or_default().coming += 1;
        }
        self.askers.insert(seat);
        self.ask(Asked {
            seat: Some(seat),
            what: What::Request(request),
        });
    }

    /// Asks for [`Event::Flushed`] once the client has every notification committed by now.
    pub fn flush(&mut self, seat: Seat) {
        if !self.is_up {
            // The client has no subscription, or is about to learn that it was lost.
            return self.events.push_back(Event::Flushed(seat));
        }
        self.ask(Asked {
            seat: Some(seat),
            what: What::Flush,
        });
    }

    /// Removes a client that has left, or that wants no more notifications and waits for no answer. Ignores unknown
    /// clients.
    pub fn leave(&mut self, seat: Seat) {
        if self.askers.remove(&seat) {
            let is_request =
                |asked: &Asked| asked.seat == Some(seat) && matches!(asked.what, What::Request(_));
            let asked = self.asked.iter_mut().find(|asked| is_request(asked));
            if let Some(asked) = asked {
                asked.seat = None;
            }
            let place = self
                .waiting
                .iter()
                .position(|asked| asked.seat == Some(seat));
            let never_asked = place.and_then(|place| self.waiting.remove(place));
            if let Some(What::Request(Request::Listen(channel))) =
                never_asked.map(|asked| asked.what)
            {
                self.answer_listen(&channel, None, false);
            }
        }
        for channel in self.seats.remove(&seat).unwrap_or_default() {
            self.unseat(&channel, seat);
        }
    }

    /// Removes a client's subscription to one channel. The client waits for no answer.
    pub fn leave_channel(&mut self, seat: Seat, channel: &Channel) {
        let Some(own) = self.seats.get_mut(&seat) else {
            return;
        };
        if !own.remove(channel) {
            return;
        }
        if own.is_empty() {
            self.seats.remove(&seat);
        }
        self.unseat(channel, seat);
    }

    /// True if a connection is needed and there is none.
    #[must_use]
    pub fn wants_connection(&self) -> bool {
        !self.is_up && !self.waiting.is_empty()
    }

    /// Starts to use a new, idle connection and sends the waiting queries.
    pub fn connected(&mut self) {
        debug_assert!(!self.is_up && self.asked.is_empty(), "one connection");
        self.is_up = true;
        (self.error, self.last_words, self.is_changed) = (None, None, false);
        self.output.clear();
        for asked in std::mem::take(&mut self.waiting) {
            self.ask(asked);
        }
    }

    /// Forgets all subscriptions after the connection was lost or could not be opened. Returns the clients that have
    /// lost a subscription or a request. Clients that only waited for a flush get [`Event::Flushed`].
    pub fn disconnected(&mut self) -> Vec<Seat> {
        (self.is_up, self.hears_leases) = (false, false);
        self.channels.clear();
        for asked in self.asked.drain(..) {
            if let (What::Flush, Some(seat)) = (asked.what, asked.seat) {
                self.events.push_back(Event::Flushed(seat));
            }
        }
        self.waiting.clear();
        self.output.clear();
        let mut seats: Vec<_> = self.askers.drain().collect();
        seats.extend(self.seats.drain().map(|(seat, _)| seat));
        seats.sort_unstable();
        seats.dedup();
        seats
    }

    /// True if the connection is not needed: no subscribers, no queries waiting or unanswered.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.channels.is_empty() && self.asked.is_empty() && self.waiting.is_empty()
    }

    /// Gives up the connection of an idle hub ([`Hub::is_idle`]). Returns true if the session is as it was after login.
    pub fn give_back(&mut self) -> bool {
        debug_assert!(self.is_idle(), "nobody listens on it");
        self.is_up = false;
        !self.is_changed
    }

    /// Checks that the connection is alive; called periodically. Returns false if queries are unanswered and the server
    /// has answered none since the last check.
    pub fn check(&mut self) -> bool {
        if !self.is_up {
            return true;
        }
        if !self.asked.is_empty() && self.answered == self.answered_at_check {
            return false;
        }
        self.answered_at_check = self.answered;
        if self.asked.is_empty() {
            self.ask(Asked {
                seat: None,
                what: What::Check,
            });
        }
        true
    }

    /// Processes bytes from the server. Returns the number of bytes consumed.
    ///
    /// # Errors
    /// Fails on a protocol violation; the connection is then unusable.
    pub fn handle(&mut self, input: &[u8]) -> Result<usize, HubFault> {
        let mut at = 0;
        while let Some(frame) = frame(input.get(at..).unwrap_or_default(), Side::Backend)? {
            at += frame.raw.len();
            self.message(&frame)?;
        }
        Ok(at)
    }

    /// Takes the next event.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes the bytes to send to the server.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Takes the body of the FATAL error that ended the connection, if there was one.
    pub fn take_last_words(&mut self) -> Option<Box<[u8]>> {
        self.last_words.take()
    }

    /// Number of channels with a subscriber or an unanswered LISTEN.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        self.channels.len()
    }

    /// Number of clients with a subscription.
    #[must_use]
    pub fn seat_count(&self) -> usize {
        self.seats.len()
    }

    fn ask(&mut self, asked: Asked) {
        if !self.is_up {
            return self.waiting.push_back(asked);
        }
        let mut sql = Vec::new();
        match &asked.what {
            What::Request(Request::Listen(channel)) => {
                // In one text, so that no client listens without the marks that tell its own notifications.
                if !self.hears_leases {
                    statement("LISTEN", LEASES, &mut sql);
                    sql.push(b';');
                }
                statement("LISTEN", channel, &mut sql);
            }
            What::Forget(channel) => statement("UNLISTEN", channel, &mut sql),
            What::NoLeases => statement("UNLISTEN", LEASES, &mut sql),
            // An empty query: its answer follows every notification committed before.
            What::Check | What::Flush | What::Request(_) => {}
        }
        // Cannot fail: the name has at most 63 bytes and no NUL.
        let _ = encode::query(&mut self.output, &sql);
        self.asked.push_back(asked);
    }

    fn message(&mut self, frame: &Frame<'_>) -> Result<(), HubFault> {
        match frame.header.tag {
            tag::NOTIFICATION_RESPONSE => return self.notified(frame),
            tag::PARAMETER_STATUS => self.is_changed = true,
            tag::NOTICE_RESPONSE => {}
            tag::ERROR_RESPONSE => self.failed(frame.body),
            tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE if !self.asked.is_empty() => {}
            tag::READY_FOR_QUERY => return self.ready(frame.body),
            other => return Err(HubFault::OutOfPlace(other)),
        }
        Ok(())
    }

    fn notified(&mut self, frame: &Frame<'_>) -> Result<(), HubFault> {
        let notification = NotificationResponse::parse(frame.body)
            .map_err(|_| HubFault::Malformed(tag::NOTIFICATION_RESPONSE))?;
        if let Some(seat) = lease::seat(&notification) {
            self.events.push_back(Event::Leased(seat, notification.pid));
        }
        let Some(listeners) = self.channels.get(notification.channel) else {
            return Ok(());
        };
        let mut message: Option<Arc<[u8]>> = None;
        for (worker, to) in &listeners.workers {
            let message = message.get_or_insert_with(|| frame.raw.into());
            self.events.push_back(Event::Deliver {
                worker: *worker,
                message: Arc::clone(message),
                to: Arc::clone(to),
            });
        }
        Ok(())
    }

    fn failed(&mut self, body: &[u8]) {
        let severity = ErrorFields::parse(body).ok();
        let severity = severity.and_then(|fields| fields.get(b'V').or_else(|| fields.get(b'S')));
        let is_last = matches!(severity, Some(b"FATAL" | b"PANIC")) || self.asked.is_empty();
        let place = if is_last {
            &mut self.last_words
        } else {
            &mut self.error
        };
        *place = Some(body.into());
    }

    /// Processes the answer to the oldest query.
    fn ready(&mut self, body: &[u8]) -> Result<(), HubFault> {
        let status = backend::ReadyForQuery::parse(body)
            .map_err(|_| HubFault::Malformed(tag::READY_FOR_QUERY))?
            .0;
        let asked = self.asked.pop_front();
        let asked = asked.filter(|_| status == backend::TransactionStatus::Idle);
        let Asked { seat, what } = asked.ok_or(HubFault::OutOfPlace(tag::READY_FOR_QUERY))?;
        self.answered += 1;
        let error = self.error.take();
        // The session still listens, so no other client may get this server.
        self.is_changed |= error.is_some() && matches!(what, What::Forget(_) | What::NoLeases);
        let request = match (what, seat) {
            (What::Request(request), _) => request,
            (What::Flush, Some(seat)) => {
                self.events.push_back(Event::Flushed(seat));
                return Ok(());
            }
            _ => return Ok(()),
        };
        if let Some(seat) = seat {
            self.askers.remove(&seat);
        }
        match (&request, seat) {
            (Request::Listen(channel), _) => {
                self.hears_leases |= error.is_none();
                self.answer_listen(channel, seat.filter(|_| error.is_none()), error.is_none());
                if let (Some(seat), Some(error)) = (seat, error) {
                    self.events.push_back(Event::Refused(seat, error));
                    return Ok(());
                }
            }
            (Request::Unlisten(channel), Some(seat)) => self.leave_channel(seat, channel),
            (Request::UnlistenAll, Some(seat)) => self.leave(seat),
            (Request::Unlisten(_) | Request::UnlistenAll, None) => {}
        }
        self.events.extend(seat.map(Event::Done));
        Ok(())
    }

    /// Records the answer to a LISTEN, or that it was never sent. `seat`, if any, is subscribed from now on.
    fn answer_listen(&mut self, channel: &Channel, seat: Option<Seat>, is_listened: bool) {
        let Some(listeners) = self.channels.get_mut(channel) else {
            debug_assert!(false, "a channel that is asked for is in the table");
            return;
        };
        listeners.coming -= 1;
        listeners.is_listened |= is_listened;
        if let Some(seat) = seat {
            let worker = listeners.workers.entry(seat.worker).or_default();
            Arc::make_mut(worker).push(seat);
            let own = self.seats.entry(seat).or_default();
            own.insert(Arc::clone(channel));
        }
        self.drop_unused(channel);
    }

    /// Removes a client from the subscribers of a channel.
    fn unseat(&mut self, channel: &Channel, seat: Seat) {
        let Some(listeners) = self.channels.get_mut(channel) else {
            return;
        };
        if let Some(worker) = listeners.workers.get_mut(&seat.worker) {
            let seats = Arc::make_mut(worker);
            if let Some(place) = seats.iter().position(|other| *other == seat) {
                seats.swap_remove(place);
            }
            if seats.is_empty() {
                listeners.workers.remove(&seat.worker);
            }
        }
        self.drop_unused(channel);
    }

    fn drop_unused(&mut self, channel: &Channel) {
        let is_unused =
            |listeners: &Listeners| listeners.workers.is_empty() && listeners.coming == 0;
        if !self.channels.get(channel).is_some_and(is_unused) {
            return;
        }
        let dropped = self.channels.remove(channel);
        let is_last = self.channels.is_empty();
        if !self.is_up {
            return;
        }
        let has_marks = is_last && std::mem::take(&mut self.hears_leases);
        let mut forget = |what| self.ask(Asked { seat: None, what });
        if dropped.is_some_and(|listeners| listeners.is_listened) {
            forget(What::Forget(Arc::clone(channel)));
        }
        if has_marks {
            forget(What::NoLeases);
        }
    }
}

#[cfg(test)]
mod tests;
