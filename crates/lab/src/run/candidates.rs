//! Targets of a run: the target that each name stands for, and whether it is on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Error;
use crate::experiment::{Design, Experiment};
use crate::record;
use crate::target::{Catalog, Found, Instance};

/// Target that the user asked for.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Name of the target, or an alias.
    pub(super) name: String,
    pub(super) instance: Instance,
    /// Programs of the target, or the reason why it is skipped.
    pub(super) found: Result<Found, String>,
    /// Target of which this is a second name.
    twin_of: Option<String>,
}

/// All candidates, in the order in which they were first asked for.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    list: Vec<Candidate>,
    /// Programs in front of others, which are no targets themselves.
    fronts: Vec<Candidate>,
}

impl Candidates {
    pub(super) fn new(
        chosen: &[(Experiment, Design)],
        targets: &Catalog,
        programs: &BTreeMap<String, PathBuf>,
        directories: &[PathBuf],
    ) -> Result<Self, Error> {
        let mut new = Self::default();
        let candidate = |name: &str, target: &str| -> Result<Candidate, Error> {
            let instance = targets.find(target)?;
            Ok(Candidate {
                name: name.to_owned(),
                found: Found::look(&instance, programs, directories),
                instance,
                twin_of: (name != target).then(|| target.to_owned()),
            })
        };
        for (experiment, design) in chosen {
            for name in &design.targets {
                if new.get(name).is_none() {
                    new.list.push(candidate(name, experiment.target(name))?);
                }
            }
            if let Some(front) = &experiment.pooler.front {
                new.fronts.push(candidate(front, front)?);
            }
        }
        Ok(new)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Candidate> {
        self.list.iter().find(|candidate| candidate.name == name)
    }

    pub(super) fn front(&self, name: &str) -> Option<&Candidate> {
        self.fronts.iter().find(|candidate| candidate.name == name)
    }

    /// Returns those of `names` that can be run.
    pub(super) fn here(&self, names: &[String]) -> Vec<String> {
        let found = |name: &&String| self.get(name).is_some_and(|c| c.found.is_ok());
        names.iter().filter(found).cloned().collect()
    }

    pub(super) fn instances(&self, names: &[String]) -> Vec<&Instance> {
        let found = names.iter().filter_map(|name| self.get(name));
        found.map(|candidate| &candidate.instance).collect()
    }

    /// Returns the reasons why targets are skipped.
    pub(super) fn reasons(&self) -> Vec<String> {
        let reason = |candidate: &Candidate| {
            let reason = candidate.found.as_ref().err()?;
            Some(format!("{}: {reason}", candidate.name))
        };
        self.list.iter().filter_map(reason).collect()
    }

    /// Returns the versions of the programs in front of others, by their names.
    pub(super) fn front_versions(&self) -> BTreeMap<String, String> {
        let version = |front: &Candidate| {
            let text = front.found.as_ref().ok()?.text.clone()?;
            Some((front.name.clone(), text))
        };
        self.fronts.iter().filter_map(version).collect()
    }

    /// Returns the descriptions of all candidates as files: name and text, each text once and each name once.
    pub(super) fn descriptions(&self) -> Vec<(String, String)> {
        let mut files: Vec<(String, String)> = Vec::new();
        for candidate in self.list.iter().chain(&self.fronts) {
            let definition = &candidate.instance.definition;
            if files.iter().any(|(_, text)| *text == definition.source) {
                continue;
            }
            let mut name = definition.file_name.clone();
            while files.iter().any(|(known, _)| *known == name) {
                name.insert_str(0, "other-");
            }
            files.push((name, definition.source.clone()));
        }
        files
    }

    /// Returns the name of the file in [`Self::descriptions`] that describes a target.
    pub(super) fn file_of(&self, target: &str) -> Option<String> {
        let source = &self.get(target)?.instance.definition.source;
        let mut files = self.descriptions().into_iter();
        files.find_map(|(name, text)| (text == *source).then_some(name))
    }

    pub(super) fn records(&self) -> Vec<record::Target> {
        self.list.iter().map(Candidate::record).collect()
    }
}

impl Candidate {
    fn record(&self) -> record::Target {
        let definition = &self.instance.definition;
        let mut fairness = definition.fairness.clone();
        if let Some(note) = definition.note.as_ref().filter(|_| !definition.tried) {
            fairness.push_str(&format!(" How it is run here is {note}."));
        }
        let mut title = self.instance.title();
        if self.twin_of.is_some() {
            title.push_str(" (again)");
        }
        let found = self.found.as_ref().ok();
        record::Target {
            name: self.name.clone(),
            title,
            version: found.and_then(|found| found.text.clone()),
            sha256: found.and_then(|found| found.sha256.clone()),
            fairness,
            skipped: self.found.as_ref().err().cloned(),
            twin_of: self.twin_of.clone(),
            untried: !definition.tried,
        }
    }
}
