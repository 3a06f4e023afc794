//! The list of faults: reads it, and finds the line of each in the tree. Never writes.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::trial::Tests;
use crate::workspace::root;

/// Lines after `after` in which `find` has to stand, so that an entry cannot move to another function unnoticed.
const AFTER_MAX: usize = 40;

/// A fault: a change of one line that would harm users, and the tests that must notice it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    pub(super) id: String,
    /// Name of the file of the list.
    #[serde(skip)]
    pub(super) area: String,
    /// Path from the root of the repository.
    pub(super) file: String,
    /// Text that stands once in the file and shortly before the line; needed where `find` occurs more than once.
    after: Option<String>,
    /// Part of one line, replaced by `replace`.
    find: String,
    replace: String,
    /// Harm to users, as one sentence.
    pub(super) effect: String,
    /// Tests that have to fail, cheapest first: `PACKAGE [--lib | --test NAME] [FILTER]…`.
    pub(super) tests: Vec<Tests>,
    /// True for the few faults that CI tries.
    #[serde(default)]
    pub(super) short: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Area {
    mutant: Vec<Mutant>,
}

impl Mutant {
    /// Returns the text of the file with the fault in it.
    ///
    /// # Errors
    /// If the line does not occur exactly once: the entry is stale.
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let at = self.place(text).with_context(|| self.stale())?;
        let (before, rest) = text.split_at(at);
        let after = rest.strip_prefix(&*self.find).unwrap_or(rest);
        Ok(format!("{before}{}{after}", self.replace))
    }

    fn stale(&self) -> String {
        format!(
            "the fault {} of xtask/mutants/{}.toml is stale: {} has changed",
            self.id, self.area, self.file
        )
    }

    fn place(&self, text: &str) -> Result<usize> {
        let Some(after) = &self.after else {
            return only(text, &self.find);
        };
        let start = only(text, after)? + after.len();
        let rest = text.get(start..).unwrap_or_default();
        let near: usize = rest
            .split_inclusive('\n')
            .take(AFTER_MAX)
            .map(str::len)
            .sum();
        let near = rest.get(..near).unwrap_or_default();
        let found = near.find(&self.find);
        found
            .map(|at| start + at)
            .with_context(|| format!("`{}` does not stand shortly after `{after}`", self.find))
    }

    fn check(&self) -> Result<()> {
        let path = root().join(&self.file);
        let text = fs::read_to_string(&path).with_context(|| self.stale())?;
        if self.find.contains('\n') || self.replace.contains('\n') {
            bail!("{}: a fault is a change of one line", self.id);
        }
        if self.tests.is_empty() || self.effect.is_empty() {
            bail!("{}: names no tests, or no effect", self.id);
        }
        if self.apply(&text)? == text {
            bail!("{}: changes nothing", self.id);
        }
        Ok(())
    }
}

/// Position of `part` in `text`, if it occurs exactly once.
fn only(text: &str, part: &str) -> Result<usize> {
    let mut places = text.match_indices(part);
    match (places.next(), places.next()) {
        (Some((at, _)), None) => Ok(at),
        (None, _) => bail!("`{part}` does not occur"),
        (Some(_), Some(_)) => bail!("`{part}` occurs more than once"),
    }
}

/// Reads all faults, area by area.
///
/// # Errors
/// If a file of the list cannot be read.
pub(super) fn read() -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    let mut paths: Vec<_> = fs::read_dir(root().join("xtask/mutants"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        let text = fs::read_to_string(&path)?;
        let area: Area = toml::from_str(&text).with_context(|| path.display().to_string())?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        mutants.extend(area.mutant.into_iter().map(|mutant| Mutant {
            area: name.clone().into_owned(),
            ..mutant
        }));
    }
    Ok(mutants)
}

/// Checks all entries.
///
/// # Errors
/// Names all entries that do not fit the tree, or whose id is not unique.
pub(super) fn check(mutants: &[Mutant]) -> Result<()> {
    let mut ids = BTreeSet::new();
    let mut wrong = Vec::new();
    for mutant in mutants {
        if let Err(error) = mutant.check() {
            wrong.push(format!("{error:#}"));
        }
        if !ids.insert(&mutant.id) {
            wrong.push(format!("{}: two faults have this id", mutant.id));
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum of short faults, which CI tries in a few minutes.
    const SHORT_MAX: usize = 8;

    #[test]
    fn each_fault_of_the_list_fits_the_tree() {
        let mutants = read().unwrap();
        check(&mutants).unwrap();
        let short: Vec<_> = mutants.iter().filter(|mutant| mutant.short).collect();
        assert!((1..=SHORT_MAX).contains(&short.len()), "{}", short.len());
    }

    fn mutant(after: Option<&str>, find: &str) -> Mutant {
        Mutant {
            id: "id".to_owned(),
            area: "area".to_owned(),
            file: "file.rs".to_owned(),
            after: after.map(str::to_owned),
            find: find.to_owned(),
            replace: "x".to_owned(),
            effect: "harm".to_owned(),
            tests: Vec::new(),
            short: false,
        }
    }

    #[test]
    fn a_line_that_is_gone_or_not_alone_is_an_error_that_names_the_entry() {
        for text in ["nothing", "a < b\na < b\n"] {
            let error = mutant(None, "a < b").apply(text).unwrap_err();
            assert!(
                format!("{error:#}").contains("the fault id of"),
                "{error:#}"
            );
        }
    }

    #[test]
    fn a_line_that_is_not_alone_is_found_by_what_stands_before_it() {
        let text = "fn one {\n a < b }\nfn two {\n a < b }\n";
        let applied = mutant(Some("fn two"), "a < b").apply(text).unwrap();
        assert_eq!(applied, "fn one {\n a < b }\nfn two {\n x }\n");
        let far = format!("fn two{}a < b", "\n".repeat(AFTER_MAX));
        assert!(mutant(Some("fn two"), "a < b").apply(&far).is_err());
    }
}
