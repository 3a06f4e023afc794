//! Mixes: the clients' transactions and the machine. Named as in docs/internals/pool-size.md.

use weir_advisor::random::Random;

use crate::gate::Gate;
use crate::model::Step::{self, Cpu, Flush, Gap, Io, Lock, Sleep};
use crate::model::{Kind, Mix};

/// A mix with its name and its best limit, found by the static sweep.
pub struct Named {
    pub letter: char,
    pub name: &'static str,
    pub mix: Mix,
    pub best: u32,
    pub gate: Gate,
}

fn kind(weight: f64, class: usize, steps: &[Step]) -> Kind {
    Kind {
        weight,
        class,
        steps: steps.to_vec(),
    }
}

const MS: f64 = 1e-3;

/// Two cores, 300 busy clients, 0.3 % lost per active backend.
fn small(kinds: Vec<Kind>) -> Mix {
    Mix {
        kinds,
        cores: 2.0,
        overhead: 0.003,
        channels: 1,
        flush_s: 1.0 * MS,
        locks: 0,
        clients: 300,
        think_s: 0.0,
        is_unsteady: false,
    }
}

fn read_only() -> Mix {
    small(vec![kind(1.0, 1, &[Cpu(1.0 * MS)])])
}

/// The e-wallet: transfers in six round trips, reads in one.
fn chatty() -> Mix {
    let gap = Gap(1.3 * MS);
    let write = Cpu(0.2 * MS);
    let transfer = [
        write,
        gap,
        write,
        gap,
        write,
        gap,
        write,
        gap,
        write,
        gap,
        Cpu(0.1 * MS),
        Flush,
    ];
    small(vec![
        kind(60.0, 1, &transfer),
        kind(25.0, 2, &[Cpu(0.2 * MS)]),
        kind(15.0, 3, &[Cpu(0.6 * MS)]),
    ])
}

/// Mostly the client's own time, on one core: throughput grows with servers up to a sharp knee.
pub fn waiting_for_clients() -> Mix {
    let (gap, work) = (Gap(1.2 * MS), Cpu(0.03 * MS));
    Mix {
        cores: 1.0,
        clients: 100,
        ..small(vec![kind(
            1.0,
            1,
            &[gap, work, gap, work, gap, work, gap, work],
        )])
    }
}

fn pipelined() -> Mix {
    small(vec![
        kind(60.0, 1, &[Cpu(0.5 * MS), Flush]),
        kind(25.0, 2, &[Cpu(0.1 * MS)]),
        kind(15.0, 3, &[Cpu(0.4 * MS)]),
    ])
}

fn io_bound() -> Mix {
    Mix {
        channels: 16,
        overhead: 0.0,
        ..small(vec![kind(
            1.0,
            1,
            &[Cpu(0.3 * MS), Io(8.0 * MS), Cpu(0.2 * MS)],
        )])
    }
}

fn hot_rows() -> Mix {
    Mix {
        locks: 1,
        flush_s: 0.6 * MS,
        ..small(vec![
            kind(
                50.0,
                1,
                &[Cpu(0.4 * MS), Lock, Cpu(0.5 * MS), Gap(0.1 * MS), Flush],
            ),
            kind(50.0, 2, &[Cpu(0.6 * MS)]),
        ])
    }
}

fn sixteen_cores() -> Mix {
    let gap = Gap(1.0 * MS);
    Mix {
        cores: 16.0,
        channels: 16,
        ..small(vec![
            kind(
                50.0,
                1,
                &[Cpu(2.0 * MS), gap, Cpu(2.0 * MS), gap, Cpu(1.0 * MS), Flush],
            ),
            kind(50.0, 2, &[Cpu(2.0 * MS), Io(2.0 * MS), Cpu(2.0 * MS)]),
        ])
    }
}

fn slow() -> Mix {
    small(vec![kind(
        1.0,
        1,
        &[Cpu(15.0 * MS), Gap(10.0 * MS), Cpu(15.0 * MS)],
    )])
}

fn lanes() -> Mix {
    Mix {
        locks: 8,
        overhead: 0.0,
        clients: 100,
        ..small(vec![kind(1.0, 1, &[Lock, Sleep(5.0 * MS)])])
    }
}

fn heavy_tail() -> Mix {
    small(vec![
        kind(99.0, 1, &[Cpu(0.7 * MS)]),
        kind(1.0, 2, &[Cpu(140.0 * MS)]),
    ])
}

/// The pipelined e-wallet with many clients that pause, at this share of its best throughput.
pub fn open(best_tps: f64, load: f64) -> Mix {
    let clients = 3000;
    Mix {
        clients,
        // The response adds little to the pause at these loads.
        think_s: clients as f64 / (best_tps * load),
        ..pipelined()
    }
}

/// Mixes of busy clients only; the open ones and the shift are made of these.
pub fn closed() -> Vec<Named> {
    let usual = Gate {
        good_least: 0.96,
        tail_most: 1.10,
        reached_most: 15,
        ..Gate::NONE
    };
    let tail = Gate {
        good_least: 0.90,
        start_most: 20,
        ..Gate::NONE
    };
    let slow_gate = Gate {
        good_least: 0.94,
        reached_most: 100,
        ..Gate::NONE
    };
    let smooth = Gate {
        good_least: 0.93,
        tail_most: 0.75,
        ..Gate::NONE
    };
    let named = |letter, name, mix, best, gate| Named {
        letter,
        name,
        mix,
        best,
        gate,
    };
    vec![
        named('A', "read-only, 2 cores", read_only(), 2, usual),
        named('B', "e-wallet, chatty", chatty(), 20, usual),
        named('C', "e-wallet, pipelined", pipelined(), 12, usual),
        named('D', "I/O-bound", io_bound(), 32, usual),
        named('E', "1 % are 200x longer", heavy_tail(), 6, tail),
        named('F', "hot rows", hot_rows(), 5, usual),
        named('G', "16 cores, mixed", sixteen_cores(), 32, usual),
        named('H', "slow", slow(), 5, slow_gate),
        named('K', "8 lock lanes, smooth", lanes(), 100, smooth),
    ]
}

/// A machine and a load not used for tuning, by seed.
pub fn unknown(seed: u64) -> Mix {
    let mut random = Random::new(seed);
    let mut between = |low: f64, high: f64| low * (high / low).powf(random.fraction());
    let cores = between(1.0, 16.9).floor();
    let overhead = between(0.001, 0.006);
    let (channels, flush_s, clients) = (
        between(2.0, 32.0),
        between(0.3, 2.0) * MS,
        between(100.0, 400.0),
    );
    let locks = if between(1.0, 2.0) < 1.2 {
        between(1.0, 16.9)
    } else {
        0.0
    };
    // About 2,500 transactions a second if only cores mattered.
    let scale = cores / 2500.0;
    let kinds = (0..3)
        .map(|class| {
            let mut steps = Vec::new();
            if locks > 0.0 && class == 0 {
                steps.push(Lock);
            }
            for _ in 0..between(1.0, 5.9) as usize {
                steps.push(Cpu(scale * between(0.1, 1.0)));
                match between(1.0, 4.0) {
                    roll if roll < 1.8 => steps.push(Gap(between(0.2, 3.0) * MS)),
                    roll if roll < 2.4 => steps.push(Io(between(0.2, 5.0) * MS)),
                    _ => {}
                }
            }
            if class == 1 {
                steps.push(Flush);
            }
            kind(between(1.0, 10.0), class, &steps)
        })
        .collect();
    Mix {
        cores,
        overhead,
        channels: channels as usize,
        flush_s,
        locks: locks as usize,
        clients: clients as usize,
        ..small(kinds)
    }
}
