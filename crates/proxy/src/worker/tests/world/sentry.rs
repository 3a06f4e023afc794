//! Simulated watching thread: a real [`Watch`] whose probes reach the hosts of a cluster, and come back, after times that
//! dice decide. `crate::watching` does the same over connections.

use std::sync::Arc;
use std::time::Duration;

use weir_pool::{HostId, Moment};
use weir_testkit::backend::Database;
use weir_testkit::cluster::{Cluster, Position};
use weir_testkit::cuts::Dice;
use weir_watch::{
    Answer, Failure, FailureKind, Lsn, Position as Answered, Receiver, Snapshot, Watch, Writes,
};

use super::World;
use crate::global::{Cluster as Shared, Global};
use crate::watching::specs;

/// Longest way to a host or back, in microseconds.
const WAY: usize = 2_000;
/// Longest way of a probe that is late.
const LATE: usize = 200_000;

/// Probe under way.
struct Flight {
    host: usize,
    sent: Moment,
    /// Time at which the host evaluates the statement.
    evaluates: Moment,
    arrives: Moment,
    result: Option<Result<Answer, FailureKind>>,
}

/// See the module's page.
pub(in super::super) struct Sentry {
    cluster: Cluster,
    watch: Watch,
    shared: Arc<Shared>,
    ids: Vec<HostId>,
    flights: Vec<Flight>,
    /// Start of each host that the probe's connection belongs to.
    links: Vec<Option<i64>>,
    published: Option<Arc<Snapshot>>,
    known_write: Moment,
    answered: Moment,
    dice: Dice,
}

/// Database `shop` with two hosts, and its watch, by which host 0 takes writes.
pub(in super::super) struct TwoHosts {
    pub(in super::super) world: World,
    pub(in super::super) cluster: Cluster,
    pub(in super::super) sentry: Sentry,
}

impl TwoHosts {
    pub(in super::super) fn new() -> Self {
        Self::split("auto")
    }

    /// Makes such a world with this value of `read_write_split`.
    pub(in super::super) fn split(split: &str) -> Self {
        let lines = format!(
            "session_state = track\nquery_wait_notify = 0\n[databases]\n\
             shop = host=10.0.0.1 replicas=10.0.0.2 watch_user=ann read_write_split={split}\n; no others"
        );
        let mut world = World::new(1, &lines);
        let cluster = Cluster::new(2);
        world.database = Some(Database::default());
        world.cluster = Some(cluster.clone());
        let sentry = Sentry::new(&world.global, &cluster, world.now(), 1);
        let mut hosts = Self {
            world,
            cluster,
            sentry,
        };
        hosts.watch_until(|sentry| sentry.primary() == Some(0));
        hosts
    }

    /// Lets time pass until the watch has found out what is expected.
    #[track_caller]
    pub(in super::super) fn watch_until(&mut self, is_found: impl Fn(&Sentry) -> bool) {
        for _ in 0..1_000 {
            self.world.advance(Duration::from_millis(20));
            self.sentry.tick(&self.world.global, self.world.now());
            if is_found(&self.sentry) {
                return self.world.settle();
            }
        }
        panic!("the watch finds nothing out");
    }
}

impl Sentry {
    /// Begins to watch the only database with several hosts.
    pub(in super::super) fn new(
        global: &Global,
        cluster: &Cluster,
        now: Moment,
        seed: u64,
    ) -> Self {
        let specs = specs(&global.settled(), &global.hosts, &global.clusters);
        let [spec] = &specs[..] else {
            panic!("one database has several hosts");
        };
        let hosts: Vec<_> = spec.hosts.iter().map(|spec| spec.host.clone()).collect();
        Self {
            cluster: cluster.clone(),
            shared: Arc::clone(&spec.cluster),
            ids: hosts.iter().map(|host| host.id).collect(),
            links: vec![None; hosts.len()],
            watch: Watch::new(spec.rules.clone(), hosts, now),
            flights: Vec::new(),
            published: None,
            known_write: Moment(0),
            answered: Moment(0),
            dice: Dice::new(seed),
        }
    }

    /// Returns the host that takes writes by the published snapshot.
    pub(in super::super) fn primary(&self) -> Option<usize> {
        let writes = self.published.as_ref()?.writes;
        self.ids.iter().position(|id| writes == Writes::To(*id))
    }

    /// Does all that is due: reports of workers, answers, probes, the snapshot.
    pub(in super::super) fn tick(&mut self, global: &Global, now: Moment) {
        self.hear_workers(now);
        self.evaluate(now);
        self.deliver(now);
        self.notice_ends(now);
        while let Some(host) = self.watch.poll_probe(now) {
            self.probe(host, now);
        }
        while self.watch.poll_event().is_some() {}
        let snapshot = self.watch.snapshot();
        let published = self.published.as_ref();
        if published.is_none_or(|published| !Arc::ptr_eq(published, &snapshot)) {
            self.published = Some(Arc::clone(&snapshot));
            if self.shared.publish(snapshot) {
                global.wake_all();
            }
        }
    }

    fn hear_workers(&mut self, now: Moment) {
        if self.shared.take_suspicion() {
            self.watch.suspect(now);
        }
        let write = self.shared.uncovered_write(self.answered);
        if let Some(write) = write.filter(|write| *write > self.known_write) {
            self.known_write = write;
            self.watch.wrote(now);
        }
    }

    fn probe(&mut self, host: usize, now: Moment) {
        let way = match self.dice.below(20) {
            0 => LATE,
            _ => WAY,
        };
        let mut after = |at: Moment| Moment(at.0 + 1 + self.dice.below(way) as u64);
        let evaluates = after(now);
        let arrives = after(evaluates);
        self.flights.push(Flight {
            host,
            sent: now,
            evaluates,
            arrives,
            result: None,
        });
    }

    fn evaluate(&mut self, now: Moment) {
        for flight in &mut self.flights {
            if flight.result.is_some() || flight.evaluates > now {
                continue;
            }
            let host = flight.host;
            flight.result = Some(match self.cluster.is_up(host) {
                false => Err(FailureKind::Refused),
                true => Ok(answer(&self.cluster, host)),
            });
        }
    }

    fn deliver(&mut self, now: Moment) {
        let all = std::mem::take(&mut self.flights);
        let is_due = |flight: &Flight| flight.result.is_some() && flight.arrives <= now;
        let (due, later): (Vec<_>, Vec<_>) = all.into_iter().partition(is_due);
        self.flights = later;
        for flight in due {
            let Flight { host, sent, .. } = flight;
            match flight.result {
                Some(Ok(answer)) => {
                    self.links[host] = Some(answer.started);
                    self.watch.handle_answer(now, host, sent, &answer);
                    if self.watch.snapshot().writes == Writes::To(self.ids[host]) {
                        self.answered = self.answered.max(sent);
                    }
                }
                Some(Err(kind)) => self.fail(now, host, kind),
                None => {}
            }
        }
    }

    /// Notices that the connection of a probe has ended with its host.
    fn notice_ends(&mut self, now: Moment) {
        for host in 0..self.links.len() {
            let life = self.cluster.facts(host).started;
            let has_ended = |link: i64| link != life || !self.cluster.is_up(host);
            if self.links[host].is_some_and(has_ended) {
                self.flights.retain(|flight| flight.host != host);
                self.fail(now, host, FailureKind::Reset);
            }
        }
    }

    fn fail(&mut self, now: Moment, host: usize, kind: FailureKind) {
        self.links[host] = None;
        let text = "".into();
        self.watch
            .handle_failure(now, host, &Failure { kind, text });
    }
}

/// Returns the answer of a host that is up.
fn answer(cluster: &Cluster, host: usize) -> Answer {
    let facts = cluster.facts(host);
    let timeline = facts.timeline;
    let position = match facts.position {
        Position::Primary { flushed, inserted } => Answered::Primary {
            flushed: Lsn(flushed),
            inserted: Lsn(inserted),
            timeline,
        },
        Position::Standby {
            received,
            replayed,
            streams,
            is_paused,
        } => Answered::Replica {
            replayed: Lsn(replayed),
            received: Some(Lsn(received)),
            receiver: match streams {
                true => Receiver::Streaming { timeline },
                false => Receiver::None,
            },
            is_paused,
        },
    };
    Answer {
        position,
        started: facts.started,
        system: Some(7),
        checkpoint_timeline: Some(timeline),
        is_read_only: false,
    }
}
