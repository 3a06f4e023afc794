//! Pools of replication connections: one for each client that has such a connection, beside the pool of its group.

use std::sync::{Arc, Weak};

use weir_pool::Shared;
use weir_stats::Halts;

use super::{Global, GlobalPool, lock};
use crate::orders;

/// Pools of replication connections that may still exist. Their lanes own them.
pub(super) type Annexes = Vec<Weak<GlobalPool>>;

impl Global {
    /// Makes a pool for the replication connection of one client, within the limits of the pool `beside`.
    pub(crate) fn annex(&self, beside: &Arc<GlobalPool>) -> Arc<GlobalPool> {
        let settings = beside.group.settings();
        let hosts = self.hosts.alternatives(&settings, beside.host);
        let shared = Arc::new(Shared::beside(&beside.shared, hosts));
        let pool = Arc::new(GlobalPool::beside(beside, shared));
        // In the order in which PAUSE locks them.
        let halts = lock(&self.halting.halts);
        let mut annexes = lock(&self.annexes);
        orders::pause(&pool, &halts);
        annexes.retain(|annex| annex.strong_count() > 0);
        annexes.push(Arc::downgrade(&pool));
        pool
    }

    /// Gives these pools the hosts and pauses of their groups after a reload.
    pub(super) fn settle_annexes(&self, halts: &Halts) {
        for pool in self.annexes() {
            let settings = pool.group.settings();
            let hosts = self.hosts.alternatives(&settings, pool.host);
            pool.shared.set_hosts(hosts);
            orders::pause(&pool, halts);
        }
    }

    /// Returns the pools of replication connections.
    pub(super) fn annexes(&self) -> Vec<Arc<GlobalPool>> {
        let annexes = lock(&self.annexes);
        annexes.iter().filter_map(Weak::upgrade).collect()
    }
}
