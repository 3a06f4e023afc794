//! What a block has shown, with errors that come from how its parts differ.

use crate::controller::block::QUEUE_MIN;
use crate::controller::observation::{ClassTotals, Totals};

/// Fewer parts say nothing about errors.
const PARTS_MIN: usize = 4;
/// Completions of a busy pool are steadier than chance, but nothing is as steady as a few parts can look.
const STEADIEST: f64 = 0.5;
const HEAVY_TAIL: f64 = 8.0;
/// Classes with fewer transactions in a block say nothing.
const CLASS_COMPLETIONS_MIN: u64 = 3;

/// The pool under one limit.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) limit: u32,
    pub(crate) seconds: f64,
    pub(crate) completions: u64,
    /// Variance of the logarithm of the completions.
    pub(crate) ln_variance: f64,
    /// Variance of the logarithm of how many clients had or wanted a server.
    pub(crate) ln_load_variance: f64,
    /// Servers in use on average.
    pub(crate) in_use: f64,
    /// Clients in the queue on average.
    pub(crate) waiting: f64,
    /// The most servers that were ever in use.
    pub(crate) in_use_peak: u32,
    /// Whether clients were waiting at every look.
    pub(crate) is_never_empty: bool,
    pub(crate) hold_s: f64,
    hold_s_squared: f64,
    /// The part of it that belongs to transactions longer than ten times the median.
    pub(crate) long_share: f64,
    pub(crate) classes: Vec<ClassSide>,
}

/// One class of transactions under one limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClassSide {
    pub(crate) class: usize,
    pub(crate) completions: u64,
    pub(crate) hold_s: f64,
    /// Most of what completed began before the block: it says nothing about its limit.
    pub(crate) is_longer_than_block: bool,
    /// Mean of the logarithms of its hold times, and the variance of that mean.
    pub(crate) ln_hold: f64,
    pub(crate) ln_hold_variance: f64,
}

impl Side {
    /// From totals at two moments at least.
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

    /// Mean response time with the wait in the queue, by Little's law: what every client feels, and in a
    /// closed loop the same as throughput. A block without completions counts half a one.
    pub(crate) fn response_s(&self) -> f64 {
        (self.in_use + self.waiting) * self.seconds / (self.completions as f64).max(0.5)
    }

    /// Whether the limit kept clients waiting.
    pub(crate) fn is_saturated(&self) -> bool {
        self.waiting >= QUEUE_MIN
    }

    /// Whether a few transactions are so long that they hold most of what is in use: the hold time that a
    /// look at a random server finds, Σh²/Σh, over the mean. Even times give 1, exponential ones 2.
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
    // Transactions that run together are slowed together: parts differ by more than chance would make them.
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

/// The part of the held time that belongs to transactions longer than ten times the median.
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
