//! Rails: limits that keep the controller from doing harm, whatever its experiments show.

use crate::controller::observation::{Errors, Observation};
use crate::controller::pace::Pace;

/// Valve that opens when nothing moves, because every assigned server waits for a client in the queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct StallValve {
    progress_s: f64,
    opened_s: f64,
    counted_s: f64,
    floor: u32,
    floor_until_s: f64,
}

impl StallValve {
    const PATIENCE_MIN_S: f64 = 0.25;
    /// If all servers wait for clients or locks, the database is idle, so more of them do no harm.
    const PATIENCE_MAX_S: f64 = 0.5;
    /// Without samples of lock waits, a busy server may be one that works.
    const PATIENCE_UNSURE_S: f64 = 0.75;
    /// Pause between two openings, so that a transaction can end.
    const PAUSE_S: f64 = 0.1;
    const FLOOR_S: f64 = 30.0;

    /// True if the limit must rise now. `limit` is the one in force.
    pub(crate) fn is_stalled(
        &mut self,
        now_s: f64,
        seen: &Observation,
        has_completed: bool,
        limit: u32,
        pace: &Pace,
    ) -> bool {
        if has_completed || seen.waiting == 0 || seen.in_use < limit {
            self.progress_s = now_s;
            return false;
        }
        let patience_s = match seen.lock_waits {
            Some(locks) if seen.idle_in_transaction + locks >= seen.in_use => {
                (4.0 * pace.p99_s()).clamp(Self::PATIENCE_MIN_S, Self::PATIENCE_MAX_S)
            }
            None if seen.idle_in_transaction >= seen.in_use => {
                (4.0 * pace.p99_s()).clamp(Self::PATIENCE_MIN_S, Self::PATIENCE_MAX_S)
            }
            None if seen.idle_in_transaction > 0 => {
                (4.0 * pace.p99_s()).max(Self::PATIENCE_UNSURE_S)
            }
            _ => return false,
        };
        now_s - self.progress_s >= patience_s && now_s - self.opened_s >= Self::PAUSE_S
    }

    /// Counts a stall; false if it is a continuation of the last one.
    pub(crate) const fn count_stall(&mut self, now_s: f64) -> bool {
        let is_new = self.counted_s == 0.0 || self.progress_s > self.counted_s;
        self.counted_s = now_s;
        is_new
    }

    /// Records that the limit was raised to `size`.
    pub(crate) fn opened(&mut self, now_s: f64, size: u32) {
        self.opened_s = now_s;
        self.floor = size;
        self.floor_until_s = now_s + Self::FLOOR_S;
    }

    /// Returns the size below which the limit must not fall for now.
    pub(crate) fn floor(&self, now_s: f64) -> u32 {
        if now_s < self.floor_until_s {
            self.floor
        } else {
            0
        }
    }
}

/// Sizes that the host has refused, remembered for a while.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ceiling {
    seen: Errors,
    /// Number of recent deadlocks; a single one is no burst.
    deadlocks: f64,
    cut: Option<Cut>,
    /// Limit at which the host reported 53300, and the end of the time in which it must not be reached again.
    refused: Option<(u32, f64)>,
}

#[derive(Debug, Clone, Copy)]
struct Cut {
    size: u32,
    at_s: f64,
}

impl Ceiling {
    /// Starts with counts that do not matter.
    pub(crate) fn since(seen: Errors) -> Self {
        Self {
            seen,
            ..Self::default()
        }
    }

    const REMEMBERED_S: f64 = 300.0;
    /// Errors within this time of a cut belong to the same burst.
    const PAUSE_S: f64 = 5.0;
    pub(crate) const FACTOR: f64 = 0.7;
    const DEADLOCKS_FORGET_S: f64 = 10.0;
    const DEADLOCKS: f64 = 5.0;

    /// Returns the host's refusal since the last look, in words, if the limit must fall for it.
    pub(crate) fn note(
        &mut self,
        now_s: f64,
        passed_s: f64,
        errors: Errors,
        limit: u32,
        pace: &Pace,
    ) -> Option<&'static str> {
        let before = std::mem::replace(&mut self.seen, errors);
        self.deadlocks = self.deadlocks * (-passed_s / Self::DEADLOCKS_FORGET_S).exp()
            + errors.deadlocks.saturating_sub(before.deadlocks) as f64;
        let is_burst = self.deadlocks >= Self::DEADLOCKS
            && self.deadlocks > 0.01 * pace.completions_per_s() * Self::DEADLOCKS_FORGET_S;
        let refused = errors.too_many_connections > before.too_many_connections;
        if refused {
            let size = limit.saturating_sub(1).max(1);
            self.refused = Some((size, now_s + Self::REMEMBERED_S));
        }
        let reason = if refused {
            "the host has too many connections (53300)"
        } else if errors.out_of_memory > before.out_of_memory {
            "the host is out of memory (53200)"
        } else if errors.cannot_connect > before.cannot_connect {
            "the host takes no connections"
        } else if is_burst {
            "transactions deadlock in bursts (40P01)"
        } else {
            return None;
        };
        let is_new = self.cut.is_none_or(|cut| now_s - cut.at_s >= Self::PAUSE_S);
        is_new.then_some(reason)
    }

    /// Records that the limit was cut to `size`.
    pub(crate) const fn cut(&mut self, now_s: f64, size: u32) {
        self.cut = Some(Cut { size, at_s: now_s });
        self.deadlocks = 0.0;
    }

    /// Returns the size above which the limit must not rise: the cut rises to `size_max` within five minutes.
    pub(crate) fn height(&self, now_s: f64, size_max: u32) -> u32 {
        let relaxed = self.cut.map_or(size_max, |cut| {
            let part = ((now_s - cut.at_s) / Self::REMEMBERED_S).clamp(0.0, 1.0);
            let (low, high) = (f64::from(cut.size), f64::from(size_max));
            crate::rounding::servers(low + part * (high - low).max(0.0))
        });
        match self.refused {
            Some((size, until_s)) if now_s < until_s => relaxed.min(size),
            _ => relaxed,
        }
    }
}

/// Times in which no experiment may run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Freeze {
    queue_timeouts: u64,
    timeouts_until_s: f64,
    timeouts_ignored_until_s: f64,
    busy_s: f64,
    /// Reason for the current freeze.
    pub(crate) reason: Option<&'static str>,
}

impl Freeze {
    /// Starts with counts that do not matter.
    pub(crate) fn since(queue_timeouts: u64) -> Self {
        Self {
            queue_timeouts,
            ..Self::default()
        }
    }

    const RATE_MIN_PER_S: f64 = 20.0;
    const SLOW_S: f64 = 10.0;
    const TIMEOUTS_S: f64 = 10.0;
    /// A wrong size could be the cause of timeouts, and freezing for ever would keep it.
    const TIMEOUTS_AGAIN_S: f64 = 60.0;

    /// Checks again. Returns true if a freeze began or ended.
    pub(crate) fn note(
        &mut self,
        now_s: f64,
        age_s: f64,
        quiet_start_s: f64,
        seen: &Observation,
        pace: &Pace,
    ) -> bool {
        // If clients wait, a slow pool may be slow because of its size, so it must be tried.
        if pace.completions_per_s() >= Self::RATE_MIN_PER_S
            || seen.waiting > 0
            || age_s < quiet_start_s
        {
            self.busy_s = now_s;
        }
        if seen.totals.queue_timeouts > self.queue_timeouts
            && now_s >= self.timeouts_ignored_until_s
        {
            self.timeouts_until_s = now_s + Self::TIMEOUTS_S;
            self.timeouts_ignored_until_s = now_s + Self::TIMEOUTS_AGAIN_S;
        }
        self.queue_timeouts = seen.totals.queue_timeouts;
        let reason = if let Some(stillness) = seen.stillness {
            Some(stillness.words())
        } else if age_s < quiet_start_s {
            Some("the pool has just started")
        } else if now_s < self.timeouts_until_s {
            Some("clients time out of the queue")
        } else if now_s - self.busy_s > Self::SLOW_S {
            Some("too few transactions to learn from")
        } else {
            None
        };
        let has_changed = reason != self.reason;
        self.reason = reason;
        has_changed
    }
}

/// Budget of experiments: 2 % of the time, as response time lost in the worse blocks.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    balance_s: f64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            balance_s: Self::MOST_S,
        }
    }
}

impl Budget {
    const PART: f64 = 0.02;
    const MOST_S: f64 = 0.02 * 60.0;

    pub(crate) fn refill(&mut self, passed_s: f64) {
        self.balance_s = (self.balance_s + Self::PART * passed_s).min(Self::MOST_S);
    }

    pub(crate) fn spend(&mut self, cost_s: f64) {
        // A debt above a minute's budget would blind the controller for longer than load changes last.
        self.balance_s = (self.balance_s - cost_s).max(-Self::MOST_S);
    }

    pub(crate) fn has_any(&self) -> bool {
        self.balance_s > 0.0
    }
}
