//! Fairness by cores: one worker beside one process of the base, several workers beside as many processes.

use super::heat::tile;
use crate::report::document::{Block, Entry, Table};
use crate::report::format;
use crate::report::metric::Metric;
use crate::report::prose::Prose;
use crate::report::view::{ExperimentView, Panel, Row, is_ours};

/// Returns one table over all loads, if a Weir has several workers or the base was run with several processes.
pub(super) fn blocks(view: &ExperimentView<'_>) -> Vec<Block> {
    let base = view.experiment.base.as_str();
    let several = |row: &Row<'_>| {
        workers(&row.target.name).is_some_and(|workers| workers > 1)
            || processes(&row.target.name, base).is_some()
    };
    let mut rows = view.panels.iter().flat_map(|panel| &panel.rows);
    // Only a base that can be run with several processes allows this comparison.
    if is_ours(base) || base == "direct" || !rows.any(several) {
        return Vec::new();
    }
    let metrics = Metric::judged(view.experiment.measure);
    let mut heads = vec!["Load", "Cores", "Target", "Against"];
    let titles: Vec<String> = metrics
        .iter()
        .map(|metric| format!(">{}", metric.title()))
        .collect();
    heads.extend(titles.iter().map(String::as_str));
    let mut table = Table::new("One process and equal cores: ratios", &heads);
    let mut alone = false;
    for panel in &view.panels {
        for row in &panel.rows {
            let Some(workers) = workers(&row.target.name) else {
                continue;
            };
            match other(panel, base, workers) {
                Some(against) => {
                    let lines = (0..panel.places.len())
                        .filter_map(|at| line(view, panel, row, against, workers, &metrics, at));
                    table.rows.extend(lines);
                }
                None => alone = true,
            }
        }
    }
    let mut blocks = Vec::new();
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table));
    }
    blocks.push(Block::Note(note(view, alone)));
    blocks
}

/// Returns a note on which of the two comparisons the rest of the page shows, and on what was not measured.
fn note(view: &ExperimentView<'_>, alone: bool) -> Prose {
    let prose =
        Prose::new("Verdict, charts and maps compare with one process of ").name(view.base_title());
    let prose = prose.text(", whatever the number of workers.");
    if alone {
        prose.text(" As many processes as workers were not measured for all of them.")
    } else {
        prose
    }
}

/// Returns the number of workers of one of our targets.
fn workers(target: &str) -> Option<u32> {
    let workers = target.strip_prefix("weir-")?.parse().ok();
    workers.filter(|_| is_ours(target))
}

/// Returns the number of processes of a multiplied base, such as `pgbouncer-x2`.
fn processes(target: &str, base: &str) -> Option<u32> {
    target.strip_prefix(base)?.strip_prefix("-x")?.parse().ok()
}

/// Returns the base with as many processes as there are workers.
fn other<'p, 'a>(panel: &'p Panel<'a>, base: &str, workers: u32) -> Option<&'p Row<'a>> {
    if workers == 1 {
        return panel.base_row();
    }
    let mut rows = panel.rows.iter();
    rows.find(|row| processes(&row.target.name, base) == Some(workers))
}

fn line(
    view: &ExperimentView<'_>,
    panel: &Panel<'_>,
    row: &Row<'_>,
    against: &Row<'_>,
    workers: u32,
    metrics: &[Metric],
    at: usize,
) -> Option<Vec<Entry>> {
    let judged = metrics
        .iter()
        .map(|metric| view.judge_pair(*metric, row, against, at));
    let judged: Vec<_> = judged.collect();
    judged.iter().flatten().next()?;
    let cores = if workers == 1 {
        "one process".to_owned()
    } else {
        format!("equal, {workers}")
    };
    let flags = |row: &Row<'_>| {
        row.points
            .get(at)
            .is_some_and(|point| !point.flags().is_empty())
    };
    let flagged = flags(row) || flags(against);
    let mut entries = vec![
        Entry::new(panel.load(&view.experiment.axis, at)),
        Entry::new(cores),
        Entry::new(&row.target.title),
        Entry::new(&against.target.title),
    ];
    entries.extend(judged.into_iter().map(|judged| match judged {
        Some(judged) => {
            let (text, tone) = tile(&judged);
            Entry {
                text,
                tone,
                flagged,
                ..Entry::default()
            }
        }
        None => Entry::new(format::NONE),
    }));
    Some(entries)
}
