//! Recent hold times of transactions, which determine the lengths of waits and blocks.

use std::time::Duration;

use crate::controller::observation::Totals;

/// Time constant of the fading sums: they follow a change of the limit within a few blocks.
const MOMENTS_FORGET_S: f64 = 5.0;
/// Time constant of percentiles, which need more transactions.
const PERCENTILES_FORGET_S: f64 = 30.0;
/// Time constant of demand, about as long as a settled size is left alone.
const PEAK_FORGET_S: f64 = 30.0;
/// Minimum age at which a transaction is called long, however short the others are.
const PIN_AFTER_MIN_S: f64 = 30.0;

/// The last few seconds of the pool, as sums that fade.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pace {
    completions: f64,
    hold_s: f64,
    hold_s_squared: f64,
    in_use_s: f64,
    waiting_s: f64,
    /// Completions by half octave, with the hold time in its middle.
    lengths: Vec<(f64, f64)>,
    /// Number of seconds that the fading sums represent.
    seconds: f64,
    /// Peak of clients that had or wanted a server, faded since.
    peak: f64,
    /// The 99th percentile, computed once per observation.
    p99_s: f64,
}

impl Pace {
    /// Adds the changes of the last `passed_s` seconds.
    pub(crate) fn note(&mut self, passed_s: f64, then: &Totals, now: &Totals, demand: f64) {
        let fade = (-passed_s / MOMENTS_FORGET_S).exp();
        self.completions =
            self.completions * fade + now.completions.saturating_sub(then.completions) as f64;
        self.hold_s = self.hold_s * fade + (now.hold_s - then.hold_s);
        self.hold_s_squared =
            self.hold_s_squared * fade + (now.hold_s_squared - then.hold_s_squared);
        self.in_use_s = self.in_use_s * fade + (now.in_use_s - then.in_use_s);
        self.waiting_s = self.waiting_s * fade + (now.waiting_s - then.waiting_s);
        self.seconds = self.seconds * fade + passed_s;
        self.peak = (self.peak * (-passed_s / PEAK_FORGET_S).exp()).max(demand);
        self.note_lengths(passed_s, then, now);
    }

    fn note_lengths(&mut self, passed_s: f64, then: &Totals, now: &Totals) {
        let fade = (-passed_s / PERCENTILES_FORGET_S).exp();
        let added = now.holds.since(&then.holds);
        if self.lengths.is_empty() {
            self.lengths = added
                .map(|(count, middle)| (count as f64, middle))
                .collect();
        } else {
            for (length, (count, _)) in self.lengths.iter_mut().zip(added) {
                length.0 = length.0 * fade + count as f64;
            }
        }
        self.p99_s = self.quantile(0.99);
    }

    fn quantile(&self, part: f64) -> f64 {
        let all: f64 = self.lengths.iter().map(|(count, _)| count).sum();
        let mut below = 0.0;
        for (count, middle) in &self.lengths {
            below += count;
            if below >= all * part && *count > 0.0 {
                return *middle;
            }
        }
        0.0
    }

    /// Returns the length of the hold that a random server-second belongs to: Σh²/Σh. The mean would make a limit look
    /// good because short transactions rush in first.
    pub(crate) fn size_biased_hold_s(&self) -> f64 {
        if self.hold_s > 0.0 {
            self.hold_s_squared / self.hold_s
        } else {
            0.0
        }
    }

    /// Returns the age from which a transaction counts as pinned, beside the load: ten times the 99th percentile, and
    /// longer than the transactions that mostly fill the pool.
    pub(crate) fn pin_after(&self) -> Duration {
        if self.p99_s <= 0.0 {
            return Duration::MAX;
        }
        let seconds = PIN_AFTER_MIN_S
            .max(10.0 * self.p99_s)
            .max(4.0 * self.size_biased_hold_s());
        Duration::from_secs_f64(seconds)
    }

    pub(crate) const fn p99_s(&self) -> f64 {
        self.p99_s
    }

    pub(crate) fn completions_per_s(&self) -> f64 {
        self.per_second(self.completions)
    }

    /// Average number of servers in use, without pinned ones.
    pub(crate) fn in_use(&self) -> f64 {
        self.per_second(self.in_use_s)
    }

    /// Average number of clients in the queue.
    pub(crate) fn waiting(&self) -> f64 {
        self.per_second(self.waiting_s)
    }

    fn per_second(&self, sum: f64) -> f64 {
        if self.seconds > 0.0 {
            sum / self.seconds
        } else {
            0.0
        }
    }

    /// Peak of clients that lately had or wanted a server.
    pub(crate) const fn peak(&self) -> f64 {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_biased_hold_is_that_of_the_long_ones() {
        let mut pace = Pace::default();
        let mut totals = Totals::default();
        for _ in 0..99 {
            totals.record(0, Duration::from_millis(1));
        }
        totals.record(1, Duration::from_millis(200));
        pace.note(1.0, &Totals::default(), &totals, 7.0);
        // (99 · 1² + 200²) / (99 + 200) = 134.1
        assert!((pace.size_biased_hold_s() - 0.1341).abs() < 1e-4);
        assert!((0.8e-3..1.3e-3).contains(&pace.p99_s()));
        assert!((pace.peak() - 7.0).abs() < 1e-9);
        assert!((pace.completions_per_s() - 100.0).abs() < 1e-9);
    }

    #[test]
    fn without_transactions_there_is_no_pace() {
        let mut pace = Pace::default();
        pace.note(0.05, &Totals::default(), &Totals::default(), 0.0);
        assert!(
            pace.size_biased_hold_s().abs() < f64::EPSILON && pace.p99_s().abs() < f64::EPSILON
        );
    }
}
