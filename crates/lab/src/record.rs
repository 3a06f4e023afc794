//! What a run leaves behind: `run.json` with one [`Run`], `cells.jsonl` with one [`Cell`] per line, and beside them
//! the configurations and logs that the cells name. Report and comparison read nothing else.
//!
//! Units are in the names. A field that could not be measured is absent, never zero.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of these records. A reader refuses a newer one.
pub const FORMAT: u32 = 1;

/// One result directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`].
    pub format: u32,
    /// `smoke`, `quick`, `full`, or the user's own.
    pub profile: String,
    /// By which the order inside of blocks was shuffled.
    pub seed: u64,
    /// Seconds since 1970.
    pub started_unix_s: u64,
    /// When the last cell was over; absent while the run is going on, or if it was interrupted.
    pub ended_unix_s: Option<u64>,
    /// What was typed.
    pub command: Vec<String>,
    /// What was to be measured, in the order of the report.
    pub experiments: Vec<Experiment>,
    /// The targets, those that are not on this machine too.
    pub targets: Vec<Target>,
    /// Facts of the machine and of the programs by section: `cpu`, `kernel`, `postgres`, `tls` ...
    pub environment: BTreeMap<String, BTreeMap<String, String>>,
}

/// One question, asked of several targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Short and stable: `p1`, `idle`, `open-loop` ...
    pub name: String,
    /// One line.
    pub title: String,
    /// What is done and why, plain text.
    pub text: String,
    /// With which target the others are compared.
    pub base: String,
    /// What the charts show over which factor.
    pub measure: Measure,
    /// The factor on the x axis: `clients`, `rows`, `rate` ...
    pub axis: String,
    /// Seconds of warm-up and of measuring for one cell.
    pub warm_up_s: f64,
    /// See above.
    pub measure_s: f64,
    /// How many blocks there were to be.
    pub blocks: u32,
    /// Figures that others published for this.
    pub published: Vec<Published>,
    /// How the published machine and versions differ, for people.
    pub published_setup: Option<String>,
    /// What cannot be compared or must be known to read it, each a sentence.
    pub caveats: Vec<String>,
    /// What one block consists of. Tells a reader what is missing from an interrupted run; if empty, only what was
    /// measured at least once is known.
    #[serde(default)]
    pub plan: Vec<Planned>,
}

/// One cell of a block as it was planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// [`Target::name`].
    pub target: String,
    /// As in [`Cell::factors`].
    pub factors: BTreeMap<String, String>,
}

/// What an experiment is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// [`Outcome::tps`].
    Throughput,
    /// [`Latency`] at a given rate.
    Latency,
    /// [`Usage::rss_bytes`] per client.
    Memory,
    /// [`Outcome::bytes_per_s`].
    Bandwidth,
    /// Logins per second, in [`Outcome::tps`].
    Logins,
}

/// One figure of somebody else's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// As they name it: `PgBouncer`, `ProxySQL 2 workers`.
    pub target: String,
    /// Our target that it stands beside, where there is one.
    pub ours: Option<String>,
    /// The same keys as in [`Cell::factors`], as far as it fixes them.
    pub factors: BTreeMap<String, String>,
    /// Transactions per second.
    pub tps: f64,
}

/// Something that can be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// `direct`, `weir-1`, `pgbouncer` ... what [`Cell::target`] says.
    pub name: String,
    /// For people: `Weir, 1 worker`.
    pub title: String,
    /// What the program calls itself, such as `PgBouncer 1.18.0`; absent if it is not here.
    pub version: Option<String>,
    /// SHA-256 of the program, hexadecimal.
    pub sha256: Option<String>,
    /// In how far the comparison with it is fair.
    pub fairness: String,
    /// Why it was not run.
    pub skipped: Option<String>,
    /// The target that this one repeats under another name, same program and same configuration. The differences
    /// between the two are the noise floor.
    #[serde(default)]
    pub twin_of: Option<String>,
    /// How it is configured and started was written from its documentation and never tried by who wrote it.
    #[serde(default)]
    pub untried: bool,
}

/// One target under one load in one block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// [`Experiment::name`].
    pub experiment: String,
    /// [`Target::name`].
    pub target: String,
    /// From 0. Ratios are taken inside of a block only.
    pub block: u32,
    /// Its place in the block as it was run, from 0.
    pub order: u32,
    /// What was varied: `protocol`, `clients`, `workers`, `workload`, `tls`, `rate` ... Equal for the cells of two
    /// targets that may be compared.
    pub factors: BTreeMap<String, String>,
    /// `pgbench` or `weir` (our own generator).
    pub generator: String,
    /// The load's command line, whole.
    pub command: Vec<String>,
    /// Directory with the configurations used, relative to the result directory.
    pub configurations: String,
    /// What came out; absent if the cell could not be run.
    pub outcome: Option<Outcome>,
    /// Why it could not be run.
    pub failed: Option<String>,
    /// What it cost.
    pub costs: Costs,
    /// What speaks against its figures. Such a cell is hatched in the report, never hidden.
    pub flags: Vec<Flag>,
    /// Seconds since 1970.
    pub started_unix_s: u64,
}

/// What the generator saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Finished in the measured time.
    pub transactions: u64,
    /// Failures in the measured time, which are not among the transactions.
    pub errors: u64,
    /// Failures by SQLSTATE, or by `connect`, `closed`, `login`, `protocol`, `tls` where there is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors_by_code: BTreeMap<String, u64>,
    /// What the first failure said, at whatever time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Measured time.
    pub seconds: f64,
    /// Transactions per second.
    pub tps: f64,
    /// Payload (rows, COPY data) in both directions, where that is the point.
    pub bytes_per_s: Option<f64>,
    /// How long they took.
    pub latency: Option<Latency>,
    /// Transactions in each second of the measured time.
    pub per_second: Vec<f64>,
    /// Transactions of each client.
    pub per_client: Option<Spread>,
    /// How late transactions began behind their time, in open loop.
    pub lag_us_p50: Option<f64>,
    /// The same, 99 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_us_p99: Option<f64>,
    /// Transactions that were not over when the generator's patience was. In open loop their time so far is in the
    /// latencies; in closed loop it is nowhere else.
    #[serde(default)]
    pub unfinished: u64,
    /// Clients that were logged in at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<u64>,
}

/// Times of transactions in microseconds, from their intended start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// Longest.
    pub max: f64,
    /// The whole distribution: pairs of a bucket's upper bound and the count in it, rising, empty buckets left out.
    /// Absent where only a sample of the times is known. Merged, never averaged.
    pub histogram: Option<Vec<(u64, u64)>>,
}

/// How evenly something is spread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Largest.
    pub max: f64,
    /// Standard deviation over mean.
    pub variation: f64,
}

/// What a cell cost, each over the measured time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// All processes and threads of the target; absent for `direct`, and as the next two if no look at the processes fell
    /// into the second half of the measured time.
    pub pooler: Option<Usage>,
    /// PostgreSQL's.
    pub server: Option<Usage>,
    /// The generator's.
    pub generator: Option<Usage>,
    /// The machine's.
    pub machine: Option<Machine>,
}

/// Of a group of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in microseconds, from `/proc/PID/task/*/schedstat`.
    pub cpu_us: f64,
    /// Resident memory at the end, where it can be told apart (not PostgreSQL's, which shares).
    pub rss_bytes: Option<u64>,
    /// Context switches that it asked for.
    pub switches_voluntary: Option<u64>,
    /// And that it did not.
    pub switches_involuntary: Option<u64>,
}

/// Of the whole machine: shares of all its CPU time, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// CPUs.
    pub cpus: u32,
    /// Not busy.
    pub idle: f64,
    /// Taken by others on the same host.
    pub steal: f64,
    /// Waiting for disks.
    pub iowait: f64,
    /// Microseconds of CPU time that nobody of ours used; absent if it is not known what ours used.
    pub foreign_cpu_us: Option<f64>,
}

/// What speaks against a cell. `detail` has the figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flag {
    /// Which.
    pub kind: FlagKind,
    /// With the figure, such as `generator used 96 % of 2 CPUs`.
    pub detail: String,
}

/// See [`Flag`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlagKind {
    /// Transactions failed.
    Errors,
    /// Programs that are not ours used more than 5 % of the machine.
    Foreign,
    /// The generator used 90 % or more of the CPUs it may use.
    GeneratorSaturated,
    /// Less than 5 % of the machine was idle: the cell measures the scheduler too.
    MachineSaturated,
    /// Clients differ from throughput times latency by more than 2 %.
    LittleViolated,
    /// Transactions began late by more than 10 % of the median latency.
    ScheduleLag,
    /// PostgreSQL used 90 % or more of the CPUs.
    ServerSaturated,
    /// More than 1 % of the CPU time was stolen.
    Steal,
    /// The target cannot do what the factors say, and got the nearest that it can; the command line has it.
    Substituted,
    /// Transactions were not over when the generator's patience was.
    Unfinished,
    /// The halves of the measured time differ by more than 3 %, or there is a trend.
    Unsteady,
}
