//! One pgbench run: its command line, its per-transaction log, and the CPU time that a process
//! used in the very window from which transactions are counted.

mod log;
mod storm;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use rustix::process::Signal;
use serde::Serialize;
use tempfile::TempDir;

use self::log::as_f64;
pub(crate) use self::log::{Transaction, tally};
pub(crate) use self::storm::{Storm, Weather};
use crate::lab::access::Access;
use crate::lab::clock;
use crate::lab::cpu;
use crate::lab::interrupt::Interrupt;
use crate::lab::postgres::{DATABASE, USER};
use crate::lab::process::Process;

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
#[derive(Clone, Debug)]
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
    /// Transactions per second in all, at random times; as many as are answered if none.
    pub(crate) rate: Option<u32>,
    pub(crate) access: Access,
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

/// A load that runs. Dropping it stops pgbench and deletes its log.
pub(crate) struct RunningLoad {
    process: Process,
    directory: TempDir,
    output: PathBuf,
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
        let mut run = self.start(pgbench, address)?;
        let samples = self.watch(&mut run.process, watched, interrupt, look)?;
        let log = run.finish()?;
        self.evaluate(&log, &samples, watched.is_some())
    }

    /// Starts the load and returns; it ends by itself after its time.
    pub(crate) fn start(&self, pgbench: &Path, address: SocketAddr) -> Result<RunningLoad> {
        let directory = tempfile::Builder::new().prefix("weir-load-").tempdir()?;
        let output = directory.path().join("output");
        let mut command = self.command(pgbench, address, directory.path())?;
        let process = Process::start("pgbench", &mut command, &output)?.stop_with(&[Signal::TERM]);
        Ok(RunningLoad {
            process,
            directory,
            output,
        })
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
        if let Some(rate) = self.rate {
            command.arg(format!("--rate={rate}"));
        }
        self.access.apply(&mut command);
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
        let found = tally(log, first.at, last.at).ok_or_else(too_short)?;
        let seconds = (last.at - first.at).as_secs_f64();
        let count = as_f64(usize::try_from(found.transactions)?);
        let cpu = last.cpu.saturating_sub(first.cpu).as_secs_f64() * 1e6;
        Ok(Outcome {
            transactions: found.transactions,
            failures: found.failures,
            seconds,
            per_second: count / seconds,
            mean_us: found.mean_us,
            p50_us: found.p50_us,
            p99_us: found.p99_us,
            max_us: found.max_us,
            cpu_us: watched.then_some(cpu / count),
        })
    }
}

impl RunningLoad {
    /// The whole log, once pgbench has ended by itself.
    fn finish(mut self) -> Result<Vec<Transaction>> {
        let status = self.process.wait()?;
        if !status.success() {
            bail!("pgbench failed ({status}): {}", self.complaints()?);
        }
        log::read(self.directory.path())
    }

    /// Waits until the log reaches beyond `time` (since the epoch), and returns what is there.
    ///
    /// # Errors
    /// pgbench has ended, its log stands still for half a minute, or an interrupt.
    pub(crate) fn log_until(
        &mut self,
        time: Duration,
        interrupt: &Interrupt,
    ) -> Result<Vec<Transaction>> {
        let deadline = clock::now() + LOG_LIMIT;
        loop {
            let lines = log::read(self.directory.path())?;
            if lines.iter().any(|line| line.ended > time) {
                return Ok(lines);
            }
            if let Some(status) = self.process.try_wait()? {
                bail!("pgbench ended early ({status}): {}", self.complaints()?);
            }
            if clock::now() > deadline {
                bail!("pgbench's clients got no answer for {LOG_LIMIT:?}");
            }
            interrupt.wait(LOG_INTERVAL)?;
        }
    }

    fn complaints(&self) -> Result<String> {
        Ok(complaints(&fs::read_to_string(&self.output)?))
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

/// For [`RunningLoad::log_until`]. pgbench writes its log 4 KB at a time, about 100 transactions.
const LOG_LIMIT: Duration = Duration::from_secs(30);
const LOG_INTERVAL: Duration = Duration::from_millis(100);

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
            rate: None,
            access: Access::default(),
        }
    }

    #[test]
    fn only_the_window_between_warm_up_and_end_counts() {
        // One transaction every 10 ms for 4 s from second 100 on; the process burns 1 ms in each.
        let log: Vec<Transaction> = (0..400)
            .map(|n| Transaction {
                ended: Duration::from_millis(100_000 + n * 10),
                latency_us: Some(n),
                lag_us: 0,
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
    fn rate_and_access_reach_the_command_line() {
        let directory = tempfile::tempdir().unwrap();
        let line = |load: &Load| {
            let address = SocketAddr::from(([127, 0, 0, 1], 6432));
            let command = load.command(Path::new("pgbench"), address, directory.path());
            format!("{:?}", command.unwrap())
        };
        let plain = line(&load());
        assert!(
            !plain.contains("--rate") && !plain.contains("PGSSL"),
            "{plain}"
        );
        let more = line(&Load {
            rate: Some(2000),
            access: Access::TLS,
            ..load()
        });
        assert!(more.contains("--rate=2000"), "{more}");
        assert!(more.contains("PGSSLMODE=\"require\""), "{more}");
    }

    #[test]
    fn an_empty_log_is_an_error() {
        assert!(load().evaluate(&[], &[], false).is_err());
    }
}
