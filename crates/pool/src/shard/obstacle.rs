//! Reason why the clients in a lane's queue wait, for people.

use crate::moment::Moment;
use crate::shard::Shard;
use crate::shared::Refusal;

/// Obstacle between a waiting client and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The pool is paused.
    Paused,
    /// Logins have failed, and the next one has not begun.
    LoginsFail,
    /// All servers that the size of the pool allows are open.
    PoolFull,
    /// The limit of the database on servers is reached.
    DatabaseLimit,
    /// The limit of the user on servers is reached.
    UserLimit,
    /// As many servers are assigned as the pool, which finds its own size, allows now.
    SizeLimit,
    /// A server of this lane is being opened.
    Connecting,
    /// None: a server is free elsewhere, or is being checked.
    None,
}

impl Shard {
    /// Returns what the first client of the queue waits for. Changes nothing. The limits are read one after the other, so a
    /// limit that is left at this moment may be missed.
    #[must_use]
    pub fn obstacle(&self, now: Moment) -> Obstacle {
        let shared = &self.shared;
        if shared.is_paused() {
            return Obstacle::Paused;
        }
        if self.connecting() >= self.waiting().max(1) {
            return Obstacle::Connecting;
        }
        if self.policy.limits_assigned && !shared.has_seat() {
            return Obstacle::SizeLimit;
        }
        let is_ahead = |until: Moment| now < until;
        let pauses = [
            shared.held_until(),
            shared.host_closed_until(),
            Some(shared.rejected_until()),
        ];
        if pauses.into_iter().flatten().any(is_ahead) {
            return Obstacle::LoginsFail;
        }
        match shared.peek(0) {
            Err(Refusal::Pool) => Obstacle::PoolFull,
            Err(Refusal::Database) => Obstacle::DatabaseLimit,
            Err(Refusal::User) => Obstacle::UserLimit,
            Ok(()) if self.connecting() > 0 => Obstacle::Connecting,
            Ok(()) => Obstacle::None,
        }
    }
}
