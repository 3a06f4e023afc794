//! Distributions as pairs of a bucket's upper bound and its count, rising. Distributions are merged, never
//! averaged.

use std::collections::BTreeMap;

/// Merges several distributions. Buckets of different widths stay as they are.
#[must_use]
pub fn merge<'a>(parts: impl IntoIterator<Item = &'a [(u64, u64)]>) -> Vec<(u64, u64)> {
    let mut merged = BTreeMap::new();
    for (bound, count) in parts.into_iter().flatten() {
        let slot: &mut u64 = merged.entry(*bound).or_default();
        *slot = slot.saturating_add(*count);
    }
    merged.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Returns the upper bound of the bucket with the nearest-rank quantile; `share` 0.99 is p99. `None` if there is no
/// value or `share` is not in 0 to 1.
#[must_use]
pub fn quantile(histogram: &[(u64, u64)], share: f64) -> Option<u64> {
    if !(0.0..=1.0).contains(&share) {
        return None;
    }
    let rank = rank(histogram.iter().map(|(_, count)| count).sum(), share);
    let mut seen = 0;
    histogram.iter().find_map(|(bound, count)| {
        seen += count;
        (seen >= rank).then_some(*bound)
    })
}

/// Several distributions, to be merged repeatedly with different weights.
#[derive(Debug, Clone)]
pub struct Parts {
    /// Upper bound, index of the distribution, count; sorted by bound.
    buckets: Vec<(u64, usize, u64)>,
}

impl Parts {
    /// Takes distributions as [`merge`] does.
    #[must_use]
    pub fn new(parts: &[&[(u64, u64)]]) -> Self {
        let mut buckets: Vec<(u64, usize, u64)> = Vec::new();
        for (place, part) in parts.iter().enumerate() {
            buckets.extend(part.iter().map(|(bound, count)| (*bound, place, *count)));
        }
        buckets.sort_unstable();
        Self { buckets }
    }

    /// Returns the [`quantile`] of all parts merged, each repeated as often as `weights` says. A part without a
    /// weight is left out.
    #[must_use]
    pub fn quantile(&self, weights: &[u64], share: f64) -> Option<u64> {
        if !(0.0..=1.0).contains(&share) {
            return None;
        }
        let weighted = |(_, place, count): &(u64, usize, u64)| {
            weights
                .get(*place)
                .map_or(0, |weight| weight.saturating_mul(*count))
        };
        let rank = rank(self.buckets.iter().map(weighted).sum(), share);
        let mut seen = 0;
        self.buckets.iter().find_map(|bucket| {
            seen += weighted(bucket);
            (seen >= rank).then_some(bucket.0)
        })
    }
}

/// Returns the rank of a quantile among `total` values, from 1. Counts of transactions stay below 2^52; an excess
/// below a billionth is rounding.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "see above"
)]
fn rank(total: u64, share: f64) -> u64 {
    ((total as f64 * share - 1e-9).ceil() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_take_the_nearest_rank() {
        let hundred: Vec<(u64, u64)> = (1..=100).map(|value| (value, 1)).collect();
        assert_eq!(quantile(&hundred, 0.0), Some(1));
        assert_eq!(quantile(&hundred, 0.5), Some(50));
        assert_eq!(quantile(&hundred, 0.99), Some(99));
        assert_eq!(quantile(&hundred, 0.999), Some(100));
        assert_eq!(quantile(&hundred, 1.0), Some(100));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&hundred, 1.5), None);
        assert_eq!(quantile(&hundred, f64::NAN), None);
    }

    #[test]
    fn merging_is_not_averaging() {
        // Of 995 values 990 are fast, in one part, and 5 slow, in the other: the mean of the two p99 would be 500.
        let (fast, slow) = ([(1, 990)], [(1000, 5)]);
        let merged = merge([&fast[..], &slow[..]]);
        assert_eq!(merged, [(1, 990), (1000, 5)]);
        assert_eq!(quantile(&merged, 0.99), Some(1));
        assert_eq!(quantile(&merged, 0.999), Some(1000));
    }

    #[test]
    fn parts_with_weights_are_merged_as_often() {
        let (one, two) = ([(1, 90), (7, 10)], [(5, 50), (7, 50)]);
        let parts = Parts::new(&[&one, &two]);
        for (weights, repeated) in [
            ([1, 1], vec![&one[..], &two[..]]),
            ([2, 0], vec![&one[..], &one[..]]),
            ([0, 3], vec![&two[..], &two[..], &two[..]]),
        ] {
            let merged = merge(repeated);
            for share in [0.0, 0.3, 0.5, 0.9, 1.0] {
                assert_eq!(parts.quantile(&weights, share), quantile(&merged, share));
            }
        }
        assert_eq!(parts.quantile(&[0, 0], 0.5), None);
        assert_eq!(parts.quantile(&[1, 1], 1.5), None);
    }

    #[test]
    fn equal_bounds_add_up_and_order_does_not_matter() {
        let (one, two) = ([(5, 2), (9, 1)], [(5, 3), (7, 0), (8, 4)]);
        let merged = merge([&one[..], &two[..]]);
        assert_eq!(merged, [(5, 5), (8, 4), (9, 1)]);
        assert_eq!(merged, merge([&two[..], &one[..]]));
        assert_eq!(merge([]), []);
    }
}
