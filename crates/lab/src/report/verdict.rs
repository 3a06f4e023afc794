//! Head of the report: the run, and its results in words and in one table.

use std::collections::BTreeMap;

use super::document::{Block, Column, Entry, Table, Tone};
use super::format::{self, Style};
use super::judge::{Judged, Verdict};
use super::metric::Metric;
use super::prose::Prose;
use super::view::{ExperimentView, View, is_ours};

/// Returns the time, the duration and the machine of the run.
pub(super) fn subtitle(view: &View<'_>) -> String {
    let run = &view.results.run;
    let took = match run.ended_unix_s {
        Some(ended) => format::duration(ended.saturating_sub(run.started_unix_s)),
        None => "not finished".to_owned(),
    };
    let mut parts = vec![format::moment(run.started_unix_s), took];
    parts.extend(machine(view));
    parts.join(" · ")
}

/// Returns the most important facts about the machine, as far as they were captured.
fn machine(view: &View<'_>) -> Vec<String> {
    let environment = &view.results.run.environment;
    let fact = |section: &str, key: &str| environment.get(section)?.get(key).cloned();
    let memory = fact("memory", "total").map(|total| match total.strip_suffix(" kB") {
        Some(kib) => kib
            .parse::<f64>()
            .map_or_else(|_| total.clone(), |kib| Style::Bytes.show(kib * 1024.0)),
        None => total,
    });
    [
        fact("cpu", "model"),
        fact("cpu", "usable").map(|count| format!("{count} CPUs")),
        memory,
        fact("kernel", "release").map(|release| format!("Linux {release}")),
        postgres(view),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the name and version of the server, as far as they were captured.
pub(super) fn postgres(view: &View<'_>) -> Option<String> {
    let version = view
        .results
        .run
        .environment
        .get("postgres")?
        .get("version")?;
    // The output of version() continues with the compiler and the platform.
    let words: Vec<&str> = version.split([' ', ',']).take(2).collect();
    Some(words.join(" "))
}

/// Counts of all comparisons of our targets with the base of an experiment.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Tally {
    pub(super) better: usize,
    pub(super) noise: usize,
    /// Comparisons of other work, which are in no other figure.
    pub(super) other_work: usize,
    pub(super) worse: usize,
    pub(super) unjudged: usize,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
}

impl Tally {
    pub(super) fn of<'j>(judged: impl IntoIterator<Item = &'j Judged>) -> Self {
        let mut tally = Self::default();
        for one in judged {
            *match one.verdict {
                Verdict::Better => &mut tally.better,
                Verdict::Noise => &mut tally.noise,
                Verdict::OtherWork => &mut tally.other_work,
                Verdict::Unjudged => &mut tally.unjudged,
                Verdict::Worse => &mut tally.worse,
            } += 1;
            if one.verdict == Verdict::OtherWork {
                continue;
            }
            let ratio = one.ratio.mean;
            tally.low = Some(tally.low.map_or(ratio, |low| low.min(ratio)));
            tally.high = Some(tally.high.map_or(ratio, |high| high.max(ratio)));
        }
        tally
    }

    pub(super) fn total(&self) -> usize {
        self.better + self.noise + self.worse + self.unjudged
    }

    fn tone(&self) -> Tone {
        match (self.better, self.worse) {
            (0, 0) if self.noise > 0 => Tone::Noise,
            (0, 0) => Tone::Unjudged,
            (_, 0) => Tone::Better(2),
            (0, _) => Tone::Worse(2),
            _ => Tone::Plain,
        }
    }

    /// Formats the entry of a table: `8 better, 1 ~, 1 worse: 0.93 to 1.42`.
    fn entry(&self) -> Entry {
        let counts = [
            (self.better, "better"),
            (self.noise, "~"),
            (self.worse, "worse"),
            (self.unjudged, "not judged"),
        ];
        let said: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        let (Some(low), Some(high)) = (self.low, self.high) else {
            return Entry {
                tone: Tone::Void,
                ..Entry::new(format::NONE)
            };
        };
        let (low, high) = (Style::Ratio.show(low), Style::Ratio.show(high));
        let range = if low == high {
            low
        } else {
            format!("{low} to {high}")
        };
        Entry {
            text: format!("{}: {range}", said.join(", ")),
            tone: self.tone(),
            ..Entry::default()
        }
    }
}

/// Returns all judgements of the row of `target` against the base by `metric`.
pub(super) fn judgements(view: &ExperimentView<'_>, target: &str, metric: Metric) -> Vec<Judged> {
    let mut found = Vec::new();
    for panel in &view.panels {
        if let Some(row) = panel.row(target) {
            let places = 0..panel.places.len();
            found.extend(places.filter_map(|at| view.judge(metric, panel, row, at)));
        }
    }
    found
}

/// Returns our targets in an experiment, in the order of the run.
fn ours<'v>(view: &'v View<'_>, experiment: &'v ExperimentView<'_>) -> Vec<&'v str> {
    let targets = view
        .results
        .run
        .targets
        .iter()
        .map(|target| target.name.as_str());
    targets
        .filter(|name| is_ours(name) && experiment.experiment.base != *name)
        .filter(|name| {
            experiment
                .panels
                .iter()
                .any(|panel| panel.row(name).is_some())
        })
        .collect()
}

/// Returns the section.
pub(super) fn blocks(view: &View<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::section("Verdict")];
    blocks.extend(sentences(view).into_iter().map(Block::Prose));
    let table = table(view);
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table));
        let others = view.experiments.iter().filter_map(other_work);
        blocks.extend(others.map(Block::Note));
        blocks.push(Block::Note(Prose::new(
            "Each entry counts the comparisons of one target with the base under the same load, and gives the \
             smallest and the largest ratio. For latency, CPU and memory less than one is better. “~” is a \
             difference within the noise.",
        )));
    }
    blocks
}

/// Returns one sentence per base, over all experiments and metrics.
pub(super) fn sentences(view: &View<'_>) -> Vec<Prose> {
    let mut by_base: BTreeMap<&str, Vec<Judged>> = BTreeMap::new();
    for experiment in &view.experiments {
        for target in ours(view, experiment) {
            for metric in Metric::judged(experiment.experiment.measure) {
                let judged = judgements(experiment, target, metric);
                by_base
                    .entry(experiment.base_title())
                    .or_default()
                    .extend(judged);
            }
        }
    }
    let mut said: Vec<Prose> = by_base
        .iter()
        .map(|(base, judged)| (base, Tally::of(judged)))
        .filter(|(_, tally)| tally.total() > 0)
        .map(|(base, tally)| sentence(base, &tally))
        .collect();
    if said.is_empty() {
        said.push(Prose::new(
            "Nothing can be compared: no block has both Weir and the target that it is compared with, at the same work.",
        ));
    }
    if view.results.run.ended_unix_s.is_none() {
        said.push(Prose::new(
            "The run was interrupted or is still going on; this report has what was measured until now.",
        ));
    }
    said
}

fn sentence(base: &str, tally: &Tally) -> Prose {
    if tally.unjudged == tally.total() {
        let prose = Prose::new("None of ")
            .count(tally.total())
            .text(" comparisons with ")
            .name(base);
        return prose.text(
            " can be judged: there is a single block and no noise floor. The ratios are what was seen once.",
        );
    }
    let prose = Prose::new("Of ").count(tally.total()).text(format::plural(
        tally.total(),
        " comparison with ",
        " comparisons with ",
    ));
    let prose = prose
        .name(base)
        .text(", Weir is better in ")
        .count(tally.better);
    let prose = prose
        .text(" and worse in ")
        .count(tally.worse)
        .text("; ")
        .count(tally.noise);
    let prose = prose.text(format::plural(tally.noise, " is", " are"));
    let prose = prose.text(" within the noise");
    let prose = match tally.unjudged {
        0 => prose,
        count => prose
            .text(", and ")
            .count(count)
            .text(" cannot be judged from a single block"),
    };
    prose.text(".")
}

/// Returns the results of each of our targets in words: `Weir, 1 worker: throughput 0.93 to 1.30 of PgBouncer's
/// ...`.
pub(super) fn of_experiment(view: &View<'_>, experiment: &ExperimentView<'_>) -> Vec<Prose> {
    let words = |target: &&str| {
        let measures: Vec<Prose> = Metric::judged(experiment.experiment.measure)
            .into_iter()
            .filter_map(|metric| range(metric, &Tally::of(&judgements(experiment, target, metric))))
            .collect();
        let prose = Prose::quote(view.title(target)).text(", as a ratio to ");
        let prose = prose.name(experiment.base_title()).text(": ");
        (!measures.is_empty()).then(|| prose.then(Prose::join(measures, "; ")).text("."))
    };
    let targets = ours(view, experiment);
    let mut said: Vec<Prose> = targets.iter().filter_map(words).collect();
    said.extend(other_work(experiment));
    said
}

/// Returns the sentence on the loads that are out of all counts, because a target did other work than was asked for.
pub(super) fn other_work(experiment: &ExperimentView<'_>) -> Option<Prose> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut loads = 0;
    for panel in &experiment.panels {
        loads += panel.places.len();
        for row in &panel.rows {
            for reason in row.points.iter().flat_map(|point| point.other_work()) {
                *counts.entry((&row.target.title, reason)).or_default() += 1;
            }
        }
    }
    let mut reasons: BTreeMap<(&str, usize), Vec<&str>> = BTreeMap::new();
    for ((title, reason), count) in counts {
        reasons.entry((reason, count)).or_default().push(title);
    }
    let each = reasons.iter().map(|((reason, count), titles)| {
        let prose = Prose::quote(&titles.join("; ")).text(" did other work at ");
        let prose = prose.count(*count).text(" of ").count(loads);
        let prose = prose.text(format::plural(loads, " load (", " loads ("));
        prose.name(reason).text(")")
    });
    let each: Vec<Prose> = each.collect();
    let prose = Prose::new("Not counted, marked “≠”, in ").name(&experiment.experiment.title);
    (!each.is_empty()).then(|| prose.text(": ").then(Prose::join(each, "; ")).text("."))
}

/// Returns a range such as `throughput 0.93 to 1.30 (better at 4, worse at 1 of 5 loads)`.
fn range(metric: Metric, tally: &Tally) -> Option<Prose> {
    let (low, high) = (tally.low?, tally.high?);
    let prose = Prose::new(metric.words())
        .text(" ")
        .figure(Style::Ratio, low);
    let same = Style::Ratio.show(low) == Style::Ratio.show(high);
    let prose = if same {
        prose
    } else {
        prose.text(" to ").figure(Style::Ratio, high)
    };
    Some(prose.text(" (").then(counted(tally)).text(")"))
}

/// Returns counts such as `better at 4, worse at 1 of 5 loads`.
fn counted(tally: &Tally) -> Prose {
    let total = tally.total();
    let counts = [
        (tally.better, "better"),
        (tally.worse, "worse"),
        (tally.noise, "within the noise"),
        (tally.unjudged, "not judged"),
    ];
    let loads = format::plural(total, " load", " loads");
    let whole = counts.iter().find(|(count, _)| *count == total);
    if let Some((_, word)) = whole {
        let all = Prose::new(word);
        return if total == 1 {
            all
        } else {
            all.text(" at all ").count(total).text(loads)
        };
    }
    let some = counts.iter().filter(|(count, _)| *count > 0);
    let pieces = some
        .map(|(count, word)| Prose::new(word).text(" at ").count(*count))
        .collect();
    Prose::join(pieces, ", ")
        .text(" of ")
        .count(total)
        .text(loads)
}

/// Returns a table with the metrics as rows and our targets as columns.
fn table(view: &View<'_>) -> Table {
    let mut targets: Vec<&str> = Vec::new();
    for experiment in &view.experiments {
        for target in ours(view, experiment) {
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }
    let mut table = Table::new("", &["Measure"]);
    let column = |target: &&str| Column {
        title: view.title(target).to_owned(),
        right: false,
    };
    table.columns.extend(targets.iter().map(column));
    let against = Column {
        title: "Against".to_owned(),
        right: false,
    };
    table.columns.push(against);
    for experiment in &view.experiments {
        for metric in Metric::judged(experiment.experiment.measure) {
            let tally = |target: &&str| Tally::of(&judgements(experiment, target, metric));
            let tallies: Vec<Tally> = targets.iter().map(tally).collect();
            // A metric that was not measured has no row.
            if tallies.iter().all(|tally| tally.total() == 0) {
                continue;
            }
            let name = &experiment.experiment.title;
            let mut row = vec![Entry::new(format!("{name}: {}", metric.title()))];
            row.extend(tallies.iter().map(Tally::entry));
            row.push(Entry::new(experiment.base_title()));
            table.rows.push(row);
        }
    }
    table
}
