//! Facts needed to understand and to repeat a run: targets, environment, commands.

use super::document::{Block, Entry, Table};
use super::format;
use super::prose::Prose;
use super::view::View;

/// Returns the sections on skipped targets, fairness, environment and repetition.
pub(super) fn blocks(view: &View<'_>) -> Vec<Block> {
    let mut blocks = skipped(view);
    blocks.extend(targets(view));
    blocks.extend(environment(view));
    blocks.extend(again(view));
    blocks
}

fn skipped(view: &View<'_>) -> Vec<Block> {
    let mut table = Table::new("", &["Target", "Why"]);
    for target in &view.results.run.targets {
        if let Some(why) = &target.skipped {
            let untried = if target.untried {
                "; its description was never tried"
            } else {
                ""
            };
            table.row([target.title.clone(), format!("{why}{untried}")]);
        }
    }
    let mut blocks = vec![Block::section("Skipped targets")];
    if table.rows.is_empty() {
        blocks.push(Block::Prose(Prose::new(
            "None: every target that was asked for was run.",
        )));
    } else {
        blocks.push(Block::Table(table));
    }
    blocks
}

fn targets(view: &View<'_>) -> Vec<Block> {
    let mut fair: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut table = Table::new("Programs", &["Target", "Version", "SHA-256"]);
    for target in view
        .results
        .run
        .targets
        .iter()
        .filter(|target| target.skipped.is_none())
    {
        let sha256 = target.sha256.as_deref().unwrap_or(format::NONE);
        let version = target.version.as_deref().unwrap_or(format::NONE);
        table.rows.push(vec![
            Entry::new(if target.untried {
                format!("{} (description never tried)", target.title)
            } else {
                target.title.clone()
            }),
            Entry::new(version),
            Entry::code(sha256),
        ]);
        if !target.fairness.is_empty() {
            let same = fair.iter_mut().find(|(text, _)| *text == target.fairness);
            match same {
                Some((_, titles)) => titles.push(target.title.as_str()),
                None => fair.push((target.fairness.as_str(), vec![target.title.as_str()])),
            }
        }
    }
    let mut blocks = vec![Block::section("Targets and fairness")];
    if !fair.is_empty() {
        let sentence = |(text, titles): &(&str, Vec<&str>)| {
            Prose::quote(&titles.join("; ")).text(": ").name(text)
        };
        blocks.push(Block::List(fair.iter().map(sentence).collect()));
    }
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table));
    }
    blocks
}

fn environment(view: &View<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::section("Environment")];
    for (section, facts) in &view.results.run.environment {
        let mut table = Table::new(section, &["", ""]);
        for (name, value) in facts {
            table.row([name.clone(), value.clone()]);
        }
        blocks.push(Block::Table(table));
    }
    if blocks.len() == 1 {
        blocks.push(Block::Prose(Prose::new("Nothing was captured.")));
    }
    blocks
}

fn again(view: &View<'_>) -> Vec<Block> {
    let run = &view.results.run;
    let mut command = run.command.clone();
    let seeded = command.iter().any(|word| word.starts_with("--seed"));
    if !seeded && !command.is_empty() {
        command.extend(["--seed".to_owned(), run.seed.to_string()]);
    }
    let mut blocks = vec![Block::section("Run it again")];
    if !command.is_empty() {
        blocks.push(Block::Code(format::shell(&command)));
    }
    // The seed is a name of 64 bits and not a quantity.
    let prose =
        Prose::new("The order inside of blocks comes from the seed ").name(&run.seed.to_string());
    blocks.push(Block::Prose(prose.text(
        ". The result directory has what this page is made from: run.json, cells.jsonl with every cell's \
         command line, per-second rates and distributions, and each target's configuration.",
    )));
    let mut table = Table::new("Where the configurations are", &["Target", "Directory"]);
    let mut seen = std::collections::BTreeSet::new();
    for cell in &view.results.cells {
        if seen.insert(&cell.target) {
            let target = Entry::new(view.title(&cell.target));
            table
                .rows
                .push(vec![target, Entry::code(&cell.configurations)]);
        }
    }
    if !table.rows.is_empty() {
        blocks.push(Block::Details {
            summary: "An example of each target's configuration".to_owned(),
            blocks: vec![Block::Table(table)],
            terminal: false,
        });
    }
    blocks
}
