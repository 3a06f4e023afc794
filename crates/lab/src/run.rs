//! Runs a benchmark: from the user's request to a result directory. Cells run one after the other in a shuffled
//! order, each with fresh pooler processes. Finished cells are on the disk at once, so a run can be stopped at any
//! time and resumed.

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

use std::collections::{BTreeMap, BTreeSet};
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

/// Request for a run. All of it is kept in the result, except for passwords.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Options {
    /// Profile: `smoke`, `quick` or `full`.
    pub profile: String,
    /// Experiments to run; if empty, all that have the profile.
    pub experiments: Vec<String>,
    /// Changes to the profile.
    pub changes: Changes,
    /// Paths of the targets' programs, by the names in their descriptions.
    pub programs: BTreeMap<String, PathBuf>,
    /// Directories in which programs are looked for before the path of the system.
    #[serde(default)]
    pub program_directories: Vec<PathBuf>,
    /// Directory of PostgreSQL's programs, if not the newest installed.
    pub postgres: Option<PathBuf>,
    /// Existing server with pgbench's tables, as `postgresql://user:password@host:port/database`.
    pub server: Option<String>,
    /// CPUs that poolers are pinned to, in taskset's list syntax.
    pub pooler_cpus: Option<String>,
    /// Files that describe further experiments, or replace built-in ones.
    pub experiment_files: Vec<PathBuf>,
    /// Files that describe further targets, or replace built-in ones.
    pub target_files: Vec<PathBuf>,
    /// Seed of the order inside of blocks; `None` to take it from the clock.
    pub seed: Option<u64>,
    /// Command line, for the record.
    pub command: Vec<String>,
    /// Weir's own program, with the arguments that precede its commands `load` ([`crate::load`]) and `null`
    /// ([`crate::null`]).
    pub program: Vec<String>,
}

/// Reason why there is no result, or only a part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Files, programs, servers, or an interrupt.
    #[error(transparent)]
    System(#[from] SystemError),
    /// An experiment has a mistake, or its name is unknown.
    #[error(transparent)]
    Experiment(#[from] experiment::Error),
    /// A target has a mistake, or its name is unknown.
    #[error(transparent)]
    Target(#[from] target::Error),
    /// The result directory already has a run.
    #[error("{} has a run already; use another directory, or --resume it", .0.display())]
    Occupied(PathBuf),
    /// A newer version wrote the result directory.
    #[error("{} was written by a newer version", .0.display())]
    TooNew(PathBuf),
    /// A file of a result directory cannot be parsed.
    #[error("{}: {source}", path.display())]
    Json {
        /// Path of the file.
        path: PathBuf,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// A named experiment has no such profile.
    #[error("`{experiment}` has no profile `{profile}`; it has {}", known.join(", "))]
    NoProfile {
        /// Name of the experiment.
        experiment: String,
        /// Profile that was asked for.
        profile: String,
        /// Profiles that exist.
        known: Vec<String>,
    },
    /// The request leaves no cell to run.
    #[error("nothing to run: no target of these experiments is on this machine{}", reasons.iter().map(|line| format!("\n  {line}")).collect::<String>())]
    Nothing {
        /// Reasons why targets are skipped.
        reasons: Vec<String>,
    },
    /// The address of a given server cannot be used.
    #[error("--server {url}: {reason}")]
    Server {
        /// Address as given, without the password.
        url: String,
        /// Reason.
        reason: String,
    },
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// Number of cells in the result, including those that failed.
    pub cells: usize,
    /// Number of cells that failed.
    pub failed: usize,
    /// True if a signal stopped the run; the rest can be run with `--resume`.
    pub interrupted: bool,
}

const OPTIONS: &str = "options.json";
const PLAN: &str = "plan.json";
const CALIBRATION: &str = "calibration.json";

/// Runs the request in `options` into a new directory.
///
/// # Errors
/// Mistakes in the request, before anything is started; later only failures that concern all cells. A failure of a
/// single cell is in the result.
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

/// Resumes a run that was stopped, with its own options, files and order.
///
/// # Errors
/// As [`run`]; or there is no run to resume.
pub fn resume(
    directory: &Path,
    interrupt: &Interrupt,
    progress: &mut dyn Progress,
) -> Result<Finished, Error> {
    let (opened, run, done) = Directory::open(directory)?;
    let mut options: Options = opened.read(OPTIONS)?;
    // The descriptions as of the first start, wherever they came from.
    options.experiment_files = opened.files("experiments")?;
    options.target_files = opened.files("targets")?;
    let setup = Setup::new(&options)?;
    let plan: Vec<Planned> = opened.read(PLAN)?;
    progress.line(&format!("{} of {} cells are done", done.len(), plan.len()));
    Runner::new(setup, opened, run, plan, done)?.go(interrupt, progress)
}

/// Run in progress.
struct Runner {
    setup: Setup,
    directory: Directory,
    run: record::Run,
    plan: Vec<Planned>,
    finished: Finished,
    remaining: Remaining,
    calibration: BTreeMap<String, f64>,
    /// Failures that the user has been told in full: target, and first line.
    told: BTreeSet<(String, String)>,
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
            told: BTreeSet::new(),
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
            // A program that received Ctrl-C too may have failed first.
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
                // The old server must stop before the new one starts.
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
            self.explain(&cell, progress);
        }
        Ok(())
    }

    /// Reports the rest of a failure, of which a cell's line has the beginning, once for each target.
    fn explain(&mut self, cell: &record::Cell, progress: &mut dyn Progress) {
        let Some(words) = &cell.failed else {
            return;
        };
        let mut lines = words.lines();
        let first = lines.next().unwrap_or_default();
        if self.told.insert((cell.target.clone(), first.to_owned())) {
            lines.for_each(|line| progress.line(&format!("    {line}")));
        }
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

    /// Returns the rate of a cell. A share refers to the base's rate in a closed loop, which is measured when it is
    /// first needed.
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
            // Without this rate no cell of the point can run, so the failure ends the run.
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

    /// Returns the expected duration of a cell in seconds, by its experiment's times.
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

    /// Records the TLS of both connections of a target, as observed from outside.
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
