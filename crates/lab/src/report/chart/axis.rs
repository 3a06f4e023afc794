//! The y axis: from zero, or by powers of ten where the values span more than a factor of 20.

/// Scale of an axis, and its grid lines.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// Positions of the grid lines, rising, in the unit of the axis.
    pub(super) ticks: Vec<f64>,
}

impl Axis {
    /// Creates an axis for positive or zero `values` in its unit. `may_be_logarithmic` is true where ratios matter
    /// more than differences.
    pub(super) fn new(values: &[f64], may_be_logarithmic: bool) -> Self {
        let max = values.iter().copied().fold(0.0, f64::max);
        let min = values
            .iter()
            .copied()
            .filter(|value| *value > 0.0)
            .fold(max, f64::min);
        if may_be_logarithmic && min > 0.0 && max / min > 20.0 {
            return Self::logarithmic(min, max);
        }
        let max = if max > 0.0 { max } else { 1.0 };
        let step = step(max / 4.0);
        let lines = (max / step).ceil();
        let ticks = (0..=6_i32)
            .map(f64::from)
            .filter(|line| *line <= lines)
            .map(|line| line * step)
            .collect();
        Self {
            low: 0.0,
            high: lines * step,
            logarithmic: false,
            ticks,
        }
    }

    /// Creates a logarithmic axis between the round numbers around the values. All round numbers between get lines,
    /// if these are few.
    fn logarithmic(min: f64, max: f64) -> Self {
        let first = min.log10().floor();
        let decades = (0..=20_i32).map(|n| 10.0_f64.powf(first + f64::from(n)));
        let round: Vec<f64> = decades
            .flat_map(|decade| [1.0, 2.0, 5.0].map(|factor| factor * decade))
            .collect();
        // Tolerance for rounding: 10 to the power of -1 times 2 is not quite 0.2.
        let low = round
            .iter()
            .copied()
            .rfind(|value| *value <= min * (1.0 + 1e-9))
            .unwrap_or(min);
        let high = round
            .iter()
            .copied()
            .find(|value| *value >= max * (1.0 - 1e-9))
            .unwrap_or(max);
        let mut ticks = round;
        ticks.retain(|value| *value >= low && *value <= high);
        if ticks.len() > 7 {
            // Both ends, and the powers of ten that are not too near to one of them.
            let power = |value: f64| (value.log10() - value.log10().round()).abs() < 1e-6;
            let end = |value: f64| value <= low || value >= high;
            let apart = |value: f64| value >= 4.0 * low && value <= high / 4.0;
            ticks.retain(|value| end(*value) || (power(*value) && apart(*value)));
        }
        Self {
            low: low.log10(),
            high: high.log10(),
            logarithmic: true,
            ticks,
        }
    }

    /// Returns the position of `value` between the lower end, 0, and the upper, 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic {
            value.max(1e-300).log10()
        } else {
            value
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// Returns the smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `least`.
fn step(least: f64) -> f64 {
    let power = 10.0_f64.powf(least.log10().floor());
    // Tolerance for rounding: 0.3 / 0.1 is a little more than 3.
    let fits = |factor: &f64| factor * power >= least * (1.0 - 1e-9);
    [1.0, 2.0, 2.5, 5.0].into_iter().find(fits).unwrap_or(10.0) * power
}

/// Formats a value with as few digits as possible: `0.5`, `20`, `1,000`.
pub(super) fn tick(value: f64) -> String {
    if value.abs() >= 1000.0 {
        return crate::report::format::Style::Count.show(value);
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(values: &[f64], logarithmic: bool) -> String {
        let ticks: Vec<String> = Axis::new(values, logarithmic)
            .ticks
            .iter()
            .map(|value| tick(*value))
            .collect();
        ticks.join(" ")
    }

    #[test]
    fn lines_are_round_and_hold_all_values() {
        assert_eq!(ticks(&[3.0, 34.0], false), "0 10 20 30 40");
        assert_eq!(ticks(&[76.7], false), "0 20 40 60 80");
        assert_eq!(ticks(&[0.9], false), "0 0.25 0.5 0.75 1");
        assert_eq!(ticks(&[1.0], false), "0 0.25 0.5 0.75 1");
        assert_eq!(ticks(&[5000.0], false), "0 2,000 4,000 6,000");
    }

    #[test]
    fn wide_spans_go_by_powers_of_ten_where_they_may() {
        assert_eq!(ticks(&[0.2, 35.0], true), "0.2 1 10 50");
        assert_eq!(ticks(&[1.5, 35.0], true), "1 2 5 10 20 50");
        assert_eq!(ticks(&[2.0, 35.0], true), "0 10 20 30 40");
        assert_eq!(ticks(&[0.2, 35.0], false), "0 10 20 30 40");
    }

    #[test]
    fn no_values_and_zeros_still_have_an_axis() {
        assert_eq!(ticks(&[], true), "0 0.25 0.5 0.75 1");
        assert_eq!(ticks(&[0.0], false), "0 0.25 0.5 0.75 1");
    }

    #[test]
    fn places_are_between_zero_and_one() {
        let axis = Axis::new(&[0.1, 100.0], true);
        let near = |left: f64, right: f64| assert!((left - right).abs() < 1e-9, "{left} {right}");
        near(axis.place(0.1), 0.0);
        near(axis.place(100.0), 1.0);
        near(axis.place(1.0), 1.0 / 3.0);
        near(axis.place(0.0), 0.0);
    }
}
