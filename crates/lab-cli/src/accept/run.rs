//! Runs one load on a fresh Weir, with a fixed or an adaptive pool size.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use weir_lab::clock;
use weir_lab::interrupt::Interrupt;
use weir_lab::pgbench::log::{self, Transaction, as_f64, tally};
use weir_lab::ports::free_port;
use weir_lab::postgres::{Cluster, DATABASE, USER};
use weir_lab::process::{Process, run_to_end};
use weir_lab::weir::{Pool, Weir, decisions};

use super::mix::Mix;
use super::speed::{Probe, Speed};

/// Assignment of processors, so that PostgreSQL's share does not depend on the load of others.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Pins {
    /// PostgreSQL's processors, in taskset's list format.
    pub(super) server: String,
    /// Number of PostgreSQL's processors.
    pub(super) server_cores: u32,
    /// Processors of Weir and of pgbench.
    pub(super) others: String,
}

impl Pins {
    /// Assigns the first half to PostgreSQL and the second to the others; none on a single processor.
    pub(super) fn of(cores: u32) -> Option<Self> {
        let half = cores / 2;
        let list = |from: u32, to: u32| match to - from {
            1 => from.to_string(),
            _ => format!("{from}-{}", to - 1),
        };
        (half > 0).then(|| Self {
            server: list(0, half),
            server_cores: half,
            others: list(half, cores),
        })
    }

    /// Highest of PostgreSQL's processors.
    fn last_of_server(&self) -> usize {
        (self.server_cores.max(1) - 1) as usize
    }
}

/// Size of the pool.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Size {
    /// Fixed size.
    Fixed(u32),
    /// `auto`, starting with this size.
    From(u32),
}

impl std::fmt::Display for Size {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(size) => write!(formatter, "fixed {size}"),
            Self::From(start) => write!(formatter, "auto from {start}"),
        }
    }
}

/// Description of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) mix: Mix,
    pub(super) size: Size,
    /// Duration from the first transaction on.
    pub(super) total: Duration,
    /// Part at the end that is measured.
    pub(super) measured: Duration,
    pub(super) seed: u64,
}

/// Results of a run. Latencies are in microseconds and include the pool's queue.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Seen {
    pub(super) per_second: f64,
    pub(super) mean_us: f64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    pub(super) failures: u64,
    /// Transactions of each second, from the first transaction on.
    pub(super) series: Vec<f64>,
    /// Slowness of the server's processors during the measured time, and of the others: see [`Speed::slowness`]. One
    /// value for all if nothing is pinned; empty if unknown.
    pub(super) slowness: Vec<f64>,
    /// State of the pool a second before the end, as it reports it.
    pub(super) pool: Option<Pool>,
    /// Log lines about the pool's decisions, with their times.
    pub(super) decisions: Vec<String>,
}

/// Setup that all runs share.
pub(super) struct Stage {
    pub(super) cluster: Cluster,
    pub(super) interrupt: Interrupt,
    pub(super) weir: PathBuf,
    pub(super) pins: Option<Pins>,
    pub(super) clients: u32,
    pub(super) goal: Option<String>,
    pub(super) size_max: u32,
}

/// Time limit for logging in, and for the last answers.
const MARGIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Time before the end at which the pool's state is read.
const BEFORE_END: Duration = Duration::from_secs(1);
const LOG_PREFIX: &str = "log.";

impl Stage {
    /// Pins the server to its processors.
    pub(super) fn pin(&self) -> Result<()> {
        let Some(pins) = &self.pins else {
            return Ok(());
        };
        let put = |process: &str| {
            let mut command = Command::new("taskset");
            command.args(["--all-tasks", "--pid", "--cpu-list", &pins.server, process]);
            run_to_end(&mut command)
        };
        let pid = self.cluster.pid();
        // Backends inherit the setting.
        put(&pid.to_string())?;
        let children = format!("/proc/{pid}/task/{pid}/children");
        let children =
            fs::read_to_string(&children).context("cannot read the server's children")?;
        for process in children.split_whitespace() {
            // A backend may have ended in the meantime.
            let _ = put(process);
        }
        Ok(())
    }

    /// Runs a job.
    ///
    /// # Errors
    /// If a process cannot be started or fails, or on an interrupt.
    pub(super) fn run(&self, job: &Job) -> Result<Seen> {
        if job.mix.writes() {
            self.cluster.restore()?;
        }
        let weir = self.weir(job.size)?;
        let directory = tempfile::Builder::new().prefix("weir-load-").tempdir()?;
        let output = directory.path().join("output");
        let mut command = self.pgbench(job, weir.address(), directory.path())?;
        let probe = Probe::start()?;
        let process = Process::start("pgbench", &mut command, &output)?;
        let mut process = process.stop_with(&[Signal::TERM]);
        let pool = self.attend(job, &mut process, weir.address())?;
        if !process.wait()?.success() {
            let output = fs::read_to_string(&output)?;
            bail!("pgbench failed: {}", complaints(&output));
        }
        let speed = probe.end()?;
        let log = log::read(directory.path(), LOG_PREFIX)?;
        if job.mix.writes() {
            self.audit(&log)?;
        }
        let decisions = match job.size {
            Size::Fixed(_) => Vec::new(),
            Size::From(_) => {
                let log = weir.log()?;
                let lines = decisions(&log).into_iter();
                lines
                    .map(|(time, words)| format!("{time} {words}"))
                    .collect()
            }
        };
        Ok(Seen {
            pool,
            decisions,
            ..evaluate(job, &log, &speed, self.pins.as_ref())?
        })
    }

    /// Checks the books: every transfer that a client saw committed is recorded once, and the sum of balances is
    /// unchanged.
    fn audit(&self, log: &[Transaction]) -> Result<()> {
        let told = log.iter().filter(|line| line.latency_us.is_some()).count();
        let books = "SELECT (SELECT count(*) FROM pgbench_history) || ' transfers, balance ' || \
                     (SELECT sum(abalance) FROM pgbench_accounts)";
        let found = self.cluster.query(DATABASE, books)?;
        let expected = format!("{told} transfers, balance 0");
        if found != expected {
            bail!("the books say {found}, the clients {expected}");
        }
        Ok(())
    }

    /// Starts Weir with one worker, on the processors of the load.
    fn weir(&self, size: Size) -> Result<Weir> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let mut options = vec![("WEIR_WORKERS", "1".to_owned())];
        // psql connects, too.
        options.push(("WEIR_MAX_CLIENT_CONN", (self.clients + 10).to_string()));
        match size {
            Size::Fixed(size) => options.push(("WEIR_DEFAULT_POOL_SIZE", size.to_string())),
            Size::From(start) => {
                options.push(("WEIR_DEFAULT_POOL_SIZE", "auto".to_owned()));
                options.push(("WEIR_POOL_SIZE_START", start.to_string()));
                options.push(("WEIR_POOL_SIZE_MAX", self.size_max.to_string()));
                options.extend(self.goal.clone().map(|goal| ("WEIR_POOL_SIZE_GOAL", goal)));
            }
        }
        for quiet in [
            "WEIR_LOG_CONNECTIONS",
            "WEIR_LOG_DISCONNECTIONS",
            "WEIR_LOG_STATS",
        ] {
            options.push((quiet, "0".to_owned()));
        }
        let options: Vec<_> = options
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let command = self.pinned(&self.weir);
        let weir = Weir::start(command, address, self.cluster.address(), &options)?;
        Ok(weir)
    }

    /// Command for a program on its processors; taskset replaces itself by the program.
    fn pinned(&self, program: &Path) -> Command {
        match &self.pins {
            None => Command::new(program),
            Some(pins) => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", &pins.others]).arg(program);
                command
            }
        }
    }

    fn pgbench(&self, job: &Job, address: SocketAddr, directory: &Path) -> Result<Command> {
        fs::write(directory.join("script.sql"), job.mix.script())?;
        let program = self.cluster.programs().path("pgbench")?;
        let mut command = self.pinned(&program);
        command.current_dir(directory);
        command.args(["--no-vacuum", "--log", "--log-prefix=log", "--jobs=1"]);
        // One second more, in which its clients stop one after the other.
        command.arg(format!("--time={}", job.total.as_secs() + 1));
        command.arg(format!("--client={}", self.clients));
        command.arg(format!("--protocol={}", job.mix.protocol()));
        command.arg(format!("--random-seed={}", job.seed));
        command.arg(format!("--sampling-rate={}", job.mix.logged()));
        command.arg("--file=script.sql");
        command.args(["-h", &address.ip().to_string()]);
        command.args(["-p", &address.port().to_string(), "-U", USER, DATABASE]);
        command.env("PGSSLMODE", "disable");
        command.env("PGGSSENCMODE", "disable");
        Ok(command)
    }

    /// Waits for the end of the load, and queries the pool shortly before.
    fn attend(
        &self,
        job: &Job,
        process: &mut Process,
        address: SocketAddr,
    ) -> Result<Option<Pool>> {
        let begun = clock::now();
        let mut pool = None;
        while process.try_wait()?.is_none() {
            let passed = clock::now().saturating_duration_since(begun);
            if passed > job.total + MARGIN {
                bail!("pgbench did not end a minute after its time");
            }
            let is_due = passed + BEFORE_END >= job.total;
            if is_due && pool.is_none() && matches!(job.size, Size::From(_)) {
                pool = Some(Pool::look(self.cluster.programs(), address)?);
            }
            self.interrupt.wait(LOOK)?;
        }
        Ok(pool)
    }
}

/// Evaluates a run. Time counts from the first transaction, because logging in takes a while.
fn evaluate(job: &Job, log: &[Transaction], speed: &Speed, pins: Option<&Pins>) -> Result<Seen> {
    let begin = log.iter().map(|line| line.ended).min();
    let begin = begin.context("there was no transaction")?;
    let end = begin + job.total;
    let last = pins.map(Pins::last_of_server);
    let found = tally(log, end - job.measured, end)
        .ok_or_else(|| anyhow!("there was no transaction in the time that counts"))?;
    let count = as_f64(usize::try_from(found.transactions)?);
    let seconds = usize::try_from(job.total.as_secs())?;
    let mut series = vec![0.0; seconds];
    for line in log.iter().filter(|line| line.latency_us.is_some()) {
        let second = usize::try_from((line.ended - begin).as_secs())?;
        if let Some(count) = series.get_mut(second) {
            *count += 1.0 / job.mix.logged();
        }
    }
    Ok(Seen {
        per_second: count / job.mix.logged() / job.measured.as_secs_f64(),
        mean_us: found.mean_us,
        p50_us: found.p50_us,
        p99_us: found.p99_us,
        failures: found.failures,
        series,
        slowness: speed.slowness(end - job.measured, end, last),
        ..Seen::default()
    })
}

/// First few distinct errors: every client may have reported the same one.
fn complaints(output: &str) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for line in output.lines() {
        // In `client 7 script 0 aborted in ...: ERROR:  ...` the number is ignored.
        let what = line
            .rsplit_once("ERROR:")
            .or_else(|| line.rsplit_once("error:"));
        if let Some((_, what)) = what.filter(|(_, what)| !seen.contains(&what.trim())) {
            seen.push(what.trim());
        }
    }
    seen.truncate(3);
    seen.join("; ")
}

/// Number of cores of this machine.
pub(super) fn cores() -> u32 {
    let cores = thread::available_parallelism();
    cores.map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_complaint_of_many_clients_is_told_once() {
        let output = "pgbench: error: client 1 aborted: ERROR:  no such thing\n\
                      pgbench: error: client 2 aborted: ERROR:  no such thing\n\
                      tps = 1\npgbench: error: Run was aborted\n";
        assert_eq!(complaints(output), "no such thing; Run was aborted");
    }

    #[test]
    fn the_server_has_processors_of_its_own() {
        assert_eq!(Pins::of(1), None);
        let lists = |cores| {
            Pins::of(cores)
                .map(|pins| (pins.server, pins.others))
                .unwrap()
        };
        assert_eq!(lists(2), ("0".to_owned(), "1".to_owned()));
        assert_eq!(lists(3), ("0".to_owned(), "1-2".to_owned()));
        assert_eq!(lists(8), ("0-3".to_owned(), "4-7".to_owned()));
    }

    #[test]
    fn only_the_end_of_a_run_counts_and_every_second_is_kept() {
        // 100 transactions a second for ten seconds, then 200; a quarter of them is logged.
        let at = |micros: u64| Transaction {
            ended: Duration::from_micros(1_000_000_000 + micros),
            latency_us: Some(micros / 1000),
            ..Transaction::default()
        };
        let slow = (0..250).map(|n| at(n * 40_000));
        let fast = (0..500).map(|n| at(10_000_000 + n * 20_000));
        let log: Vec<_> = slow.chain(fast).collect();
        let job = Job {
            mix: Mix::ReadOnly,
            size: Size::From(4),
            total: Duration::from_secs(20),
            measured: Duration::from_secs(10),
            seed: 1,
        };
        let seen = evaluate(&job, &log, &Speed::default(), None).unwrap();
        assert!((seen.per_second - 200.0).abs() < 1.0, "{seen:?}");
        assert_eq!((seen.series.len(), seen.series[3]), (20, 100.0));
        assert!((seen.series[15] - 200.0).abs() < 1e-9);
        assert!(seen.p50_us > 10_000, "{seen:?}");
        assert!(evaluate(&job, &[], &Speed::default(), None).is_err());
    }
}
