//! The cells of a run put in order: experiments, their panels, one row per target, one point per place on the axis.

mod panel;
mod point;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use self::panel::{Panel, Row, describe};
pub(crate) use self::point::Point;

use super::judge::{Floor, Judged};
use super::metric::Metric;
use super::results::Results;
use crate::record::{Cell, Experiment, Published, Target};
use crate::statistics::{Noise, Ratio};

/// Varied factors, by name.
pub(crate) type Factors = BTreeMap<String, String>;

/// Whole run, in the order of the report.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// Records that were read.
    pub(crate) results: &'a Results,
    /// Experiments of the run.
    pub(crate) experiments: Vec<ExperimentView<'a>>,
    /// Number of cells of experiments or targets that the run does not name.
    pub(crate) strays: usize,
}

/// Experiment and its cells.
#[derive(Debug)]
pub(crate) struct ExperimentView<'a> {
    /// Description of the experiment.
    pub(crate) experiment: &'a Experiment,
    /// Cells of the experiment.
    pub(crate) cells: Vec<&'a Cell>,
    /// Panels, one per combination of the factors other than the axis.
    pub(crate) panels: Vec<Panel<'a>>,
    /// Noise floors, measured with twins: the experiment's own if there are any, else those of the other
    /// experiments.
    pub(crate) floors: BTreeMap<Metric, Floor>,
    /// Planned cells that are neither measured nor failed: target, factors, block.
    pub(crate) missing: Vec<(String, Factors, u32)>,
}

/// True if a target is the project's own in normal use, such as `weir-2`. A target that is slowed on purpose, or
/// repeats another, is not.
pub(crate) fn is_ours(target: &str) -> bool {
    let workers = target.strip_prefix("weir-");
    target == "weir" || workers.is_some_and(|rest| rest.parse::<u32>().is_ok())
}

/// True if a target only relays bytes and does not pool. Its lower costs are no merit of a pooler.
pub(crate) fn is_relay(target: &str) -> bool {
    matches!(target, "direct" | "haproxy")
}

// === impl View ===

impl<'a> View<'a> {
    /// Arranges `results`.
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

    /// Returns the title of a target for display; empty if the run does not describe it.
    pub(crate) fn title(&self, target: &str) -> &'a str {
        title(&self.results.run.targets, target).unwrap_or_default()
    }
}

/// Returns the title of a target with the version that its program reports: `PgBouncer 1.25.2`, `Weir 0.1.0, 1 worker`.
/// Returns the title alone if the report of the version does not begin with the same name.
pub(crate) fn versioned(target: &Target) -> String {
    let title = &target.title;
    let versioned = || {
        let (name, rest) = target.version.as_deref()?.split_once(' ')?;
        let has_digit = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
        let number = rest.split([' ', ';', ',', '(', ')']).find(has_digit)?;
        let begins = title.get(..name.len())?.eq_ignore_ascii_case(name);
        let (name, others) = title.split_at_checked(name.len())?;
        let whole = begins && !others.starts_with(|c: char| c.is_alphanumeric());
        // The title of a target for one version has the beginning of it.
        let series = others.split_whitespace().next().unwrap_or_default();
        let others = match number.starts_with(series) && has_digit(&series) {
            true => others.trim_start().strip_prefix(series)?,
            false => others,
        };
        whole.then(|| format!("{name} {number}{others}"))
    };
    versioned().unwrap_or_else(|| title.clone())
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
        let panels = panel::panels(experiment, &results.run.targets, &cells);
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

    /// Returns the main metric of the experiment.
    pub(crate) fn main(&self) -> Metric {
        Metric::main(self.experiment.measure)
    }

    /// Returns the cells that could not be run.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &'a Cell> {
        self.cells
            .iter()
            .copied()
            .filter(|cell| cell.outcome.is_none())
    }

    /// Returns the title of the base, or its name.
    pub(crate) fn base_title(&self) -> &'a str {
        let mut rows = self.panels.iter().filter_map(Panel::base_row);
        rows.next().map_or(self.experiment.base.as_str(), |row| {
            row.target.title.as_str()
        })
    }

    /// Judges the ratio of `row` to the base at the place `at`. `None` for the base itself, and without pairs.
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
        let (point, other) = (row.points.get(at)?, against.points.get(at)?);
        let ratio = Ratio::of(&point.pairs(other, metric))?;
        let floor = self.floors.get(&metric);
        let judged = Judged::new(ratio, floor, metric.more_is_better());
        if point.other_work() == other.other_work() {
            Some(judged)
        } else {
            Some(judged.of_other_work())
        }
    }

    /// Returns the pairs of all twins with their originals.
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

/// Returns the planned cells that a block lacks. Without a plan: the cells that some block has and another has not.
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

/// Returns the figures published for conditions such as `factors`.
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
