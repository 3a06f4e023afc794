//! Input of the controller: totals that only grow, and the current state of the pool.

use std::time::Duration;

use crate::rounding::slot;

/// Number of classes of transactions.
pub const CLASSES: usize = 64;

/// Number of half octaves of hold time in [`Holds`], from 16 µs to 19 hours.
const HALF_OCTAVES: usize = 64;
const SHORTEST_S: f64 = 16e-6;

/// Hold times of one class of transactions, summed since the pool began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClassTotals {
    /// Number of transactions that returned their server.
    pub completions: u64,
    /// Sum of their hold times, in seconds.
    pub hold_s: f64,
    /// Sum of the natural logarithms of the hold times.
    pub ln_hold: f64,
    /// Sum of the squares of these logarithms.
    pub ln_hold_squared: f64,
}

impl ClassTotals {
    fn add(&mut self, other: &Self) {
        self.completions += other.completions;
        self.hold_s += other.hold_s;
        self.ln_hold += other.ln_hold;
        self.ln_hold_squared += other.ln_hold_squared;
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            completions: self.completions.saturating_sub(earlier.completions),
            hold_s: self.hold_s - earlier.hold_s,
            ln_hold: self.ln_hold - earlier.ln_hold,
            ln_hold_squared: self.ln_hold_squared - earlier.ln_hold_squared,
        }
    }
}

/// Number of transactions by hold time, in half octaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Holds([u64; HALF_OCTAVES]);

impl Default for Holds {
    fn default() -> Self {
        Self([0; HALF_OCTAVES])
    }
}

impl Holds {
    fn record(&mut self, ln_hold: f64) {
        let octaves = (ln_hold - SHORTEST_S.ln()) * std::f64::consts::LOG2_E;
        if let Some(count) = self.0.get_mut(slot(octaves * 2.0, HALF_OCTAVES)) {
            *count += 1;
        }
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    /// Returns the increase of each half octave since `earlier`, with the hold time in its middle in seconds.
    pub(crate) fn since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = (u64, f64)> + 'a {
        self.0
            .iter()
            .zip(&earlier.0)
            .enumerate()
            .map(|(index, (now, then))| {
                let middle = SHORTEST_S * 2f64.powf((index as f64 + 0.5) / 2.0);
                (now.saturating_sub(*then), middle)
            })
    }
}

/// Refusals that show that the host is overloaded, counted since the pool began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Errors {
    /// SQLSTATE 53300, `too_many_connections`.
    pub too_many_connections: u64,
    /// SQLSTATE 53200, `out_of_memory`.
    pub out_of_memory: u64,
    /// SQLSTATE 57P03, `cannot_connect_now`, and connections that could not be made at all.
    pub cannot_connect: u64,
    /// SQLSTATE 40P01, `deadlock_detected`.
    pub deadlocks: u64,
}

/// Counts of the pool since it began. Totals only grow, so a reader may miss some updates.
///
/// Each worker keeps its own and calls [`record`](Self::record) when a server comes back. The owner of the controller
/// combines them with [`add`](Self::add).
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// Transactions that returned their server, without long pins (see [`Observation::pinned`]).
    pub completions: u64,
    /// Sum of their hold times, in seconds.
    pub hold_s: f64,
    /// Sum of the squares of the hold times.
    pub hold_s_squared: f64,
    /// Totals by class.
    pub classes: [ClassTotals; CLASSES],
    /// Counts by hold time.
    pub holds: Holds,
    /// Assigned servers, without pinned ones, integrated over time: server-seconds.
    pub in_use_s: f64,
    /// Clients in the queue, integrated over time: client-seconds.
    pub waiting_s: f64,
    /// Refusals by the host.
    pub errors: Errors,
    /// Clients that were failed because they had waited too long.
    pub queue_timeouts: u64,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            completions: 0,
            hold_s: 0.0,
            hold_s_squared: 0.0,
            classes: [ClassTotals::default(); CLASSES],
            holds: Holds::default(),
            in_use_s: 0.0,
            waiting_s: 0.0,
            errors: Errors::default(),
            queue_timeouts: 0,
        }
    }
}

impl Totals {
    /// Records that a transaction of `class` returned its server after `hold`.
    ///
    /// The class is any property known before the transaction ran, such as a hash of its first statement, taken modulo
    /// [`CLASSES`]. It must never depend on durations, because classes would then change with the measured quantity.
    pub fn record(&mut self, class: usize, hold: Duration) {
        let seconds = hold.as_secs_f64();
        // A hold below a microsecond only means that the clock did not move.
        let ln_hold = seconds.max(1e-6).ln();
        self.completions += 1;
        self.hold_s += seconds;
        self.hold_s_squared += seconds * seconds;
        self.holds.record(ln_hold);
        if let Some(class) = self.classes.get_mut(class % CLASSES) {
            class.completions += 1;
            class.hold_s += seconds;
            class.ln_hold += ln_hold;
            class.ln_hold_squared += ln_hold * ln_hold;
        }
    }

    /// Adds another worker's totals to these.
    pub fn add(&mut self, other: &Self) {
        self.completions += other.completions;
        self.hold_s += other.hold_s;
        self.hold_s_squared += other.hold_s_squared;
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            mine.add(theirs);
        }
        self.holds.add(&other.holds);
        self.in_use_s += other.in_use_s;
        self.waiting_s += other.waiting_s;
        self.errors.too_many_connections += other.errors.too_many_connections;
        self.errors.out_of_memory += other.errors.out_of_memory;
        self.errors.cannot_connect += other.errors.cannot_connect;
        self.errors.deadlocks += other.errors.deadlocks;
        self.queue_timeouts += other.queue_timeouts;
    }
}

/// Reason for which the pool asks the controller to freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stillness {
    /// Logins to the host fail: it is down, starting, or being replaced by another.
    Failover,
    /// An operator paused the pool.
    Paused,
    /// Servers are being replaced after RECONNECT.
    Reconnecting,
    /// The configuration was reloaded a moment ago.
    Reloaded,
}

impl Stillness {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Failover => "logins to the host fail",
            Self::Paused => "the pool is paused",
            Self::Reconnecting => "servers are being replaced",
            Self::Reloaded => "the configuration was reloaded",
        }
    }
}

/// Observation of the pool, meant to be taken every 50 ms.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// Time since any fixed moment; must not go back.
    pub now: Duration,
    /// Counts up to now.
    pub totals: Totals,
    /// Servers that are assigned to clients now, including pinned ones.
    pub in_use: u32,
    /// Clients in the queue now.
    pub waiting: u32,
    /// Assigned servers that now wait for their client inside a transaction.
    pub idle_in_transaction: u32,
    /// Assigned servers that wait for a lock in PostgreSQL, if sampled lately.
    pub lock_waits: Option<u32>,
    /// Assigned servers that are pinned for long: LISTEN, held cursors, COPY, and transactions older than
    /// [`Decision::pin_after`](crate::controller::Decision::pin_after). They are not part of the experiment and get
    /// room beside it.
    pub pinned: u32,
    /// A reason to freeze.
    pub stillness: Option<Stillness>,
    /// True if this pool may try other sizes now, on a host that it shares with others; see
    /// [`Turns`](crate::controller::Turns). Always true for a pool alone on its host.
    pub has_turn: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_two_workers_make_the_totals_of_the_pool() {
        let (mut one, mut other) = (Totals::default(), Totals::default());
        one.record(3, Duration::from_millis(2));
        other.record(3 + CLASSES, Duration::from_millis(4));
        other.queue_timeouts = 1;
        one.add(&other);
        assert_eq!(one.completions, 2);
        assert_eq!(one.classes[3].completions, 2);
        assert!((one.hold_s - 0.006).abs() < 1e-12);
        assert!((one.hold_s_squared - 20e-6).abs() < 1e-12);
        assert_eq!(one.queue_timeouts, 1);
    }

    #[test]
    fn a_hold_time_is_counted_where_it_belongs() {
        let mut totals = Totals::default();
        for hold_us in [0, 1, 16, 1_000, 60_000_000, u64::from(u32::MAX) * 1_000_000] {
            totals.record(0, Duration::from_micros(hold_us));
        }
        let empty = Holds::default();
        let held: Vec<(u64, f64)> = totals
            .holds
            .since(&empty)
            .filter(|(count, _)| *count > 0)
            .collect();
        assert_eq!(held.iter().map(|(count, _)| count).sum::<u64>(), 6);
        assert!(
            held.iter()
                .any(|(_, middle)| (0.8e-3..1.25e-3).contains(middle))
        );
    }
}
