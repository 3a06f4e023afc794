//! Latencies of transactions: a histogram per thread, merged at the end, and exact sums beside it.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::record::Latency;

/// Largest time of the histogram; longer ones are counted as this. [`Latency::max`] has the exact
/// maximum.
const LONGEST_US: u64 = 60_000_000;

/// Significant digits of the histogram: quantiles are exact to 0.1 %.
const DIGITS: u8 = 3;

/// Times in microseconds.
#[derive(Debug, Clone)]
pub(super) struct Latencies {
    buckets: Histogram<u64>,
    sum_us: u128,
    sum_of_squares: u128,
    max_us: u64,
}

impl Latencies {
    pub(super) fn new() -> Self {
        let buckets = Histogram::new_with_bounds(1, LONGEST_US, DIGITS);
        Self {
            buckets: buckets.expect("the bounds are constants that fit"),
            sum_us: 0,
            sum_of_squares: 0,
            max_us: 0,
        }
    }

    /// Records one time. Less than a microsecond counts as one.
    pub(super) fn record(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.buckets.saturating_record(us.clamp(1, LONGEST_US));
        self.sum_us += u128::from(us);
        self.sum_of_squares += u128::from(us) * u128::from(us);
        self.max_us = self.max_us.max(us);
    }

    /// Adds the times of another thread.
    pub(super) fn merge(&mut self, other: &Self) {
        let added = self.buckets.add(&other.buckets);
        added.expect("histograms with the same bounds can be added");
        self.sum_us += other.sum_us;
        self.sum_of_squares += other.sum_of_squares;
        self.max_us = self.max_us.max(other.max_us);
    }

    pub(super) fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Returns a quantile in microseconds; `None` without any times.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(super) fn quantile(&self, quantile: f64) -> Option<f64> {
        (self.count() > 0).then(|| self.buckets.value_at_quantile(quantile) as f64)
    }

    /// Returns all figures; `None` without any times.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn summary(&self) -> Option<Latency> {
        let at = |quantile| self.quantile(quantile);
        let count = self.count() as f64;
        let (p50, p90, p99, p999) = (at(0.5)?, at(0.9)?, at(0.99)?, at(0.999)?);
        let mean = self.sum_us as f64 / count;
        let variance = self.sum_of_squares as f64 / count - mean * mean;
        let recorded = self.buckets.iter_recorded();
        let pairs = recorded.map(|one| (one.value_iterated_to(), one.count_at_value()));
        Some(Latency {
            mean,
            stddev: variance.max(0.0).sqrt(),
            p50,
            p90,
            p99,
            p999,
            max: self.max_us as f64,
            histogram: Some(pairs.collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::new();
        for us in times {
            latencies.record(Duration::from_micros(us));
        }
        latencies
    }

    #[test]
    fn merged_histograms_are_that_of_all_times() {
        let mut merged = of(1..=500);
        merged.merge(&of(501..=1000));
        assert_eq!(merged.summary(), of(1..=1000).summary());

        let summary = merged.summary().unwrap();
        assert_eq!((summary.p50, summary.p99), (500.0, 990.0));
        assert_eq!((summary.mean, summary.max), (500.5, 1000.0));
        assert!((summary.stddev - 288.675).abs() < 0.001);
        let buckets = summary.histogram.unwrap();
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        assert!(buckets.is_sorted_by(|one, next| one.0 < next.0));
    }

    #[test]
    fn figures_are_within_a_thousandth() {
        let summary = of([123_456]).summary().unwrap();
        assert!((summary.p50 - 123_456.0).abs() <= 123.456);
        assert_eq!(summary.max, 123_456.0);
    }

    #[test]
    fn what_is_out_of_bounds_is_counted_at_the_bound() {
        let latencies = of([0, 90_000_000]);
        let summary = latencies.summary().unwrap();
        assert_eq!(latencies.count(), 2);
        assert_eq!(summary.max, 90_000_000.0);
        assert_eq!(summary.mean, 45_000_000.0);
        assert!((summary.p999 - 60_000_000.0).abs() <= 60_000.0);
    }

    #[test]
    fn nothing_has_no_figures() {
        assert_eq!(of([]).summary(), None);
        assert_eq!(of([]).quantile(0.5), None);
    }
}
