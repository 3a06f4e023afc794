//! Experiments: the pool compares two sizes in pairs of blocks, low and high, in the order ABBA.

use crate::controller::block::{Block, Timing};
use crate::controller::estimate::Pair;
use crate::controller::hold::{Busy, Usual};
use crate::controller::observation::Observation;
use crate::controller::pace::Pace;
use crate::controller::side::Side;

/// A low block ends early if its queue grows beyond this multiple of the clients before ...
const QUEUE_GROWTH_MAX: f64 = 4.0;
/// ... plus this many.
const QUEUE_GROWTH_SPARE: f64 = 20.0;

/// A comparison of two limits.
#[derive(Debug, Clone)]
pub(crate) struct Experiment {
    pub(crate) low: u32,
    pub(crate) high: u32,
    timing: Timing,
    block: Block,
    /// The side of the current pair that is already measured.
    first: Option<Side>,
    /// Last measurement of the previous pair.
    last: Option<Busy>,
    pub(crate) pairs: Vec<Pair>,
    /// Clients that had or wanted a server before the experiment.
    load: f64,
}

/// Results of a finished pair besides its elasticity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PairReport {
    /// Seconds of response time that the worse block cost, as if the pool had stopped for so long.
    pub(crate) cost_s: f64,
    /// No client waited at either limit.
    pub(crate) is_unsaturated: bool,
    /// Servers in use at the higher limit, on average.
    pub(crate) in_use: f64,
    /// Share of the held time of transactions longer than ten times the median. The smaller one of both blocks, because
    /// blocks after a change of limit contain long transactions from before.
    pub(crate) long_share: f64,
    /// Few transactions held most of the servers, at both limits.
    pub(crate) is_heavy_tailed: bool,
}

impl Experiment {
    /// `low < high`. Begins with the lower limit if `low_first`.
    pub(crate) fn new(
        (low, high): (u32, u32),
        low_first: bool,
        timing: Timing,
        now_s: f64,
        seen: &Observation,
    ) -> Self {
        debug_assert!(low < high, "{low} < {high}");
        Self {
            low,
            high,
            timing,
            block: Block::settling(if low_first { low } else { high }, now_s),
            first: None,
            last: None,
            pairs: Vec::new(),
            load: f64::from(seen.in_use) + f64::from(seen.waiting),
        }
    }

    /// Returns the limit in force.
    pub(crate) const fn limit(&self) -> u32 {
        self.block.limit
    }

    /// Number of transactions in all pairs.
    pub(crate) fn completions(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.completions).sum()
    }

    /// Processes one observation. Returns a report when a pair is complete; the next pair begins where this one ended.
    pub(crate) fn tick(
        &mut self,
        now_s: f64,
        seen: &Observation,
        pace: &Pace,
        usual: &mut Usual,
    ) -> Option<PairReport> {
        let over = self.block.tick(now_s, seen, pace, self.timing);
        let side = match over {
            Some(side) => side,
            None if self.is_exploding(seen) => self.block.side(now_s, &seen.totals)?,
            None => return None,
        };
        let Some(first) = self.first.take() else {
            let other = if side.limit == self.low {
                self.high
            } else {
                self.low
            };
            self.block = Block::settling(other, now_s);
            // The previous pair ended under the same limit, so only the machine makes a difference.
            usual.note(self.last, Busy::of(&side));
            self.first = Some(side);
            return None;
        };
        self.block = Block::settled(side.limit, now_s, &seen.totals);
        let (low, high) = if first.limit == self.low {
            (&first, &side)
        } else {
            (&side, &first)
        };
        self.pairs.push(Pair::new(low, high));
        let report = PairReport {
            cost_s: cost_s(low, high),
            is_unsaturated: !low.is_saturated() && !high.is_saturated(),
            in_use: high.in_use,
            is_heavy_tailed: low.is_heavy_tailed() && high.is_heavy_tailed(),
            long_share: low.long_share.min(high.long_share),
        };
        self.last = Busy::of(&side);
        Some(report)
    }

    fn is_exploding(&self, seen: &Observation) -> bool {
        self.block.limit == self.low
            && f64::from(seen.waiting) > QUEUE_GROWTH_MAX * self.load + QUEUE_GROWTH_SPARE
    }
}

fn cost_s(low: &Side, high: &Side) -> f64 {
    let (worse, better) = if low.response_s() > high.response_s() {
        (low, high)
    } else {
        (high, low)
    };
    worse.seconds * (1.0 - better.response_s() / worse.response_s().max(1e-9))
}
