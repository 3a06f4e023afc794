//! Estimates an elasticity from pairs of blocks: by counting responses, and by logarithms of hold times.
//!
//! Elasticity is the growth of throughput in per cent per per cent of the limit. At 1 only servers are missing, at 0
//! more of them bring nothing, and below 0 they harm.

use crate::controller::side::Side;

/// Factor on each estimate's variance, learned from the differences between pairs.
const OVERDISPERSION_START: f64 = 1.5;
const OVERDISPERSION_MIN: f64 = 0.7;
const OVERDISPERSION_MAX: f64 = 50.0;
const LEARNING_RATE: f64 = 0.15;

/// Bias of the second estimate. Hold times can change their shape with load, as in queues for locks. The bias is at
/// least this, and larger if the estimate stays above the first, which has no such bias.
const HOLD_BIAS: f64 = 0.05;

/// Share of the known difference that is kept at the next pair, because the load changes.
const DRIFT_KEPT: f64 = 0.9;
/// Number of standard errors above which the difference is more than chance.
const DRIFT_SURE: f64 = 2.0;

/// Bias of the first estimate if a few long transactions decide the number of short ones that complete. After a change
/// of limit it takes many of their hold times until the usual number of them runs again.
const TAIL_BIAS: f64 = 0.5;

/// Share of the usual difference between successive looks that affects a pair. It is below 1, because a part is counted
/// already and the blocks of a pair follow each other sooner.
const WEATHER_PART: f64 = 0.8;

/// Throughput cannot grow faster than servers; an intermittent queue can make it look so.
const ELASTICITY_MOST: f64 = 1.2;

/// Standard error of one pair's elasticity that the machine alone causes between these limits. `usual` is the
/// difference of the logarithms of throughput under one limit.
pub(crate) fn weather(usual: f64, (low, high): (u32, u32)) -> f64 {
    let spread = (f64::from(high) / f64::from(low)).ln();
    WEATHER_PART * usual / spread
}

/// A value and its variance.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Guess {
    value: f64,
    variance: f64,
}

impl Guess {
    /// Adds an error that more pairs do not reduce.
    fn or_off_by(self, bias: f64) -> Self {
        Self {
            variance: self.variance + bias * bias,
            ..self
        }
    }
}

/// A pair of blocks, one at each limit, in either order.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    counted: Guess,
    /// Set only if clients waited at both limits.
    held: Option<Guess>,
    pub(crate) completions: u64,
}

impl Pair {
    pub(crate) fn new(low: &Side, high: &Side) -> Self {
        let spread = spread(low, high);
        Self {
            counted: counted(low, high, spread),
            held: held(low, high, spread),
            completions: low.completions + high.completions,
        }
    }
}

/// Returns the logarithm of the ratio of the limits, as far as the higher one was used.
fn spread(low: &Side, high: &Side) -> f64 {
    let limits = (f64::from(high.limit) / f64::from(low.limit)).ln();
    if high.is_saturated() {
        return limits;
    }
    let used = (f64::from(high.in_use_peak) / f64::from(low.limit)).ln();
    used.clamp(0.5 * limits, limits)
}

/// Estimates by counting. If clients waited all the time at both limits, throughput shows the database's capacity, even
/// while the queue grows. Else response time is used, because throughput is then determined by the clients.
fn counted(low: &Side, high: &Side, spread: f64) -> Guess {
    let (gain, variance) = if low.is_never_empty && high.is_never_empty {
        let gain = high.tps().max(1e-3) / low.tps().max(1e-3);
        (gain, low.ln_variance + high.ln_variance)
    } else {
        let gain = low.response_s() / high.response_s().max(1e-9);
        let loads = low.ln_load_variance + high.ln_load_variance;
        (gain, low.ln_variance + high.ln_variance + loads)
    };
    Guess {
        value: (gain.max(1e-9).ln() / spread).clamp(-ELASTICITY_MOST, ELASTICITY_MOST),
        variance: variance / (spread * spread),
    }
}

/// Estimates by hold times: growth of servers in use, less growth of the hold time. Transactions are compared within
/// their class only, so that a rare class of long ones does not dominate.
fn held(low: &Side, high: &Side, spread: f64) -> Option<Guess> {
    if !low.is_saturated() || !high.is_saturated() || low.in_use <= 0.0 || high.in_use <= 0.0 {
        return None;
    }
    let (mut weight, mut shift, mut error) = (0.0, 0.0, 0.0);
    let mut completions = 0;
    for before in &low.classes {
        let Some(after) = high
            .classes
            .iter()
            .find(|after| after.class == before.class)
        else {
            continue;
        };
        if before.is_longer_than_block || after.is_longer_than_block {
            continue;
        }
        let share = before.hold_s / low.hold_s + after.hold_s / high.hold_s;
        completions += before.completions + after.completions;
        weight += share;
        shift += share * (after.ln_hold - before.ln_hold);
        // Errors of classes are correlated: the same neighbours slow all of them.
        error += share * (before.ln_hold_variance + after.ln_hold_variance).sqrt();
    }
    let is_most = 2 * completions > low.completions + high.completions;
    (is_most && weight > 0.0).then(|| Guess {
        value: ((high.in_use / low.in_use).ln() - shift / weight) / spread,
        variance: (error / weight / spread).powi(2),
    })
}

/// An elasticity and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Elasticity {
    /// Per cent of throughput per per cent of servers.
    pub value: f64,
    /// Standard error of the value.
    pub error: f64,
}

impl Elasticity {
    /// Adds the machine's own variation between two blocks. The parts of a block do not show it, because it lasts
    /// longer than a block. `weather` is this error for one pair.
    pub(crate) fn in_weather(self, weather: f64, pairs: usize) -> Self {
        let weather = weather / (pairs.max(1) as f64).sqrt();
        Self {
            error: self.error.hypot(weather),
            ..self
        }
    }
}

/// Knowledge from the pairs of earlier experiments about the spread of each estimate.
#[derive(Debug, Clone)]
pub(crate) struct Estimator {
    counted: f64,
    held: f64,
    drift: Drift,
}

/// Excess of the second estimate over the first, over the last pairs: a mean weighted by certainty.
#[derive(Debug, Clone, Copy, Default)]
struct Drift {
    weights: f64,
    sum: f64,
}

impl Drift {
    fn note(&mut self, difference: f64, variance: f64) {
        let weight = 1.0 / variance.max(1e-9);
        self.weights = DRIFT_KEPT * self.weights + weight;
        self.sum = DRIFT_KEPT * self.sum + weight * difference;
    }

    /// Returns the excess if it is more than chance, else 0.
    fn known(self) -> f64 {
        if self.weights <= 0.0 {
            return 0.0;
        }
        let (mean, error) = (self.sum / self.weights, self.weights.sqrt().recip());
        if mean > DRIFT_SURE * error { mean } else { 0.0 }
    }
}

impl Default for Estimator {
    fn default() -> Self {
        Self {
            counted: OVERDISPERSION_START,
            held: OVERDISPERSION_START,
            drift: Drift::default(),
        }
    }
}

impl Estimator {
    /// Learns from two successive pairs of the same limits, which should agree within their errors.
    pub(crate) fn learn(&mut self, earlier: &Pair, later: &Pair, weather: f64) {
        learn(&mut self.counted, earlier.counted, later.counted, weather);
        if let (Some(earlier), Some(later)) = (earlier.held, later.held) {
            learn(&mut self.held, earlier, later, weather);
        }
    }

    /// Records the difference between the two estimates of a new pair.
    pub(crate) fn note(&mut self, pair: &Pair) {
        if let Some(held) = pair.held {
            let variance = pair.counted.variance * self.counted + held.variance * self.held;
            self.drift.note(held.value - pair.counted.value, variance);
        }
    }

    /// Returns the elasticity shown by all pairs together; `None` without a pair.
    pub(crate) fn elasticity(&self, pairs: &[Pair], is_heavy_tailed: bool) -> Option<Elasticity> {
        let bias = if is_heavy_tailed { TAIL_BIAS } else { 0.0 };
        let counted =
            together(pairs.iter().map(|pair| pair.counted), self.counted)?.or_off_by(bias);
        let every_held: Option<Vec<Guess>> = pairs.iter().map(|pair| pair.held).collect();
        let held = every_held
            .and_then(|held| together(held.into_iter(), self.held))
            .map(|guess| guess.or_off_by(self.hold_bias()));
        let both = together(std::iter::once(counted).chain(held), 1.0)?;
        Some(Elasticity {
            value: both.value,
            error: both.variance.sqrt(),
        })
    }

    /// Returns the bias of the estimate by hold times, which more pairs do not reduce.
    fn hold_bias(&self) -> f64 {
        HOLD_BIAS.hypot(self.drift.known())
    }
}

fn learn(overdispersion: &mut f64, earlier: Guess, later: Guess, weather: f64) {
    let difference = earlier.value - later.value;
    let own = (difference * difference - 2.0 * weather * weather).max(0.0);
    let ratio = own / (earlier.variance + later.variance);
    *overdispersion += LEARNING_RATE * (ratio.min(OVERDISPERSION_MAX) - *overdispersion);
    *overdispersion = overdispersion.clamp(OVERDISPERSION_MIN, OVERDISPERSION_MAX);
}

/// Returns the mean of guesses, weighted by certainty.
fn together(guesses: impl Iterator<Item = Guess>, overdispersion: f64) -> Option<Guess> {
    let (mut weights, mut sum) = (0.0, 0.0);
    for guess in guesses {
        let weight = 1.0 / (guess.variance * overdispersion).max(1e-9);
        weights += weight;
        sum += weight * guess.value;
    }
    (weights > 0.0).then(|| Guess {
        value: sum / weights,
        variance: 1.0 / weights,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(counted: f64, held: f64, error: f64) -> Pair {
        let guess = |value| Guess {
            value,
            variance: error * error / OVERDISPERSION_START,
        };
        Pair {
            counted: guess(counted),
            held: Some(guess(held)),
            completions: 1000,
        }
    }

    fn after(pairs: &[Pair]) -> Estimator {
        let mut estimator = Estimator::default();
        for pair in pairs {
            estimator.note(pair);
        }
        estimator
    }

    #[test]
    fn an_estimate_by_hold_times_that_stays_above_counting_is_trusted_less() {
        // A hot row: by counting, more servers bring nothing; by hold times they seem to help.
        let fresh = [pair(0.0, 0.3, 0.05)];
        let believed = after(&[]).elasticity(&fresh, false).unwrap();
        assert!(believed.value > 0.09, "{believed:?}");
        let estimator = after(&vec![fresh[0].clone(); 6]);
        let learned = estimator.elasticity(&fresh, false).unwrap();
        assert!(learned.value < 0.02, "{learned:?}");
        // The combined estimate must not look more certain than it is.
        assert!(learned.error > 0.045, "{learned:?}");
    }

    #[test]
    fn what_throughput_differs_by_anyway_makes_close_limits_less_sure() {
        let clear = Elasticity {
            value: -0.5,
            error: 0.06,
        };
        assert_eq!(clear.in_weather(weather(0.0, (10, 12)), 1), clear);
        let close = clear.in_weather(weather(0.15, (10, 12)), 1);
        assert!(close.error > 0.4, "{close:?}");
        let apart = clear.in_weather(weather(0.15, (10, 40)), 1);
        assert!(apart.error < 0.11, "{apart:?}");
        let four = clear.in_weather(weather(0.15, (10, 12)), 4);
        assert!(close.error > 1.9 * four.error);
        assert_eq!(close.value, clear.value);
    }

    #[test]
    fn estimates_that_differ_by_chance_are_both_used() {
        let one_way = pair(0.0, 0.1, 0.1);
        let other_way = pair(0.1, 0.0, 0.1);
        let estimator = after(&[one_way.clone(), other_way, one_way]);
        assert_eq!(estimator.hold_bias(), HOLD_BIAS);
    }

    #[test]
    fn an_estimate_by_hold_times_that_is_below_counting_is_not_the_one_to_doubt() {
        // With few long transactions, many short ones rush in after a change of limit, and counting sees them.
        let estimator = after(&vec![pair(0.6, 0.1, 0.05); 6]);
        assert_eq!(estimator.hold_bias(), HOLD_BIAS);
    }

    #[test]
    fn what_was_learned_of_another_load_is_forgotten() {
        let mut pairs = vec![pair(0.0, 0.3, 0.05); 6];
        pairs.extend(vec![pair(0.1, 0.1, 0.05); 40]);
        assert_eq!(after(&pairs).hold_bias(), HOLD_BIAS);
    }
}
