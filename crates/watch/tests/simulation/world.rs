//! World of the simulation: a virtual cluster, its network, clients that commit, and the watch.

use std::time::Duration;

use weir_pool::HostId;
use weir_pool::Moment;
use weir_watch::Answer;
use weir_watch::Configured;
use weir_watch::Failure;
use weir_watch::FailureKind;
use weir_watch::Host;
use weir_watch::Rules;
use weir_watch::Watch;
use weir_watch::Writes;

use crate::checks::Checks;
use crate::cluster::Cluster;
use crate::cluster::Life;
use crate::cluster::Role;

/// Longest step in which nothing is checked, in microseconds.
const STEP_MAX: u64 = 20_000;

/// Step of a run.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Lets so many microseconds pass.
    Advance(u64),
    /// A client of the pooler commits where the snapshot says.
    Commit { is_async: bool },
    /// Somebody commits on a host past the pooler.
    CommitDirectly(usize),
    /// A session on the primary writes WAL that is not flushed.
    Uncommitted,
    /// Kills a host.
    Crash(usize),
    /// Starts a dead host in its former role.
    Start(usize),
    /// Kills the primary that a host follows, and promotes the host.
    Failover(usize),
    /// Promotes a standby by hand.
    Promote(usize),
    /// Restarts a host as a standby of another one.
    Follow {
        host: usize,
        upstream: usize,
        rewinds: bool,
    },
    /// Cuts a host off from the pooler, or ends that.
    Cut(usize, bool),
    /// Pauses or resumes replay.
    Pause(usize, bool),
    /// Stops or starts a WAL receiver.
    StopReceiver(usize, bool),
    /// Terminates the session of the probe.
    KillSession(usize),
    /// A client saw an error that makes the pooler suspicious.
    Suspect,
    /// A tool that was asked so many microseconds ago names a host as leader, right or wrong.
    Name { host: usize, age: u64 },
    /// The tool cannot be asked any more.
    Unname,
}

/// Probe under way.
#[derive(Clone, Debug)]
struct Flight {
    host: usize,
    sent: u64,
    /// Time at which the host evaluates the statement.
    evaluates: u64,
    arrives: u64,
    result: Option<Result<Answer, FailureKind>>,
}

/// Network between the pooler and a host.
#[derive(Clone, Debug, Default)]
struct Link {
    is_cut: bool,
    /// True if the connection of the probe is open.
    is_open: bool,
    /// True if the host has restarted while it was cut off.
    is_stale: bool,
}

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) cluster: Cluster,
    pub(crate) watch: Watch,
    pub(crate) rules: Rules,
    links: Vec<Link>,
    flights: Vec<Flight>,
    checks: Checks,
    /// Lines of the log, printed if a check fails.
    log: Vec<String>,
    random: u64,
}

impl World {
    pub(crate) fn new(rules: Rules, count: usize, seed: u64) -> Self {
        let host = |index: usize| Host {
            id: HostId(u32::try_from(index).unwrap()),
            name: format!("h{index}").into(),
            az: "".into(),
            role: Configured::Auto,
            weight: 100,
            reads: true,
        };
        let hosts = (0..count).map(host).collect();
        Self {
            now: 1,
            cluster: Cluster::new(count),
            watch: Watch::new(rules.clone(), hosts, Moment(1)),
            rules,
            links: vec![Link::default(); count],
            flights: Vec::new(),
            checks: Checks::new(count),
            log: Vec::new(),
            random: seed,
        }
    }

    fn dice(&mut self, below: u64) -> u64 {
        let random = &mut self.random;
        roll(random, below)
    }

    pub(crate) fn is_reachable(&self, host: usize) -> bool {
        !self.links[host].is_cut && self.cluster.is_up(host)
    }

    pub(crate) fn is_cut(&self, host: usize) -> bool {
        self.links[host].is_cut
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match *op {
            Op::Advance(span) => self.advance(span),
            Op::Commit { is_async } => self.commit(is_async),
            Op::CommitDirectly(host) => {
                if self.cluster.is_primary(host) {
                    self.write(host, false);
                }
            }
            Op::Uncommitted => self.uncommitted(),
            Op::Crash(host) => self.crash(host),
            Op::Start(host) => {
                if self.cluster.hosts[host].life == Life::Dead {
                    let until = self.now + 300_000;
                    self.cluster.start(host, until);
                }
            }
            Op::Failover(host) => self.failover(host),
            Op::Promote(host) => {
                if self.cluster.is_up(host) && !self.cluster.is_primary(host) {
                    self.cluster.promote(host);
                }
            }
            Op::Follow {
                host,
                upstream,
                rewinds,
            } => self.follow(host, upstream, rewinds),
            Op::Cut(host, on) => self.cut(host, on),
            Op::Pause(host, on) => {
                if let Role::Standby { is_paused, .. } = &mut self.cluster.hosts[host].role {
                    *is_paused = on;
                }
            }
            Op::StopReceiver(host, on) => {
                if let Role::Standby {
                    receiver_stopped, ..
                } = &mut self.cluster.hosts[host].role
                {
                    *receiver_stopped = on;
                }
            }
            Op::KillSession(host) => self.reset(host),
            Op::Suspect => self.watch.suspect(Moment(self.now)),
            Op::Name { host, age } => {
                let asked = self.now.saturating_sub(age);
                self.checks.named(host, asked);
                let (now, asked) = (Moment(self.now), Moment(asked));
                self.watch.hear_leader(now, host, asked);
            }
            Op::Unname => self.watch.forget_leader(),
        }
        self.drive();
    }

    /// Lets time pass in small steps, and serves the watch in each.
    pub(crate) fn advance(&mut self, span: u64) {
        let end = self.now + span;
        while self.now < end {
            self.drive();
            let wakes = self.flights.iter().map(|it| it.evaluates.min(it.arrives));
            let arrives = self.flights.iter().map(|it| it.arrives);
            let next = wakes
                .chain(arrives)
                .filter(|&at| at > self.now)
                .chain([self.watch.next_probe().0, self.now + STEP_MAX, end])
                .min()
                .unwrap();
            assert!(next > self.now, "the watch wants to be polled for ever");
            self.now = next;
            let mut random = self.random;
            self.cluster
                .advance(self.now, |below| roll(&mut random, below));
            self.random = random;
        }
        self.drive();
    }

    /// Evaluates and delivers what is due, orders probes, checks.
    fn drive(&mut self) {
        self.evaluate();
        self.deliver();
        let now = Moment(self.now);
        while let Some(host) = self.watch.poll_probe(now) {
            let is_under_way = self.flights.iter().any(|it| it.host == host);
            assert!(!is_under_way, "two probes of host {host}");
            self.checks.ordered(self.now, host);
            let evaluates = self.now + 1 + self.dice(2_000);
            let arrives = evaluates + 1 + self.dice(2_000);
            self.flights.push(Flight {
                host,
                sent: self.now,
                evaluates,
                arrives,
                result: None,
            });
        }
        assert!(
            self.watch.next_probe() > now,
            "no probe is due, but the watch wants to be polled at once"
        );
        self.check();
    }

    fn check(&mut self) {
        while let Some(event) = self.watch.poll_event() {
            self.log.push(format!("{:>9} {event}", self.now));
        }
        let checks = std::mem::take(&mut self.checks);
        self.checks = checks.check(self);
    }

    /// Lets hosts evaluate the statements that have reached them.
    fn evaluate(&mut self) {
        for flight in &mut self.flights {
            if flight.result.is_some() || flight.evaluates > self.now {
                continue;
            }
            let link = &mut self.links[flight.host];
            if link.is_cut {
                flight.result = Some(Err(FailureKind::Timeout));
                flight.arrives = flight.sent + 1_000_000;
                continue;
            }
            flight.result = Some(match self.cluster.hosts[flight.host].life {
                Life::Dead => Err(FailureKind::Refused),
                Life::Starting(_) => Err(FailureKind::Busy),
                Life::Up => {
                    self.checks.answered(&self.cluster, flight.host);
                    Ok(self.cluster.answer(flight.host))
                }
            });
            link.is_open = matches!(flight.result, Some(Ok(_)));
        }
    }

    fn deliver(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.flights)
            .into_iter()
            .partition(|it| it.result.is_some() && it.arrives <= now);
        self.flights = later;
        for flight in due {
            match flight.result.unwrap() {
                Ok(answer) => {
                    self.checks.delivered(flight.host);
                    self.watch.handle_answer(
                        Moment(now),
                        flight.host,
                        Moment(flight.sent),
                        &answer,
                    );
                    // Late and second answers change nothing.
                    if self.random.is_multiple_of(4) {
                        let before = self.watch.snapshot();
                        self.watch
                            .handle_answer(Moment(now), flight.host, Moment(1), &answer);
                        assert_eq!(self.watch.snapshot(), before);
                    }
                }
                Err(kind) => self.fail(flight.host, kind),
            }
            self.check();
        }
    }

    fn fail(&mut self, host: usize, kind: FailureKind) {
        self.links[host].is_open = false;
        let failure = Failure {
            kind,
            text: "".into(),
        };
        self.watch.handle_failure(Moment(self.now), host, &failure);
    }

    /// Ends the connection of the probe. The pooler learns it at once, or when the network is back.
    fn reset(&mut self, host: usize) {
        if self.links[host].is_cut {
            self.links[host].is_stale = true;
            return;
        }
        let before = self.flights.len();
        self.flights.retain(|it| it.host != host);
        let was_under_way = self.flights.len() < before;
        if was_under_way || self.links[host].is_open {
            self.checks.closed(self.now, host);
            self.fail(host, FailureKind::Reset);
        }
    }

    fn crash(&mut self, host: usize) {
        if self.cluster.hosts[host].life != Life::Dead {
            if self.cluster.is_primary(host) {
                let branch = self.cluster.hosts[host].branch;
                self.checks.crashed(branch, self.cluster.end(host));
            }
            self.cluster.crash(host);
            self.reset(host);
        }
    }

    fn cut(&mut self, host: usize, on: bool) {
        if self.links[host].is_cut == on {
            return;
        }
        self.links[host].is_cut = on;
        if on {
            // Nothing comes back any more.
            for flight in self.flights.iter_mut().filter(|it| it.host == host) {
                flight.result = Some(Err(FailureKind::Timeout));
                flight.arrives = flight.sent + 1_000_000;
            }
        } else if std::mem::take(&mut self.links[host].is_stale) {
            self.reset(host);
        }
    }

    fn failover(&mut self, host: usize) {
        let Role::Standby { upstream, .. } = self.cluster.hosts[host].role else {
            return;
        };
        if self.cluster.is_up(host) {
            self.crash(upstream);
            self.cluster.promote(host);
        }
    }

    fn follow(&mut self, host: usize, upstream: usize, rewinds: bool) {
        if host != upstream && self.cluster.is_primary(upstream) {
            self.crash(host);
            let until = self.now + 200_000;
            self.cluster.follow(host, upstream, rewinds, until);
        }
    }

    fn uncommitted(&mut self) {
        let bytes = self.dice(50);
        for host in &mut self.cluster.hosts {
            if let (Role::Primary { inserted, .. }, Life::Up) = (&mut host.role, host.life) {
                *inserted += bytes;
            }
        }
    }

    /// Commits on a host and returns the position of the commit.
    fn write(&mut self, host: usize, is_async: bool) -> u64 {
        let bytes = 1 + self.dice(100);
        match &mut self.cluster.hosts[host].role {
            Role::Primary { flushed, inserted } => {
                *inserted += bytes;
                if !is_async {
                    *flushed = *inserted;
                }
                *inserted
            }
            Role::Standby { .. } => unreachable!("only primaries commit"),
        }
    }

    fn commit(&mut self, is_async: bool) {
        let snapshot = self.watch.snapshot();
        let Writes::To(HostId(id)) = snapshot.writes else {
            return;
        };
        let host = usize::try_from(id).unwrap();
        if !self.is_reachable(host) || !self.cluster.is_primary(host) {
            self.watch.suspect(Moment(self.now));
            return;
        }
        let position = self.write(host, is_async);
        let branch = self.cluster.hosts[host].branch;
        self.checks.committed(self.now, branch, position, is_async);
        self.watch.wrote(Moment(self.now));
    }

    /// Ends all faults, makes a cluster with one primary, and waits until the watch shows it.
    pub(crate) fn recover(&mut self) {
        let count = self.cluster.hosts.len();
        for host in 0..count {
            self.cut(host, false);
            self.apply(&Op::Pause(host, false));
            self.apply(&Op::StopReceiver(host, false));
            self.apply(&Op::Start(host));
        }
        self.advance(1_000_000);
        let leader = (0..count)
            .max_by_key(|&host| self.cluster.hosts[host].branch)
            .unwrap();
        self.apply(&Op::Promote(leader));
        for host in (0..count).filter(|&host| host != leader) {
            self.follow(host, leader, true);
        }
        self.advance(10_000_000);
        let snapshot = self.watch.snapshot();
        let leader_id = HostId(u32::try_from(leader).unwrap());
        assert_eq!(snapshot.writes, Writes::To(leader_id), "{snapshot:#?}");
        self.commit(false);
        let committed = Moment(self.now);
        self.advance(2_000_000);
        for view in &self.watch.snapshot().hosts {
            assert!(view.takes_reads, "{view:#?}");
            assert!(view.fresh_to > committed, "{view:#?}");
        }
    }

    pub(crate) fn limit(&self) -> u64 {
        let slack = Duration::from_secs(10);
        u64::try_from((self.rules.hold + slack).as_micros()).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log.join("\n"));
        }
    }
}

/// Returns a random number below `below`, which is not 0.
fn roll(random: &mut u64, below: u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *random;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % below.max(1)
}
