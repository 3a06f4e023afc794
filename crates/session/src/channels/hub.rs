//! Who listens to what, and the conversation with the one server connection that listens for them.
//!
//! A client hears exactly what was committed after it asked to listen and before it asked to stop. Both ends are found
//! by a question that the server answers in between: it sends all that it knows to be committed before it answers the
//! next request, so what comes before the answer to a LISTEN is older than the LISTEN, and what comes before the answer
//! to a question sent after an UNLISTEN is all that the client still has to hear.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use weir_wire::backend::{self, ErrorFields, NotificationResponse, tag};
use weir_wire::encode;
use weir_wire::frame::{Frame, FrameError, Side, frame};

use super::{Channel, LEASES, Request, Seat, lease, statement};

/// What the server said that has no place here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HubFault {
    /// Not a message of a server.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message whose body does not parse; the tag says which.
    #[error("malformed message of type {0} from the listening server")]
    Malformed(u8),
    /// A message that nothing was asked for, or a transaction that nobody began; the tag says which.
    #[error("unexpected message of type {0} from the listening server")]
    OutOfPlace(u8),
}

/// Clients of one lane. It grows in place unless a notification for it is on its way.
pub type Seats = Arc<Vec<Seat>>;

/// What is to be told to clients, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A NotificationResponse as it came, for clients of one lane.
    Deliver {
        /// Their worker.
        lane: usize,
        /// The whole message.
        message: Arc<[u8]>,
        /// The clients.
        to: Seats,
    },
    /// A request was carried out.
    Done(Seat),
    /// Everything was told that was committed before this client asked for it ([`Hub::flush`]).
    Flushed(Seat),
    /// What this server process says from here on is said for that client, as long as it has it.
    Leased(Seat, u32),
    /// The server refused it: the body of its ErrorResponse.
    Refused(Seat, Box<[u8]>),
}

/// Who listens to one channel.
#[derive(Debug, Default)]
struct Listeners {
    /// By lane, so that a notification costs two counters per lane and not one per client.
    lanes: BTreeMap<usize, Seats>,
    /// LISTENs that were asked for and not answered.
    coming: usize,
    /// The server has confirmed one.
    is_listened: bool,
}

/// One question, and whom its answer concerns (nobody, once that client has left).
#[derive(Debug)]
struct Asked {
    seat: Option<Seat>,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Whether the connection lives.
    Check,
    /// Everything that is known by now is to be told.
    Flush,
    /// Nobody listens to this channel any more.
    Forget(Channel),
    /// Marks of leases are to be heard.
    Leases,
    /// They are not any more.
    NoLeases,
    Request(Request),
}

/// One database's listeners.
///
/// Commands: [`Hub::request`], [`Hub::flush`], [`Hub::leave`], [`Hub::connected`], [`Hub::disconnected`], [`Hub::check`]. What the
/// server sends goes to [`Hub::handle`]. After any of them drain [`Hub::poll`] and send [`Hub::take_output`].
///
/// ```text
///             request                     connected
///   (idle) ───────────► wants connection ──────────► up ───► is_idle: the connection can go
///      ▲                       │                      │
///      └──── disconnected: everybody who listens or waits is named, and nobody is left
/// ```
///
/// **Invariant:** while the hub is up, the server listens to every channel in the table that is marked as listened, once
/// everything on its way was processed; a client is in the table only if the server has confirmed it.
#[derive(Debug, Default)]
pub struct Hub {
    channels: HashMap<Channel, Listeners>,
    seats: HashMap<Seat, HashSet<Channel>>,
    /// Clients that wait for an answer.
    askers: HashSet<Seat>,
    /// Questions for which there is no connection yet.
    waiting: VecDeque<Asked>,
    /// Questions that the server has to answer, oldest first.
    asked: VecDeque<Asked>,
    is_up: bool,
    /// The server tells marks of leases, or is about to: as long as there is a channel.
    hears_leases: bool,
    /// The error in answer to the oldest question.
    error: Option<Box<[u8]>>,
    /// The FATAL error that ends the connection.
    last_words: Option<Box<[u8]>>,
    /// The session is not as it was after its login.
    is_changed: bool,
    /// Answers so far, and how many there were at the last check.
    answered: u64,
    answered_at_check: u64,
    events: VecDeque<Event>,
    output: Vec<u8>,
}

impl Hub {
    /// A client asks for something. It has no other question on its way.
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
            if !std::mem::replace(&mut self.hears_leases, true) {
                self.ask(Asked {
                    seat: None,
                    what: What::Leases,
                });
            }
        }
        self.askers.insert(seat);
        self.ask(Asked {
            seat: Some(seat),
            what: What::Request(request),
        });
    }

    /// A client wants to have heard what is committed by now: [`Event::Flushed`] comes behind it.
    pub fn flush(&mut self, seat: Seat) {
        if !self.is_up {
            // It does not listen, or is about to be told that it does not.
            return self.events.push_back(Event::Flushed(seat));
        }
        self.ask(Asked {
            seat: Some(seat),
            what: What::Flush,
        });
    }

    /// A client is gone, or wants to hear nothing more and waits for no answer. Unknown clients are nobody.
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

    /// A client wants to hear nothing more of one channel, and waits for no answer.
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

    /// Whether a connection is needed and there is none.
    #[must_use]
    pub fn wants_connection(&self) -> bool {
        !self.is_up && !self.waiting.is_empty()
    }

    /// There is a connection, fresh and idle.
    pub fn connected(&mut self) {
        debug_assert!(!self.is_up && self.asked.is_empty(), "one connection");
        self.is_up = true;
        (self.error, self.last_words, self.is_changed) = (None, None, false);
        self.output.clear();
        for asked in std::mem::take(&mut self.waiting) {
            self.ask(asked);
        }
    }

    /// The connection is gone or could not be had: nothing is heard any more, and these clients have to know it. Those
    /// that only waited to have heard everything have.
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

    /// Whether nobody needs the connection: nobody listens and nothing is owed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.channels.is_empty() && self.asked.is_empty() && self.waiting.is_empty()
    }

    /// The connection goes back, if [`Hub::is_idle`]; true if its session is as it was after its login.
    pub fn give_back(&mut self) -> bool {
        debug_assert!(self.is_idle(), "nobody listens on it");
        self.is_up = false;
        !self.is_changed
    }

    /// Makes sure from time to time that the connection lives; false if the server has not answered anything that it was
    /// asked before the last check.
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

    /// What the server sent; returns how many bytes are dealt with.
    ///
    /// # Errors
    /// Something that has no place here: the connection cannot be used any more.
    pub fn handle(&mut self, input: &[u8]) -> Result<usize, HubFault> {
        let mut at = 0;
        while let Some(frame) = frame(input.get(at..).unwrap_or_default(), Side::Backend)? {
            at += frame.raw.len();
            self.message(&frame)?;
        }
        Ok(at)
    }

    /// What to tell clients next.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What to send to the server.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// The body of the FATAL error that ended the connection, if it ended with one.
    pub fn take_last_words(&mut self) -> Option<Box<[u8]>> {
        self.last_words.take()
    }

    /// How many channels anybody listens to or is about to.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        self.channels.len()
    }

    /// How many clients listen.
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
            What::Request(Request::Listen(channel)) => statement("LISTEN", channel, &mut sql),
            What::Forget(channel) => statement("UNLISTEN", channel, &mut sql),
            What::Leases => statement("LISTEN", LEASES, &mut sql),
            What::NoLeases => statement("UNLISTEN", LEASES, &mut sql),
            // An empty query: its answer comes after everything that was committed before.
            What::Check | What::Flush | What::Request(_) => {}
        }
        // A name of at most 63 bytes without NUL fits.
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
        for (lane, to) in &listeners.lanes {
            let message = message.get_or_insert_with(|| frame.raw.into());
            self.events.push_back(Event::Deliver {
                lane: *lane,
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

    /// The oldest question is answered.
    fn ready(&mut self, body: &[u8]) -> Result<(), HubFault> {
        let status = backend::ReadyForQuery::parse(body)
            .map_err(|_| HubFault::Malformed(tag::READY_FOR_QUERY))?
            .0;
        let asked = self.asked.pop_front();
        let asked = asked.filter(|_| status == backend::TransactionStatus::Idle);
        let Asked { seat, what } = asked.ok_or(HubFault::OutOfPlace(tag::READY_FOR_QUERY))?;
        self.answered += 1;
        let error = self.error.take();
        // It still listens, so nobody else may have it.
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

    /// A LISTEN is answered, or will never be asked: `seat` listens from now on.
    fn answer_listen(&mut self, channel: &Channel, seat: Option<Seat>, is_listened: bool) {
        let Some(listeners) = self.channels.get_mut(channel) else {
            debug_assert!(false, "a channel that is asked for is in the table");
            return;
        };
        listeners.coming -= 1;
        listeners.is_listened |= is_listened;
        if let Some(seat) = seat {
            let lane = listeners.lanes.entry(seat.lane).or_default();
            Arc::make_mut(lane).push(seat);
            let own = self.seats.entry(seat).or_default();
            own.insert(Arc::clone(channel));
        }
        self.drop_unused(channel);
    }

    /// A client does not listen to this channel any more.
    fn unseat(&mut self, channel: &Channel, seat: Seat) {
        let Some(listeners) = self.channels.get_mut(channel) else {
            return;
        };
        if let Some(lane) = listeners.lanes.get_mut(&seat.lane) {
            let seats = Arc::make_mut(lane);
            if let Some(place) = seats.iter().position(|other| *other == seat) {
                seats.swap_remove(place);
            }
            if seats.is_empty() {
                listeners.lanes.remove(&seat.lane);
            }
        }
        self.drop_unused(channel);
    }

    fn drop_unused(&mut self, channel: &Channel) {
        let is_unused = |listeners: &Listeners| listeners.lanes.is_empty() && listeners.coming == 0;
        if !self.channels.get(channel).is_some_and(is_unused) {
            return;
        }
        let dropped = self.channels.remove(channel);
        let is_last = self.channels.is_empty();
        if is_last {
            self.hears_leases = false;
        }
        if !self.is_up {
            if is_last {
                // Nothing but the marks of leases.
                self.waiting.clear();
            }
            return;
        }
        let mut forget = |what| self.ask(Asked { seat: None, what });
        if dropped.is_some_and(|listeners| listeners.is_listened) {
            forget(What::Forget(Arc::clone(channel)));
        }
        if is_last {
            forget(What::NoLeases);
        }
    }
}

#[cfg(test)]
mod tests;
