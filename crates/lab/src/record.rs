//! Records of a run: `run.json` with one [`Run`], `cells.jsonl` with one [`Cell`] per line, and beside them the
//! configurations and logs that the cells name. Report and comparison read nothing else.
//!
//! Units are in the names. A field that could not be measured is absent, never zero.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of these records. A reader refuses a newer one.
pub const FORMAT: u32 = 1;

/// Section of [`Run::environment`] with the versions of programs in front of the targets, such as HAProxy.
pub const FRONT: &str = "in front";

/// Description of a run, in `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Value of [`FORMAT`].
    pub format: u32,
    /// Profile: `smoke`, `quick`, `full`, or the user's own.
    pub profile: String,
    /// Seed of the order inside of blocks.
    pub seed: u64,
    /// Start, in seconds since 1970.
    pub started_unix_s: u64,
    /// End of the last cell; absent while the run is in progress, or if it was interrupted.
    pub ended_unix_s: Option<u64>,
    /// Command line.
    pub command: Vec<String>,
    /// Planned experiments, in the order of the report.
    pub experiments: Vec<Experiment>,
    /// All targets, including those that are not on this machine.
    pub targets: Vec<Target>,
    /// Facts of the machine and of the programs by section: `cpu`, `kernel`, `postgres`, `tls` ...
    pub environment: BTreeMap<String, BTreeMap<String, String>>,
}

/// Experiment with several targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Short and stable name: `p1`, `idle`, `open-loop` ...
    pub name: String,
    /// Title in one line.
    pub title: String,
    /// Description of what is done and why, in plain text.
    pub text: String,
    /// Target that the others are compared with.
    pub base: String,
    /// Metric of the charts, over the factor `axis`.
    pub measure: Measure,
    /// The factor on the x axis: `clients`, `rows`, `rate` ...
    pub axis: String,
    /// Seconds of warm-up for one cell.
    pub warm_up_s: f64,
    /// Seconds of measuring for one cell.
    pub measure_s: f64,
    /// Planned number of blocks.
    pub blocks: u32,
    /// Published figures for this experiment.
    pub published: Vec<Published>,
    /// Differences from the published machine and versions, for display.
    pub published_setup: Option<String>,
    /// Limits of comparability and facts needed for the interpretation, each a sentence.
    pub caveats: Vec<String>,
    /// Set-up that all cells share; absent in results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<Setting>,
    /// Cells of one block. They tell a reader what is missing from an interrupted run; if empty, only cells that
    /// were measured at least once are known.
    #[serde(default)]
    pub plan: Vec<Planned>,
}

/// Set-up that all cells of an experiment share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// True if clients use TLS, unless the factor `tls` says otherwise.
    pub tls: bool,
    /// Program between the clients and several instances of the target.
    pub front: Option<String>,
    /// Number of streaming replicas.
    pub replicas: u32,
    /// True if PostgreSQL answers; false if a program with ready answers does.
    pub database: bool,
}

/// Planned cell of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Name, as [`Target::name`].
    pub target: String,
    /// Factors, as in [`Cell::factors`].
    pub factors: BTreeMap<String, String>,
}

/// Main metric of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Throughput, [`Outcome::tps`].
    Throughput,
    /// [`Latency`] at a given rate.
    Latency,
    /// Memory, [`Usage::rss_bytes`] per client.
    Memory,
    /// Bandwidth, [`Outcome::bytes_per_s`].
    Bandwidth,
    /// Logins per second, in [`Outcome::tps`].
    Logins,
}

/// Figure that others published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Target as the publication names it: `PgBouncer`, `ProxySQL 2 workers`.
    pub target: String,
    /// Corresponding target of ours, if there is one.
    pub ours: Option<String>,
    /// Factors that the publication fixes, with the keys of [`Cell::factors`].
    pub factors: BTreeMap<String, String>,
    /// Transactions per second.
    pub tps: f64,
}

/// Program that is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Name, as in [`Cell::target`]: `direct`, `weir-1`, `pgbouncer` ...
    pub name: String,
    /// Title for display: `Weir, 1 worker`.
    pub title: String,
    /// Version that the program reports, such as `PgBouncer 1.18.0`; absent if it is not installed.
    pub version: Option<String>,
    /// SHA-256 of the program, hexadecimal.
    pub sha256: Option<String>,
    /// Limits of a fair comparison with this target.
    pub fairness: String,
    /// Reason why the target was not run.
    pub skipped: Option<String>,
    /// Target that this one repeats under another name, with the same program and configuration. The differences
    /// between the two are the noise floor.
    #[serde(default)]
    pub twin_of: Option<String>,
    /// True if its description was written from the documentation and never tried by its author.
    #[serde(default)]
    pub untried: bool,
}

/// Measurement of one target under one load in one block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Name, as [`Experiment::name`].
    pub experiment: String,
    /// Name, as [`Target::name`].
    pub target: String,
    /// Number of the block, from 0. Ratios are taken inside of a block only.
    pub block: u32,
    /// Position in the block's order of execution, from 0.
    pub order: u32,
    /// Varied factors: `protocol`, `clients`, `workers`, `workload`, `tls`, `rate` ... Cells of two targets may be
    /// compared if these are equal.
    pub factors: BTreeMap<String, String>,
    /// Generator: `pgbench` or `weir` (the lab's own).
    pub generator: String,
    /// Complete command line of the load.
    pub command: Vec<String>,
    /// Directory with the configurations used, relative to the result directory.
    pub configurations: String,
    /// Result; absent if the cell could not be run.
    pub outcome: Option<Outcome>,
    /// Reason why the cell could not be run.
    pub failed: Option<String>,
    /// Resources that the cell used.
    pub costs: Costs,
    /// Share of the transactions that replicas have run, 0 to 1, warm-up included; absent without replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_replicas: Option<f64>,
    /// Doubts about the figures. A flagged cell is hatched in the report, never hidden.
    pub flags: Vec<Flag>,
    /// Start, in seconds since 1970.
    pub started_unix_s: u64,
}

/// Result that the generator reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Number of transactions that succeeded in the measured time.
    pub transactions: u64,
    /// Number of failures in the measured time, which are not among the transactions.
    pub errors: u64,
    /// Failures by SQLSTATE, or by `connect`, `closed`, `login`, `protocol`, `tls` where there is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors_by_code: BTreeMap<String, u64>,
    /// Text of the first failure at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Measured time in seconds.
    pub seconds: f64,
    /// Transactions per second.
    pub tps: f64,
    /// Payload (rows, COPY data) in both directions, where that is the point.
    pub bytes_per_s: Option<f64>,
    /// Latencies of the transactions.
    pub latency: Option<Latency>,
    /// Transactions in each second of the measured time.
    pub per_second: Vec<f64>,
    /// Spread over the clients' numbers of transactions.
    pub per_client: Option<Spread>,
    /// Median delay of transactions behind their intended start, in an open loop.
    pub lag_us_p50: Option<f64>,
    /// 99th percentile of that delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_us_p99: Option<f64>,
    /// Number of transactions that were not over at the end of the drain time. In an open loop their time so far is
    /// in the latencies; in a closed loop it is nowhere else.
    #[serde(default)]
    pub unfinished: u64,
    /// Number of clients that were logged in at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<u64>,
}

/// Latencies of transactions in microseconds, from their intended start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest.
    pub max: f64,
    /// Whole distribution: pairs of a bucket's upper bound and its count, rising, without empty buckets. Absent if
    /// only a sample of the times is known. Histograms are merged, never averaged.
    pub histogram: Option<Vec<(u64, u64)>>,
}

/// Spread of a figure over clients.
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

/// Resources that a cell used in the measured time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Use of all processes and threads of the target. Absent for `direct`. Like the next two, absent if no sample
    /// of the processes fell into the second half of the measured time, or if they used no CPU time for transactions.
    pub pooler: Option<Usage>,
    /// Use of PostgreSQL.
    pub server: Option<Usage>,
    /// Use of the generator.
    pub generator: Option<Usage>,
    /// Use of the machine.
    pub machine: Option<Machine>,
}

impl Costs {
    /// Returns the costs of a measured time in which transactions ended. What has used no CPU time then was read too
    /// early or too late, as happens on a busy machine, and is unknown.
    #[must_use]
    pub fn of_work(mut self, transactions: u64) -> Self {
        let is_impossible = |usage: &Usage| transactions > 0 && usage.cpu_us <= 0.0;
        for usage in [&mut self.pooler, &mut self.server, &mut self.generator] {
            if usage.take_if(|usage| is_impossible(&*usage)).is_some()
                && let Some(machine) = &mut self.machine
            {
                machine.foreign_cpu_us = None;
            }
        }
        self
    }
}

/// Resources that a group of processes used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in microseconds, from `/proc/PID/task/*/schedstat`.
    pub cpu_us: f64,
    /// Resident memory at the end, if it can be attributed (PostgreSQL's cannot: its processes share memory).
    pub rss_bytes: Option<u64>,
    /// Number of voluntary context switches.
    pub switches_voluntary: Option<u64>,
    /// Number of involuntary context switches.
    pub switches_involuntary: Option<u64>,
}

/// Use of the whole machine, as shares of all its CPU time, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Number of CPUs.
    pub cpus: u32,
    /// Idle share.
    pub idle: f64,
    /// Share taken by other guests of the same host.
    pub steal: f64,
    /// Share of idle time with disk requests pending.
    pub iowait: f64,
    /// Microseconds of CPU time used by processes outside of the benchmark; absent if the use of its own is
    /// unknown.
    pub foreign_cpu_us: Option<f64>,
}

/// Doubt about a cell's figures. `detail` has the figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flag {
    /// Kind of the doubt.
    pub kind: FlagKind,
    /// Text with the figure, such as `generator used 96 % of 2 CPUs`.
    pub detail: String,
}

/// Kind of a [`Flag`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlagKind {
    /// Transactions failed.
    Errors,
    /// Processes outside of the benchmark used more than 5 % of the machine.
    Foreign,
    /// The generator used 90 % or more of the CPUs it may use.
    GeneratorSaturated,
    /// Less than 5 % of the machine was idle: the cell measures the scheduler too.
    MachineSaturated,
    /// Little's law fails: clients differ from throughput times latency by more than 2 %.
    LittleViolated,
    /// Transactions began late by more than 10 % of the median latency.
    ScheduleLag,
    /// PostgreSQL used 90 % or more of the CPUs.
    ServerSaturated,
    /// More than 1 % of the CPU time was stolen.
    Steal,
    /// The target cannot do what the factors say, and got the nearest that it can; the command line has it.
    Substituted,
    /// Transactions were not over at the end of the drain time.
    Unfinished,
    /// The halves of the measured time differ by more than 3 %, or there is a trend.
    Unsteady,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_without_cpu_time_have_unknown_costs() {
        let usage = |cpu_us| {
            Some(Usage {
                cpu_us,
                ..Usage::default()
            })
        };
        let costs = || Costs {
            pooler: usage(12.0),
            server: usage(30.0),
            generator: usage(0.0),
            machine: Some(Machine {
                foreign_cpu_us: Some(500.0),
                ..Machine::default()
            }),
        };
        let known = costs().of_work(1);
        assert_eq!(known.generator, None);
        assert_eq!((known.pooler, known.server), (usage(12.0), usage(30.0)));
        assert_eq!(known.machine.unwrap().foreign_cpu_us, None);
        // Idle connections may use no CPU time.
        assert_eq!(costs().of_work(0), costs());
    }
}
