//! Cells that could not be run: the words of targets that did not start, and of psql.

use std::collections::BTreeMap;

use super::document::Block;
use super::prose::Prose;
use super::view::View;

/// Returns the section, if a cell could not be run. Each target shows each of its failures once, in full.
pub(super) fn blocks(view: &View<'_>) -> Vec<Block> {
    let mut seen: BTreeMap<(&str, &str), (usize, &str)> = BTreeMap::new();
    for experiment in &view.experiments {
        for cell in experiment.failed() {
            let words = cell.failed.as_deref().unwrap_or("no reason was recorded");
            let key = (view.title(&cell.target), first_line(words));
            seen.entry(key).or_insert((0, words)).0 += 1;
        }
    }
    if seen.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![Block::section("Cells that could not be run")];
    for ((title, _), (count, words)) in seen {
        let prose = Prose::quote(title).text(", ").count(count);
        blocks.push(Block::Prose(prose.text(super::format::plural(
            count,
            " cell, in the words of the target and of the lab:",
            " cells, the first in the words of the target and of the lab:",
        ))));
        blocks.push(Block::Words(words.to_owned()));
    }
    blocks
}

/// Returns the first line of a failure; the rest are words of programs.
pub(super) fn first_line(words: &str) -> &str {
    words.lines().next().unwrap_or_default()
}
