//! Heat maps: the ratio of every target to the base at every place. Flagged cells are hatched, noise appears as
//! `~`.

use crate::report::document::{Block, Column, Entry, Table, Tone};
use crate::report::format::{self, Style};
use crate::report::judge::{Judged, Verdict};
use crate::report::metric::Metric;
use crate::report::prose::Prose;
use crate::report::view::{ExperimentView, Panel, Point, Row};

/// Returns one map per metric that was measured for the base; a sentence if there is nothing to compare.
pub(super) fn blocks(view: &ExperimentView<'_>, panel: &Panel<'_>) -> Vec<Block> {
    if panel.base_row().is_none() {
        let words = Prose::new("No ratios: the base, ").name(&view.experiment.base);
        return vec![Block::Prose(words.text(", was not measured here."))];
    }
    if panel.rows.len() < 2 {
        let words = Prose::new("No ratios: nothing but ").name(view.base_title());
        return vec![Block::Prose(words.text(" was measured here."))];
    }
    let measured = |metric: &Metric| panel.base_row().is_some_and(|base| has(base, *metric));
    let metrics = Metric::judged(view.experiment.measure)
        .into_iter()
        .filter(measured);
    let maps: Vec<Table> = metrics.map(|metric| table(view, panel, metric)).collect();
    if maps.is_empty() {
        let words = Prose::new("No ratios: the base, ").name(view.base_title());
        return vec![Block::Prose(words.text(", could not be measured here."))];
    }
    vec![Block::Beside(maps)]
}

fn has(row: &Row<'_>, metric: Metric) -> bool {
    row.points
        .iter()
        .any(|point| point.sample(metric).is_some())
}

fn table(view: &ExperimentView<'_>, panel: &Panel<'_>, metric: Metric) -> Table {
    let better = if metric.more_is_better() {
        "more"
    } else {
        "less"
    };
    let caption = format!(
        "{}, ratio to {} ({better} is better)",
        metric.title(),
        view.base_title()
    );
    let mut table = Table::new(caption, &[view.experiment.axis.as_str()]);
    table.heat = true;
    let column = |place: &String| Column {
        title: place.clone(),
        right: false,
    };
    table.columns.extend(panel.places.iter().map(column));
    // A target that cannot have the metric has no row, such as `direct`, which has no pooler's CPU time.
    for row in panel
        .rows
        .iter()
        .filter(|row| has(row, metric) || metric == view.main())
    {
        let mut entries = vec![Entry::new(&row.target.title)];
        let entry = |(at, point)| entry(view, panel, row, metric, at, point);
        entries.extend(row.points.iter().enumerate().map(entry));
        table.rows.push(entries);
    }
    table
}

fn entry(
    view: &ExperimentView<'_>,
    panel: &Panel<'_>,
    row: &Row<'_>,
    metric: Metric,
    at: usize,
    point: &Point<'_>,
) -> Entry {
    let base = panel
        .base_row()
        .is_some_and(|base| base.target.name == row.target.name);
    let value = point.center(metric);
    let judged = view.judge(metric, panel, row, at);
    let (text, tone) = match (value, &judged) {
        (None, _) if point.failure().is_some() => ("failed".to_owned(), Tone::Void),
        (Some(_), _) if base => ("1.00".to_owned(), Tone::Base),
        (Some(_), Some(judged)) => tile(judged),
        _ => (format::NONE.to_owned(), Tone::Void),
    };
    let hint = point.failure().map_or_else(
        || hint(metric, value, judged.as_ref(), point),
        str::to_owned,
    );
    Entry {
        text,
        tone,
        flagged: !point.flags().is_empty(),
        hint,
        code: false,
    }
}

/// Returns text and colour of a ratio.
pub(super) fn tile(judged: &Judged) -> (String, Tone) {
    let ratio = Style::Ratio.show(judged.ratio.mean);
    match judged.verdict {
        Verdict::Better => (ratio, Tone::Better(judged.step())),
        Verdict::Noise => (format!("~ {ratio}"), Tone::Noise),
        Verdict::OtherWork => (format!("{ratio} ≠"), Tone::Unjudged),
        Verdict::Unjudged => (format!("{ratio} ?"), Tone::Unjudged),
        Verdict::Worse => (ratio, Tone::Worse(judged.step())),
    }
}

/// Returns the tooltip: value, interval and flags.
fn hint(metric: Metric, value: Option<f64>, judged: Option<&Judged>, point: &Point<'_>) -> String {
    let mut parts: Vec<String> = value
        .map(|value| metric.style().show(value))
        .into_iter()
        .collect();
    if let Some(judged) = judged {
        let blocks = judged.ratio.pairs;
        let interval = judged.ratio.interval.map_or_else(
            || format!("ratio from {blocks} block"),
            |interval| {
                let [low, high] = [interval.low, interval.high].map(|end| Style::Ratio.show(end));
                format!("95 % interval {low} to {high} from {blocks} blocks")
            },
        );
        parts.push(interval);
    }
    let flag = |(_, detail): &(usize, &str)| (*detail).to_owned();
    parts.extend(point.flags().values().map(flag));
    parts.join("; ")
}
