//! The ratio of two targets from pairs that were measured in the same block.
//!
//! A ratio is taken inside of a block, where both met the same machine, and then averaged: never a ratio of means
//! across blocks or days. Averages of ratios are geometric, so that double and half cancel out.

use super::{Interval, Sample};

/// What several pairs say about one ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// How many blocks had both.
    pub pairs: usize,
    /// Geometric mean of the pairs' ratios.
    pub mean: f64,
    /// Smallest of the ratios.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Of the geometric mean, by Student's t on the logarithms; absent for one pair.
    pub interval: Option<Interval>,
}

impl Ratio {
    /// From pairs of (theirs, base). `None` if there is no pair or a value that is not positive and finite.
    #[must_use]
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let positive = |value: &f64| value.is_finite() && *value > 0.0;
        if !pairs
            .iter()
            .all(|(one, base)| positive(one) && positive(base))
        {
            return None;
        }
        let logs: Vec<f64> = pairs.iter().map(|(one, base)| (one / base).ln()).collect();
        Self::of_logs(&logs)
    }

    /// From logarithms of ratios.
    #[must_use]
    pub fn of_logs(logs: &[f64]) -> Option<Self> {
        let sample = Sample::of(logs)?;
        let interval = sample.interval().map(|logs| Interval {
            low: logs.low.exp(),
            high: logs.high.exp(),
        });
        Some(Self {
            pairs: sample.count,
            mean: super::finite(sample.mean.exp())?,
            min: sample.min.exp(),
            max: sample.max.exp(),
            interval: interval.filter(|interval| interval.high.is_finite()),
        })
    }

    /// Whether the interval leaves 1 out. `None` for one pair: nothing can be said.
    #[must_use]
    pub fn differs(&self) -> Option<bool> {
        self.interval.map(|interval| !interval.contains(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::close;

    #[test]
    fn half_and_double_cancel_out() {
        let ratio = Ratio::of(&[(1.0, 2.0), (2.0, 1.0)]).unwrap();
        close(ratio.mean, 1.0, 1e-12);
        close(ratio.min, 0.5, 1e-12);
        close(ratio.max, 2.0, 1e-12);
        assert_eq!(ratio.differs(), Some(false));
    }

    #[test]
    fn interval_is_the_t_interval_of_the_logarithms() {
        // Logs 0.1, 0.2, 0.3: mean 0.2, deviation 0.1, half of the width 4.302653 * 0.1 / sqrt(3) = 0.248414.
        let pairs = [0.1_f64, 0.2, 0.3].map(|log| (log.exp() * 7.0, 7.0));
        let interval = Ratio::of(&pairs).unwrap().interval.unwrap();
        close(interval.low, (0.2_f64 - 0.248_414).exp(), 1e-6);
        close(interval.high, (0.2_f64 + 0.248_414).exp(), 1e-6);
    }

    #[test]
    fn a_drift_that_both_met_does_not_widen_it() {
        let ratio = Ratio::of(&[(110.0, 100.0), (220.0, 200.0), (55.0, 50.0)]).unwrap();
        close(ratio.mean, 1.1, 1e-12);
        assert_eq!(ratio.differs(), Some(true));
    }

    #[test]
    fn one_pair_is_no_claim_and_nonsense_is_refused() {
        let one = Ratio::of(&[(3.0, 2.0)]).unwrap();
        close(one.mean, 1.5, 1e-12);
        assert_eq!(one.differs(), None);
        assert_eq!(Ratio::of(&[]), None);
        assert_eq!(Ratio::of(&[(1.0, 0.0)]), None);
        assert_eq!(Ratio::of(&[(-1.0, 1.0)]), None);
        assert_eq!(Ratio::of(&[(f64::NAN, 1.0)]), None);
    }

    #[test]
    fn an_interval_too_wide_for_a_number_is_left_out() {
        let wild = Ratio::of(&[(1e-200, 1e100), (1e200, 1e-90)]).unwrap();
        assert_eq!(wild.interval, None);
    }
}
