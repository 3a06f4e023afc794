//! Tests: the programs found before, then random ones for a time.

#![allow(
    clippy::print_stderr,
    reason = "test output: seeds, and each fault as soon as it is found"
)]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::bail;
use anyhow::ensure;
use weir_conformance::clock;

use crate::found;
use crate::found::FOUND;
use crate::generate;
use crate::play;
use crate::play::Outcome;
use crate::program::Program;
use crate::shrink;
use crate::topics;
use crate::topics::Topic;
use crate::world::World;

/// Number of fixed seeds at the beginning of every run.
const FIXED: u64 = 60;

/// Maximum of repetitions of a program whose difference does not recur, before it is reported as
/// such.
const CONFIRMATIONS: usize = 3;

#[test]
fn programs_that_were_found_are_answered_as_by_postgresql() -> Result<()> {
    let mut world = World::start()?;
    let mut faults = Vec::new();
    for (name, text) in FOUND {
        let program = Program::parse(text).context(*name)?;
        ensure!(
            Program::parse(&program.to_string())? == program,
            "{name} reads otherwise than it is written"
        );
        if let Outcome::Fault(fault) = play::play(&mut world, &program)? {
            faults.push(format!("{name}:\n{}", fault.transcript));
        }
    }
    for (name, text, fault) in found::NOT_YET {
        Program::parse(text).context(*name)?;
        eprintln!("not played: {name}: {fault}");
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n\n"));
    Ok(())
}

#[test]
fn random_programs_are_answered_as_by_postgresql() -> Result<()> {
    let topics = topics::of_run();
    for (topic, fault) in topics::NOT_YET {
        eprintln!("left out: {topic:?}: {fault}");
    }
    if let Some(program) = wanted(&topics)? {
        eprintln!("{program}");
        let mut world = World::start()?;
        for play in 1..=number("DIFFERENTIAL_PLAYS")?.unwrap_or(1) {
            if let Outcome::Fault(fault) = play::play(&mut world, &program)? {
                eprintln!("the sides differ in play {play}\n{}", fault.transcript);
                let (program, fault) = shrink::shrink(&mut world, program, fault)?;
                bail!("made short:\n{program}{}", fault.transcript);
            }
        }
        return Ok(());
    }
    let run = Run::from_env(topics)?;
    let threads = number("DIFFERENTIAL_THREADS")?.unwrap_or(1);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| run.work())).collect();
        let ends = workers.into_iter().map(|worker| match worker.join() {
            Ok(end) => end,
            Err(_) => Err(anyhow!("a thread has panicked")),
        });
        let faults: Vec<String> = ends
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect();
        ensure!(faults.is_empty(), "{}", faults.join("\n\n"));
        Ok(())
    })
}

/// Program that the environment asks for, if any.
fn wanted(topics: &[Topic]) -> Result<Option<Program>> {
    if let Ok(file) = env::var("DIFFERENTIAL_PROGRAM") {
        let text = fs::read_to_string(&file).context(file)?;
        return Program::parse(&text).map(Some);
    }
    let seed = number("DIFFERENTIAL_SEED")?;
    Ok(seed.map(|seed| generate::program(seed, topics)))
}

fn number(name: &str) -> Result<Option<u64>> {
    let text = env::var(name).ok();
    let number = text.map(|text| text.parse::<u64>()).transpose();
    number.with_context(|| format!("{name} is not a number"))
}

/// A run of random programs.
struct Run {
    topics: Vec<Topic>,
    length: Duration,
    begun: Duration,
    /// First of the fresh seeds.
    fresh: u64,
    faults_max: u64,
    played: AtomicU64,
    faults: AtomicU64,
}

impl Run {
    fn from_env(topics: Vec<Topic>) -> Result<Self> {
        let begun = clock::since_1970();
        Ok(Self {
            topics,
            length: Duration::from_secs(number("DIFFERENTIAL_SECONDS")?.unwrap_or(60)),
            begun,
            fresh: number("DIFFERENTIAL_FROM")?.unwrap_or(begun.as_secs() * 10_000),
            faults_max: number("DIFFERENTIAL_FAULTS")?.unwrap_or(1),
            played: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        })
    }

    /// Runs programs on one pair of clusters until the time is over or enough faults are found;
    /// returns the faults.
    fn work(&self) -> Result<Vec<String>> {
        let mut world = World::start()?;
        let mut faults = Vec::new();
        let mut outcomes = BTreeMap::new();
        while !self.is_over() {
            let number = self.played.fetch_add(1, Ordering::Relaxed);
            let seed = match number {
                0..FIXED => number,
                _ => self.fresh + number,
            };
            let program = generate::program(seed, &self.topics);
            let outcome = play::play(&mut world, &program);
            if world.has_crashed() {
                eprintln!("seed {seed} crashes PostgreSQL itself");
                *outcomes.entry("crash of PostgreSQL").or_insert(0_u32) += 1;
                world = World::start()?;
                continue;
            }
            let outcome = outcome.with_context(|| format!("seed {seed}"))?;
            let word = match outcome {
                Outcome::Alike => "alike",
                Outcome::Known(reason) => reason,
                Outcome::Fault(fault) => {
                    self.faults.fetch_add(1, Ordering::Relaxed);
                    eprintln!(
                        "seed {seed} differs at step {}; it is made short",
                        fault.step
                    );
                    let report = self.report(&mut world, seed, program, fault)?;
                    eprintln!("{report}");
                    faults.push(report);
                    "fault"
                }
            };
            *outcomes.entry(word).or_insert(0_u32) += 1;
        }
        let last = self.fresh + self.played.load(Ordering::Relaxed);
        eprintln!(
            "seeds 0 to {} and {} to {last}: {outcomes:?}",
            FIXED - 1,
            self.fresh + FIXED
        );
        Ok(faults)
    }

    fn is_over(&self) -> bool {
        let is_late = clock::since_1970().saturating_sub(self.begun) >= self.length;
        // All threads share the fixed seeds.
        let has_fixed = self.played.load(Ordering::Relaxed) >= FIXED;
        (is_late && has_fixed) || self.faults.load(Ordering::Relaxed) >= self.faults_max
    }

    /// Shortens a program with a fault, if the fault recurs with a fresh Weir.
    fn report(
        &self,
        world: &mut World,
        seed: u64,
        program: Program,
        fault: play::Fault,
    ) -> Result<String> {
        let mut again = None;
        for _ in 0..CONFIRMATIONS {
            world.renew();
            if let Outcome::Fault(fault) = play::play(world, &program)? {
                again = Some(fault);
                break;
            }
        }
        let Some(again) = again else {
            return Ok(format!(
                "== DIFFERENTIAL_SEED={seed}, which did not come again in {CONFIRMATIONS} plays\n{program}{}",
                fault.transcript
            ));
        };
        let (program, fault) = shrink::shrink(world, program, again)?;
        Ok(format!(
            "== DIFFERENTIAL_SEED={seed}\n-- the program made short\n{program}-- its answers\n{}",
            fault.transcript
        ))
    }
}
