//! Answers to the question which pooler to take: one sentence for each kind of use that readers ask about.
//!
//! A sentence claims a lead only if it is beyond the noise against every other pooler that was measured under these
//! loads. Otherwise the sentence names what is not decided, and why.

mod contest;
mod question;
mod words;

use self::contest::Contest;
use self::question::Question;
use super::document::Block;
use super::prose::Prose;
use super::view::View;

/// Returns the section.
pub(super) fn blocks(view: &View<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::section("Which pooler")];
    let contests: Vec<Contest<'_, '_>> = Question::ALL
        .into_iter()
        .map(|question| Contest::new(view, question))
        .collect();
    if contests.iter().all(Contest::is_empty) {
        blocks.push(Block::Prose(Prose::new(
            "This run does not answer it: nothing was measured that compares the throughput of poolers in front of a \
             database.",
        )));
        return blocks;
    }
    blocks.push(Block::List(contests.iter().map(words::sentence).collect()));
    blocks.push(Block::Note(Prose::new(
        "Compared are poolers with as many workers or processes each, by throughput and by CPU time per transaction. \
         Poolers with a process for each client or connection, such as Pgpool-II, meet those with one worker. A ratio is the geometric mean over all loads of the question inside of a block; a lead counts if the 95 % \
         interval over the blocks is beyond one and beyond the noise floor, if one load at least shows it by itself, and \
         if no load says the opposite.",
    )));
    blocks.extend(absent(view).map(Block::Note));
    blocks
}

/// Returns the names of the poolers that were asked for and not measured.
fn absent(view: &View<'_>) -> Option<Prose> {
    let targets = view.results.run.targets.iter();
    let titles: Vec<&str> = targets
        .filter(|target| target.skipped.is_some() && contest::is_contender(target))
        .map(|target| target.title.as_str())
        .collect();
    let prose = Prose::new("Not on the machine, and so in no answer: ").name(&titles.join("; "));
    (!titles.is_empty()).then(|| prose.text("."))
}

#[cfg(test)]
mod tests;
