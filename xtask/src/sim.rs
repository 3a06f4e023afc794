//! `cargo xtask sim`: runs the seeded simulator of whole workers, with fixed seeds and then with fresh ones for a
//! time. `cargo xtask sim advisor`: simulates pools that determine their own size.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use weir_lab::clock;

use crate::workspace::{cargo, root};

/// Tests that run simulations, one after the other: with one host for each database, and with several.
const TESTS: [&str; 2] = [
    "nobody_gets_anothers_answer_whatever_happens",
    "reads_and_writes_find_their_host_whatever_happens",
];
/// Default time for fresh seeds, in seconds.
const FRESH: u64 = 60;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Flags {
    #[command(subcommand)]
    other: Option<Other>,
    /// Only these seeds: `7`, or `0..20000`; without any flag 500 seeds that stay the same, then fresh ones for a minute
    #[arg(long, conflicts_with_all = ["hours", "seconds", "fresh"])]
    seeds: Option<String>,
    /// Only fresh seeds, for so many hours
    #[arg(long, conflicts_with = "seconds")]
    hours: Option<f64>,
    /// Only fresh seeds, for so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Only fresh seeds, for a minute
    #[arg(long, conflicts_with_all = ["hours", "seconds"])]
    fresh: bool,
    /// Name every seed that fails in a line of its own; shrink none
    #[arg(long)]
    list: bool,
    /// Only simulations of databases with several hosts
    #[arg(long, conflicts_with = "single")]
    hosts: bool,
    /// Only simulations of databases with one host
    #[arg(long)]
    single: bool,
    /// Threads; one for each core unless given
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(clap::Subcommand)]
enum Other {
    /// Print what `pool_size = "auto"` reaches in simulated pools, beside the best fixed size
    Advisor {
        /// A single seed and the known best sizes, as the tests do; else three seeds and all sizes, some minutes
        #[arg(long)]
        quick: bool,
    },
}

/// Runs the simulations.
///
/// # Errors
/// If a simulation failed; its output has the details.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    if let Some(Other::Advisor { quick }) = &flags.other {
        return advisor(*quick);
    }
    if let Some(seeds) = &flags.seeds {
        return simulate(flags, seeds, None);
    }
    let time = match (flags.hours, flags.seconds, flags.fresh) {
        (Some(hours), ..) => Some(Duration::try_from_secs_f64(hours * 3600.0)?.as_secs()),
        (None, Some(seconds), _) => Some(seconds),
        (None, None, true) => Some(FRESH),
        (None, None, false) => None,
    };
    if time.is_none() {
        simulate(flags, "0..500", None)?;
    }
    simulate(flags, &fresh(), Some(time.unwrap_or(FRESH)))
}

/// Seeds that were never run before: microseconds since the epoch and above.
fn fresh() -> String {
    format!("{}..", clock::since_epoch().as_micros())
}

/// Runs the simulations that the flags choose. They share the time.
fn simulate(flags: &Flags, seeds: &str, seconds: Option<u64>) -> Result<()> {
    let [single, hosts] = TESTS;
    let tests: &[&str] = match (flags.single, flags.hosts) {
        (true, _) => &[single],
        (_, true) => &[hosts],
        _ => &TESTS,
    };
    let seconds = seconds.map(|seconds| seconds.div_ceil(tests.len() as u64));
    for test in tests {
        simulate_with(flags, test, seeds, seconds)?;
    }
    Ok(())
}

/// Runs a simulator, which consists of unit tests, with optimisations and assertions.
fn simulate_with(flags: &Flags, test: &str, seeds: &str, seconds: Option<u64>) -> Result<()> {
    println!("simulator at {}: {test}, seeds {seeds}", commit());
    let mut command = cargo();
    command
        .args([
            "test",
            "--profile",
            "sim",
            "--quiet",
            "-p",
            "weir-proxy",
            "--lib",
        ])
        .args([test, "--", "--nocapture"])
        // Each configuration would load the system's certificates, which takes longer than everything else.
        .env("LDAPTLS_CACERT", "/dev/null")
        .env("WEIR_SIM_LOUD", "1")
        .env("WEIR_SIM_SEEDS", seeds);
    if let Some(seconds) = seconds {
        command.env("WEIR_SIM_SECONDS", seconds.to_string());
    }
    if flags.list {
        command.env("WEIR_SIM_LIST", "1");
    }
    if let Some(threads) = flags.threads {
        command.env("WEIR_SIM_THREADS", threads.to_string());
    }
    if !command.status().context("cargo")?.success() {
        bail!(
            "the simulator at {} found something: see the seeds above",
            commit()
        );
    }
    Ok(())
}

/// Commit that is built, marked if the tree has uncommitted changes.
fn commit() -> String {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=12"]);
    let told = git.current_dir(root()).output();
    let told = told.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned());
    told.ok()
        .filter(|commit| !commit.is_empty())
        .unwrap_or_else(|| "an unknown commit".to_owned())
}

fn advisor(is_quick: bool) -> Result<()> {
    let mut command = cargo();
    command
        .args(["test", "--quiet", "-p", "weir-advisor"])
        // One after the other, so that the tables are not interleaved.
        .args([
            "--test",
            "simulation",
            "--",
            "--nocapture",
            "--test-threads",
            "1",
        ])
        .env("WEIR_SIM_ADVISOR", if is_quick { "quick" } else { "full" });
    if !command.status()?.success() {
        bail!("the pool size that was found is not good enough");
    }
    Ok(())
}
