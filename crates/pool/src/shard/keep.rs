//! Servers that are free but stay with their clients as long as no client waits.
//!
//! A lane publishes a kept server as it publishes an idle one, and looks for waiters afterwards. A waiter is published
//! before its lane looks for kept servers. So one of the two sees the other, as `shared` argues for idle servers, and a
//! waiter on any lane gets a kept server back by [`Action::Reclaim`].

use crate::action::Action;
use crate::moment::Moment;
use crate::moment::ServerId;
use crate::shard::Shard;
use crate::shard::State;

impl Shard {
    /// Leaves a clean and ready server with its client, if no client waits. True: the client may keep it until
    /// [`Action::Reclaim`]; call [`Shard::unkeep`] when the client uses the server again. False: a client waits, here
    /// or on another lane, or the pool is paused; check the server in.
    pub fn keep(&mut self, now: Moment, server: ServerId) -> bool {
        self.see(now);
        let Some(entry) = self.servers.get_mut(&server) else {
            debug_assert!(false, "a kept server is here");
            return false;
        };
        if matches!(entry.state, State::Active) {
            entry.state = State::Kept;
            self.kept.push_back((server, now));
            self.announce_idle();
        }
        // Published before waiters are looked for.
        let stays = !self.is_wanted() && !self.shared.is_paused();
        if !stays {
            self.unkeep(server);
        }
        stays
    }

    /// Ends the keeping of a server that is used again or about to be checked in. Idempotent.
    pub fn unkeep(&mut self, server: ServerId) {
        let Some(place) = self.kept.iter().position(|(kept, _)| *kept == server) else {
            return;
        };
        self.kept.remove(place);
        self.set_state(server, State::Active);
        self.announce_idle();
    }

    /// Answers [`Action::Reclaim`]: the client uses its server again, so the waiters look elsewhere.
    pub fn reclaim_refused(&mut self, now: Moment) {
        self.see(now);
        self.serve_queue(now);
    }

    /// True if a client waits on this lane, or on another lane without a server on its way to it.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.queue.is_empty() || self.shared.has_waiter_elsewhere(self.lane)
    }

    /// Moment since which the longest waiter of all lanes waits. A racy read may miss a waiter that has just come.
    #[must_use]
    pub fn oldest_waiter(&self) -> Option<Moment> {
        let own = self.queue.head_since();
        let others = self.shared.oldest_elsewhere(self.lane);
        own.into_iter().chain(others).min()
    }

    /// The longest-kept server, and the moment since which it is kept.
    #[must_use]
    pub fn coldest_kept(&self) -> Option<(ServerId, Moment)> {
        self.kept.front().copied()
    }

    /// Asks the engine for up to `count` kept servers, longest kept first. Returns their number.
    pub(super) fn reclaim(&mut self, count: usize) -> usize {
        let count = count.min(self.kept.len());
        for _ in 0..count {
            if let Some((server, _)) = self.kept.pop_front() {
                self.set_state(server, State::Active);
                self.actions.push_back(Action::Reclaim { server });
            }
        }
        if count > 0 {
            self.announce_idle();
        }
        count
    }
}
