//! A whole run: from what the user asked for to a result directory. Cells come one after the other in a shuffled order;
//! each has fresh pooler processes; what is finished is on the disk, so that a run can be stopped at any time and
//! taken up again.

mod candidates;
mod canned;
mod cell;
mod directory;
mod flags;
mod list;
mod plan;
pub(crate) mod progress;
mod setup;
mod stage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::cell::Bench;
use self::directory::Directory;
use self::plan::Planned;
pub use self::progress::{Progress, Silent};
use self::progress::{Remaining, describe};
use self::setup::{Setup, redacted};
use self::stage::{Need, Stage};
use crate::clock;
use crate::environment;
use crate::error::Error as SystemError;
use crate::experiment::{self, Changes, Design, Experiment};
use crate::interrupt::Interrupt;
use crate::process::raise_open_files;
use crate::record;
use crate::target;

pub use self::list::list;

/// What is asked for. All of it is kept in the result, but for passwords.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Options {
    /// `smoke`, `quick` or `full`.
    pub profile: String,
    /// These only; all that have the profile if empty.
    pub experiments: Vec<String>,
    /// What differs from the profile.
    pub changes: Changes,
    /// Where programs of targets are, by the names in their descriptions.
    pub programs: BTreeMap<String, PathBuf>,
    /// PostgreSQL's programs, if not the newest installed.
    pub postgres: Option<PathBuf>,
    /// A server that is there already, as `postgresql://user:password@host:port/database`, with pgbench's tables.
    pub server: Option<String>,
    /// CPUs that poolers are pinned to, in taskset's list syntax.
    pub pooler_cpus: Option<String>,
    /// Files that describe more experiments, or ours differently.
    pub experiment_files: Vec<PathBuf>,
    /// Files that describe more targets, or ours differently.
    pub target_files: Vec<PathBuf>,
    /// For the order inside of blocks; from the clock if none.
    pub seed: Option<u64>,
    /// What was typed, for the record.
    pub command: Vec<String>,
    /// Our own program, with the arguments that its commands `load` ([`crate::load`]) and `null` ([`crate::null`])
    /// stand behind.
    pub program: Vec<String>,
}

/// Why there is no result, or only a part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Files, programs, servers, or an interrupt.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A mistake in an experiment, or a wrong name of one.
    #[error(transparent)]
    Experiment(#[from] experiment::Error),
    /// A mistake in a target, or a wrong name of one.
    #[error(transparent)]
    Target(#[from] target::Error),
    /// A result directory holds a run already.
    #[error("{} has a run already; use another directory, or --resume it", .0.display())]
    Occupied(PathBuf),
    /// A newer version wrote it.
    #[error("{} was written by a newer version", .0.display())]
    TooNew(PathBuf),
    /// A file of a result directory that cannot be understood.
    #[error("{}: {source}", path.display())]
    Json {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A named experiment has no such profile.
    #[error("`{experiment}` has no profile `{profile}`; it has {}", known.join(", "))]
    NoProfile {
        /// Which experiment.
        experiment: String,
        /// What was asked for.
        profile: String,
        /// What could have been.
        known: Vec<String>,
    },
    /// No cell is left after all that was asked for.
    #[error("nothing to run: no target of these experiments is on this machine{}", reasons.iter().map(|line| format!("\n  {line}")).collect::<String>())]
    Nothing {
        /// Why each target is skipped.
        reasons: Vec<String>,
    },
    /// An address of a server that cannot be used.
    #[error("--server {url}: {reason}")]
    Server {
        /// As given, without the password.
        url: String,
        /// Why.
        reason: String,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// Cells in the result, those that failed too.
    pub cells: usize,
    /// Those that failed.
    pub failed: usize,
    /// A signal stopped it; the rest can be run with `--resume`.
    pub interrupted: bool,
}

const OPTIONS: &str = "options.json";
const PLAN: &str = "plan.json";
const CALIBRATION: &str = "calibration.json";

/// Runs what `options` ask for into a new directory.
///
/// # Errors
/// Mistakes in what was asked for, before anything is started; later only what concerns all cells. What concerns one
/// is in the result.
pub fn run(
    options: &Options,
    directory: &Path,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<Finished, Error> {
    let setup = Setup::new(options)?;
    let seed = options
        .seed
        .unwrap_or_else(|| clock::since_epoch().as_secs());
    let plan = setup.plan(seed)?;
    let directory = Directory::create(directory)?;
    directory.write(OPTIONS, &redacted(options))?;
    directory.write(PLAN, &plan)?;
    directory.write_texts(&setup.texts)?;
    let run = setup.record(options, seed);
    directory.write_run(&run)?;
    Runner::new(setup, directory, run, plan, Vec::new())?.go(interrupt, progress)
}

/// Takes up a run that was stopped: with its own options, its own files and its own order.
///
/// # Errors
/// As [`run`]; or there is no run to take up.
pub fn resume(
    directory: &Path,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<Finished, Error> {
    let (opened, run, done) = Directory::open(directory)?;
    let mut options: Options = opened.read(OPTIONS)?;
    // The descriptions as they were then, wherever they came from.
    options.experiment_files = opened.files("experiments")?;
    options.target_files = opened.files("targets")?;
    let setup = Setup::new(&options)?;
    let plan: Vec<Planned> = opened.read(PLAN)?;
    progress.line(&format!("{} of {} cells are done", done.len(), plan.len()));
    Runner::new(setup, opened, run, plan, done)?.go(interrupt, progress)
}

/// A run that goes on.
struct Runner {
    setup: Setup,
    directory: Directory,
    run: record::Run,
    plan: Vec<Planned>,
    finished: Finished,
    remaining: Remaining,
    calibration: BTreeMap<String, f64>,
}

impl Runner {
    fn new(
        setup: Setup,
        directory: Directory,
        run: record::Run,
        mut plan: Vec<Planned>,
        done: Vec<record::Cell>,
    ) -> Result<Self, Error> {
        plan.retain(|planned| !done.iter().any(|cell| planned.is(cell)));
        let calibration = directory.read_if_there(CALIBRATION)?.unwrap_or_default();
        let mut runner = Self {
            setup,
            directory,
            run,
            plan,
            finished: Finished {
                cells: done.len(),
                failed: 0,
                interrupted: false,
            },
            remaining: Remaining::new(0.0),
            calibration,
        };
        let expected = runner.plan.iter().map(|cell| runner.expected(cell)).sum();
        runner.remaining = Remaining::new(expected);
        Ok(runner)
    }

    fn go(mut self, interrupt: &Interrupt, progress: &mut dyn Progress) -> Result<Finished, Error> {
        raise_open_files()?;
        for reason in self.setup.candidates.reasons() {
            progress.line(&format!("skipped: {reason}"));
        }
        progress.line(&format!(
            "{} cells, about {}; seed {}",
            self.plan.len(),
            self.remaining.text(),
            self.run.seed
        ));
        let result = self.experiments(interrupt, progress);
        match result {
            Ok(()) => {
                self.run.ended_unix_s = Some(clock::since_epoch().as_secs());
                self.directory.write_run(&self.run)?;
            }
            // A program that Ctrl-C reached too may have failed first.
            Err(_) if interrupt.raised() => self.finished.interrupted = true,
            Err(error) => return Err(error),
        }
        Ok(self.finished)
    }

    fn experiments(
        &mut self,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let mut stage: Option<Stage> = None;
        for (experiment, design) in self.setup.chosen.clone() {
            let cells: Vec<Planned> = self
                .plan
                .iter()
                .filter(|cell| cell.experiment == experiment.name)
                .cloned()
                .collect();
            if cells.is_empty() {
                continue;
            }
            let instances = self.setup.candidates.instances(&design.targets);
            let need = Need::of(&experiment, &design, &instances);
            let fits = stage.as_ref().is_some_and(|stage| stage.fits(&need));
            if !fits {
                // The old server goes before the new one comes.
                drop(stage.take());
                progress.line(&format!("{}: setting up the server", experiment.name));
                let given = self.setup.given.clone();
                let new = Stage::set(
                    need,
                    &self.setup.programs,
                    given,
                    &self.setup.options.program,
                )?;
                self.note_server(&new)?;
                stage = Some(new);
            }
            if let Some(stage) = &mut stage {
                self.cells(&experiment, &design, &cells, stage, interrupt, progress)?;
            }
        }
        Ok(())
    }

    fn cells(
        &mut self,
        experiment: &Experiment,
        design: &Design,
        cells: &[Planned],
        stage: &mut Stage,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let mut block = None;
        for planned in cells {
            interrupt.check()?;
            let begun = clock::now();
            if block != Some(planned.block) {
                block = Some(planned.block);
                let writes = experiment.work(&planned.factors, design.scale)?.writes;
                stage.begin_block(experiment.server.restart, writes)?;
            }
            let rate = self.rate(experiment, design, planned, stage, interrupt, progress)?;
            let bench = self.bench(experiment, design, stage, interrupt);
            let cell = bench.run(planned, rate, &self.directory)?;
            interrupt.check()?;
            self.note_tls(&cell.negotiated, &planned.target)?;
            let cell = cell.record;
            self.directory.append(&cell)?;
            self.finished.cells += 1;
            self.finished.failed += usize::from(cell.failed.is_some());
            let took = clock::now().saturating_duration_since(begun);
            self.remaining.done(self.expected(planned), took);
            let left = self.remaining.text();
            progress.line(&format!(
                "{}  ({left} left)",
                describe(&cell, experiment.measure)
            ));
        }
        Ok(())
    }

    fn bench<'a>(
        &'a self,
        experiment: &'a Experiment,
        design: &'a Design,
        stage: &'a Stage,
        interrupt: &'a Interrupt,
    ) -> Bench<'a> {
        Bench {
            experiment,
            design,
            stage,
            candidates: &self.setup.candidates,
            programs: &self.setup.programs,
            options: &self.setup.options,
            interrupt,
        }
    }

    /// The rate of a cell. A share needs to know what the base reaches, which is measured when it is first asked for.
    fn rate(
        &mut self,
        experiment: &Experiment,
        design: &Design,
        planned: &Planned,
        stage: &Stage,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<Option<f64>, Error> {
        let work = experiment.work(&planned.factors, design.scale)?;
        let share = match work.rate {
            None => return Ok(None),
            Some(experiment::Rate::Absolute(rate)) => return Ok(Some(rate)),
            Some(experiment::Rate::Share(share)) => share,
        };
        let mut free = planned.clone();
        free.factors.remove("rate");
        let key = format!("{} {:?}", experiment.name, free.factors);
        if let Some(most) = self.calibration.get(&key) {
            return Ok(Some((share * most).round().max(1.0)));
        }
        let base = &experiment.record(design).base;
        let here = self.setup.candidates.here(&design.targets);
        let base = here
            .iter()
            .find(|name| *name == base)
            .or_else(|| here.first());
        free.target = base.cloned().unwrap_or_else(|| planned.target.clone());
        free.order = 999;
        progress.line(&format!(
            "{}: what {} reaches in a closed loop",
            experiment.name, free.target
        ));
        let bench = self.bench(experiment, design, stage, interrupt);
        let cell = bench.run(&free, None, &self.directory)?.record;
        interrupt.check()?;
        let Some(outcome) = cell.outcome else {
            // Without it no cell of this point has a rate: the words of the failure are the news.
            return Err(Error::System(SystemError::Load {
                name: free.target,
                reason: cell.failed.unwrap_or_default(),
            }));
        };
        progress.line(&format!("{}: {:.0}/s", experiment.name, outcome.tps));
        self.calibration.insert(key, outcome.tps);
        self.directory.write(CALIBRATION, &self.calibration)?;
        Ok(Some((share * outcome.tps).round().max(1.0)))
    }

    /// How long a cell should take, by its experiment's times.
    fn expected(&self, cell: &Planned) -> f64 {
        let mut chosen = self.setup.chosen.iter();
        let found = chosen.find(|(experiment, _)| experiment.name == cell.experiment);
        found.map_or(0.0, |(_, design)| {
            let single = Design {
                points: vec![cell.factors.clone()],
                blocks: 1,
                ..design.clone()
            };
            single.seconds(1)
        })
    }

    fn note_server(&mut self, stage: &Stage) -> Result<(), Error> {
        for (name, section) in environment::postgres(|sql| stage.query(sql).ok()) {
            self.run
                .environment
                .entry(name)
                .or_default()
                .extend(section);
        }
        self.directory.write_run(&self.run)
    }

    /// What both hops of a target use, as seen from outside.
    fn note_tls(&mut self, negotiated: &Option<String>, target: &str) -> Result<(), Error> {
        let Some(text) = negotiated else {
            return Ok(());
        };
        let section = self.run.environment.entry("tls".to_owned()).or_default();
        if section.insert(target.to_owned(), text.clone()).is_some() {
            return Ok(());
        }
        self.directory.write_run(&self.run)
    }
}

#[cfg(test)]
mod tests;
