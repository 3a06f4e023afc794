//! What the pool tells the controller: totals that only grow, and how things stand at this moment.

use std::time::Duration;

use crate::rounding::slot;

/// How many classes of transactions are told apart.
pub const CLASSES: usize = 64;

/// How many half octaves of hold time the [`Holds`] count, from 16 µs to 19 hours.
const HALF_OCTAVES: usize = 64;
const SHORTEST_S: f64 = 16e-6;

/// Hold times of one class of transactions, summed since the pool began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClassTotals {
    /// Transactions that gave their server back.
    pub completions: u64,
    /// Seconds for which they had it.
    pub hold_s: f64,
    /// Sum of the natural logarithms of these seconds.
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

/// How many transactions held their server for how long, by half octaves.
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

    /// What was added to each half octave since `earlier`, beside the hold time in its middle in seconds.
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

/// Refusals that say that the host has had enough, counted since the pool began.
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

/// What the pool has counted since it began. Totals only grow, so that a reader may miss a beat.
///
/// Each worker keeps its own and calls [`record`](Self::record) when a server comes back; whoever asks
/// the controller puts them together with [`add`](Self::add).
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// Transactions that gave their server back, without long pins (see [`Observation::pinned`]).
    pub completions: u64,
    /// Seconds for which they had it.
    pub hold_s: f64,
    /// Sum of the squares of these seconds.
    pub hold_s_squared: f64,
    /// The same by class.
    pub classes: [ClassTotals; CLASSES],
    /// The same by length.
    pub holds: Holds,
    /// Assigned servers, without pinned ones, integrated over time: server-seconds.
    pub in_use_s: f64,
    /// Clients in the queue, integrated over time: client-seconds.
    pub waiting_s: f64,
    /// What the host refused.
    pub errors: Errors,
    /// Clients that were turned away because they had waited too long.
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
    /// A transaction of `class` gave its server back after `hold`.
    ///
    /// The class is anything that is known before the transaction ran, such as a hash of its first
    /// statement, taken modulo [`CLASSES`]. It must never depend on how long anything took: classes would
    /// then change with the very thing that is measured.
    pub fn record(&mut self, class: usize, hold: Duration) {
        let seconds = hold.as_secs_f64();
        // Below a microsecond there is no transaction, only a clock that did not move.
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

    /// Puts another worker's totals on top of these.
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

/// Why the pool asks the controller to keep still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stillness {
    /// Logins to the host fail: it is gone, starting, or being replaced by another.
    Failover,
    /// An operator paused the pool.
    Paused,
    /// Servers are being replaced after RECONNECT.
    Reconnecting,
    /// The configuration was read again a moment ago.
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

/// One look at the pool, meant to be taken every 50 ms.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// Time since any fixed beginning; must not go back.
    pub now: Duration,
    /// What was counted up to now.
    pub totals: Totals,
    /// Servers that are assigned to clients now, pinned ones too.
    pub in_use: u32,
    /// Clients in the queue now.
    pub waiting: u32,
    /// Assigned servers that wait for their client inside of a transaction now.
    pub idle_in_transaction: u32,
    /// Assigned servers that wait for a lock in PostgreSQL, if somebody sampled it lately.
    pub lock_waits: Option<u32>,
    /// Assigned servers that are pinned for long: LISTEN, held cursors, COPY, and transactions older than
    /// [`Decision::pin_after`](crate::controller::Decision::pin_after). They are not part of the experiment and get room beside it.
    pub pinned: u32,
    /// A reason to keep still.
    pub stillness: Option<Stillness>,
    /// Whether this pool may try other sizes now, on a host that it shares with others; see
    /// [`Turns`](crate::controller::Turns). A pool alone on its host says true.
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
