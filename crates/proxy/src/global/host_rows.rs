//! Rows of `SHOW HOSTS`.

use std::collections::{BTreeMap, HashMap};

use weir_pool::Moment;
use weir_stats::{DatabaseHostRow, HostCounters, Snapshot};
use weir_watch::{HostView, Role, Snapshot as Hosts, State, Writes};

use super::{Global, cluster_name};

impl Global {
    /// Adds a row for each host of each database that has several, in the order of the configuration. The counts of all
    /// workers have to be in the snapshot.
    pub(crate) fn show_database_hosts(&self, snapshot: &mut Snapshot, now: Moment) {
        snapshot.database_hosts = self.database_hosts(&snapshot.routed, now);
    }

    fn database_hosts(
        &self,
        routed: &BTreeMap<(String, u32), HostCounters>,
        now: Moment,
    ) -> Vec<DatabaseHostRow> {
        let mut servers: HashMap<_, u64> = HashMap::new();
        for pool in self.all_pools() {
            if let Some(host) = pool.host {
                // Databases by `*` share the hosts of that entry.
                let entry = cluster_name(&pool.group.settings()).to_owned();
                *servers.entry((entry, host)).or_default() += pool.shared.connected() as u64;
            }
        }
        let mut clusters = self.clusters.all();
        clusters.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut rows = Vec::new();
        for (database, cluster) in clusters {
            let snapshot = cluster.snapshot();
            for view in &snapshot.hosts {
                let open = servers.get(&(database.to_string(), view.host));
                let mut counters = cluster.kept_counts(view.host);
                let here = routed.get(&(database.to_string(), view.host.0));
                counters += here.copied().unwrap_or_default();
                rows.push(DatabaseHostRow {
                    servers: open.copied().unwrap_or_default(),
                    counters,
                    ..row(&database, &snapshot, view, now)
                });
            }
        }
        rows
    }
}

/// Returns a row for each host of a snapshot, without the figures that workers have.
pub(crate) fn host_rows(database: &str, hosts: &Hosts, now: Moment) -> Vec<DatabaseHostRow> {
    let views = hosts.hosts.iter();
    views.map(|view| row(database, hosts, view, now)).collect()
}

fn row(database: &str, hosts: &Hosts, view: &HostView, now: Moment) -> DatabaseHostRow {
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    DatabaseHostRow {
        database: database.to_owned(),
        takes_writes: hosts.writes == Writes::To(view.host),
        host: view.name.to_string(),
        role: match view.role {
            Role::Primary => "primary",
            Role::Replica => "replica",
            Role::Unknown => "unknown",
        },
        state: match view.state {
            State::Diverged => "diverged",
            State::Down => "down",
            State::Fenced => "fenced",
            State::Foreign => "foreign",
            State::Refusing => "refusing",
            State::Unknown => "unknown",
            State::Up => "up",
        },
        takes_reads: view.takes_reads,
        since_seconds: now.since(view.since).as_secs(),
        timeline: view.timeline,
        generation: view.generation.0,
        lag_bytes: view.lag_bytes,
        lag_us: view.lag.map(micros),
        weight: view.weight,
        az: view.az.to_string(),
        probe_us: view.probe_time.map(micros),
        last_error: view.last_error.as_deref().unwrap_or_default().to_owned(),
        ..DatabaseHostRow::default()
    }
}
