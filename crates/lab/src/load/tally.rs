//! Counters of one thread, and their sum over all threads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::load::failure::Failure;
use crate::load::latencies::Latencies;
use crate::record::{Outcome, Spread};

/// The times of a run. `start <= from < until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// Transactions may begin; those that end before `from` are warm-up.
    pub(super) start: Instant,
    /// Start of the measured time.
    pub(super) from: Instant,
    /// End of the measured time, exclusive.
    pub(super) until: Instant,
}

impl Window {
    pub(super) fn contains(&self, at: Instant) -> bool {
        self.from <= at && at < self.until
    }
}

/// Counters of one thread.
#[derive(Debug)]
pub(super) struct Tally {
    window: Option<Window>,
    /// True in an open loop: latencies are selected by intended start, and all transactions with a start in time
    /// are waited for.
    by_intention: bool,
    transactions: u64,
    errors: u64,
    by_code: BTreeMap<Box<str>, u64>,
    first_failure: Option<Failure>,
    /// Transactions at any time, failed ones included.
    pub(super) total: u64,
    /// Number of failures at any time.
    pub(super) total_errors: u64,
    latencies: Latencies,
    lags: Latencies,
    per_second: Vec<u64>,
    payload: u64,
    last: Option<Instant>,
    unfinished: u64,
    connected: u64,
    per_client: Vec<u64>,
}

impl Tally {
    pub(super) fn new(by_intention: bool) -> Self {
        Self {
            window: None,
            by_intention,
            transactions: 0,
            errors: 0,
            by_code: BTreeMap::new(),
            first_failure: None,
            total: 0,
            total_errors: 0,
            latencies: Latencies::new(),
            lags: Latencies::new(),
            per_second: Vec::new(),
            payload: 0,
            last: None,
            unfinished: 0,
            connected: 0,
            per_client: Vec::new(),
        }
    }

    /// Sets the measured time.
    pub(super) fn open(&mut self, window: Window) {
        self.window = Some(window);
    }

    /// Records that a transaction with this intended start has begun.
    pub(super) fn began(&mut self, intended: Instant, now: Instant) {
        if self.by_intention && self.is_measured(intended) {
            self.lags.record(now.saturating_duration_since(intended));
        }
    }

    /// Records the end of a transaction. Returns true if it counts for its client.
    pub(super) fn finished(&mut self, intended: Instant, now: Instant) -> bool {
        self.total += 1;
        self.last = Some(now);
        let ended_in_time = self.is_measured(now);
        let counts = match self.by_intention {
            true => self.is_measured(intended),
            false => ended_in_time,
        };
        if counts {
            self.latencies
                .record(now.saturating_duration_since(intended));
        }
        if let Some(window) = self.window.filter(|_| ended_in_time) {
            self.transactions += 1;
            let second = now.saturating_duration_since(window.from).as_secs();
            let second = usize::try_from(second).unwrap_or(usize::MAX);
            if second >= self.per_second.len() {
                self.per_second.resize(second + 1, 0);
            }
            if let Some(count) = self.per_second.get_mut(second) {
                *count += 1;
            }
        }
        ended_in_time
    }

    /// Records the failure of a transaction or of a connection.
    pub(super) fn failed(&mut self, failure: Failure, is_transaction: bool, now: Instant) {
        self.total += u64::from(is_transaction);
        self.total_errors += 1;
        self.last = Some(now);
        if self.is_measured(now) {
            self.errors += 1;
            *self.by_code.entry(failure.code.clone()).or_default() += 1;
        }
        self.first_failure.get_or_insert(failure);
    }

    /// Records a transaction that was not over at the end of the drain time. In an open loop its time so far enters
    /// the latencies.
    pub(super) fn unfinished(&mut self, intended: Instant, now: Instant) {
        self.unfinished += 1;
        if self.by_intention && self.is_measured(intended) {
            self.latencies
                .record(now.saturating_duration_since(intended));
        }
    }

    /// Adds bytes of payload that were transferred just now.
    pub(super) fn carried(&mut self, bytes: u64, now: Instant) {
        if bytes > 0 && self.is_measured(now) {
            self.payload += bytes;
        }
    }

    /// Records the final state: transactions of each client, and the number of connected clients.
    pub(super) fn close(&mut self, per_client: Vec<u64>, connected: u64) {
        self.per_client = per_client;
        self.connected = connected;
    }

    fn is_measured(&self, at: Instant) -> bool {
        self.window.is_some_and(|window| window.contains(at))
    }

    /// Adds the counters of another thread.
    pub(super) fn merge(&mut self, other: Self) {
        self.window = self.window.or(other.window);
        self.transactions += other.transactions;
        self.errors += other.errors;
        for (code, count) in other.by_code {
            *self.by_code.entry(code).or_default() += count;
        }
        self.first_failure = self.first_failure.take().or(other.first_failure);
        self.total += other.total;
        self.total_errors += other.total_errors;
        self.latencies.merge(&other.latencies);
        self.lags.merge(&other.lags);
        let seconds = self.per_second.len().max(other.per_second.len());
        self.per_second.resize(seconds, 0);
        for (sum, count) in self.per_second.iter_mut().zip(other.per_second) {
            *sum += count;
        }
        self.payload += other.payload;
        self.last = self.last.max(other.last);
        self.unfinished += other.unfinished;
        self.connected += other.connected;
        self.per_client.extend(other.per_client);
    }

    /// Returns the first failure as text.
    pub(super) fn first_failure(&self) -> Option<String> {
        let failure = self.first_failure.as_ref()?;
        Some(format!("{} ({})", failure.message, failure.code))
    }

    /// Returns the time of the last end of a transaction or failure.
    pub(super) fn last(&self) -> Option<Instant> {
        self.last
    }

    /// Returns the result of a run that was measured until `end`.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn outcome(mut self, end: Instant) -> Outcome {
        let measured = self
            .window
            .map(|window| end.min(window.until).saturating_duration_since(window.from));
        let seconds = measured.unwrap_or(Duration::ZERO).as_secs_f64();
        let per_s = |count: u64| match seconds > 0.0 {
            true => count as f64 / seconds,
            false => 0.0,
        };
        // Partial seconds are left out; seconds without a transaction are included as zeros.
        let whole = usize::try_from(measured.unwrap_or_default().as_secs()).unwrap_or(0);
        self.per_second.resize(whole, 0);
        let codes = self.by_code.iter();
        Outcome {
            transactions: self.transactions,
            errors: self.errors,
            errors_by_code: codes.map(|(code, n)| (code.to_string(), *n)).collect(),
            first_error: self.first_failure(),
            seconds,
            tps: per_s(self.transactions),
            bytes_per_s: (self.payload > 0).then(|| per_s(self.payload)),
            latency: self.latencies.summary(),
            per_second: self.per_second.iter().map(|count| *count as f64).collect(),
            per_client: spread(&mut self.per_client),
            lag_us_p50: self.lags.quantile(0.5),
            lag_us_p99: self.lags.quantile(0.99),
            unfinished: self.unfinished,
            connected: Some(self.connected),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn spread(counts: &mut [u64]) -> Option<Spread> {
    counts.sort_unstable();
    let (min, max) = (*counts.first()? as f64, *counts.last()? as f64);
    let upper = *counts.get(counts.len() / 2)? as f64;
    let lower = *counts.get((counts.len() - 1) / 2)? as f64;
    let count = counts.len() as f64;
    let mean = counts.iter().map(|n| *n as f64).sum::<f64>() / count;
    let squares = counts.iter().map(|n| (*n as f64 - mean).powi(2));
    let variance = squares.sum::<f64>() / count;
    Some(Spread {
        min,
        median: f64::midpoint(lower, upper),
        max,
        variation: match mean > 0.0 {
            true => variance.sqrt() / mean,
            false => 0.0,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::clock;

    const MS: Duration = Duration::from_millis(1);

    /// Warm-up of 100 ms, measured for 2.5 s.
    fn window() -> Window {
        let start = clock::now();
        let from = start + 100 * MS;
        Window {
            start,
            from,
            until: from + 2500 * MS,
        }
    }

    fn tally(by_intention: bool, window: Window) -> Tally {
        let mut tally = Tally::new(by_intention);
        tally.open(window);
        tally
    }

    #[test]
    fn the_edges_are_exact() {
        let window = window();
        let mut tally = tally(false, window);
        let nano = Duration::from_nanos(1);
        assert!(!tally.finished(window.start, window.from - nano));
        assert!(tally.finished(window.start, window.from));
        assert!(tally.finished(window.start, window.until - nano));
        assert!(!tally.finished(window.start, window.until));
        let outcome = tally.outcome(window.until);
        assert_eq!((outcome.transactions, outcome.seconds), (2, 2.5));
        assert_eq!((outcome.tps, outcome.per_second), (0.8, vec![1.0, 0.0]));
    }

    #[test]
    fn a_second_without_transactions_is_told() {
        let window = window();
        let outcome = tally(false, window).outcome(window.until);
        assert_eq!(outcome.per_second, [0.0, 0.0]);
        assert_eq!(outcome.latency, None);
    }

    #[test]
    fn in_open_loop_what_was_to_begin_in_time_is_counted_whenever_it_ends() {
        let window = window();
        let mut tally = tally(true, window);
        let late = window.until + 700 * MS;
        tally.finished(window.until - 300 * MS, late);
        tally.unfinished(window.until - 100 * MS, late);
        // Intended start in the warm-up, though it ended later.
        tally.finished(window.start, window.from + MS);
        tally.began(window.from, window.from + MS);
        let outcome = tally.outcome(window.until);
        let latency = outcome.latency.unwrap();
        assert_eq!((latency.mean, latency.max), (900_000.0, 1_000_000.0));
        assert_eq!((outcome.transactions, outcome.unfinished), (1, 1));
        assert_eq!(outcome.lag_us_p50, Some(1000.0));
    }

    #[test]
    fn threads_add_up() {
        let window = window();
        let failure = |code: &str| Failure {
            code: code.into(),
            message: "no".into(),
        };
        let mut one = tally(false, window);
        let mut two = tally(false, window);
        one.finished(window.from, window.from + MS);
        two.finished(window.from, window.from + 1100 * MS);
        one.failed(failure("40001"), true, window.from);
        two.failed(failure("40001"), true, window.from);
        two.failed(failure("closed"), false, window.from);
        two.failed(failure("closed"), false, window.start);
        one.close(vec![1, 2], 2);
        two.close(vec![6], 0);
        one.merge(two);
        assert_eq!((one.total, one.total_errors), (4, 4));
        let outcome = one.outcome(window.until);
        assert_eq!((outcome.transactions, outcome.errors), (2, 3));
        let codes: Vec<_> = outcome.errors_by_code.into_iter().collect();
        assert_eq!(codes, [("40001".to_owned(), 2), ("closed".to_owned(), 1)]);
        assert_eq!(outcome.first_error.as_deref(), Some("no (40001)"));
        assert_eq!(outcome.per_second, [1.0, 1.0]);
        let spread = outcome.per_client.unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 6.0));
        assert!((spread.variation - 0.72).abs() < 0.001, "{spread:?}");
    }
}
