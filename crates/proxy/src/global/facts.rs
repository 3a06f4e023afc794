//! Facts of the process that no worker has: orders in force, logins at hosts, the last reload, a shutdown.

use std::sync::{Mutex, OnceLock};

use weir_stats::{Draining, DriverInUse, EventKind, FailedReload, Snapshot};

use super::{Global, lock};

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) failed_reload: Mutex<Option<FailedReload>>,
    pub(crate) draining: Mutex<Option<Draining>>,
    /// Driver of the workers, set by the start.
    pub(crate) driver: OnceLock<DriverInUse>,
}

impl Global {
    /// Returns the time in Unix seconds.
    pub(crate) fn unix(&self) -> i64 {
        let seconds = self.clock.unix_seconds(self.clock.now());
        i64::try_from(seconds).unwrap_or(i64::MAX)
    }

    /// Notes an event that happens now.
    pub(crate) fn note(&self, kind: EventKind, text: String) {
        self.diagnosing.note(self.unix(), kind, text);
    }

    /// Adds the facts of the process to a snapshot of all workers.
    pub(crate) fn show_facts(&self, snapshot: &mut Snapshot) {
        snapshot.unix = self.unix();
        snapshot.halts = self.halts();
        snapshot.logins = self.logins.rows();
        snapshot
            .failed_reload
            .clone_from(&lock(&self.facts.failed_reload));
        snapshot.draining = *lock(&self.facts.draining);
        snapshot.driver = self.facts.driver.get().cloned();
        self.diagnosing.show(snapshot);
    }
}
