//! Gate for the controller: in simulated pools it must come close to the best fixed size from every start.
//!
//! `cargo test` plays all mixes and starts with one seed. `WEIR_SIM_ADVISOR=full` uses three and searches for the best
//! fixed sizes again. `cargo xtask sim advisor` prints the table.
#![expect(
    unreachable_pub,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "modules of a test are nobody's interface, and a model that breaks its invariants has to fail"
)]

mod gate;
mod mixes;
mod model;

use weir_advisor::controller::{Controller, Decision, Entry, Goal, Observation, Settings};

use gate::{Gate, Row};
use model::{Fixed, Mix, Model, Outcome, Sizer};

const STARTS: [u32; 5] = [1, 4, 20, 100, 200];
const SECONDS: f64 = 120.0;
/// The first half of a run is for finding the size.
const FOUND: usize = 60;
const SIZES: [u32; 22] = [
    1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 100, 140, 200,
];

fn is_full() -> bool {
    std::env::var("WEIR_SIM_ADVISOR").is_ok_and(|value| value == "full")
}

fn seeds() -> std::ops::Range<u64> {
    0..if is_full() { 3 } else { 1 }
}

/// A controller with default settings, told only the number of cores.
struct Auto(Controller);

impl Auto {
    fn new(start: u32, mix: &Mix, seed: u64) -> Self {
        Self::with(Goal::Balanced, start, mix, seed)
    }

    fn with(goal: Goal, start: u32, mix: &Mix, seed: u64) -> Self {
        let settings = Settings {
            size: start,
            cores: Some(mix.cores as u32),
            elasticity: goal.elasticity(),
            ..Settings::default()
        };
        Self(Controller::new(settings, seed))
    }

    fn said(&self) -> String {
        let line = |entry: &Entry| format!("    {:6.2} {entry}\n", entry.at.as_secs_f64());
        self.0.journal().iter().map(line).collect()
    }
}

impl Sizer for Auto {
    fn limit(&mut self, observation: &Observation) -> Decision {
        self.0.tick(observation)
    }
}

fn play(mix: &Mix, sizer: &mut dyn Sizer, seed: u64) -> Outcome {
    let phases = [(SECONDS, mix.clone())];
    Model::new(&phases, 1000 + seed, FOUND as f64).play(sizer)
}

/// Results of a fixed size: throughput, 99th percentile and mean of the response.
fn fixed(mix: &Mix, size: u32) -> (f64, f64, f64) {
    let mut outcome = play(mix, &mut Fixed(size), 0);
    (
        outcome.tps(FOUND),
        outcome.percentile_s(0.99),
        outcome.mean_response_s(),
    )
}

/// Returns the known best size, or searches for it in a full run.
fn best_fixed(mix: &Mix, known: u32, value: fn((f64, f64, f64)) -> f64) -> u32 {
    if !is_full() {
        return known;
    }
    let mut found: Vec<(f64, u32)> = SIZES
        .iter()
        .map(|&size| (value(fixed(mix, size)), size))
        .collect();
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    let best = found[0];
    let of_known = found.iter().find(|(_, size)| *size == known).unwrap().0;
    assert!(
        of_known >= best.0 - 0.02 * best.0.abs(),
        "{} is better than {known}: write it into mixes.rs",
        best.1
    );
    best.1
}

fn closed_row(named: &mixes::Named) -> Vec<Row> {
    let best = best_fixed(&named.mix, named.best, |(tps, ..)| tps);
    let (best_tps, best_p99, _) = fixed(&named.mix, best);
    STARTS
        .iter()
        .map(|&start| {
            let mut row = Row::new(named.letter.to_string(), named.name, best, start);
            if start > named.gate.start_most {
                row.at_start = fixed(&named.mix, start).0 / best_tps;
            }
            for seed in seeds() {
                let mut auto = Auto::new(start, &named.mix, seed);
                let mut outcome = play(&named.mix, &mut auto, seed);
                row.said.push(auto.said());
                row.good.push(outcome.tps(FOUND) / best_tps);
                row.tail.push(outcome.percentile_s(0.99) / best_p99);
                row.reached.push(first_good(&outcome, 0.95 * best_tps));
                row.note_limits(&outcome);
            }
            row
        })
        .collect()
}

/// Returns the first second from which on five seconds were good.
///
/// The first five seconds are the controller's quiet start, in which it may not try anything.
fn first_good(outcome: &Outcome, tps: f64) -> Option<usize> {
    (0..outcome.completions.len() - 5).find(|&at| outcome.tps_between(at, at + 5) >= tps)
}

#[test]
fn closed_mixes_come_close_to_their_best_fixed_size() {
    let mixes = mixes::closed();
    let rows: Vec<Row> = std::thread::scope(|scope| {
        let runs: Vec<_> = mixes
            .iter()
            .map(|named| scope.spawn(|| closed_row(named)))
            .collect();
        runs.into_iter()
            .flat_map(|run| run.join().unwrap())
            .collect()
    });
    println!("{}", gate::table(&rows));
    let gates = mixes
        .iter()
        .map(|named| (named.letter.to_string(), named.gate))
        .collect();
    gate::check(&rows, &gates);
}

#[test]
fn open_loops_answer_about_as_fast_as_with_the_best_fixed_size() {
    let best_tps = fixed(&mixes::closed()[2].mix, mixes::closed()[2].best).0;
    let loads = [
        ("O7", "open loop, 70 %", 0.7, 16),
        ("O9", "open loop, 90 %", 0.9, 14),
    ];
    let rows: Vec<Row> = std::thread::scope(|scope| {
        let runs: Vec<_> = loads
            .iter()
            .map(|&(letter, name, load, known)| {
                scope.spawn(move || open_rows(letter, name, known, &mixes::open(best_tps, load)))
            })
            .collect();
        runs.into_iter()
            .flat_map(|run| run.join().unwrap())
            .collect()
    });
    println!("{}", gate::table(&rows));
    let gate = Gate {
        response_most: 1.25,
        ..Gate::NONE
    };
    gate::check(
        &rows,
        &loads
            .iter()
            .map(|(letter, ..)| ((*letter).to_owned(), gate))
            .collect(),
    );
}

fn open_rows(letter: &str, name: &'static str, known: u32, mix: &Mix) -> Vec<Row> {
    let best = best_fixed(mix, known, |(_, _, response)| -response);
    let (_, best_p99, best_response) = fixed(mix, best);
    STARTS
        .iter()
        .map(|&start| {
            let mut row = Row::new(letter.to_owned(), name, best, start);
            for seed in seeds() {
                let mut auto = Auto::new(start, mix, seed);
                let mut outcome = play(mix, &mut auto, seed);
                row.said.push(auto.said());
                row.response.push(outcome.mean_response_s() / best_response);
                row.tail.push(outcome.percentile_s(0.99) / best_p99);
                row.note_limits(&outcome);
                // A queue that grows to the end has at least this many clients.
                let queue = outcome
                    .waiting
                    .iter()
                    .rev()
                    .take(10)
                    .min()
                    .copied()
                    .unwrap();
                assert!(
                    queue < 200,
                    "{letter} from {start}, seed {seed}: the queue grows, {queue} wait"
                );
            }
            row
        })
        .collect()
}

#[test]
fn a_load_that_changes_every_minute_is_followed() {
    let order = [2, 3, 1, 0];
    let named = mixes::closed();
    let phases: Vec<(f64, Mix)> = order
        .iter()
        .map(|&index| (60.0, named[index].mix.clone()))
        .collect();
    let outcomes: Vec<Outcome> = seeds()
        .map(|seed| {
            Model::new(&phases, 2000 + seed, 0.0).play(&mut Auto::new(10, &named[0].mix, seed))
        })
        .collect();
    let parts: Vec<f64> = order
        .iter()
        .enumerate()
        .map(|(place, &index)| {
            let best_tps = fixed(&named[index].mix, named[index].best).0;
            let tps = |outcome: &Outcome| outcome.tps_between(place * 60, place * 60 + 60);
            outcomes.iter().map(tps).sum::<f64>() / outcomes.len() as f64 / best_tps
        })
        .collect();
    println!(
        "C, D, B, A for a minute each, from 10, against the best fixed size of each: {parts:.3?}\n"
    );
    assert!(parts.iter().all(|&part| part >= 0.95), "{parts:?}");
}

#[test]
fn mixes_that_nobody_has_looked_at_are_no_exception() {
    let count = if is_full() { 24 } else { 4 };
    let parts: Vec<(u64, u32, f64)> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..count)
            .map(|seed| scope.spawn(move || unknown(seed)))
            .collect();
        runs.into_iter()
            .flat_map(|run| run.join().unwrap())
            .collect()
    });
    let mut sorted: Vec<f64> = parts.iter().map(|(.., part)| *part).collect();
    sorted.sort_by(f64::total_cmp);
    let (worst, middle) = (sorted[0], sorted[sorted.len() / 2]);
    println!(
        "{count} random mixes, from 4 and 100: worst {:.1} %, median {:.1} % of the best fixed size\n",
        100.0 * worst,
        100.0 * middle
    );
    assert!(worst >= 0.9 && middle >= 0.97, "{parts:.3?}");
}

/// Returns seed, start, and throughput relative to the best fixed size.
fn unknown(seed: u64) -> [(u64, u32, f64); 2] {
    let mix = mixes::unknown(seed);
    let short = [(40.0, mix.clone())];
    let best = SIZES
        .iter()
        .map(|&size| {
            (
                Model::new(&short, 3000 + seed, 10.0)
                    .play(&mut Fixed(size))
                    .tps(10),
                size,
            )
        })
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let best_tps = fixed(&mix, best.unwrap().1).0;
    [4, 100].map(|start| {
        let outcome = play(&mix, &mut Auto::new(start, &mix, seed), seed);
        (seed, start, outcome.tps(FOUND) / best_tps)
    })
}

/// Returns the throughput relative to the best fixed size, from `start`.
fn part(mix: &Mix, best: u32, start: u32) -> f64 {
    let tps = |seed| play(mix, &mut Auto::new(start, mix, seed), seed).tps(FOUND);
    let mean = seeds().map(tps).sum::<f64>() / seeds().count() as f64;
    mean / fixed(mix, best).0
}

#[test]
fn long_transactions_need_not_be_told_from_short_ones() {
    let named = &mixes::closed()[4];
    let mut mix = named.mix.clone();
    for kind in &mut mix.kinds {
        kind.class = 0;
    }
    let [four, twenty, hundred] = [4, 20, 100].map(|start| part(&mix, named.best, start));
    let at_hundred = fixed(&mix, 100).0 / fixed(&mix, named.best).0;
    println!(
        "E with one class, from 4, 20, 100: {four:.3}, {twenty:.3}, {hundred:.3}; a fixed 100: {at_hundred:.3}\n"
    );
    assert!(four >= 0.9 && twenty >= 0.9 && hundred > at_hundred);
}

#[test]
fn a_limit_that_binds_nobody_does_not_stay_for_ever() {
    let named = &mixes::closed()[0];
    let mix = Mix {
        clients: 100,
        ..named.mix.clone()
    };
    let part = part(&mix, named.best, 200);
    println!("A with 100 clients, from 200: {part:.3}\n");
    assert!(part >= 0.96, "{part}");
}

#[test]
fn a_machine_that_others_use_too_does_not_mislead() {
    let named = mixes::closed();
    let mut loads: Vec<(char, &Mix)> = named
        .iter()
        .filter(|named| "ABCF".contains(named.letter))
        .map(|named| (named.letter, &named.mix))
        .collect();
    let waiting = mixes::waiting_for_clients();
    loads.push(('L', &waiting));
    let mixes: Vec<(char, Vec<Weather>)> = std::thread::scope(|scope| {
        let runs: Vec<_> = loads
            .iter()
            .map(|&(letter, mix)| scope.spawn(move || (letter, unsteady(mix))))
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for (letter, runs) in &mixes {
        let count = runs.len() as f64;
        let mean = runs.iter().map(|run| run.part).sum::<f64>() / count;
        let worst = runs.iter().map(|run| run.part).fold(1.0, f64::min);
        let searches = runs.iter().map(|run| run.searches).sum::<usize>();
        println!(
            "{letter} on an unsteady machine: mean {:.1} %, worst {:.1} %, {searches} searches anew in {count} runs",
            100.0 * mean,
            100.0 * worst
        );
        assert!(mean >= 0.96 && worst >= 0.9, "{letter}: {runs:.3?}");
    }
    // The load is constant, so only the machine makes a difference.
    let all = || mixes.iter().flat_map(|(_, runs)| runs);
    let searches: usize = all().map(|run| run.searches).sum();
    assert!(4 * searches <= all().count(), "{mixes:.3?}");
}

/// A run on an unsteady machine.
#[derive(Debug)]
struct Weather {
    /// Throughput relative to the best fixed size on the same unsteady machine.
    part: f64,
    /// Number of times that the load seemed to have changed.
    searches: usize,
}

/// Runs the mix from each start, with each seed.
fn unsteady(mix: &Mix) -> Vec<Weather> {
    let mix = Mix {
        is_unsteady: true,
        ..mix.clone()
    };
    let runs = seeds().flat_map(|seed| {
        let tps = |&size: &u32| play(&mix, &mut Fixed(size), seed).tps(FOUND);
        let best = SIZES.iter().map(tps).fold(0.0, f64::max);
        let mix = &mix;
        STARTS.map(|start| {
            let mut auto = Auto::new(start, mix, seed);
            Weather {
                part: play(mix, &mut auto, seed).tps(FOUND) / best,
                searches: auto.said().matches("the load has changed").count(),
            }
        })
    });
    runs.collect()
}

#[test]
fn goals_choose_between_throughput_and_tail() {
    let named = mixes::closed().pop().unwrap();
    let (best_tps, best_p99, _) = fixed(&named.mix, named.best);
    let [throughput, balanced, latency] =
        [Goal::Throughput, Goal::Balanced, Goal::Latency].map(|goal| {
            let mut outcome = play(&named.mix, &mut Auto::with(goal, 20, &named.mix, 0), 0);
            let (tps, tail) = (
                outcome.tps(FOUND) / best_tps,
                outcome.percentile_s(0.99) / best_p99,
            );
            println!(
                "{} with goal {goal:?}: throughput {:.1} %, p99 {tail:.2}x",
                named.letter,
                100.0 * tps
            );
            (tps, tail)
        });
    assert!(throughput.0 > balanced.0 && balanced.0 > latency.0);
    assert!(throughput.1 > balanced.1 && balanced.1 > latency.1);
    assert!(throughput.0 >= 0.96, "{throughput:?}");
}
