//! Sources of hints: tools that make failovers, and tell of them before the next probe would find out.
//!
//! A thread per configured source reads it with blocking calls that all have time limits. When a source reports something
//! new, all hosts of its databases are probed at once. The hosts' own answers decide which one takes writes, so a source
//! that lies or is silent does no harm. For a database with a `fence`, the leader that a source names is reported as well:
//! it is a witness beside the hosts' answers, until the source fails. These threads share nothing with workers, and never wait for them or for the
//! watching thread. Databases with equal sources share one thread; without a source there is none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use weir_config::{Fence, HintSource, HintTool, Secret};

use crate::global::{Cluster, Clusters, LeaderReport, LeaderReporter, lock};
use crate::settled::Settled;
use crate::transport::HintRoots;

mod auto_failover;
mod etcd;
mod http;
mod patroni;
mod repmgr;
mod sql;
#[cfg(test)]
mod tests;
mod thread;

use http::{Failure, Http};
pub(crate) use thread::Sources;

/// Pause between two questions to a source that has to be asked. The hosts are probed at the same rate by default, and a
/// failover takes about a second from the end of the old primary to the first write on the new one; Patroni reads its DCS
/// for each answer, so more haste would cost others.
const POLL: Duration = Duration::from_secs(1);
/// First pause after all servers of a source have failed; each further one is twice as long.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// Longest pause after failures.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Pause after news, in which the source is not read: limits log lines and probes if a source has news all the time.
const NEWS_PAUSE: Duration = Duration::from_millis(100);

/// State of a cluster as a source describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    /// Words for the log. Another text is news.
    text: String,
    /// Report about the leader, for databases with a fence; none from a tool that names no leader.
    leader: Option<LeaderReport>,
}

impl State {
    /// Describes a cluster in words, without a leader that could be a witness.
    const fn new(text: String) -> Self {
        Self { text, leader: None }
    }
}

/// Adapter to one tool.
trait Source: Send {
    /// Reads one server and passes each state of the cluster to `heard`, the current one first. Returns when the server
    /// has to be asked again, after [`POLL`].
    ///
    /// # Errors
    /// The server cannot be reached, is silent, or gives no usable answer. Another one may be read then.
    fn read(&mut self, server: &str, heard: &mut dyn FnMut(State)) -> Result<(), Failure>;

    /// Has the states name the leader's host from now on, if the tool knows it, and confirm it every few seconds.
    fn name_leader(&mut self) {}
}

/// Database whose hosts are probed when a source has news.
#[derive(Debug, Clone)]
struct Follower {
    database: Arc<str>,
    cluster: Arc<Cluster>,
    /// Place of the report about the leader; none without a fence.
    reporter: Option<Arc<LeaderReporter>>,
}

/// Source to read, with the databases that name it.
#[derive(Debug, Clone)]
pub(crate) struct SourceSpec {
    source: HintSource,
    user: String,
    password: Secret,
    /// CA certificates for `https`.
    roots: HintRoots,
    followers: Vec<Follower>,
}

impl SourceSpec {
    /// True if both read the same servers in the same way.
    fn reads_like(&self, other: &Self) -> bool {
        let parts = |spec: &'_ Self| {
            (
                spec.source.clone(),
                spec.user.clone(),
                spec.password.clone(),
                Arc::clone(&spec.roots),
            )
        };
        parts(self) == parts(other)
    }

    /// True if a thread for the other description may go on for this one.
    fn continues(&self, other: &Self) -> bool {
        let is_same = |(one, two): (&Follower, &Follower)| {
            one.database == two.database
                && Arc::ptr_eq(&one.cluster, &two.cluster)
                && one.reporter.is_some() == two.reporter.is_some()
        };
        let mut pairs = self.followers.iter().zip(&other.followers);
        self.reads_like(other)
            && self.followers.len() == other.followers.len()
            && pairs.all(is_same)
    }

    /// Withdraws what was reported about leaders. The source reports nothing from now on.
    fn end_reports(&self) {
        for follower in &self.followers {
            if let Some(reporter) = &follower.reporter {
                reporter.end();
            }
        }
    }

    fn adapter(&self, http: Http) -> Box<dyn Source> {
        let login = (!self.user.is_empty()).then(|| (self.user.clone(), self.password.clone()));
        match self.source.tool {
            HintTool::Etcd => Box::new(etcd::Etcd::new(http, &self.source.key, login)),
            HintTool::Patroni => Box::new(patroni::Patroni::new(http, login)),
            HintTool::Repmgr => Box::new(repmgr::Repmgr::new(login, &self.source.key)),
            HintTool::AutoFailover => {
                Box::new(auto_failover::AutoFailover::new(login, &self.source.key))
            }
        }
    }
}

impl fmt::Display for SourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = self.source.servers.join(", ");
        write!(f, "{} at {servers}", self.source.tool)
    }
}

/// Describes the sources of all database entries, each once.
pub(crate) fn specs(settled: &Settled, clusters: &Clusters) -> Vec<SourceSpec> {
    let mut specs: Vec<SourceSpec> = Vec::new();
    for name in settled.settings.databases.keys() {
        let pool = settled.settings.pool(name, "");
        let Some(cluster) = pool.and_then(|pool| pool.cluster) else {
            continue;
        };
        for source in &cluster.hints.sources {
            let mut spec = SourceSpec {
                source: source.clone(),
                user: cluster.hints.user.clone(),
                password: cluster.hints.password.clone(),
                roots: settled.transport.hint_roots(&cluster.hints),
                followers: Vec::new(),
            };
            let known = clusters.of(name);
            let is_fenced = cluster.fence == Fence::Patroni;
            let reporter = is_fenced.then(|| Arc::new(LeaderReporter::new(Arc::clone(&known))));
            let follower = Follower {
                database: name.as_str().into(),
                cluster: known,
                reporter,
            };
            match specs.iter_mut().find(|known| known.reads_like(&spec)) {
                Some(known) => known.followers.push(follower),
                None => {
                    spec.followers.push(follower);
                    specs.push(spec);
                }
            }
        }
    }
    specs
}

/// Message of a channel that has none: only its end is heard.
enum Never {}

/// Loop of a source's thread.
struct Reader {
    spec: SourceSpec,
    /// Ends when the source is not to be read any more.
    stop: Receiver<Never>,
    /// State that was reported last.
    known: Option<State>,
    /// Number of servers that have failed in a row.
    failures: usize,
    /// True from the failure of all servers until one has answered.
    is_lost: bool,
}

impl Reader {
    fn new(spec: SourceSpec, stop: Receiver<Never>) -> Self {
        Self {
            spec,
            stop,
            known: None,
            failures: 0,
            is_lost: false,
        }
    }

    /// Reads the source until it is not to be read any more.
    fn run(mut self, source: &mut dyn Source) {
        if self.reporters().next().is_some() {
            source.name_leader();
        }
        let servers = self.spec.source.servers.clone();
        let mut servers = servers.iter().cycle();
        let mut current = servers.next();
        while let Some(server) = current {
            let mut has_answered = false;
            let outcome = source.read(server, &mut |state| {
                has_answered = true;
                self.heard(server, state);
            });
            if self.is_stopped() {
                return;
            }
            let mut pause = POLL;
            if let Err(failure) = outcome {
                self.report(None);
                let tool = self.spec.source.tool;
                tracing::debug!("hints of failovers: {tool} at {server}: {failure}");
                current = servers.next();
                // A server that ends its streams is as good as one that has to be asked.
                if !has_answered {
                    pause = self.failed(server, &failure);
                }
            }
            if self.is_stopped_within(pause) {
                return;
            }
        }
    }

    /// Handles a state that a server reports.
    fn heard(&mut self, server: &str, state: State) {
        if self.is_stopped() {
            return;
        }
        self.failures = 0;
        if std::mem::take(&mut self.is_lost) {
            tracing::info!("hints of failovers: {} can be read again", self.spec);
        }
        // First: the answers to the probes below may need it.
        self.report(state.leader.as_ref());
        let tool = self.spec.source.tool;
        let before = self.known.replace(state);
        // The first report is no news: all hosts are probed when Weir begins to watch them.
        let Some(now) = &self.known else {
            return;
        };
        let Some(before) = before else {
            tracing::info!(
                "hints of failovers: {tool} at {server} reports that {}",
                now.text
            );
            return;
        };
        if before.text == now.text {
            return;
        }
        for Follower {
            database, cluster, ..
        } in &self.spec.followers
        {
            cluster.suspect();
            tracing::info!(
                "database {database}: {tool} at {server} reports that {} (before: {}); all hosts are probed now",
                now.text,
                before.text
            );
        }
        self.is_stopped_within(NEWS_PAUSE);
    }

    /// Places of the reports about the leader.
    fn reporters(&self) -> impl Iterator<Item = &LeaderReporter> {
        let followers = self.spec.followers.iter();
        followers.filter_map(|follower| follower.reporter.as_deref())
    }

    /// Reports the leader to all databases with a fence; `None` withdraws what was reported.
    fn report(&self, leader: Option<&LeaderReport>) {
        for reporter in self.reporters() {
            reporter.report(leader.cloned());
        }
    }

    /// Counts a server that has not answered. Returns the pause before the next server is read.
    fn failed(&mut self, server: &str, failure: &Failure) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let count = self.spec.source.servers.len().max(1);
        if self.failures < count {
            return Duration::ZERO;
        }
        if !std::mem::replace(&mut self.is_lost, true) {
            tracing::warn!(
                "hints of failovers: {} cannot be read (last {server}: {failure}); hosts are probed as without it",
                self.spec
            );
        }
        if !self.failures.is_multiple_of(count) {
            return Duration::ZERO;
        }
        retry_pause(self.failures / count)
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped_within(Duration::ZERO)
    }

    fn is_stopped_within(&self, time: Duration) -> bool {
        let heard = self.stop.recv_timeout(time);
        matches!(heard, Err(RecvTimeoutError::Disconnected))
    }
}

/// Returns the pause after all servers have failed this many times in a row, from 1 on.
fn retry_pause(rounds: usize) -> Duration {
    let doublings = u32::try_from(rounds.saturating_sub(1)).unwrap_or(u32::MAX);
    let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
    RETRY_MIN.saturating_mul(factor).min(RETRY_MAX)
}
