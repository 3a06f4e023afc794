//! Preparation of a run before anything is started: descriptions, programs, the order of all cells.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::candidates::Candidates;
use super::plan::{self, Planned};
use super::stage::Given;
use super::{Error, Options};
use crate::clock;
use crate::environment;
use crate::error::Error as SystemError;
use crate::experiment::{self, Design, Experiment};
use crate::postgres::Programs;
use crate::record;
use crate::target;

/// Prepared run.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) options: Options,
    pub(super) chosen: Vec<(Experiment, Design)>,
    pub(super) candidates: Candidates,
    pub(super) programs: Programs,
    pub(super) given: Option<Given>,
    /// Files that describe the run, to be kept in the result: directory, name, text.
    pub(super) texts: Vec<(&'static str, String, String)>,
}

impl Setup {
    pub(super) fn new(options: &Options) -> Result<Self, Error> {
        let mut texts = Vec::new();
        let mut experiments = experiment::Catalog::builtin()?;
        let mut own = BTreeMap::new();
        for path in &options.experiment_files {
            let text = read(path)?;
            let parsed = Experiment::parse(&path.display().to_string(), &text)?;
            own.insert(parsed.name.clone(), text);
            experiments.add(parsed);
        }
        let mut targets = target::Catalog::builtin()?;
        for path in &options.target_files {
            let text = read(path)?;
            targets.add(target::Definition::parse(
                &path.display().to_string(),
                &text,
            )?);
        }
        let chosen = choose(options, &experiments)?;
        for (experiment, _) in &chosen {
            let name = &experiment.name;
            let builtin = || experiment::builtin_text(name).map(str::to_owned);
            if let Some(text) = own.get(name).cloned().or_else(builtin) {
                texts.push(("experiments", format!("{name}.toml"), text));
            }
        }
        let directories = &options.program_directories;
        let candidates = Candidates::new(&chosen, &targets, &options.programs, directories)?;
        let descriptions = candidates.descriptions().into_iter();
        texts.extend(descriptions.map(|(name, text)| ("targets", name, text)));
        let programs = match &options.postgres {
            Some(directory) => Programs::of(directory)?,
            None => Programs::find()?,
        };
        let given = options.server.as_deref().map(Given::parse).transpose()?;
        Ok(Self {
            options: options.clone(),
            chosen,
            candidates,
            programs,
            given,
            texts,
        })
    }

    pub(super) fn plan(&self, seed: u64) -> Result<Vec<Planned>, Error> {
        let cells = self.chosen.iter().flat_map(|(experiment, design)| {
            let here = self.candidates.here(&design.targets);
            plan::cells(&experiment.name, design, &here, seed)
        });
        let cells: Vec<Planned> = cells.collect();
        if cells.is_empty() {
            return Err(Error::Nothing {
                reasons: self.candidates.reasons(),
            });
        }
        Ok(cells)
    }

    pub(super) fn record(&self, options: &Options, seed: u64) -> record::Run {
        let mut environment = environment::machine();
        let fronts = self.candidates.front_versions();
        if !fronts.is_empty() {
            environment.insert(record::FRONT.to_owned(), fronts);
        }
        let lab = environment.entry("lab".to_owned()).or_default();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        lab.insert("version".to_owned(), version);
        let build = if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        };
        lab.insert("build".to_owned(), build.to_owned());
        if let Some(commit) = environment::commit(".") {
            lab.insert("commit of the working directory".to_owned(), commit);
        }
        if let Some(cpus) = &options.pooler_cpus {
            lab.insert("poolers pinned to CPUs".to_owned(), cpus.clone());
        }
        if self.given.is_some() {
            let note = "given, on whatever machine it is: never restarted, its data never restored, its CPU time not known";
            lab.insert("server".to_owned(), note.to_owned());
        }
        record::Run {
            format: record::FORMAT,
            profile: options.profile.clone(),
            seed,
            started_unix_s: clock::since_epoch().as_secs(),
            ended_unix_s: None,
            command: redacted(options).command,
            experiments: self
                .chosen
                .iter()
                .map(|(experiment, design)| self.record_of(experiment, design))
                .collect(),
            targets: self.candidates.records(),
            environment,
        }
    }

    /// Records an experiment. Targets that are not on this machine were never planned.
    fn record_of(&self, experiment: &Experiment, design: &Design) -> record::Experiment {
        let mut record = experiment.record(design);
        let here = self.candidates.here(&design.targets);
        record.plan.retain(|cell| here.contains(&cell.target));
        if !here.contains(&record.base) {
            record.base = here.first().cloned().unwrap_or(record.base);
        }
        if self.given.is_some() {
            record.caveats.push(
                "The server was given: it was not restarted between blocks, and its data were not restored."
                    .to_owned(),
            );
        }
        record
    }
}

/// Returns the options without passwords: results are made to be published.
pub(super) fn redacted(options: &Options) -> Options {
    let command = options.command.iter().map(|word| Given::redacted(word));
    Options {
        server: options.server.as_deref().map(Given::redacted),
        command: command.collect(),
        ..options.clone()
    }
}

pub(super) fn read(path: &Path) -> Result<String, Error> {
    Ok(fs::read_to_string(path).map_err(SystemError::file("read", path))?)
}

pub(super) fn choose(
    options: &Options,
    experiments: &experiment::Catalog,
) -> Result<Vec<(Experiment, Design)>, Error> {
    let mut chosen = Vec::new();
    let named = !options.experiments.is_empty();
    let all = experiments.experiments().iter().map(|e| e.name.clone());
    let names: Vec<String> = if named {
        options.experiments.clone()
    } else {
        all.collect()
    };
    for name in names {
        let experiment = experiments.find(&name)?;
        match experiment.design(&options.profile, &options.changes)? {
            Some(design) => chosen.push((experiment.clone(), design)),
            None if named => {
                return Err(Error::NoProfile {
                    experiment: name,
                    profile: options.profile.clone(),
                    known: experiment.profiles().map(str::to_owned).collect(),
                });
            }
            None => {}
        }
    }
    Ok(chosen)
}
