//! Order of cells: every block has all of them once, shuffled by a recorded seed.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::experiment::{Design, Point};
use crate::record;

/// Cell to be run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Planned {
    pub(super) experiment: String,
    pub(super) target: String,
    pub(super) block: u32,
    pub(super) order: u32,
    pub(super) factors: Point,
    /// Seed of the generator: the same for all targets of a block at a point.
    pub(super) seed: u64,
}

impl Planned {
    /// True if `cell` is the result of this planned cell.
    pub(super) fn is(&self, cell: &record::Cell) -> bool {
        self.experiment == cell.experiment
            && self.target == cell.target
            && self.block == cell.block
            && self.factors == cell.factors
    }
}

/// Returns all cells of an experiment. The points of a block are shuffled, and so are the targets at each point.
/// Targets that are compared with each other run one after the other, so that a busy minute of the machine affects
/// all of them.
pub(super) fn cells(name: &str, design: &Design, targets: &[String], seed: u64) -> Vec<Planned> {
    let mut rng = Rng::with_seed(seed ^ hash(name));
    let mut cells = Vec::new();
    for block in 0..design.blocks {
        let mut order = 0;
        let mut points = design.points.clone();
        rng.shuffle(&mut points);
        for point in points {
            let seed = rng.u64(1..u64::from(u32::MAX));
            let mut targets = targets.to_vec();
            rng.shuffle(&mut targets);
            for target in targets {
                cells.push(Planned {
                    experiment: name.to_owned(),
                    target,
                    block,
                    order,
                    factors: point.clone(),
                    seed,
                });
                order += 1;
            }
        }
    }
    cells
}

/// FNV-1a hash, so that experiments of one run are shuffled differently.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn design() -> Design {
        let point = |clients: u32| Point::from([("clients".to_owned(), clients.to_string())]);
        Design {
            targets: Vec::new(),
            points: (1..=5).map(point).collect(),
            warm_up_s: 1.0,
            measure_s: 1.0,
            blocks: 4,
            scale: 1,
        }
    }

    fn targets() -> Vec<String> {
        ["direct", "pgbouncer", "weir-1"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn every_block_has_every_cell_once() {
        let cells = cells("p1", &design(), &targets(), 7);
        assert_eq!(cells.len(), 60);
        for block in 0..4 {
            let of_block = || cells.iter().filter(|cell| cell.block == block);
            let different: BTreeSet<_> = of_block()
                .map(|cell| (&cell.target, &cell.factors))
                .collect();
            assert_eq!(different.len(), 15);
            let orders: Vec<u32> = of_block().map(|cell| cell.order).collect();
            assert_eq!(orders, (0..15).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn the_order_follows_from_the_seed_and_differs_between_blocks() {
        let first = cells("p1", &design(), &targets(), 7);
        assert_eq!(first, cells("p1", &design(), &targets(), 7));
        assert_ne!(first, cells("p1", &design(), &targets(), 8));
        let names = |block: u32| -> Vec<&str> {
            let cells = first.iter().filter(|cell| cell.block == block);
            cells.map(|cell| cell.target.as_str()).collect()
        };
        assert!((1..4).any(|block| names(block) != names(0)));
    }

    #[test]
    fn targets_that_are_compared_run_together_with_the_same_seed() {
        let cells = cells("p1", &design(), &targets(), 7);
        for three in cells.chunks(3) {
            assert!(three.iter().all(|cell| cell.factors == three[0].factors));
            assert!(three.iter().all(|cell| cell.seed == three[0].seed));
        }
    }
}
