//! Ratio of two targets from pairs of values that were measured in the same block.
//!
//! Ratios are taken inside of a block, where both targets ran under the same conditions, and then averaged. Means
//! across blocks or days are never divided. The averages are geometric, so that double and half cancel out.

use super::{CONFIDENCE, Interval, Sample, student};

/// Minimum degrees of freedom for a useful interval of [`Ratio::adjusted`].
const FREEDOM_MIN: usize = 2;

/// Ratio of two targets over several pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Number of blocks that have both targets.
    pub pairs: usize,
    /// Geometric mean of the pairs' ratios.
    pub mean: f64,
    /// Smallest of the ratios.
    pub min: f64,
    /// Largest of the ratios.
    pub max: f64,
    /// Interval of the geometric mean, by Student's t on the logarithms; absent for a single pair.
    pub interval: Option<Interval>,
}

/// Ratio corrected for conditions that neither target determines.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjusted {
    /// Ratio under equal conditions.
    pub ratio: Ratio,
    /// Effect of the differing conditions on the logarithm of each pair's ratio.
    pub effects: Vec<f64>,
    /// Share of the logarithms' variance that the differences explain, 0 to 1.
    pub explained: f64,
}

impl Ratio {
    /// Computes the ratio from pairs of (target, base). `None` if there is no pair or a value that is not positive
    /// and finite.
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

    /// Computes the ratio from logarithms of ratios.
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

    /// Estimates the ratio that two targets would have under equal conditions. `logs` are logarithms of ratios.
    /// `differences` has one list per condition, each as long as `logs`: the difference of that condition within
    /// each pair, such as of processor speeds.
    ///
    /// The method is analysis of covariance: a plane through the points by least squares, and its height where no
    /// condition differs. The interval of this height is by Student's t with n - 1 degrees of freedom less one per
    /// condition. `min` and `max` are of the ratios without the effects of the conditions.
    ///
    /// `None` with fewer than two degrees of freedom, or for a value that is not finite. Also `None` if a condition
    /// never differs, always differs by the same amount, or always differs as others do.
    #[must_use]
    pub fn adjusted(logs: &[f64], differences: &[Vec<f64>]) -> Option<Adjusted> {
        let freedom = logs.len().checked_sub(1 + differences.len());
        let freedom = freedom.filter(|freedom| *freedom >= FREEDOM_MIN)?;
        // Parts of a constant level and of the ratios that the differences cannot explain.
        let same = unexplained(&vec![1.0; logs.len()], differences)?;
        let seen = unexplained(logs, differences)?;
        let weight = super::finite(dot(&same, &same))
            .filter(|weight| *weight > OWN_MIN * super::float(logs.len()))?;
        let level = dot(&same, &seen) / weight;
        let left: Vec<f64> = seen.iter().zip(&same).map(|(y, x)| y - level * x).collect();
        let squares = dot(&left, &left);
        let freedom = super::float(freedom);
        let t = student::quantile(f64::midpoint(1.0, CONFIDENCE), freedom)?;
        let half = t * (squares / freedom / weight).sqrt();
        let even: Vec<f64> = left.iter().map(|rest| level + rest).collect();
        let middle = super::mean(logs)?;
        let total: f64 = logs.iter().map(|y| (y - middle).powi(2)).sum();
        let sample = Sample::of(&even)?;
        let ratio = Self {
            pairs: sample.count,
            mean: super::finite(level.exp())?,
            min: sample.min.exp(),
            max: sample.max.exp(),
            interval: Some(Interval {
                low: (level - half).exp(),
                high: super::finite((level + half).exp())?,
            }),
        };
        Some(Adjusted {
            ratio,
            effects: logs.iter().zip(&even).map(|(y, even)| y - even).collect(),
            explained: super::finite(1.0 - squares / total).unwrap_or(0.0),
        })
    }

    /// Returns the ratio of the geometric means of two unpaired samples, `second` over `first`, with Welch's
    /// interval on the logarithms. `pairs` is the size of the smaller sample. `None` as for [`Self::of`].
    #[must_use]
    pub fn unpaired(first: &[f64], second: &[f64]) -> Option<Self> {
        let logs = |values: &[f64]| -> Option<Vec<f64>> {
            values
                .iter()
                .map(|value| (*value > 0.0).then(|| value.ln()))
                .collect()
        };
        let (one, two) = (logs(first)?, logs(second)?);
        let (from, to) = (Sample::of(&one)?, Sample::of(&two)?);
        let mean = to.mean - from.mean;
        let half = welch(&from, &to);
        let interval = half.map(|half| Interval {
            low: (mean - half).exp(),
            high: (mean + half).exp(),
        });
        Some(Self {
            pairs: from.count.min(to.count),
            mean: super::finite(mean.exp())?,
            min: super::finite((to.min - from.max).exp())?,
            max: super::finite((to.max - from.min).exp())?,
            interval: interval.filter(|interval| interval.high.is_finite()),
        })
    }

    /// True if the interval excludes 1; `None` for a single pair, which has no interval.
    #[must_use]
    pub fn differs(&self) -> Option<bool> {
        self.interval.map(|interval| !interval.contains(1.0))
    }
}

/// Returns the residuals of `values` after a least-squares fit through the origin by multiples of the `reasons`
/// (Gram and Schmidt, one reason after the other). `None` if a list is not as long as `values`, or for a value that
/// is not finite. Also `None` if a reason is zero or a combination of earlier ones.
#[must_use]
pub fn unexplained(values: &[f64], reasons: &[Vec<f64>]) -> Option<Vec<f64>> {
    let mut own: Vec<Vec<f64>> = Vec::new();
    for reason in reasons {
        let rest = less(reason.clone(), &own);
        let is_new = dot(&rest, &rest) > OWN_MIN * dot(reason, reason);
        if !is_new || rest.len() != values.len() {
            return None;
        }
        own.push(rest);
    }
    let left = less(values.to_vec(), &own);
    left.iter().all(|value| value.is_finite()).then_some(left)
}

/// Minimum share of a reason's square that earlier reasons must leave; less is rounding.
const OWN_MIN: f64 = 1e-12;

/// Removes the components along `directions`, which are orthogonal to each other.
fn less(mut values: Vec<f64>, directions: &[Vec<f64>]) -> Vec<f64> {
    for direction in directions {
        let part = dot(&values, direction) / dot(direction, direction);
        for (value, along) in values.iter_mut().zip(direction) {
            *value -= part * along;
        }
    }
    values
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(x, y)| x * y).sum()
}

/// Returns half the width of Welch's 95 % interval of the difference of two means.
fn welch(one: &Sample, two: &Sample) -> Option<f64> {
    let part = |sample: &Sample| Some(sample.deviation?.powi(2) / super::float(sample.count));
    let freedom = |sample: &Sample| super::float(sample.count - 1);
    let (a, b) = (part(one)?, part(two)?);
    if a + b <= 0.0 {
        return Some(0.0);
    }
    let degrees = (a + b).powi(2) / (a.powi(2) / freedom(one) + b.powi(2) / freedom(two));
    let t = student::quantile(f64::midpoint(1.0, CONFIDENCE), super::finite(degrees)?)?;
    super::finite(t * (a + b).sqrt())
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
    fn unpaired_is_welch_on_the_logarithms() {
        // Logs 0.1, 0.2, 0.3 and 0.5, 0.5, 0.8, 0.6: means 0.2 and 0.6, variances 0.01/3 and 0.02/4 of the means.
        // Degrees (1/300 + 1/200)^2 / ((1/300)^2/2 + (1/200)^2/3) = 5, t = 2.5706, half 2.5706 * sqrt(1/120).
        let first = [0.1_f64, 0.2, 0.3].map(f64::exp);
        let second = [0.5_f64, 0.5, 0.8, 0.6].map(f64::exp);
        let ratio = Ratio::unpaired(&first, &second).unwrap();
        close(ratio.mean, 0.4_f64.exp(), 1e-12);
        let interval = ratio.interval.unwrap();
        close(
            interval.low.ln(),
            0.4 - 2.5706 * (1.0_f64 / 120.0).sqrt(),
            5e-4,
        );
        close(
            interval.high.ln(),
            0.4 + 2.5706 * (1.0_f64 / 120.0).sqrt(),
            5e-4,
        );
        close(ratio.max.ln(), 0.7, 1e-12);
        assert_eq!(ratio.pairs, 3);
        assert_eq!(Ratio::unpaired(&[1.0], &[2.0]).unwrap().interval, None);
        assert_eq!(Ratio::unpaired(&[1.0, 0.0], &[2.0]), None);
    }

    #[test]
    fn what_the_machine_explains_is_taken_out() {
        // The second machine is slower by 0.1, 0.3, -0.2 and 0, with a double effect. Without it all ratios are
        // 1.05.
        let slower = [0.1, 0.3, -0.2, 0.0];
        let logs = slower.map(|slower| 1.05_f64.ln() - 2.0 * slower);
        let found = Ratio::adjusted(&logs, &[slower.into()]).unwrap();
        let ratio = found.ratio;
        close(found.explained, 1.0, 1e-12);
        for (effect, slower) in found.effects.iter().zip(slower) {
            close(*effect, -2.0 * slower, 1e-12);
        }
        close(ratio.mean, 1.05, 1e-12);
        let interval = ratio.interval.unwrap();
        close(interval.low, 1.05, 1e-6);
        close(interval.high, 1.05, 1e-6);
        assert!(Ratio::of_logs(&logs).unwrap().interval.unwrap().high > 1.5);
    }

    #[test]
    fn an_adjusted_ratio_has_the_interval_of_the_intercept() {
        // x 0, 1, 2, 3 and y 1, 3, 2, 4: slope 0.8, intercept 1.3, residual variance 1.8 / 2, its error
        // sqrt(0.9 * (1/4 + 2.25/5)) = 0.793725, t(0.975, 2) = 4.302653.
        let found = Ratio::adjusted(&[1.0, 3.0, 2.0, 4.0], &[vec![0.0, 1.0, 2.0, 3.0]]).unwrap();
        // The line explains 3.2 of the 5 squares around the mean.
        close(found.explained, 0.64, 1e-12);
        let ratio = found.ratio;
        let interval = ratio.interval.unwrap();
        close(ratio.mean.ln(), 1.3, 1e-12);
        close(interval.high.ln() - 1.3, 4.302_653 * 0.793_725, 1e-5);
        close(1.3 - interval.low.ln(), 4.302_653 * 0.793_725, 1e-5);
    }

    #[test]
    fn two_processors_are_allowed_for_at_once() {
        // One condition counts double, the other half; neither suffices alone.
        let (one, two) = (
            vec![0.1, -0.1, 0.3, 0.0, 0.2],
            vec![0.4, 0.1, -0.2, 0.3, -0.6],
        );
        let logs = |one: &[f64], two: &[f64]| -> Vec<f64> {
            let both = one.iter().zip(two);
            both.map(|(one, two)| -0.02 - 2.0 * one - 0.5 * two)
                .collect()
        };
        let found = Ratio::adjusted(&logs(&one, &two), &[one.clone(), two.clone()]).unwrap();
        close(found.ratio.mean.ln(), -0.02, 1e-12);
        close(found.effects[2], -0.5, 1e-12);
        let alone = Ratio::adjusted(&logs(&one, &two), &[one]).unwrap();
        assert!(alone.explained < 0.9, "{alone:?}");
    }

    #[test]
    fn nothing_is_adjusted_by_what_never_differs_or_is_too_little() {
        let adjusted =
            |logs: &[f64], differences: &[f64]| Ratio::adjusted(logs, &[differences.into()]);
        assert_eq!(adjusted(&[0.1; 3], &[0.0, 0.1, 0.2]), None);
        assert_eq!(adjusted(&[0.1; 4], &[0.0; 4]), None);
        // A constant difference cannot be distinguished from a constant ratio.
        assert_eq!(adjusted(&[0.1; 4], &[0.2; 4]), None);
        assert_eq!(adjusted(&[0.1; 4], &[0.2; 5]), None);
        assert_eq!(adjusted(&[0.1; 4], &[0.2, f64::NAN, 0.1, 0.3]), None);
        // Two processors that always differ in proportion are one condition.
        let twice = [vec![0.1, 0.2, 0.0, 0.3, 0.1], vec![0.2, 0.4, 0.0, 0.6, 0.2]];
        assert_eq!(Ratio::adjusted(&[0.1; 5], &twice), None);
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
