//! Driver without sockets, for tests. Connections are pairs of byte queues of limited size; the test holds the other
//! end and decides what happens, and when.
//!
//! It behaves as [`super::Epoll`]: one segment per receive, and a backlog once the queue is full. An orderly end is
//! reported only after everything before it was read; a reset at once, even to a stopped connection.
//!
//! On request its sends complete as those of a ring ([`Sending::Later`]): late, in parts, and out of order between
//! connections.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use slotmap::SlotMap;
use weir_pool::Moment;
use weir_stats::Endpoint;
use weir_testkit::cuts::Dice;

use super::secured::{Records, TlsRead};
use super::{CHUNK, Chunk, Completion, Driver, Ending, Flow, Key, Owner, Reasons, Why};
use crate::global::lock;
use crate::listen::Accepted;
use crate::socket::{Socket, Stream, Target, TcpOptions};
use crate::tls::Session;

mod layer;
mod pipe;

pub(crate) use layer::Layer;
pub(crate) use pipe::{End, MemoryStream, Peer};
use pipe::{Link, Sent};

/// Too many open files.
const EMFILE: i32 = 24;
/// Time after which the backlog of a closed connection is dropped.
const LINGER: Duration = Duration::from_secs(5);

/// Manner in which sends complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Sending {
    /// As over epoll: the peer's queue takes at once what fits, and the connection is full if that is not everything.
    #[default]
    AtOnce,
    /// As over a ring: every byte is in flight until a later turn, and a connection is full from this number of bytes
    /// on.
    Later { watermark: usize },
}

#[derive(Debug)]
struct Conn {
    stream: MemoryStream,
    /// Record layer of the stand-in. Tests of real TLS open and seal by themselves.
    tls: Option<Box<Session>>,
    /// True if there may be something to receive, as epoll would know; used only for protected connections.
    readable: bool,
    /// True if the peer has sent the closing record and everything before it was delivered.
    said_bye: bool,
    owner: Owner,
    backlog: VecDeque<u8>,
    /// Number of bytes that the peer's queue has, and whose sends are not reported yet.
    unreported: usize,
    /// True from `Flow::Full` until `Drained` is reported.
    full: bool,
    /// True if the worker waits for `Drained`.
    is_awaited: bool,
    sending: Sending,
    connecting: bool,
    reasons: Reasons,
    awake: bool,
    broken: bool,
    closing: Option<Moment>,
    /// True if the connection leaves the driver.
    detaching: bool,
    /// Bytes received and not reported.
    received: Vec<u8>,
}

impl Conn {
    /// Moves all bytes from the backlog into the queue that fit.
    fn flush(&mut self) {
        self.flush_some(usize::MAX);
    }

    /// Moves up to `max` bytes from the backlog into the queue, as far as they fit. Returns their number.
    fn flush_some(&mut self, max: usize) -> usize {
        let mut moved = 0;
        let mut pipe = self.stream.pipe();
        match pipe.ended {
            Some(End::Reset) => self.broken = true,
            Some(End::Orderly) => self.backlog.clear(),
            None => {
                let room = pipe.capacity.saturating_sub(pipe.outward.len());
                moved = self.backlog.len().min(room).min(max);
                pipe.outward.extend(self.backlog.drain(..moved));
            }
        }
        if self.broken {
            self.backlog.clear();
            self.unreported = 0;
        }
        moved
    }

    /// True if a connection that is to leave is out without delay, as over epoll.
    fn leaves_at_once(&self) -> bool {
        self.sending == Sending::AtOnce && !self.full && !self.broken
    }

    /// True if the peer's queue takes some of the backlog.
    fn can_flush(&self) -> bool {
        let pipe = self.stream.pipe();
        !self.backlog.is_empty() && (pipe.ended.is_some() || pipe.capacity > pipe.outward.len())
    }

    /// Number of bytes that are not reported as sent.
    fn unsent(&self) -> usize {
        self.backlog.len() + self.unreported
    }

    /// Sends bytes without the record layer.
    fn send_raw(&mut self, bytes: &[u8]) {
        let had_backlog = !self.backlog.is_empty();
        self.backlog.extend(bytes);
        match self.sending {
            Sending::AtOnce => {
                if !had_backlog {
                    self.flush();
                }
                self.full |= !self.backlog.is_empty();
            }
            Sending::Later { watermark } => self.full |= self.unsent() >= watermark.max(1),
        }
    }

    fn flow(&self) -> Flow {
        if self.full { Flow::Full } else { Flow::On }
    }

    fn has_partial_record(&self) -> bool {
        let tls = self.tls.as_ref();
        tls.is_some_and(|tls| tls.has_partial_record())
    }
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct MemoryDriver {
    suspended: bool,
    conns: SlotMap<Key, Conn>,
    drained: VecDeque<Key>,
    /// Connections that were told to leave since the last turn.
    detaching: Vec<Key>,
    arrivals: VecDeque<Accepted>,
    dialled: Vec<(Owner, Peer)>,
    deaf: bool,
    now: Moment,
    moves: u64,
    /// Capacity of the connections that the worker makes, in bytes.
    capacity: usize,
    /// Index of the connection that comes first in the next turn.
    pub(crate) first: usize,
    /// True if there are no descriptors for more connections.
    pub(crate) is_short: bool,
    /// True if the shortage was reported since the last wait.
    told_short: bool,
    sent: Sent,
    /// Manner in which the sends of new connections complete.
    pub(crate) sending: Sending,
    /// Dice for the turns in which sends in flight complete late or in part; without them they complete in the next
    /// turn.
    pub(crate) lateness: Option<Dice>,
    /// Buffers that TLS connections share.
    records: Records,
    /// Size of chunks, in bytes.
    pub(crate) chunk: usize,
    spare: Chunk,
}

impl MemoryDriver {
    /// Makes a driver whose connections to servers have this capacity, in bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            chunk: CHUNK,
            ..Self::default()
        }
    }

    /// Connects a client.
    pub(crate) fn arrive(&mut self, accepted: Accepted) {
        if !self.deaf {
            self.arrivals.push_back(accepted);
        }
    }

    /// Takes the connections that were not accepted yet: they wait in the listening socket.
    pub(crate) fn take_arrivals(&mut self) -> VecDeque<Accepted> {
        std::mem::take(&mut self.arrivals)
    }

    /// Takes the connection whose descriptor, for this file, was sent to another process.
    pub(crate) fn take_sent(&self, file: u64) -> Option<Stream> {
        let mut sent = lock(&self.sent);
        let place = sent.iter().position(|(known, _)| *known == file)?;
        let held = sent.swap_remove(place).1;
        Some(Socket::Memory(MemoryStream { held, sent: None }).into())
    }

    /// Hands the backlogs to the system, as the end of a process does.
    pub(crate) fn leave_backlogs(&mut self) {
        for (_, conn) in &mut self.conns {
            let mut pipe = conn.stream.pipe();
            if pipe.ended.is_none() {
                pipe.outward.extend(conn.backlog.drain(..));
            }
        }
    }

    /// Takes the connections asked for since the last call; each waits to be accepted or refused.
    pub(crate) fn take_dialled(&mut self) -> Vec<(Owner, Peer)> {
        std::mem::take(&mut self.dialled)
    }

    /// Number of events so far; an unchanged number means that nothing has happened.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// Number of open connections, including those that only send their backlog.
    pub(crate) fn open(&self) -> usize {
        self.conns.len()
    }

    /// Number of bytes that the peer's queue has not got, without records of the record layer's own.
    pub(crate) fn undelivered(&self, key: Key) -> usize {
        let conn = self.conns.get(key).filter(|conn| conn.tls.is_none());
        conn.map_or(0, |conn| conn.backlog.len())
    }

    /// Length of the largest backlog, in bytes.
    pub(crate) fn backlog_max(&self) -> usize {
        let backlogs = self.conns.iter().map(|(_, conn)| conn.backlog.len());
        backlogs.max().unwrap_or(0)
    }

    fn insert(&mut self, stream: MemoryStream, owner: Owner, connecting: bool) -> Key {
        self.conns.insert(Conn {
            stream,
            tls: None,
            readable: true,
            said_bye: false,
            owner,
            backlog: VecDeque::new(),
            unreported: 0,
            full: false,
            is_awaited: false,
            sending: self.sending,
            connecting,
            reasons: Reasons::default(),
            awake: false,
            broken: false,
            closing: None,
            detaching: false,
            received: Vec::new(),
        })
    }

    /// Removes a connection that has ended, and reports its end.
    fn end(&mut self, key: Key, error: Option<io::Error>) -> Option<Completion> {
        let conn = self.conns.remove(key)?;
        let reasons = conn.reasons;
        Some(Completion::Ended(conn.owner, Ending { error, reasons }))
    }

    /// Returns the next event of a protected connection.
    fn look_sealed(&mut self, key: Key, chunk: &mut Chunk) -> Option<Completion> {
        loop {
            let conn = self.conns.get_mut(key)?;
            let owner = conn.owner;
            if conn.said_bye {
                return self.end(key, None);
            }
            conn.readable |= std::mem::take(&mut conn.stream.pipe().news);
            if !conn.readable {
                return None;
            }
            let tls = conn.tls.as_mut()?;
            let stream = &conn.stream;
            let read = self
                .records
                .read(|room| stream.receive(room), tls, chunk.room());
            match read {
                TlsRead::Nothing | TlsRead::Again => conn.readable = false,
                TlsRead::Opened { len, more, closed } => {
                    self.moves += 1;
                    conn.said_bye = closed;
                    let hung_up = conn.stream.pipe().ended.is_some();
                    conn.readable = more || closed || hung_up;
                    if !self.records.answer().is_empty() {
                        conn.send_raw(self.records.answer());
                    }
                    if len > 0 {
                        return Some(Completion::Received(owner, chunk.take(len)));
                    }
                }
                TlsRead::Ended(error) => return self.end(key, error),
            }
        }
    }

    /// Moves bytes in flight on, in an order that dice may decide.
    fn complete_sends(&mut self) {
        let mut keys: Vec<_> = self.conns.keys().collect();
        if let Some(dice) = &mut self.lateness {
            for place in (1..keys.len()).rev() {
                keys.swap(place, dice.below(place + 1));
            }
        }
        for key in keys {
            let Some(conn) = self.conns.get_mut(key) else {
                continue;
            };
            if conn.unsent() == 0 {
                continue;
            }
            let is_later = conn.sending != Sending::AtOnce;
            // A send that could complete is an event, also if it does not in this turn.
            self.moves += u64::from(conn.unreported > 0 || is_later && conn.can_flush());
            let fate = match &mut self.lateness {
                Some(dice) if is_later => dice.below(4),
                _ => 3,
            };
            match (fate, &mut self.lateness) {
                (0, _) => continue,
                (1, Some(dice)) => {
                    let part = 1 + dice.below(conn.backlog.len());
                    conn.flush_some(part);
                }
                // The peer has the bytes before the completion comes.
                (2, _) => conn.unreported += conn.flush_some(usize::MAX),
                _ => {
                    conn.unreported = 0;
                    conn.flush();
                }
            }
            if conn.unsent() == 0 && (conn.full || conn.is_awaited) {
                self.moves += 1;
                self.drained.push_back(key);
            }
        }
    }

    /// Returns the next event. Received bytes are put into `chunk`, which goes with the event.
    fn next_event(&mut self, chunk: &mut Chunk) -> Option<Completion> {
        self.moves += 1;
        let is_late = self
            .lateness
            .as_mut()
            .is_some_and(|dice| dice.below(2) == 0);
        if is_late && let Some(completion) = self.next_of_connections(chunk) {
            return Some(completion);
        }
        if let Some(completion) = self.next_detached() {
            return Some(completion);
        }
        while let Some(key) = self.drained.pop_front() {
            let conn = self.conns.get_mut(key);
            let is_open = |conn: &&mut Conn| conn.closing.is_none() && !conn.broken;
            if let Some(conn) = conn.filter(is_open).filter(|conn| conn.unsent() == 0) {
                (conn.full, conn.is_awaited) = (false, false);
                return Some(Completion::Drained(conn.owner));
            }
        }
        if let Some(completion) = self.next_of_connections(chunk) {
            return Some(completion);
        }
        let waits = !self.suspended && !self.arrivals.is_empty();
        if waits && self.is_short {
            self.moves -= 1;
            let told = std::mem::replace(&mut self.told_short, true);
            return (!told).then(|| Completion::AcceptFailed(io::Error::from_raw_os_error(EMFILE)));
        }
        if !self.suspended
            && let Some(accepted) = self.arrivals.pop_front()
        {
            return Some(Completion::Accepted(Box::new(accepted)));
        }
        self.moves -= 1;
        None
    }

    fn next_of_connections(&mut self, chunk: &mut Chunk) -> Option<Completion> {
        let mut keys: Vec<_> = self.conns.keys().collect();
        if !keys.is_empty() {
            let first = self.first % keys.len();
            keys.rotate_left(first);
        }
        keys.into_iter().find_map(|key| self.look(key, chunk))
    }

    /// Takes a connection out that is on its way. As over a ring, some bytes may have been received by then.
    fn detach(&mut self, key: Key) -> Option<Completion> {
        let mut conn = self.conns.remove(key)?;
        let takes = |dice: &mut Dice| dice.below(2) == 0;
        if conn.sending != Sending::AtOnce
            && conn.tls.is_none()
            && self.lateness.as_mut().is_some_and(takes)
            && let Some(segment) = conn.stream.pipe().inward.pop_front()
        {
            conn.received.extend(segment);
        }
        conn.stream.sent = Some(Arc::clone(&self.sent));
        let stream = Stream {
            socket: Socket::Memory(conn.stream),
            tls: conn.tls,
            received: conn.received,
        };
        Some(Completion::Detached(conn.owner, Box::new(stream)))
    }

    /// Returns the next event of one connection.
    fn look(&mut self, key: Key, chunk: &mut Chunk) -> Option<Completion> {
        let conn = self.conns.get_mut(key)?;
        let owner = conn.owner;
        if conn.closing.is_some() {
            return None;
        }
        let is_late = |dice: &mut Dice| dice.below(3) == 0;
        if conn.detaching && conn.unsent() == 0 && !conn.full && !conn.broken {
            if conn.sending != Sending::AtOnce && self.lateness.as_mut().is_some_and(is_late) {
                return None;
            }
            return self.detach(key);
        }
        let mut pipe = conn.stream.pipe();
        if conn.connecting {
            let outcome = match pipe.link {
                Link::Pending => return None,
                Link::Made => Completion::Connected(owner),
                Link::Refused => {
                    Completion::ConnectFailed(owner, ErrorKind::ConnectionRefused.into())
                }
            };
            conn.connecting = false;
            let refused = pipe.link == Link::Refused;
            drop(pipe);
            if refused {
                self.conns.remove(key);
            }
            return Some(outcome);
        }
        let reset = conn.broken || pipe.ended == Some(End::Reset);
        if !reset && (conn.detaching || !conn.reasons.is_empty() || (self.suspended && !conn.awake))
        {
            return None;
        }
        if !conn.received.is_empty() {
            let len = conn.received.len().min(chunk.room().len());
            chunk.room()[..len].copy_from_slice(&conn.received[..len]);
            conn.received.drain(..len);
            return Some(Completion::Received(owner, chunk.take(len)));
        }
        if !reset && conn.tls.is_some() {
            drop(pipe);
            return self.look_sealed(key, chunk);
        }
        if !reset && let Some(mut segment) = pipe.inward.pop_front() {
            let len = segment.len().min(chunk.room().len());
            chunk.room()[..len].copy_from_slice(&segment[..len]);
            if len < segment.len() {
                pipe.inward.push_front(segment.split_off(len));
            }
            return Some(Completion::Received(owner, chunk.take(len)));
        }
        let ended = reset || pipe.ended.is_some();
        drop(pipe);
        let error = reset.then(|| ErrorKind::ConnectionReset.into());
        ended.then(|| self.end(key, error)).flatten()
    }
}

/// Returns the inode of a descriptor: the same in every process that has the descriptor.
pub(crate) fn file(descriptor: BorrowedFd<'_>) -> u64 {
    rustix::fs::fstat(descriptor).expect("an open file").st_ino
}

impl Driver for MemoryDriver {
    /// Does nothing: there are no sockets to set options on.
    fn set_options(&mut self, _: TcpOptions) {}

    /// Does nothing: a wait never sleeps here.
    fn set_spin(&mut self, _: Duration) {}

    fn wait(&mut self, now: Moment, _: Option<Duration>) -> io::Result<()> {
        self.now = now;
        self.told_short = false;
        self.complete_sends();
        self.conns.retain(|_, conn| {
            let done = conn.backlog.is_empty() || conn.broken;
            let stays = conn.closing.is_none_or(|until| !done && now < until);
            conn.stream.pipe().torn |= !stays && !done;
            stays
        });
        Ok(())
    }

    fn next(&mut self) -> Option<Completion> {
        let mut chunk = std::mem::take(&mut self.spare);
        if chunk.room().len() != self.chunk {
            chunk = Chunk::with_room(self.chunk);
        }
        let completion = self.next_event(&mut chunk);
        self.spare = chunk;
        completion
    }

    fn recycle(&mut self, chunk: Chunk) {
        self.spare = chunk;
    }

    fn add(&mut self, stream: Stream, owner: Owner) -> io::Result<Key> {
        match stream.socket {
            Socket::Memory(mut socket) => {
                socket.keep();
                let key = self.insert(socket, owner, false);
                let conn = &mut self.conns[key];
                conn.said_bye = stream.tls.as_ref().is_some_and(|tls| tls.is_closed());
                conn.tls = stream.tls;
                conn.received = stream.received;
                Ok(key)
            }
            _ => Err(ErrorKind::Unsupported.into()),
        }
    }

    fn connect(&mut self, _: &Target, owner: Owner) -> io::Result<Key> {
        if self.is_short {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        let (stream, peer) = Peer::pair(self.capacity);
        stream.pipe().link = Link::Pending;
        self.dialled.push((owner, peer));
        self.moves += 1;
        Ok(self.insert(stream, owner, true))
    }

    fn send(&mut self, key: Key, bytes: &[u8]) -> Flow {
        let Some(conn) = self.conns.get_mut(key).filter(|conn| !conn.broken) else {
            return Flow::On;
        };
        self.moves += 1;
        if conn.tls.is_none() {
            conn.send_raw(bytes);
            return conn.flow();
        }
        for part in Records::parts(bytes) {
            if let Some(tls) = &mut conn.tls {
                let sealed = self.records.seal(tls, part);
                conn.send_raw(sealed.expect("a stand-in never refuses"));
            }
        }
        conn.flow()
    }

    /// Protects a connection by the stand-in only. Tests of real TLS send plain bytes after the handshake.
    fn secure(&mut self, key: Key, session: Box<Session>) {
        if let Some(conn) = self.conns.get_mut(key).filter(|_| session.is_stub()) {
            conn.said_bye = session.is_closed();
            conn.tls = Some(session);
        }
    }

    fn unsent(&self, key: Key) -> usize {
        self.conns.get(key).map_or(0, Conn::unsent)
    }

    fn is_drained(&mut self, key: Key) -> bool {
        let conn = self.conns.get_mut(key);
        let Some(conn) = conn.filter(|conn| !conn.broken) else {
            return true;
        };
        let is_drained = conn.unsent() == 0 && !conn.full && !conn.is_awaited;
        conn.is_awaited |= !is_drained;
        is_drained
    }

    fn is_full(&self, key: Key) -> bool {
        let conn = self.conns.get(key);
        conn.is_some_and(|conn| conn.full && !conn.broken)
    }

    fn local(&self, _: Key, _: u16) -> Endpoint {
        Endpoint::default()
    }

    fn has_news(&self, key: Key) -> bool {
        self.conns.get(key).is_none_or(|conn| {
            let pipe = conn.stream.pipe();
            let has_come =
                pipe.ended.is_some() || !pipe.inward.is_empty() || !conn.received.is_empty();
            conn.broken || has_come || conn.said_bye || conn.has_partial_record()
        })
    }

    fn stop(&mut self, key: Key, why: Why) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.reasons.add(why);
        }
    }

    fn go(&mut self, key: Key, why: Why) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.reasons.remove(why);
        }
    }

    fn clear_reasons(&mut self, key: Key) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.reasons = Reasons::default();
        }
    }

    fn reasons(&self, key: Key) -> Reasons {
        let conn = self.conns.get(key);
        conn.map_or_else(Reasons::default, |conn| conn.reasons)
    }

    fn suspend_all(&mut self) {
        self.suspended = true;
    }

    fn resume_all(&mut self) {
        self.suspended = false;
    }

    fn keep_awake(&mut self, key: Key) {
        if let Some(conn) = self.conns.get_mut(key) {
            conn.awake = true;
        }
    }

    fn close(&mut self, key: Key) {
        let until = self.now.plus(LINGER);
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        self.moves += 1;
        if let Some(tls) = &mut conn.tls {
            let good_bye = tls.close();
            conn.send_raw(&good_bye);
            conn.stream.pipe().said_bye = true;
        }
        if conn.backlog.is_empty() || conn.broken {
            self.conns.remove(key);
        } else {
            conn.closing = Some(until);
            conn.stream.pipe().closing = true;
            conn.owner = Owner::Nobody;
        }
    }

    fn abort(&mut self, key: Key) {
        self.moves += 1;
        if let Some(conn) = self.conns.remove(key) {
            conn.stream.pipe().torn = true;
        }
    }

    fn close_with(&mut self, key: Key, message: &[u8]) {
        self.send(key, message);
        if let Some(conn) = self.conns.get_mut(key) {
            conn.flush();
            match conn.backlog.is_empty() {
                true => self.close(key),
                false => self.abort(key),
            }
        }
    }

    fn begin_detach(&mut self, key: Key) {
        if let Some(conn) = self
            .conns
            .get_mut(key)
            .filter(|conn| conn.closing.is_none())
        {
            self.moves += 1;
            conn.detaching = true;
            self.detaching.push(key);
        }
    }

    fn next_detached(&mut self) -> Option<Completion> {
        while let Some(key) = self.detaching.pop() {
            let conn = self.conns.get(key);
            if conn.is_some_and(|conn| conn.detaching && conn.leaves_at_once()) {
                return self.detach(key);
            }
        }
        None
    }

    fn stop_accepting_tcp(&mut self) {
        self.stop_accepting();
    }

    fn stop_accepting(&mut self) {
        self.deaf = true;
        self.arrivals.clear();
    }
}
