//! Notifications for one client that may not be sent yet: it is in a transaction, or does not read.

use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of notifications that wait for one client at most, whatever their number.
const BYTES_MAX: usize = 1024 * 1024;

/// One more notification than may wait: the client is to be ended, since it would miss one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many notifications wait for the client")]
pub struct Overflow;

/// See the module's page.
///
/// **Invariant:** `bytes` is the sum of the lengths in `messages` and at most `BYTES_MAX`.
#[derive(Debug, Default)]
pub struct Mail {
    messages: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

impl Mail {
    /// One more, of at most `max` together.
    ///
    /// # Errors
    /// There are as many already, or more than 1 MiB would wait.
    pub fn push(&mut self, message: &Arc<[u8]>, max: usize) -> Result<(), Overflow> {
        let bytes = self.bytes + message.len();
        if self.messages.len() >= max || bytes > BYTES_MAX {
            return Err(Overflow);
        }
        self.bytes = bytes;
        self.messages.push_back(Arc::clone(message));
        Ok(())
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Takes all of them, in order, behind what is in `out`.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        out.reserve(self.bytes);
        for message in self.messages.drain(..) {
            out.extend_from_slice(&message);
        }
        self.bytes = 0;
        // An idle client owns no buffer.
        self.messages = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_is_bounded_by_number_and_by_bytes_and_keeps_its_order() {
        let mut mail = Mail::default();
        let (one, two): (Arc<[u8]>, Arc<[u8]>) =
            (b"one".as_slice().into(), b"two".as_slice().into());
        mail.push(&one, 2).unwrap();
        mail.push(&two, 2).unwrap();
        assert_eq!(mail.push(&one, 2), Err(Overflow));
        let mut out = b">".to_vec();
        mail.take(&mut out);
        assert_eq!(out, b">onetwo");
        assert!(mail.is_empty());
        let large: Arc<[u8]> = vec![0; BYTES_MAX / 2].into();
        mail.push(&large, 100).unwrap();
        mail.push(&large, 100).unwrap();
        assert_eq!(mail.push(&one, 100), Err(Overflow));
        assert_eq!(mail.len(), 2);
    }
}
