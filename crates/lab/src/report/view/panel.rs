//! Cells of one chart: targets as rows, places on the axis as columns.

use std::collections::{BTreeMap, BTreeSet};

use super::{Factors, Metric, Point, is_ours};
use crate::record::{Cell, Experiment, Target};
use crate::report::chart::SERIES;

/// Cells with one combination of the factors other than the axis.
#[derive(Debug)]
pub(crate) struct Panel<'a> {
    /// Values of those factors that differ between panels.
    pub(crate) label: String,
    /// Places on the axis, rising if they are numbers.
    pub(crate) places: Vec<String>,
    /// Rows in the order of the run's targets.
    pub(crate) rows: Vec<Row<'a>>,
    /// Index of the base in `rows`.
    base: Option<usize>,
}

/// Target in a panel.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// Colour and mark, the same in the whole report.
    pub(crate) style: usize,
    /// Description of the target.
    pub(crate) target: &'a Target,
    /// Points, one per place.
    pub(crate) points: Vec<Point<'a>>,
}

impl<'a> Panel<'a> {
    /// Returns the row that the others are compared with.
    pub(crate) fn base_row(&self) -> Option<&Row<'a>> {
        self.rows.get(self.base?)
    }

    /// Returns the factors of the cells at a place, which are the same for all targets.
    pub(crate) fn factors(&self, at: usize) -> Option<&'a Factors> {
        let mut cells = self
            .rows
            .iter()
            .filter_map(|row| row.points.get(at)?.cells.values().next());
        cells.next().map(|cell| &cell.factors)
    }

    /// Describes one place for display: `protocol extended, clients 50`.
    pub(crate) fn load(&self, axis: &str, at: usize) -> String {
        let place = self.places.get(at).filter(|place| !place.is_empty());
        let place = place.map(|place| format!("{axis} {place}"));
        let label = Some(self.label.clone()).filter(|label| !label.is_empty());
        let parts: Vec<String> = label.into_iter().chain(place).collect();
        parts.join(", ")
    }

    /// Returns the row of a target.
    pub(crate) fn row(&self, target: &str) -> Option<&Row<'a>> {
        self.rows.iter().find(|row| row.target.name == target)
    }

    /// True if any point has `metric`.
    pub(crate) fn has(&self, metric: Metric) -> bool {
        let mut points = self.rows.iter().flat_map(|row| &row.points);
        points.any(|point| point.sample(metric).is_some())
    }
}

/// Returns one panel per combination of the factors other than the axis, ordered by the values of these factors.
pub(super) fn panels<'a>(
    experiment: &Experiment,
    targets: &'a [Target],
    cells: &[&'a Cell],
) -> Vec<Panel<'a>> {
    let mut groups: BTreeMap<Factors, Vec<&Cell>> = BTreeMap::new();
    for cell in cells {
        let mut fixed = cell.factors.clone();
        fixed.remove(&experiment.axis);
        groups.entry(fixed).or_default().push(cell);
    }
    let varied = varied(groups.keys());
    let mut made: Vec<(Vec<SortKey>, Panel<'a>)> = groups
        .into_iter()
        .map(|(fixed, cells)| {
            let shown = |(name, _): &(&String, &String)| varied.contains(name.as_str());
            let key = fixed.values().map(|value| sort_key(value)).collect();
            let label = describe(fixed.iter().filter(shown));
            (key, panel(experiment, targets, label, &cells))
        })
        .collect();
    made.sort_by(|one, two| one.0.cmp(&two.0));
    made.into_iter().map(|(_, panel)| panel).collect()
}

fn panel<'a>(
    experiment: &Experiment,
    targets: &'a [Target],
    label: String,
    cells: &[&'a Cell],
) -> Panel<'a> {
    let place = |cell: &Cell| {
        cell.factors
            .get(&experiment.axis)
            .cloned()
            .unwrap_or_default()
    };
    let places: BTreeSet<String> = cells.iter().map(|cell| place(cell)).collect();
    let mut places: Vec<String> = places.into_iter().collect();
    places.sort_by_key(|place| sort_key(place));
    let row = |(index, target): (usize, &'a Target)| {
        let mine: Vec<&Cell> = cells
            .iter()
            .copied()
            .filter(|cell| cell.target == target.name)
            .collect();
        let point =
            |at: &String| Point::new(mine.iter().copied().filter(|cell| place(cell) == *at));
        (!mine.is_empty()).then(|| Row {
            style: style(targets, index),
            target,
            points: places.iter().map(point).collect(),
        })
    };
    let rows: Vec<Row<'_>> = targets.iter().enumerate().filter_map(row).collect();
    let base = rows
        .iter()
        .position(|row| row.target.name == experiment.base);
    Panel {
        label,
        places,
        rows,
        base,
    }
}

/// Returns the style of a target: the first three are for our targets, the fourth is for `direct`, the rest for all
/// others.
fn style(targets: &[Target], index: usize) -> usize {
    let kind = |target: &Target| (is_ours(&target.name), target.name == "direct");
    let Some(own) = targets.get(index).map(kind) else {
        return 0;
    };
    let before = targets
        .iter()
        .take(index)
        .filter(|target| kind(target) == own)
        .count();
    match own {
        (true, _) => before % 3,
        (_, true) => 3,
        _ => 4 + before % (SERIES - 4),
    }
}

/// Returns the names of the factors that differ between groups.
fn varied<'f>(groups: impl Iterator<Item = &'f Factors>) -> BTreeSet<String> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut count = 0;
    let mut present: BTreeMap<&str, usize> = BTreeMap::new();
    for group in groups {
        count += 1;
        for (name, value) in group {
            values.entry(name).or_default().insert(value);
            *present.entry(name).or_default() += 1;
        }
    }
    let differs = |name: &str, values: &BTreeSet<&str>| {
        values.len() > 1 || present.get(name).is_some_and(|seen| *seen < count)
    };
    values
        .iter()
        .filter(|(name, values)| differs(name, values))
        .map(|(name, _)| (*name).to_owned())
        .collect()
}

/// Formats factors: `protocol extended, tls on`.
pub(crate) fn describe<'f>(factors: impl Iterator<Item = (&'f String, &'f String)>) -> String {
    let pairs: Vec<String> = factors
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    pairs.join(", ")
}

/// Key that sorts numbers before words, and numbers by size; `50%` counts as a number.
pub(super) type SortKey = (bool, u64, String);

pub(super) fn sort_key(value: &str) -> SortKey {
    let end = value
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(value.len());
    let number = value
        .get(..end)
        .and_then(|digits| digits.parse::<f64>().ok());
    // The bits of numbers that are not negative sort as the numbers do.
    match number {
        Some(number) => (false, number.to_bits(), value.to_owned()),
        None => (true, 0, value.to_owned()),
    }
}
