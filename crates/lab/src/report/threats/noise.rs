//! Sentences on the limits that the number of blocks, the noise floor and chance set.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Target;
use crate::report::format::{Style, plural};
use crate::report::judge::{Floor, Judged, Verdict};
use crate::report::metric::Metric;
use crate::report::prose::Prose;
use crate::report::verdict::{Tally, judgements};
use crate::report::view::{ExperimentView, View};
use crate::statistics::{Ratio, float, half_width, rank};

/// Returns the limits of so few blocks, one sentence per number of blocks.
pub(super) fn blocks(view: &View<'_>) -> Vec<Prose> {
    let mut by_count: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for experiment in view
        .experiments
        .iter()
        .filter(|experiment| !experiment.cells.is_empty())
    {
        let blocks: BTreeSet<u32> = experiment
            .cells
            .iter()
            .filter(|cell| cell.outcome.is_some())
            .map(|cell| cell.block)
            .collect();
        by_count
            .entry(blocks.len())
            .or_default()
            .push(&experiment.experiment.title);
    }
    let sentence = |(count, names): (&usize, &Vec<&str>)| {
        let prose = Prose::quote(&names.join("; ")).text(": ");
        match half_width(*count) {
            None => prose.count(*count).text(
                " block, so there is no interval: without a noise floor nothing is claimed, and ratios are \
                 marked “?”.",
            ),
            Some(half) => prose
                .count(*count)
                .text(" blocks, so the 95 % interval of a mean is ± ")
                .figure(Style::Decimal, half)
                .text(" standard deviations, and a rank test cannot give less than p = ")
                .figure(Style::Probability, rank::least_p(*count, *count))
                .text("."),
        }
    };
    by_count
        .iter()
        .filter(|(count, _)| **count > 0)
        .map(sentence)
        .collect()
}

/// Lists experiments without a noise floor of their own.
pub(super) fn without_twins(view: &View<'_>) -> Vec<Prose> {
    let names = |wanted: fn(Option<&Floor>) -> bool| -> Vec<&str> {
        let measured = view
            .experiments
            .iter()
            .filter(|experiment| !experiment.panels.is_empty());
        measured
            .filter(|experiment| wanted(experiment.floors.get(&experiment.main())))
            .map(|experiment| experiment.experiment.title.as_str())
            .collect()
    };
    let mut said = Vec::new();
    let lent = names(|floor| floor.is_some_and(|floor| !floor.own));
    if !lent.is_empty() {
        said.push(Prose::quote(&lent.join("; ")).text(
            ": no target was run twice under two names; the noise floor is that of the other experiments, under \
             other loads, and is used to dismiss differences only.",
        ));
    }
    let unknown = names(|floor| floor.is_none());
    if !unknown.is_empty() {
        said.push(Prose::quote(&unknown.join("; ")).text(
            ": no target was run twice under two names, so the noise floor is unknown, and “~” rests on the \
             intervals alone.",
        ));
    }
    said
}

/// Describes a twin: its ratio to the original, the number of places that differ, and the width of the noise.
pub(super) fn twins(
    view: &View<'_>,
    experiment: &ExperimentView<'_>,
    twin: &Target,
) -> Option<Prose> {
    let metric = experiment.main();
    let original = twin.twin_of.as_deref()?;
    let mut judged = Vec::new();
    for panel in &experiment.panels {
        let (Some(row), Some(other)) = (panel.row(&twin.name), panel.row(original)) else {
            continue;
        };
        let places = 0..panel.places.len();
        judged.extend(places.filter_map(|at| experiment.judge_pair(metric, row, other, at)));
    }
    let logs: Vec<f64> = judged.iter().map(|judged| judged.ratio.mean.ln()).collect();
    let overall = Ratio::of_logs(&logs)?;
    if judged
        .iter()
        .all(|judged| judged.verdict == Verdict::Unjudged)
    {
        return None;
    }
    let significant = |verdict| matches!(verdict, Verdict::Better | Verdict::Worse);
    let differing = judged
        .iter()
        .filter(|judged| significant(judged.verdict))
        .count();
    let prose = Prose::quote(&experiment.experiment.title)
        .text(": ")
        .name(view.title(original));
    let prose = prose
        .text(" ran twice under two names. Over ")
        .count(judged.len());
    let prose = prose.text(plural(judged.len(), " load", " loads"));
    let prose = prose
        .text(" the second stands to the first as ")
        .figure(Style::Fine, overall.mean);
    let prose = prose
        .text(" to one; by the rule for all comparisons, ")
        .count(differing);
    let prose = prose.text(plural(differing, " of these differs", " of these differ"));
    Some(prose.then(floor(experiment, metric, &judged)).text("."))
}

/// Describes the width of the noise.
fn floor(experiment: &ExperimentView<'_>, metric: Metric, judged: &[Judged]) -> Prose {
    let found = experiment.floors.get(&metric).and_then(|floor| {
        let blocks = judged.iter().map(|judged| judged.ratio.pairs).max()?;
        Some((floor.noise.band(blocks)?, floor.noise.pairs, blocks))
    });
    let Some((band, pairs, blocks)) = found else {
        return Prose::default();
    };
    let prose = Prose::new(". From its ")
        .count(pairs)
        .text(" pairs, a ratio over ")
        .count(blocks);
    let prose = prose
        .text(plural(blocks, " block", " blocks"))
        .text(" is noise from ");
    prose
        .figure(Style::Fine, 1.0 / band)
        .text(" to ")
        .figure(Style::Fine, band)
}

/// Reports whether a difference that is known to exist was found.
pub(super) fn slowed(experiment: &ExperimentView<'_>) -> Vec<Prose> {
    let mut said = Vec::new();
    for panel in &experiment.panels {
        let Some(whole) = panel.row("weir-1") else {
            continue;
        };
        for row in panel
            .rows
            .iter()
            .filter(|row| row.target.name.starts_with("weir-slow"))
        {
            let places = 0..panel.places.len();
            let judged: Vec<Judged> = places
                .filter_map(|at| experiment.judge_pair(experiment.main(), row, whole, at))
                .collect();
            let logs: Vec<f64> = judged.iter().map(|judged| judged.ratio.mean.ln()).collect();
            let Some(overall) = Ratio::of_logs(&logs) else {
                continue;
            };
            let found = judged
                .iter()
                .filter(|judged| judged.verdict == Verdict::Worse)
                .count();
            let prose = Prose::quote(&experiment.experiment.title)
                .text(": ")
                .name(&row.target.title);
            let prose = prose
                .text(", which is slower on purpose, stands to ")
                .name(&whole.target.title);
            let prose = prose
                .text(" as ")
                .figure(Style::Fine, overall.mean)
                .text(" to one, and was found slower at ");
            let prose = prose.count(found).text(" of ").count(judged.len());
            said.push(prose.text(plural(judged.len(), " load.", " loads.")));
        }
    }
    said
}

/// Warns that some of many comparisons look different by chance.
pub(super) fn chance(view: &View<'_>) -> Vec<Prose> {
    let mut judged = Vec::new();
    for experiment in &view.experiments {
        for metric in Metric::judged(experiment.experiment.measure) {
            for target in &view.results.run.targets {
                judged.extend(judgements(experiment, &target.name, metric));
            }
        }
    }
    let tally = Tally::of(&judged);
    let total = tally.total() - tally.unjudged;
    if total == 0 {
        return Vec::new();
    }
    let by_chance = (float(total) * (1.0 - crate::statistics::CONFIDENCE)).round();
    let prose = Prose::default().count(total);
    let prose = prose.text(plural(total, " ratio was judged", " ratios were judged"));
    let prose = prose
        .text(" at 95 %, so about ")
        .figure(Style::Count, by_chance);
    vec![prose.text(" would look different by chance alone.")]
}
