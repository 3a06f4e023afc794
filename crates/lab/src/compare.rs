//! Compares two result directories: what became better, what became worse, and what is noise.
//!
//! Conditions of two runs differ even on the same machine. If both runs have the same base program, each value is
//! divided by the base's value in the same block, and these ratios are compared. Otherwise the values themselves
//! are compared, and the page says so. A difference counts if a rank test gives at most p = 0.05. With too few
//! blocks for that, it counts if Welch's interval of the geometric means excludes 1. In both cases it must exceed
//! the noise floor, if there is one. Every other difference is `~`, or `?` if there are too few values to judge.

mod pair;
#[cfg(test)]
mod tests;
mod words;

use std::path::Path;

use self::pair::{Pair, Side};
use crate::report::document::{Block, Document, Entry, Table, Tone};
use crate::report::format::{self, Style};
use crate::report::judge::Verdict;
use crate::report::metric::Metric;
use crate::report::view::{ExperimentView, View};
use crate::report::{Error, Results, markdown, text};
use crate::statistics::Ratio;

/// Result of comparing two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// Text for a terminal, without colour.
    pub text: String,
    /// Text for a terminal, with colours.
    pub coloured: String,
    /// Text in Markdown.
    pub markdown: String,
    /// Number of comparisons in which the second run is better.
    pub better: usize,
    /// Number of comparisons in which the second run is worse.
    pub worse: usize,
    /// Number of comparisons whose difference is within the noise.
    pub noise: usize,
    /// Number of comparisons that have too little data to be judged.
    pub unjudged: usize,
}

/// Reads two result directories and compares them: what changed from `first` to `second`.
///
/// # Errors
///
/// As [`Results::read`] for either.
pub fn directories(first: &Path, second: &Path) -> Result<Comparison, Error> {
    let (one, two) = (Results::read(first)?, Results::read(second)?);
    let name = |path: &Path| path.display().to_string();
    Ok(compare(&one, &two, &name(first), &name(second)))
}

/// Compares two runs that are called `one` and `two` on the page.
#[must_use]
pub fn compare(first: &Results, second: &Results, one: &str, two: &str) -> Comparison {
    let (before, after) = (View::new(first), View::new(second));
    let tables = tables(&before, &after);
    let all = || tables.iter().flat_map(|table| &table.pairs);
    let count = |verdict| all().filter(|pair| pair.verdict == verdict).count();
    let mut blocks = words::head(&before, &after, one, two);
    blocks.extend(words::verdict(&tables));
    blocks.extend(tables.iter().map(|table| Block::Table(rendered(table))));
    blocks.extend(words::notes(&before, &after, &tables));
    let document = Document {
        judges: true,
        title: "weir bench compare".to_owned(),
        subtitle: format!("A = {one}, B = {two}"),
        blocks,
    };
    Comparison {
        text: text::render(&document, text::Colour::Never),
        coloured: text::render(&document, text::Colour::Always),
        markdown: markdown::render(&document),
        better: count(Verdict::Better),
        worse: count(Verdict::Worse),
        noise: count(Verdict::Noise),
        unjudged: count(Verdict::Unjudged),
    }
}

/// All pairs of one experiment and one metric.
struct Comparisons {
    experiment: String,
    metric: Metric,
    pairs: Vec<Pair>,
}

fn tables(before: &View<'_>, after: &View<'_>) -> Vec<Comparisons> {
    let mut tables = Vec::new();
    for one in &before.experiments {
        let same = |other: &&ExperimentView<'_>| other.experiment.name == one.experiment.name;
        let Some(two) = after.experiments.iter().find(same) else {
            continue;
        };
        for metric in Metric::judged(one.experiment.measure) {
            let sides = [
                Side {
                    view: before,
                    experiment: one,
                },
                Side {
                    view: after,
                    experiment: two,
                },
            ];
            let pairs = pair::all(&sides, metric);
            if !pairs.is_empty() {
                let experiment = one.experiment.title.clone();
                tables.push(Comparisons {
                    experiment,
                    metric,
                    pairs,
                });
            }
        }
    }
    tables
}

/// Renders a table as benchstat does: both medians with their spread, the change, p and the number of values.
fn rendered(comparisons: &Comparisons) -> Table {
    let metric = comparisons.metric;
    let better = if metric.more_is_better() {
        "more"
    } else {
        "less"
    };
    let caption = format!(
        "{}: {} ({better} is better)",
        comparisons.experiment,
        metric.title()
    );
    let heads = [
        "Target", "Load", ">A", ">", ">B", ">", ">B vs A", ">p", ">n",
    ];
    let mut table = Table::new(caption, &heads);
    let mut from = 0;
    while let Some(first) = comparisons.pairs.get(from) {
        let rest = comparisons.pairs.get(from..).unwrap_or_default();
        let length = rest
            .iter()
            .take_while(|pair| pair.target == first.target)
            .count();
        let group = rest.get(..length).unwrap_or_default();
        table
            .rows
            .extend(group.iter().map(|pair| row(metric, pair)));
        table.rows.extend(overall(&first.title, group));
        from += length;
    }
    table
}

fn row(metric: Metric, pair: &Pair) -> Vec<Entry> {
    let style = metric.style();
    let spread = |sample: &crate::statistics::Sample| {
        let widest = (sample.max - sample.median).max(sample.median - sample.min) / sample.median;
        if sample.count > 1 && widest.is_finite() {
            format!("± {:.0}%", widest * 100.0)
        } else {
            String::new()
        }
    };
    let change = format::change(pair.ratio.mean);
    let step = pair.step();
    let (text, tone) = match pair.verdict {
        Verdict::Better => (change, Tone::Better(step)),
        Verdict::Noise => (format!("~ {change}"), Tone::Noise),
        Verdict::OtherWork => (format!("≠ {change}"), Tone::Unjudged),
        Verdict::Unjudged => (format!("? {change}"), Tone::Unjudged),
        Verdict::Worse => (change, Tone::Worse(step)),
    };
    vec![
        Entry::new(&pair.title),
        Entry::new(&pair.load),
        Entry::new(style.show(pair.before.median)),
        Entry::new(spread(&pair.before)),
        Entry::new(style.show(pair.after.median)),
        Entry::new(spread(&pair.after)),
        Entry {
            tone,
            flagged: pair.flagged,
            ..Entry::new(text)
        },
        Entry::new(Style::Probability.show(pair.p)),
        Entry::new(format!("{}+{}", pair.before.count, pair.after.count)),
    ]
}

/// Returns the row with the geometric mean over the loads of one target.
fn overall(title: &str, group: &[Pair]) -> Option<Vec<Entry>> {
    if group.len() < 2 {
        return None;
    }
    let logs: Vec<f64> = group.iter().map(|pair| pair.ratio.mean.ln()).collect();
    let ratio = Ratio::of_logs(&logs)?;
    let mut entries = vec![Entry::new(title), Entry::new("geometric mean")];
    entries.extend(std::iter::repeat_n(Entry::default(), 4));
    entries.push(Entry::new(format::change(ratio.mean)));
    entries.extend(std::iter::repeat_n(Entry::default(), 2));
    Some(entries)
}
