//! Driver over io_uring (`weir-ring`).
//!
//! Everything that the worker asks for in a turn goes to the kernel in one system call, the one that waits for the next
//! events: sends, receives, cancels. The kernel receives into buffers of the ring, so a connection owns none while it is idle.
//!
//! A connection has at most one send under way, because the kernel keeps no order among several; later bytes wait in
//! `outbox`. It leaves the driver when the kernel has ended all of its operations ([`Gone`]): its number is another
//! socket's then.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use slotmap::{Key as _, KeyData, SlotMap};
use weir_pool::Moment;
use weir_ring::{Ring, SendId, Token, Waker};

use super::secured::Records;
use super::{CHUNK, Chunk, Completion, Course, Driver, Ending, Key, Owner, Reasons, Wake};
use crate::clock::machine_us;
use crate::listen::Listener;
use crate::socket::{Socket, Stream, TcpOptions};
use crate::tls::Session;

mod accepting;
mod calls;
mod noted;
mod pieces;
mod sending;

use accepting::Accepting;
use pieces::{Piece, Pieces};

/// Longest wait while something has to be looked after.
const SHORT_WAIT: Duration = Duration::from_millis(50);
/// Number of unsent bytes from which on a connection is full.
const FULL: usize = 48 * 1024;
/// Time between two looks for memory that is not used.
const TRIM_EVERY: Duration = Duration::from_secs(1);
/// Number of events that a turn may take before what is to be sent by then goes to the kernel.
const EVENTS_AHEAD: usize = 32;

/// Receive of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hearing {
    /// The kernel receives for us.
    Armed,
    /// The kernel receives one piece for us.
    Once,
    /// The end of one of these is under way.
    Ending,
    Off,
}

#[derive(Debug)]
struct Conn {
    socket: Socket,
    tls: Option<Box<Session>>,
    owner: Owner,
    /// Bytes that go to the kernel when the send before is over.
    outbox: Vec<u8>,
    /// Send under way, and its number of bytes.
    sending: Option<(SendId, usize)>,
    /// True from [`Flow::Full`] until `Drained` is reported.
    full: bool,
    /// True if somebody waits for `Drained`.
    is_awaited: bool,
    connecting: bool,
    /// Reasons for which the connection is not received from.
    reasons: Reasons,
    /// True if the connection is served even while the others are suspended.
    awake: bool,
    hearing: Hearing,
    /// True if the last receive has filled a small buffer: more is likely to come than is wanted at once.
    floods: bool,
    /// True while a poll is under way.
    is_polled: bool,
    /// Received and not reported.
    pieces: Pieces,
    /// True if the peer has closed; pieces come before.
    has_ended: bool,
    /// True if something is known to wait in the socket, which no event has told yet.
    has_unheard: bool,
    /// True if the connection is in `ready`.
    queued: bool,
    /// True if the connection is in `unsettled`.
    unsettled: bool,
    /// True if the peer has sent the closing alert of TLS and everything before it was delivered.
    said_bye: bool,
    broken: Option<io::Error>,
    course: Course,
}

/// Connection that is closed as soon as the kernel has ended its operations.
#[derive(Debug)]
struct Gone {
    /// Kept open: the kernel knows it by its number.
    _socket: Socket,
    /// Number of operations under way.
    operations: usize,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Uring {
    ring: Ring,
    conns: SlotMap<Key, Conn>,
    gone: HashMap<Key, Gone>,
    ready: VecDeque<Key>,
    drained: VecDeque<Key>,
    connected: VecDeque<Key>,
    detaching: VecDeque<Key>,
    /// Connections whose receive is to begin or to end.
    unsettled: Vec<Key>,
    /// Connections with bytes for the kernel.
    to_send: Vec<Key>,
    closing: Vec<(Key, Moment)>,
    accepting: Accepting,
    suspended: bool,
    now: Moment,
    options: TcpOptions,
    /// Time for which a wait polls before it sleeps.
    spin: Duration,
    records: Records,
    /// Memory for opened records; taken while the worker has the last chunk.
    spare: Chunk,
    /// Events reported since the last system call.
    events: usize,
    /// Maximum number of receive buffers so far.
    buffers: usize,
    trim_at: Moment,
    /// Length of a small receive buffer.
    small_len: usize,
}

impl Wake for Waker {
    fn wake(&self) -> io::Result<()> {
        Self::wake(self)
    }
}

impl Uring {
    /// Makes a driver over a new ring, with these listeners, and the waker for other threads.
    pub(crate) fn new(
        ring: Ring,
        listeners: Vec<Listener>,
        options: TcpOptions,
    ) -> (Self, Arc<dyn Wake>) {
        let waker = Arc::new(ring.waker());
        let (buffers, small_len) = (ring.counters().buffers, ring.small_len());
        let driver = Self {
            ring,
            conns: SlotMap::with_key(),
            gone: HashMap::new(),
            ready: VecDeque::new(),
            drained: VecDeque::new(),
            connected: VecDeque::new(),
            detaching: VecDeque::new(),
            unsettled: Vec::new(),
            to_send: Vec::new(),
            closing: Vec::new(),
            accepting: Accepting::new(listeners),
            suspended: false,
            now: Moment(0),
            options,
            spin: Duration::ZERO,
            records: Records::default(),
            spare: Chunk::with_room(CHUNK),
            events: 0,
            buffers,
            trim_at: Moment(0),
            small_len,
        };
        (driver, waker)
    }

    fn insert(&mut self, stream: Stream, owner: Owner, connecting: bool) -> io::Result<Key> {
        let said_bye = stream.tls.as_ref().is_some_and(|tls| tls.is_closed());
        let conn = Conn {
            socket: stream.socket,
            tls: stream.tls,
            owner,
            outbox: Vec::new(),
            sending: None,
            full: false,
            is_awaited: false,
            connecting,
            reasons: Reasons::default(),
            awake: false,
            hearing: Hearing::Off,
            floods: false,
            is_polled: false,
            pieces: Pieces::default(),
            has_ended: false,
            has_unheard: false,
            queued: false,
            unsettled: false,
            said_bye,
            broken: None,
            course: Course::Open,
        };
        let key = self.conns.insert(conn);
        if token(key).is_none() {
            self.conns.remove(key);
            return Err(io::Error::other(
                "the ring has no number for another connection",
            ));
        }
        if !stream.received.is_empty()
            && let Some(conn) = self.conns.get_mut(key)
        {
            conn.pieces.push(Piece::opened(stream.received));
            conn.queue(key, &mut self.ready);
        }
        Ok(key)
    }

    /// Takes a connection out. Its socket is closed when the kernel has ended what it does there.
    fn remove(&mut self, key: Key) -> Option<Owner> {
        let mut conn = self.conns.remove(key)?;
        let mut operations = 0;
        if let Some(token) = token(key) {
            operations += usize::from(conn.hearing != Hearing::Off);
            end_receive(&mut self.ring, token, conn.hearing);
            if conn.is_polled {
                operations += 1;
                self.ring.cancel_poll(token);
            }
        }
        if let Some((id, _)) = conn.sending {
            operations += 1;
            self.ring.cancel_send(id);
        }
        self.free(&mut conn);
        if operations > 0 {
            let gone = Gone {
                _socket: conn.socket,
                operations,
            };
            self.gone.insert(key, gone);
        }
        Some(conn.owner)
    }

    /// Takes the memory of a connection that has ended.
    fn free(&mut self, conn: &mut Conn) {
        while let Some(piece) = conn.pieces.pop() {
            self.ring.give_back(piece.memory);
        }
        self.ring
            .recycle_send_buffer(std::mem::take(&mut conn.outbox));
    }

    /// Removes a connection that has ended, and reports its end.
    fn end(&mut self, key: Key, error: Option<io::Error>) -> Option<Completion> {
        let reasons = self.conns.get(key)?.reasons;
        let owner = self.remove(key)?;
        Some(Completion::Ended(owner, Ending { error, reasons }))
    }

    /// Removes closed connections whose backlog is sent or whose time is over.
    fn linger(&mut self) {
        let mut at = 0;
        while let Some((key, until)) = self.closing.get(at).copied() {
            let over = self.now >= until;
            let done = self
                .conns
                .get(key)
                .is_none_or(|conn| over || conn.unsent() == 0 || conn.broken.is_some());
            if done {
                self.closing.swap_remove(at);
                self.remove(key);
            } else {
                at += 1;
            }
        }
    }

    /// Begins and ends receives as the connections need it.
    fn settle(&mut self) {
        let mut keys = std::mem::take(&mut self.unsettled);
        for key in keys.drain(..) {
            let (Some(conn), Some(token)) = (self.conns.get_mut(key), token(key)) else {
                continue;
            };
            conn.unsettled = false;
            let Some(socket) = conn.socket.descriptor() else {
                continue;
            };
            // What is not reported by now is more than a turn takes: the connection waits for that.
            let wants = conn.is_heard(self.suspended)
                && conn.pieces.is_empty()
                && !conn.has_ended
                && !conn.said_bye
                && !conn.connecting;
            match (wants, conn.hearing) {
                (true, Hearing::Off) if conn.floods => {
                    conn.hearing = Hearing::Once;
                    self.ring.receive_once(token, socket);
                }
                (true, Hearing::Off) => {
                    conn.hearing = Hearing::Armed;
                    self.ring.receive(token, socket);
                }
                (true, Hearing::Armed) if !conn.floods => {}
                (true, Hearing::Once) | (_, Hearing::Ending | Hearing::Off) => {}
                (_, Hearing::Armed | Hearing::Once) => {
                    end_receive(&mut self.ring, token, conn.hearing);
                    conn.hearing = Hearing::Ending;
                }
            }
            // A connection that is not received from must tell that it broke.
            let is_watched = !wants && conn.course == Course::Open && !conn.has_ended;
            if is_watched && !conn.is_polled {
                conn.is_polled = true;
                self.ring.poll_broken(token, socket);
            }
            if conn.course == Course::Detaching && conn.is_polled {
                self.ring.cancel_poll(token);
            }
            if !conn.reasons.is_empty() {
                conn.pieces.shrink(&mut self.ring);
            }
        }
        if self.unsettled.is_empty() {
            self.unsettled = keys;
        }
    }

    /// Polls for up to `spin`, without system calls, then sleeps for the rest of the timeout.
    fn ring_wait(&mut self, mut timeout: Option<Duration>) -> io::Result<()> {
        let spin = timeout.unwrap_or(self.spin).min(self.spin);
        if !spin.is_zero() {
            self.ring.submit()?;
            let begin = machine_us();
            let mut spent = Duration::ZERO;
            while spent < spin && !self.ring.has_events() {
                std::hint::spin_loop();
                spent = Duration::from_micros(machine_us().saturating_sub(begin));
            }
            timeout = timeout.map(|timeout| timeout.saturating_sub(spent));
        }
        self.ring.wait(timeout)
    }

    /// Ends the receives of connections that bring more than a turn takes. They begin again when all is reported.
    fn settle_backlog(&mut self) {
        for key in &self.ready {
            if let Some(conn) = self.conns.get_mut(*key)
                && !conn.pieces.is_empty()
            {
                conn.unsettle(*key, &mut self.unsettled);
            }
        }
    }

    fn outcome_of_connect(&mut self, key: Key) -> Option<Completion> {
        let conn = self.conns.get_mut(key).filter(|conn| conn.connecting)?;
        let Some(outcome) = conn.socket.connected() else {
            if !conn.is_polled
                && let (Some(token), Some(socket)) = (token(key), conn.socket.descriptor())
            {
                conn.is_polled = true;
                self.ring.poll_writable(token, socket);
            }
            return None;
        };
        conn.connecting = false;
        let owner = conn.owner;
        match outcome {
            Ok(()) => {
                conn.unsettle(key, &mut self.unsettled);
                Some(Completion::Connected(owner))
            }
            Err(error) => {
                self.remove(key);
                Some(Completion::ConnectFailed(owner, error))
            }
        }
    }

    /// Returns the next event of those that were noted.
    #[inline]
    fn next_noted(&mut self) -> Option<Completion> {
        while let Some(key) = self.connected.pop_front() {
            if let Some(completion) = self.outcome_of_connect(key) {
                return Some(completion);
            }
        }
        while let Some(key) = self.drained.pop_front() {
            match self.conns.get_mut(key) {
                Some(conn) if conn.course != Course::Closing && conn.unsent() == 0 => {
                    conn.full = false;
                    conn.is_awaited = false;
                    return Some(Completion::Drained(conn.owner));
                }
                _ => {}
            }
        }
        if let Some(completion) = self.next_detached() {
            return Some(completion);
        }
        while let Some(key) = self.ready.pop_front() {
            if let Some(completion) = self.report(key) {
                return Some(completion);
            }
        }
        match self.suspended {
            true => None,
            false => self.accepting.next(),
        }
    }

    /// Reports what was received from a connection, or its end.
    #[inline]
    fn report(&mut self, key: Key) -> Option<Completion> {
        let conn = self.conns.get_mut(key)?;
        conn.queued = false;
        if conn.course == Course::Closing {
            return None;
        }
        let is_heard = conn.is_heard(self.suspended);
        if (conn.pieces.is_empty() || !is_heard)
            && let Some(error) = conn.broken.take()
        {
            return self.end(key, Some(error));
        }
        if !is_heard {
            return None;
        }
        if conn.said_bye {
            return self.end(key, None);
        }
        let Some(piece) = conn.pieces.pop() else {
            if conn.has_ended {
                return self.end(key, None);
            }
            return None;
        };
        let has_more = !conn.pieces.is_empty() || conn.has_ended || conn.broken.is_some();
        if has_more {
            conn.queue(key, &mut self.ready);
        } else if conn.hearing == Hearing::Off {
            conn.unsettle(key, &mut self.unsettled);
        }
        if conn.tls.is_some() && !piece.is_opened {
            return self.open(key, piece);
        }
        Some(Completion::Received(conn.owner, piece.into_chunk()))
    }

    /// Opens received TLS records.
    fn open(&mut self, key: Key, mut piece: Piece) -> Option<Completion> {
        let conn = self.conns.get_mut(key)?;
        let owner = conn.owner;
        let tls = conn.tls.as_deref_mut()?;
        let outcome = self.records.open(piece.bytes_mut(), tls, self.spare.room());
        self.ring.give_back(piece.memory);
        if !self.records.answer().is_empty() {
            conn.outbox.extend_from_slice(self.records.answer());
            self.to_send.push(key);
        }
        match outcome {
            Ok(opened) => {
                conn.said_bye = opened.is_closed;
                if conn.said_bye {
                    conn.queue(key, &mut self.ready);
                }
                (opened.len > 0).then(|| Completion::Received(owner, self.spare.take(opened.len)))
            }
            Err(fault) => {
                self.flush_now(key);
                self.end(key, Some(io::Error::other(fault)))
            }
        }
    }

    /// Takes the next connection out that leaves the driver.
    fn detach_next(&mut self) -> Option<Completion> {
        while let Some(key) = self.detaching.pop_front() {
            let conn = self.conns.get(key);
            // A connection that broke meanwhile has ended. It may also have been closed, or sent more.
            if !conn.is_some_and(Conn::is_out) {
                continue;
            }
            let Some(mut conn) = self.conns.remove(key) else {
                continue;
            };
            let received = self.take_pieces(&mut conn);
            self.free(&mut conn);
            let stream = match received {
                Ok(received) => Stream {
                    socket: conn.socket,
                    tls: conn.tls,
                    received,
                },
                Err(error) => {
                    let ending = Ending {
                        error: Some(error),
                        reasons: conn.reasons,
                    };
                    return Some(Completion::Ended(conn.owner, ending));
                }
            };
            return Some(Completion::Detached(conn.owner, Box::new(stream)));
        }
        None
    }

    /// Takes what was received from a connection and not reported, opened.
    fn take_pieces(&mut self, conn: &mut Conn) -> io::Result<Vec<u8>> {
        let mut received = Vec::new();
        while let Some(mut piece) = conn.pieces.pop() {
            match conn.tls.as_deref_mut() {
                Some(tls) if !piece.is_opened => {
                    let room = self.spare.room();
                    let opened = self.records.open(piece.bytes_mut(), tls, room);
                    let len = opened.map_err(io::Error::other)?.len;
                    received.extend_from_slice(self.spare.room().get(..len).unwrap_or_default());
                }
                _ => received.extend_from_slice(piece.bytes_mut()),
            }
            self.ring.give_back(piece.memory);
        }
        Ok(received)
    }
}

/// Sends what was asked for in the last turn: a worker ends without another one.
impl Drop for Uring {
    fn drop(&mut self) {
        let keys: Vec<_> = self.conns.keys().collect();
        for key in keys {
            self.flush_now(key);
        }
    }
}

fn end_receive(ring: &mut Ring, token: Token, hearing: Hearing) {
    match hearing {
        Hearing::Armed => ring.cancel_receive(token),
        Hearing::Once => ring.cancel_receive_once(token),
        Hearing::Ending | Hearing::Off => {}
    }
}

/// Returns the token of a connection. Generations of keys are odd; those of listeners are 0.
#[inline]
fn token(key: Key) -> Option<Token> {
    let number = key.data().as_ffi();
    let index = u32::try_from(number & u64::from(u32::MAX)).ok()?;
    let generation = u32::try_from(number >> 32).ok()?;
    Token::new(index, generation)
}

#[inline]
fn key_of(token: Token) -> Key {
    KeyData::from_ffi(u64::from(token.generation()) << 32 | u64::from(token.index())).into()
}

impl Conn {
    /// Number of bytes that the socket has not taken, as far as it is known.
    #[inline]
    fn unsent(&self) -> usize {
        self.outbox.len() + self.sending.map_or(0, |(_, len)| len)
    }

    /// True if the connection is received from.
    #[inline]
    fn is_heard(&self, suspended: bool) -> bool {
        self.reasons.is_empty() && self.course == Course::Open && (!suspended || self.awake)
    }

    /// True if the connection can leave the driver now.
    fn is_out(&self) -> bool {
        self.course == Course::Detaching
            && self.unsent() == 0
            && self.hearing == Hearing::Off
            && !self.is_polled
            && self.broken.is_none()
    }

    #[inline]
    fn queue(&mut self, key: Key, ready: &mut VecDeque<Key>) {
        if !std::mem::replace(&mut self.queued, true) {
            ready.push_back(key);
        }
    }

    #[inline]
    fn unsettle(&mut self, key: Key, unsettled: &mut Vec<Key>) {
        if !std::mem::replace(&mut self.unsettled, true) {
            unsettled.push(key);
        }
    }

    /// Queues what may be reported, and receives again, if nothing speaks against it any more.
    #[inline]
    fn go_on(&mut self, key: Key, ready: &mut VecDeque<Key>, unsettled: &mut Vec<Key>) {
        if !self.reasons.is_empty() || self.course != Course::Open {
            return;
        }
        if !self.pieces.is_empty() || self.has_ended || self.said_bye {
            self.queue(key, ready);
        }
        if matches!(self.hearing, Hearing::Ending | Hearing::Off) {
            self.unsettle(key, unsettled);
        }
    }
}
