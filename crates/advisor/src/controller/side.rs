//! Results of a block, with errors estimated from the differences between its parts.

use crate::controller::block::QUEUE_MIN;
use crate::controller::observation::{ClassTotals, Totals};

/// Minimum number of parts for an estimate of errors.
const PARTS_MIN: usize = 4;
/// Lower limit of the variance. Completions of a busy pool vary less than chance, but few parts can look too steady.
const STEADIEST: f64 = 0.5;
const HEAVY_TAIL: f64 = 8.0;
/// Minimum number of transactions of a class in a block.
const CLASS_COMPLETIONS_MIN: u64 = 3;

/// Results of the pool under one limit.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) limit: u32,
    pub(crate) seconds: f64,
    pub(crate) completions: u64,
    /// Variance of the logarithm of the completions.
    pub(crate) ln_variance: f64,
    /// Variance of the logarithm of the number of clients that had or wanted a server.
    pub(crate) ln_load_variance: f64,
    /// Average number of servers in use.
    pub(crate) in_use: f64,
    /// Average number of clients in the queue.
    pub(crate) waiting: f64,
    /// Maximum number of servers in use.
    pub(crate) in_use_peak: u32,
    /// True if clients were waiting at every observation.
    pub(crate) is_never_empty: bool,
    pub(crate) hold_s: f64,
    hold_s_squared: f64,
    /// Share of the held time of transactions longer than ten times the median.
    pub(crate) long_share: f64,
    pub(crate) classes: Vec<ClassSide>,
}

/// Results of one class of transactions under one limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClassSide {
    pub(crate) class: usize,
    pub(crate) completions: u64,
    pub(crate) hold_s: f64,
    /// Most completed transactions began before the block, so they show nothing about its limit.
    pub(crate) is_longer_than_block: bool,
    /// Mean of the logarithms of the hold times; `ln_hold_variance` is the variance of that mean.
    pub(crate) ln_hold: f64,
    pub(crate) ln_hold_variance: f64,
}

impl Side {
    /// Computes the results from totals at two moments or more.
    pub(crate) fn new(
        limit: u32,
        steps: &[(f64, &Totals)],
        in_use_peak: u32,
        is_never_empty: bool,
    ) -> Self {
        let nothing = Totals::default();
        let from = steps.first().map_or(&nothing, |(_, totals)| totals);
        let to = steps.last().map_or(&nothing, |(_, totals)| totals);
        let seconds = seconds(steps);
        let completions = to.completions.saturating_sub(from.completions);
        Self {
            limit,
            seconds,
            completions,
            ln_variance: ln_variance(steps, completions, seconds),
            ln_load_variance: ln_load_variance(steps, seconds),
            in_use: (to.in_use_s - from.in_use_s) / seconds,
            waiting: (to.waiting_s - from.waiting_s) / seconds,
            in_use_peak,
            is_never_empty,
            hold_s: to.hold_s - from.hold_s,
            hold_s_squared: to.hold_s_squared - from.hold_s_squared,
            long_share: long_share(from, to),
            classes: classes(steps, from, to),
        }
    }

    /// Mean response time including the queue, by Little's law: the time that clients see, and in a closed loop
    /// equivalent to throughput. A block without completions counts half of one.
    pub(crate) fn response_s(&self) -> f64 {
        (self.in_use + self.waiting) * self.seconds / (self.completions as f64).max(0.5)
    }

    /// True if clients waited because of the limit.
    pub(crate) fn is_saturated(&self) -> bool {
        self.waiting >= QUEUE_MIN
    }

    /// True if a few transactions are so long that they hold most of the servers in use. Compares the hold time seen at
    /// a random server, Σh²/Σh, with the mean. Equal times give 1, exponential ones 2.
    pub(crate) fn is_heavy_tailed(&self) -> bool {
        self.hold_s_squared * self.completions as f64 > HEAVY_TAIL * self.hold_s * self.hold_s
    }

    pub(crate) fn tps(&self) -> f64 {
        self.completions as f64 / self.seconds
    }

    pub(crate) fn mean_hold_s(&self) -> f64 {
        self.hold_s / (self.completions as f64).max(1.0)
    }
}

fn seconds(steps: &[(f64, &Totals)]) -> f64 {
    let at = |step: Option<&(f64, &Totals)>| step.map_or(0.0, |(at_s, _)| *at_s);
    (at(steps.last()) - at(steps.first())).max(1e-3)
}

fn parts<'a>(
    steps: &'a [(f64, &'a Totals)],
) -> impl Iterator<Item = (f64, &'a Totals, &'a Totals)> + Clone {
    steps
        .iter()
        .zip(steps.iter().skip(1))
        .map(|((then_s, then), (now_s, now))| (now_s - then_s, *then, *now))
}

fn ln_variance(steps: &[(f64, &Totals)], completions: u64, seconds: f64) -> f64 {
    let count = (completions as f64).max(0.5);
    let number = steps.len().saturating_sub(1);
    let steadiest = if number < PARTS_MIN { 1.0 } else { STEADIEST } / count;
    let squares: f64 = parts(steps)
        .map(|(part_s, then, now)| {
            let part = now.completions.saturating_sub(then.completions) as f64;
            (part - count * part_s / seconds).powi(2)
        })
        .sum();
    let correction = number as f64 / (number as f64 - 1.0).max(1.0);
    (squares * correction / (count * count)).max(steadiest)
}

fn ln_load_variance(steps: &[(f64, &Totals)], seconds: f64) -> f64 {
    let load =
        |then: &Totals, now: &Totals| now.in_use_s - then.in_use_s + now.waiting_s - then.waiting_s;
    let loads = parts(steps).map(|(part_s, then, now)| (part_s, load(then, now)));
    let whole: f64 = loads.clone().map(|(_, load)| load).sum();
    let squares: f64 = loads
        .map(|(part_s, load)| (load - whole * part_s / seconds).powi(2))
        .sum();
    squares / (whole * whole).max(1e-12)
}

fn classes(steps: &[(f64, &Totals)], from: &Totals, to: &Totals) -> Vec<ClassSide> {
    from.classes
        .iter()
        .zip(&to.classes)
        .enumerate()
        .filter_map(|(class, (then, now))| class_side(class, &now.since(then), steps))
        .collect()
}

fn class_side(class: usize, whole: &ClassTotals, steps: &[(f64, &Totals)]) -> Option<ClassSide> {
    if whole.completions < CLASS_COMPLETIONS_MIN {
        return None;
    }
    let count = whole.completions as f64;
    let mean = whole.ln_hold / count;
    let alone = (whole.ln_hold_squared / count - mean * mean).max(1e-6) / count;
    // Transactions that run together slow each other down, so parts differ by more than chance.
    let squares: f64 = parts(steps)
        .filter_map(|(_, then, now)| {
            let part = now.classes.get(class)?.since(then.classes.get(class)?);
            Some((part.ln_hold - mean * part.completions as f64).powi(2))
        })
        .sum();
    Some(ClassSide {
        class,
        completions: whole.completions,
        hold_s: whole.hold_s,
        is_longer_than_block: whole.hold_s / count > 0.5 * seconds(steps),
        ln_hold: mean,
        ln_hold_variance: (squares / (count * count)).max(alone),
    })
}

/// Returns the share of the held time of transactions longer than ten times the median.
fn long_share(from: &Totals, to: &Totals) -> f64 {
    let counts = || to.holds.since(&from.holds);
    let half = counts().map(|(count, _)| count).sum::<u64>() / 2;
    let mut below = 0;
    let median = counts()
        .find(|(count, _)| {
            below += count;
            below > half
        })
        .map_or(f64::INFINITY, |(_, middle)| middle);
    let (all, long) = counts().fold((0.0, 0.0), |(all, long), (count, middle)| {
        let held = count as f64 * middle;
        (
            all + held,
            if middle > 10.0 * median {
                long + held
            } else {
                long
            },
        )
    });
    if all > 0.0 { long / all } else { 0.0 }
}
