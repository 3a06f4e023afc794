//! The y axis: from zero, or by powers of ten where the values span more than a factor of 20.

/// Where a value lies, and which lines are drawn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// The lines, rising, in the unit of the axis.
    pub(super) ticks: Vec<f64>,
}

impl Axis {
    /// For positive or zero `values` in the unit of the axis. `may_be_logarithmic` where ratios matter more than
    /// differences.
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

    fn logarithmic(min: f64, max: f64) -> Self {
        let (first, last) = (min.log10().floor(), max.log10().ceil());
        let decades = (0..=20_i32)
            .map(|n| first + f64::from(n))
            .take_while(|decade| *decade <= last);
        Self {
            low: first,
            high: last,
            logarithmic: true,
            ticks: decades.map(|decade| 10.0_f64.powf(decade)).collect(),
        }
    }

    /// Where `value` is between the lower end, 0, and the upper, 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic {
            value.max(1e-300).log10()
        } else {
            value
        };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `least`.
fn step(least: f64) -> f64 {
    let power = 10.0_f64.powf(least.log10().floor());
    // Room for rounding: 0.3 / 0.1 is a little more than 3.
    let fits = |factor: &f64| factor * power >= least * (1.0 - 1e-9);
    [1.0, 2.0, 2.5, 5.0].into_iter().find(fits).unwrap_or(10.0) * power
}

/// As few digits as tell it: `0.5`, `20`, `1,000`.
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
        assert_eq!(ticks(&[0.2, 35.0], true), "0.1 1 10 100");
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
