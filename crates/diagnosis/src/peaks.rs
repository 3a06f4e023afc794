//! Highest usage of each limit, and of waiting clients, since the start and in the last hour.

use std::collections::BTreeMap;

use weir_stats::{LimitRow, Snapshot};

use crate::pace::Step;
use crate::text;

/// Limits with peaks, at most; each takes 1.1 KiB.
const LIMITS_MAX: usize = 256;
/// Minutes of the last hour.
const MINUTES: usize = 60;

/// Highest value of a figure, with its time in Unix seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// The value.
    pub used: u64,
    /// Time at which it was reached first.
    pub at: i64,
}

/// Peaks of one figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeakPair {
    /// Peak since the process began.
    pub ever: Peak,
    /// Peak in the last hour.
    pub hour: Peak,
}

/// Peaks of the limits and of waiting clients.
#[derive(Debug, Default)]
pub struct Peaks {
    waiting: Highest,
    limits: BTreeMap<(&'static str, String), Highest>,
    seconds: u64,
}

impl Peaks {
    /// Peaks of the number of clients that wait for a server.
    #[must_use]
    pub fn waiting(&self) -> PeakPair {
        self.waiting.pair()
    }

    /// Peaks of the limit that an option sets for a database, a user or the process; none if there is no such limit,
    /// or if there are more than 256.
    #[must_use]
    pub fn limit(&self, name: &'static str, scope: &str) -> Option<PeakPair> {
        let key = (name, scope.to_owned());
        self.limits.get(&key).map(Highest::pair)
    }

    /// Adds a sample.
    pub(crate) fn sample(&mut self, snapshot: &Snapshot, step: Step) {
        self.seconds += step.seconds();
        let minute = self.seconds / 60;
        let waiting = snapshot.pools.values().map(|row| row.counts.cl_waiting);
        self.waiting
            .add(text::total(waiting), snapshot.unix, minute);
        for LimitRow {
            name, scope, used, ..
        } in &snapshot.limits
        {
            let key = (*name, scope.clone());
            if self.limits.len() < LIMITS_MAX || self.limits.contains_key(&key) {
                let limit = self.limits.entry(key).or_default();
                limit.add(*used, snapshot.unix, minute);
            }
        }
        self.limits
            .retain(|_, limit| minute - limit.minute < MINUTES as u64);
    }
}

/// Highest value ever, and in each minute of the last hour.
#[derive(Debug)]
struct Highest {
    ever: Peak,
    minutes: [Peak; MINUTES],
    /// Number of the present minute.
    minute: u64,
}

impl Default for Highest {
    fn default() -> Self {
        Self {
            ever: Peak::default(),
            minutes: [Peak::default(); MINUTES],
            minute: 0,
        }
    }
}

impl Highest {
    fn add(&mut self, used: u64, at: i64, minute: u64) {
        let index = |minute: u64| usize::try_from(minute % MINUTES as u64).unwrap_or_default();
        let passed = minute.saturating_sub(self.minute).min(MINUTES as u64);
        for passed in 0..passed {
            if let Some(slot) = self.minutes.get_mut(index(minute - passed)) {
                *slot = Peak::default();
            }
        }
        self.minute = minute;
        let slot = self.minutes.get_mut(index(minute));
        for peak in slot.into_iter().chain([&mut self.ever]) {
            if used > peak.used {
                *peak = Peak { used, at };
            }
        }
    }

    fn pair(&self) -> PeakPair {
        // The first of equal peaks is the oldest only by its time: the ring begins anywhere.
        let highest = |a: Peak, b: &Peak| {
            let is_higher = b.used > a.used || (b.used == a.used && b.used > 0 && b.at < a.at);
            if is_higher { *b } else { a }
        };
        let hour = self.minutes.iter().fold(Peak::default(), highest);
        PeakPair {
            ever: self.ever,
            hour,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(peaks: &mut Peaks, unix: i64, used: u64, step: Step) {
        let row = LimitRow {
            name: "max_client_conn",
            scope: String::new(),
            used,
            max: 100,
            peak: None,
        };
        let snapshot = Snapshot {
            unix,
            limits: vec![row],
            ..Snapshot::default()
        };
        peaks.sample(&snapshot, step);
    }

    #[test]
    fn the_peak_of_the_hour_leaves_and_the_other_stays() {
        let mut peaks = Peaks::default();
        sample(&mut peaks, 1000, 90, Step::First);
        sample(&mut peaks, 1001, 40, Step::Regular(1));
        let pair = peaks.limit("max_client_conn", "").unwrap();
        assert_eq!(
            (pair.ever, pair.hour),
            (Peak { used: 90, at: 1000 }, pair.ever)
        );
        for second in 2..3_700 {
            sample(&mut peaks, 1000 + second, 40, Step::Regular(1));
        }
        let pair = peaks.limit("max_client_conn", "").unwrap();
        assert_eq!(pair.ever, Peak { used: 90, at: 1000 });
        assert_eq!(pair.hour.used, 40);
    }

    #[test]
    fn a_long_gap_empties_the_hour() {
        let mut peaks = Peaks::default();
        sample(&mut peaks, 1000, 90, Step::First);
        sample(&mut peaks, 9000, 10, Step::Gap(8000));
        let pair = peaks.limit("max_client_conn", "").unwrap();
        assert_eq!((pair.ever.used, pair.hour.used), (90, 10));
    }

    #[test]
    fn limits_are_bounded() {
        let mut peaks = Peaks::default();
        let limits = (0..2000).map(|n| LimitRow {
            name: "max_db_connections",
            scope: format!("db{n}"),
            used: 1,
            max: 2,
            peak: None,
        });
        let snapshot = Snapshot {
            limits: limits.collect(),
            ..Snapshot::default()
        };
        peaks.sample(&snapshot, Step::First);
        assert_eq!(peaks.limits.len(), LIMITS_MAX);
    }
}
