//! Bounded channel with one wakeup for any number of messages. It never blocks its receiver, and knows nothing of the
//! messages.
//!
//! The receiver clears `is_sent` before it reads, and a sender sets it after it has written. So each message is read in
//! the turn that cleared the flag, or it wakes the receiver again. `tests/mailbox.rs` checks this in thread orders
//! chosen by shuttle.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::sync::{AtomicBool, Receiver, Sender, TrySendError, Waker, bounded};

/// Sending half of the channel.
pub(crate) struct Mailbox<T> {
    sender: Sender<T>,
    wakeup: Arc<Wakeup>,
}

/// Receiving half of the channel.
pub(crate) struct Inbox<T> {
    receiver: Receiver<T>,
    wakeup: Arc<Wakeup>,
}

/// Wakeup of the worker, once for any number of messages.
#[derive(Debug)]
struct Wakeup {
    is_sent: AtomicBool,
    retry: AtomicBool,
    waker: Arc<Waker>,
}

/// Makes a channel for `capacity` messages; each wakes the worker through `waker`.
pub(crate) fn mailbox<T>(capacity: usize, waker: Arc<Waker>) -> (Mailbox<T>, Inbox<T>) {
    let (sender, receiver) = bounded(capacity);
    let wakeup = Arc::new(Wakeup {
        is_sent: AtomicBool::new(false),
        retry: AtomicBool::new(false),
        waker,
    });
    (
        Mailbox {
            sender,
            wakeup: Arc::clone(&wakeup),
        },
        Inbox { receiver, wakeup },
    )
}

// === impl Mailbox ===

impl<T> Mailbox<T> {
    /// Sends a message, or returns it if the mailbox is full.
    pub(crate) fn send(&self, message: T) -> Result<(), T> {
        self.sender.try_send(message).map_err(|error| match error {
            TrySendError::Full(message) | TrySendError::Disconnected(message) => message,
        })?;
        self.wakeup.send();
        Ok(())
    }

    /// Sends a message that must arrive: waits for room. Workers never call it.
    pub(crate) fn send_waiting(&self, message: T) {
        if self.sender.send(message).is_ok() {
            self.wakeup.send();
        }
    }

    /// Tells the worker that a place was released, for which a waiter may be waiting.
    pub(crate) fn retry(&self) {
        self.wakeup.retry.store(true, Ordering::SeqCst);
        self.wakeup.send();
    }
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            wakeup: Arc::clone(&self.wakeup),
        }
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox")
            .field("wakeup", &self.wakeup)
            .finish_non_exhaustive()
    }
}

// === impl Inbox ===

impl<T> Inbox<T> {
    /// True if messages have come since the last call; then call [`Inbox::next`] until it is empty.
    #[inline]
    pub(crate) fn have_come(&self) -> bool {
        self.wakeup.is_sent.load(Ordering::Relaxed)
            && self.wakeup.is_sent.swap(false, Ordering::SeqCst)
    }

    /// Takes the oldest message, if there is any.
    pub(crate) fn next(&self) -> Option<T> {
        self.receiver.try_recv().ok()
    }

    /// Number of messages that wait to be read.
    pub(crate) fn waiting(&self) -> usize {
        self.receiver.len()
    }

    /// True if there are unread messages.
    #[cfg(test)]
    pub(crate) fn are_waiting(&self) -> bool {
        self.wakeup.is_sent.load(Ordering::SeqCst)
    }

    /// True if waiters should look again for a released place.
    pub(crate) fn take_retry(&self) -> bool {
        self.wakeup.retry.swap(false, Ordering::SeqCst)
    }
}

impl<T> Drop for Inbox<T> {
    /// Drops the unread messages, and with them the sockets that they hold. The channel would keep them for as long as
    /// there are senders.
    fn drop(&mut self) {
        while self.next().is_some() {}
    }
}

// === impl Wakeup ===

impl Wakeup {
    fn send(&self) {
        if !self.is_sent.swap(true, Ordering::SeqCst) {
            // A waker fails only when the worker is gone.
            let _ = self.waker.wake();
        }
    }
}
