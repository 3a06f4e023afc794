//! Facts of the process that no worker has: orders in force, logins at hosts, the last reload, a shutdown.

use std::sync::Mutex;

use weir_stats::{Draining, EventKind, FailedReload, Snapshot};

use super::{Global, lock};

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) failed_reload: Mutex<Option<FailedReload>>,
    pub(crate) draining: Mutex<Option<Draining>>,
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
        self.diagnosing.show(snapshot);
    }
}
