//! Negative results: where the project's own program is behind. They come before the figures.

use super::document::{Block, Entry, Table, Tone};
use super::format::{Style, plural};
use super::judge::{Judged, Verdict};
use super::metric::Metric;
use super::prose::Prose;
use super::view::{ExperimentView, Panel, Row, View, is_ours, is_relay};

/// Number of rows that are shown; the rest is folded.
const OPEN: usize = 25;

/// Comparison in which one of our targets is behind.
#[derive(Debug, Clone, PartialEq)]
struct Loss {
    place: String,
    target: String,
    against: String,
    metric: Metric,
    ours: f64,
    theirs: f64,
    judged: Judged,
    flagged: bool,
}

impl Loss {
    /// True if the loss is beyond the noise.
    fn is_known(&self) -> bool {
        self.judged.verdict == Verdict::Worse
    }
}

/// Returns the comparisons in which ours is worse than the base by any metric, the worst first.
fn against_base(view: &View<'_>) -> Vec<Loss> {
    let mut losses = Vec::new();
    for experiment in &view.experiments {
        for panel in &experiment.panels {
            let Some(base) = panel.base_row().filter(|base| !is_ours(&base.target.name)) else {
                continue;
            };
            for row in panel.rows.iter().filter(|row| is_ours(&row.target.name)) {
                for metric in Metric::judged(experiment.experiment.measure) {
                    let places = 0..panel.places.len();
                    losses.extend(
                        places.filter_map(|at| loss(experiment, panel, row, base, metric, at)),
                    );
                }
            }
        }
    }
    sort(&mut losses);
    losses
}

/// Returns the comparisons in which another pooler is ahead of the best of ours, by the experiment's main metric.
fn against_others(view: &View<'_>) -> Vec<Loss> {
    let mut losses = Vec::new();
    for experiment in &view.experiments {
        let metric = experiment.main();
        for panel in &experiment.panels {
            for at in 0..panel.places.len() {
                let Some(best) = best(panel, metric, at) else {
                    continue;
                };
                // The base has its own list, a twin repeats another target, relays do not pool, and variants of
                // Weir are no other poolers.
                let others = panel.rows.iter().filter(|row| {
                    let name = row.target.name.as_str();
                    !is_ours(name)
                        && name != experiment.experiment.base
                        && !is_relay(name)
                        && row.target.twin_of.is_none()
                        && !name.starts_with("weir-")
                });
                losses.extend(
                    others.filter_map(|other| loss(experiment, panel, best, other, metric, at)),
                );
            }
        }
    }
    sort(&mut losses);
    losses
}

fn sort(losses: &mut [Loss]) {
    losses.sort_by(|one, two| one.judged.gain().total_cmp(&two.judged.gain()));
}

/// Returns the best of our targets at a place.
fn best<'p, 'a>(panel: &'p Panel<'a>, metric: Metric, at: usize) -> Option<&'p Row<'a>> {
    let value = |row: &Row<'_>| row.points.get(at)?.sample(metric).map(|sample| sample.mean);
    let signed = |value: f64| {
        if metric.more_is_better() {
            value
        } else {
            -value
        }
    };
    panel
        .rows
        .iter()
        .filter(|row| is_ours(&row.target.name))
        .filter_map(|row| Some((signed(value(row)?), row)))
        .max_by(|one, two| one.0.total_cmp(&two.0))
        .map(|(_, row)| row)
}

fn loss<'a>(
    experiment: &ExperimentView<'a>,
    panel: &Panel<'a>,
    row: &Row<'a>,
    against: &Row<'a>,
    metric: Metric,
    at: usize,
) -> Option<Loss> {
    let judged = experiment.judge_pair(metric, row, against, at)?;
    // A ratio on the bad side that cannot be judged is reported too, apart from known losses.
    let behind = match judged.verdict {
        Verdict::Better | Verdict::Noise | Verdict::OtherWork => false,
        Verdict::Unjudged => judged.gain() < 0.0,
        Verdict::Worse => true,
    };
    if !behind {
        return None;
    }
    let (ours, theirs) = (row.points.get(at)?, against.points.get(at)?);
    let described = experiment.experiment;
    Some(Loss {
        place: format!("{}: {}", described.title, panel.load(&described.axis, at)),
        target: row.target.title.clone(),
        against: against.target.title.clone(),
        metric,
        ours: ours.center(metric)?,
        theirs: theirs.center(metric)?,
        judged,
        flagged: !ours.flags().is_empty() || !theirs.flags().is_empty(),
    })
}

/// Returns the section.
pub(super) fn blocks(view: &View<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::section("Where Weir loses")];
    let (base, open): (Vec<Loss>, Vec<Loss>) =
        against_base(view).into_iter().partition(Loss::is_known);
    let mut others = against_others(view);
    others.retain(Loss::is_known);
    blocks.push(Block::Prose(introduction(
        view,
        base.len(),
        others.len(),
        open.len(),
    )));
    blocks.extend(list("Behind the base, the worst first", &base));
    blocks.extend(list("Other poolers ahead of the best Weir", &others));
    blocks.extend(list("Behind the base in the only block", &open));
    let failures = failures(view);
    if !failures.rows.is_empty() {
        blocks.push(Block::Table(failures));
    }
    blocks
}

/// Returns the number of losses to the base that are beyond the noise.
pub(super) fn count(view: &View<'_>) -> usize {
    against_base(view)
        .iter()
        .filter(|loss| loss.is_known())
        .count()
}

fn introduction(view: &View<'_>, base: usize, others: usize, open: usize) -> Prose {
    let compared = view.experiments.iter().any(|experiment| {
        experiment.panels.iter().any(|panel| {
            let ours = panel.rows.iter().any(|row| is_ours(&row.target.name));
            ours && panel.rows.iter().any(|row| !is_ours(&row.target.name))
        })
    });
    if !compared {
        return Prose::new(
            "No block has both Weir and another target, so nothing is known about it.",
        );
    }
    let known = match (base, others) {
        (0, 0) => Prose::new("No comparison shows Weir behind beyond the noise."),
        (0, _) => Prose::new("Nowhere behind the base beyond the noise, but in ")
            .count(others)
            .text(plural(
                others,
                " comparison with another pooler.",
                " comparisons with other poolers.",
            )),
        (_, 0) => Prose::new("Worse than the base, beyond the noise, in ")
            .count(base)
            .text(plural(base, " comparison.", " comparisons.")),
        _ => Prose::new("Worse than the base, beyond the noise, in ")
            .count(base)
            .text(plural(base, " comparison", " comparisons"))
            .text(", and behind other poolers in ")
            .count(others)
            .text("."),
    };
    if open == 0 {
        return known;
    }
    known.text(" In ").count(open).text(
        " that cannot be judged it was behind the base in the only block, which may be noise.",
    )
}

fn list(caption: &'static str, losses: &[Loss]) -> Vec<Block> {
    let (open, folded) = losses.split_at(losses.len().min(OPEN));
    let mut blocks = Vec::new();
    if !open.is_empty() {
        blocks.push(Block::Table(table(caption, open)));
    }
    if !folded.is_empty() {
        blocks.push(Block::Details {
            summary: format!("{caption}: {} more", folded.len()),
            blocks: vec![Block::Table(table(caption, folded))],
            terminal: true,
        });
    }
    blocks
}

fn table(caption: &str, losses: &[Loss]) -> Table {
    // The most important columns come first: on a phone the rest is out of sight.
    let heads = [
        "Load",
        ">Ratio",
        "Measure",
        "Target",
        ">Weir",
        ">Other",
        "Against",
        ">95 % interval",
    ];
    let mut table = Table::new(caption, &heads);
    for loss in losses {
        let style = loss.metric.style();
        let ratio = loss.judged.ratio;
        let interval = ratio.interval.map_or_else(
            || super::format::NONE.to_owned(),
            |interval| {
                let (low, high) = (
                    Style::Ratio.show(interval.low),
                    Style::Ratio.show(interval.high),
                );
                format!("{low} to {high}")
            },
        );
        let tone = if loss.is_known() {
            Tone::Worse(loss.judged.step())
        } else {
            Tone::Unjudged
        };
        table.rows.push(vec![
            Entry::new(&loss.place),
            Entry {
                tone,
                flagged: loss.flagged,
                ..Entry::new(Style::Ratio.show(ratio.mean))
            },
            Entry::new(loss.metric.title()),
            Entry::new(&loss.target),
            Entry::new(style.show(loss.ours)),
            Entry::new(style.show(loss.theirs)),
            Entry::new(&loss.against),
            Entry::new(interval),
        ]);
    }
    table
}

/// Lists cells of our targets that could not be run or in which transactions failed.
fn failures(view: &View<'_>) -> Table {
    let heads = ["Experiment", "Load", "Target", ">Block", "What"];
    let mut table = Table::new("Cells of Weir that failed", &heads);
    let cells = view
        .experiments
        .iter()
        .flat_map(|of| of.cells.iter().map(|cell| (of.experiment, *cell)));
    for (experiment, cell) in cells {
        let what = match (&cell.failed, &cell.outcome) {
            (Some(why), None) => super::failures::first_line(why).to_owned(),
            (None, None) => "no outcome was recorded".to_owned(),
            (_, Some(outcome)) if outcome.errors > 0 => {
                format!("{} transactions failed", outcome.errors)
            }
            _ => continue,
        };
        if is_ours(&cell.target) {
            let load = super::view::describe(cell.factors.iter());
            let block = cell.block.to_string();
            let target = view.title(&cell.target).to_owned();
            table.row([experiment.title.clone(), load, target, block, what]);
        }
    }
    table
}
