//! State of the hosts of a database, shared by all threads. The watching thread replaces the snapshot; workers read it
//! without a lock, and report commits and suspicions.
//!
//! ```text
//!            wrote, suspect (wake once)                 probes
//!   workers ---------------------------> watching thread -------> hosts
//!       ^                                      |
//!       +---- snapshot, number, wakeups -------+
//! ```
//!
//! A commit costs no system call: only the first one after a quiet time wakes the watching thread. From then on the
//! thread looks at `last_write` by itself, until the primary has answered a probe that was sent after the latest commit.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use weir_config::{FALLBACK, PoolSettings};
use weir_pool::{HostId, Moment};
use weir_stats::HostCounters;
use weir_watch::{Snapshot, Writes};

use super::lock;
use crate::driver::Wake;

mod leader;
#[cfg(test)]
mod tests;

use leader::Leaders;
pub(crate) use leader::{LeaderReport, LeaderReporter};

/// Means to wake the watching thread, which may not exist yet.
#[derive(Debug, Default)]
pub(crate) struct WatcherWakeup(Mutex<Option<Arc<dyn Wake>>>);

impl WatcherWakeup {
    /// Sets the waker of the thread, before the thread starts. It looks at all clusters then, so no report is lost.
    pub(crate) fn set(&self, waker: Arc<dyn Wake>) {
        *lock(&self.0) = Some(waker);
    }

    fn wake(&self) {
        if let Some(waker) = &*lock(&self.0) {
            // A waker fails only when the thread is gone.
            let _ = waker.wake();
        }
    }
}

/// Hosts of one database entry that has several; see the module's page.
pub(crate) struct Cluster {
    snapshot: ArcSwap<Snapshot>,
    /// Number of snapshots so far. Grows after the snapshot was replaced.
    number: AtomicU64,
    /// Time of the latest commit of any client.
    last_write: AtomicU64,
    /// True from a commit until the primary has answered a probe that was sent after all commits.
    is_dirty: AtomicBool,
    is_suspect: AtomicBool,
    /// Number of readers that wait for a fresher replica.
    waiters: AtomicU32,
    /// Addresses at which hosts with a name have answered last. What is known of a host holds for this address.
    addresses: Mutex<BTreeMap<HostId, IpAddr>>,
    /// Counts of routers that no longer exist, by host.
    counted: Mutex<BTreeMap<HostId, HostCounters>>,
    /// True if a text has named `weir.lsn`.
    knows_lsn: AtomicBool,
    /// True if somebody has asked for a replica or for a position: writes hasten the next probe from then on.
    is_followed: AtomicBool,
    /// When the last host that took writes was lost; 0 = one takes them, or none ever has.
    lost_at: AtomicU64,
    /// When a host took writes again after the loss before that; 0 = there was none.
    regained_at: AtomicU64,
    /// Reports of sources about the leader. No worker waits for them.
    leaders: Mutex<Leaders>,
    wakeup: Arc<WatcherWakeup>,
}

impl Cluster {
    /// Makes a cluster about which nothing is known.
    pub(crate) fn new(wakeup: Arc<WatcherWakeup>) -> Self {
        Self {
            snapshot: ArcSwap::default(),
            number: AtomicU64::new(0),
            last_write: AtomicU64::new(0),
            is_dirty: AtomicBool::new(false),
            is_suspect: AtomicBool::new(false),
            waiters: AtomicU32::new(0),
            addresses: Mutex::default(),
            counted: Mutex::default(),
            knows_lsn: AtomicBool::new(false),
            is_followed: AtomicBool::new(false),
            lost_at: AtomicU64::new(0),
            regained_at: AtomicU64::new(0),
            leaders: Mutex::default(),
            wakeup,
        }
    }

    // --- for workers ---

    /// Returns the number of the current snapshot. Another number than before means that the snapshot has changed.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::SeqCst)
    }

    /// Returns the current snapshot. Reading [`Cluster::number`] before makes sure that it is not an earlier one.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Returns the address at which a host with a name has answered last; none if it does not answer.
    pub(crate) fn address(&self, host: HostId) -> Option<IpAddr> {
        lock(&self.addresses).get(&host).copied()
    }

    /// Reports a commit that was acknowledged until `at`. That must be a time read *after* the acknowledgement arrived:
    /// a replica counts as fresh for the commit once it has replayed a position read later than `at`.
    #[inline]
    pub(crate) fn wrote(&self, at: Moment) {
        if self.last_write.load(Ordering::SeqCst) >= at.0 {
            // The reporter of that time marks the cluster, or has done so.
            return;
        }
        self.last_write.fetch_max(at.0, Ordering::SeqCst);
        // Read after the time was stored: whoever follows the writes from now on marks the cluster.
        if self.is_followed.load(Ordering::SeqCst) {
            self.mark_dirty();
        }
    }

    /// Notes that somebody asks for replicas or for positions, which are probed soon after each write from then on. Before,
    /// no write costs a probe.
    #[inline]
    pub(crate) fn follow_writes(&self) {
        let is_followed = self.is_followed.load(Ordering::Relaxed);
        if !is_followed && !self.is_followed.swap(true, Ordering::SeqCst) {
            self.mark_dirty();
        }
    }

    fn mark_dirty(&self) {
        let was_dirty = self.is_dirty.load(Ordering::SeqCst);
        if !was_dirty && !self.is_dirty.swap(true, Ordering::SeqCst) {
            self.wakeup.wake();
        }
    }

    /// Returns the time of the latest commit of any client; zero if there was none.
    pub(crate) fn last_write(&self) -> Moment {
        Moment(self.last_write.load(Ordering::SeqCst))
    }

    /// Reports a sign of trouble, such as a server that closes because of a shutdown. All hosts are probed at once.
    pub(crate) fn suspect(&self) {
        if !self.is_suspect.swap(true, Ordering::SeqCst) {
            self.wakeup.wake();
        }
    }

    /// Counts a reader that waits for a fresher replica, until the guard is dropped: workers are woken at each snapshot
    /// meanwhile. The reader looks at the snapshot once more after this call, lest it misses the last one before.
    pub(crate) fn wait_for_freshness(self: &Arc<Self>) -> FreshnessWaiter {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        FreshnessWaiter(Arc::clone(self))
    }

    /// Keeps the counts of a router that ends, so that no counter decreases.
    pub(crate) fn keep_counts(&self, host: HostId, counters: HostCounters) {
        *lock(&self.counted).entry(host).or_default() += counters;
    }

    /// Returns the counts of the routers that have ended.
    pub(crate) fn kept_counts(&self, host: HostId) -> HostCounters {
        lock(&self.counted).get(&host).copied().unwrap_or_default()
    }

    /// True if a text of any client has named `weir.lsn`: prepared statements may name it from then on.
    #[inline]
    pub(crate) fn knows_lsn(&self) -> bool {
        self.knows_lsn.load(Ordering::Relaxed)
    }

    /// Notes that a text has named `weir.lsn`.
    pub(crate) fn note_lsn(&self) {
        self.knows_lsn.store(true, Ordering::Relaxed);
        self.follow_writes();
    }

    /// Moment at which clients stop waiting for a host that takes writes, if one was lost: `hold` after the loss, or at
    /// once if the loss before ended less than `between` ago.
    pub(crate) fn hold_end(&self, hold: Duration, between: Duration) -> Option<Moment> {
        let lost = Some(Moment(self.lost_at.load(Ordering::SeqCst))).filter(|at| at.0 != 0)?;
        let regained = Moment(self.regained_at.load(Ordering::SeqCst));
        let is_soon = regained.0 != 0 && lost < regained.plus(between);
        Some(if is_soon { lost } else { lost.plus(hold) })
    }

    // --- for the watching thread ---

    /// Notes the address at which a host with a name has answered, or that the host does not answer.
    pub(crate) fn set_address(&self, host: HostId, address: Option<IpAddr>) {
        let mut addresses = lock(&self.addresses);
        match address {
            Some(address) => addresses.insert(host, address),
            None => addresses.remove(&host),
        };
    }

    /// True if a worker has reported a sign of trouble since the last call.
    pub(crate) fn take_suspicion(&self) -> bool {
        self.is_suspect.load(Ordering::SeqCst) && self.is_suspect.swap(false, Ordering::SeqCst)
    }

    /// Returns the latest commit, if the primary has not answered a probe that was sent after it; `answered` is the time
    /// at which the latest answered probe was sent. After none, the next commit wakes the thread.
    pub(crate) fn uncovered_write(&self, answered: Moment) -> Option<Moment> {
        if !self.is_dirty.load(Ordering::SeqCst) {
            return None;
        }
        let uncovered = || Some(self.last_write()).filter(|last| *last >= answered);
        if let Some(last) = uncovered() {
            return Some(last);
        }
        self.is_dirty.store(false, Ordering::SeqCst);
        // A commit may have come in between, and found the mark: then nobody wakes the thread for it.
        let last = uncovered()?;
        self.is_dirty.store(true, Ordering::SeqCst);
        Some(last)
    }

    /// Replaces the snapshot. Returns true if workers have to be woken for it.
    pub(crate) fn publish(&self, snapshot: Arc<Snapshot>) -> bool {
        let before = self.snapshot.load();
        let is_news = is_news(&before, &snapshot);
        let takes_writes = |snapshot: &Snapshot| matches!(snapshot.writes, Writes::To(_));
        match (takes_writes(&before), takes_writes(&snapshot)) {
            (true, false) => {
                let lost = snapshot.writes_since.0.max(1);
                self.lost_at.store(lost, Ordering::SeqCst);
            }
            (false, true) if self.lost_at.swap(0, Ordering::SeqCst) != 0 => {
                let regained = snapshot.writes_since.0;
                self.regained_at.store(regained, Ordering::SeqCst);
            }
            _ => {}
        }
        self.snapshot.store(snapshot);
        self.number.fetch_add(1, Ordering::SeqCst);
        is_news || self.waiters.load(Ordering::SeqCst) > 0
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("number", &self.number)
            .field("last_write", &self.last_write)
            .field("is_dirty", &self.is_dirty)
            .field("waiters", &self.waiters)
            .finish_non_exhaustive()
    }
}

/// Reader that waits for a fresher replica; see [`Cluster::wait_for_freshness`].
#[derive(Debug)]
pub(crate) struct FreshnessWaiter(Arc<Cluster>);

impl Drop for FreshnessWaiter {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

/// True if requests that wait may go on, or servers must be closed, because of the newer snapshot. Fresher replicas and
/// changed weights are found by the next request anyway.
fn is_news(old: &Snapshot, new: &Snapshot) -> bool {
    let facts = |snapshot: &Snapshot| {
        let hosts = snapshot.hosts.iter();
        let of_host = hosts.map(|it| (it.host, it.generation, it.role, it.takes_reads));
        of_host.collect::<Vec<_>>()
    };
    old.writes != new.writes || facts(old) != facts(new)
}

/// Returns the name of the cluster of a pool. Databases by `*` share the hosts, and so the cluster, of that entry.
pub(crate) fn cluster_name(pool: &PoolSettings) -> &str {
    match pool.is_auto {
        true => FALLBACK,
        false => &pool.database,
    }
}

/// Clusters of the process, by the name of their entry in `[databases]`. An entry keeps its cluster over reloads.
#[derive(Debug, Default)]
pub(crate) struct Clusters {
    known: Mutex<HashMap<Arc<str>, Arc<Cluster>>>,
    wakeup: Arc<WatcherWakeup>,
}

impl Clusters {
    /// Returns the cluster of an entry, and makes it at the first call.
    pub(crate) fn of(&self, database: &str) -> Arc<Cluster> {
        let mut known = lock(&self.known);
        if let Some(cluster) = known.get(database) {
            return Arc::clone(cluster);
        }
        let cluster = Arc::new(Cluster::new(Arc::clone(&self.wakeup)));
        known.insert(database.into(), Arc::clone(&cluster));
        cluster
    }

    /// Returns all clusters with their names.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, Arc<Cluster>)> {
        let known = lock(&self.known);
        let all = known.iter();
        all.map(|(name, cluster)| (Arc::clone(name), Arc::clone(cluster)))
            .collect()
    }

    /// Forgets the clusters that nobody uses; called after a reload.
    pub(crate) fn forget_unused(&self) {
        lock(&self.known).retain(|_, cluster| Arc::strong_count(cluster) > 1);
    }

    /// Returns the means to wake the watching thread.
    pub(crate) fn wakeup(&self) -> &WatcherWakeup {
        &self.wakeup
    }
}
