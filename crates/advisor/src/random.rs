//! Reproducible random numbers: SplitMix64 from a seed that the caller passes in. Not for secrets.

/// Stream of numbers determined by a seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Returns the stream of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns any number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number uniform in `0.0..1.0`.
    pub fn fraction(&mut self) -> f64 {
        const STEPS: f64 = 9_007_199_254_740_992.0; // 2^53: every value is exact
        (self.next() >> 11) as f64 / STEPS
    }

    /// Returns a number uniform in `0..count`; 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        let count = count as u64;
        if count == 0 {
            return 0;
        }
        usize::try_from(self.next() % count).unwrap_or(0)
    }

    /// Returns a number from the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_stream_in_range() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        for _ in 0..1000 {
            let fraction = one.fraction();
            assert!((0.0..1.0).contains(&fraction));
            assert!((fraction - other.fraction()).abs() < f64::EPSILON);
            assert!(one.below(3) < 3 && other.below(3) < 3);
        }
        assert_eq!(one.below(0), 0);
    }

    #[test]
    fn exponential_times_have_the_mean_asked_for() {
        let mut random = Random::new(1);
        let mean = (0..20_000).map(|_| random.exponential(3.0)).sum::<f64>() / 20_000.0;
        assert!((mean - 3.0).abs() < 0.1, "{mean}");
    }
}
