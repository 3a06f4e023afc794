//! Logins that a host postpones because PostgreSQL is starting up, shutting down, or out of connections. Clients wait,
//! and see the reason only if their wait times out.

use weir_pool::Moment;
use weir_session::fault::Fault;

use crate::global::{GlobalPool, lock};

/// Last reason a host gave for postponing logins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Postponed {
    at: Moment,
    text: String,
}

impl GlobalPool {
    /// Stores the reason for which a login was postponed.
    pub(crate) fn postpone(&self, at: Moment, text: String) {
        *lock(&self.postponed) = Some(Postponed { at, text });
    }

    /// Returns the error for a client whose wait has timed out. It quotes the host if logins were postponed during the
    /// wait, or are now.
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
