//! Plan of a simulation with several hosts, made from a seed.

use weir_testkit::cuts::Dice;

const STEPS: usize = 1500;
/// Option that declares a function to read, although it inserts.
const DECLARED: &str = "read_functions=note";

/// Operation of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) what: What,
    /// Index of a client.
    pub(super) who: usize,
    pub(super) seed: u64,
}

pub(super) const SETTLE: Op = Op {
    what: What::Settle,
    who: 0,
    seed: 0,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A client sends something.
    Act,
    /// All standbys that stream replay everything.
    CatchUp,
    /// Some bytes of some client move.
    Client,
    /// All clients send and read what they can.
    Clients,
    Crash,
    /// A connection of a server ends.
    Kill,
    /// Time passes to the next deadline of a worker.
    Leap,
    /// A server executes all that it has, and its connection is lost before the answer.
    Lose,
    Pass,
    /// Replay stops or goes on.
    Pause,
    Promote,
    /// A WAL receiver breaks or is mended.
    Receiver,
    /// Standbys receive and replay some WAL.
    Replicate,
    /// Some server receives, executes or sends.
    Server,
    /// All servers receive, execute and send.
    Servers,
    Settle,
    Start,
    /// Some worker has a turn.
    Turn,
    /// Every worker has a turn.
    Turns,
    Vanish,
}

/// Faults, each with the factor of its weight.
const FAULTS: [(What, usize); 8] = [
    (What::Crash, 1),
    (What::Kill, 2),
    (What::Lose, 2),
    (What::Pause, 1),
    (What::Promote, 1),
    (What::Receiver, 1),
    (What::Start, 3),
    (What::Vanish, 1),
];
/// Weights for a kind of fault, beside about 400 other operations: mostly never, or often.
const RATES: [usize; 4] = [0, 0, 1, 3];
/// Operations of every plan.
const MOVES: [(What, usize); 12] = [
    (What::Act, 70),
    (What::CatchUp, 2),
    (What::Client, 20),
    (What::Clients, 50),
    (What::Leap, 1),
    (What::Pass, 30),
    (What::Replicate, 20),
    (What::Server, 30),
    (What::Servers, 40),
    (What::Settle, 6),
    (What::Turn, 40),
    (What::Turns, 50),
];

impl What {
    pub(super) fn is_fault(self) -> bool {
        FAULTS.iter().any(|(fault, _)| *fault == self)
    }

    /// True if a client performs the operation.
    pub(super) fn is_personal(self) -> bool {
        matches!(self, Self::Act | Self::Vanish)
    }

    /// True if the operation happens by itself when everything that can happen does.
    pub(super) fn is_done_by_settling(self) -> bool {
        matches!(
            self,
            Self::Client | Self::Clients | Self::Server | Self::Servers | Self::Turn | Self::Turns
        )
    }
}

/// Commits that a session's reads must see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consistency {
    Eventual,
    Global,
    Session,
}

impl Consistency {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Eventual => "eventual",
            Self::Global => "global",
            Self::Session => "session",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) workers: usize,
    pub(super) hosts: usize,
    /// Number of clients.
    pub(super) people: usize,
    pub(super) consistency: Consistency,
    /// Words of the entry in `[databases]`.
    pub(super) options: Vec<&'static str>,
    pub(super) ops: Vec<Op>,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let dice = &mut Dice::new(seed);
        let choices: [&[&'static str]; 8] = [
            &["", "read_wait=0.05", "read_wait=1"],
            &["", "read_fallback=error"],
            &["", "max_staleness=0", "max_staleness=3"],
            &[DECLARED, ""],
            &["", "failover_hold=2", "failover_hold=0"],
            &["pool_size=1", "pool_size=2", "pool_size=4"],
            &["", "split_begin=until-write"],
            &["", "read_guard=1"],
        ];
        let consistencies = [
            Consistency::Session,
            Consistency::Session,
            Consistency::Global,
            Consistency::Eventual,
        ];
        let chosen = choices.iter().map(|of| *dice.pick(of));
        let options = chosen.filter(|word| !word.is_empty()).collect();
        let faults = FAULTS.map(|(fault, factor)| (fault, factor * *dice.pick(&RATES)));
        let weights: Vec<_> = MOVES.into_iter().chain(faults).collect();
        let people = 1 + dice.below(4);
        Self {
            seed,
            workers: 1 + dice.below(2),
            hosts: 2 + dice.below(3),
            people,
            consistency: *dice.pick(&consistencies),
            options,
            ops: (0..STEPS).map(|_| op(&weights, dice, people)).collect(),
        }
    }

    /// True if a function that inserts is declared to read.
    pub(super) fn declares_reads(&self) -> bool {
        self.options.contains(&DECLARED)
    }

    /// Returns the lines of the configuration.
    pub(super) fn lines(&self) -> String {
        let replicas: Vec<_> = (2..=self.hosts)
            .map(|host| format!("10.0.0.{host}"))
            .collect();
        format!(
            "server_login_retry = 1\nquery_wait_notify = 0\nsession_state = track\n\
             replica_slow_start = 0\n[databases]\nshop = host=10.0.0.1 replicas='{}' watch_user=ann \
             read_write_split=auto read_consistency={} {}\n; no others",
            replicas.join(","),
            self.consistency.word(),
            self.options.join(" "),
        )
    }

    /// Returns the plan as Rust source.
    pub(super) fn source(&self) -> String {
        let ops = self.ops.iter().map(|Op { what, who, seed }| {
            format!("        Op {{ what: What::{what:?}, who: {who}, seed: {seed:#x} }},\n")
        });
        let Self {
            seed,
            workers,
            hosts,
            people,
            consistency,
            options,
            ..
        } = self;
        format!(
            "Plan {{\n    seed: {seed},\n    workers: {workers},\n    hosts: {hosts},\n    people: {people},\n    \
             consistency: Consistency::{consistency:?},\n    options: vec!{options:?},\n    ops: vec![\n{}    ],\n}}",
            ops.collect::<String>(),
        )
    }
}

fn op(weights: &[(What, usize)], dice: &mut Dice, people: usize) -> Op {
    let mut at = dice.below(weights.iter().map(|(_, weight)| weight).sum());
    let mut found = What::Turn;
    for (what, weight) in weights {
        if at < *weight {
            found = *what;
            break;
        }
        at -= weight;
    }
    Op {
        what: found,
        who: dice.below(people),
        seed: dice.roll(),
    }
}
