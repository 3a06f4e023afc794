//! `cargo xtask mutants`: puts known faults into a copy of the tree, one at a time, and checks that the tests find each.
//! The faults are one-line changes listed in `xtask/mutants/`. Never edits the work tree.

mod list;
mod report;
mod tree;
mod trial;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Result, bail};

use crate::workspace::target_directory;
use list::Mutant;
use report::Report;
use tree::Tree;
use trial::{TestRun, Tests};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Only the faults of this area, such as `accounting`
    #[arg(long)]
    area: Vec<String>,
    /// Only this fault
    #[arg(long)]
    id: Vec<String>,
    /// Only the few that CI tries
    #[arg(long)]
    short: bool,
    /// Number of copies of the tree that are tried at the same time; each has a build directory of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Print the list and try nothing
    #[arg(long)]
    list: bool,
}

impl Flags {
    fn chooses(&self, mutant: &Mutant) -> bool {
        let any = self.area.is_empty() && self.id.is_empty();
        let named = self.area.contains(&mutant.area) || self.id.contains(&mutant.id);
        (any || named) && (!self.short || mutant.short)
    }
}

/// Copies, builds, logs and the report, below cargo's target directory.
fn directory() -> PathBuf {
    target_directory().join("mutants")
}

/// Locks the copies against a second run, as long as the file is open.
fn lock() -> Result<File> {
    std::fs::create_dir_all(directory())?;
    let file = File::create(directory().join("lock"))?;
    if file.try_lock().is_err() {
        bail!("another run uses {}", directory().display());
    }
    Ok(file)
}

/// Tries the faults and writes the report.
///
/// # Errors
/// If a fault survives its tests, or an entry of the list is unusable.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let mut mutants = list::read()?;
    list::check(&mutants)?;
    mutants.retain(|mutant| flags.chooses(mutant));
    if mutants.is_empty() {
        bail!("the list has no such fault; `cargo xtask mutants --list` prints all");
    }
    if flags.list {
        println!("{}", report::listing(&mutants));
        return Ok(());
    }
    let _lock = lock()?;
    // Faults in the same file are tried in sequence, because that rebuilds the least.
    mutants.sort_by(|a, b| (&a.file, &a.id).cmp(&(&b.file, &b.id)));
    let baseline = baseline(&mutants)?;
    let report = try_all(mutants, usize::from(flags.jobs), &baseline)?;
    let path = directory().join("report.md");
    std::fs::write(&path, report.markdown())?;
    println!("\n{}\nwritten to {}", report.markdown(), path.display());
    report.verdict()
}

/// Runs each test that the faults name on the unchanged tree: all must pass, and none may select zero tests.
fn baseline(mutants: &[Mutant]) -> Result<BTreeMap<Tests, TestRun>> {
    let tree = Tree::new(&directory(), 0)?;
    let mut runs = BTreeMap::new();
    for mutant in mutants {
        for tests in &mutant.tests {
            if runs.contains_key(tests) {
                continue;
            }
            println!("without a fault: {tests}");
            let log = tree.log("baseline")?;
            trial::build(&tree, tests, &log)?.or_log(&log)?;
            let run = trial::run(&tree, tests, trial::BASELINE_MAX, &log)?;
            if !run.passed() {
                bail!("without a fault, {tests} fails: {}", log.display());
            }
            if run.count == 0 {
                bail!("{}: {tests} selects no test", mutant.id);
            }
            runs.insert(tests.clone(), run);
        }
    }
    Ok(runs)
}

fn try_all(
    mutants: Vec<Mutant>,
    jobs: usize,
    baseline: &BTreeMap<Tests, TestRun>,
) -> Result<Report> {
    let total = mutants.len();
    let queue = Mutex::new(VecDeque::from(mutants));
    let report = Mutex::new(Report::default());
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    };
    let work = |job: usize| -> Result<()> {
        let tree = Tree::new(&directory(), job)?;
        while let Some(mutant) = next() {
            let (outcome, seconds) = trial::attempt(&tree, &mutant, baseline)?;
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.add(mutant, outcome, seconds);
            println!("{}", report.last_line(total));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..jobs.min(total))
            .map(|job| scope.spawn(move || work(job)))
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(result) => result?,
                Err(_) => bail!("a job panicked"),
            }
        }
        Ok(())
    })?;
    Ok(report.into_inner().unwrap_or_else(PoisonError::into_inner))
}
