//! Threats to validity, in sentences made from the flags and the data.

mod noise;

use std::collections::{BTreeMap, BTreeSet};

use super::failures::first_line;
use super::format::{Style, plural};
use super::prose::Prose;
use super::view::{ExperimentView, View};
use crate::record::{Cell, FlagKind};
use crate::statistics::float;

/// Returns all sentences, the most important first.
pub(super) fn sentences(view: &View<'_>) -> Vec<Prose> {
    let mut said = completeness(view);
    said.extend(flags(view));
    said.extend(untried(view));
    said.extend(noise::blocks(view));
    said.extend(noise::without_twins(view));
    for experiment in &view.experiments {
        for twin in view
            .results
            .run
            .targets
            .iter()
            .filter(|target| target.twin_of.is_some())
        {
            said.extend(noise::twins(view, experiment, twin));
        }
        said.extend(noise::slowed(experiment));
    }
    said.extend(noise::chance(view));
    said.extend(load(view));
    for experiment in &view.experiments {
        let name = |caveat: &String| {
            Prose::quote(&experiment.experiment.title)
                .text(": ")
                .name(caveat)
        };
        said.extend(experiment.experiment.caveats.iter().map(name));
    }
    if said.is_empty() {
        said.push(Prose::new("None that the data show."));
    }
    said
}

/// Returns sentences on absent data, with the reasons.
fn completeness(view: &View<'_>) -> Vec<Prose> {
    let results = view.results;
    let mut said = Vec::new();
    if results.run.ended_unix_s.is_none() {
        said.push(Prose::new(
            "The run has no end: it was interrupted or is still going on.",
        ));
    }
    for experiment in &view.experiments {
        let missing = experiment.missing.len();
        let name = Prose::quote(&experiment.experiment.title);
        if missing > 0 {
            let planned = missing + experiment.cells.len();
            let prose = name
                .clone()
                .text(": ")
                .count(missing)
                .text(" of ")
                .count(planned);
            let prose = prose.text(" planned cells were not measured");
            let absent: BTreeSet<&str> = experiment
                .missing
                .iter()
                .map(|(target, _, _)| target.as_str())
                .collect();
            let targets: Vec<&str> = absent
                .into_iter()
                .map(|target| view.title(target))
                .collect();
            said.push(prose.text(" (").name(&targets.join("; ")).text(")."));
        }
        said.extend(failures(experiment));
    }
    let counted: [(usize, &'static str, &'static str); 3] = [
        (
            results.unreadable,
            " line of cells.jsonl could not be read and is left out.",
            " lines of cells.jsonl could not be read and are left out.",
        ),
        (
            results.replaced,
            " cell was measured again; the later measurement counts.",
            " cells were measured again; the later measurement counts.",
        ),
        (
            view.strays,
            " cell belongs to an experiment or target that the run does not describe, and is left out.",
            " cells belong to experiments or targets that the run does not describe, and are left out.",
        ),
    ];
    for (count, one, more) in counted.into_iter().filter(|(count, _, _)| *count > 0) {
        said.push(Prose::default().count(count).text(plural(count, one, more)));
    }
    said
}

/// Returns a sentence on the number of cells that could not be run, with the most frequent reasons
/// first.
fn failures(experiment: &ExperimentView<'_>) -> Option<Prose> {
    const TOLD: usize = 4;
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for cell in experiment.failed() {
        *reasons
            .entry(first_line(
                cell.failed.as_deref().unwrap_or("no reason was recorded"),
            ))
            .or_default() += 1;
    }
    let failed: usize = reasons.values().sum();
    let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(why, count)| (std::cmp::Reverse(*count), *why));
    let told = reasons.iter().take(TOLD);
    let each = told.map(|(why, count)| Prose::quote(why).text(" (").count(*count).text(")"));
    let prose = Prose::quote(&experiment.experiment.title)
        .text(": ")
        .count(failed);
    let prose = prose.text(plural(
        failed,
        " cell could not be run: ",
        " cells could not be run: ",
    ));
    let prose = prose.then(Prose::join(each.collect(), "; "));
    let prose = match reasons.len().saturating_sub(TOLD) {
        0 => prose,
        rest => prose.text("; and ").count(rest).text(" other reasons"),
    };
    (failed > 0).then(|| prose.text("."))
}

/// Returns a sentence on the targets that were run by an untried description.
fn untried(view: &View<'_>) -> Option<Prose> {
    let ran = |name: &str| view.results.cells.iter().any(|cell| cell.target == name);
    let targets = view.results.run.targets.iter();
    let titles: Vec<&str> = targets
        .filter(|target| target.untried && ran(&target.name))
        .map(|target| target.title.as_str())
        .collect();
    let prose = Prose::quote(&titles.join("; ")).text(
        ": how to configure and start it was written from its documentation and never tried; what looks like a fault \
         of the program may be one of the description.",
    );
    (!titles.is_empty()).then_some(prose)
}

/// Returns one sentence per kind of flag.
fn flags(view: &View<'_>) -> Vec<Prose> {
    let cells: Vec<&Cell> = view
        .experiments
        .iter()
        .flat_map(|e| e.cells.iter().copied())
        .collect();
    let mut kinds: BTreeMap<FlagKind, Vec<&Cell>> = BTreeMap::new();
    for cell in &cells {
        for flag in &cell.flags {
            let with = kinds.entry(flag.kind).or_default();
            // Two flags of one kind are one cell.
            if !with.last().is_some_and(|last| std::ptr::eq(*last, *cell)) {
                with.push(cell);
            }
        }
    }
    let sentence = |(kind, with): (&FlagKind, &Vec<&Cell>)| {
        let share = float(with.len()) / float(cells.len());
        let prose = Prose::default()
            .count(with.len())
            .text(" of ")
            .count(cells.len());
        let prose = prose
            .text(plural(cells.len(), " cell (", " cells ("))
            .figure(Style::Percent, share);
        prose
            .text("): ")
            .text(meaning(*kind))
            .text(" ")
            .then(concerned(view, with))
    };
    kinds.iter().map(sentence).collect()
}

/// Lists the targets by number of flagged cells: a flag on one side only favours the other.
fn concerned(view: &View<'_>, with: &[&Cell]) -> Prose {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for cell in with {
        *counts.entry(cell.target.as_str()).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let named = |(name, count): &(&str, usize)| {
        Prose::quote(view.title(name))
            .text(" (")
            .count(*count)
            .text(")")
    };
    Prose::join(counts.iter().map(named).collect(), "; ").text(".")
}

/// Returns the meaning of a flag: a sentence that begins in the middle.
pub(super) fn meaning(kind: FlagKind) -> &'static str {
    match kind {
        FlagKind::Errors => {
            "transactions failed, so that their rate is of other work than was asked for."
        }
        FlagKind::Foreign => "other programs used the machine at the same time.",
        FlagKind::GeneratorSaturated => {
            "the load generator was at its limit; the cell measures it and not the target."
        }
        FlagKind::LittleViolated => {
            "clients differ from throughput times latency, so one of the two was measured wrongly."
        }
        FlagKind::MachineSaturated => {
            "the machine had next to nothing idle; the cell measures the scheduler too, and what a target costs \
             counts more than how fast it was."
        }
        FlagKind::ScheduleLag => {
            "transactions began late, so the load was less than was asked for."
        }
        FlagKind::ServerSaturated => {
            "PostgreSQL was at its limit; poolers look more alike than they are."
        }
        FlagKind::Steal => "the host took CPU time away for others.",
        FlagKind::Substituted => {
            "the target cannot do what was asked for and did the nearest that it can; it is other work."
        }
        FlagKind::Unfinished => {
            "transactions were not over when the generator stopped waiting; in open loop their time so far counts."
        }
        FlagKind::Unsteady => "the rate still moved while it was measured.",
    }
}

/// Returns sentences on the limits of the way in which the load was made.
fn load(view: &View<'_>) -> Vec<Prose> {
    let mut said = Vec::new();
    let cells: Vec<&Cell> = view
        .experiments
        .iter()
        .flat_map(|e| e.cells.iter().copied())
        .collect();
    let measured = || cells.iter().filter(|cell| cell.outcome.is_some());
    let shared = measured().find_map(|cell| cell.costs.server.and(cell.costs.machine));
    if let Some(machine) = shared {
        let prose = Prose::new("Generator, pooler and PostgreSQL ran on the same machine of ");
        let prose = prose.figure(Style::Count, f64::from(machine.cpus));
        let prose = prose.text(plural(
            usize::try_from(machine.cpus).unwrap_or(2),
            " CPU",
            " CPUs",
        ));
        said.push(prose.text(" and took time from each other."));
    }
    let closed = measured()
        .filter(|cell| !cell.factors.contains_key("rate"))
        .count();
    if closed > 0 {
        let prose = Prose::default()
            .count(closed)
            .text(plural(closed, " cell was", " cells were"));
        said.push(prose.text(
            " measured in a closed loop, where a client that waits asks for nothing: high percentiles there \
             are lower bounds of what an open system would see.",
        ));
    }
    let sampled = measured().filter(|cell| is_sampled(cell)).count();
    if sampled > 0 {
        let prose =
            Prose::default()
                .count(sampled)
                .text(plural(sampled, " cell has", " cells have"));
        said.push(prose.text(
            " percentiles without the whole distribution; over blocks these are averaged and not merged.",
        ));
    }
    said
}

/// True if the cell has percentiles without their distribution.
fn is_sampled(cell: &Cell) -> bool {
    let latency = cell
        .outcome
        .as_ref()
        .and_then(|outcome| outcome.latency.as_ref());
    latency.is_some_and(|latency| latency.histogram.is_none())
}
