//! Reasons for which the worker does not receive from a connection.
//!
//! Each reason is given and taken back on its own, so that the end of one does not undo another.

/// A reason. The connection is received from while it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Why {
    /// A client has sent as much input ahead as the worker keeps for a server, an answer, or the end of the login.
    Ahead = 1,
    /// A server's client must get all earlier notifications before the server's next bytes.
    Flush = 1 << 1,
    /// A server listens, and another worker does not keep up with the notifications.
    Outbox = 1 << 2,
    /// A client's server owes it too many replies.
    Owed = 1 << 3,
    /// The other side of a lease does not take bytes as fast as this one sends them.
    Partner = 1 << 4,
    /// A client does not read the worker's own answers.
    Unread = 1 << 5,
}

/// Set of reasons, one bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reasons(u8);

impl Reasons {
    /// Adds a reason.
    #[inline]
    pub(crate) fn add(&mut self, why: Why) {
        self.0 |= why as u8;
    }

    /// Removes a reason.
    #[inline]
    pub(crate) fn remove(&mut self, why: Why) {
        self.0 &= !(why as u8);
    }

    /// True if the set has this reason.
    #[inline]
    pub(crate) fn has(self, why: Why) -> bool {
        self.0 & why as u8 != 0
    }

    /// True if the set has no reason.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_one_reason_does_not_undo_another() {
        let mut reasons = Reasons::default();
        reasons.add(Why::Flush);
        reasons.add(Why::Partner);
        reasons.remove(Why::Partner);
        assert!(reasons.has(Why::Flush) && !reasons.has(Why::Partner));
        reasons.remove(Why::Flush);
        assert!(reasons.is_empty());
    }
}
