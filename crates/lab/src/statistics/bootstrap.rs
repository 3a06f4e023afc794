//! The bootstrap: estimates the scatter of a statistic by resampling the values at hand. Seeded, so that the same
//! data give the same interval.

use super::{CONFIDENCE, Interval, float};

/// Returns the 95 % percentile interval of `statistic` over `rounds` resamples. `None` with fewer than 2 values,
/// without a round, or if a resample has no statistic. With few values the interval is too narrow: no resample
/// exceeds their range.
#[must_use]
pub fn interval<T: Copy>(
    values: &[T],
    statistic: impl Fn(&[T]) -> Option<f64>,
    rounds: usize,
    seed: u64,
) -> Option<Interval> {
    let mut random = Random(seed);
    let round = || statistic(&random.resample(values)?);
    percentiles(round, rounds)
}

fn percentiles(mut round: impl FnMut() -> Option<f64>, rounds: usize) -> Option<Interval> {
    let mut found = (0..rounds).map(|_| round()).collect::<Option<Vec<f64>>>()?;
    found.sort_by(f64::total_cmp);
    let tail = f64::midpoint(1.0, -CONFIDENCE) * float(rounds);
    // `tail` is a fortieth of the rounds: positive and far below any limit.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "see above"
    )]
    let outside = tail.floor() as usize;
    let low = *found.get(outside)?;
    let high = *found.get(rounds.checked_sub(outside + 1)?)?;
    Some(Interval { low, high })
}

/// `SplitMix64`: the shortest generator whose output passes for random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Draws as many values as there are, with repetition.
    fn resample<T: Copy>(&mut self, values: &[T]) -> Option<Vec<T>> {
        if values.len() < 2 {
            return None;
        }
        let size = u64::try_from(values.len()).ok()?;
        let draw = |_| {
            let at = usize::try_from(self.next() % size).ok()?;
            values.get(at).copied()
        };
        (0..values.len()).map(draw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{mean, median, tests::close};

    #[test]
    fn the_generator_is_splitmix() {
        // First outputs for seed 1234567, as published with the algorithm.
        let mut random = Random(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn the_mean_scatters_by_its_standard_error() {
        // The values 0..100 have a deviation of 28.87 (n), so the mean's standard error is 2.887 and the interval
        // +- 5.66.
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let interval = interval(&values, mean, 4000, 7).unwrap();
        close(interval.low, 49.5 - 5.66, 0.4);
        close(interval.high, 49.5 + 5.66, 0.4);
    }

    #[test]
    fn the_median_of_three_is_as_uncertain_as_they_are() {
        // The median of a resample is the least value with a probability of 7/27, so both ends are the ends of the
        // sample.
        let interval = interval(&[10.0, 20.0, 30.0], median, 2000, 1).unwrap();
        close(interval.low, 10.0, 0.0);
        close(interval.high, 30.0, 0.0);
    }

    #[test]
    fn a_seed_gives_the_same_interval() {
        let values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let with = |seed| interval(&values, mean, 500, seed).unwrap();
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
    }

    #[test]
    fn constants_do_not_scatter_and_too_few_have_none() {
        let constant = interval(&[4.0; 5], mean, 100, 1).unwrap();
        assert_eq!((constant.low, constant.high), (4.0, 4.0));
        assert_eq!(interval(&[4.0], mean, 100, 1), None);
        assert_eq!(interval(&[4.0, 5.0], mean, 0, 1), None);
    }
}
