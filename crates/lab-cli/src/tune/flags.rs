//! Flags of `weir tune run`, and their conversion to options of the study.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_lab::collector::psql::Address;
use weir_lab::error::Error;
use weir_lab::tune::{self, Options, Workload};
use weir_lab::wallet::{self, Mode};

/// Clients of a pool whose size is varied: more than the largest pool size in the default list.
const POOL_CLIENTS: u32 = 64;

/// Arguments of `weir tune run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A question with a name
    #[arg(value_enum, default_value_t = Preset::Wallet)]
    preset: Preset,
    /// Duration of the whole run
    #[arg(long, value_enum, default_value_t = Profile::Quick)]
    profile: Profile,
    /// Other numbers of connections
    #[arg(short, long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: Vec<u32>,
    /// Form of the e-wallet's transfers
    #[arg(
        long,
        value_enum,
        value_name = "MODE,...",
        value_delimiter = ',',
        conflicts_with = "file"
    )]
    mode: Vec<Way>,
    /// Rows of the e-wallet, as a multiple of the published; needs the preset realistic
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "file")]
    scale: Option<u32>,
    /// Some users are wanted more, with this exponent of Zipf's law, above 1
    #[arg(long, value_name = "EXPONENT", value_parser = exponent, conflicts_with = "file")]
    zipf: Option<f64>,
    /// The e-wallet's tables without foreign keys
    #[arg(long, conflicts_with = "file")]
    no_foreign_keys: bool,
    /// Your own script of pgbench instead of the e-wallet, with a weight; may be repeated
    #[arg(short, long, value_name = "FILE[@WEIGHT]", requires = "server")]
    file: Vec<Script>,
    /// Number of measurements of each size
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Seconds of warm-up of each
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    warm_up: Option<Duration>,
    /// Seconds of measuring of each
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    measure: Option<Duration>,
    /// Pretend a network: so many milliseconds more for each round trip of the e-wallet
    #[arg(long, value_name = "MS", value_parser = milliseconds, conflicts_with = "file")]
    round_trip: Option<Duration>,
    /// pgbench's protocol
    #[arg(long, value_enum, default_value_t = Protocol::Prepared)]
    protocol: Protocol,
    /// pgbench's threads; through a pooler each client has its own
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// A server that is there, such as postgresql://USER@HOST:PORT/DATABASE
    #[arg(long, value_name = "URL", value_parser = Address::parse)]
    server: Option<Address>,
    /// PostgreSQL's programs, such as /usr/lib/postgresql/15/bin; without it the newest installed
    #[arg(long, value_name = "DIR")]
    postgres_bin: Option<PathBuf>,
    /// A setting of the server that is started, such as shared_buffers=1GB; may be repeated
    #[arg(long = "setting", value_name = "NAME=VALUE", conflicts_with = "server")]
    settings: Vec<String>,
    /// Through a Weir that is started for it: the numbers are then sizes of its pool
    #[arg(long, conflicts_with = "pooler")]
    weir: bool,
    /// Clients of that pool
    #[arg(long, value_name = "N", default_value_t = POOL_CLIENTS, requires = "weir", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// Through a pooler that is there, which has to know the database weir_tune
    #[arg(long, value_name = "URL", value_parser = Address::parse, requires = "server")]
    pooler: Option<Address>,
    #[command(flatten)]
    machine: Server,
    /// Goal of the recommendation
    #[arg(long, value_enum, default_value_t = Goal::Balanced)]
    goal: Goal,
    /// Repeats the order of an earlier run; without it from the clock
    #[arg(long)]
    seed: Option<u64>,
    /// Where the result goes; without it weir-tune-TIME in the working directory
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// Print the finding as JSON instead of the answer
    #[arg(long)]
    pub(super) json: bool,
}

/// Facts about the server's machine.
#[derive(Debug, Args)]
pub(crate) struct Server {
    /// Cores of the server; without it those of this machine, if the server is on it
    #[arg(long, value_name = "N")]
    pub(super) cores: Option<u32>,
    /// Disks of the server that seek
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) spindles: u32,
}

/// See [`tune::Preset`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Preset {
    P3,
    Realistic,
    Wallet,
}

/// See [`tune::Profile`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Profile {
    Smoke,
    Quick,
    Full,
}

/// See [`Mode`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Way {
    Chatty,
    Pipelined,
}

/// pgbench's `--protocol`.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Protocol {
    Simple,
    Extended,
    Prepared,
}

/// Requirement that a larger number must meet.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Goal {
    /// The last per cent of throughput
    Throughput,
    /// Nearly all throughput, with short tails
    Balanced,
    /// Short tails first
    Latency,
}

impl From<Goal> for tune::Goal {
    fn from(goal: Goal) -> Self {
        match goal {
            Goal::Throughput => Self::Throughput,
            Goal::Balanced => Self::Balanced,
            Goal::Latency => Self::Latency,
        }
    }
}

/// `FILE@WEIGHT`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Script(PathBuf, u32);

impl FromStr for Script {
    type Err = &'static str;

    /// Parses as pgbench does: a number after the last `@` is a weight.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parted = text.rsplit_once('@');
        let (path, weight) = match parted.map(|(path, weight)| (path, weight.parse())) {
            Some((path, Ok(weight))) => (path, weight),
            _ => (text, 1),
        };
        if path.is_empty() || weight == 0 {
            return Err("must be FILE or FILE@WEIGHT, with a weight above 0");
        }
        Ok(Self(path.into(), weight))
    }
}

impl Run {
    /// Options that the flags ask for; `weir` finds the program that `--weir` starts.
    ///
    /// # Errors
    /// If flags contradict each other in a way that clap's definitions cannot express, or if there is no Weir.
    pub(super) fn options(
        &self,
        weir: impl FnOnce() -> Result<PathBuf, Error>,
    ) -> Result<Options, String> {
        let (preset, profile) = (self.preset.into(), self.profile.into());
        let mut options = Options::new(preset, profile, self.seed.unwrap_or_else(any_seed));
        options.workload = self.workload(preset)?;
        if !self.file.is_empty() {
            options.name = format!("own scripts, {}", profile.name());
        }
        if !self.connections.is_empty() {
            options.connections.clone_from(&self.connections);
            options.connections.sort_unstable();
            options.connections.dedup();
        }
        options.repetitions = self.repetitions.unwrap_or(options.repetitions);
        options.warm_up = self.warm_up.unwrap_or(options.warm_up);
        options.measure = self.measure.unwrap_or(options.measure);
        if options.measure < Duration::from_secs(1) {
            return Err("--measure must be a second at least".to_owned());
        }
        options.round_trip = self.round_trip.unwrap_or_default();
        options.protocol = self.protocol.name().to_owned();
        options.threads = self.threads;
        options.server.clone_from(&self.server);
        options.postgres.clone_from(&self.postgres_bin);
        options.settings.extend(self.settings.iter().cloned());
        options.path = self.path(weir)?;
        options.cores = self.machine.cores;
        options.spindles = self.machine.spindles;
        options.goal = self.goal.into();
        options.command = command_line();
        Ok(options)
    }

    fn workload(&self, preset: tune::Preset) -> Result<Workload, String> {
        if !self.file.is_empty() {
            let scripts = self.file.iter();
            return Ok(Workload::Scripts(
                scripts
                    .map(|Script(path, weight)| (path.clone(), *weight))
                    .collect(),
            ));
        }
        let Workload::Wallet(mut wallet, mut modes) = preset.workload() else {
            return Err("the preset has no e-wallet".to_owned());
        };
        if !self.mode.is_empty() {
            modes = self.mode.iter().map(|way| (*way).into()).collect();
            modes.sort_unstable();
            modes.dedup();
        }
        if self.protocol == Protocol::Simple && modes.contains(&Mode::Pipelined) {
            return Err(
                "a pipeline needs --protocol prepared or extended; with simple, add --mode chatty"
                    .to_owned(),
            );
        }
        match (self.scale, &mut wallet.profile) {
            (None, _) => {}
            (Some(scale), wallet::Profile::Realistic { scale: of }) => *of = scale,
            (Some(_), wallet::Profile::Compat) => {
                return Err(
                    "the published data have one size; --scale needs the preset realistic"
                        .to_owned(),
                );
            }
        }
        wallet.zipf = self.zipf.or(wallet.zipf);
        wallet.foreign_keys = !self.no_foreign_keys;
        Ok(Workload::Wallet(wallet, modes))
    }

    fn path(&self, weir: impl FnOnce() -> Result<PathBuf, Error>) -> Result<tune::Path, String> {
        if let Some(address) = &self.pooler {
            return Ok(tune::Path::Pooler(address.clone()));
        }
        if !self.weir {
            return Ok(tune::Path::Direct);
        }
        let program = weir().map_err(|error| error.to_string())?;
        Ok(tune::Path::Weir {
            program,
            clients: self.clients,
        })
    }
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::Prepared => "prepared",
        }
    }
}

impl From<Preset> for tune::Preset {
    fn from(preset: Preset) -> Self {
        match preset {
            Preset::P3 => Self::P3,
            Preset::Realistic => Self::Realistic,
            Preset::Wallet => Self::Wallet,
        }
    }
}

impl From<Profile> for tune::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Smoke => Self::Smoke,
            Profile::Quick => Self::Quick,
            Profile::Full => Self::Full,
        }
    }
}

impl From<Way> for Mode {
    fn from(way: Way) -> Self {
        match way {
            Way::Chatty => Self::Chatty,
            Way::Pipelined => Self::Pipelined,
        }
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "must be a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let found: Option<f64> = text.parse().ok();
    let found = found.filter(|ms| (0.0..=10_000.0).contains(ms));
    found
        .map(|ms| Duration::from_secs_f64(ms / 1000.0))
        .ok_or_else(|| "must be a number from 0 to 10000".to_owned())
}

fn exponent(text: &str) -> Result<f64, String> {
    // Range that pgbench's random_zipfian accepts.
    let found: Option<f64> = text.parse().ok();
    found
        .filter(|exponent| (1.001..=1000.0).contains(exponent))
        .ok_or_else(|| "must be a number from 1.001 to 1000".to_owned())
}

/// Seed from the clock, different each time.
pub(super) fn any_seed() -> u64 {
    let now = jiff::Timestamp::now().as_nanosecond();
    // The low bits are the ones that change.
    u64::try_from(now & i128::from(u32::MAX)).unwrap_or_default()
}

/// Command line for the record, without passwords in addresses.
pub(super) fn command_line() -> Vec<String> {
    std::env::args()
        .map(|word| without_password(&word))
        .collect()
}

/// Replaces the password of `postgresql://USER:PASSWORD@...` by `***`, also after `--flag=`.
pub(super) fn without_password(word: &str) -> String {
    let hidden = || {
        let (head, rest) = word.split_once("://")?;
        let (login, place) = rest.rsplit_once('@')?;
        let (user, _) = login.split_once(':')?;
        Some(format!("{head}://{user}:***@{place}"))
    };
    hidden().unwrap_or_else(|| word.to_owned())
}
