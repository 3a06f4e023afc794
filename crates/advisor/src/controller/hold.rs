//! Holds between experiments: the pool keeps its size and detects changes of the load.

use crate::controller::block::{Block, QUEUE_MIN};
use crate::controller::observation::Observation;
use crate::controller::pace::Pace;
use crate::controller::side::Side;

/// A load has changed if throughput or hold time of this many successive looks is off ...
const LOOKS_OFF: u32 = 3;
/// ... by this share, by this many standard errors, and by this multiple of the usual difference between looks.
const OFF_PART: f64 = 0.25;
const OFF_ERRORS: f64 = 4.5;
const OFF_USUAL: f64 = 3.0;
/// Upper limit for unsteady machines: half the throughput is always another load.
const OFF_USUAL_MOST: f64 = 0.45;
/// Rate at which the usual difference is learned.
const USUAL_RATE: f64 = 0.05;
/// The first differences count for more than that, but as if this many looks without any had come before.
const USUAL_BEFORE: f64 = 3.0;
/// A change of load is one large difference, so a difference counts at most this much (a factor of 1.5).
const USUAL_MOST: f64 = 0.405;
/// The reference is the mean of the looks of this hold, weighted to the latest if there are many.
const REFERENCE_RATE: f64 = 0.1;
const LOOK_S: f64 = 0.5;
/// A look lasts this many hold times, so that a few long transactions are not taken for a change of load.
const LOOK_HOLDS: f64 = 4.0;
const LOOK_HOLDS_MAX_S: f64 = 6.0;
const LOOK_COMPLETIONS: u64 = 100;
/// A queue is new if a pool without one has this many waiting clients on average, in this many successive looks. Its
/// size does not fit then.
const QUEUE_NEW: f64 = 1.0;
const LOOKS_QUEUED: u32 = 2;

/// Result of a look between experiments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Sight {
    /// Clients wait although none waited before.
    Queue,
    /// No change.
    Same,
    /// Throughput or hold times have changed.
    Shift,
    /// No client waited since the last look.
    Unsaturated,
}

/// Throughput of a look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Busy {
    tps: f64,
    /// Variance of its logarithm.
    ln_variance: f64,
}

impl Busy {
    /// `None` if no client waits, because throughput is then determined by the clients.
    pub(crate) fn of(side: &Side) -> Option<Self> {
        let is_busy = side.is_saturated() && side.completions > 0;
        is_busy.then(|| Self {
            tps: side.tps(),
            ln_variance: side.ln_variance,
        })
    }
}

/// Usual difference in throughput between successive looks under the same limit, beyond the variance within each look.
/// Other programs on the machine cause it, not a change of load.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usual {
    /// Mean square of the differences of logarithms, less the expected part; may be negative.
    square: f64,
    /// Number of differences seen.
    count: f64,
}

impl Usual {
    /// Records two successive looks under one limit.
    pub(crate) fn note(&mut self, earlier: Option<Busy>, later: Option<Busy>) {
        if let (Some(earlier), Some(later)) = (earlier, later) {
            let difference = (later.tps / earlier.tps).ln().abs().min(USUAL_MOST);
            let expected = earlier.ln_variance + later.ln_variance;
            let rate = USUAL_RATE.max(1.0 / (self.count + USUAL_BEFORE));
            self.square += rate * (difference * difference - expected - self.square);
            self.count += 1.0;
        }
    }

    /// Returns the share by which a look may be off.
    fn allowed(self) -> f64 {
        (OFF_USUAL * self.difference()).min(OFF_USUAL_MOST)
    }

    /// Standard deviation of the logarithm of throughput.
    pub(crate) fn difference(self) -> f64 {
        self.square.max(0.0).sqrt()
    }
}

/// Time between two experiments.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    /// When the next experiment is due.
    pub(crate) until_s: f64,
    block: Option<Block>,
    reference: Option<Reference>,
    /// The previous look.
    last: Option<Busy>,
    off: u32,
    /// Number of looks that were not off.
    same: f64,
    queued: u32,
}

#[derive(Debug, Clone, Copy)]
struct Reference {
    tps: f64,
    hold_s: f64,
    is_saturated: bool,
}

impl Hold {
    pub(crate) const fn until(until_s: f64) -> Self {
        Self {
            until_s,
            block: None,
            reference: None,
            last: None,
            off: 0,
            same: 0.0,
            queued: 0,
        }
    }

    /// Processes one observation of the pool under `limit`.
    pub(crate) fn tick(
        &mut self,
        now_s: f64,
        seen: &Observation,
        pace: &Pace,
        limit: u32,
        usual: &mut Usual,
    ) -> Sight {
        let Some(block) = &mut self.block else {
            self.begin(now_s, seen, limit);
            return Sight::Same;
        };
        block.note(now_s, seen);
        let least_s = (LOOK_HOLDS * pace.size_biased_hold_s()).clamp(LOOK_S, LOOK_HOLDS_MAX_S);
        let (seconds, completions) = block.measured(now_s, &seen.totals);
        let is_over = seconds >= least_s && completions >= LOOK_COMPLETIONS;
        if !is_over && seconds < least_s.max(4.0 * LOOK_S) {
            return Sight::Same;
        }
        let Some(side) = block.side(now_s, &seen.totals) else {
            return Sight::Same;
        };
        self.begin(now_s, seen, limit);
        let busy = Busy::of(&side);
        usual.note(self.last, busy);
        self.last = busy;
        if self.is_new_queue(&side) {
            self.queued += 1;
            if self.queued >= LOOKS_QUEUED {
                return Sight::Queue;
            }
        } else {
            self.queued = 0;
        }
        if self.is_off(&side, *usual) {
            self.off += 1;
            if self.off >= LOOKS_OFF {
                return Sight::Shift;
            }
        } else {
            self.off = 0;
        }
        if side.waiting < QUEUE_MIN {
            return Sight::Unsaturated;
        }
        Sight::Same
    }

    fn begin(&mut self, now_s: f64, seen: &Observation, limit: u32) {
        self.block = Some(Block::settled(limit, now_s, &seen.totals));
    }

    fn is_new_queue(&self, side: &Side) -> bool {
        let had_none = self
            .reference
            .is_some_and(|reference| !reference.is_saturated);
        had_none && side.waiting >= QUEUE_NEW
    }

    fn is_off(&mut self, side: &Side, usual: Usual) -> bool {
        let now = Reference {
            tps: side.tps(),
            hold_s: side.mean_hold_s(),
            is_saturated: side.is_saturated(),
        };
        let Some(reference) = self.reference else {
            self.reference = Some(now);
            return false;
        };
        let allowed = OFF_PART.max((OFF_ERRORS * side.ln_variance.sqrt()).hypot(usual.allowed()));
        let off = |now: f64, then: f64| then > 0.0 && ((now / then) - 1.0).abs() > allowed;
        if off(now.tps, reference.tps) || off(now.hold_s, reference.hold_s) {
            return true;
        }
        self.same += 1.0;
        let rate = REFERENCE_RATE.max(1.0 / (self.same + 1.0));
        self.reference = Some(Reference {
            tps: reference.tps + rate * (now.tps - reference.tps),
            hold_s: reference.hold_s + rate * (now.hold_s - reference.hold_s),
            is_saturated: reference.is_saturated,
        });
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(tps: f64) -> Option<Busy> {
        Some(Busy {
            tps,
            ln_variance: 0.0,
        })
    }

    #[test]
    fn a_load_that_halves_is_seen_on_the_most_unsteady_machine() {
        let mut usual = Usual::default();
        for _ in 0..100 {
            usual.note(busy(1000.0), busy(3000.0));
        }
        assert!(usual.difference() > 0.4, "{usual:?}");
        assert!(usual.allowed() < 0.5, "{usual:?}");
    }
}
