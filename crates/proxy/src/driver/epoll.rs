//! Driver over epoll (mio, edge-triggered).
//!
//! Each socket is registered once. A receive that does not fill the buffer has emptied the socket (epoll(7)). So the
//! steady state is one receive and one send per message, without epoll_ctl. Writability is watched only while a backlog
//! exists.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll, Token, Waker};
use slotmap::{Key as _, KeyData, SlotMap};
use weir_pool::Moment;
use weir_stats::Endpoint;

use super::secured::Records;
use super::{
    CHUNK, Chunk, Completion, Course, Driver, Ending, Flow, Key, LINGER, Owner, Reasons, Wake, Why,
};
use crate::clock::machine_us;
use crate::listen::Listener;
use crate::socket::{Socket, Stream, Target, TcpOptions};
use crate::tls::Session;

mod noted;
mod sealed;
mod watched;

use noted::Noted;
use watched::{forget, listen_to, watch, watch_anew};

const EVENTS_MAX: usize = 1024;
const WAKER: Token = Token(usize::MAX);
/// Token of the first listener; the others count down from here.
const LISTENERS: usize = usize::MAX - 1;
/// Pause of accepting when there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
struct Conn {
    socket: Socket,
    tls: Option<Box<Session>>,
    owner: Owner,
    /// Bytes that the socket has not taken yet; `sent` of them have been sent since.
    backlog: Vec<u8>,
    sent: usize,
    /// True from the time at which a backlog begins until `Drained` is reported.
    full: bool,
    connecting: bool,
    /// Reasons for which the connection is not received from.
    reasons: Reasons,
    /// True if the connection is served even while the others are suspended.
    awake: bool,
    /// True if there may be something to receive.
    readable: bool,
    /// True if the connection is in the queue `ready`.
    queued: bool,
    /// True if the peer has closed; bytes sent before that may still be unread.
    hung_up: bool,
    /// True if the peer has sent the closing alert of TLS and everything before it was delivered.
    said_bye: bool,
    broken: Option<ErrorKind>,
    course: Course,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Epoll {
    poll: Poll,
    events: Events,
    conns: SlotMap<Key, Conn>,
    ready: VecDeque<Key>,
    drained: VecDeque<Key>,
    connected: VecDeque<Key>,
    /// Connections that leave the driver.
    detaching: VecDeque<Key>,
    /// Bytes that another driver had received from connections, to be reported before any others.
    early: VecDeque<(Key, Vec<u8>)>,
    closing: Vec<(Key, Moment)>,
    /// Listeners by number; an empty place belongs to a closed one. Places never move, since epoll knows a listener by
    /// its number.
    listeners: Vec<Option<Listener>>,
    accepts: VecDeque<usize>,
    accept_paused_until: Option<Moment>,
    suspended: bool,
    now: Moment,
    options: TcpOptions,
    /// Time for which a wait polls before it sleeps.
    spin: Duration,
    /// Buffers that TLS connections share.
    records: Records,
    /// Memory of the next chunk; taken while the worker has the last one.
    spare: Chunk,
}

impl Epoll {
    /// Makes a driver with these listeners, and the waker for other threads.
    pub(crate) fn new(
        listeners: Vec<Listener>,
        options: TcpOptions,
    ) -> io::Result<(Self, Arc<dyn Wake>)> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        for (i, listener) in listeners.iter().enumerate() {
            listen_to(poll.registry(), listener, Token(LISTENERS - i))?;
        }
        let driver = Self {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            conns: SlotMap::with_key(),
            ready: VecDeque::new(),
            drained: VecDeque::new(),
            connected: VecDeque::new(),
            detaching: VecDeque::new(),
            early: VecDeque::new(),
            closing: Vec::new(),
            accepts: VecDeque::new(),
            listeners: listeners.into_iter().map(Some).collect(),
            accept_paused_until: None,
            suspended: false,
            now: Moment(0),
            options,
            spin: Duration::ZERO,
            records: Records::default(),
            spare: Chunk::with_room(CHUNK),
        };
        Ok((driver, waker))
    }

    fn insert(&mut self, mut stream: Stream, owner: Owner, connecting: bool) -> io::Result<Key> {
        let registry = self.poll.registry();
        let received = std::mem::take(&mut stream.received);
        let key = self.conns.try_insert_with_key(|key| {
            watch(registry, &stream.socket, token(key), connecting)?;
            let said_bye = stream.tls.as_ref().is_some_and(|tls| tls.is_closed());
            Ok::<_, io::Error>(Conn {
                socket: stream.socket,
                tls: stream.tls,
                owner,
                backlog: Vec::new(),
                sent: 0,
                full: false,
                connecting,
                reasons: Reasons::default(),
                awake: false,
                readable: false,
                queued: false,
                hung_up: false,
                said_bye,
                broken: None,
                course: Course::Open,
            })
        })?;
        if !received.is_empty() {
            self.early.push_back((key, received));
        }
        Ok(key)
    }

    /// Polls for up to `spin`, then sleeps for the rest of the timeout.
    fn poll_or_sleep(&mut self, mut timeout: Option<Duration>) -> io::Result<()> {
        let spin = timeout.unwrap_or(self.spin).min(self.spin);
        if !spin.is_zero() {
            let begin = machine_us();
            let mut spent = Duration::ZERO;
            while spent < spin {
                self.poll.poll(&mut self.events, Some(Duration::ZERO))?;
                if !self.events.is_empty() {
                    return Ok(());
                }
                spent = Duration::from_micros(machine_us().saturating_sub(begin));
            }
            timeout = timeout.map(|timeout| timeout.saturating_sub(spent));
        }
        self.poll.poll(&mut self.events, timeout)
    }

    fn note(&mut self, token: Token, event: Noted) {
        if token == WAKER {
            return;
        }
        if let Some(listener) = LISTENERS
            .checked_sub(token.0)
            .filter(|i| *i < self.listeners.len())
        {
            self.accepts.push_back(listener);
            return;
        }
        let key = key_of(token);
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        if conn.connecting {
            self.connected.push_back(key);
            return;
        }
        if event.readable || event.hung_up {
            conn.readable = true;
            conn.hung_up |= event.hung_up;
        }
        if event.broken && !conn.is_heard() {
            // A stopped connection is not read, so the error is reported at once.
            conn.broken = Some(ErrorKind::ConnectionReset);
        }
        if (conn.readable || conn.broken.is_some()) && !conn.queued {
            conn.queued = true;
            self.ready.push_back(key);
        }
        if event.writable && !conn.backlog.is_empty() {
            self.flush(key);
        }
    }

    /// Sends as much of the backlog as the socket takes.
    fn flush(&mut self, key: Key) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        while let Some(rest) = conn
            .backlog
            .get(conn.sent..)
            .filter(|rest| !rest.is_empty())
        {
            match conn.socket.send(rest) {
                Ok(sent) => conn.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    conn.broken = Some(error.kind());
                    break;
                }
            }
        }
        conn.backlog = Vec::new();
        conn.sent = 0;
        let _ = watch_anew(self.poll.registry(), &conn.socket, token(key), false);
        if conn.broken.is_some() && !conn.queued {
            conn.queued = true;
            self.ready.push_back(key);
        }
        self.drained.push_back(key);
    }

    fn remove(&mut self, key: Key) -> Option<Conn> {
        let conn = self.conns.remove(key)?;
        forget(self.poll.registry(), conn.socket.descriptor());
        Some(conn)
    }

    /// Removes a connection that has ended, and reports its end.
    fn end(&mut self, key: Key, error: Option<io::Error>) -> Option<Completion> {
        let conn = self.remove(key)?;
        let reasons = conn.reasons;
        Some(Completion::Ended(conn.owner, Ending { error, reasons }))
    }

    /// Removes closed connections whose backlog is sent or whose time is over.
    fn linger(&mut self) {
        let mut at = 0;
        while let Some((key, until)) = self.closing.get(at).copied() {
            let over = self.now >= until;
            let done = self
                .conns
                .get(key)
                .is_none_or(|conn| over || conn.backlog.is_empty() || conn.broken.is_some());
            if done {
                self.closing.swap_remove(at);
                self.remove(key);
            } else {
                at += 1;
            }
        }
    }

    fn accept(&mut self) -> Option<Completion> {
        while let Some(index) = self.accepts.front().copied() {
            let Some(Some(listener)) = self.listeners.get(index) else {
                self.accepts.pop_front();
                continue;
            };
            match listener.accept(&self.options) {
                Ok(accepted) => return Some(Completion::Accepted(Box::new(accepted))),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.accepts.pop_front();
                }
                // The client closed before it was accepted; the next one may be there.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) => {}
                Err(error) => {
                    self.accept_paused_until = Some(self.now.plus(ACCEPT_PAUSE));
                    return Some(Completion::AcceptFailed(error));
                }
            }
        }
        None
    }

    fn outcome_of_connect(&mut self, key: Key) -> Option<Completion> {
        let conn = self.conns.get_mut(key).filter(|conn| conn.connecting)?;
        let outcome = conn.socket.connected()?;
        conn.connecting = false;
        let owner = conn.owner;
        match outcome {
            Ok(()) => {
                let _ = watch_anew(self.poll.registry(), &conn.socket, token(key), false);
                Some(Completion::Connected(owner))
            }
            Err(error) => {
                self.remove(key);
                Some(Completion::ConnectFailed(owner, error))
            }
        }
    }

    /// Returns the next event. Received bytes are put into the spare chunk, which goes with the event.
    fn next_event(&mut self) -> Option<Completion> {
        while let Some(key) = self.connected.pop_front() {
            if let Some(completion) = self.outcome_of_connect(key) {
                return Some(completion);
            }
        }
        while let Some(key) = self.drained.pop_front() {
            match self.conns.get_mut(key) {
                Some(conn) if conn.course != Course::Closing && conn.backlog.is_empty() => {
                    conn.full = false;
                    if conn.course == Course::Detaching {
                        self.detaching.push_back(key);
                    }
                    return Some(Completion::Drained(conn.owner));
                }
                _ => {}
            }
        }
        if let Some(completion) = self.next_detached() {
            return Some(completion);
        }
        if !self.early.is_empty()
            && let Some(completion) = self.report_early()
        {
            return Some(completion);
        }
        while let Some(key) = self.ready.pop_front() {
            if let Some(completion) = self.receive(key) {
                return Some(completion);
            }
        }
        if self.accept_paused_until.is_some() || self.suspended {
            None
        } else {
            self.accept()
        }
    }

    /// Takes the next connection out that leaves the driver and has sent all bytes.
    fn detach_next(&mut self) -> Option<Completion> {
        while let Some(key) = self.detaching.pop_front() {
            let conn = self.conns.get(key);
            // A connection that broke meanwhile has ended. It may also have been closed, or sent more.
            let is_ready = |conn: &Conn| {
                conn.course == Course::Detaching && !conn.full && conn.broken.is_none()
            };
            if !conn.is_some_and(is_ready) {
                continue;
            }
            if let Some(conn) = self.remove(key) {
                let early = self.early.iter().position(|(early, _)| *early == key);
                let received = early.and_then(|place| self.early.remove(place));
                let stream = Stream {
                    socket: conn.socket,
                    tls: conn.tls,
                    received: received.unwrap_or_default().1,
                };
                return Some(Completion::Detached(conn.owner, Box::new(stream)));
            }
        }
        None
    }

    /// Reports bytes that another driver had received.
    fn report_early(&mut self) -> Option<Completion> {
        let (conns, suspended) = (&self.conns, self.suspended);
        self.early.retain(|(key, _)| conns.contains_key(*key));
        let place = self.early.iter().position(|(key, _)| {
            let conn = conns.get(*key);
            conn.is_some_and(|conn| conn.is_heard() && (!suspended || conn.awake))
        })?;
        let (key, received) = self.early.get_mut(place)?;
        let room = self.spare.room();
        let len = received.len().min(room.len());
        room.get_mut(..len)?.copy_from_slice(received.get(..len)?);
        received.drain(..len);
        let is_over = received.is_empty();
        let owner = self.conns.get(*key)?.owner;
        if is_over {
            self.early.remove(place);
        }
        Some(Completion::Received(owner, self.spare.take(len)))
    }

    fn receive(&mut self, key: Key) -> Option<Completion> {
        let conn = self.conns.get_mut(key)?;
        conn.queued = false;
        if conn.course == Course::Closing {
            return None;
        }
        if let Some(kind) = conn.broken {
            return self.end(key, Some(kind.into()));
        }
        if !conn.is_heard() || !conn.readable || (self.suspended && !conn.awake) {
            return None;
        }
        if conn.said_bye {
            return self.end(key, None);
        }
        if conn.tls.is_some() {
            return self.receive_sealed(key);
        }
        let room = self.spare.room();
        let error = match conn.socket.receive(room) {
            Ok(0) => None,
            Ok(received) => {
                conn.readable = received == room.len() || conn.hung_up;
                if conn.readable {
                    conn.queued = true;
                    self.ready.push_back(key);
                }
                return Some(Completion::Received(conn.owner, self.spare.take(received)));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                conn.readable = false;
                return None;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                conn.queued = true;
                self.ready.push_back(key);
                return None;
            }
            Err(error) => Some(error),
        };
        self.end(key, error)
    }

    /// Sends bytes without TLS. The socket's own buffer is the watermark: what it does not take becomes the backlog.
    #[inline]
    fn send_raw(&mut self, key: Key, bytes: &[u8]) -> Flow {
        let Some(conn) = self.conns.get_mut(key) else {
            return Flow::On;
        };
        let mut sent = 0;
        if conn.backlog.is_empty() {
            match conn.socket.send(bytes) {
                Ok(n) if n == bytes.len() => return Flow::On,
                Ok(n) => sent = n,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => {
                    conn.broken = Some(error.kind());
                    if !conn.queued {
                        conn.queued = true;
                        self.ready.push_back(key);
                    }
                    return Flow::On;
                }
            }
            let _ = watch_anew(self.poll.registry(), &conn.socket, token(key), true);
        }
        conn.backlog
            .extend_from_slice(bytes.get(sent..).unwrap_or_default());
        conn.full = true;
        Flow::Full
    }
}

/// Returns the token of a connection. It equals the token of a listener or of the waker only after 2^31 connections in
/// the last of 2^32 places.
fn token(key: Key) -> Token {
    Token(usize::try_from(key.data().as_ffi()).unwrap_or(WAKER.0))
}

fn key_of(token: Token) -> Key {
    KeyData::from_ffi(token.0 as u64).into()
}

impl Wake for Waker {
    fn wake(&self) -> io::Result<()> {
        Self::wake(self)
    }
}

impl Conn {
    fn has_partial_record(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.has_partial_record())
    }

    /// True if the connection is received from.
    #[inline]
    fn is_heard(&self) -> bool {
        self.reasons.is_empty() && self.course == Course::Open
    }

    /// Queues the connection if it may be received from, and there may be something to receive.
    #[inline]
    fn queue_if_ready(&mut self, key: Key, ready: &mut VecDeque<Key>) {
        if self.readable && self.is_heard() && !self.queued {
            self.queued = true;
            ready.push_back(key);
        }
    }
}

impl Driver for Epoll {
    fn set_options(&mut self, options: TcpOptions) {
        self.options = options;
    }

    fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    fn wait(&mut self, now: Moment, timeout: Option<Duration>) -> io::Result<()> {
        self.now = now;
        let mut timeout = timeout;
        if !self.closing.is_empty() {
            self.linger();
        }
        self.accept_paused_until = self.accept_paused_until.filter(|until| now < *until);
        if !self.closing.is_empty() || self.accept_paused_until.is_some() {
            timeout = Some(timeout.unwrap_or(ACCEPT_PAUSE).min(ACCEPT_PAUSE));
        } else if !self.accepts.is_empty() && !self.suspended {
            timeout = Some(Duration::ZERO);
        }
        let is_idle = self.ready.is_empty() && self.drained.is_empty() && self.connected.is_empty();
        if !is_idle || !self.detaching.is_empty() || !self.early.is_empty() {
            timeout = Some(Duration::ZERO);
        }
        match self.poll_or_sleep(timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        for event in &events {
            self.note(event.token(), Noted::new(event));
        }
        self.events = events;
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Option<Completion> {
        if self.spare.is_taken() {
            self.spare = Chunk::with_room(CHUNK);
        }
        self.next_event()
    }

    #[inline]
    fn recycle(&mut self, chunk: Chunk) {
        self.spare = chunk;
    }

    fn add(&mut self, stream: Stream, owner: Owner) -> io::Result<Key> {
        let key = self.insert(stream, owner, false)?;
        // A server that comes from another worker is used before epoll reports on it: earlier bytes must be known now.
        if let (Owner::Server(_), Some(conn)) = (owner, self.conns.get_mut(key))
            && (conn.said_bye || conn.socket.has_news())
        {
            conn.readable = true;
            conn.queued = true;
            self.ready.push_back(key);
        }
        Ok(key)
    }

    fn connect(&mut self, target: &Target, owner: Owner) -> io::Result<Key> {
        let socket = Socket::connect(target, &self.options)?;
        let key = self.insert(socket.into(), owner, true)?;
        // A unix socket is connected at once, and epoll reports nothing about it.
        self.connected.push_back(key);
        Ok(key)
    }

    #[inline]
    fn send(&mut self, key: Key, bytes: &[u8]) -> Flow {
        let Some(conn) = self.conns.get_mut(key) else {
            return Flow::On;
        };
        if conn.broken.is_some() {
            return Flow::On;
        }
        if conn.tls.is_some() {
            return self.send_sealed(key, bytes);
        }
        self.send_raw(key, bytes)
    }

    fn secure(&mut self, key: Key, session: Box<Session>) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.said_bye = session.is_closed();
            conn.tls = Some(session);
            if conn.said_bye {
                conn.readable = true;
                if !std::mem::replace(&mut conn.queued, true) {
                    self.ready.push_back(key);
                }
            }
        }
    }

    fn unsent(&self, key: Key) -> usize {
        let conn = self.conns.get(key);
        conn.map_or(0, |conn| conn.backlog.len() - conn.sent)
    }

    #[inline]
    fn is_drained(&mut self, key: Key) -> bool {
        !self.is_full(key)
    }

    #[inline]
    fn is_full(&self, key: Key) -> bool {
        self.conns.get(key).is_some_and(|conn| conn.full)
    }

    fn local(&self, key: Key, unix_port: u16) -> Endpoint {
        let conn = self.conns.get(key);
        conn.map_or_else(Endpoint::default, |conn| conn.socket.local(unix_port))
    }

    #[inline]
    fn has_news(&self, key: Key) -> bool {
        self.conns
            .get(key)
            .is_none_or(|conn| conn.readable || conn.broken.is_some() || conn.has_partial_record())
            || self.early.iter().any(|(early, _)| *early == key)
    }

    fn stop(&mut self, key: Key, why: Why) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.reasons.add(why);
        }
    }

    fn go(&mut self, key: Key, why: Why) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.reasons.remove(why);
            conn.queue_if_ready(key, &mut self.ready);
        }
    }

    #[inline]
    fn clear_reasons(&mut self, key: Key) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.reasons = Reasons::default();
            conn.queue_if_ready(key, &mut self.ready);
        }
    }

    #[inline]
    fn reasons(&self, key: Key) -> Reasons {
        let conn = self.conns.get(key);
        conn.map_or_else(Reasons::default, |conn| conn.reasons)
    }

    fn suspend_all(&mut self) {
        self.suspended = true;
    }

    fn resume_all(&mut self) {
        self.suspended = false;
        for (key, conn) in &mut self.conns {
            conn.queue_if_ready(key, &mut self.ready);
        }
    }

    fn keep_awake(&mut self, key: Key) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.awake = true;
        }
    }

    fn close(&mut self, key: Key) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        if let Some(tls) = &mut conn.tls {
            let good_bye = tls.close();
            self.send_raw(key, &good_bye);
        }
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        if conn.backlog.is_empty() || conn.broken.is_some() {
            self.remove(key);
            return;
        }
        conn.course = Course::Closing;
        conn.owner = Owner::Nobody;
        self.closing.push((key, self.now.plus(LINGER)));
    }

    fn abort(&mut self, key: Key) {
        self.remove(key);
    }

    fn close_with(&mut self, key: Key, message: &[u8]) {
        match self.send(key, message) {
            Flow::On => self.close(key),
            Flow::Full => self.abort(key),
        }
    }

    fn begin_detach(&mut self, key: Key) {
        let conn = self.conns.get_mut(key);
        let Some(conn) = conn.filter(|conn| conn.course == Course::Open) else {
            return;
        };
        conn.course = Course::Detaching;
        if !conn.full {
            self.detaching.push_back(key);
        }
    }

    #[inline]
    fn next_detached(&mut self) -> Option<Completion> {
        if self.detaching.is_empty() {
            return None;
        }
        self.detach_next()
    }

    fn stop_accepting_tcp(&mut self) {
        let registry = self.poll.registry();
        for place in &mut self.listeners {
            if let Some(listener) = place.take_if(|listener| !listener.is_unix()) {
                forget(registry, Some(listener.as_fd()));
            }
        }
    }

    fn stop_accepting(&mut self) {
        for listener in self.listeners.drain(..).flatten() {
            forget(self.poll.registry(), Some(listener.as_fd()));
        }
        self.accepts.clear();
    }
}
