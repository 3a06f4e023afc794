//! States in which a server may go back to its pool.

use super::states::{Future, Progress};
use super::{Definitions, Server, ServerRarity};

/// State in which no server may go back to its pool: a bug in Weir has left it behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// An interrupted fence was not rolled back.
    #[error("a server goes back to its pool with a settings fence that is not rolled back")]
    BrokenFence,
    /// Changed definitions or roles count for a transaction that has ended.
    #[error("a server goes back to its pool with changes of a transaction that is over")]
    Changes,
    /// A DISCARD ALL of the client before is not settled.
    #[error("a server goes back to its pool in the middle of a DISCARD ALL")]
    Discard,
    /// A reply is owed, a transaction is open, or the connection is about to end.
    #[error("a server goes back to its pool that is not free")]
    NotFree,
    /// A ReadyForQuery for the client before was not sent.
    #[error("a server goes back to its pool that owes its client the end of a reply")]
    OwesReady,
    /// The session has state that can never be removed.
    #[error("a server goes back to its pool with state that nothing takes away")]
    Spoiled,
    /// Errors in answer to our own requests are still ignored, or a statement counts as work of an open transaction.
    #[error("a server goes back to its pool whose last lease has not ended")]
    Unended,
}

impl Unfit {
    /// Number of variants.
    pub const COUNT: usize = Self::Unended as usize + 1;
}

impl Server {
    /// Checks that the server is in a state in which it may go back to its pool ([table of legal
    /// combinations](../../../../../docs/internals/server-states.md)).
    ///
    /// # Errors
    /// Returns the first state that must not be. The connection must then be closed.
    pub fn check_rest(&self) -> Result<(), Unfit> {
        // A broken fence has to be repeated, so such a server is not free either.
        let wrong = if self.broken_fence.is_some() {
            Unfit::BrokenFence
        } else if !self.is_free() {
            Unfit::NotFree
        } else if self.future == Future::Spoiled {
            Unfit::Spoiled
        } else if matches!(self.progress, Progress::Alone | Progress::Working) {
            Unfit::Unended
        } else if self.discard.is_underway() {
            Unfit::Discard
        } else if self.rarities.has(ServerRarity::OwesReady) {
            Unfit::OwesReady
        } else if self.definitions != Definitions::Kept
            || self.rarities.has(ServerRarity::AltersRoles)
        {
            Unfit::Changes
        } else {
            return Ok(());
        };
        Err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::states::{Discard, Incoming, Sent};
    use super::*;

    #[test]
    fn each_state_that_must_not_be_is_found() {
        type Change = fn(&mut Server);
        let changes: [(Change, Unfit); 12] = [
            (|server| server.sent = Sent::Whole, Unfit::NotFree),
            (|server| server.sent = Sent::OpenBatch, Unfit::NotFree),
            (|server| server.incoming = Incoming::Drop(1), Unfit::NotFree),
            (|server| server.future = Future::Dying, Unfit::NotFree),
            (|server| server.future.spoil(), Unfit::Spoiled),
            (|server| server.progress = Progress::Alone, Unfit::Unended),
            (|server| server.progress.work(), Unfit::Unended),
            (|server| server.discard = Discard::Sent, Unfit::Discard),
            (
                |server| server.broken_fence = Some(None),
                Unfit::BrokenFence,
            ),
            (
                |server| server.rarities.insert(ServerRarity::OwesReady),
                Unfit::OwesReady,
            ),
            (
                |server| server.rarities.insert(ServerRarity::AltersRoles),
                Unfit::Changes,
            ),
            (
                |server| server.definitions = Definitions::Used,
                Unfit::Changes,
            ),
        ];
        for (change, unfit) in changes {
            let mut server = Server::new(Arc::default());
            assert_eq!(server.check_rest(), Ok(()));
            change(&mut server);
            assert_eq!(server.check_rest(), Err(unfit));
        }
    }

    #[test]
    fn what_the_next_lease_ends_may_stay() {
        let mut server = Server::new(Arc::default());
        server.progress = Progress::Between;
        server.discard = Discard::Due;
        for stays in [
            ServerRarity::Discards,
            ServerRarity::Found,
            ServerRarity::Loads,
            ServerRarity::RanUnread,
            ServerRarity::UnreadEnd,
        ] {
            server.rarities.insert(stays);
        }
        assert_eq!(server.check_rest(), Ok(()));
    }
}
