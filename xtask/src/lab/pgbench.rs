//! One pgbench run: its command line, its per-transaction log, and the CPU time that a process
//! used in the very window from which transactions are counted.

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
use weir_lab::access::Access;
use weir_lab::clock;
use weir_lab::interrupt::Interrupt;
use weir_lab::meter::cpu;
use weir_lab::pgbench::log::{self, Transaction, as_f64, tally};
use weir_lab::postgres::{DATABASE, USER};
use weir_lab::process::Process;

pub(crate) use self::storm::{Storm, Weather};

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

/// What every client does over and over, cheapest first.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) enum Script {
    /// pgbench's `-S`: one row of pgbench_accounts by its key.
    SelectOnly,
    /// pgbench's own script, like TPC-B: three updates, a query and an insert in a transaction.
    TpcB,
    /// The same 42 rows of pgbench_accounts every time, 4.7 kB on the wire.
    FourKilobytes,
}

impl Script {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SelectOnly => "-S",
            Self::TpcB => "TPC-B",
            Self::FourKilobytes => "4 KB",
        }
    }
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

/// Whose CPU time counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    /// The pooler.
    pub(crate) process: Option<u32>,
    /// PostgreSQL's first process, whose children do the work.
    pub(crate) server: Option<u32>,
}

impl From<Option<u32>> for Watched {
    fn from(process: Option<u32>) -> Self {
        Self {
            process,
            server: None,
        }
    }
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
    /// CPU-microseconds per transaction of PostgreSQL, if it was watched.
    pub(crate) server_cpu_us: Option<f64>,
}

/// CPU time of the watched at a wall-clock time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    cpu: Duration,
    server_cpu: Duration,
}

/// A load that runs. Dropping it stops pgbench and deletes its log.
pub(crate) struct RunningLoad {
    process: Process,
    directory: TempDir,
    output: PathBuf,
}

impl Load {
    /// Runs the load against `address`; `watched` are the processes whose CPU time counts.
    ///
    /// # Errors
    /// pgbench missing or failing (its words are in the error), an interrupt, or a run too short
    /// to have a window.
    pub(crate) fn run(
        &self,
        pgbench: &Path,
        address: SocketAddr,
        watched: impl Into<Watched>,
        interrupt: &Interrupt,
    ) -> Result<Outcome> {
        self.run_with(pgbench, address, watched, interrupt, || ())
    }

    /// As [`Load::run`], and calls `look` once when about half of the time is over.
    pub(crate) fn run_with(
        &self,
        pgbench: &Path,
        address: SocketAddr,
        watched: impl Into<Watched>,
        interrupt: &Interrupt,
        look: impl FnOnce(),
    ) -> Result<Outcome> {
        let watched = watched.into();
        let mut run = self.start(pgbench, address)?;
        let samples = self.watch(&mut run.process, watched, interrupt, look)?;
        let log = run.finish()?;
        self.evaluate(&log, &samples, watched)
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
            Script::TpcB => drop(command.arg("--builtin=tpcb-like")),
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
        watched: Watched,
        interrupt: &Interrupt,
        look: impl FnOnce(),
    ) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        let mut look = Some(look);
        let half_time = clock::now() + self.warm_up + self.measured / 2;
        let deadline = clock::now() + self.warm_up + self.measured + Duration::from_secs(60);
        loop {
            let cpu = watched.process.map(cpu::process_time).transpose()?;
            let server_cpu = watched.server.map(cpu::children_time).transpose()?;
            samples.push(Sample {
                at: clock::since_epoch(),
                cpu: cpu.unwrap_or_default(),
                server_cpu: server_cpu.unwrap_or_default(),
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
    fn evaluate(
        &self,
        log: &[Transaction],
        samples: &[Sample],
        watched: Watched,
    ) -> Result<Outcome> {
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
        let cpu = |time: fn(&Sample) -> Duration| {
            time(last).saturating_sub(time(first)).as_secs_f64() * 1e6 / count
        };
        Ok(Outcome {
            transactions: found.transactions,
            failures: found.failures,
            seconds,
            per_second: count / seconds,
            mean_us: found.mean_us,
            p50_us: found.p50_us,
            p99_us: found.p99_us,
            max_us: found.max_us,
            cpu_us: watched.process.map(|_| cpu(|sample| sample.cpu)),
            server_cpu_us: watched.server.map(|_| cpu(|sample| sample.server_cpu)),
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
        Ok(log::read(self.directory.path(), LOG_PREFIX)?)
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
            let lines = log::read(self.directory.path(), LOG_PREFIX)?;
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

/// As `--log-prefix` says.
const LOG_PREFIX: &str = "log.";
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
                ..Transaction::default()
            })
            .collect();
        let samples: Vec<Sample> = (0..80_u32)
            .map(|n| Sample {
                at: Duration::from_millis(100_005 + u64::from(n) * 50),
                cpu: Duration::from_millis(5) * n,
                server_cpu: Duration::from_millis(10) * n,
            })
            .collect();
        let watched = Watched {
            process: Some(1),
            server: Some(2),
        };
        let outcome = load().evaluate(&log, &samples, watched).unwrap();
        assert_eq!(outcome.transactions, 200);
        assert!((outcome.per_second - 100.0).abs() < 1e-6, "{outcome:?}");
        assert!(
            (outcome.cpu_us.unwrap() - 1000.0).abs() < 1e-6,
            "{outcome:?}"
        );
        assert!(
            (outcome.server_cpu_us.unwrap() - 2000.0).abs() < 1e-6,
            "{outcome:?}"
        );
        assert_eq!((outcome.p50_us, outcome.max_us), (200, 300));
        let alone = load().evaluate(&log, &samples, None.into()).unwrap();
        assert_eq!((alone.cpu_us, alone.server_cpu_us), (None, None));
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
        assert!(load().evaluate(&[], &[], Watched::default()).is_err());
    }
}
