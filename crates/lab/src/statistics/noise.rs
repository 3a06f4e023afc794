//! The noise floor: the difference of a target from itself under another name.
//!
//! Ratios of a target to itself scatter around 1, which is known and not estimated. The scatter of their logarithms
//! about 0 therefore tells how far a ratio of two other targets may be from 1 by chance.

use super::{CONFIDENCE, finite, float, mean, student};

/// Noise measured with pairs of one target and its twin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Number of pairs.
    pub pairs: usize,
    /// Root mean square of the logarithm of one pair's ratio.
    pub deviation: f64,
}

impl Noise {
    /// Computes the noise from pairs of (twin, original). `None` for fewer than 2 pairs, or values that are not
    /// positive and finite.
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

    /// Returns the upper end of the noise band at 95 %, at least 1; the lower end is its reciprocal. A geometric
    /// mean of `blocks` ratios within the band is noise. `None` without blocks, and if the band is too wide for a
    /// number.
    #[must_use]
    pub fn band(&self, blocks: usize) -> Option<f64> {
        let t = student::quantile(f64::midpoint(1.0, CONFIDENCE), float(self.pairs))?;
        finite((t * self.deviation / float(blocks).sqrt()).exp())
    }

    /// True if the geometric mean `ratio` of `blocks` ratios is within the noise.
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
        // A constant difference of 2 % between twins must not make 2 % significant.
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
