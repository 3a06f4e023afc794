//! A trial: builds a copy of the tree and runs tests on it, with limits on time and memory against the effects of a
//! fault.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use weir_lab::clock;

use super::list::Mutant;
use super::tree::Tree;

/// Longest run of tests without a fault.
pub(super) const BASELINE_MAX: Duration = Duration::from_secs(900);

/// Factor by which tests may be slower than without a fault, for a busy machine; [`SLACK`] is added.
const SLOWER_MAX: u32 = 10;
const SLACK: Duration = Duration::from_secs(60);

const BUILD_MAX: Duration = Duration::from_secs(1800);

/// Address space of a run of tests, in KiB: an endless loop may also allocate.
const MEMORY_KIB_MAX: u32 = 8 << 20;

/// A selection of tests: `PACKAGE [--lib | --test NAME] [FILTER]…`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String")]
pub(super) struct Tests {
    package: String,
    target: Vec<String>,
    filters: Vec<String>,
}

/// Outcome of a run of tests.
#[derive(Debug)]
pub(super) struct TestRun {
    ended: Ended,
    /// Tests that were selected.
    pub(super) count: usize,
    failed: Vec<String>,
    took: Duration,
}

#[derive(Debug)]
enum Ended {
    Failed,
    Late,
    Passed,
}

pub(super) enum Outcome {
    /// Names the failed test.
    Caught(String),
    /// The entry is unusable, for example because it does not compile.
    Invalid(String),
    Survived,
}

/// Outcome of a build.
pub(super) enum Built {
    Fine,
    Not,
}

impl Built {
    pub(super) fn or_log(&self, log: &Path) -> Result<()> {
        match self {
            Self::Fine => Ok(()),
            Self::Not => bail!("it does not build: {}", log.display()),
        }
    }
}

impl TryFrom<String> for Tests {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut words = text.split_whitespace().map(str::to_owned).peekable();
        let package = words.next().ok_or("tests without a package")?;
        let mut target = Vec::new();
        while let Some(flag) = words.next_if(|word| word.starts_with("--")) {
            let name = (flag == "--test").then(|| words.next()).flatten();
            target.push(flag);
            target.extend(name);
        }
        let filters = words.collect();
        Ok(Self {
            package,
            target,
            filters,
        })
    }
}

impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.target, &self.filters].into_iter().flatten();
        parts.fold(write!(f, "{}", self.package), |result, part| {
            result.and_then(|()| write!(f, " {part}"))
        })
    }
}

impl TestRun {
    pub(super) fn passed(&self) -> bool {
        matches!(self.ended, Ended::Passed)
    }

    fn limit(&self) -> Duration {
        self.took * SLOWER_MAX + SLACK
    }

    /// Text for the report.
    fn cause(&self) -> String {
        match (&self.ended, self.failed.as_slice()) {
            (Ended::Late, _) => "hangs (ended by the limit of time)".to_owned(),
            (_, []) => "ended without a verdict".to_owned(),
            (_, [only]) => format!("`{only}`"),
            (_, [first, others @ ..]) => format!("`{first}` and {} more", others.len()),
        }
    }
}

/// Tries one fault; also returns the duration in seconds.
///
/// # Errors
/// If the copy cannot be changed, or cargo cannot be started.
pub(super) fn attempt(
    tree: &Tree,
    mutant: &Mutant,
    baseline: &BTreeMap<Tests, TestRun>,
) -> Result<(Outcome, f64)> {
    let start = clock::now();
    tree.apply(mutant)?;
    let outcome = try_tests(tree, mutant, baseline);
    tree.restore(mutant)?;
    Ok((outcome?, start.elapsed().as_secs_f64()))
}

fn try_tests(tree: &Tree, mutant: &Mutant, baseline: &BTreeMap<Tests, TestRun>) -> Result<Outcome> {
    let log = tree.log(&mutant.id)?;
    for tests in &mutant.tests {
        if matches!(build(tree, tests, &log)?, Built::Not) {
            let why = format!("it does not build: {}", log.display());
            return Ok(Outcome::Invalid(why));
        }
        let limit = baseline.get(tests).map_or(BASELINE_MAX, TestRun::limit);
        let run = run(tree, tests, limit, &log)?;
        if !run.passed() {
            return Ok(Outcome::Caught(run.cause()));
        }
    }
    Ok(Outcome::Survived)
}

/// Builds the tests, without running them.
pub(super) fn build(tree: &Tree, tests: &Tests, log: &Path) -> Result<Built> {
    let mut command = cargo_test(tree, tests, "cargo");
    command.arg("--no-run");
    match wait(&mut command, BUILD_MAX, log)? {
        Some(status) if status.success() => Ok(Built::Fine),
        _ => Ok(Built::Not),
    }
}

/// Runs tests that are already built.
pub(super) fn run(tree: &Tree, tests: &Tests, limit: Duration, log: &Path) -> Result<TestRun> {
    // Through a shell, which can set limits for the process it becomes.
    let mut command = cargo_test(tree, tests, "sh");
    command.arg("--no-fail-fast").arg("--").args(&tests.filters);
    let from = fs::metadata(log)?.len();
    let start = clock::now();
    let status = wait(&mut command, limit, log)?;
    let took = start.elapsed();
    let from = usize::try_from(from)?;
    let bytes = fs::read(log)?;
    let output = String::from_utf8_lossy(bytes.get(from..).unwrap_or_default());
    Ok(TestRun {
        ended: match status {
            Some(status) if status.success() => Ended::Passed,
            Some(_) => Ended::Failed,
            None => Ended::Late,
        },
        count: count(&output),
        failed: failed(&output),
        took,
    })
}

/// Command for `cargo test` on the copy, started directly or by a shell that limits its memory.
fn cargo_test(tree: &Tree, tests: &Tests, by: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command;
    if by == "sh" {
        command = Command::new("sh");
        let script = format!("ulimit -v {MEMORY_KIB_MAX}; exec \"$@\"");
        command.args(["-c", &script, "sh"]).arg(cargo);
    } else {
        command = Command::new(cargo);
    }
    command
        .args(["test", "--package", &tests.package])
        .args(&tests.target)
        .current_dir(tree.path())
        .env("CARGO_TARGET_DIR", &tree.build)
        // Backtraces of faults are not needed, and without debug information the build is faster and smaller.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "1")
        // Inputs that one fault made fail must not be tried again on the next.
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .env("RUST_BACKTRACE", "0");
    command
}

/// Runs a command to its end. After `limit`, kills it with all its children; then there is no status.
fn wait(command: &mut Command, limit: Duration, log: &Path) -> Result<Option<ExitStatus>> {
    let output: File = OpenOptions::new().append(true).open(log)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()
        .context("cannot start cargo")?;
    let mut status = None;
    let ended = clock::poll_until(limit, || {
        status = child.try_wait().ok().flatten();
        status.is_some()
    });
    if !ended {
        end(&mut child)?;
    }
    Ok(status)
}

fn end(child: &mut Child) -> Result<()> {
    let number = i32::try_from(child.id())?;
    if let Some(group) = Pid::from_raw(number) {
        // An error means that the group has ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()?;
    Ok(())
}

/// Number of tests that ran: the sum over all binaries.
fn count(output: &str) -> usize {
    let running = |line: &str| {
        let (number, _) = line.strip_prefix("running ")?.split_once(" test")?;
        number.parse::<usize>().ok()
    };
    output.lines().filter_map(running).sum()
}

/// Names of the tests that failed: libtest repeats them, indented, at the end of each binary.
fn failed(output: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut after = output;
    while let Some((_, rest)) = after.split_once("\nfailures:\n") {
        let listed = rest.lines().map_while(|line| line.strip_prefix("    "));
        names.extend(listed.map(str::to_owned));
        after = rest;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_as_they_are_written() {
        let text = "weir-proxy --lib --test suite one two";
        let tests = Tests::try_from(text.to_owned()).unwrap();
        assert_eq!(tests.package, "weir-proxy");
        assert_eq!(tests.target, ["--lib", "--test", "suite"]);
        assert_eq!(tests.filters, ["one", "two"]);
        assert_eq!(tests.to_string(), text);
    }

    #[test]
    fn the_names_of_failed_tests_are_read_from_the_list_at_the_end() {
        let output = "\nrunning 2 tests\ntest a ... FAILED\n\nfailures:\n\n---- a stdout ----\n    no\n\n\
                      failures:\n    a\n    b::c\n\ntest result: FAILED.\nrunning 1 test\n";
        assert_eq!(failed(output), ["a", "b::c"]);
        assert_eq!(count(output), 3);
    }
}
