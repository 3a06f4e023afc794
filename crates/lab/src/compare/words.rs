//! Text around the tables of a comparison: the runs, other changes between them, limits of the method.

use std::collections::BTreeSet;

use super::Comparisons;
use super::pair::{P, Pair};
use crate::report::document::{Block, Table};
use crate::report::format::{self, Style, plural};
use crate::report::judge::Verdict;
use crate::report::metric::Metric;
use crate::report::prose::Prose;
use crate::report::view::View;
use crate::statistics::{Ratio, rank};

/// Returns a table of both runs, and one of the differences in their surroundings.
pub(super) fn head(before: &View<'_>, after: &View<'_>, one: &str, two: &str) -> Vec<Block> {
    let mut table = Table::new("", &["", "Directory", "Profile", "Began", ">Cells"]);
    for (letter, name, view) in [("A", one, before), ("B", two, after)] {
        let run = &view.results.run;
        let end = if run.ended_unix_s.is_none() {
            ", not finished"
        } else {
            ""
        };
        table.row([
            letter.to_owned(),
            name.to_owned(),
            run.profile.clone(),
            format!("{}{end}", format::moment(run.started_unix_s)),
            view.results.cells.len().to_string(),
        ]);
    }
    let mut blocks = vec![Block::Table(table)];
    let differences = differences(before, after);
    if !differences.rows.is_empty() {
        blocks.push(Block::Table(differences));
    }
    blocks
}

/// Lists facts of the environment and programs that differ.
fn differences(before: &View<'_>, after: &View<'_>) -> Table {
    let mut table = Table::new("What else differs", &["Fact", "A", "B"]);
    let [one, two] = [before, after].map(|view| &view.results.run.environment);
    let sections: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
    let none = || format::NONE.to_owned();
    for section in sections {
        let [left, right] = [one.get(section), two.get(section)];
        let names: BTreeSet<&String> = [left, right]
            .into_iter()
            .flatten()
            .flat_map(|facts| facts.keys())
            .collect();
        for name in names {
            let [old, new] = [left, right].map(|facts| facts.and_then(|facts| facts.get(name)));
            if old != new {
                let [old, new] = [old, new].map(|value| value.cloned().unwrap_or_else(none));
                table.row([format!("{section}: {name}"), old, new]);
            }
        }
    }
    for target in &before.results.run.targets {
        let same = |other: &&crate::record::Target| other.name == target.name;
        let Some(other) = after.results.run.targets.iter().find(same) else {
            continue;
        };
        if target.sha256 != other.sha256 && target.sha256.is_some() && other.sha256.is_some() {
            let version = |target: &crate::record::Target| {
                let sha256: String = target
                    .sha256
                    .iter()
                    .flat_map(|sum| sum.chars().take(12))
                    .collect();
                format!(
                    "{} ({sha256})",
                    target.version.as_deref().unwrap_or(format::NONE)
                )
            };
            table.row([target.title.clone(), version(target), version(other)]);
        }
    }
    table
}

/// Returns the sentence that counts the comparisons that got better, worse, or cannot be judged.
pub(super) fn verdict(tables: &[Comparisons]) -> Vec<Block> {
    let all: Vec<&Pair> = tables.iter().flat_map(|table| &table.pairs).collect();
    let found = all.len();
    let all: Vec<&Pair> = all
        .into_iter()
        .filter(|pair| pair.verdict != Verdict::OtherWork)
        .collect();
    let count = |verdict| all.iter().filter(|pair| pair.verdict == verdict).count();
    if all.is_empty() {
        return vec![Block::Prose(Prose::new(
            "The two runs have no cell in common.",
        ))];
    }
    let prose = Prose::new("Of ").count(all.len());
    let prose = prose.text(plural(
        all.len(),
        " comparison, B is better in ",
        " comparisons, B is better in ",
    ));
    let prose = prose.count(count(Verdict::Better)).text(" and worse in ");
    let prose = prose
        .count(count(Verdict::Worse))
        .text("; ")
        .count(count(Verdict::Noise));
    let prose = prose
        .text(plural(count(Verdict::Noise), " is", " are"))
        .text(" within the noise");
    let prose = match count(Verdict::Unjudged) {
        0 => prose.text("."),
        unjudged => prose
            .text(", and ")
            .count(unjudged)
            .text(" cannot be judged."),
    };
    let prose = match found - all.len() {
        0 => prose,
        others => prose.text(" Not counted are ").count(others).text(
            " marked “≠”, in which the target did other work than was asked for in one of the runs.",
        ),
    };
    vec![Block::Prose(prose)]
}

/// Returns notes on how the tables were made, and on their limits.
pub(super) fn notes(before: &View<'_>, after: &View<'_>, tables: &[Comparisons]) -> Vec<Block> {
    let mut notes = vec![method()];
    let all: Vec<&Pair> = tables.iter().flat_map(|table| &table.pairs).collect();
    let by_base = all.iter().filter(|pair| pair.by_base).count();
    if by_base > 0 {
        notes.push(Prose::default().count(by_base).text(" of ").count(all.len()).text(
            " changes are of ratios to the base inside of blocks, since both runs had the same base program; \
             the columns A and B are what was measured.",
        ));
    }
    notes.extend(few(&all));
    notes.extend(drift(before, after, tables));
    notes.extend(alone(before, after));
    let flagged = all.iter().filter(|pair| pair.flagged).count();
    if flagged > 0 {
        let words = plural(flagged, " comparison has", " comparisons have");
        notes.push(
            Prose::default()
                .count(flagged)
                .text(words)
                .text(" flagged cells in A or B."),
        );
    }
    vec![Block::section("Notes"), Block::List(notes)]
}

fn method() -> Prose {
    Prose::new("Medians with the widest deviation; “~” is a difference within the noise, “?” one that cannot be judged; p is of the Mann-Whitney test, and ")
        .figure(Style::Decimal, P)
        .text(" or less is a difference.")
}

/// Returns a note on comparisons with too few blocks for the rank test to show anything.
fn few(all: &[&Pair]) -> Option<Prose> {
    let least = |pair: &&Pair| rank::least_p(pair.before.count, pair.after.count);
    let weak: Vec<&&Pair> = all.iter().filter(|pair| least(pair) > P).collect();
    let smallest = weak.iter().map(|pair| least(pair)).reduce(f64::max)?;
    let prose = Prose::default().count(weak.len());
    let prose = prose.text(plural(weak.len(), " comparison has", " comparisons have"));
    let prose = prose.text(" too few blocks for the rank test, which cannot give less than p = ");
    let prose = prose.figure(Style::Probability, smallest);
    Some(prose.text(" there; Welch's interval of the geometric means decides instead."))
}

/// Returns notes on how far the figures of unchanged programs moved: an effect of the machine.
fn drift(before: &View<'_>, after: &View<'_>, tables: &[Comparisons]) -> Vec<Prose> {
    let mut said = Vec::new();
    for target in &before.results.run.targets {
        let same = |other: &crate::record::Target| {
            other.name == target.name && other.sha256 == target.sha256
        };
        if target.sha256.is_none() || !after.results.run.targets.iter().any(same) {
            continue;
        }
        let speed = |table: &&Comparisons| {
            matches!(
                table.metric,
                Metric::Tps | Metric::Logins | Metric::Bandwidth
            )
        };
        let pairs = tables.iter().filter(speed).flat_map(|table| &table.pairs);
        let raw: Vec<f64> = pairs
            .filter(|pair| pair.target == target.name)
            .map(|pair| (pair.after.median / pair.before.median).ln())
            .collect();
        let Some(ratio) = Ratio::of_logs(&raw) else {
            continue;
        };
        let prose =
            Prose::quote(&target.title).text(" is the same program in both runs and moved by ");
        let prose = prose
            .figure(Style::Percent, ratio.mean - 1.0)
            .text(" over ")
            .count(ratio.pairs);
        said.push(prose.text(plural(ratio.pairs, " load.", " loads.")));
    }
    said
}

/// Returns notes on cells that only one of the runs has.
fn alone(before: &View<'_>, after: &View<'_>) -> Vec<Prose> {
    let keys = |view: &View<'_>| -> BTreeSet<String> {
        let key = |cell: &crate::record::Cell| {
            format!("{:?}", (&cell.experiment, &cell.target, &cell.factors))
        };
        view.results
            .cells
            .iter()
            .filter(|cell| cell.outcome.is_some())
            .map(key)
            .collect()
    };
    let (one, two) = (keys(before), keys(after));
    let sides = [
        (one.difference(&two).count(), "A"),
        (two.difference(&one).count(), "B"),
    ];
    let sentence = |(count, side): (usize, &str)| {
        let prose =
            Prose::default()
                .count(count)
                .text(plural(count, " load is in ", " loads are in "));
        prose.name(side).text(" alone.")
    };
    sides
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(sentence)
        .collect()
}
