//! Rounding of computed sizes to whole servers.

/// Returns the nearest whole number of servers; 0 for a negative value or not-a-number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "float to integer casts saturate, and not-a-number becomes 0"
)]
pub(crate) fn servers(size: f64) -> u32 {
    size.round() as u32
}

/// Returns the slot of a value among `count` slots; values beyond the ends fall into the end slots.
#[expect(
    clippy::cast_possible_truncation,
    reason = "float to integer casts saturate, and not-a-number becomes 0"
)]
pub(crate) fn slot(position: f64, count: usize) -> usize {
    (position as usize).min(count.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_size_is_none() {
        assert_eq!(servers(2.5), 3);
        assert_eq!(servers(-1.0), 0);
        assert_eq!(servers(f64::NAN), 0);
        assert_eq!(slot(-3.0, 4), 0);
        assert_eq!(slot(99.0, 4), 3);
        assert_eq!(slot(1.9, 4), 1);
    }
}
