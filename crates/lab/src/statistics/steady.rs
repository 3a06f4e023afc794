//! Checks that one cell can be summarised by one number: a steady state, and Little's law.

use super::{finite, float, mean, student};

/// Largest accepted difference between the halves of the measured time.
pub const HALVES: f64 = 0.03;
/// Smallest accepted probability that a slope as steep arises by chance.
pub const SLOPE_P: f64 = 0.01;
/// Largest accepted difference between clients and throughput times latency.
pub const LITTLE: f64 = 0.02;

/// Statistics of the transactions per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// Ratio of the means of the second and the first half, less 1.
    pub halves: f64,
    /// Change per second over the mean.
    pub slope: f64,
    /// Two-sided p of the slope.
    pub slope_p: f64,
}

impl Steadiness {
    /// Computes the statistics; `None` for fewer than 6 seconds, which can show neither, or if the first half has
    /// no transaction.
    #[must_use]
    pub fn of(per_second: &[f64]) -> Option<Self> {
        let count = per_second.len();
        if count < 6 {
            return None;
        }
        let first = mean(per_second.get(..count / 2)?)?;
        let second = mean(per_second.get(count.div_ceil(2)..)?)?;
        let (slope, slope_p) = line(per_second)?;
        Some(Self {
            halves: finite(second / first - 1.0)?,
            slope: finite(slope / mean(per_second)?)?,
            slope_p,
        })
    }

    /// True if the halves differ by at most 3 % and the slope has a p of at least 0.01.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.halves.abs() <= HALVES && self.slope_p >= SLOPE_P
    }
}

/// Returns the difference between the clients of a closed loop and throughput times mean latency, as a share of the
/// clients (Little's law). `None` without clients.
#[must_use]
pub fn little(clients: f64, tps: f64, latency_us: f64) -> Option<f64> {
    finite((clients - tps * latency_us / 1e6).abs() / clients)
}

/// Returns the slope of the least-squares line over 0, 1, 2 ... and its two-sided p.
fn line(values: &[f64]) -> Option<(f64, f64)> {
    let middle = float(values.len() - 1) / 2.0;
    let level = mean(values)?;
    let (mut across, mut together) = (0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        across += (float(at) - middle).powi(2);
        together += (float(at) - middle) * (value - level);
    }
    let slope = finite(together / across)?;
    let residuals: f64 = values
        .iter()
        .enumerate()
        .map(|(at, value)| (value - level - slope * (float(at) - middle)).powi(2))
        .sum();
    let freedom = float(values.len()) - 2.0;
    let error = (residuals / freedom / across).sqrt();
    // A line without scatter: a flat one has no slope, any other has one beyond doubt. Rounding is not scatter.
    let tiny = level.abs() * 1e-12;
    if error <= tiny {
        return Some((slope, if slope.abs() <= tiny { 1.0 } else { 0.0 }));
    }
    Some((slope, student::two_sided(slope / error, freedom)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::close;

    #[test]
    fn a_flat_noisy_series_is_steady() {
        let flat = [100.0, 102.0, 99.0, 101.0, 98.0, 100.0, 101.0, 99.0];
        assert!(Steadiness::of(&flat).unwrap().is_steady());
        assert!(Steadiness::of(&[50.0; 10]).unwrap().is_steady());
    }

    #[test]
    fn halves_that_differ_are_not() {
        let step = [100.0, 101.0, 99.0, 100.0, 90.0, 91.0, 89.0, 90.0];
        let found = Steadiness::of(&step).unwrap();
        close(found.halves, -0.1, 1e-12);
        assert!(!found.is_steady());
    }

    #[test]
    fn a_small_sure_slope_is_not() {
        let slow: Vec<f64> = (0..60)
            .map(|second| 1000.0 + 0.4 * f64::from(second))
            .collect();
        let found = Steadiness::of(&slow).unwrap();
        assert!(found.halves < HALVES);
        assert!(found.slope_p < SLOPE_P && !found.is_steady());
    }

    #[test]
    fn slope_and_p_are_those_of_a_textbook_regression() {
        // Sxy = 13.5, Sxx = 17.5, Syy = 13.5: residuals 3.0857, t = 3.674, p = 0.0213 with 4 degrees of freedom.
        let (slope, p) = line(&[2.0, 4.0, 5.0, 4.0, 5.0, 7.0]).unwrap();
        close(slope, 0.771_429, 1e-6);
        let t = 0.771_428_57 / (3.085_714_29_f64 / 4.0 / 17.5).sqrt();
        close(t, 3.674, 5e-4);
        close(p, student::two_sided(t, 4.0).unwrap(), 1e-7);
        close(p, 0.0213, 5e-5);
    }

    #[test]
    fn the_second_in_the_middle_belongs_to_no_half() {
        let odd = [10.0, 10.0, 10.0, 999.0, 10.0, 10.0, 10.0];
        close(Steadiness::of(&odd).unwrap().halves, 0.0, 1e-12);
    }

    #[test]
    fn too_short_or_empty_says_nothing() {
        assert_eq!(Steadiness::of(&[1.0; 5]), None);
        assert_eq!(Steadiness::of(&[0.0; 8]), None);
        assert_eq!(Steadiness::of(&[f64::NAN; 8]), None);
    }

    #[test]
    fn littles_law_holds_in_published_rows() {
        // 32 connections, 2421.58 a second, 13.197 ms.
        assert!(little(32.0, 2421.58, 13_197.0).unwrap() < 0.003);
        close(little(100.0, 1000.0, 50_000.0).unwrap(), 0.5, 1e-12);
        assert_eq!(little(0.0, 1.0, 1.0), None);
    }
}
