//! Leader of a cluster, as sources of hints name it. Their threads report, and the watching thread asks; workers see the
//! decision only.
//!
//! A report counts for [`LEADER_FOR`] from the moment at which its source was asked, and while the source can be read. If
//! several sources count, all of them must name the same leader.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use weir_config::HostPoint;
use weir_watch::LEADER_FOR;

use super::{Cluster, lock};

/// Report of a source about the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaderReport {
    /// Address and port of the leader's PostgreSQL; `None` = there is no leader.
    pub(crate) host: Option<HostPoint>,
    /// Time before the source answered, in microseconds of the machine's clock. The report is true at some time since.
    pub(crate) asked_us: u64,
}

impl LeaderReport {
    fn counts_at(&self, now_us: u64) -> bool {
        u128::from(now_us.saturating_sub(self.asked_us)) < LEADER_FOR.as_micros()
    }
}

/// Reports about the leader of a cluster, by the number of their source. A source that has ended has no place.
#[derive(Debug, Default)]
pub(super) struct Leaders {
    reports: BTreeMap<u64, Option<LeaderReport>>,
    /// Number of the last source.
    last: u64,
}

/// Place of a source's report. It is withdrawn at the latest when the handle is dropped, also by a panic.
pub(crate) struct LeaderReporter {
    cluster: Arc<Cluster>,
    number: u64,
}

impl LeaderReporter {
    /// Makes a place without a report.
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        let mut leaders = lock(&cluster.leaders);
        leaders.last += 1;
        let number = leaders.last;
        leaders.reports.insert(number, None);
        drop(leaders);
        Self { cluster, number }
    }

    /// Replaces the report of the source, and wakes the watching thread. `None` withdraws it.
    pub(crate) fn report(&self, report: Option<LeaderReport>) {
        let mut leaders = lock(&self.cluster.leaders);
        let Some(place) = leaders.reports.get_mut(&self.number) else {
            return;
        };
        let is_change = *place != report;
        *place = report;
        drop(leaders);
        if is_change {
            self.cluster.wakeup.wake();
        }
    }

    /// Withdraws the report of the source for good: whatever it reports from now on has no effect.
    pub(crate) fn end(&self) {
        let place = lock(&self.cluster.leaders).reports.remove(&self.number);
        if place.flatten().is_some() {
            self.cluster.wakeup.wake();
        }
    }
}

impl Drop for LeaderReporter {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for LeaderReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeaderReporter").field(&self.number).finish()
    }
}

impl Cluster {
    /// Returns the newest report about the leader that counts now; none if there is none, or sources disagree.
    pub(crate) fn leader(&self, now_us: u64) -> Option<LeaderReport> {
        let leaders = lock(&self.leaders);
        let counting = leaders.reports.values().flatten();
        let mut counting = counting.filter(|it| it.counts_at(now_us));
        let first = counting.next()?;
        counting
            .try_fold(first, |newest, report| {
                let agrees = report.host == newest.host;
                agrees.then_some(match report.asked_us > newest.asked_us {
                    true => report,
                    false => newest,
                })
            })
            .cloned()
    }
}
