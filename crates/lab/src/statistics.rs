//! Statistics of a benchmark with few, noisy, paired values: pure functions of slices, without output format.
//!
//! A result that cannot be computed is `None`: no value, a value that is not finite, an interval of one value. For
//! finite input no function returns NaN or an infinity. A caller reports in words where a method needs more values
//! than there are.

pub mod bootstrap;
pub mod histogram;
pub mod noise;
pub mod rank;
pub mod ratio;
pub mod steady;
pub mod student;

pub use noise::Noise;
pub use ratio::{Adjusted, Ratio, unexplained};
pub use steady::Steadiness;

/// Confidence level of every interval in this crate.
pub const CONFIDENCE: f64 = 0.95;

/// Interval, both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// True if `value` is in the interval.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Statistics of a few values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Number of values, at least 1.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Middle value, or the mean of the two in the middle.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Standard deviation with n - 1; absent for one value.
    pub deviation: Option<f64>,
}

impl Sample {
    /// Computes the statistics; `None` if there is no value, or one that is not finite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mean = mean(values)?;
        Some(Self {
            count: values.len(),
            mean,
            median: median(values)?,
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
            deviation: deviation(values, mean),
        })
    }

    /// Returns the coefficient of variation: standard deviation over mean.
    #[must_use]
    pub fn variation(&self) -> Option<f64> {
        finite(self.deviation? / self.mean)
    }

    /// Returns the interval of the mean by Student's t.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        let half = half_width(self.count)? * self.deviation?;
        Some(Interval {
            low: self.mean - half,
            high: self.mean + half,
        })
    }
}

/// Returns half the width of the 95 % interval of a mean of `count` values, in standard deviations: 2.48 for 3,
/// 0.72 for 10. `None` for fewer than 2.
#[must_use]
pub fn half_width(count: usize) -> Option<f64> {
    let freedom = float(count.checked_sub(1)?);
    let t = student::quantile(f64::midpoint(1.0, CONFIDENCE), freedom)?;
    finite(t / float(count).sqrt())
}

/// Returns the arithmetic mean; `None` if there is no value, or one that is not finite.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    finite(values.iter().sum::<f64>() / float(values.len()))
}

/// Returns the middle value, or the mean of the two in the middle. `None` as for [`mean`].
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    if !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

fn deviation(values: &[f64], mean: f64) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|free| *free > 0)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    finite((squares / float(freedom)).sqrt())
}

/// Returns a finite value, else `None`. All results pass through here.
pub(crate) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Converts a count. Counts of cells, blocks and seconds stay far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn close(left: f64, right: f64, within: f64) {
        assert!((left - right).abs() <= within, "{left} is not {right}");
    }

    #[test]
    fn describes_a_textbook_sample() {
        let sample = Sample::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(sample.count, 8);
        close(sample.mean, 5.0, 1e-12);
        close(sample.median, 4.5, 1e-12);
        close(sample.min, 2.0, 0.0);
        close(sample.max, 9.0, 0.0);
        close(sample.deviation.unwrap(), (32.0_f64 / 7.0).sqrt(), 1e-12);
        close(sample.variation().unwrap(), 0.427_618, 1e-6);
    }

    #[test]
    fn interval_of_the_mean_is_that_of_the_tables() {
        // Mean 3, deviation sqrt(2.5), t(0.975, 4) = 2.776: half of the width is 1.9632.
        let interval = Sample::of(&[1.0, 2.0, 3.0, 4.0, 5.0])
            .unwrap()
            .interval()
            .unwrap();
        close(interval.low, 3.0 - 1.963_243, 1e-6);
        close(interval.high, 3.0 + 1.963_243, 1e-6);
    }

    #[test]
    fn one_value_has_no_spread_and_none_has_nothing() {
        let one = Sample::of(&[3.0]).unwrap();
        assert_eq!((one.deviation, one.interval()), (None, None));
        assert_eq!(Sample::of(&[]), None);
        assert_eq!(Sample::of(&[1.0, f64::NAN]), None);
        assert_eq!(Sample::of(&[1.0, f64::INFINITY]), None);
        assert_eq!(median(&[]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(Sample::of(&[0.0, 0.0]).unwrap().variation(), None);
    }

    #[test]
    fn half_widths_are_those_of_three_five_and_ten() {
        close(half_width(3).unwrap(), 2.48, 0.005);
        close(half_width(4).unwrap(), 1.59, 0.005);
        close(half_width(5).unwrap(), 1.24, 0.005);
        close(half_width(10).unwrap(), 0.72, 0.005);
        assert_eq!(half_width(1), None);
        assert_eq!(half_width(0), None);
    }
}
