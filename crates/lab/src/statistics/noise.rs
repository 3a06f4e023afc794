//! The noise floor: how far a target differs from itself under another name.
//!
//! Its ratios to itself scatter around 1, which is known and not estimated. So the scatter of their logarithms about 0
//! says how far a ratio of two others may be from 1 without meaning anything.

use super::{CONFIDENCE, finite, float, mean, student};

/// Measured from the pairs of one target with its twin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// How many pairs there were.
    pub pairs: usize,
    /// Root mean square of the logarithm of one pair's ratio.
    pub deviation: f64,
}

impl Noise {
    /// From pairs of (twin, itself). `None` for fewer than 2, or values that are not positive and finite.
    #[must_use]
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        if pairs.len() < 2 || pairs.iter().any(|(one, two)| *one <= 0.0 || *two <= 0.0) {
            return None;
        }
        let squares: Vec<f64> = pairs
            .iter()
            .map(|(one, two)| (one / two).ln().powi(2))
            .collect();
        Some(Self {
            pairs: pairs.len(),
            deviation: finite(mean(&squares)?.sqrt())?,
        })
    }

    /// A geometric mean of `blocks` ratios is noise from 1 over this up to this, at 95 %; at least 1. `None` for no
    /// blocks, and where it is too wide for a number.
    #[must_use]
    pub fn band(&self, blocks: usize) -> Option<f64> {
        let t = student::quantile(f64::midpoint(1.0, CONFIDENCE), float(self.pairs))?;
        finite((t * self.deviation / float(blocks).sqrt()).exp())
    }

    /// Whether the geometric mean `ratio` of `blocks` ratios means nothing.
    #[must_use]
    pub fn covers(&self, ratio: f64, blocks: usize) -> bool {
        self.band(blocks)
            .is_none_or(|band| ratio <= band && ratio >= 1.0 / band)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::close;

    #[test]
    fn the_band_is_the_scatter_about_one() {
        // Logs +0.01 and -0.01: root mean square 0.01; t(0.975, 2) = 4.302653.
        let noise = Noise::of(&[(0.01_f64.exp(), 1.0), (1.0, 0.01_f64.exp())]).unwrap();
        close(noise.deviation, 0.01, 1e-12);
        close(noise.band(1).unwrap(), 0.043_026_53_f64.exp(), 1e-8);
        close(noise.band(4).unwrap(), 0.021_513_26_f64.exp(), 1e-8);
    }

    #[test]
    fn both_sides_of_the_band_are_noise() {
        let noise = Noise::of(&[(101.0, 100.0), (99.0, 100.0), (100.5, 100.0)]).unwrap();
        let band = noise.band(3).unwrap();
        assert!(noise.covers(1.0, 3) && noise.covers(band, 3) && noise.covers(1.0 / band, 3));
        assert!(!noise.covers(band * 1.001, 3) && !noise.covers(0.999 / band, 3));
    }

    #[test]
    fn a_constant_shift_is_noise_too() {
        // Twins that differ by 2 % every time do not make 2 % a finding.
        let noise = Noise::of(&[(102.0, 100.0), (102.0, 100.0), (102.0, 100.0)]).unwrap();
        assert!(noise.covers(1.02, 3));
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(Noise::of(&[(1.0, 1.0)]), None);
        assert_eq!(Noise::of(&[(1.0, 0.0), (1.0, 1.0)]), None);
        assert_eq!(Noise::of(&[(f64::NAN, 1.0), (1.0, 1.0)]), None);
        let noise = Noise::of(&[(1.1, 1.0), (1.0, 1.0)]).unwrap();
        assert_eq!(noise.band(0), None);
        assert!(noise.covers(5.0, 0));
    }
}
