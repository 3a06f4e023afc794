//! Parses pgbench's output: a line per second, and its error messages.

use std::time::Duration;

/// Line of `--progress=1 --progress-timestamp`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Second {
    /// Start, since the Unix epoch.
    pub(super) begin: Duration,
    /// End, since the Unix epoch.
    pub(super) end: Duration,
    /// Transactions per second.
    pub(super) tps: f64,
    /// Mean latency in microseconds.
    pub(super) mean_us: f64,
    /// Standard deviation of the latency in microseconds.
    pub(super) stddev_us: f64,
    /// Number of transactions that failed.
    pub(super) failures: u64,
}

impl Second {
    pub(super) fn transactions(&self) -> f64 {
        self.tps * self.end.saturating_sub(self.begin).as_secs_f64()
    }
}

/// Assumed length of the first interval: its line tells only its end.
const INTERVAL: Duration = Duration::from_secs(1);

/// Returns all progress lines in order. A late line covers the time since the previous one; time after the last
/// line is left out.
pub(super) fn seconds(output: &str) -> Vec<Second> {
    let mut found: Vec<Second> = Vec::new();
    for line in output.lines() {
        let Some(mut second) = parse(line) else {
            continue;
        };
        if let Some(before) = found.last() {
            second.begin = before.end;
        }
        if second.end > second.begin {
            found.push(second);
        }
    }
    found
}

/// Parses `progress: 1700000000.123 s, 1234.5 tps, lat 0.4 ms stddev 0.1, 0 failed, lag 0.012 ms`. `failed` exists
/// from PostgreSQL 15 on, `lag` with a rate.
fn parse(line: &str) -> Option<Second> {
    let mut parts = line.strip_prefix("progress: ")?.split(", ");
    let end: f64 = parts.next()?.strip_suffix(" s")?.parse().ok()?;
    let tps = parts.next()?.strip_suffix(" tps")?.parse().ok()?;
    let latency = parts.next()?.strip_prefix("lat ")?;
    let (mean, stddev) = latency.split_once(" ms stddev ")?;
    let failures = parts
        .next()
        .and_then(|part| part.strip_suffix(" failed"))
        .and_then(|count| count.parse().ok())
        .unwrap_or(0);
    let end = Duration::try_from_secs_f64(end).ok()?;
    // A second without a transaction has no latency: `nan`, or `-nan`.
    let micros = |ms: &str| {
        let ms: f64 = ms.parse().ok()?;
        Some(if ms.is_finite() { ms * 1000.0 } else { 0.0 })
    };
    Some(Second {
        begin: end.checked_sub(INTERVAL)?,
        end,
        tps,
        mean_us: micros(mean).unwrap_or(0.0),
        stddev_us: micros(stddev).unwrap_or(0.0),
        failures,
    })
}

/// Parses `tps = 1234.5 (without initial connection time)`, the rate of the whole run. The words in brackets differ
/// between versions.
pub(super) fn rate(output: &str) -> Option<f64> {
    let line = output
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("tps = "))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the first few distinct errors: every client may have reported the same.
pub(super) fn complaints(output: &str) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for line in output.lines().filter(|line| line.contains("error:")) {
        // `client 7 script 0 aborted in ...: ERROR:  ...`: errors that differ only in the number are the same.
        let what = line
            .rsplit_once("ERROR:")
            .or_else(|| line.rsplit_once("error:"))
            .map_or(line, |(_, what)| what)
            .trim();
        if !seen.contains(&what) {
            seen.push(what);
        }
    }
    seen.truncate(3);
    seen.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_versions_are_understood() {
        let fifteen = "progress: 1700000001.250 s, 1234.5 tps, lat 0.400 ms stddev 0.100, 2 failed";
        let second = parse(fifteen).unwrap();
        assert_eq!(second.end, Duration::from_millis(1_700_000_001_250));
        assert_eq!((second.tps, second.failures), (1234.5, 2));
        assert!((second.mean_us - 400.0).abs() < 1e-9);
        assert!((second.stddev_us - 100.0).abs() < 1e-9);
        let fourteen = "progress: 1700000001.250 s, 10.0 tps, lat 0.400 ms stddev 0.100";
        assert_eq!(parse(fourteen).unwrap().failures, 0);
        let rate = format!("{fifteen}, lag 0.015 ms");
        assert_eq!(parse(&rate), Some(second));
        assert_eq!(parse("number of clients: 5"), None);
    }

    #[test]
    fn the_rate_of_a_run_stands_at_its_end() {
        let output = "number of threads: 1\ntps = 95.5 (without initial connection time)\n";
        assert_eq!(rate(output), Some(95.5));
        assert_eq!(rate("latency average = 1 ms\n"), None);
    }

    #[test]
    fn seconds_follow_each_other_and_idle_ones_count() {
        let output = "pgbench (15.20)\n\
            progress: 100.010 s, 100.0 tps, lat 1.000 ms stddev 0.0, 0 failed\n\
            progress: 101.510 s, 10.0 tps, lat 1.000 ms stddev 0.0, 0 failed\n\
            progress: 102.010 s, 0.0 tps, lat -nan ms stddev -nan, 0 failed\n";
        let found = seconds(output);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].begin, Duration::from_millis(99_010));
        assert!((found[1].transactions() - 15.0).abs() < 1e-9, "{found:?}");
        assert_eq!((found[2].mean_us, found[2].tps), (0.0, 0.0));
    }

    #[test]
    fn the_same_complaint_of_many_clients_is_told_once() {
        let output = "pgbench: error: client 1 aborted: ERROR:  no such thing\n\
                      pgbench: error: client 2 aborted: ERROR:  no such thing\n\
                      tps = 1\npgbench: error: Run was aborted\n";
        assert_eq!(complaints(output), "no such thing; Run was aborted");
    }
}
