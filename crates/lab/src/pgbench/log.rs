//! Reads pgbench's per-transaction log, also while it grows, and sums up a part of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};

/// Line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transaction {
    /// Number of the client, from 0.
    pub client: u32,
    /// Number of this client's earlier transactions; a sampled log has gaps.
    pub number: u64,
    /// End of the transaction, since the Unix epoch.
    pub ended: Duration,
    /// Latency in microseconds; `None` if the transaction failed. With a rate, it counts from the
    /// scheduled start.
    pub latency_us: Option<u64>,
    /// Delay from the scheduled to the real start; zero without a rate.
    pub lag_us: u64,
}

impl Transaction {
    /// Returns the transaction with its latency counted from the real start, not from the scheduled
    /// one.
    #[must_use]
    pub fn since_begin(self) -> Self {
        Self {
            latency_us: self
                .latency_us
                .map(|latency| latency.saturating_sub(self.lag_us)),
            lag_us: 0,
            ..self
        }
    }
}

/// Summary of a part of a log. Latencies are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tally {
    /// Number of transactions that succeeded.
    pub transactions: u64,
    /// Number of transactions that failed.
    pub failures: u64,
    /// Mean latency of those that succeeded.
    pub mean_us: f64,
    /// Median latency.
    pub p50_us: u64,
    /// 99th percentile of the latency.
    pub p99_us: u64,
    /// Longest latency.
    pub max_us: u64,
}

/// Sums up the transactions that ended after `begin` and not after `end`; `None` if none of them
/// succeeded.
#[must_use]
pub fn tally(log: &[Transaction], begin: Duration, end: Duration) -> Option<Tally> {
    let window = || {
        log.iter()
            .filter(|line| begin < line.ended && line.ended <= end)
    };
    let mut latencies: Vec<u64> = window().filter_map(|line| line.latency_us).collect();
    latencies.sort_unstable();
    let count = latencies.len();
    let total = usize::try_from(latencies.iter().sum::<u64>()).ok()?;
    Some(Tally {
        transactions: count as u64,
        failures: (window().count() - count) as u64,
        mean_us: as_f64(total) / as_f64(count),
        p50_us: quantile(&latencies, 500)?,
        p99_us: quantile(&latencies, 990)?,
        max_us: latencies.last().copied()?,
    })
}

/// Returns the nearest-rank quantile of values in rising order; `per_mille` 990 is p99.
#[must_use]
pub fn quantile(sorted: &[u64], per_mille: usize) -> Option<u64> {
    let rank = (sorted.len() * per_mille).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Converts a count.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub fn as_f64(count: usize) -> f64 {
    count as f64
}

/// Reads a log. pgbench writes one file per thread: `log.PID`, `log.PID.1`, ... A line without its
/// end is left out: pgbench is still writing it, or was stopped in it.
///
/// # Errors
/// A file cannot be read, or is not such a log.
pub fn read(directory: &Path, prefix: &str) -> Result<Vec<Transaction>> {
    let mut lines = Vec::new();
    for path in files(directory, prefix)? {
        let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        for line in whole_lines(&text) {
            let parsed = parse_line(line);
            lines.push(parsed.ok_or_else(|| Error::Unexpected {
                what: "pgbench's log".to_owned(),
                text: line.to_owned(),
            })?);
        }
    }
    Ok(lines)
}

/// Returns the files of a log, whose names begin with `prefix`.
///
/// # Errors
/// The directory cannot be read.
pub fn files(directory: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let failed = || Error::file("read", directory);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
}

/// Parses `client_id transaction_no time script_no time_epoch time_us [schedule_lag]` (pgbench,
/// "Per-Transaction Logging"). Without a latency, `time` is a word such as `failed` or `skipped`.
fn parse_line(line: &str) -> Option<Transaction> {
    let mut fields = line.split_ascii_whitespace();
    let client = fields.next()?.parse().ok()?;
    let number = fields.next()?.parse().ok()?;
    let latency_us = fields.next()?.parse().ok();
    let seconds = fields.nth(1)?.parse().ok()?;
    let micros = fields.next()?.parse().ok()?;
    // A failed or skipped transaction may have a word here too.
    let lag_us = fields.next().and_then(|lag| lag.parse().ok()).unwrap_or(0);
    let ended = Duration::from_secs(seconds) + Duration::from_micros(micros);
    Some(Transaction {
        client,
        number,
        ended,
        latency_us,
        lag_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_gives_latency_and_end() {
        let line = parse_line("0 199 2241 0 1175850568 995598").unwrap();
        assert_eq!((line.client, line.number), (0, 199));
        assert_eq!(line.latency_us, Some(2241));
        assert_eq!(line.ended, Duration::from_micros(1_175_850_568_995_598));
        let failed = parse_line("3 0 failed 0 1499414498 84905").unwrap();
        assert_eq!(failed.latency_us, None);
        let with_lag = parse_line("0 1 300 0 1175850568 7 120").unwrap();
        assert_eq!((with_lag.latency_us, with_lag.lag_us), (Some(300), 120));
        assert_eq!(with_lag.since_begin().latency_us, Some(180));
        assert_eq!(parse_line("pgbench: error"), None);
    }

    #[test]
    fn quantile_takes_the_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(quantile(&hundred, 990), Some(99));
        assert_eq!(quantile(&hundred, 500), Some(50));
        assert_eq!(quantile(&[7], 990), Some(7));
        assert_eq!(quantile(&[], 990), None);
    }

    #[test]
    fn a_line_that_is_being_written_is_left_out() {
        let found: Vec<&str> = whole_lines("0 1 2 0 9 1\n0 2 2 0 9").collect();
        assert_eq!(found, ["0 1 2 0 9 1"]);
        assert_eq!(whole_lines("").count(), 0);
    }

    #[test]
    fn only_what_ended_in_the_window_is_summed_up() {
        let at = |ended, latency_us| Transaction {
            ended: Duration::from_secs(ended),
            latency_us,
            ..Transaction::default()
        };
        let log = [
            at(1, Some(1000)),
            at(2, Some(10)),
            at(3, None),
            at(4, Some(30)),
            at(5, Some(2000)),
        ];
        let found = tally(&log, Duration::from_secs(1), Duration::from_secs(4)).unwrap();
        let expected = Tally {
            transactions: 2,
            failures: 1,
            mean_us: 20.0,
            p50_us: 10,
            p99_us: 30,
            max_us: 30,
        };
        assert_eq!(found, expected);
        assert_eq!(tally(&log, Duration::from_secs(5), Duration::MAX), None);
    }
}
