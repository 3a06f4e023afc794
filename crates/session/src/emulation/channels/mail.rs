//! Queue of notifications for one client that may not be sent yet: the client is in a transaction, or does not read.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_wire::backend::NotificationResponse;
use weir_wire::frame::{Side, frame};

use super::Request;

/// Limits of a [`Mail`] queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes (`listen_queue_bytes`).
    pub bytes: usize,
    /// Maximum number of notifications (`listen_queue_size`).
    pub count: usize,
}

/// Limit that one more notification would exceed. The caller must end the client, which would miss a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Overflow {
    /// [`Limits::bytes`].
    #[error("too many bytes of notifications wait for the client")]
    Bytes,
    /// [`Limits::count`].
    #[error("too many notifications wait for the client")]
    Count,
}

/// Bounded queue of notifications, see the module documentation.
///
/// **Invariant:** `bytes` is the sum of the lengths in `messages`.
#[derive(Debug, Default)]
pub struct Mail {
    messages: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

impl Mail {
    /// Adds one notification. All its subscribers share the bytes.
    ///
    /// # Errors
    /// Returns the limit that the notification would exceed, and adds nothing.
    pub fn push(&mut self, message: &Arc<[u8]>, limits: Limits) -> Result<(), Overflow> {
        let bytes = self.bytes + message.len();
        if self.messages.len() >= limits.count {
            return Err(Overflow::Count);
        }
        if bytes > limits.bytes {
            return Err(Overflow::Bytes);
        }
        self.bytes = bytes;
        self.messages.push_back(Arc::clone(message));
        Ok(())
    }

    /// Drops notifications of channels that this request unsubscribes from.
    pub fn forget(&mut self, request: &Request) {
        self.messages.retain(|message| match request {
            Request::Listen(_) => true,
            Request::Unlisten(channel) => channel_of(message) != Some(channel),
            Request::UnlistenAll => false,
        });
        self.messages.shrink_to_fit();
        self.bytes = self.messages.iter().map(|message| message.len()).sum();
    }

    /// True if no notifications wait.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Number of waiting notifications.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Total length of the waiting notifications in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves notifications to the end of `out`, in order, until `max` bytes are reached. Returns their number.
    pub fn take(&mut self, out: &mut Vec<u8>, max: usize) -> usize {
        let (before, mut count) = (out.len(), 0);
        out.reserve(self.bytes.min(max));
        while out.len() - before < max
            && let Some(message) = self.messages.pop_front()
        {
            out.extend_from_slice(&message);
            self.bytes -= message.len();
            count += 1;
        }
        if self.messages.is_empty() {
            // An idle client owns no buffer.
            self.messages = VecDeque::new();
        }
        count
    }
}

/// Returns the channel of a NotificationResponse.
fn channel_of(message: &[u8]) -> Option<&[u8]> {
    let frame = frame(message, Side::Backend).ok()??;
    let notification = NotificationResponse::parse(frame.body).ok()?;
    Some(notification.channel)
}

#[cfg(test)]
mod tests {
    use weir_wire::encode;

    use super::*;

    const LIMITS: Limits = Limits {
        bytes: 1000,
        count: 2,
    };

    #[test]
    fn mail_is_bounded_by_number_and_by_bytes_and_keeps_its_order() {
        let mut mail = Mail::default();
        let (one, two): (Arc<[u8]>, Arc<[u8]>) =
            (b"one".as_slice().into(), b"two".as_slice().into());
        mail.push(&one, LIMITS).unwrap();
        mail.push(&two, LIMITS).unwrap();
        assert_eq!(mail.push(&one, LIMITS), Err(Overflow::Count));
        let mut out = b">".to_vec();
        assert_eq!(mail.take(&mut out, 3), 1);
        assert_eq!((out.as_slice(), mail.bytes()), (&b">one"[..], 3));
        assert_eq!(mail.take(&mut out, 100), 1);
        assert_eq!(out, b">onetwo");
        assert!(mail.is_empty());
        let large: Arc<[u8]> = vec![0; LIMITS.bytes].into();
        mail.push(&large, LIMITS).unwrap();
        assert_eq!(mail.push(&one, LIMITS), Err(Overflow::Bytes));
        assert_eq!((mail.len(), mail.bytes()), (1, LIMITS.bytes));
    }

    #[test]
    fn what_a_client_has_unlistened_does_not_wait_for_it() {
        let message = |channel: &[u8]| {
            let mut message = Vec::new();
            encode::notification_response(&mut message, 7, channel, b"said").unwrap();
            Arc::<[u8]>::from(message)
        };
        let mut mail = Mail::default();
        mail.push(&message(b"a"), LIMITS).unwrap();
        mail.push(&message(b"b"), LIMITS).unwrap();
        mail.forget(&Request::Listen(b"a".as_slice().into()));
        assert_eq!(mail.len(), 2);
        mail.forget(&Request::Unlisten(b"a".as_slice().into()));
        assert_eq!((mail.len(), mail.bytes()), (1, message(b"b").len()));
        mail.forget(&Request::UnlistenAll);
        assert_eq!((mail.len(), mail.bytes()), (0, 0));
    }
}
