//! The cells of a run put in order: experiments, their panels, one row per target, one point per place on the axis.

mod point;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use self::point::Point;

use super::judge::{Floor, Judged};
use super::metric::Metric;
use super::results::Results;
use crate::record::{Cell, Experiment, Published, Target};
use crate::statistics::{Noise, Ratio};

/// What was varied, by name.
pub(crate) type Factors = BTreeMap<String, String>;

/// Everything, in the order of the report.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// What was read.
    pub(crate) results: &'a Results,
    /// One per experiment of the run.
    pub(crate) experiments: Vec<ExperimentView<'a>>,
    /// Cells of experiments or targets that the run does not name.
    pub(crate) strays: usize,
}

/// One experiment.
#[derive(Debug)]
pub(crate) struct ExperimentView<'a> {
    /// Its description.
    pub(crate) experiment: &'a Experiment,
    /// Its cells.
    pub(crate) cells: Vec<&'a Cell>,
    /// One per combination of the factors other than the axis.
    pub(crate) panels: Vec<Panel<'a>>,
    /// Measured with twins: its own if it has any, else those of the other experiments.
    pub(crate) floors: BTreeMap<Metric, Floor>,
    /// Planned, and neither measured nor failed: target, factors, block.
    pub(crate) missing: Vec<(String, Factors, u32)>,
}

/// One combination of the factors other than the axis.
#[derive(Debug)]
pub(crate) struct Panel<'a> {
    /// Those of them that differ between panels.
    pub(crate) label: String,
    /// Places on the axis, rising if they are numbers.
    pub(crate) places: Vec<String>,
    /// In the order of the run's targets.
    pub(crate) rows: Vec<Row<'a>>,
    /// The place of the base in `rows`.
    base: Option<usize>,
}

/// One target in a panel.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// Its colour and mark, the same in the whole report.
    pub(crate) style: usize,
    /// The target.
    pub(crate) target: &'a Target,
    /// As many as there are places.
    pub(crate) points: Vec<Point<'a>>,
}

/// Whether a target is the project's own as it is used, such as `weir-2`; not one that is slowed on purpose, nor the
/// repetition of another.
pub(crate) fn is_ours(target: &str) -> bool {
    let workers = target.strip_prefix("weir-");
    target == "weir" || workers.is_some_and(|rest| rest.parse::<u32>().is_ok())
}

/// Whether a target passes bytes on and pools nothing: what it costs less is no merit of a pooler.
pub(crate) fn is_relay(target: &str) -> bool {
    matches!(target, "direct" | "haproxy")
}

// === impl View ===

impl<'a> View<'a> {
    /// Puts `results` in order.
    pub(crate) fn new(results: &'a Results) -> Self {
        let of = |experiment: &'a Experiment| ExperimentView::new(experiment, results);
        let known: BTreeSet<&str> = results
            .run
            .experiments
            .iter()
            .map(|experiment| experiment.name.as_str())
            .collect();
        let targets: BTreeSet<&str> = results
            .run
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect();
        let stray = |cell: &&Cell| {
            !known.contains(cell.experiment.as_str()) || !targets.contains(cell.target.as_str())
        };
        let mut experiments: Vec<ExperimentView<'a>> =
            results.run.experiments.iter().map(of).collect();
        lend(&mut experiments);
        Self {
            results,
            experiments,
            strays: results.cells.iter().filter(stray).count(),
        }
    }

    /// For people: the title of a target, or its name if the run does not describe it.
    pub(crate) fn title(&self, target: &str) -> &'a str {
        title(&self.results.run.targets, target).unwrap_or_default()
    }
}

/// Gives the noise of all twins together to the experiments that have none of their own.
fn lend(experiments: &mut [ExperimentView<'_>]) {
    let mut pairs: BTreeMap<Metric, Vec<(f64, f64)>> = BTreeMap::new();
    for experiment in experiments.iter() {
        for metric in Metric::judged(experiment.experiment.measure) {
            pairs
                .entry(metric)
                .or_default()
                .extend(experiment.twins(metric));
        }
    }
    for experiment in experiments {
        for metric in Metric::judged(experiment.experiment.measure) {
            let lent = pairs.get(&metric).and_then(|pairs| Noise::of(pairs));
            if let (Some(noise), false) = (lent, experiment.floors.contains_key(&metric)) {
                experiment
                    .floors
                    .insert(metric, Floor { noise, own: false });
            }
        }
    }
}

fn title<'a>(targets: &'a [Target], name: &str) -> Option<&'a str> {
    let target = targets.iter().find(|target| target.name == name)?;
    Some(target.title.as_str())
}

// === impl ExperimentView ===

impl<'a> ExperimentView<'a> {
    fn new(experiment: &'a Experiment, results: &'a Results) -> Self {
        let cells: Vec<&Cell> = results
            .cells
            .iter()
            .filter(|cell| cell.experiment == experiment.name)
            .collect();
        let panels = panels(experiment, &results.run.targets, &cells);
        let missing = missing(experiment, &cells);
        let mut view = Self {
            experiment,
            cells,
            panels,
            floors: BTreeMap::new(),
            missing,
        };
        for metric in Metric::judged(experiment.measure) {
            if let Some(noise) = Noise::of(&view.twins(metric)) {
                view.floors.insert(metric, Floor { noise, own: true });
            }
        }
        view
    }

    /// What it is judged by first.
    pub(crate) fn main(&self) -> Metric {
        Metric::main(self.experiment.measure)
    }

    /// Cells that could not be run.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &'a Cell> {
        self.cells
            .iter()
            .copied()
            .filter(|cell| cell.outcome.is_none())
    }

    /// The title of the base, or its name.
    pub(crate) fn base_title(&self) -> &'a str {
        let mut rows = self.panels.iter().filter_map(Panel::base_row);
        rows.next().map_or(self.experiment.base.as_str(), |row| {
            row.target.title.as_str()
        })
    }

    /// The ratio of `row` to the base at the place `at`, judged. `None` for the base and where a pair is missing.
    pub(crate) fn judge(
        &self,
        metric: Metric,
        panel: &Panel<'a>,
        row: &Row<'a>,
        at: usize,
    ) -> Option<Judged> {
        let base = panel.base_row()?;
        if base.target.name == row.target.name {
            return None;
        }
        self.judge_pair(metric, row, base, at)
    }

    /// As [`Self::judge`], against any other row.
    pub(crate) fn judge_pair(
        &self,
        metric: Metric,
        row: &Row<'a>,
        against: &Row<'a>,
        at: usize,
    ) -> Option<Judged> {
        let pairs = row.points.get(at)?.pairs(against.points.get(at)?, metric);
        let floor = self.floors.get(&metric);
        Some(Judged::new(
            Ratio::of(&pairs)?,
            floor,
            metric.more_is_better(),
        ))
    }

    /// Pairs of all twins with what they repeat.
    fn twins(&self, metric: Metric) -> Vec<(f64, f64)> {
        let mut pairs = Vec::new();
        for panel in &self.panels {
            for row in &panel.rows {
                let original = row
                    .target
                    .twin_of
                    .as_deref()
                    .and_then(|name| panel.row(name));
                let Some(original) = original else { continue };
                for (twin, point) in row.points.iter().zip(&original.points) {
                    pairs.extend(twin.pairs(point, metric));
                }
            }
        }
        pairs
    }
}

// === impl Panel ===

impl<'a> Panel<'a> {
    /// The row that the others are compared with.
    pub(crate) fn base_row(&self) -> Option<&Row<'a>> {
        self.rows.get(self.base?)
    }

    /// The factors of the cells at a place, the same for all targets.
    pub(crate) fn factors(&self, at: usize) -> Option<&'a Factors> {
        let mut cells = self
            .rows
            .iter()
            .filter_map(|row| row.points.get(at)?.cells.values().next());
        cells.next().map(|cell| &cell.factors)
    }

    /// One place for people: `protocol extended, clients 50`.
    pub(crate) fn load(&self, axis: &str, at: usize) -> String {
        let place = self.places.get(at).filter(|place| !place.is_empty());
        let place = place.map(|place| format!("{axis} {place}"));
        let label = Some(self.label.clone()).filter(|label| !label.is_empty());
        let parts: Vec<String> = label.into_iter().chain(place).collect();
        parts.join(", ")
    }

    /// The row of a target.
    pub(crate) fn row(&self, target: &str) -> Option<&Row<'a>> {
        self.rows.iter().find(|row| row.target.name == target)
    }

    /// Whether any point has `metric`.
    pub(crate) fn has(&self, metric: Metric) -> bool {
        let mut points = self.rows.iter().flat_map(|row| &row.points);
        points.any(|point| point.sample(metric).is_some())
    }
}

/// One panel per combination of the factors other than the axis, in the order of their first cells' factors.
fn panels<'a>(
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

/// Ours have the first three styles, `direct` the next, all others the rest.
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
        _ => 4 + before % (super::chart::SERIES - 4),
    }
}

/// The names of the factors that have more than one value.
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

/// `protocol extended, tls on`.
pub(crate) fn describe<'f>(factors: impl Iterator<Item = (&'f String, &'f String)>) -> String {
    let pairs: Vec<String> = factors
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    pairs.join(", ")
}

/// Numbers before words, numbers by their size; `50%` counts as one.
type SortKey = (bool, u64, String);

fn sort_key(value: &str) -> SortKey {
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

/// What was planned for each block and is not there. Without a plan: what some block has and another has not.
fn missing(experiment: &Experiment, cells: &[&Cell]) -> Vec<(String, Factors, u32)> {
    let seen: BTreeSet<(&str, &Factors, u32)> = cells
        .iter()
        .map(|cell| (cell.target.as_str(), &cell.factors, cell.block))
        .collect();
    let planned: BTreeSet<(&str, &Factors)> = if experiment.plan.is_empty() {
        seen.iter()
            .map(|(target, factors, _)| (*target, *factors))
            .collect()
    } else {
        experiment
            .plan
            .iter()
            .map(|cell| (cell.target.as_str(), &cell.factors))
            .collect()
    };
    let blocks = 0..experiment.blocks;
    let absent = |block| {
        let seen = &seen;
        planned
            .iter()
            .filter(move |(target, factors)| !seen.contains(&(*target, *factors, block)))
            .map(move |(target, factors)| ((*target).to_owned(), (*factors).clone(), block))
    };
    blocks.flat_map(absent).collect()
}

/// What was published for conditions such as `factors`, one per published target at most.
pub(crate) fn published<'a>(
    experiment: &'a Experiment,
    factors: &'a Factors,
) -> impl Iterator<Item = &'a Published> {
    let fits = |published: &&Published| {
        published
            .factors
            .iter()
            .all(|(name, value)| factors.get(name) == Some(value))
    };
    experiment.published.iter().filter(fits)
}

#[cfg(test)]
mod tests;
