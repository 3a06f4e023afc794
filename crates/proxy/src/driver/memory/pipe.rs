//! Connection of the in-memory driver: two byte queues, the worker's end and the test's end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, PipeReader};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::{Layer, file};
use crate::global::lock;

/// Kind of end that the peer has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Bytes that the peer sent before are still read.
    Orderly,
    /// Unread bytes are lost.
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Made,
    Pending,
    Refused,
}

#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) link: Link,
    /// Segments towards the worker; each is one receive.
    pub(super) inward: VecDeque<Vec<u8>>,
    /// Bytes towards the peer.
    pub(super) outward: Vec<u8>,
    /// Capacity of each direction, in bytes.
    pub(super) capacity: usize,
    /// Kind of end, if the peer has ended the connection.
    pub(super) ended: Option<End>,
    /// True if the worker has closed the connection; bytes that it sent before may still be on their way.
    pub(super) closing: bool,
    /// True if the worker has closed and dropped its end.
    pub(super) closed: bool,
    /// True if bytes or an end came since the worker last looked: an event that epoll reports once.
    pub(super) news: bool,
    /// True if the worker has closed the connection, and not because it broke.
    pub(super) said_bye: bool,
    /// True if the worker dropped its end with bytes unsent.
    pub(super) torn: bool,
}

impl Pipe {
    pub(super) fn unread(&self) -> usize {
        self.inward.iter().map(Vec::len).sum()
    }

    pub(super) fn end(&mut self, how: End) {
        self.ended.get_or_insert(how);
        if how == End::Reset {
            self.ended = Some(how);
            self.inward.clear();
        }
        self.outward.clear();
        self.news = true;
    }
}

/// The worker's end of a connection; closed when dropped.
#[derive(Debug)]
pub(crate) struct MemoryStream {
    pub(super) held: Arc<Held>,
    /// Connections whose descriptor was sent to another process, from the driver that had this one last.
    pub(super) sent: Option<Sent>,
}

/// Connections whose descriptors are on their way to another process, by the file that stands for each.
pub(super) type Sent = Arc<Mutex<Vec<(u64, Arc<Held>)>>>;

impl MemoryStream {
    pub(super) fn pipe(&self) -> MutexGuard<'_, Pipe> {
        lock(&self.held.pipe)
    }

    /// Returns a descriptor that stands for the connection when it is sent to another process.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        let made = || io::pipe().expect("a descriptor").0;
        let descriptor = self.held.descriptor.get_or_init(made).as_fd();
        if let Some(sent) = &self.sent {
            lock(sent).push((file(descriptor), Arc::clone(&self.held)));
        }
        descriptor
    }

    /// Ends the stay outside of a driver: the descriptor was not sent.
    pub(super) fn keep(&mut self) {
        if let Some(sent) = self.sent.take() {
            lock(&sent).retain(|(_, held)| !Arc::ptr_eq(held, &self.held));
        }
    }

    /// Receives as from a socket: all segments that have come and fit.
    pub(super) fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        let mut pipe = self.pipe();
        let mut len = 0;
        while let Some(mut segment) = pipe.inward.pop_front() {
            let fits = segment.len().min(room.len() - len);
            room[len..len + fits].copy_from_slice(&segment[..fits]);
            len += fits;
            if fits < segment.len() {
                pipe.inward.push_front(segment.split_off(fits));
                break;
            }
        }
        if len == 0 && pipe.ended.is_none() {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(len)
    }
}

/// Connection that stays open until the last process that has it drops it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) pipe: Arc<Mutex<Pipe>>,
    /// Descriptor that stands for the connection when it is sent to another process.
    pub(super) descriptor: OnceLock<PipeReader>,
}

impl Held {
    pub(super) fn new(pipe: &Arc<Mutex<Pipe>>) -> Arc<Self> {
        Arc::new(Self {
            pipe: Arc::clone(pipe),
            descriptor: OnceLock::new(),
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.pipe).closed = true;
    }
}

/// Other end of a connection, held by a test.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(super) pipe: Arc<Mutex<Pipe>>,
    pub(super) layer: RefCell<Option<Layer>>,
}

impl Peer {
    /// Returns both ends of an established connection, with this capacity in bytes in each direction.
    pub(crate) fn pair(capacity: usize) -> (MemoryStream, Self) {
        let pipe = Arc::new(Mutex::new(Pipe {
            link: Link::Made,
            inward: VecDeque::new(),
            outward: Vec::new(),
            capacity,
            ended: None,
            closing: false,
            closed: false,
            news: false,
            said_bye: false,
            torn: false,
        }));
        let stream = MemoryStream {
            held: Held::new(&pipe),
            sent: None,
        };
        let layer = RefCell::new(None);
        (stream, Self { pipe, layer })
    }

    pub(super) fn pipe(&self) -> MutexGuard<'_, Pipe> {
        lock(&self.pipe)
    }

    /// Accepts the connection that a worker asked for.
    pub(crate) fn accept(&self) {
        self.pipe().link = Link::Made;
    }

    /// Refuses the connection that a worker asked for.
    pub(crate) fn refuse(&self) {
        self.pipe().link = Link::Refused;
    }

    /// Sends one segment, cut to the free room. Returns the number of bytes sent.
    pub(crate) fn send(&self, bytes: &[u8]) -> usize {
        match &mut *self.layer.borrow_mut() {
            Some(layer) => self.send_sealed(layer, bytes),
            None => self.send_raw(bytes),
        }
    }

    pub(super) fn send_raw(&self, bytes: &[u8]) -> usize {
        let fits = bytes.len().min(self.raw_room());
        let mut pipe = self.pipe();
        if fits > 0 && pipe.ended.is_none() {
            pipe.inward.push_back(bytes[..fits].to_vec());
            pipe.news = true;
        }
        fits
    }

    /// Number of bytes that fit now.
    pub(crate) fn room(&self) -> usize {
        match &*self.layer.borrow() {
            Some(layer) => self.sealed_room(layer),
            None => self.raw_room(),
        }
    }

    pub(super) fn raw_room(&self) -> usize {
        let pipe = self.pipe();
        pipe.capacity.saturating_sub(pipe.unread())
    }

    /// Receives up to `max` bytes.
    pub(crate) fn receive(&self, max: usize) -> Vec<u8> {
        match &mut *self.layer.borrow_mut() {
            Some(layer) => self.receive_sealed(layer, max),
            None => self.receive_raw(max),
        }
    }

    pub(super) fn receive_raw(&self, max: usize) -> Vec<u8> {
        let mut pipe = self.pipe();
        let len = pipe.outward.len().min(max);
        pipe.outward.drain(..len).collect()
    }

    /// Ends the connection. Bytes that the worker sent and the test has not received are lost.
    pub(crate) fn end(&self, how: End) {
        match &mut *self.layer.borrow_mut() {
            Some(layer) => self.end_sealed(layer, how),
            None => self.pipe().end(how),
        }
    }

    /// True if the worker has closed the connection and everything it sent before was received.
    pub(crate) fn is_over(&self) -> bool {
        let has_heard_all = self.layer.borrow().as_ref().is_none_or(Self::has_heard_all);
        let pipe = self.pipe();
        pipe.closed && pipe.outward.is_empty() && has_heard_all
    }

    /// True if the worker has closed the connection.
    pub(crate) fn is_closed(&self) -> bool {
        let pipe = self.pipe();
        pipe.closed || pipe.closing
    }

    /// Number of bytes that the worker has not received.
    pub(crate) fn unread(&self) -> usize {
        self.pipe().unread() + self.layer.borrow().as_ref().map_or(0, Self::unsent)
    }
}
