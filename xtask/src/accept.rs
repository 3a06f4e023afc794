//! `cargo xtask accept-auto`: does `pool_size = "auto"` reach what the best fixed size does, on a real PostgreSQL?
//!
//! A block of a mix runs every fixed size once, the three best of them twice more, and then each start of the adaptive
//! pool side by side with the best fixed size so far, by turns before and after it. Only the two of such a pair are
//! compared: they met the same machine, and no lucky run of a sweep is what others have to reach. How fast that machine
//! was in each of the two is measured beside it, and allowed for.

mod judge;
mod mix;
mod pair;
mod report;
mod run;
mod speed;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use serde::Serialize;
use weir_lab::clock;
use weir_lab::environment;
use weir_lab::interrupt::Interrupt;
use weir_lab::postgres::{Cluster, Programs, Settings};
use weir_lab::process::raise_open_files;

use self::mix::{Mix, SCALE};
use self::run::{Job, Pins, Seen, Size, Stage, cores};
use crate::table::thousands;
use crate::weir::weir_binary;
use crate::workspace;

#[derive(Debug, clap::Args, Serialize)]
pub(crate) struct Flags {
    /// Which loads [default: all]
    #[arg(long, value_delimiter = ',')]
    mixes: Vec<Mix>,
    /// Sizes that adaptive pools begin with
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 20, 100])]
    starts: Vec<u32>,
    /// Fixed sizes; 10 and twice the server's cores come in any case
    /// [default: 1,2,3,4,6,8,12,16,24,32,48; quick: 2,4,8,16,32]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<u32>,
    /// How often everything is run [default: 3; quick: 1]
    #[arg(long)]
    blocks: Option<u32>,
    /// Seconds of a run with an adaptive pool [default: 90; quick: 28]
    #[arg(long)]
    seconds: Option<u64>,
    /// How many of these count, at the end [default: two thirds of them]
    #[arg(long)]
    measured: Option<u64>,
    /// Seconds that count of a run of the sweep [default: 15; quick: 5]
    #[arg(long)]
    fixed_seconds: Option<u64>,
    /// Clients of pgbench
    #[arg(long, default_value_t = 100)]
    clients: u32,
    /// pool_size_goal: throughput, balanced or latency
    #[arg(long)]
    goal: Option<String>,
    /// One block and short runs: about half an hour for all mixes
    #[arg(long)]
    quick: bool,
    /// Let everybody run on all processors; otherwise PostgreSQL has the first half for itself
    #[arg(long)]
    no_pin: bool,
    /// Repeats the order of an earlier run [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Where the report is written besides target/bench
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Before a run with a fixed size counts: caches fill.
const WARM_UP: u64 = 3;
/// To start Weir, to restore the data, to log in.
const OVERHEAD: u64 = 2;
/// pool_size_max of the adaptive pools.
const SIZE_MAX: u32 = 100;

/// The flags, with what they leave open.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Plan {
    mixes: Vec<Mix>,
    starts: Vec<u32>,
    sizes: Vec<u32>,
    /// What people use today.
    usual: [u32; 2],
    blocks: u32,
    seconds: u64,
    measured: u64,
    fixed_seconds: u64,
}

impl Plan {
    fn of(flags: &Flags, server_cores: u32) -> Result<Self> {
        let or =
            |flag: Option<u64>, quick, full| flag.unwrap_or(if flags.quick { quick } else { full });
        let usual = [10, 2 * server_cores];
        let mut sizes = match (flags.sizes.is_empty(), flags.quick) {
            (false, _) => flags.sizes.clone(),
            (true, true) => vec![2, 4, 8, 16, 32],
            (true, false) => vec![1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48],
        };
        sizes.extend(usual);
        sizes.sort_unstable();
        sizes.dedup();
        let seconds = or(flags.seconds, 28, 90);
        let plan = Self {
            mixes: match flags.mixes.is_empty() {
                true => Mix::ALL.to_vec(),
                false => flags.mixes.clone(),
            },
            starts: flags.starts.clone(),
            sizes,
            usual,
            blocks: flags.blocks.unwrap_or(if flags.quick { 1 } else { 3 }),
            seconds,
            measured: flags.measured.unwrap_or(seconds * 2 / 3),
            fixed_seconds: or(flags.fixed_seconds, 5, 15),
        };
        if plan.measured == 0 || plan.measured > plan.seconds || plan.fixed_seconds == 0 {
            bail!("of {} seconds {} cannot count", plan.seconds, plan.measured);
        }
        if plan.blocks == 0 || plan.starts.is_empty() || plan.sizes.contains(&0) {
            bail!("nothing to run");
        }
        if let Some(start) = plan
            .starts
            .iter()
            .find(|start| !(1..=SIZE_MAX).contains(*start))
        {
            bail!("no pool begins with {start}: 1 to {SIZE_MAX}");
        }
        Ok(plan)
    }

    /// About how long it takes.
    fn minutes(&self) -> u64 {
        let count = |list: &[u32]| u64::try_from(list.len()).unwrap_or(u64::MAX);
        let fixed = self.fixed_seconds + WARM_UP + OVERHEAD;
        let adaptive = self.seconds + OVERHEAD;
        let finals = 2 * self.sizes.len().min(judge::FINALISTS);
        let sweep = count(&self.sizes) + u64::try_from(finals).unwrap_or(u64::MAX);
        let block = sweep * fixed + count(&self.starts) * 2 * adaptive;
        let mixes = u64::try_from(self.mixes.len()).unwrap_or(u64::MAX);
        (block * mixes * u64::from(self.blocks)).div_ceil(60)
    }

    /// The runs of a pair last equally long: what happens to the server once in 20 s is in the tail of every long
    /// run and of few short ones.
    fn job(&self, mix: Mix, size: Size, seed: u64, is_paired: bool) -> Job {
        let (total, measured) = match is_paired {
            false => (WARM_UP + self.fixed_seconds, self.fixed_seconds),
            true => (self.seconds, self.measured),
        };
        Job {
            mix,
            size,
            total: Duration::from_secs(total),
            measured: Duration::from_secs(measured),
            seed,
        }
    }
}

/// A run and what it was for.
#[derive(Clone, Debug, Serialize)]
struct Record {
    block: u32,
    mix: Mix,
    size: Size,
    /// The start that it was compared with, or is; nothing in the sweep.
    pair: Option<u32>,
    outcome: Result<Seen, String>,
}

/// # Errors
/// Anything that cannot be started, an interrupt, a run that failed, or a criterion that was missed; the last two after
/// the report is written.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let interrupt = Interrupt::install()?;
    raise_open_files()?;
    let weir = weir_binary()?;
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
    println!("seed {seed}; about {} minutes", plan.minutes());

    // Clients that an adaptive pool of 100 has, and psql.
    let cluster = Cluster::start(
        &Programs::find()?,
        Settings::new(SIZE_MAX.max(max(&plan)) + 30),
    )?;
    let filled = cluster.fill(SCALE);
    // Ctrl-C reaches pgbench too; that it failed then is not the news.
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
    // What there is by then is worth to be read, also after an interrupt.
    let facts = report::Facts {
        plan: &plan,
        environment: environment.clone(),
        pins: stage.pins.as_ref(),
        clients: stage.clients,
        goal: stage.goal.as_deref().unwrap_or("balanced"),
        seed,
    };
    let text = report::render(&facts, &records);
    let raw = serde_json::json!({ "flags": flags, "plan": plan, "seed": seed,
        "environment": environment, "pins": stage.pins, "records": records });
    let path = keep(&raw, &text, flags.output.as_deref())?;
    println!("\n{text}\nraw data: {}", path.display());
    result?;
    conclude(&plan, &records)
}

/// One line for under the table.
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
        "{cpu}, {} cores, load {} at start; {}; {}; commit {}",
        cores(),
        load.split_whitespace().next().unwrap_or("unknown"),
        version(programs.path("postgres").ok().as_deref()),
        version(Some(weir)),
        environment::commit(workspace::root()).unwrap_or_else(|| "unknown".to_owned()),
    )
}

/// Writes raw data and report under `target/bench`, and the report where it is wanted.
fn keep(data: &impl Serialize, report: &str, output: Option<&Path>) -> Result<PathBuf> {
    let directory = workspace::target_directory().join("bench");
    fs::create_dir_all(&directory)?;
    let stem = format!("accept-auto-{}", clock::since_epoch().as_secs());
    let raw = directory.join(format!("{stem}.json"));
    fs::write(&raw, serde_json::to_string_pretty(data)?)?;
    fs::write(raw.with_extension("md"), report)?;
    if let Some(path) = output {
        fs::write(path, report).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(raw)
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

/// Every other block goes backwards, so that what drifts meets all alike.
fn measure(plan: &Plan, stage: &Stage, seed: u64, records: &mut Vec<Record>) -> Result<()> {
    let mut rng = Rng::with_seed(seed);
    for block in 1..=plan.blocks {
        for &mix in &plan.mixes {
            // The same for all runs of a block: they see the same keys.
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
                println!("{}", progress(&record, plan.blocks));
                records.push(record);
                anyhow::Ok(())
            };
            for size in sizes {
                go(Size::Fixed(size), None, records)?;
            }
            let finalists = judge::finalists(records, mix);
            // There and back, so that what drifts meets all alike.
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn plan(line: &str) -> Result<Plan> {
        let words = ["accept-auto"].into_iter().chain(line.split_whitespace());
        Plan::of(&Line::try_parse_from(words)?.flags, 1)
    }

    #[test]
    fn what_is_usual_is_always_compared() {
        let full = plan("").unwrap();
        assert_eq!(full.sizes, [1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48]);
        assert_eq!((full.seconds, full.measured, full.blocks), (90, 60, 3));
        let few = plan("--sizes 5,7 --mixes chatty,lane-bound --starts 3").unwrap();
        assert_eq!(few.sizes, [2, 5, 7, 10]);
        assert_eq!(few.mixes, [Mix::Chatty, Mix::LaneBound]);
    }

    #[test]
    fn the_quick_one_ends_within_half_an_hour() {
        let quick = plan("--quick").unwrap();
        assert!((10..=30).contains(&quick.minutes()), "{quick:?}");
        assert_eq!(plan("--quick --blocks 2 --seconds 9").unwrap().seconds, 9);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "--mixes tpcb",
            "--seconds 5 --measured 6",
            "--seconds 0",
            "--blocks 0",
            "--sizes 0",
            "--starts 101",
        ] {
            assert!(plan(line).is_err(), "{line}");
        }
    }
}
