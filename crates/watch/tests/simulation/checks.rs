//! Checks of a snapshot against the truth.

use weir_pool::HostId;
use weir_pool::Moment;
use weir_watch::HostView;
use weir_watch::SplitBrain;
use weir_watch::State;
use weir_watch::Writes;

use crate::cluster::Cluster;
use crate::world::World;

/// Commit of a client, acknowledged.
#[derive(Clone, Debug)]
struct Commit {
    at: Moment,
    branch: usize,
    position: u64,
    is_async: bool,
}

/// Truth about a host when it evaluated a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    branch: usize,
    position: u64,
    is_primary: bool,
}

/// Last times at which something was true of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    /// The host did not answer, or it started.
    silent: u64,
    /// The host was in recovery.
    recovering: u64,
    /// Connections closed since the last answer.
    resets: u32,
    /// Time at which a tool was asked that named the host.
    named: Option<u64>,
    /// Order of the last probe.
    ordered: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    commits: Vec<Commit>,
    /// Newest evaluated probe, and the newest that was delivered.
    evaluated: Vec<Option<Seen>>,
    delivered: Vec<Option<Seen>>,
    lately: Vec<Lately>,
    /// Last time at which a standby streamed, by branch.
    streamed: Vec<u64>,
    /// Host that takes writes or took them last, with its branch.
    elected: Option<(usize, usize)>,
    /// Hosts and branches that lost an election.
    lost: Vec<(usize, usize)>,
    number: u64,
}

impl Checks {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            evaluated: vec![None; count],
            delivered: vec![None; count],
            lately: vec![Lately::default(); count],
            ..Self::default()
        }
    }

    pub(crate) fn committed(&mut self, at: u64, branch: usize, position: u64, is_async: bool) {
        self.commits.push(Commit {
            at: Moment(at),
            branch,
            position,
            is_async,
        });
    }

    /// Forgets commits that a crash has lost: they were not flushed.
    pub(crate) fn crashed(&mut self, branch: usize, flushed: u64) {
        self.commits
            .retain(|it| it.branch != branch || it.position <= flushed);
    }

    pub(crate) fn answered(&mut self, cluster: &Cluster, host: usize) {
        self.evaluated[host] = Some(Seen {
            branch: cluster.hosts[host].branch,
            position: cluster.visible(host),
            is_primary: cluster.is_primary(host),
        });
    }

    pub(crate) fn closed(&mut self, now: u64, host: usize) {
        self.lately[host].resets += 1;
        if self.lately[host].resets >= 3 {
            self.lately[host].silent = now;
        }
    }

    /// A tool names a host as leader.
    pub(crate) fn named(&mut self, host: usize, asked: u64) {
        let last = &mut self.lately[host].named;
        *last = (*last).max(Some(asked));
    }

    pub(crate) fn delivered(&mut self, host: usize) {
        self.lately[host].resets = 0;
        self.delivered[host] = self.evaluated[host];
    }

    pub(crate) fn ordered(&mut self, now: u64, host: usize) {
        if let Some(last) = self.lately[host].ordered.replace(now) {
            assert!(now - last >= 20_000, "host {host} is probed too often");
        }
    }

    /// Checks the newest snapshot.
    pub(crate) fn check(mut self, world: &World) -> Self {
        self.observe(world);
        let snapshot = world.watch.snapshot();
        assert!(snapshot.number >= self.number);
        self.number = snapshot.number;
        if let Writes::To(HostId(id)) = snapshot.writes {
            let host = usize::try_from(id).unwrap();
            self.check_elected(world, host);
        }
        for (host, view) in snapshot.hosts.iter().enumerate() {
            if view.takes_reads {
                assert_eq!(view.state, State::Up);
                self.check_lineage(world, host, view);
            }
            self.check_freshness(world, host, view);
        }
        self
    }

    fn observe(&mut self, world: &World) {
        self.streamed.resize(world.cluster.branches.len(), 0);
        for host in 0..world.cluster.hosts.len() {
            if !world.is_reachable(host) {
                self.lately[host].silent = world.now;
            } else if !world.cluster.is_primary(host) {
                self.lately[host].recovering = world.now;
                if world.cluster.streams(host) {
                    let branch = world.cluster.hosts[host].branch;
                    self.streamed[branch] = world.now;
                }
            }
        }
    }

    /// A host takes over only with evidence, and never comes back to a history that has lost.
    fn check_elected(&mut self, world: &World, host: usize) {
        let seen = self.delivered[host].unwrap();
        assert!(seen.is_primary, "host {host} takes writes in recovery");
        let now = (host, seen.branch);
        let Some(before) = self.elected.replace(now) else {
            return;
        };
        if before.0 == host {
            return;
        }
        let (lately, limit) = (self.lately[before.0], world.limit());
        let is_recent = |at: u64| at > 0 && world.now - at <= limit;
        let is_streamed = is_recent(self.streamed[seen.branch]);
        let named = self.lately[host].named;
        let is_named = named.is_some_and(|at| world.now - at < 5_000_000);
        assert!(
            !self.lost.contains(&now) || is_streamed || is_named,
            "{now:?} takes writes again"
        );
        self.lost.push(before);
        let is_gone = is_recent(lately.silent) || is_recent(lately.recovering);
        let has_witness = is_gone || is_streamed || is_named;
        let may_rule = world.rules.split_brain == SplitBrain::Newest;
        assert!(
            has_witness || may_rule,
            "{now:?} takes writes from {before:?} without evidence"
        );
        let is_newer = seen.branch > before.1;
        assert!(
            is_newer || is_recent(lately.recovering),
            "{now:?} is older than {before:?}"
        );
    }

    /// A host that takes reads has only WAL that belongs to the elected host's history.
    fn check_lineage(&self, world: &World, host: usize, view: &HostView) {
        let (Some(seen), Some((_, elected))) = (self.delivered[host], self.elected) else {
            return;
        };
        let cluster = &world.cluster;
        assert!(
            cluster.contains(elected, seen.branch, seen.position),
            "diverged: {seen:?} against branch {elected}: {view:#?}"
        );
    }

    /// Every commit that was acknowledged before `fresh_to`, and that no failover has lost, is visible.
    fn check_freshness(&self, world: &World, host: usize, view: &HostView) {
        let Some((_, elected)) = self.elected else {
            return;
        };
        // Nobody reads there.
        if !world.is_reachable(host) || world.is_cut(host) || view.fresh_to == Moment::NEVER {
            return;
        }
        let cluster = &world.cluster;
        let (branch, visible) = (cluster.hosts[host].branch, cluster.visible(host));
        for commit in &self.commits {
            let bound = if commit.is_async {
                view.fresh_to_async
            } else {
                view.fresh_to
            };
            let is_lost = !cluster.contains(elected, commit.branch, commit.position);
            if commit.at >= bound || is_lost {
                continue;
            }
            let is_visible = commit.position <= visible
                && cluster.contains(branch, commit.branch, commit.position);
            assert!(
                is_visible,
                "{commit:?} is missing on branch {branch} at {visible}: {view:#?}"
            );
        }
    }
}
