//! `weir-lab accept-auto`: compares `pool_size = "auto"` with the best fixed size, on a real PostgreSQL.
//!
//! A block of a mix runs every fixed size once and the three best of them twice more. Then each start of the adaptive
//! pool runs side by side with the best fixed size so far, alternately before and after it. Only the two runs of such
//! a pair are compared: they met the same machine, and a lucky run of a sweep sets no target. The machine's speed is
//! measured during both runs and adjusted for.

mod judge;
mod mix;
mod pair;
mod plan;
mod raw;
mod report;
mod run;
mod speed;

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use weir_command::exit::{Exit, complain, print};
use weir_lab::clock;
use weir_lab::environment;
use weir_lab::interrupt::Interrupt;
use weir_lab::postgres::{Cluster, Programs, Settings};
use weir_lab::process::raise_open_files;
use weir_lab::table::thousands;

use self::mix::{Mix, SCALE};
pub(crate) use self::plan::Flags;
use self::plan::{Plan, SIZE_MAX};
use self::raw::Raw;
use self::run::{Pins, Seen, Size, Stage, cores};
use crate::weir;

/// A run and its purpose.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    block: u32,
    mix: Mix,
    size: Size,
    /// Start of the adaptive pool that this run belongs to, as either side of the pair; none in the sweep.
    pair: Option<u32>,
    outcome: Result<Seen, String>,
}

/// Runs the comparison, and says what went wrong.
pub(crate) fn accept(flags: &Flags) -> Exit {
    match run(flags) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            complain(format_args!("weir-lab accept-auto: {error:#}"));
            Exit::Failed
        }
    }
}

/// Runs the comparison and writes the report.
///
/// # Errors
/// If anything cannot be started, on an interrupt, if a run failed or if a criterion was missed; in the last two cases
/// after the report is written.
fn run(flags: &Flags) -> Result<()> {
    if !flags.again.is_empty() {
        let raw = raw::together(&flags.again)?;
        print(&format!("{}\n", raw.report(flags.output.as_deref())?));
        return conclude(&raw.plan, &raw.records);
    }
    let interrupt = Interrupt::install()?;
    raise_open_files()?;
    let weir = weir::find()?;
    let pins = if flags.no_pin {
        None
    } else {
        Pins::of(cores())
    };
    let plan = Plan::of(
        flags,
        pins.as_ref().map_or_else(cores, |pins| pins.server_cores),
    )?;
    let seed = flags.seed.unwrap_or_else(|| clock::since_epoch().as_secs());
    print(&format!("seed {seed}; about {} minutes\n", plan.minutes()));

    // For the clients of an adaptive pool of 100, and psql.
    let cluster = Cluster::start(
        &Programs::find()?,
        Settings::new(SIZE_MAX.max(max(&plan)) + 30),
    )?;
    let filled = cluster.fill(SCALE);
    // Ctrl-C reaches pgbench too; report the interrupt rather than pgbench's failure.
    interrupt.check()?;
    filled?;
    let environment = environment(cluster.programs(), &weir);
    let stage = Stage {
        cluster,
        interrupt,
        weir,
        pins,
        clients: flags.clients,
        goal: flags.goal.clone(),
        size_max: SIZE_MAX,
    };
    stage.pin()?;
    let mut records = Vec::new();
    let result = measure(&plan, &stage, seed, &mut records);
    // The results so far are worth reading, also after an interrupt.
    let raw = Raw {
        flags: flags.clone(),
        plan,
        seed,
        environment,
        pins: stage.pins,
        records,
    };
    let path = raw.keep()?;
    print(&format!(
        "\n{}\nraw data: {}\n",
        raw.report(flags.output.as_deref())?,
        path.display()
    ));
    result?;
    conclude(&raw.plan, &raw.records)
}

/// Describes the machine in one line, printed below the table.
fn environment(programs: &Programs, weir: &Path) -> String {
    let version = |program: Option<&Path>| {
        let version =
            program.and_then(|path| environment::version(path, &["--version".to_owned()]));
        version.unwrap_or_else(|| "unknown version".to_owned())
    };
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = environment::cpu_model(&cpu).unwrap_or_else(|| "unknown CPU".to_owned());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{cpu}, {} cores, load {} at start; {}; {}; {}",
        cores(),
        load.split_whitespace().next().unwrap_or("unknown"),
        version(programs.path("postgres").ok().as_deref()),
        version(Some(weir)),
        environment::commit(".").map_or_else(
            || "no commit".to_owned(),
            |commit| format!("commit {commit}")
        ),
    )
}

fn max(plan: &Plan) -> u32 {
    plan.sizes.iter().copied().max().unwrap_or_default()
}

fn conclude(plan: &Plan, records: &[Record]) -> Result<()> {
    let failed = records
        .iter()
        .filter(|record| record.outcome.is_err())
        .count();
    if failed > 0 {
        bail!("{failed} of {} runs failed", records.len());
    }
    let missed: Vec<&str> = plan
        .mixes
        .iter()
        .filter(|mix| !judge::judge(plan, records, **mix).is_met())
        .map(|mix| mix.name())
        .collect();
    if !missed.is_empty() {
        bail!("a criterion was missed: {}", missed.join(", "));
    }
    Ok(())
}

/// Runs all blocks. Every other block runs in reverse order, so that drift affects all sizes alike.
fn measure(plan: &Plan, stage: &Stage, seed: u64, records: &mut Vec<Record>) -> Result<()> {
    let mut rng = Rng::with_seed(seed);
    for block in 1..=plan.blocks {
        for &mix in &plan.mixes {
            // All runs of a block use the same seed and so the same keys.
            let seed = rng.u64(1..u64::from(u32::MAX));
            let mut sizes = plan.sizes.clone();
            rng.shuffle(&mut sizes);
            let go = |size, pair: Option<u32>, records: &mut Vec<Record>| {
                stage.interrupt.check()?;
                let outcome = stage.run(&plan.job(mix, size, seed, pair.is_some()));
                stage.interrupt.check()?;
                let record = Record {
                    block,
                    mix,
                    size,
                    pair,
                    outcome: outcome.map_err(|error| format!("{error:#}")),
                };
                print(&format!("{}\n", progress(&record, plan.blocks)));
                records.push(record);
                anyhow::Ok(())
            };
            for size in sizes {
                go(Size::Fixed(size), None, records)?;
            }
            let finalists = judge::finalists(records, mix);
            // Forwards and backwards, so that drift affects all alike.
            for &size in finalists.iter().chain(finalists.iter().rev()) {
                go(Size::Fixed(size), None, records)?;
            }
            let mut starts = plan.starts.clone();
            if block % 2 == 0 {
                starts.reverse();
            }
            for (turn, start) in starts.into_iter().enumerate() {
                let Some(best) = judge::best(records, mix) else {
                    bail!("no fixed size works on {}", mix.name());
                };
                let mut pair = [Size::Fixed(best), Size::From(start)];
                if (turn + usize::try_from(block)?) % 2 == 0 {
                    pair.reverse();
                }
                for size in pair {
                    go(size, Some(start), records)?;
                }
            }
        }
    }
    Ok(())
}

fn progress(record: &Record, blocks: u32) -> String {
    let head = format!(
        "block {}/{blocks}  {:<10}  {:<13}",
        record.block,
        record.mix.name(),
        record.size.to_string()
    );
    match &record.outcome {
        Ok(seen) => {
            let pool = seen.pool.as_ref();
            let pool = pool.map(|pool| format!("  {} at {}", pool.state, pool.size));
            format!(
                "{head}  {:>8} tps  p99 {:>7.2} ms{}",
                thousands(seen.per_second),
                report::milliseconds(seen.p99_us),
                pool.unwrap_or_default()
            )
        }
        Err(error) => format!("{head}  failed: {error}"),
    }
}
