//! What can be asked for, and what has a name.

use std::path::PathBuf;
use std::time::Duration;

use weir_advisor::controller::Goal;

use crate::collector::psql::Address;
use crate::wallet::{self, Mode, Wallet};

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// The user's own scripts of pgbench with weights, on data that are there and stay as the scripts leave them.
    Scripts(Vec<(PathBuf, u32)>),
    /// The e-wallet in these modes.
    Wallet(Wallet, Vec<Mode>),
}

/// The way to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// As many clients as connections.
    Direct,
    /// Through a pooler that is there; its pool is the user's business. It must know the database `weir_tune`.
    Pooler(Address),
    /// Through a Weir that is started for it, whose pool has the size in question.
    Weir {
        /// The program.
        program: PathBuf,
        /// Always as many.
        clients: u32,
    },
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// For the report: the name of what was chosen.
    pub name: String,
    /// What is run.
    pub workload: Workload,
    /// The numbers of connections.
    pub connections: Vec<u32>,
    /// How often each is measured.
    pub repetitions: u32,
    /// Before each measurement.
    pub warm_up: Duration,
    /// Of each.
    pub measure: Duration,
    /// Pretended network: so long each round trip of the e-wallet takes in addition. Zero for none.
    pub round_trip: Duration,
    /// pgbench's `--protocol`; a pipeline needs `extended` or `prepared`.
    pub protocol: String,
    /// pgbench's threads, where there is no pooler; with one each client has its own.
    pub threads: u32,
    /// Of the order and of the load.
    pub seed: u64,
    /// A server that is there; without it one is started and thrown away.
    pub server: Option<Address>,
    /// Where PostgreSQL's programs are; without it the newest installed.
    pub postgres: Option<PathBuf>,
    /// More settings for a server of ours, each `name=value`.
    pub settings: Vec<String>,
    /// The way to the server.
    pub path: Path,
    /// Cores of the server; without it those of this machine, if the server is on it.
    pub cores: Option<u32>,
    /// Disks that seek.
    pub spindles: u32,
    /// What is wanted of the answer.
    pub goal: Goal,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// A question with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The published study: its data, its numbers of connections, its shared buffers.
    P3,
    /// Data larger than the shared buffers, keys and time stamps as an application has them, some users wanted more.
    Realistic,
    /// The e-wallet, chatty and pipelined, over a wider range.
    Wallet,
}

/// How long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As long as the published study: 180 seconds each.
    Full,
    /// 12 seconds each, three times.
    Quick,
    /// 2 seconds each, once: shows that all works, and no more.
    Smoke,
}

impl Preset {
    /// On the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::P3 => "p3",
            Self::Realistic => "realistic",
            Self::Wallet => "wallet",
        }
    }

    /// Its workload.
    #[must_use]
    pub fn workload(self) -> Workload {
        let wallet = match self {
            Self::P3 | Self::Wallet => Wallet::default(),
            Self::Realistic => Wallet {
                profile: wallet::Profile::Realistic { scale: 10 },
                zipf: Some(1.1),
                ..Wallet::default()
            },
        };
        Workload::Wallet(wallet, vec![Mode::Chatty, Mode::Pipelined])
    }

    /// Its numbers of connections.
    #[must_use]
    pub fn connections(self) -> Vec<u32> {
        match self {
            Self::P3 => vec![2, 4, 8, 16, 32],
            Self::Realistic | Self::Wallet => vec![1, 2, 4, 8, 16, 32, 64],
        }
    }

    /// Settings that a server of ours gets for it.
    #[must_use]
    pub fn settings(self) -> Vec<String> {
        match self {
            Self::P3 | Self::Realistic => vec!["shared_buffers=90MB".to_owned()],
            Self::Wallet => Vec::new(),
        }
    }
}

impl Profile {
    /// On the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick => "quick",
            Self::Smoke => "smoke",
        }
    }

    /// Seconds of warm-up, seconds of measuring, repetitions.
    #[must_use]
    pub const fn times(self) -> (u64, u64, u32) {
        match self {
            Self::Full => (15, 180, 3),
            Self::Quick => (3, 12, 3),
            Self::Smoke => (1, 2, 1),
        }
    }
}

impl Options {
    /// A preset at a profile, on a server of ours, without a pooler.
    #[must_use]
    pub fn new(preset: Preset, profile: Profile, seed: u64) -> Self {
        let (warm_up, measure, repetitions) = profile.times();
        Self {
            name: format!("{} {}", preset.name(), profile.name()),
            workload: preset.workload(),
            connections: preset.connections(),
            repetitions,
            warm_up: Duration::from_secs(warm_up),
            measure: Duration::from_secs(measure),
            round_trip: Duration::ZERO,
            protocol: "prepared".to_owned(),
            threads: 2,
            seed,
            server: None,
            postgres: None,
            settings: preset.settings(),
            path: Path::Direct,
            cores: None,
            spindles: 0,
            goal: Goal::Balanced,
            command: Vec::new(),
        }
    }
}
