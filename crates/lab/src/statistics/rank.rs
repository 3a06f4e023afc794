//! The Mann-Whitney rank test of two small samples, exact, with ties.
//!
//! The distribution is that of the given ranks: every way to divide them between the two samples counts once. So
//! ties need no correction. A normal distribution would claim too much for three against three.

use super::{finite, float};

/// Largest total size for the exact count. Above it the test uses the normal distribution with its correction for
/// ties; at this size both agree to about a thousandth.
const EXACT_UP_TO: usize = 60;

/// Result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// Number of pairs in which the value of the first sample is above that of the second; equal values count half.
    pub u: f64,
    /// Two-sided p: twice the smaller tail, at most 1.
    pub p: f64,
}

/// Tests two samples; `None` if one is empty or has a value that is not finite.
#[must_use]
pub fn test(first: &[f64], second: &[f64]) -> Option<Test> {
    let finite_all = |values: &[f64]| values.iter().all(|value| value.is_finite());
    if first.is_empty() || second.is_empty() || !finite_all(first) || !finite_all(second) {
        return None;
    }
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let ranks = doubled_ranks(&all);
    let sum: usize = ranks.iter().take(first.len()).sum();
    let least = first.len() * (first.len() + 1);
    let p = if all.len() <= EXACT_UP_TO {
        exact(&ranks, first.len(), sum)
    } else {
        normal(&ranks, first.len(), sum)
    };
    Some(Test {
        u: float(sum - least) / 2.0,
        p: finite(p)?.clamp(0.0, 1.0),
    })
}

/// Returns the smallest two-sided p that samples of these sizes can give without ties. Examples are 0.10 for 3 and
/// 3, 0.029 for 4 and 4, 0.008 for 5 and 5. Returns 1 if a sample is empty.
#[must_use]
pub fn least_p(first: usize, second: usize) -> f64 {
    // Two of all ways to choose: the extreme one and its mirror image.
    let ways = (1..=first).fold(1.0, |ways, k| ways * float(second + k) / float(k));
    (2.0 / ways).min(1.0)
}

/// Returns twice the rank, from 1, of each value. Equal values get the mean of their ranks; doubling keeps it an
/// integer.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    values
        .iter()
        .map(|value| {
            let below = values.iter().filter(|other| *other < value).count();
            let equal = values.iter().filter(|other| *other == value).count();
            2 * below + equal + 1
        })
        .collect()
}

/// Counts the choices of `chosen` ranks by their sum, and sums up both tails.
fn exact(ranks: &[usize], chosen: usize, sum: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    // ways[k][s]: choices of k ranks with sum s among those seen so far.
    let mut ways = vec![vec![0.0_f64; total + 1]; chosen + 1];
    if let Some(none) = ways.first_mut().and_then(|row| row.first_mut()) {
        *none = 1.0;
    }
    for rank in ranks {
        for k in (1..=chosen).rev() {
            let (below, from) = ways.split_at_mut(k);
            let (Some(source), Some(row)) = (below.last(), from.first_mut()) else {
                continue;
            };
            for (slot, more) in row.iter_mut().skip(*rank).zip(source) {
                *slot += more;
            }
        }
    }
    let row = ways.last().map_or(&[][..], Vec::as_slice);
    let all: f64 = row.iter().sum();
    let lower: f64 = row.iter().take(sum + 1).sum();
    let upper: f64 = row.iter().skip(sum).sum();
    2.0 * lower.min(upper) / all
}

/// Normal approximation with the correction for ties and for continuity.
fn normal(ranks: &[usize], chosen: usize, sum: usize) -> f64 {
    let (n, m) = (float(chosen), float(ranks.len() - chosen));
    let total = n + m;
    let ties: f64 = (0..=2 * ranks.len())
        .map(|rank| float(ranks.iter().filter(|other| **other == rank).count()))
        .map(|equal| equal.powi(3) - equal)
        .sum();
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let away = (float(sum) / 2.0 - n * (total + 1.0) / 2.0).abs() - 0.5;
    let z = away.max(0.0) / variance.sqrt();
    // With this many degrees of freedom Student's t is the normal distribution.
    super::student::two_sided(z, 1e9).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::close;

    #[test]
    fn the_least_p_is_reached_by_samples_that_do_not_overlap() {
        for (size, expected) in [
            (1, 1.0),
            (2, 1.0 / 3.0),
            (3, 0.10),
            (4, 0.0286),
            (5, 0.0079),
        ] {
            let low: Vec<f64> = (0..size).map(f64::from).collect();
            let high: Vec<f64> = low.iter().map(|value| value + 100.0).collect();
            close(test(&low, &high).unwrap().p, expected, 5e-5);
            close(least_p(low.len(), high.len()), expected, 5e-5);
        }
        close(least_p(3, 5), 2.0 / 56.0, 1e-12);
        close(least_p(0, 5), 1.0, 0.0);
    }

    #[test]
    fn exact_values_of_the_printed_tables() {
        // Two-sided 5 % points: U = 2 for 5 and 5, U = 8 for 7 and 7; one more is above 5 %.
        let five = test(&[1.0, 2.0, 3.0, 4.0, 7.0], &[5.0, 6.0, 8.0, 9.0, 10.0]).unwrap();
        close(five.u, 2.0, 0.0);
        close(five.p, 8.0 / 252.0, 1e-12);
        let more = test(&[1.0, 2.0, 3.0, 4.0, 8.0], &[5.0, 6.0, 7.0, 9.0, 10.0]).unwrap();
        close(more.u, 3.0, 0.0);
        close(more.p, 14.0 / 252.0, 1e-12);
    }

    #[test]
    fn ties_are_counted_not_broken() {
        // Ranks 1, 2.5, 2.5, 4, 5, 6. Sums of three at or below 1 + 2.5 + 2.5 = 6: 1 of 20 choices.
        let tied = test(&[1.0, 2.0, 2.0], &[3.0, 4.0, 5.0]).unwrap();
        close(tied.p, 0.10, 1e-12);
        // The tie is between the samples: 1 with either 2 has the same sum, so the tail has 2 of 6 choices.
        let across = test(&[1.0, 2.0], &[2.0, 3.0]).unwrap();
        close(across.u, 0.5, 0.0);
        close(across.p, 2.0 / 3.0, 1e-12);
        close(test(&[5.0; 4], &[5.0; 4]).unwrap().p, 1.0, 1e-12);
    }

    #[test]
    fn order_and_side_do_not_matter() {
        let (one, two) = ([3.0, 9.0, 4.0, 4.0], [8.0, 1.0, 12.0, 9.0, 10.0]);
        let (forth, back) = (test(&one, &two).unwrap(), test(&two, &one).unwrap());
        close(forth.p, back.p, 1e-12);
        close(forth.u + back.u, 20.0, 1e-12);
    }

    #[test]
    fn the_normal_distribution_continues_where_counting_ends() {
        let one: Vec<f64> = (0..30).map(f64::from).collect();
        let two: Vec<f64> = one.iter().map(|value| value + 6.5).collect();
        let all: Vec<f64> = one.iter().chain(&two).copied().collect();
        let ranks = doubled_ranks(&all);
        let sum = ranks.iter().take(30).sum();
        close(normal(&ranks, 30, sum), exact(&ranks, 30, sum), 2e-3);
        let long: Vec<f64> = (0..40).map(f64::from).collect();
        assert!(test(&long, &long).unwrap().p > 0.99);
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(test(&[], &[1.0]), None);
        assert_eq!(test(&[1.0], &[f64::NAN]), None);
    }
}
