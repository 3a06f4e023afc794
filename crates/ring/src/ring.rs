//! The ring itself.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::register::Restriction;
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};

use crate::buffers::{BufferSizes, Buffers, Group};
use crate::refusal::Refusal;
use crate::sends::{Order, Outcome, SendId, Sends};
use crate::token::{Kind, Token, pack, unpack};

#[cfg(test)]
mod tests;
mod trial;
mod wakes;
#[cfg(test)]
mod wakes_cost;

pub use wakes::Waker;

/// Token of operations that belong to nobody.
const NOBODY: u32 = 0;
/// Pause between two attempts of a ring's end to cancel everything.
const END_PAUSE: Duration = Duration::from_millis(20);
/// Number of these attempts.
const END_ATTEMPTS: usize = 100;

/// Numbers of io_uring.h, for `Buffers::renew`.
const REGISTER_PBUF_RING: u8 = 22;
const UNREGISTER_PBUF_RING: u8 = 23;

/// Sizes of a ring.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Number of operations that one system call hands over, a power of two. More take further calls.
    pub operations: u32,
    /// Number of completions that the kernel keeps for us, a power of two. It keeps more on the side, which costs more.
    pub completions: u32,
    /// Buffers of [`Ring::receive`]. One receive may fill 32 of them before anybody can end it.
    pub small: BufferSizes,
    /// Buffers of [`Ring::receive_once`], of another length.
    pub large: BufferSizes,
    /// Trouble to be made, in tests.
    #[cfg(any(test, feature = "trouble"))]
    pub trouble: Option<crate::Trouble>,
}

impl Default for Options {
    /// A ring for a worker with thousands of connections. The kernel locks 0.3 MiB for it.
    fn default() -> Self {
        Self {
            operations: 1024,
            completions: 8192,
            small: BufferSizes {
                len: 8 * 1024,
                first: 16,
                max: 4096,
            },
            large: BufferSizes {
                len: 32 * 1024,
                first: 2,
                max: 64,
            },
            #[cfg(any(test, feature = "trouble"))]
            trouble: None,
        }
    }
}

/// Received bytes, with the memory they are in.
#[derive(Debug)]
pub struct Bytes {
    /// A receive buffer; [`Ring::give_back`] takes it.
    pub memory: Box<[u8]>,
    /// Number of bytes received, from the memory's begin on.
    pub len: usize,
}

/// Event of a ring.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A connection came to a listener. `more`: the listener is still accepted from.
    Accepted {
        /// Listener's token.
        token: Token,
        /// New socket, which does not block and is closed on exec; or the error.
        socket: io::Result<OwnedFd>,
        /// False if [`Ring::accept`] has to be called again.
        more: bool,
    },
    /// A poll is over.
    Polled {
        /// Token of the poll.
        token: Token,
        /// Events as poll(2) has them, or the error; `ECANCELED` after [`Ring::cancel_poll`].
        events: io::Result<u32>,
    },
    /// Bytes were received, or the receive is over: no bytes are the end of the stream.
    Received {
        /// Token of the receive.
        token: Token,
        /// Bytes or error. `ENOBUFS`: there were no buffers; `ECANCELED`: after [`Ring::cancel_receive`].
        bytes: io::Result<Bytes>,
        /// False if [`Ring::receive`] has to be called again.
        more: bool,
    },
    /// All bytes of a send were taken, or the send has failed.
    Sent {
        /// Token of the send.
        token: Token,
        /// Outcome; `ECANCELED` after [`Ring::cancel_send`].
        outcome: io::Result<()>,
    },
    /// Another thread has called [`Waker::wake`].
    Woken,
}

/// Counts of a ring, since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// System calls that handed over operations or waited.
    pub calls: u64,
    /// Receives that ended because the kernel had no buffer.
    pub starved: u64,
    /// Number of small receive buffers that the kernel gets now.
    pub buffers: usize,
}

/// See the crate's page.
pub struct Ring {
    io: IoUring,
    small: Buffers,
    large: Buffers,
    sends: Sends,
    waker: Waker,
    /// Rings that messages were sent to.
    others: Vec<Waker>,
    /// Operations that found no place in the queue.
    waiting: VecDeque<squeue::Entry>,
    /// Completions that were read and not reported.
    come: VecDeque<cqueue::Entry>,
    /// Flags of each wait.
    wait_flags: EnterFlags,
    is_enabled: bool,
    is_woken_by_poll: bool,
    /// Receives, accepts and polls under way.
    under_way: usize,
    counters: Counters,
    #[cfg(any(test, feature = "trouble"))]
    trouble: Option<crate::Trouble>,
}

impl Ring {
    /// Sets a ring up. It belongs to the thread that first calls [`Ring::wait`].
    ///
    /// # Errors
    ///
    /// The system does not offer io_uring, or not all that a ring needs.
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        let io = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(options.completions)
            .build(options.operations)
            .map_err(Refusal::new)?;
        let small = Buffers::new(Group::Small, options.small).map_err(Refusal::Other)?;
        let large = Buffers::new(Group::Large, options.large).map_err(Refusal::Other)?;
        for buffers in [&small, &large] {
            buffers.register(&io).map_err(Refusal::new)?;
        }
        restrict(&io).map_err(Refusal::new)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let eventfd = eventfd(0, flags).map_err(|error| Refusal::Other(error.into()))?;
        // SAFETY: the descriptor is that of the ring, which is open.
        let ring = unsafe { BorrowedFd::borrow_raw(io.as_raw_fd()) };
        let ring = ring.try_clone_to_owned().map_err(Refusal::Other)?;
        // A wait for sockets is no wait for a disk: monitoring would show a core that waits for one (Linux 6.15).
        let wait_flags = match io.params().is_feature_no_iowait() {
            true => EnterFlags::NO_IOWAIT,
            false => EnterFlags::empty(),
        };
        Ok(Self {
            io,
            small,
            large,
            sends: Sends::default(),
            waker: Waker::new(eventfd, ring),
            others: Vec::new(),
            waiting: VecDeque::new(),
            come: VecDeque::new(),
            wait_flags,
            is_enabled: false,
            is_woken_by_poll: false,
            under_way: 0,
            counters: Counters::default(),
            #[cfg(any(test, feature = "trouble"))]
            trouble: options.trouble.clone(),
        })
    }

    /// Returns the means by which other threads end a wait.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Returns the counts.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            buffers: self.small.target(),
            ..self.counters
        }
    }

    /// Length of the buffers of [`Ring::receive`], in bytes.
    #[must_use]
    pub fn small_len(&self) -> usize {
        self.small.buffer_len()
    }

    /// Receives from a socket until the stream ends, the receive is cancelled, or there are no buffers: one event each
    /// time that bytes have come.
    #[inline]
    pub fn receive(&mut self, token: Token, socket: BorrowedFd<'_>) {
        let number = pack(Kind::Receive, token);
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), Group::Small as u16).build();
        self.under_way += 1;
        #[cfg(any(test, feature = "trouble"))]
        if let Some(trouble) = &mut self.trouble {
            trouble.note_receive(number);
        }
        self.push(&entry.user_data(number));
    }

    /// Receives once from a socket, into one large buffer. For a connection that brings more than the caller can pass on.
    pub fn receive_once(&mut self, token: Token, socket: BorrowedFd<'_>) {
        let number = pack(Kind::ReceiveOnce, token);
        let entry = opcode::Recv::new(Fd(socket.as_raw_fd()), std::ptr::null_mut(), 0)
            .buf_group(Group::Large as u16)
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        self.under_way += 1;
        #[cfg(any(test, feature = "trouble"))]
        if let Some(trouble) = &mut self.trouble {
            trouble.note_receive(number);
        }
        self.push(&entry.user_data(number));
    }

    /// Ends a receive. Its last event says so; bytes may come before.
    pub fn cancel_receive(&mut self, token: Token) {
        self.cancel(pack(Kind::Receive, token));
    }

    /// Ends a [`Ring::receive_once`]. Its event says so, or brings bytes that came before.
    pub fn cancel_receive_once(&mut self, token: Token) {
        self.cancel(pack(Kind::ReceiveOnce, token));
    }

    /// Frees memory that was not used since the last call. To be called about once a second.
    ///
    /// # Errors
    ///
    /// The kernel takes no ring of buffers any more.
    pub fn trim(&mut self) -> io::Result<()> {
        self.sends.trim();
        self.small.trim();
        self.large.trim();
        // A completion that was not handled may name a buffer that the kernel has filled.
        let is_quiet = self.is_enabled
            && self.come.is_empty()
            && self.io.completion().is_empty()
            && !self.io.submission().cq_overflow();
        for buffers in [&mut self.small, &mut self.large] {
            let is_due = is_quiet && buffers.falls();
            #[cfg(any(test, feature = "trouble"))]
            let is_due =
                is_due || is_quiet && self.trouble.as_mut().is_some_and(crate::Trouble::renews);
            if is_due {
                // SAFETY: there is no completion that was not handled.
                unsafe { buffers.renew(&self.io)? };
                buffers.fill(buffers.target());
            }
        }
        Ok(())
    }

    /// Accepts from a listener until that is cancelled or fails.
    pub fn accept(&mut self, token: Token, listener: BorrowedFd<'_>) {
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd()))
            .flags(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)
            .build();
        self.under_way += 1;
        self.push(&entry.user_data(pack(Kind::Accept, token)));
    }

    /// Ends an accept. Its last event says so; connections may come before.
    pub fn cancel_accept(&mut self, token: Token) {
        self.cancel(pack(Kind::Accept, token));
    }

    /// Waits once until the socket can be written to.
    pub fn poll_writable(&mut self, token: Token, socket: BorrowedFd<'_>) {
        self.poll(Kind::Poll, token, socket, libc::POLLOUT, false);
    }

    /// Waits once until the connection breaks, or both sides have closed it. Looks at no bytes.
    pub fn poll_broken(&mut self, token: Token, socket: BorrowedFd<'_>) {
        self.poll(Kind::Poll, token, socket, 0, false);
    }

    fn poll(
        &mut self,
        kind: Kind,
        token: Token,
        socket: BorrowedFd<'_>,
        events: i16,
        is_multi: bool,
    ) {
        let events = u32::from(events.cast_unsigned());
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), events)
            .multi(is_multi)
            .build();
        self.under_way += 1;
        self.push(&entry.user_data(pack(kind, token)));
    }

    /// Ends a poll. Its event says so.
    pub fn cancel_poll(&mut self, token: Token) {
        self.cancel(pack(Kind::Poll, token));
    }

    /// Returns an empty buffer for [`Ring::send`], one that was used before if there is one.
    #[inline]
    pub fn send_buffer(&mut self) -> Vec<u8> {
        self.sends.buffer()
    }

    /// Takes back a buffer that was not sent.
    pub fn recycle_send_buffer(&mut self, buffer: Vec<u8>) {
        self.sends.recycle(buffer);
    }

    /// Sends all these bytes; one event tells the outcome. A socket may have one send at a time: the kernel does not keep
    /// the order of several. None, with all bytes dropped, if there are 2^28 sends.
    #[inline]
    pub fn send(&mut self, token: Token, socket: BorrowedFd<'_>, bytes: Vec<u8>) -> Option<SendId> {
        let order = self.sends.begin(token, socket.as_raw_fd(), bytes)?;
        self.push_send(order);
        Some(order.id)
    }

    #[inline]
    fn push_send(&mut self, order: Order) {
        let len = order.len;
        #[cfg(any(test, feature = "trouble"))]
        let len = match &mut self.trouble {
            Some(trouble) => trouble.send_len(len),
            None => len,
        };
        // The kernel itself sends the rest when a socket has taken a part.
        let entry = opcode::Send::new(Fd(order.socket), order.address, len)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build();
        let number = Token::new(order.id.0, 0).map_or(0, |token| pack(Kind::Send, token));
        self.push(&entry.user_data(number));
    }

    /// Ends a send. Its event says so, or that it was over before.
    pub fn cancel_send(&mut self, id: SendId) {
        self.sends.cancel(id);
        if let Some(token) = Token::new(id.0, 0) {
            self.cancel(pack(Kind::Send, token));
        }
    }

    /// Takes the memory of received bytes, for later receives.
    #[inline]
    pub fn give_back(&mut self, memory: Box<[u8]>) {
        match memory.len() == self.large.buffer_len() {
            true => self.large.keep(memory),
            false => self.small.keep(memory),
        }
    }

    /// Queues an operation whose memory is in a table of ours: the kernel gets it with the next call.
    #[inline]
    fn push(&mut self, entry: &squeue::Entry) {
        if !self.waiting.is_empty() || !self.try_push(entry) {
            self.waiting.push_back(entry.clone());
        }
    }

    #[inline]
    fn try_push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: a receive names a group of buffers and a send the bytes of a flight in `sends`; both tables keep that
        // memory until the completion has come, and leak it if the ring ends before. Other operations use no memory.
        unsafe { self.io.submission().push(entry) }.is_ok()
    }

    fn cancel(&mut self, number: u64) {
        let nobody = Token::new(NOBODY, 0).map_or(0, |token| pack(Kind::Cancel, token));
        let entry = opcode::AsyncCancel2::new(CancelBuilder::user_data(number)).build();
        let entry = entry.flags(squeue::Flags::SKIP_SUCCESS);
        self.push(&entry.user_data(nobody));
    }

    /// Hands all operations to the kernel, and waits until there is an event or the time is over. Returns at once if there
    /// is an event already, or if the timeout is zero.
    ///
    /// # Errors
    ///
    /// The kernel takes no operations any more. An interrupted wait is none.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if !self.is_enabled {
            // From now on the ring belongs to this thread.
            self.io.submitter().register_enable_rings()?;
            self.is_enabled = true;
            Self::collect_wakes();
        }
        if !self.is_woken_by_poll {
            self.is_woken_by_poll = true;
            let eventfd = Arc::clone(self.waker.eventfd());
            if let Some(nobody) = Token::new(NOBODY, 0) {
                self.poll(Kind::Wake, nobody, eventfd.as_fd(), libc::POLLIN, true);
            }
        }
        self.send_wakes();
        self.small.turn_ends();
        self.large.turn_ends();
        let mut timeout = timeout;
        #[cfg_attr(
            not(any(test, feature = "trouble")),
            expect(unused_mut, reason = "trouble changes it")
        )]
        let mut counts = [self.small.target(), self.large.target()];
        #[cfg(any(test, feature = "trouble"))]
        if let Some(trouble) = &mut self.trouble {
            counts = counts.map(|count| trouble.buffers(count));
            if trouble.interrupts() {
                timeout = Some(Duration::ZERO);
            }
            if let Some(receive) = trouble.ends_receive() {
                self.cancel(receive);
            }
        }
        self.small.fill(counts[0]);
        self.large.fill(counts[1]);
        if !self.come.is_empty() {
            timeout = Some(Duration::ZERO);
        }
        loop {
            while let Some(entry) = self.waiting.pop_front() {
                if !self.try_push(&entry) {
                    self.waiting.push_front(entry);
                    break;
                }
            }
            let has_more = !self.waiting.is_empty();
            let may_sleep = !has_more && self.io.completion().is_empty();
            self.enter(timeout.filter(|_| may_sleep), may_sleep)?;
            self.read();
            if !has_more || !self.come.is_empty() {
                return Ok(());
            }
            timeout = Some(Duration::ZERO);
        }
    }

    /// Hands queued operations to the kernel without waiting for events. Completions that have come are read.
    ///
    /// # Errors
    ///
    /// As [`Ring::wait`].
    #[inline]
    pub fn submit(&mut self) -> io::Result<()> {
        if self.is_enabled {
            self.send_wakes();
            self.enter(Some(Duration::ZERO), true)?;
        }
        Ok(())
    }

    /// True if there are completions, or the kernel has work of this thread that leads to some. No system call.
    #[must_use]
    pub fn has_events(&mut self) -> bool {
        if !self.come.is_empty() || self.io.submission().taskrun() {
            return true;
        }
        !self.io.completion().is_empty()
    }

    #[inline]
    fn enter(&mut self, timeout: Option<Duration>, may_sleep: bool) -> io::Result<()> {
        let sleeps = may_sleep && timeout != Some(Duration::ZERO);
        let timespec = timeout.map(Timespec::from);
        let mut args = SubmitArgs::new();
        if sleeps && let Some(timespec) = &timespec {
            args = args.timespec(timespec);
        }
        if !sleeps {
            let queue = self.io.submission();
            if queue.is_empty() && !queue.taskrun() && !queue.cq_overflow() {
                return Ok(());
            }
        }
        self.counters.calls += 1;
        let result = self.io.submitter().submit_with_args_and_flags(
            usize::from(sleeps),
            &args,
            self.wait_flags,
        );
        match result {
            Ok(_) => Ok(()),
            // The time is over, a signal came, or completions have to be read first.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    #[inline]
    fn read(&mut self) {
        self.come.extend(self.io.completion());
    }

    /// Returns the next event.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(entry) = self.come.pop_front() {
            if let Some(event) = self.event(&entry) {
                return Some(event);
            }
        }
        None
    }

    #[inline]
    fn event(&mut self, entry: &cqueue::Entry) -> Option<Event> {
        let (kind, token) = unpack(entry.user_data())?;
        let (result, more) = (entry.result(), cqueue::more(entry.flags()));
        if !more
            && matches!(
                kind,
                Kind::Accept | Kind::Poll | Kind::Receive | Kind::ReceiveOnce | Kind::Wake
            )
        {
            self.under_way -= 1;
        }
        Some(match kind {
            Kind::Receive | Kind::ReceiveOnce => {
                let bytes = self.received(kind, token, (result, entry.flags()));
                Event::Received { token, bytes, more }
            }
            Kind::Send => match self.sends.completed(SendId(token.index()), result) {
                Outcome::Again(order) => {
                    self.push_send(order);
                    return None;
                }
                Outcome::Done(token, outcome) => Event::Sent { token, outcome },
                Outcome::Unknown => return None,
            },
            Kind::Accept => {
                let socket = checked(result).map(|number| {
                    // SAFETY: the kernel has made this descriptor for us and has told it once.
                    unsafe { OwnedFd::from_raw_fd(number.cast_signed()) }
                });
                Event::Accepted {
                    token,
                    socket,
                    more,
                }
            }
            Kind::Poll => Event::Polled {
                token,
                events: checked(result),
            },
            Kind::Wake => {
                // The poll may have ended, by an overflow of completions for example.
                self.is_woken_by_poll &= more;
                Event::Woken
            }
            Kind::Told => Event::Woken,
            Kind::Message => {
                self.message_refused(token.index() as usize);
                return None;
            }
            Kind::Cancel => return None,
        })
    }

    #[inline]
    fn received(
        &mut self,
        kind: Kind,
        token: Token,
        (result, flags): (i32, u32),
    ) -> io::Result<Bytes> {
        let buffers = match kind {
            Kind::ReceiveOnce => &mut self.large,
            _ => &mut self.small,
        };
        let memory = cqueue::buffer_select(flags).and_then(|id| {
            // SAFETY: the completion that was read now names the buffer of this group, and no other one does: buffers are
            // registered without `IOU_PBUF_RING_INC`, so that each is filled once.
            unsafe { buffers.take(id) }
        });
        match checked(result) {
            Ok(len) => {
                let len = len as usize;
                let memory = memory.unwrap_or_default();
                debug_assert!(len <= memory.len());
                buffers.used(token);
                Ok(Bytes {
                    len: len.min(memory.len()),
                    memory,
                })
            }
            Err(error) => {
                if error.raw_os_error() == Some(libc::ENOBUFS) {
                    buffers.starved();
                    self.counters.starved += 1;
                }
                if let Some(memory) = memory {
                    buffers.keep(memory);
                }
                Err(error)
            }
        }
    }

    /// Ends all operations. True if the kernel is done with our memory.
    fn end(&mut self) -> bool {
        if !self.is_enabled {
            // The kernel never got an operation.
            return true;
        }
        self.waiting.clear();
        let nobody = Token::new(NOBODY, 0).map_or(0, |token| pack(Kind::Cancel, token));
        #[cfg(any(test, feature = "trouble"))]
        {
            self.trouble = None;
        }
        for _ in 0..END_ATTEMPTS {
            // The poll of the waker is renewed by each wait. It uses no memory.
            let polls = usize::from(self.is_woken_by_poll);
            if self.under_way <= polls && self.sends.len() == 0 {
                return true;
            }
            let all = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
            self.push(&all.user_data(nobody));
            // Another thread than the ring's own gets an error.
            if self.wait(Some(END_PAUSE)).is_err() {
                return false;
            }
            while let Some(event) = self.next_event() {
                drop(event);
            }
        }
        false
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        Self::end_wakes();
        if self.end() {
            // SAFETY: no receive is under way, and none will be: the ring is being dropped.
            unsafe { self.small.free() };
            // SAFETY: as above.
            unsafe { self.large.free() };
        }
        // Whatever is still there is leaked: `Lent` frees nothing.
        self.sends.leak();
    }
}

/// Allows only what this crate asks for.
fn restrict(io: &IoUring) -> io::Result<()> {
    let operations = [
        opcode::Send::CODE,
        opcode::Recv::CODE,
        opcode::RecvMulti::CODE,
        opcode::AcceptMulti::CODE,
        opcode::PollAdd::CODE,
        opcode::AsyncCancel2::CODE,
        opcode::MsgRingData::CODE,
    ];
    let mut restrictions: Vec<_> = operations.into_iter().map(Restriction::sqe_op).collect();
    let flags = squeue::Flags::BUFFER_SELECT | squeue::Flags::SKIP_SUCCESS;
    restrictions.push(Restriction::sqe_flags_allowed(flags.bits()));
    let buffers = [REGISTER_PBUF_RING, UNREGISTER_PBUF_RING];
    restrictions.extend(buffers.map(Restriction::register_op));
    io.submitter().register_restrictions(&mut restrictions)
}

/// Takes the kernel's result apart: a number, or a negative error number.
#[inline]
fn checked(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
