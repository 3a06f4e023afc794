//! Options of a measurement, and named presets.

use std::path::PathBuf;
use std::time::Duration;

use weir_advisor::controller::Goal;

use crate::collector::psql::Address;
use crate::wallet::{self, Mode, Wallet};

/// Workload of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Scripts of the user for pgbench with weights. They run on existing data, which are not restored.
    Scripts(Vec<(PathBuf, u32)>),
    /// The e-wallet in these modes.
    Wallet(Wallet, Vec<Mode>),
}

/// The way to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// Direct, with as many clients as connections.
    Direct,
    /// Through an existing pooler, whose pool is configured by the user. It must know the database `weir_tune`.
    Pooler(Address),
    /// Through a Weir that is started for the measurement, whose pool has the varied size.
    Weir {
        /// Path of the program.
        program: PathBuf,
        /// Constant number of clients.
        clients: u32,
    },
}

/// Options of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Name of the preset, for the report.
    pub name: String,
    /// Workload.
    pub workload: Workload,
    /// Numbers of connections to measure.
    pub connections: Vec<u32>,
    /// Number of measurements of each.
    pub repetitions: u32,
    /// Time of warm-up before each measurement.
    pub warm_up: Duration,
    /// Time of each measurement.
    pub measure: Duration,
    /// Simulated network delay, added to each round trip of the e-wallet. Zero for none.
    pub round_trip: Duration,
    /// pgbench's `--protocol`; a pipeline needs `extended` or `prepared`.
    pub protocol: String,
    /// Number of pgbench's threads without a pooler. Behind a pooler each client has its own.
    pub threads: u32,
    /// Seed of the order and of the load.
    pub seed: u64,
    /// Existing server; without one, a temporary server is started.
    pub server: Option<Address>,
    /// Directory of PostgreSQL's programs; without one, the newest installed.
    pub postgres: Option<PathBuf>,
    /// Further settings for a temporary server, each `name=value`.
    pub settings: Vec<String>,
    /// The way to the server.
    pub path: Path,
    /// Number of cores of the server; without it that of this machine, if the server is on it.
    pub cores: Option<u32>,
    /// Number of disks that seek.
    pub spindles: u32,
    /// Goal of the recommendation.
    pub goal: Goal,
    /// The command line, for the record.
    pub command: Vec<String>,
}

/// Named set of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The published study: its data, its numbers of connections, its shared buffers.
    P3,
    /// Data larger than the shared buffers, keys and time stamps as in an application, and some users more active
    /// than others.
    Realistic,
    /// E-wallet, chatty and pipelined, over a wider range of connections.
    Wallet,
}

/// Duration of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As long as the published study: 180 seconds each.
    Full,
    /// 12 seconds each, three times.
    Quick,
    /// 2 seconds each, once: only a check that everything works.
    Smoke,
}

impl Preset {
    /// Returns the name for the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::P3 => "p3",
            Self::Realistic => "realistic",
            Self::Wallet => "wallet",
        }
    }

    /// Returns the workload.
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

    /// Returns the numbers of connections.
    #[must_use]
    pub fn connections(self) -> Vec<u32> {
        match self {
            Self::P3 => vec![2, 4, 8, 16, 32],
            Self::Realistic | Self::Wallet => vec![1, 2, 4, 8, 16, 32, 64],
        }
    }

    /// Returns the settings for a temporary server.
    #[must_use]
    pub fn settings(self) -> Vec<String> {
        match self {
            Self::P3 | Self::Realistic => vec!["shared_buffers=90MB".to_owned()],
            Self::Wallet => Vec::new(),
        }
    }
}

impl Profile {
    /// Returns the name for the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick => "quick",
            Self::Smoke => "smoke",
        }
    }

    /// Returns seconds of warm-up, seconds of measuring, and repetitions.
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
    /// Returns the options of a preset and a profile, for a temporary server without a pooler.
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
