//! Words of an answer: one sentence, with the ratios that it rests on.

use std::collections::BTreeSet;

use super::contest::{Absence, Comparison, Contest, Standing};
use super::question::Question;
use crate::record::Target;
use crate::report::format::{Style, plural};
use crate::report::judge::Verdict;
use crate::report::metric::Metric;
use crate::report::prose::Prose;
use crate::report::view::versioned;

/// Number of rivals that a sentence names.
const NAMED: usize = 4;

/// Returns the sentence that answers the question.
pub(super) fn sentence(contest: &Contest<'_, '_>) -> Prose {
    let head = head(contest);
    let speed = contest.standing(Metric::Tps);
    let cost = contest.standing(Metric::CpuPerTransaction);
    let body = match (&speed, &cost) {
        (None, None) => nothing(contest),
        (Some(one), None) => clause(one, Metric::Tps, true),
        (None, Some(one)) => clause(one, Metric::CpuPerTransaction, true),
        (Some(one), Some(two)) => {
            let same = one.leader.name == two.leader.name && is_decided(one) && is_decided(two);
            let joint = if same { ", and " } else { "; " };
            clause(one, Metric::Tps, true).text(joint).then(clause(
                two,
                Metric::CpuPerTransaction,
                !same,
            ))
        }
    };
    let both = [&speed, &cost];
    let base = both.into_iter().flatten();
    head.then(body)
        .then(basis(&base.collect::<Vec<_>>()))
        .then(left_out(contest))
        .text(".")
}

/// Returns the beginning: the kind of use, and the numbers of clients where they are the question.
fn head(contest: &Contest<'_, '_>) -> Prose {
    let prose = Prose::new(contest.question.words());
    let counted = matches!(
        contest.question,
        Question::FewClients | Question::ManyClients
    );
    let prose = match contest.clients().filter(|_| counted) {
        None => prose,
        Some((least, most)) => {
            let prose = prose.text(" (").count(size(least));
            let prose = if least == most {
                prose
            } else {
                prose.text(" to ").count(size(most))
            };
            prose.text(")")
        }
    };
    let prose = match contest.workers {
        1 => prose.text(", one worker or process each, "),
        several => prose
            .text(", ")
            .count(usize::try_from(several).unwrap_or(usize::MAX))
            .text(" workers or processes each, "),
    };
    if contest.contenders.is_empty() {
        return Prose::new(contest.question.words()).text(": ");
    }
    prose
}

/// Returns a target with its version. Its single worker is left out, as the beginning of the sentence says that.
fn named(target: &Target) -> String {
    let full = versioned(target);
    let short = full.strip_suffix(", 1 worker").map(str::to_owned);
    short.unwrap_or(full)
}

fn size(clients: u64) -> usize {
    usize::try_from(clients).unwrap_or(usize::MAX)
}

/// True if the leader is ahead of all rivals beyond the noise.
fn is_decided(standing: &Standing<'_>) -> bool {
    standing.open.is_empty()
}

/// Returns the words for a question without any comparison.
fn nothing(contest: &Contest<'_, '_>) -> Prose {
    match contest.contenders.as_slice() {
        [] if contest.absent.is_empty() => Prose::new("not measured in this run"),
        [] => Prose::new("nothing is decided, because no pooler did what was asked for"),
        [only] => Prose::new("nothing is decided, because ")
            .name(&named(only))
            .text(" has nothing to be compared with"),
        _ => {
            Prose::new("nothing is decided, because no block has two poolers under the same loads")
        }
    }
}

/// Returns what one metric says. `with_name` is false if the clause before has named the leader.
fn clause(standing: &Standing<'_>, metric: Metric, with_name: bool) -> Prose {
    let leader = if with_name {
        Prose::quote(&named(standing.leader)).text(" ")
    } else {
        Prose::default()
    };
    let Some(nearest) = standing.open.first() else {
        let prose = match metric {
            Metric::Tps => leader.text("is the fastest, at "),
            _ => leader.text("needs the least CPU time per transaction, "),
        };
        return prose.then(ratios(&standing.beaten, metric));
    };
    let subject = match metric {
        Metric::Tps => Prose::new("throughput"),
        _ => Prose::new("CPU time per transaction"),
    };
    let prose = match nearest.judged.verdict {
        Verdict::Unjudged => subject.text(" is not decided by a single block: "),
        _ => subject.text(" is not decided: "),
    };
    let prose = prose.name(&named(standing.leader)).text(" has ");
    let prose = prose.figure(Style::Ratio, nearest.judged.ratio.mean);
    let prose = match metric {
        Metric::Tps => prose.text(" times that of "),
        _ => prose.text(" of that of "),
    };
    let prose = prose.name(&named(nearest.rival)).then(doubt(nearest));
    let prose = match standing.open.get(1..).unwrap_or_default() {
        [] => prose,
        others => prose.text(", no known lead over ").then(titles(others)),
    };
    match standing.beaten.as_slice() {
        [] => prose,
        beaten => prose.text(", and a lead over ").then(titles(beaten)),
    }
}

/// Returns what speaks against a lead: the interval of the ratio, and loads that say the opposite.
fn doubt(comparison: &Comparison<'_>) -> Prose {
    let mut reasons = Vec::new();
    if let Some(interval) = comparison.judged.ratio.interval {
        let prose = Prose::new("95 % interval ").figure(Style::Ratio, interval.low);
        reasons.push(prose.text(" to ").figure(Style::Ratio, interval.high));
    }
    let behind = comparison.behind.len();
    if behind > 0 {
        let prose = Prose::new("behind at ").count(behind);
        reasons.push(prose.text(plural(behind, " load", " loads")));
    }
    if reasons.is_empty() {
        return Prose::default();
    }
    Prose::new(" (").then(Prose::join(reasons, ", ")).text(")")
}

/// Returns the names of rivals: `A, B and C`.
fn titles(comparisons: &[Comparison<'_>]) -> Prose {
    let names = comparisons
        .iter()
        .map(|comparison| Prose::quote(&named(comparison.rival)));
    enumerated(names.collect())
}

/// Joins pieces with commas, and the last one with a word.
fn enumerated(mut pieces: Vec<Prose>) -> Prose {
    let last = pieces.pop().unwrap_or_default();
    if pieces.is_empty() {
        last
    } else {
        Prose::join(pieces, ", ").text(" and ").then(last)
    }
}

/// Returns the ratios to the rivals: `1.12 times the throughput of A, 1.30 of B`.
fn ratios(beaten: &[Comparison<'_>], metric: Metric) -> Prose {
    let one = |(at, comparison): (usize, &Comparison<'_>)| {
        let prose = Prose::default().figure(Style::Ratio, comparison.judged.ratio.mean);
        let prose = match (at, metric) {
            (0, Metric::Tps) => prose.text(" times the throughput of "),
            (_, Metric::Tps) => prose.text(" times that of "),
            _ => prose.text(" of that of "),
        };
        prose.name(&named(comparison.rival))
    };
    let told = beaten.iter().take(NAMED).enumerate().map(one);
    let prose = enumerated(told.collect());
    match beaten.len().saturating_sub(NAMED) {
        0 => prose,
        rest => prose
            .text(", and ahead of ")
            .count(rest)
            .text(plural(rest, " other", " others")),
    }
}

/// Returns what the answer rests on: the number of loads, and of flagged ones.
fn basis(standings: &[&Standing<'_>]) -> Prose {
    let all = || {
        let each = standings.iter();
        each.flat_map(|standing| standing.beaten.iter().chain(&standing.open))
    };
    let loads: BTreeSet<usize> = all().flat_map(|one| one.loads.iter().copied()).collect();
    let flagged: BTreeSet<usize> = all().flat_map(|one| one.flagged.iter().copied()).collect();
    if loads.is_empty() {
        return Prose::default();
    }
    let prose = Prose::new(" (")
        .count(loads.len())
        .text(plural(loads.len(), " load", " loads"));
    let prose = match flagged.len() {
        0 => prose,
        count => prose.text(", ").count(count).text(" flagged"),
    };
    prose.text(")")
}

/// Returns the poolers that could not be compared, with the reason.
fn left_out(contest: &Contest<'_, '_>) -> Prose {
    let names_of = |reason: Absence| -> Vec<Prose> {
        let found = contest.absent.iter();
        let found = found.filter(|(_, absence)| *absence == reason);
        found
            .map(|(target, _)| Prose::quote(&named(target)))
            .collect()
    };
    let mut prose = Prose::default();
    for (reason, words) in [
        (Absence::OtherWork, " did other work than was asked for"),
        (Absence::Failed, " could not be run"),
    ] {
        let names = names_of(reason);
        if !names.is_empty() {
            prose = prose.text("; ").then(enumerated(names)).text(words);
        }
    }
    prose
}
