//! The few statistics that a comparison needs. Slices may be in any order unless said.

/// The middle value, or the mean of the two middle ones; NaN for an empty slice.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    let lower = if sorted.len().is_multiple_of(2) {
        upper.saturating_sub(1)
    } else {
        upper
    };
    match (sorted.get(lower), sorted.get(upper)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => f64::NAN,
    }
}

/// Smallest and largest value.
pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
            (low.min(*x), high.max(*x))
        })
}

/// The right mean for ratios: half and double cancel out. NaN for an empty slice.
pub(crate) fn geometric_mean(values: &[f64]) -> f64 {
    let logs: Vec<f64> = values.iter().map(|x| x.ln()).collect();
    mean(&logs).exp()
}

/// NaN for an empty slice.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9
    }

    #[test]
    fn median_of_odd_even_and_none() {
        assert!(close(median(&[3.0, 1.0, 2.0]), 2.0));
        assert!(close(median(&[4.0, 1.0, 2.0, 3.0]), 2.5));
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn half_and_double_cancel_out() {
        assert!(close(geometric_mean(&[0.5, 2.0]), 1.0));
        assert!(close(mean(&[0.5, 1.5]), 1.0));
    }

    #[test]
    fn range_is_min_and_max() {
        assert_eq!(range(&[2.0, 1.0, 3.0]), (1.0, 3.0));
    }
}
