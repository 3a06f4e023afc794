//! Runs pgbench with several weighted scripts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::collector::psql::Address;
use crate::error::Result;
use crate::generator::Watch;
use crate::meter::Window;
use crate::pgbench::{self, MARGIN, SECOND};
use crate::record::Outcome;

/// Load by pgbench.
#[derive(Clone, Debug)]
pub(super) struct Load<'a> {
    pub(super) program: &'a Path,
    pub(super) address: &'a Address,
    /// Paths and weights.
    pub(super) scripts: &'a [(PathBuf, u32)],
    /// pgbench's `--protocol`.
    pub(super) protocol: &'a str,
    pub(super) clients: u32,
    pub(super) threads: u32,
    pub(super) warm_up: Duration,
    pub(super) measure: Duration,
    pub(super) seed: u64,
    pub(super) directory: &'a Path,
}

/// Result of a load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Loaded {
    pub(super) window: Window,
    pub(super) outcome: Outcome,
    /// Minimum number of transactions of each script, warm-up included.
    pub(super) counts: Vec<u64>,
    /// Number of further transactions of unknown script: pgbench's threads update the counts per script without a
    /// lock, and lose some.
    pub(super) uncounted: u64,
}

impl Load<'_> {
    /// Runs the load. The warm-up runs separately; its rate determines the sampling of the log.
    pub(super) fn run(&self, watch: &mut Watch<'_>) -> Result<Loaded> {
        let mut counts = vec![0; self.scripts.len()];
        let mut all = 0;
        let mut sample = 1.0;
        if !self.warm_up.is_zero() {
            let output = self.directory.join("pgbench-warm-up.log");
            let mut process = pgbench::start(&mut self.command(self.warm_up, &[]), &output)?;
            let result = watch.wait(&mut process, self.warm_up + MARGIN);
            let text = pgbench::complete(result, &output)?;
            sample = pgbench::sample_after(&text);
            add(&mut counts, &script_counts(&text));
            all += count(&text).unwrap_or(0);
        }
        let mut log = vec!["--log".to_owned(), "--log-prefix=transactions".to_owned()];
        if sample < 1.0 {
            log.push(format!("--sampling-rate={sample}"));
        }
        let output = self.directory.join("pgbench.log");
        // In the last second clients stop one after the other: that second is run and not counted.
        let mut command = self.command(self.measure + SECOND, &log);
        let mut process = pgbench::start(&mut command, &output)?;
        let result = watch.measure(&mut process, self.measure + MARGIN, || Ok(()));
        let text = pgbench::complete(result, &output)?;
        add(&mut counts, &script_counts(&text));
        all += count(&text).unwrap_or(0);
        let uncounted = all.saturating_sub(counts.iter().sum());
        let (window, outcome) =
            pgbench::outcome(&text, self.directory, self.measure, sample, false)?;
        Ok(Loaded {
            window,
            outcome,
            counts,
            uncounted,
        })
    }

    fn command(&self, time: Duration, more: &[String]) -> Command {
        let mut command = Command::new(self.program);
        command.current_dir(self.directory);
        command.args(["--no-vacuum", "--progress=1", "--progress-timestamp"]);
        command.arg(format!("--time={}", pgbench::whole_seconds(time)));
        command.arg(format!("--client={}", self.clients));
        command.arg(format!("--jobs={}", self.threads.min(self.clients).max(1)));
        command.arg(format!("--protocol={}", self.protocol));
        command.arg(format!("--random-seed={}", self.seed));
        for (path, weight) in self.scripts {
            command.arg(format!("--file={}@{weight}", path.display()));
        }
        command.args(more);
        self.address.apply(&mut command);
        command
    }
}

fn add(sums: &mut [u64], more: &[u64]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

/// Returns the number of transactions of each script in pgbench's summary: ` - 1234 transactions (60.1% of total,
/// ...)` after each `SQL script`. With only one script there is a single number.
#[must_use]
pub fn script_counts(output: &str) -> Vec<u64> {
    let each: Vec<u64> = output
        .lines()
        .filter_map(|line| line.strip_prefix(" - ")?.split_once(" transactions ("))
        .filter_map(|(count, _)| count.parse().ok())
        .collect();
    if !each.is_empty() {
        return each;
    }
    count(output).into_iter().collect()
}

/// Returns the number of all transactions, which is exact: each thread counts its own.
fn count(output: &str) -> Option<u64> {
    let all = output
        .lines()
        .find_map(|line| line.strip_prefix("number of transactions actually processed: "))?;
    // With -t the number is `400/400`.
    all.split('/').next()?.trim().parse().ok()
}

impl Loaded {
    /// Returns the number of transactions of the first script, given the number `found` in the tables: `found` if
    /// the counts allow it, else the nearest number that they allow.
    pub(super) fn first(&self, found: i64) -> Option<u64> {
        let least = *self.counts.first()?;
        let found = u64::try_from(found).unwrap_or(0);
        Some(found.clamp(least, least + self.uncounted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_has_its_own_count() {
        let output = "transaction type: multiple scripts\n\
            number of transactions actually processed: 200/200\n\
            tps = 100.0 (without initial connection time)\n\
            SQL script 1: /x/transfer.sql\n - weight: 60 (targets 60.0% of total)\n\
            \u{20}- 121 transactions (60.5% of total, tps = 60.5)\n - number of failed transactions: 0 (0.000%)\n\
            SQL script 2: /x/balance.sql\n - weight: 40 (targets 40.0% of total)\n\
            \u{20}- 79 transactions (39.5% of total, tps = 39.5)\n";
        assert_eq!(script_counts(output), [121, 79]);
    }

    #[test]
    fn what_pgbench_did_not_count_may_be_of_any_script() {
        let loaded = |uncounted| Loaded {
            window: Window {
                begin: Duration::ZERO,
                end: Duration::ZERO,
            },
            outcome: Outcome::default(),
            counts: vec![120, 79],
            uncounted,
        };
        assert_eq!(loaded(1).first(121), Some(121));
        assert_eq!(loaded(1).first(122), Some(121));
        // A lost commit is never excused.
        assert_eq!(loaded(1).first(119), Some(120));
        assert_eq!(loaded(0).first(121), Some(120));
    }

    #[test]
    fn a_single_script_has_all() {
        let output = "number of transactions actually processed: 57\ntps = 1.0\n";
        assert_eq!(script_counts(output), [57]);
        assert_eq!(script_counts("pgbench: error"), Vec::<u64>::new());
    }
}
