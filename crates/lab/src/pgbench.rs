//! pgbench as a generator of the lab. Its progress lines give the rate and the mean, its log the distribution.
//! Logging every transaction at high rates would be a load of its own, so the log then has a sample only.

pub mod log;
mod progress;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use self::log::{Transaction, as_f64, quantile};
use self::progress::Second;
use crate::error::{Error, Result};
use crate::experiment::Script;
use crate::generator::{Generator, Job, Loaded, Watch};
use crate::meter::Window;
use crate::process::Process;
use crate::record::{Latency, Outcome, Spread};

/// Maximum number of log lines per second that is worth their cost.
const LINES_PER_SECOND: f64 = 4000.0;
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Allowance for logins and for the last answers.
pub(crate) const MARGIN: Duration = Duration::from_secs(90);

/// pgbench program.
#[derive(Clone, Debug)]
pub struct Pgbench {
    /// Path of the program.
    pub program: PathBuf,
}

impl Generator for Pgbench {
    fn name(&self) -> &'static str {
        "pgbench"
    }

    /// Runs the warm-up separately, as in the published comparisons. Its rate determines the sampling of the log.
    fn run(&self, job: &Job<'_>, watch: &mut Watch<'_>) -> Result<Loaded> {
        let mut sample = 1.0;
        if !job.warm_up.is_zero() {
            let output = self.path(job, "pgbench-warm-up.log");
            let mut command = self.command(job, job.warm_up, &[])?;
            let mut process = start(&mut command, &output)?;
            let result = watch.wait(&mut process, job.warm_up + MARGIN);
            sample = sample_after(&complete(result, &output)?);
        }
        let output = self.path(job, "pgbench.log");
        let mut log = vec!["--log".to_owned(), "--log-prefix=transactions".to_owned()];
        if sample < 1.0 {
            log.push(format!("--sampling-rate={sample}"));
        }
        // In the last second clients stop one after the other: that second is run and not counted.
        let mut command = self.command(job, job.measure + SECOND, &log)?;
        let mut process = start(&mut command, &output)?;
        let result = watch.measure(&mut process, job.measure + MARGIN, || Ok(()));
        let text = complete(result, &output)?;
        let (window, outcome) = outcome(
            &text,
            job.directory,
            job.measure,
            sample,
            job.rate.is_some(),
        )?;
        Ok(Loaded {
            command: words(&command),
            window,
            outcome,
        })
    }
}

impl Pgbench {
    fn path(&self, job: &Job<'_>, name: &str) -> PathBuf {
        job.directory.join(name)
    }

    fn command(&self, job: &Job<'_>, time: Duration, more: &[String]) -> Result<Command> {
        let work = job.work;
        let mut command = Command::new(&self.program);
        command.current_dir(job.directory);
        command.args(["--no-vacuum", "--progress=1", "--progress-timestamp"]);
        command.arg(format!("--time={}", whole_seconds(time)));
        command.arg(format!("--client={}", work.clients));
        command.arg(format!("--jobs={}", job.threads));
        command.arg(format!("--protocol={}", work.protocol));
        command.arg(format!("--random-seed={}", job.seed));
        if let Some(rate) = job.rate {
            command.arg(format!("--rate={rate}"));
        }
        if work.reconnect {
            command.arg("--connect");
        }
        match &work.script {
            Script::Builtin(name) => drop(command.arg(format!("--builtin={name}"))),
            Script::Pgbench(text) => {
                let path = job.directory.join("script.sql");
                fs::write(&path, text).map_err(Error::file("write", &path))?;
                command.arg("--file=script.sql");
            }
            Script::Plan(_) => {
                return Err(Error::Load {
                    name: "pgbench".to_owned(),
                    reason: "it cannot carry out a plan of the lab's generator".to_owned(),
                });
            }
        }
        command.args(more);
        command.args(["-h", &job.host, "-p", &job.port.to_string()]);
        command.args(["-U", &job.user, &job.database]);
        job.access().apply(&mut command);
        command.env("PGPASSWORD", &job.password);
        // Neither GSS nor TLS is tried first: each refused request would cost a round trip per login.
        command.env("PGGSSENCMODE", "disable");
        if !job.tls {
            command.env("PGSSLMODE", "disable");
        }
        Ok(command)
    }
}

/// Returns the result of a run, from its output `text` and its log `transactions.*` in `directory`. The log is
/// removed.
pub(crate) fn outcome(
    text: &str,
    directory: &Path,
    measure: Duration,
    sample: f64,
    scheduled: bool,
) -> Result<(Window, Outcome)> {
    let mut seconds = progress::seconds(text);
    seconds.truncate(whole_seconds(measure));
    let log = log::read(directory, "transactions.")?;
    remove_logs(directory)?;
    evaluate(&seconds, &log, sample, scheduled)
}

pub(crate) fn start(command: &mut Command, output: &Path) -> Result<Process> {
    Ok(Process::start("pgbench", command, output)?.stop_with(&[Signal::TERM]))
}

/// Returns the output of a run that succeeded; else an error with its messages.
pub(crate) fn complete(result: Result<()>, output: &Path) -> Result<String> {
    let text = fs::read_to_string(output).map_err(Error::file("read", output))?;
    match result {
        Ok(()) => Ok(text),
        Err(Error::Load { name, reason }) => {
            let complaints = progress::complaints(&text);
            let reason = if complaints.is_empty() {
                reason
            } else {
                format!("{reason}: {complaints}")
            };
            Err(Error::Load { name, reason })
        }
        Err(other) => Err(other),
    }
}

/// Returns the share of transactions to log, by the rate in a warm-up's output.
pub(crate) fn sample_after(output: &str) -> f64 {
    sampling_rate(progress::rate(output).unwrap_or(0.0))
}

/// Rounds to four digits, which are enough and easy to read in a command line.
fn sampling_rate(tps: f64) -> f64 {
    let rate = (LINES_PER_SECOND / tps.max(1.0)).min(1.0);
    ((rate * 10_000.0).round() / 10_000.0).max(0.0001)
}

/// Rounds up to whole seconds: pgbench takes no others.
pub(crate) fn whole_seconds(time: Duration) -> usize {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    usize::try_from(seconds.max(1)).unwrap_or(usize::MAX)
}

pub(crate) fn words(command: &Command) -> Vec<String> {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Removes the log, which is large while the result is small.
fn remove_logs(directory: &Path) -> Result<()> {
    for path in log::files(directory, "transactions.")? {
        fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    }
    Ok(())
}

fn evaluate(
    seconds: &[Second],
    log: &[Transaction],
    sample: f64,
    scheduled: bool,
) -> Result<(Window, Outcome)> {
    let too_short = || Error::Load {
        name: "pgbench".to_owned(),
        reason: "the run was too short to measure".to_owned(),
    };
    let (first, last) = seconds.first().zip(seconds.last()).ok_or_else(too_short)?;
    let window = Window {
        begin: first.begin,
        end: last.end,
    };
    let count: f64 = seconds.iter().map(Second::transactions).sum();
    let length = window.seconds();
    if length <= 0.0 {
        return Err(too_short());
    }
    let log: Vec<Transaction> = log
        .iter()
        .filter(|line| window.begin < line.ended && line.ended <= window.end)
        .copied()
        .collect();
    let outcome = Outcome {
        transactions: whole(count),
        errors: seconds.iter().map(|second| second.failures).sum(),
        seconds: length,
        tps: count / length,
        latency: latency(seconds, &log, sample >= 1.0),
        per_second: seconds.iter().map(|second| second.tps).collect(),
        per_client: per_client(&log, length),
        lag_us_p50: scheduled.then(|| lag(&log, 500)).flatten(),
        lag_us_p99: scheduled.then(|| lag(&log, 990)).flatten(),
        ..Outcome::default()
    };
    Ok((window, outcome))
}

/// Computes mean and deviation over all transactions, the rest over those in the log.
fn latency(seconds: &[Second], log: &[Transaction], complete: bool) -> Option<Latency> {
    let mut latencies: Vec<u64> = log.iter().filter_map(|line| line.latency_us).collect();
    latencies.sort_unstable();
    let count: f64 = seconds.iter().map(Second::transactions).sum();
    let sum = |of: &dyn Fn(&Second) -> f64| -> f64 {
        seconds
            .iter()
            .map(|second| of(second) * second.transactions())
            .sum()
    };
    let mean = sum(&|second| second.mean_us) / count;
    let square = sum(&|second| second.stddev_us.powi(2) + second.mean_us.powi(2)) / count;
    let at = |per_mille| quantile(&latencies, per_mille).map(figure);
    Some(Latency {
        mean,
        stddev: (square - mean.powi(2)).max(0.0).sqrt(),
        p50: at(500)?,
        p90: at(900)?,
        p99: at(990)?,
        p999: at(999)?,
        max: latencies.last().copied().map(figure)?,
        histogram: complete.then(|| histogram(&latencies)),
    })
}

/// Counts by upper bounds with seven significant binary digits: exact within 1 %.
fn histogram(sorted: &[u64]) -> Vec<(u64, u64)> {
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    for &latency in sorted {
        let spare = (u64::BITS - latency.leading_zeros()).saturating_sub(7);
        let bound = latency | ((1 << spare) - 1);
        *buckets.entry(bound).or_default() += 1;
    }
    buckets.into_iter().collect()
}

/// Computes the spread over clients by the numbers of each client's transactions, which a sampled log has too.
fn per_client(log: &[Transaction], seconds: f64) -> Option<Spread> {
    let mut last: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for line in log {
        let (low, high) = last.entry(line.client).or_insert((line.number, 0));
        *low = (*low).min(line.number);
        *high = (*high).max(line.number);
    }
    let mut rates: Vec<f64> = last
        .values()
        .map(|(low, high)| figure(high.saturating_sub(*low) + 1) / seconds)
        .collect();
    rates.sort_by(f64::total_cmp);
    let count = as_f64(rates.len());
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
    Some(Spread {
        min: rates.first().copied()?,
        median: rates.get(rates.len() / 2).copied()?,
        max: rates.last().copied()?,
        variation: if mean > 0.0 {
            variance.sqrt() / mean
        } else {
            0.0
        },
    })
}

fn lag(log: &[Transaction], per_mille: usize) -> Option<f64> {
    let mut lags: Vec<u64> = log.iter().map(|line| line.lag_us).collect();
    lags.sort_unstable();
    quantile(&lags, per_mille).map(figure)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn figure(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count"
)]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

#[cfg(test)]
mod tests;
