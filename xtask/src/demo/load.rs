//! A run of pgbench: its command line, its log of transactions, and the CPU time that a process used during exactly
//! the window in which transactions are counted.
//!
//! A transaction's time is from the client's previous answer to its own, so that mean time x throughput is the number of
//! clients (Little's law). The latency in pgbench's log begins later, when pgbench turns to the client again: it leaves out
//! the time in which a client has its answer and pgbench is busy with others.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use rustix::process::Signal;
use tempfile::TempDir;
use weir_lab::clock;
use weir_lab::interrupt::Interrupt;
use weir_lab::meter::cpu;
use weir_lab::pgbench::log::{self, Transaction, as_f64, tally};
use weir_lab::postgres::{DATABASE, USER};
use weir_lab::process::Process;

/// Transactions of a load.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Reads of a row of pgbench_accounts by its key, `pgbench -S`.
    Read,
    /// Transactions that pause for their client, and then all want the same row: [`PAUSING`].
    Pausing,
}

/// Script of [`Work::Pausing`].
///
/// A server does nothing while its client pauses, so a small pool leaves PostgreSQL idle. A large one gains nothing, because
/// one row takes one transaction at a time. The best size follows from the two pauses, hardly from the speed of the machine:
/// the row is kept for a fixed time, and released without a word from the client.
const PAUSING: &str = "\
BEGIN;
\\sleep 60 ms
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1 \\; SELECT pg_sleep(0.001) \\; END;
";

/// A run of pgbench.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) work: Work,
    pub(super) clients: u32,
    /// Time that is not measured; begins when pgbench has connected all clients.
    pub(super) warm_up: Duration,
    /// Measured time.
    pub(super) measured: Duration,
    pub(super) seed: u64,
}

/// Results of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) failures: u64,
    pub(super) per_second: f64,
    /// Mean time of a transaction in microseconds, as above.
    pub(super) mean_us: f64,
    /// 99th percentile of this time.
    pub(super) p99_us: u64,
    /// CPU-microseconds per transaction of the watched process.
    pub(super) cpu_us: Option<f64>,
}

/// CPU time of the watched process at a wall-clock time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    cpu: Duration,
}

/// A running load. Dropping it stops pgbench and deletes its log.
pub(super) struct RunningLoad {
    process: Process,
    directory: TempDir,
}

impl RunningLoad {
    /// Returns the throughput of each second so far.
    pub(super) fn seconds(&self) -> Result<Vec<f64>> {
        let output = fs::read_to_string(self.directory.path().join(OUTPUT))?;
        Ok(output.lines().filter_map(second).collect())
    }

    /// Fails with pgbench's output if pgbench has failed.
    pub(super) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.process.try_wait()?.filter(|status| !status.success()) {
            let output = fs::read_to_string(self.directory.path().join(OUTPUT))?;
            bail!("pgbench failed ({status}): {}", complaints(&output));
        }
        Ok(())
    }
}

impl Load {
    /// Runs the load against `address`. `watched` is the process whose CPU time is measured; `look` is called once
    /// after about half of the time.
    ///
    /// # Errors
    /// If pgbench is missing or fails (the error has its output), on an interrupt, or if the run is too short to have a
    /// window.
    pub(super) fn run(
        &self,
        pgbench: &Path,
        address: SocketAddr,
        watched: Option<u32>,
        interrupt: &Interrupt,
        look: impl FnOnce(),
    ) -> Result<Outcome> {
        let mut run = self.start_with(pgbench, address, &["--log", "--log-prefix=log"])?;
        let samples = self.watch(&mut run.process, watched, interrupt, look)?;
        run.check()?;
        let log = log::read(run.directory.path(), LOG_PREFIX)?;
        self.evaluate(&log, &samples, watched.is_some())
    }

    /// Starts the load without waiting; it ends by itself after its time. It tells its throughput every second.
    pub(super) fn start(&self, pgbench: &Path, address: SocketAddr) -> Result<RunningLoad> {
        self.start_with(pgbench, address, &["--progress=1"])
    }

    fn start_with(
        &self,
        pgbench: &Path,
        address: SocketAddr,
        more: &[&str],
    ) -> Result<RunningLoad> {
        let directory = tempfile::Builder::new().prefix("weir-load-").tempdir()?;
        let output = directory.path().join(OUTPUT);
        fs::write(directory.path().join(SCRIPT), PAUSING)?;
        let mut command = self.command(pgbench, address, directory.path());
        command.args(more);
        let process = Process::start("pgbench", &mut command, &output)?;
        Ok(RunningLoad {
            process: process.stop_with(&[Signal::TERM]),
            directory,
        })
    }

    fn command(&self, pgbench: &Path, address: SocketAddr, directory: &Path) -> Command {
        let mut command = Command::new(pgbench);
        // A margin at the end excludes the time in which clients stop one by one.
        let seconds = (self.warm_up + self.measured + END_MARGIN)
            .as_secs_f64()
            .ceil();
        command.current_dir(directory).arg("--no-vacuum");
        command.arg(match self.work {
            Work::Read => "--builtin=select-only",
            Work::Pausing => "--file=script.sql",
        });
        command.arg(format!("--time={seconds:.0}"));
        command.arg(format!("--client={}", self.clients));
        command.arg(format!("--random-seed={}", self.seed));
        command.args(["-h", &address.ip().to_string()]);
        command.args(["-p", &address.port().to_string()]);
        command.args(["-U", USER]).env("PGDATABASE", DATABASE);
        command
    }

    /// Samples CPU time until pgbench ends.
    fn watch(
        &self,
        process: &mut Process,
        watched: Option<u32>,
        interrupt: &Interrupt,
        look: impl FnOnce(),
    ) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        let mut look = Some(look);
        let half_time = clock::now() + self.warm_up + self.measured / 2;
        let deadline = clock::now() + self.warm_up + self.measured + Duration::from_secs(60);
        loop {
            let cpu = watched.map(cpu::process_time).transpose()?;
            samples.push(Sample {
                at: clock::since_epoch(),
                cpu: cpu.unwrap_or_default(),
            });
            if process.try_wait()?.is_some() {
                return Ok(samples);
            }
            let now = clock::now();
            if now > deadline {
                bail!("pgbench did not end a minute after its time");
            }
            if let Some(look) = look.take_if(|_| now > half_time) {
                look();
            }
            interrupt.wait(SAMPLE_INTERVAL)?;
        }
    }

    /// Evaluates a run. The window is determined from the log and the samples: connecting 500 clients may take a
    /// second or almost no time.
    fn evaluate(&self, log: &[Transaction], samples: &[Sample], watched: bool) -> Result<Outcome> {
        let too_short = || anyhow!("the run is too short to measure");
        let begin = log
            .iter()
            .map(|line| line.ended)
            .min()
            .ok_or_else(too_short)?
            + self.warm_up;
        let first = samples
            .iter()
            .find(|sample| sample.at >= begin)
            .ok_or_else(too_short)?;
        // From its last answer on a client is no part of the load.
        let end = (first.at + self.measured).min(all_run_until(log));
        let last = samples
            .iter()
            .rev()
            .find(|sample| sample.at <= end)
            .ok_or_else(too_short)?;
        if last.at <= first.at {
            bail!(too_short());
        }
        let found = tally(&since_answer(log), first.at, last.at).ok_or_else(too_short)?;
        let seconds = (last.at - first.at).as_secs_f64();
        let count = as_f64(usize::try_from(found.transactions)?);
        let cpu_us = last.cpu.saturating_sub(first.cpu).as_secs_f64() * 1e6 / count;
        Ok(Outcome {
            failures: found.failures,
            per_second: count / seconds,
            mean_us: found.mean_us,
            p99_us: found.p99_us,
            cpu_us: watched.then_some(cpu_us),
        })
    }
}

/// Returns the earliest of the clients' last answers.
fn all_run_until(log: &[Transaction]) -> Duration {
    let mut last: HashMap<u32, Duration> = HashMap::new();
    for line in log {
        let ended = last.entry(line.client).or_default();
        *ended = line.ended.max(*ended);
    }
    last.into_values().min().unwrap_or_default()
}

/// Replaces each latency by the time since the client's previous answer. The first of a client keeps its own.
fn since_answer(log: &[Transaction]) -> Vec<Transaction> {
    let mut previous: HashMap<u32, Duration> = HashMap::new();
    let mut times = Vec::with_capacity(log.len());
    for line in log {
        let before = previous.insert(line.client, line.ended);
        let passed = before.map(|before| line.ended.saturating_sub(before).as_micros());
        let passed = passed.and_then(|passed| u64::try_from(passed).ok());
        times.push(Transaction {
            latency_us: line.latency_us.map(|own| passed.unwrap_or(own)),
            ..*line
        });
    }
    times
}

/// Parses the throughput in `progress: 3.0 s, 1234.5 tps, lat ...`.
fn second(line: &str) -> Option<f64> {
    let (_, rest) = line.strip_prefix("progress: ")?.split_once(" s, ")?;
    rest.split_once(" tps")?.0.parse().ok()
}

/// First few distinct errors: every client may have reported the same one.
fn complaints(output: &str) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for line in output.lines().filter(|line| line.contains("error:")) {
        // In `client 7 script 0 aborted in ...: ERROR:  ...` the number is ignored.
        let what = line
            .rsplit_once("ERROR:")
            .map_or(line, |(_, what)| what)
            .trim();
        if !seen.contains(&what) {
            seen.push(what);
        }
    }
    seen.truncate(3);
    seen.join("; ")
}

/// File for pgbench's output.
const OUTPUT: &str = "output";
/// Value of `--log-prefix`.
/// File in the working directory of pgbench.
const SCRIPT: &str = "script.sql";
const LOG_PREFIX: &str = "log.";
const END_MARGIN: Duration = Duration::from_millis(500);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load {
        work: Work::Read,
        clients: 1,
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(2),
        seed: 1,
    };

    #[test]
    fn only_the_window_between_warm_up_and_end_counts() {
        // One transaction every 10 ms for 4 s, from second 100 on; the process uses 1 ms of CPU in each.
        let log: Vec<Transaction> = (0..400)
            .map(|n| Transaction {
                ended: Duration::from_millis(100_000 + n * 10),
                latency_us: Some(n),
                ..Transaction::default()
            })
            .collect();
        let samples: Vec<Sample> = (0..80_u32)
            .map(|n| Sample {
                at: Duration::from_millis(100_005 + u64::from(n) * 50),
                cpu: Duration::from_millis(5) * n,
            })
            .collect();
        let outcome = LOAD.evaluate(&log, &samples, true).unwrap();
        assert!((outcome.per_second - 100.0).abs() < 1e-6, "{outcome:?}");
        let cpu_us = outcome.cpu_us.unwrap();
        assert!((cpu_us - 1000.0).abs() < 1e-6, "{outcome:?}");
        let alone = LOAD.evaluate(&log, &samples, false).unwrap();
        assert_eq!(alone.cpu_us, None);
    }

    #[test]
    fn mean_time_by_throughput_is_the_number_of_clients() {
        // Ten clients, each with an answer every 10 ms, of which pgbench counts 4 ms. They stop one after the other, before
        // the time that is to be measured has passed.
        let log: Vec<Transaction> = (0..4000)
            .map(|n| Transaction {
                client: u32::try_from(n % 10).unwrap(),
                ended: Duration::from_millis(100_000 + n),
                latency_us: Some(4000),
                ..Transaction::default()
            })
            .filter(|line| {
                line.ended < Duration::from_millis(102_500 + 40 * u64::from(line.client))
            })
            .collect();
        let samples: Vec<Sample> = (0..80)
            .map(|n| Sample {
                at: Duration::from_millis(100_000 + n * 50),
                cpu: Duration::ZERO,
            })
            .collect();
        let outcome = LOAD.evaluate(&log, &samples, false).unwrap();
        let clients = outcome.mean_us / 1e6 * outcome.per_second;
        assert!((clients - 10.0).abs() < 0.01, "{outcome:?}");
        assert_eq!(outcome.p99_us, 10_000);
    }

    #[test]
    fn the_throughput_of_a_second_is_read_from_a_line_of_progress() {
        let line = "progress: 2.0 s, 14210.4 tps, lat 7.031 ms stddev 3.290, 0 failed";
        assert_eq!(second(line), Some(14210.4));
        assert_eq!(second("pgbench (15.13)"), None);
    }

    #[test]
    fn the_same_complaint_of_many_clients_is_told_once() {
        let output = "pgbench: error: client 1 aborted: ERROR:  no such thing\n\
                      pgbench: error: client 2 aborted: ERROR:  no such thing\n\
                      tps = 1\npgbench: error: Run was aborted\n";
        assert_eq!(
            complaints(output),
            "no such thing; pgbench: error: Run was aborted"
        );
    }

    #[test]
    fn an_empty_log_is_an_error() {
        assert!(LOAD.evaluate(&[], &[], false).is_err());
    }
}
