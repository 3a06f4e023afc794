//! Wake-ups of a ring's thread. One that has a ring itself sends a message from ring to ring, together with its other
//! operations: on a machine with an idle core that costs half of an eventfd (`docs/internals/decisions/io-uring.md`).
//! Other threads use the eventfd, and so does a message that the kernel refuses.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{opcode, squeue};

use super::{NOBODY, Ring};
use crate::token::{Kind, Token, pack};

thread_local! {
    /// Wake-ups that the ring of this thread sends with its next call; none if the thread has no ring.
    static PENDING: RefCell<Option<Vec<Waker>>> = const { RefCell::new(None) };
}

/// Means to end a ring's wait from another thread.
#[derive(Debug, Clone)]
pub struct Waker {
    eventfd: Arc<OwnedFd>,
    /// The ring. It stays open for as long as somebody may send a message to it.
    ring: Arc<OwnedFd>,
}

impl Waker {
    /// Makes the waker of a ring with these descriptors.
    pub(super) fn new(eventfd: OwnedFd, ring: OwnedFd) -> Self {
        Self {
            eventfd: Arc::new(eventfd),
            ring: Arc::new(ring),
        }
    }

    /// Makes the ring's current or next wait return. If the calling thread has a ring of its own, the wake-up goes to the
    /// kernel with the next [`Ring::wait`] or [`Ring::submit`] there.
    ///
    /// # Errors
    ///
    /// None is known: the counter behind it overflows after 2^64 calls.
    pub fn wake(&self) -> io::Result<()> {
        let is_pending = PENDING.with_borrow_mut(|pending| {
            let pending = pending.as_mut();
            pending.map(|pending| pending.push(self.clone())).is_some()
        });
        match is_pending {
            true => Ok(()),
            false => self.by_eventfd(),
        }
    }

    /// Wakes at once, from any thread.
    fn by_eventfd(&self) -> io::Result<()> {
        rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    /// The descriptor that becomes readable with a wake-up that is no message.
    pub(super) fn eventfd(&self) -> &Arc<OwnedFd> {
        &self.eventfd
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.eventfd, &other.eventfd)
    }
}

impl Ring {
    /// Keeps the wake-ups of this thread for [`Ring::send_wakes`] from now on.
    pub(super) fn collect_wakes() {
        PENDING.with_borrow_mut(|pending| {
            pending.get_or_insert_default();
        });
    }

    /// Queues the wake-ups of this thread as messages.
    #[inline]
    pub(super) fn send_wakes(&mut self) {
        let has_some =
            PENDING.with_borrow(|pending| pending.as_ref().is_some_and(|it| !it.is_empty()));
        if has_some {
            self.send_pending_wakes();
        }
    }

    #[cold]
    fn send_pending_wakes(&mut self) {
        let mut pending = PENDING
            .with_borrow_mut(|pending| pending.as_mut().map(std::mem::take))
            .unwrap_or_default();
        for waker in pending.drain(..) {
            if waker.is(&self.waker) {
                // The wait that follows ends by it.
                let _ = waker.by_eventfd();
                continue;
            }
            let known = self.others.iter().position(|other| other.is(&waker));
            let number = known.unwrap_or(self.others.len());
            let ring = Fd(waker.ring.as_raw_fd());
            if known.is_none() {
                self.others.push(waker);
            }
            self.push_message(number, ring);
        }
        // The list keeps its memory.
        PENDING.with_borrow_mut(|list| {
            if let Some(list) = list
                && list.is_empty()
            {
                *list = pending;
            }
        });
    }

    fn push_message(&mut self, number: usize, ring: Fd) {
        let token = u32::try_from(number)
            .ok()
            .and_then(|number| Token::new(number, 0));
        let (Some(token), Some(nobody)) = (token, Token::new(NOBODY, 0)) else {
            return self.message_refused(number);
        };
        let message = opcode::MsgRingData::new(ring, 0, pack(Kind::Told, nobody), None).build();
        let message = message.flags(squeue::Flags::SKIP_SUCCESS);
        self.push(&message.user_data(pack(Kind::Message, token)));
    }

    /// Wakes the thread of a ring that took no message: it has not begun to wait, or the kernel sends none.
    pub(super) fn message_refused(&self, number: usize) {
        if let Some(other) = self.others.get(number) {
            let _ = other.by_eventfd();
        }
    }

    /// Sends the wake-ups that are left when the ring of this thread ends.
    pub(super) fn end_wakes() {
        let left = PENDING.with_borrow_mut(Option::take);
        for waker in left.into_iter().flatten() {
            let _ = waker.by_eventfd();
        }
    }
}
