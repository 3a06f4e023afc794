//! One pgbench run: its command line, its per-transaction log, and the CPU time that a process
//! used in the very window from which transactions are counted.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::Signal;
use serde::Serialize;

use crate::lab::clock;
use crate::lab::cpu;
use crate::lab::interrupt::Interrupt;
use crate::lab::postgres::{DATABASE, USER};
use crate::lab::process::Process;
use crate::lab::statistics::quantile;

/// How statements travel: pgbench's `--protocol`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) enum Protocol {
    Simple,
    Extended,
    Prepared,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::Prepared => "prepared",
        }
    }
}

/// What every client does over and over.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) enum Script {
    /// pgbench's `-S`: one row of pgbench_accounts by its key.
    SelectOnly,
    /// The same 42 rows of pgbench_accounts every time, 4.7 kB on the wire.
    FourKilobytes,
}

const FOUR_KILOBYTES: &str =
    "SELECT aid, bid, abalance, filler FROM pgbench_accounts WHERE aid BETWEEN 1 AND 42;\n";

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) script: Script,
    pub(crate) protocol: Protocol,
    pub(crate) clients: u32,
    pub(crate) threads: u32,
    /// Not counted; begins when pgbench has connected all clients.
    pub(crate) warm_up: Duration,
    /// Counted.
    pub(crate) measured: Duration,
    pub(crate) seed: u64,
}

/// What a run showed. Latencies are in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) transactions: u64,
    pub(crate) failures: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) max_us: u64,
    /// CPU-microseconds per transaction of the watched process.
    pub(crate) cpu_us: Option<f64>,
}

/// CPU time of the watched process at a wall-clock time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    cpu: Duration,
}

/// One line of the log.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Transaction {
    ended: Duration,
    /// Nothing if it failed.
    latency_us: Option<u64>,
}

impl Load {
    /// Runs the load against `address`; `watched` is the process whose CPU time counts.
    ///
    /// # Errors
    /// pgbench missing or failing (its words are in the error), an interrupt, or a run too short
    /// to have a window.
    pub(crate) fn run(
        &self,
        pgbench: &Path,
        address: SocketAddr,
        watched: Option<u32>,
        interrupt: &Interrupt,
    ) -> Result<Outcome> {
        self.run_with(pgbench, address, watched, interrupt, || ())
    }

    /// As [`Load::run`], and calls `look` once when about half of the time is over.
    pub(crate) fn run_with(
        &self,
        pgbench: &Path,
        address: SocketAddr,
        watched: Option<u32>,
        interrupt: &Interrupt,
        look: impl FnOnce(),
    ) -> Result<Outcome> {
        let directory = tempfile::Builder::new().prefix("weir-load-").tempdir()?;
        let output = directory.path().join("output");
        let mut command = self.command(pgbench, address, directory.path())?;
        let mut process =
            Process::start("pgbench", &mut command, &output)?.stop_with(&[Signal::TERM]);
        let samples = self.watch(&mut process, watched, interrupt, look)?;
        let status = process.wait()?;
        if !status.success() {
            bail!(
                "pgbench failed ({status}): {}",
                complaints(&fs::read_to_string(&output)?)
            );
        }
        let log = read_log(directory.path())?;
        self.evaluate(&log, &samples, watched.is_some())
    }

    fn command(&self, pgbench: &Path, address: SocketAddr, directory: &Path) -> Result<Command> {
        let mut command = Command::new(pgbench);
        // A margin at the end keeps the clients' last, shrinking crowd out of the window.
        let seconds = (self.warm_up + self.measured + END_MARGIN)
            .as_secs_f64()
            .ceil();
        command
            .current_dir(directory)
            .args(["--no-vacuum", "--log", "--log-prefix=log"]);
        command.arg(format!("--time={seconds:.0}"));
        command.arg(format!("--client={}", self.clients));
        command.arg(format!("--jobs={}", self.threads.min(self.clients)));
        command.arg(format!("--protocol={}", self.protocol.name()));
        command.arg(format!("--random-seed={}", self.seed));
        match self.script {
            Script::SelectOnly => drop(command.arg("--select-only")),
            Script::FourKilobytes => {
                fs::write(directory.join("script.sql"), FOUR_KILOBYTES)?;
                command.arg("--file=script.sql");
            }
        }
        command.args([
            "-h",
            &address.ip().to_string(),
            "-p",
            &address.port().to_string(),
        ]);
        command.args(["-U", USER, DATABASE]);
        Ok(command)
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
            let cpu = watched
                .map(cpu::process_time)
                .transpose()?
                .unwrap_or_default();
            samples.push(Sample {
                at: clock::since_epoch(),
                cpu,
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

    /// The window is found in the log and the samples, not assumed: connecting 500 clients may
    /// take a second or none.
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
        let end = first.at + self.measured;
        let last = samples
            .iter()
            .rev()
            .find(|sample| sample.at <= end)
            .ok_or_else(too_short)?;
        if last.at <= first.at {
            bail!(too_short());
        }
        let window: Vec<&Transaction> = log
            .iter()
            .filter(|line| first.at < line.ended && line.ended <= last.at)
            .collect();
        let mut latencies: Vec<u64> = window.iter().filter_map(|line| line.latency_us).collect();
        latencies.sort_unstable();
        let seconds = (last.at - first.at).as_secs_f64();
        let count = as_f64(latencies.len());
        let cpu = last.cpu.saturating_sub(first.cpu).as_secs_f64() * 1e6;
        let total = latencies.iter().sum::<u64>();
        Ok(Outcome {
            transactions: latencies.len() as u64,
            failures: (window.len() - latencies.len()) as u64,
            seconds,
            per_second: count / seconds,
            mean_us: as_f64(usize::try_from(total)?) / count,
            p50_us: quantile(&latencies, 500).ok_or_else(too_short)?,
            p99_us: quantile(&latencies, 990).ok_or_else(too_short)?,
            max_us: latencies.last().copied().ok_or_else(too_short)?,
            cpu_us: watched.then_some(cpu / count),
        })
    }
}

/// The first few different errors: every client may have said the same.
fn complaints(output: &str) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for line in output.lines().filter(|line| line.contains("error:")) {
        // `client 7 script 0 aborted in ...: ERROR:  ...`: the number makes no difference.
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

const END_MARGIN: Duration = Duration::from_millis(200);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

/// pgbench writes one file per thread: `log.PID`, `log.PID.1`, ...
fn read_log(directory: &Path) -> Result<Vec<Transaction>> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path: PathBuf = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if !name.starts_with("log.") {
            continue;
        }
        for line in fs::read_to_string(&path)?.lines() {
            let parsed = parse_line(line);
            lines.push(parsed.with_context(|| format!("not a line of pgbench's log: {line}"))?);
        }
    }
    Ok(lines)
}

/// `client_id transaction_no time script_no time_epoch time_us` (pgbench, "Per-Transaction
/// Logging"); `time` is a word such as `failed` or `skipped` when there is no latency.
fn parse_line(line: &str) -> Option<Transaction> {
    let mut fields = line.split_ascii_whitespace().skip(2);
    let latency_us = fields.next()?.parse().ok();
    let seconds = fields.nth(1)?.parse().ok()?;
    let micros = fields.next()?.parse().ok()?;
    let ended = Duration::from_secs(seconds) + Duration::from_micros(micros);
    Some(Transaction { ended, latency_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> Load {
        Load {
            script: Script::SelectOnly,
            protocol: Protocol::Simple,
            clients: 1,
            threads: 1,
            warm_up: Duration::from_secs(1),
            measured: Duration::from_secs(2),
            seed: 1,
        }
    }

    #[test]
    fn a_log_line_gives_latency_and_end() {
        let line = parse_line("0 199 2241 0 1175850568 995598").unwrap();
        assert_eq!(line.latency_us, Some(2241));
        assert_eq!(line.ended, Duration::from_micros(1_175_850_568_995_598));
        let failed = parse_line("3 0 failed 0 1499414498 84905").unwrap();
        assert_eq!(failed.latency_us, None);
        assert_eq!(parse_line("pgbench: error"), None);
    }

    #[test]
    fn only_the_window_between_warm_up_and_end_counts() {
        // One transaction every 10 ms for 4 s from second 100 on; the process burns 1 ms in each.
        let log: Vec<Transaction> = (0..400)
            .map(|n| Transaction {
                ended: Duration::from_millis(100_000 + n * 10),
                latency_us: Some(n),
            })
            .collect();
        let samples: Vec<Sample> = (0..80_u32)
            .map(|n| Sample {
                at: Duration::from_millis(100_005 + u64::from(n) * 50),
                cpu: Duration::from_millis(5) * n,
            })
            .collect();
        let outcome = load().evaluate(&log, &samples, true).unwrap();
        assert_eq!(outcome.transactions, 200);
        assert!((outcome.per_second - 100.0).abs() < 1e-6, "{outcome:?}");
        assert!(
            (outcome.cpu_us.unwrap() - 1000.0).abs() < 1e-6,
            "{outcome:?}"
        );
        assert_eq!((outcome.p50_us, outcome.max_us), (200, 300));
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
        assert!(load().evaluate(&[], &[], false).is_err());
    }
}
