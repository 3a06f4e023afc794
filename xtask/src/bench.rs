//! `cargo xtask bench …`: poolers side by side in one interleaved run, so that a busy minute of
//! the machine falls on all of them. Ratios are taken inside a round.

mod compare;
mod figures;
mod idle;
mod report;
mod state;
mod storm;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde::Serialize;
use weir_lab::access::Access;
use weir_lab::certificates::Certificates;
use weir_lab::clock;
use weir_lab::environment::negotiated::{self, Negotiated};
use weir_lab::interrupt::Interrupt;
use weir_lab::postgres::{Cluster, DATABASE, Programs, Settings, USER};
use weir_lab::process::raise_open_files;

use crate::lab::environment::Environment;
use crate::lab::target::{CLIENTS_MAX, Hops, Setup, Target, require_weir, weir_binary};
use crate::workspace;

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// CPU per transaction, throughput and p99 of Weir and PgBouncer in one interleaved run
    Smoke(compare::Flags),
    /// As smoke, with TLS on both hops and the 4 KB query in all three protocols
    Tls(compare::Flags),
    /// Logins per CPU-second in a storm of TLS and SCRAM logins, and what querying clients feel
    Storm(storm::Flags),
    /// Bytes of resident memory per idle client, plain and over TLS
    Idle(idle::Flags),
    /// What it costs to follow session state: the same binary with it and without in one interleaved run
    State(state::Flags),
}

/// Runs a bench, prints its table and keeps its raw data.
///
/// # Errors
/// Anything that cannot be started; a run that failed, after the table is printed.
pub(crate) fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Smoke(flags) => compare::run(compare::Kind::Smoke, flags),
        Bench::Tls(flags) => compare::run(compare::Kind::Tls, flags),
        Bench::Storm(flags) => storm::run(&flags),
        Bench::Idle(flags) => idle::run(&flags),
        Bench::State(flags) => state::run(&flags),
    }
}

/// What every bench can be told.
#[derive(Debug, clap::Args, Serialize)]
struct Common {
    /// What to compare: direct, pgbouncer, weirN (N workers)
    #[arg(long, value_delimiter = ',', default_values_t = [
        Target::PgBouncer, Target::Weir { workers: 1 }, Target::Weir { workers: 2 },
    ])]
    targets: Vec<Target>,
    /// Repeats the order of an earlier run [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Pins poolers to these CPUs, for example 0
    #[arg(long, value_name = "LIST")]
    pooler_cpus: Option<String>,
}

impl Common {
    /// What others are compared with.
    fn base(&self) -> Option<Target> {
        if self.targets.contains(&Target::PgBouncer) {
            Some(Target::PgBouncer)
        } else {
            self.targets.first().copied()
        }
    }

    /// Fails unless there is something to run, and nothing but poolers if `poolers_only`.
    fn check(&self, poolers_only: bool) -> Result<()> {
        if self.targets.is_empty() {
            bail!("nothing to run");
        }
        if poolers_only && self.targets.contains(&Target::Direct) {
            bail!("this measures the pooler's process: `direct` has none");
        }
        Ok(())
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.targets.iter().map(Target::to_string).collect();
        names.join(", ")
    }
}

/// What a bench stands on. Fields drop in this order: the server before its certificates.
struct Stage {
    cluster: Cluster,
    certificates: Option<Certificates>,
    interrupt: Interrupt,
    environment: Environment,
    seed: u64,
    weir: PathBuf,
    cpus: Option<String>,
}

impl Stage {
    /// Starts a PostgreSQL that takes `connections`, with TLS if wanted, and fills its tables.
    fn set(common: &Common, connections: u32, tls: bool, scale: u32) -> Result<Self> {
        let interrupt = Interrupt::install()?;
        raise_open_files()?;
        let weir = weir_binary(&workspace::target_directory());
        let wanted = |target: &Target| matches!(target, Target::Weir { .. });
        if common.targets.iter().any(wanted) {
            require_weir(&weir)?;
        }
        let certificates = tls.then(Certificates::make).transpose()?;
        let mut settings = Settings::new(connections);
        if let Some(certificates) = &certificates {
            settings = settings.with_tls(certificates);
        }
        let cluster = Cluster::start(&Programs::find()?, settings)?;
        let filled = cluster.fill(scale);
        // Ctrl-C reaches pgbench too; that it failed then is not the news.
        interrupt.check()?;
        filled?;
        let environment = Environment::read(cluster.programs(), &weir)?;
        let seed = common
            .seed
            .unwrap_or_else(|| clock::since_epoch().as_secs());
        println!("seed {seed}");
        Ok(Self {
            cluster,
            certificates,
            interrupt,
            environment,
            seed,
            weir,
            cpus: common.pooler_cpus.clone(),
        })
    }

    fn setup(&self, pool_size: u32) -> Setup {
        Setup {
            upstream: self.cluster.address(),
            pool_size,
            weir: self.weir.clone(),
            cpus: self.cpus.clone(),
            clients_max: CLIENTS_MAX,
            hops: Hops::Plain,
            secret: None,
            environment: Vec::new(),
        }
    }

    fn pgbench(&self) -> Result<PathBuf> {
        Ok(self.cluster.programs().path("pgbench")?)
    }
}

/// Which TLS a target has, as seen before anything is measured.
#[derive(Serialize)]
struct Hop {
    target: Target,
    outcome: Outcome<Negotiated>,
}

/// Looks at every target once, and tells.
fn observe(common: &Common, setup: &Setup, stage: &Stage, access: &Access) -> Result<Vec<Hop>> {
    let programs = stage.cluster.programs();
    let mut hops = Vec::new();
    for &target in &common.targets {
        let outcome = setup.start(target).and_then(|running| {
            let console = target != Target::Direct;
            Ok(negotiated::observe(
                programs,
                running.address,
                USER,
                DATABASE,
                access,
                console,
            )?)
        });
        stage.interrupt.check()?;
        hops.push(Hop {
            target,
            outcome: outcome.map_err(|error| format!("{error:#}")),
        });
    }
    Ok(hops)
}

/// A run's result, or the words of its failure.
type Outcome<T> = Result<T, String>;

/// What is kept of a whole bench.
#[derive(Serialize)]
struct RawData<'a, F, E, R> {
    flags: &'a F,
    seed: u64,
    environment: &'a Environment,
    /// What a bench found out besides its runs.
    extra: E,
    records: &'a [R],
}

/// Writes raw data and table under `target/bench`.
fn keep(bench: &str, data: &impl Serialize, table: &str) -> Result<()> {
    let directory: PathBuf = workspace::target_directory().join("bench");
    fs::create_dir_all(&directory)?;
    let stem = format!("{bench}-{}", clock::since_epoch().as_secs());
    let raw = directory.join(format!("{stem}.json"));
    fs::write(&raw, serde_json::to_string_pretty(data)?)
        .with_context(|| format!("cannot write {}", raw.display()))?;
    fs::write(directory.join(format!("{stem}.md")), table)?;
    println!("raw data: {}", raw.display());
    Ok(())
}

/// Fails if any run did: a table with holes is not a success.
fn all_succeeded<'a, T: 'a>(outcomes: impl Iterator<Item = &'a Outcome<T>>) -> Result<()> {
    let (runs, failed) = outcomes.fold((0, 0), |(runs, failed), outcome| {
        (runs + 1, failed + usize::from(outcome.is_err()))
    });
    if failed > 0 {
        bail!("{failed} of {runs} runs failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        bench: Bench,
    }

    fn parse(line: &str) -> Result<Bench, clap::Error> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.bench)
    }

    #[test]
    fn every_bench_runs_without_flags_and_with_its_own() {
        for line in [
            "smoke",
            "smoke --rounds 1 --seconds 1 --only -S --targets pgbouncer,weir2",
            "tls",
            "tls --cipher TLS_AES_128_GCM_SHA256",
            "tls --rounds 2 --seconds 3 --only prepared --pool-size 7 --clients 1,2",
            "storm",
            "storm --logins 200 --connectors 10 --rounds 1 --rate 100 --iterations 4096",
            "idle",
            "idle --clients 100 --rounds 1 --seed 7",
            "state",
            "state --rounds 1 --seconds 1 --only TPC-B --clients 7 --unnamed-after 5 --control --workers 2",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
        for line in [
            "",
            "tls --targets weir0",
            "storm --iterations 0",
            "idle --pool 1",
            "state --unnamed-after 0",
            "state --workers 0",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    fn common(targets: &[Target]) -> Common {
        Common {
            targets: targets.to_vec(),
            seed: None,
            pooler_cpus: None,
        }
    }

    #[test]
    fn pgbouncer_is_the_base_wherever_it_stands() {
        let weir = Target::Weir { workers: 1 };
        assert_eq!(
            common(&[weir, Target::PgBouncer]).base(),
            Some(Target::PgBouncer)
        );
        assert_eq!(common(&[weir]).base(), Some(weir));
    }

    #[test]
    fn what_measures_a_process_refuses_direct() {
        let targets = common(&[Target::Direct, Target::PgBouncer]);
        assert!(targets.check(false).is_ok());
        assert!(targets.check(true).is_err());
        assert!(common(&[]).check(false).is_err());
    }

    #[test]
    fn one_failed_run_fails_the_bench() {
        let good: Outcome<u8> = Ok(1);
        let bad: Outcome<u8> = Err("no".to_owned());
        assert!(all_succeeded([&good, &good].into_iter()).is_ok());
        let error = all_succeeded([&good, &bad].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "1 of 2 runs failed");
    }
}
