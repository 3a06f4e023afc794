//! Cluster that is being watched: its description, the decisions about it, and what was published of them.

use std::net::IpAddr;
use std::sync::Arc;

use weir_config::HostAddr;
use weir_pool::Moment;
use weir_watch::{Snapshot, Watch, Writes};

use super::spec::ClusterSpec;
use crate::clock::machine_us;
use crate::global::LeaderReport;
use crate::worker::ServerId;

/// Host of a cluster, as far as its connections are concerned.
#[derive(Debug, Default)]
pub(super) struct WatchedHost {
    /// Connection to the host, in any stage.
    pub(super) link: Option<ServerId>,
    /// Place of the address that the next attempt tries first. An address that is silent uses up the time of the
    /// attempt, so the next attempt begins behind it.
    pub(super) first: usize,
    /// Earliest time of the next look-up of the host's name beside a connection.
    pub(super) next_look_up: Moment,
}

/// See the module's page.
pub(super) struct Watched {
    pub(super) spec: ClusterSpec,
    pub(super) watch: Watch,
    pub(super) hosts: Vec<WatchedHost>,
    /// Snapshot that workers have; none before the first.
    published: Option<Arc<Snapshot>>,
    /// Time of the latest commit that `watch` knows of.
    known_write: Moment,
    /// Time at which the latest probe was sent that the primary has answered.
    answered: Moment,
    /// Report about the leader that `watch` knows.
    leader: Option<LeaderReport>,
    /// Name of a leader that is none of the hosts, which was logged.
    stranger: Option<String>,
}

impl Watched {
    /// Begins to watch. Nothing is known yet.
    pub(super) fn new(spec: ClusterSpec, now: Moment) -> Self {
        let hosts = spec.hosts.iter().map(|spec| spec.host.clone());
        let watch = Watch::new(spec.rules.clone(), hosts.collect(), now);
        Self {
            watch,
            hosts: spec.hosts.iter().map(|_| WatchedHost::default()).collect(),
            published: None,
            known_write: Moment(0),
            answered: Moment(0),
            leader: None,
            stranger: None,
            spec,
        }
    }

    /// Passes on what workers have reported.
    pub(super) fn hear_workers(&mut self, now: Moment) {
        if self.spec.cluster.take_suspicion() {
            self.watch.suspect(now);
        }
        let write = self.spec.cluster.uncovered_write(self.answered);
        if let Some(write) = write.filter(|write| *write > self.known_write) {
            self.known_write = write;
            self.watch.wrote(now);
        }
    }

    /// Passes on which host is the leader, as sources of hints name it.
    pub(super) fn hear_sources(&mut self, now: Moment) {
        let now_us = machine_us();
        let is_fenced = self.spec.is_fenced;
        let leader = is_fenced.then(|| self.spec.cluster.leader(now_us));
        let leader = leader.flatten();
        if leader == self.leader {
            return;
        }
        let named = leader.as_ref().and_then(|report| {
            let host = self.place_of(report.host.as_ref()?.to_string())?;
            Some((host, now_us.saturating_sub(report.asked_us)))
        });
        match named {
            Some((host, age)) => {
                // The clocks differ in their start only.
                let asked = Moment(now.0.saturating_sub(age));
                self.watch.hear_leader(now, host, asked);
            }
            None => self.watch.forget_leader(),
        }
        self.leader = leader;
    }

    /// Returns the place of the host that `SHOW HOSTS` shows by this name. Another name is logged once.
    fn place_of(&mut self, name: String) -> Option<usize> {
        let mut hosts = self.spec.hosts.iter();
        let place = hosts.position(|spec| spec.host.name.eq_ignore_ascii_case(&name));
        if place.is_none() && self.stranger.as_ref() != Some(&name) {
            let names: Vec<_> = self.spec.hosts.iter().map(|it| &*it.host.name).collect();
            tracing::warn!(
                "database {}: failover_hints name {name} as leader, which is none of its hosts ({}): it is no witness",
                self.spec.database,
                names.join(", ")
            );
            self.stranger = Some(name);
        }
        place
    }

    /// Notes the address at which a host with a name answers, or that it does not answer.
    pub(super) fn note_address(&self, host: usize, address: Option<IpAddr>) {
        if let Some(spec) = self.spec.hosts.get(host)
            && matches!(spec.address, HostAddr::Name(_))
        {
            self.spec.cluster.set_address(spec.host.id, address);
        }
    }

    /// Handles the answer of a host to a probe that was sent at `sent`.
    pub(super) fn handle_answer(
        &mut self,
        now: Moment,
        host: usize,
        sent: Moment,
        answer: &weir_watch::Answer,
    ) {
        self.watch.handle_answer(now, host, sent, answer);
        let id = self.spec.hosts.get(host).map(|spec| spec.host.id);
        let writes = self.watch.snapshot().writes;
        if id.is_some_and(|id| writes == Writes::To(id)) {
            self.answered = self.answered.max(sent);
        }
    }

    /// Logs events and publishes the snapshot if it has changed. Returns true if workers have to be woken.
    pub(super) fn publish(&mut self) -> bool {
        let database = &self.spec.database;
        while let Some(event) = self.watch.poll_event() {
            if event.is_alert() {
                tracing::warn!("database {database}: {event}");
            } else {
                tracing::info!("database {database}: {event}");
            }
        }
        let snapshot = self.watch.snapshot();
        let published = self.published.as_ref();
        if published.is_some_and(|published| Arc::ptr_eq(published, &snapshot)) {
            return false;
        }
        self.published = Some(Arc::clone(&snapshot));
        self.spec.cluster.publish(snapshot)
    }
}
