//! Tests of the watch: each is a short story of a cluster, told by scripted hosts.

mod fresh;
mod leader;
mod primary;
mod probes;
mod reads;

use std::time::Duration;

use weir_pool::HostId;
use weir_pool::Moment;

use crate::answer::Answer;
use crate::answer::Lsn;
use crate::answer::Position;
use crate::answer::Receiver;
use crate::failure::Failure;
use crate::failure::FailureKind;
use crate::rules::Configured;
use crate::rules::Host;
use crate::rules::Rules;
use crate::snapshot::HostView;
use crate::snapshot::Writes;
use crate::watch::Watch;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// Behaviour of a host.
#[derive(Clone, Debug)]
enum Act {
    Answer(Answer),
    Fail(FailureKind),
}

/// Watch with scripted hosts.
struct Story {
    watch: Watch,
    now: Moment,
    acts: Vec<Act>,
    /// Time between the order of a probe and its answer, by host.
    latency: Vec<Duration>,
    /// Probes under way: host, order, result.
    flights: Vec<(usize, Moment, Moment)>,
    lines: Vec<String>,
}

impl Story {
    /// Hosts a, b, c, …, one per act.
    fn new(rules: Rules, acts: Vec<Act>) -> Self {
        let hosts = (0..acts.len()).map(host).collect();
        Self::with_hosts(rules, hosts, acts)
    }

    fn with_hosts(rules: Rules, hosts: Vec<Host>, acts: Vec<Act>) -> Self {
        let now = Moment(1_000_000);
        let latency = vec![Duration::from_millis(1); acts.len()];
        Self {
            watch: Watch::new(rules, hosts, now),
            now,
            acts,
            latency,
            flights: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// A cluster that works: a is the primary on timeline 6, the others stream. Two seconds have passed.
    fn working(rules: Rules, count: usize) -> Self {
        let replica = |_| replica(6, 1000);
        let acts = [primary(6, 1000)]
            .into_iter()
            .chain((1..count).map(replica));
        let mut story = Self::new(rules, acts.collect());
        story.run(2000);
        assert_eq!(story.writes(), Writes::To(HostId(0)));
        story.lines.clear();
        story
    }

    /// Lets milliseconds pass. Hosts answer or fail after their latency; a time-out takes as long as configured.
    fn run(&mut self, millis: u64) {
        let end = self.now.plus(Duration::from_millis(millis));
        loop {
            while let Some(host) = self.watch.poll_probe(self.now) {
                let time = match self.acts[host] {
                    Act::Fail(FailureKind::Timeout) => self.watch.rules.probe_timeout,
                    _ => self.latency[host],
                };
                self.flights.push((host, self.now, self.now.plus(time)));
            }
            assert!(self.watch.next_probe() > self.now, "busy loop");
            self.note();
            let next = self.flights.iter().map(|(_, _, due)| *due);
            let next = next.chain([self.watch.next_probe()]).min().unwrap();
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            let (due, later) = self.flights.iter().partition(|it| it.2 <= self.now);
            self.flights = later;
            let due: Vec<_> = due;
            for (host, sent, _) in due {
                self.deliver(host, sent);
            }
        }
    }

    fn deliver(&mut self, host: usize, sent: Moment) {
        match self.acts[host].clone() {
            Act::Answer(answer) => self.watch.handle_answer(self.now, host, sent, &answer),
            Act::Fail(kind) => self.watch.handle_failure(self.now, host, &failure(kind)),
        }
        self.note();
    }

    fn note(&mut self) {
        while let Some(event) = self.watch.poll_event() {
            self.lines.push(event.to_string());
        }
    }

    /// The connection of the idle probe breaks.
    fn reset(&mut self, host: usize) {
        let reset = failure(FailureKind::Reset);
        self.watch.handle_failure(self.now, host, &reset);
        self.note();
    }

    fn writes(&self) -> Writes {
        self.watch.snapshot().writes
    }

    fn view(&self, host: usize) -> HostView {
        self.watch.snapshot().hosts[host].clone()
    }

    /// Returns the lines since the last call.
    fn lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

fn host(index: usize) -> Host {
    let letter = char::from(b'a' + u8::try_from(index).unwrap());
    Host {
        id: HostId(u32::try_from(index).unwrap()),
        name: format!("{letter}:5432").into(),
        az: "".into(),
        role: Configured::Auto,
        weight: 100,
        reads: true,
    }
}

fn failure(kind: FailureKind) -> Failure {
    Failure {
        kind,
        text: "".into(),
    }
}

fn primary(timeline: u32, flushed: u64) -> Act {
    Act::Answer(Answer {
        position: Position::Primary {
            flushed: Lsn(flushed),
            inserted: Lsn(flushed),
            timeline,
        },
        started: 1,
        system: Some(42),
        checkpoint_timeline: None,
        is_read_only: false,
    })
}

fn replica(timeline: u32, replayed: u64) -> Act {
    standby(Receiver::Streaming { timeline }, replayed)
}

fn standby(receiver: Receiver, replayed: u64) -> Act {
    Act::Answer(Answer {
        position: Position::Replica {
            replayed: Lsn(replayed),
            received: Some(Lsn(replayed)),
            receiver,
            is_paused: false,
        },
        started: 1,
        system: Some(42),
        checkpoint_timeline: None,
        is_read_only: false,
    })
}

/// Changes the answer of a host.
fn with(act: Act, change: impl FnOnce(&mut Answer)) -> Act {
    match act {
        Act::Answer(mut answer) => {
            change(&mut answer);
            Act::Answer(answer)
        }
        Act::Fail(_) => panic!("only answers can be changed"),
    }
}

fn restarted(act: Act) -> Act {
    with(act, |answer| answer.started += 1)
}

const fn fails(kind: FailureKind) -> Act {
    Act::Fail(kind)
}
