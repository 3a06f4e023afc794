//! Logins that a host puts off: PostgreSQL is starting up, shutting down, or out of connections. Clients wait, and are
//! told of it only if they wait for too long.

use weir_pool::Moment;
use weir_session::fault::Fault;

use crate::global::{GlobalPool, lock};

/// A host's last word on why it takes no login for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Postponed {
    at: Moment,
    text: String,
}

impl GlobalPool {
    /// A login was put off, in these words.
    pub(crate) fn postpone(&self, at: Moment, text: String) {
        *lock(&self.postponed) = Some(Postponed { at, text });
    }

    /// Error for a client whose wait has come to its end: it quotes the host if that put off logins meanwhile, or does now.
    pub(crate) fn late(&self, since: Moment, now: Moment) -> Fault {
        let pauses = self.shared.host_closed_until();
        let is_paused = pauses.is_some_and(|until| until > now);
        match &*lock(&self.postponed) {
            Some(last) if last.at >= since || is_paused => {
                Fault::QueryWaitTimeoutServerDown(last.text.clone())
            }
            _ => Fault::QueryWaitTimeout,
        }
    }
}
