//! A block: the pool under one limit, first settling, then measured.

use crate::controller::observation::{Observation, Totals};
use crate::controller::pace::Pace;
use crate::controller::side::Side;

/// Average number of waiting clients below which the limit did not bind.
pub(crate) const QUEUE_MIN: f64 = 0.2;

/// Lengths of settling and measuring, in seconds and size-biased hold times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    settle_holds: f64,
    settle_max_s: f64,
    measure_holds: f64,
    measure_holds_max_s: f64,
    measure_max_s: f64,
    completions: u64,
}

impl Timing {
    /// Far from the knee: rough answers quickly.
    pub(crate) const RAMP: Self = Self {
        settle_holds: 1.0,
        settle_max_s: 1.5,
        measure_holds: 1.5,
        measure_holds_max_s: 2.0,
        measure_max_s: 2.0,
        completions: 100,
    };
    /// Near the knee: accurate answers.
    pub(crate) const PROBE: Self = Self {
        settle_holds: 2.0,
        settle_max_s: 4.0,
        measure_holds: 4.0,
        measure_holds_max_s: 6.0,
        measure_max_s: 4.0,
        completions: 300,
    };
    /// For loads in which a few long transactions decide the throughput of the others: a raised limit looks good until
    /// they fill it.
    pub(crate) const TAIL: Self = Self {
        settle_holds: 2.0,
        settle_max_s: 4.0,
        measure_holds: 4.0,
        measure_holds_max_s: 6.0,
        measure_max_s: 6.0,
        completions: 300,
    };

    const SETTLE_MIN_S: f64 = 0.03;
    const MEASURE_MIN_S: f64 = 0.2;
    /// With rare transactions, a block waits for this many ...
    const COMPLETIONS_RARE: f64 = 60.0;
    /// ... but not longer than this.
    const MEASURE_RARE_MAX_S: f64 = 30.0;
}

/// A limit that is being tried.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) limit: u32,
    began_s: f64,
    /// Totals in equal steps since measuring began; empty while the block settles.
    measured: Vec<(f64, Totals)>,
    /// Number of observations per step, and number since the last step.
    stride: u32,
    looks: u32,
    in_use_peak: u32,
    waiting_least: u32,
}

impl Block {
    /// Maximum number of steps kept. Beyond it every second step is dropped and steps become twice as long.
    const STEPS_MAX: usize = 16;

    pub(crate) const fn settling(limit: u32, now_s: f64) -> Self {
        Self {
            limit,
            began_s: now_s,
            measured: Vec::new(),
            stride: 1,
            looks: 0,
            in_use_peak: 0,
            waiting_least: u32::MAX,
        }
    }

    /// A block of a pool that has been at this limit for a while, so it need not settle.
    pub(crate) fn settled(limit: u32, now_s: f64, totals: &Totals) -> Self {
        Self {
            measured: vec![(now_s, totals.clone())],
            ..Self::settling(limit, now_s)
        }
    }

    /// Processes one observation. Returns the measured side when the block is over.
    pub(crate) fn tick(
        &mut self,
        now_s: f64,
        seen: &Observation,
        pace: &Pace,
        timing: Timing,
    ) -> Option<Side> {
        let hold_s = pace.size_biased_hold_s();
        let Some((since_s, from)) = self.measured.first() else {
            let passed_s = now_s - self.began_s;
            let enough_s =
                (timing.settle_holds * hold_s).clamp(Timing::SETTLE_MIN_S, timing.settle_max_s);
            let is_drained = seen.in_use.saturating_sub(seen.pinned) <= self.limit;
            // Servers that do not come back in time are measured as they are.
            if passed_s >= enough_s && (is_drained || passed_s >= 2.0 * timing.settle_max_s) {
                self.measured.push((now_s, seen.totals.clone()));
            }
            return None;
        };
        let passed_s = now_s - since_s;
        let count = seen.totals.completions.saturating_sub(from.completions);
        let least_s = (timing.measure_holds * hold_s)
            .clamp(Timing::MEASURE_MIN_S, timing.measure_holds_max_s);
        let rare_s = Timing::COMPLETIONS_RARE / pace.completions_per_s().max(0.1);
        let most_s = timing
            .measure_max_s
            .max(least_s)
            .max(rare_s.min(Timing::MEASURE_RARE_MAX_S));
        self.note(now_s, seen);
        let is_over = (passed_s >= least_s && count >= timing.completions) || passed_s >= most_s;
        is_over.then(|| self.side(now_s, &seen.totals)).flatten()
    }

    /// Returns how long the block has been measured, and the transactions completed in that time.
    pub(crate) fn measured(&self, now_s: f64, totals: &Totals) -> (f64, u64) {
        self.measured.first().map_or((0.0, 0), |(since_s, from)| {
            (
                now_s - since_s,
                totals.completions.saturating_sub(from.completions),
            )
        })
    }

    /// Records one observation of a block that is measured.
    pub(crate) fn note(&mut self, now_s: f64, seen: &Observation) {
        self.in_use_peak = self
            .in_use_peak
            .max(seen.in_use.saturating_sub(seen.pinned));
        self.waiting_least = self.waiting_least.min(seen.waiting);
        self.looks += 1;
        if self.looks < self.stride {
            return;
        }
        self.looks = 0;
        if self.measured.len() > Self::STEPS_MAX {
            let mut is_kept = false;
            self.measured.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.stride *= 2;
        }
        self.measured.push((now_s, seen.totals.clone()));
    }

    /// Returns the measurement so far; `None` if the block has not settled, or only just.
    pub(crate) fn side(&self, now_s: f64, totals: &Totals) -> Option<Side> {
        let (since_s, _) = self.measured.first()?;
        if now_s - since_s < 0.5 * Timing::MEASURE_MIN_S {
            return None;
        }
        let mut steps: Vec<(f64, &Totals)> = self
            .measured
            .iter()
            .map(|(at_s, totals)| (*at_s, totals))
            .collect();
        if self.looks > 0 {
            // The rest of a step is added to the last whole one.
            if steps.len() > 1 {
                steps.pop();
            }
            steps.push((now_s, totals));
        }
        Some(Side::new(
            self.limit,
            &steps,
            self.in_use_peak,
            self.waiting_least > 0,
        ))
    }
}
