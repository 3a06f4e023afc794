//! Order of the measurements.

use super::options::{Options, Workload};
use crate::wallet::Mode;

/// Seconds per cell besides warm-up and measuring: data, pooler, books.
const AROUND_S: f64 = 4.0;

/// Cell of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    /// Workload: `chatty`, `pipelined` or `scripts`.
    pub(super) workload: &'static str,
    pub(super) mode: Option<Mode>,
    pub(super) connections: u32,
    pub(super) repetition: u32,
}

/// Returns every combination once per repetition, shuffled within it, so that a drift of the machine affects all
/// alike.
pub(super) fn plan(options: &Options) -> Vec<Planned> {
    let mut random = fastrand::Rng::with_seed(options.seed);
    let modes: Vec<(&'static str, Option<Mode>)> = match &options.workload {
        Workload::Wallet(_, modes) => modes
            .iter()
            .map(|mode| (mode.name(), Some(*mode)))
            .collect(),
        Workload::Scripts(_) => vec![("scripts", None)],
    };
    let mut plan = Vec::new();
    for repetition in 0..options.repetitions {
        let mut block: Vec<Planned> = modes
            .iter()
            .flat_map(|&(workload, mode)| {
                options.connections.iter().map(move |&connections| Planned {
                    workload,
                    mode,
                    connections,
                    repetition,
                })
            })
            .collect();
        random.shuffle(&mut block);
        plan.extend(block);
    }
    plan
}

/// Returns the expected duration of a cell in seconds.
pub(super) fn cell_s(options: &Options) -> f64 {
    (options.warm_up + options.measure).as_secs_f64() + 1.0 + AROUND_S
}

#[cfg(test)]
mod tests {
    use super::super::options::{Preset, Profile};
    use super::*;

    #[test]
    fn every_repetition_has_every_cell_once_in_an_order_of_its_seed() {
        let options = Options::new(Preset::P3, Profile::Quick, 7);
        let found = plan(&options);
        assert_eq!(found.len(), 30);
        assert_eq!(plan(&options), found);
        for repetition in 0..3 {
            let cells = found.iter().filter(|cell| cell.repetition == repetition);
            let mut block: Vec<_> = cells
                .map(|cell| (cell.workload, cell.connections))
                .collect();
            block.sort_unstable();
            block.dedup();
            assert_eq!(block.len(), 10);
        }
        assert_ne!(plan(&Options::new(Preset::P3, Profile::Quick, 8)), found);
    }

    #[test]
    fn the_quick_profile_of_the_published_study_takes_twelve_minutes_at_most() {
        let options = Options::new(Preset::P3, Profile::Quick, 7);
        let expected = cell_s(&options) * crate::statistics::float(plan(&options).len());
        assert!(expected <= 12.0 * 60.0, "{expected}");
    }
}
