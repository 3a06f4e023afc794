//! Pools that find their own size.

use std::sync::Arc;

use weir_pool::Moment;
use weir_stats::SizingRow;

use super::group::finds_size;
use super::{Global, GlobalPool};
use crate::sizing::Sizing;

impl Global {
    /// Starts or reconfigures the sizing of a pool after a change of settings.
    pub(super) fn settle_sizing(&self, pool: &GlobalPool) {
        let settings = pool.group.settings();
        if pool.is_waiting_room() {
            return;
        }
        if let Some(sizing) = pool.sizing.get() {
            let turns = self.hosts.turns(&settings, pool.host);
            if sizing.configure(&settings, turns, self.clock.now(), &pool.shared) {
                self.wake_all();
            }
        } else if finds_size(&settings) {
            let turns = self.hosts.turns(&settings, pool.host);
            let (workers, id) = (self.worker_count(), self.next_id());
            let sizing = Sizing::new(&settings, workers, id, turns, &pool.shared);
            // If another thread came first, it has set the same.
            let _ = pool.sizing.set(Arc::new(sizing));
        }
    }

    /// Returns a row for each pool that finds its own size.
    pub(crate) fn sizings(&self, now: Moment) -> Vec<SizingRow> {
        let pools = self.all_pools();
        let rows = pools.iter().filter_map(|pool| {
            let sizing = pool.sizing()?;
            let key = &pool.group.key;
            Some(sizing.row(now, (&key.database, &key.user), &pool.shared))
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_unstable_by(|a, b| (&a.database, &a.user).cmp(&(&b.database, &b.user)));
        rows
    }
}
