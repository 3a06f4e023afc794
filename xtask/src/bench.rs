//! `cargo xtask bench smoke`: poolers side by side in one interleaved run, so that a busy minute of
//! the machine falls on all of them. Ratios are taken inside a round.

mod report;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use serde::Serialize;

use crate::lab::clock;
use crate::lab::environment::Environment;
use crate::lab::interrupt::Interrupt;
use crate::lab::pgbench::{Load, Outcome, Protocol, Script};
use crate::lab::postgres::Cluster;
use crate::lab::process::raise_open_files;
use crate::lab::target::{Setup, Target, require_weir, weir_binary};
use crate::workspace;

#[derive(clap::Args, Serialize)]
pub(crate) struct Flags {
    /// Rounds; every target runs once per round and cell
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds that are measured per run
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Seconds before the measurement, for all targets alike
    #[arg(long, default_value_t = 1)]
    warm_up: u64,
    /// Server connections per pool (default_pool_size)
    #[arg(long, default_value_t = 20)]
    pool_size: u32,
    /// Client counts
    #[arg(long, value_delimiter = ',', default_values_t = [50, 500])]
    clients: Vec<u32>,
    /// What to compare: direct, pgbouncer, weirN (N workers)
    #[arg(long, value_delimiter = ',', default_values_t = [
        Target::PgBouncer, Target::Weir { workers: 1 }, Target::Weir { workers: 2 },
    ])]
    targets: Vec<Target>,
    /// Threads of pgbench
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Scale of pgbench's tables: 100,000 accounts each
    #[arg(long, default_value_t = 10)]
    scale: u32,
    /// Repeats the order of an earlier run [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Pins poolers to these CPUs, for example 0
    #[arg(long, value_name = "LIST")]
    pooler_cpus: Option<String>,
    /// Only cells whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// A workload at a client count: one block of a round.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
struct Cell {
    script: Script,
    protocol: Protocol,
    clients: u32,
}

impl Cell {
    fn workload(&self) -> String {
        let script = match self.script {
            Script::SelectOnly => "-S",
            Script::FourKilobytes => "4 KB",
        };
        format!("{script} {}", self.protocol.name())
    }

    fn name(&self) -> String {
        format!("{} c={}", self.workload(), self.clients)
    }

    /// PgBouncer before 1.21 cannot keep prepared statements in transaction mode (and session mode
    /// would make clients queue for a whole session), so it runs the same queries as `extended`.
    fn protocol_for(&self, target: Target) -> Protocol {
        match (self.protocol, target) {
            (Protocol::Prepared, Target::PgBouncer) => Protocol::Extended,
            (protocol, _) => protocol,
        }
    }
}

/// One run of one target, as kept in the raw data.
#[derive(Serialize)]
struct Record {
    round: u32,
    cell: Cell,
    target: Target,
    /// The words of the failure if there is no outcome.
    outcome: Result<Outcome, String>,
}

#[derive(Serialize)]
struct RawData<'a> {
    flags: &'a Flags,
    seed: u64,
    environment: &'a Environment,
    records: &'a [Record],
}

/// Runs the bench, prints the table and keeps the raw data.
///
/// # Errors
/// Anything that cannot be started; a target that failed in a cell, after the table is printed.
pub(crate) fn smoke(flags: &Flags) -> Result<()> {
    let interrupt = Interrupt::install()?;
    raise_open_files()?;
    let weir = weir_binary(&workspace::target_directory());
    if flags
        .targets
        .iter()
        .any(|target| matches!(target, Target::Weir { .. }))
    {
        require_weir(&weir)?;
    }
    let cells = cells(flags);
    if cells.is_empty() || flags.targets.is_empty() {
        bail!("nothing to run");
    }
    announce(flags, cells.len());
    let most = flags.clients.iter().max().copied().unwrap_or_default();
    let cluster = Cluster::start(most.max(flags.pool_size) + 50)?;
    let filled = cluster.fill(flags.scale);
    // Ctrl-C reaches pgbench too; that it failed then is not the news.
    interrupt.check()?;
    filled?;
    let environment = Environment::read(cluster.programs(), &weir)?;
    let seed = flags.seed.unwrap_or_else(|| clock::since_epoch().as_secs());
    println!("seed {seed}");
    let setup = Setup {
        upstream: cluster.address(),
        pool_size: flags.pool_size,
        weir,
        cpus: flags.pooler_cpus.clone(),
    };
    let records = rounds(flags, &cells, seed, &setup, &cluster, &interrupt)?;
    let text = report::render(&records, &flags.targets, &environment, seed);
    println!("\n{text}");
    keep(
        &RawData {
            flags,
            seed,
            environment: &environment,
            records: &records,
        },
        &text,
    )?;
    let failed = records
        .iter()
        .filter(|record| record.outcome.is_err())
        .count();
    if failed > 0 {
        bail!("{failed} of {} runs failed", records.len());
    }
    Ok(())
}

fn cells(flags: &Flags) -> Vec<Cell> {
    let workloads = [
        (Script::SelectOnly, Protocol::Simple),
        (Script::SelectOnly, Protocol::Prepared),
        (Script::FourKilobytes, Protocol::Simple),
    ];
    let wanted = |cell: &Cell| {
        flags
            .only
            .as_ref()
            .is_none_or(|text| cell.name().contains(text))
    };
    workloads
        .into_iter()
        .flat_map(|(script, protocol)| {
            flags.clients.iter().map(move |&clients| Cell {
                script,
                protocol,
                clients,
            })
        })
        .filter(wanted)
        .collect()
}

fn announce(flags: &Flags, cells: usize) {
    let runs = flags.rounds as usize * cells * flags.targets.len();
    let names: Vec<String> = flags.targets.iter().map(Target::to_string).collect();
    println!(
        "{} in {cells} cells, {} rounds of {} s: {runs} runs, about {} minutes",
        names.join(", "),
        flags.rounds,
        flags.seconds,
        (runs as u64 * (flags.seconds + flags.warm_up + 2)).div_ceil(60),
    );
}

fn rounds(
    flags: &Flags,
    cells: &[Cell],
    seed: u64,
    setup: &Setup,
    cluster: &Cluster,
    interrupt: &Interrupt,
) -> Result<Vec<Record>> {
    let pgbench = cluster.programs().path("pgbench")?;
    let mut rng = Rng::with_seed(seed);
    let mut records = Vec::new();
    for round in 1..=flags.rounds {
        for &cell in cells {
            let mut order = flags.targets.clone();
            rng.shuffle(&mut order);
            // The same for all targets of a block: they see the same keys.
            let block_seed = rng.u64(1..u64::from(u32::MAX));
            for target in order {
                interrupt.check()?;
                let load = flags.load(cell, target, block_seed);
                let outcome = setup.start(target).and_then(|running| {
                    load.run(&pgbench, running.address, running.pid(), interrupt)
                });
                interrupt.check()?;
                let outcome = outcome.map_err(|error| format!("{error:#}"));
                println!(
                    "{}",
                    report::progress(round, flags.rounds, cell, target, &outcome)
                );
                records.push(Record {
                    round,
                    cell,
                    target,
                    outcome,
                });
            }
        }
    }
    Ok(records)
}

impl Flags {
    fn load(&self, cell: Cell, target: Target, seed: u64) -> Load {
        Load {
            script: cell.script,
            protocol: cell.protocol_for(target),
            clients: cell.clients,
            threads: self.threads,
            warm_up: Duration::from_secs(self.warm_up),
            measured: Duration::from_secs(self.seconds),
            seed,
        }
    }
}

/// Writes raw data and table under `target/bench`.
fn keep(data: &RawData<'_>, table: &str) -> Result<()> {
    let directory: PathBuf = workspace::target_directory().join("bench");
    fs::create_dir_all(&directory)?;
    let stem = format!("smoke-{}", clock::since_epoch().as_secs());
    let raw = directory.join(format!("{stem}.json"));
    fs::write(&raw, serde_json::to_string_pretty(data)?)
        .with_context(|| format!("cannot write {}", raw.display()))?;
    fs::write(directory.join(format!("{stem}.md")), table)?;
    println!("raw data: {}", raw.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pgbouncer_leaves_prepared_statements_out() {
        let cell = Cell {
            script: Script::SelectOnly,
            protocol: Protocol::Prepared,
            clients: 1,
        };
        assert_eq!(cell.protocol_for(Target::PgBouncer), Protocol::Extended);
        assert_eq!(
            cell.protocol_for(Target::Weir { workers: 1 }),
            Protocol::Prepared
        );
    }
}
