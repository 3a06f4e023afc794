//! A run of pgbench: its command line, its log of transactions, and the CPU time that a process used during exactly
//! the window in which transactions are counted.

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

/// A run of `pgbench -S`, which reads rows of pgbench_accounts by key.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) clients: u32,
    /// Time that is not measured; begins when pgbench has connected all clients.
    pub(super) warm_up: Duration,
    /// Measured time.
    pub(super) measured: Duration,
    pub(super) seed: u64,
}

/// Results of a run. Latencies are in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) failures: u64,
    pub(super) per_second: f64,
    pub(super) mean_us: f64,
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
        let mut run = self.start(pgbench, address)?;
        let samples = self.watch(&mut run.process, watched, interrupt, look)?;
        run.check()?;
        let log = log::read(run.directory.path(), LOG_PREFIX)?;
        self.evaluate(&log, &samples, watched.is_some())
    }

    /// Starts the load without waiting; it ends by itself after its time.
    pub(super) fn start(&self, pgbench: &Path, address: SocketAddr) -> Result<RunningLoad> {
        let directory = tempfile::Builder::new().prefix("weir-load-").tempdir()?;
        let output = directory.path().join(OUTPUT);
        let mut command = self.command(pgbench, address, directory.path());
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
        command.current_dir(directory).args([
            "--no-vacuum",
            "--select-only",
            "--log",
            "--log-prefix=log",
        ]);
        command.arg(format!("--time={seconds:.0}"));
        command.arg(format!("--client={}", self.clients));
        command.arg(format!("--random-seed={}", self.seed));
        command.args(["-h", &address.ip().to_string()]);
        command.args(["-p", &address.port().to_string()]);
        command.args(["-U", USER, DATABASE]);
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
        let end = first.at + self.measured;
        let last = samples
            .iter()
            .rev()
            .find(|sample| sample.at <= end)
            .ok_or_else(too_short)?;
        if last.at <= first.at {
            bail!(too_short());
        }
        let found = tally(log, first.at, last.at).ok_or_else(too_short)?;
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
const LOG_PREFIX: &str = "log.";
const END_MARGIN: Duration = Duration::from_millis(200);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load {
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
