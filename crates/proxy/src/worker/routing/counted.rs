//! Counts of a router: requests by host for the metrics, and by statement for `SHOW ROUTES`. Decides nothing.
//!
//! There is no option: databases with one host have no router and count nothing, and a request on others costs one pass
//! over its text.

mod mask;
mod texts;

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_pool::HostId;
use weir_route::Verdict;
use weir_session::relay::Destination;
use weir_sql::{Access, Cause};
use weir_stats::{HostCounters, Snapshot};

use self::texts::{Route, Texts};
use super::route::Course;
use super::{Routing, trace};
use crate::global::Cluster;

/// Counts of the router of one group on one worker. When the router ends, its cluster keeps them.
pub(super) struct Counted {
    cluster: Arc<Cluster>,
    /// Name of the entry in `[databases]`.
    database: Box<str>,
    hosts: BTreeMap<HostId, HostCounters>,
    texts: Texts,
}

impl Counted {
    pub(super) fn new(cluster: Arc<Cluster>, database: &str) -> Self {
        Self {
            cluster,
            database: database.into(),
            hosts: BTreeMap::new(),
            texts: Texts::default(),
        }
    }

    /// Counts a request that is sent to a host, as a read if it only reads or the host is a replica.
    #[inline]
    pub(super) fn sent(&mut self, host: HostId, reads: bool) {
        let counters = self.of(host);
        match reads {
            true => counters.reads += 1,
            false => counters.writes += 1,
        }
    }

    /// Counts a request by its first statement, whose text `text` returns, when the wait for a host is over.
    #[inline]
    pub(super) fn decided<'t>(
        &mut self,
        text: impl Fn() -> Option<&'t [u8]>,
        verdict: Verdict,
        course: Course,
        destination: &Destination,
    ) {
        let access = &*destination.access;
        let (name, why) = match (verdict, course) {
            (Verdict::Go { why, .. }, Course::Primary { .. }) => ("primary", why),
            (Verdict::Go { why, .. }, Course::Replica { .. }) => ("replica", why),
            (Verdict::Hold { .. }, _) => return,
            (Verdict::Refuse(why), _) => ("refused", why),
        };
        let was_refused = matches!(access, Access::Primary(Cause::Refused));
        let route = Route {
            verdict: name,
            reason: 2 * why as u64 + u64::from(was_refused),
        };
        let reason = || trace::reason(why, access);
        self.texts.count(destination.statement, text, route, reason);
    }

    /// Counts a batch that did not succeed on a replica and runs on another host.
    pub(super) fn retried(&mut self, host: HostId, text: Option<&[u8]>) {
        self.of(host).retries += 1;
        if let Some(text) = text {
            self.texts.retried(text);
        }
    }

    fn show_hosts(&self, snapshot: &mut Snapshot) {
        for (host, counters) in &self.hosts {
            let host = (self.database.to_string(), host.0);
            *snapshot.routed.entry(host).or_default() += *counters;
        }
    }

    fn of(&mut self, host: HostId) -> &mut HostCounters {
        self.hosts.entry(host).or_default()
    }
}

impl Routing {
    /// Adds the counts by statement to a snapshot.
    pub(in super::super) fn show_routes(&self, snapshot: &mut Snapshot) {
        let counted = &self.counted;
        counted.texts.show(&counted.database, snapshot);
    }

    /// Adds the counts by host to a snapshot.
    pub(in super::super) fn show_hosts(&self, snapshot: &mut Snapshot) {
        self.counted.show_hosts(snapshot);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        for (host, counters) in &self.hosts {
            self.cluster.keep_counts(*host, *counters);
        }
    }
}
