//! Numbers of many rounds in a cell of a table: the middle with both ends, and ratios that are
//! taken inside each round.

use std::collections::BTreeMap;

use crate::lab::statistics::{geometric_mean, median, range};

/// A cell without a number.
pub(super) const NONE: &str = "–";

/// A number per round; rounds that failed are absent.
pub(super) type Series = BTreeMap<u32, f64>;

/// The median with smallest and largest.
pub(super) fn middle(series: &Series, format: impl Fn(f64) -> String) -> String {
    spread(series, median, format)
}

/// Ours over theirs: geometric mean with smallest and largest.
pub(super) fn ratio(ours: &Series, theirs: &Series) -> String {
    spread(&ratios(ours, theirs), geometric_mean, |ratio| {
        format!("{ratio:.2}")
    })
}

/// What ours is more than theirs, in percent: median with smallest and largest of the rounds.
pub(super) fn more(ours: &Series, theirs: &Series) -> String {
    spread(&ratios(ours, theirs), median, percent)
}

/// The median of the rounds' ratios, if there are any.
pub(super) fn median_ratio(ours: &Series, theirs: &Series) -> Option<f64> {
    let ratios: Vec<f64> = ratios(ours, theirs).into_values().collect();
    (!ratios.is_empty()).then(|| median(&ratios))
}

/// A ratio as what it is more than one, in percent.
pub(super) fn percent(ratio: f64) -> String {
    format!("{:+.1}", (ratio - 1.0) * 100.0)
}

/// For every round in which both ran.
fn ratios(ours: &Series, theirs: &Series) -> Series {
    ours.iter()
        .filter_map(|(round, value)| Some((*round, value / theirs.get(round)?)))
        .collect()
}

fn spread(series: &Series, middle: fn(&[f64]) -> f64, format: impl Fn(f64) -> String) -> String {
    let values: Vec<f64> = series.values().copied().collect();
    if values.is_empty() {
        return NONE.to_owned();
    }
    let (low, high) = range(&values);
    format!(
        "{} ({}–{})",
        format(middle(&values)),
        format(low),
        format(high)
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "latencies stay far below 2^52 microseconds"
)]
pub(super) fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

/// How the table's numbers came about, for under every table.
pub(super) fn method(rounds: u32, seed: u64) -> String {
    format!(
        "Median (min–max) of {rounds} rounds; ratios are taken inside each round, then geometric \
         mean (min–max). Order shuffled with seed {seed}."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(value: f64) -> String {
        format!("{value:.1}")
    }

    #[test]
    fn ratios_pair_runs_of_the_same_round() {
        let ours = Series::from([(1, 200.0), (2, 400.0), (3, 200.0)]);
        let theirs = Series::from([(2, 100.0), (1, 100.0)]);
        assert_eq!(ratios(&ours, &theirs), Series::from([(1, 2.0), (2, 4.0)]));
        assert_eq!(ratio(&ours, &theirs), "2.83 (2.00–4.00)");
    }

    #[test]
    fn what_is_more_is_a_median_of_rounds() {
        let ours = Series::from([(1, 103.0), (2, 99.0), (3, 101.0)]);
        let theirs = Series::from([(1, 100.0), (2, 100.0), (3, 100.0), (4, 7.0)]);
        assert_eq!(more(&ours, &theirs), "+1.0 (-1.0–+3.0)");
        assert_eq!(median_ratio(&ours, &theirs), Some(1.01));
        assert_eq!(median_ratio(&ours, &Series::new()), None);
    }

    #[test]
    fn the_middle_stands_between_its_ends() {
        let series = Series::from([(1, 1.0), (2, 3.0), (3, 2.0)]);
        assert_eq!(middle(&series, decimal), "2.0 (1.0–3.0)");
        assert_eq!(middle(&Series::new(), decimal), NONE);
        assert_eq!(ratio(&series, &Series::new()), NONE);
    }
}
