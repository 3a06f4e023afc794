//! Raw data of a run: everything its report is made from. The report can be written again later, and runs of several
//! evenings can be combined into one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use weir_lab::clock;

use super::Record;
use super::plan::{Flags, Plan};
use super::report::{self, Facts};
use super::run::Pins;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Raw {
    pub(super) flags: Flags,
    pub(super) plan: Plan,
    pub(super) seed: u64,
    /// Description of the machine.
    pub(super) environment: String,
    pub(super) pins: Option<Pins>,
    pub(super) records: Vec<Record>,
}

impl Raw {
    /// Reads the raw data of a run.
    ///
    /// # Errors
    /// If the file cannot be read, or was not written by a run.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| path.display().to_string())?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{}: not the raw data of accept-auto", path.display()))
    }

    /// Writes the raw data and its report into the working directory; returns the path.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn keep(&self) -> Result<PathBuf> {
        let path = format!("weir-accept-auto-{}.json", clock::since_epoch().as_secs());
        let path = PathBuf::from(path);
        fs::write(&path, serde_json::to_string_pretty(self)?)?;
        self.report(Some(&path.with_extension("md")))?;
        Ok(path)
    }

    /// Returns the report, and writes it to `output` if given.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn report(&self, output: Option<&Path>) -> Result<String> {
        let facts = Facts {
            plan: &self.plan,
            environment: &self.environment,
            pins: self.pins.as_ref(),
            clients: self.flags.clients,
            goal: self.flags.goal.as_deref().unwrap_or("balanced"),
            seed: self.seed,
        };
        let text = report::render(&facts, &self.records);
        if let Some(path) = output {
            fs::write(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(text)
    }

    /// Settings that must be equal in all runs of one report.
    fn settings(&self) -> impl PartialEq + use<> {
        let plan = &self.plan;
        (
            (plan.seconds, plan.measured, plan.fixed_seconds),
            (plan.starts.clone(), plan.usual),
            (self.flags.clients, self.flags.goal.clone()),
            self.pins.clone(),
        )
    }

    /// Adds later runs. Block numbers continue, because only runs of the same block are compared.
    ///
    /// # Errors
    /// If the runs have other settings.
    fn add(&mut self, later: Self) -> Result<()> {
        if self.settings() != later.settings() {
            bail!("runs of other lengths, starts, clients or goals cannot be told in one report");
        }
        let before = |mix| {
            let blocks = self.records.iter().filter(|record| record.mix == mix);
            blocks.map(|record| record.block).max().unwrap_or_default()
        };
        let later_records = later.records.into_iter().map(|record| Record {
            block: record.block + before(record.mix),
            ..record
        });
        let later_records: Vec<Record> = later_records.collect();
        self.records.extend(later_records);
        let plan = &mut self.plan;
        for mix in later.plan.mixes {
            if !plan.mixes.contains(&mix) {
                plan.mixes.push(mix);
            }
        }
        plan.sizes.extend(later.plan.sizes);
        plan.sizes.sort_unstable();
        plan.sizes.dedup();
        let blocks = self.records.iter().map(|record| record.block);
        plan.blocks = blocks.max().unwrap_or_default();
        self.environment.push_str(&format!(
            "\n\nAlso, by seed {}: {}",
            later.seed, later.environment
        ));
        Ok(())
    }
}

/// Combines the runs of these files.
///
/// # Errors
/// As [`Raw::read`], or if runs have different settings.
pub(super) fn together(paths: &[PathBuf]) -> Result<Raw> {
    let (first, others) = paths.split_first().context("no raw data were named")?;
    let mut all = Raw::read(first)?;
    for path in others {
        all.add(Raw::read(path)?)
            .with_context(|| path.display().to_string())?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::judge::tests::{plan, records};
    use super::super::judge::{self, judge};
    use super::super::mix::Mix;
    use super::super::plan::tests::flags;
    use super::*;

    fn raw() -> Raw {
        Raw {
            flags: flags("--clients 7"),
            plan: plan(),
            seed: 3,
            environment: "some machine".to_owned(),
            pins: Pins::of(4),
            records: records(0.99),
        }
    }

    #[test]
    fn a_report_can_be_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw.json");
        fs::write(&path, serde_json::to_string(&raw()).unwrap()).unwrap();
        let again = together(std::slice::from_ref(&path)).unwrap();
        let output = directory.path().join("report.md");
        let text = again.report(Some(&output)).unwrap();
        assert_eq!(text, raw().report(None).unwrap());
        assert_eq!(text, fs::read_to_string(&output).unwrap());
        fs::write(&path, "{}").unwrap();
        let error = format!("{:#}", together(&[path]).unwrap_err());
        assert!(error.contains("raw.json: not the raw data"), "{error}");
        assert!(together(&[]).is_err());
    }

    #[test]
    fn runs_of_two_evenings_are_one() {
        let mut later = raw();
        later.plan.sizes = vec![2, 12];
        for record in &mut later.records {
            record.mix = Mix::Chatty;
        }
        let mut all = raw();
        all.add(later.clone()).unwrap();
        assert_eq!((all.plan.blocks, all.plan.mixes.len()), (4, 1));
        assert_eq!(all.plan.sizes, [2, 8, 10, 12]);
        let found = judge(&all.plan, &all.records, Mix::Chatty);
        assert_eq!(found.ratio.unwrap().pairs, 8);
        assert_eq!(judge::swept(&all.records, Mix::Chatty).count(), 12);
        // Another load has its own first block.
        for record in &mut later.records {
            record.mix = Mix::Pipelined;
        }
        later.plan.mixes = vec![Mix::Pipelined];
        all.add(later).unwrap();
        assert_eq!((all.plan.blocks, all.plan.mixes.len()), (4, 2));
        let text = all.report(None).unwrap();
        assert!(text.matches("some machine").count() == 3, "{text}");
    }

    #[test]
    fn runs_that_differ_are_not_one() {
        let mut longer = raw();
        longer.plan.measured += 1;
        assert!(raw().add(longer).is_err());
        let mut more = raw();
        more.flags = flags("--clients 8");
        assert!(raw().add(more).is_err());
    }
}
