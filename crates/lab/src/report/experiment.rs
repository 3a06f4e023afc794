//! The section of one experiment: charts, heat maps, retention, equal cores, published figures, and the numbers.

mod cores;
mod flags;
mod heat;
mod numbers;
mod retention;

use super::chart::{Chart, Mark, Series};
use super::document::Block;
use super::metric::Metric;
use super::prose::Prose;
use super::published;
use super::verdict;
use super::view::{ExperimentView, Panel, Point, Row, View};
use crate::record;

/// Returns the section.
pub(super) fn blocks(view: &View<'_>, experiment: &ExperimentView<'_>) -> Vec<Block> {
    let described = experiment.experiment;
    let mut blocks = vec![Block::section(format!(
        "{} ({})",
        described.title, described.name
    ))];
    blocks.push(Block::Prose(Prose::quote(&described.text)));
    if experiment.panels.is_empty() {
        blocks.push(Block::Prose(Prose::new("Nothing was measured for it.")));
        return blocks;
    }
    blocks.push(Block::Note(design(experiment)));
    let words = verdict::of_experiment(view, experiment);
    if !words.is_empty() {
        blocks.push(Block::List(words));
    }
    blocks.push(Block::Legend(legend(experiment)));
    blocks.push(Block::Note(versions(view, experiment)));
    for panel in &experiment.panels {
        blocks.extend(panel_blocks(experiment, panel));
    }
    blocks.extend(retention::blocks(experiment));
    blocks.extend(cores::blocks(experiment));
    blocks.extend(published::blocks(experiment));
    blocks.extend(numbers::blocks(view, experiment));
    blocks
}

/// Describes the measurement.
fn design(view: &ExperimentView<'_>) -> Prose {
    use super::format::{Style, plural};
    let described = view.experiment;
    let blocks = usize::try_from(described.blocks).unwrap_or(usize::MAX);
    let prose = Prose::default()
        .count(blocks)
        .text(plural(blocks, " block", " blocks"));
    let prose = prose.text(", each target once per load in shuffled order; warm-up ");
    let prose = prose
        .figure(Style::Seconds, described.warm_up_s)
        .text(", measured ");
    let prose = prose
        .figure(Style::Seconds, described.measure_s)
        .text("; compared with ");
    prose.name(view.base_title()).text(".")
}

fn legend(view: &ExperimentView<'_>) -> Vec<(usize, String)> {
    let mut entries: Vec<(usize, String)> = Vec::new();
    for row in view.panels.iter().flat_map(|panel| &panel.rows) {
        if !entries.iter().any(|(_, title)| *title == row.target.title) {
            entries.push((row.style, row.target.title.clone()));
        }
    }
    entries
}

/// Returns the versions of all programs whose figures the charts show, and of those around them.
fn versions(view: &View<'_>, experiment: &ExperimentView<'_>) -> Prose {
    let rows = experiment.panels.iter().flat_map(|panel| &panel.rows);
    let mut titles: Vec<(&str, Vec<&str>)> = Vec::new();
    for target in rows.map(|row| row.target) {
        let Some(version) = target.version.as_deref() else {
            continue;
        };
        let at = titles.iter().position(|(known, _)| *known == version);
        let at = at.unwrap_or_else(|| {
            titles.push((version, Vec::new()));
            titles.len() - 1
        });
        if let Some((_, of)) = titles.get_mut(at)
            && !of.contains(&target.title.as_str())
        {
            of.push(&target.title);
        }
    }
    let mut parts: Vec<String> = titles
        .iter()
        .map(|(version, of)| format!("{version} ({})", of.join("; ")))
        .collect();
    let environment = &view.results.run.environment;
    if let (Some(_), Some(fronts)) = (front(experiment), environment.get(record::FRONT)) {
        parts.extend(fronts.values().cloned());
    }
    parts.extend(verdict::postgres(view));
    let prose = Prose::new("Versions: ");
    if parts.is_empty() {
        return prose.text("none is known.");
    }
    prose.name(&parts.join("; ")).text(".")
}

/// Returns the program in front of the targets of an experiment.
fn front<'v>(experiment: &'v ExperimentView<'_>) -> Option<&'v str> {
    experiment.experiment.setting.as_ref()?.front.as_deref()
}

fn panel_blocks(view: &ExperimentView<'_>, panel: &Panel<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !panel.label.is_empty() {
        blocks.push(Block::heading(3, &panel.label));
    }
    let charts: Vec<Chart> = Metric::charted(view.experiment.measure)
        .into_iter()
        .filter(|metric| panel.has(*metric))
        .map(|metric| chart(view, panel, metric))
        .filter(|chart| !chart.is_empty())
        .collect();
    if !charts.is_empty() {
        blocks.push(Block::Charts(charts));
    }
    blocks.extend(heat::blocks(view, panel));
    blocks.extend(flags::blocks(view, panel));
    blocks
}

fn chart(view: &ExperimentView<'_>, panel: &Panel<'_>, metric: Metric) -> Chart {
    let series = |row: &Row<'_>| {
        let points: Vec<Option<Mark>> =
            row.points.iter().map(|point| mark(point, metric)).collect();
        let drawn = points.iter().any(Option::is_some);
        drawn.then(|| Series {
            title: row.target.title.clone(),
            style: row.style,
            twin: row.target.twin_of.is_some(),
            published: faint(view, panel, row, metric),
            points,
        })
    };
    Chart {
        metric,
        axis: view.experiment.axis.clone(),
        places: panel.places.clone(),
        series: panel.rows.iter().filter_map(series).collect(),
    }
}

fn mark(point: &Point<'_>, metric: Metric) -> Option<Mark> {
    let sample = point.sample(metric)?;
    let center = point.center(metric)?;
    // One block has no spread. Its own percentile and that of its distribution may differ by the width of a bucket.
    let (low, high) = if sample.count > 1 {
        (sample.min, sample.max)
    } else {
        (center, center)
    };
    Some(Mark {
        center,
        low: low.min(center),
        high: high.max(center),
        flagged: !point.flags().is_empty(),
    })
}

/// Returns the published ratios applied to our base's figures.
fn faint(
    view: &ExperimentView<'_>,
    panel: &Panel<'_>,
    row: &Row<'_>,
    metric: Metric,
) -> Vec<Option<f64>> {
    let value = |at: usize| {
        let base = panel
            .base_row()
            .filter(|base| base.target.name != row.target.name)?;
        let ratio = published::ratio(view, panel, &row.target.name, at)?;
        Some(base.points.get(at)?.center(metric)? * ratio)
    };
    if metric != Metric::Tps {
        return vec![None; panel.places.len()];
    }
    (0..panel.places.len()).map(value).collect()
}
