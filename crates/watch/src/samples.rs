//! Samples of the primary's WAL position: a bounded ring of (time, position), and the questions that freshness and lag
//! ask of it.

use std::collections::VecDeque;
use std::time::Duration;

use weir_pool::Moment;

use crate::answer::Lsn;

/// Maximum number of samples. Older ones are thinned out, so that their distance grows with their age.
const SAMPLES_MAX: usize = 256;

/// Size of a WAL page. PostgreSQL builds with other sizes lose only the tolerance of [`Samples::age`].
const PAGE: u64 = 8192;

/// Position of the primary at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Time before the probe was sent: every commit acknowledged before is below `lsn`.
    pub(crate) sent: Moment,
    pub(crate) lsn: Lsn,
}

/// Age of what a replica has replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// The replica has replayed less than the oldest sample. It is older than this.
    AtLeast(Duration),
    /// Time since the newest sample that the replica has replayed; zero if that is the newest of all.
    Exactly(Duration),
    /// No sample exists.
    Unknown,
}

/// Samples of one life of one primary, oldest first. Times and positions grow strictly.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    ring: VecDeque<Sample>,
}

impl Samples {
    /// Adds a sample. An older one at the same position has no use any more. A position that went back makes all
    /// earlier samples worthless.
    pub(crate) fn push(&mut self, sample: Sample) {
        match self.ring.back() {
            Some(last) if last.sent >= sample.sent => return,
            Some(last) if last.lsn > sample.lsn => self.ring.clear(),
            Some(last) if last.lsn == sample.lsn => drop(self.ring.pop_back()),
            _ => {}
        }
        if self.ring.len() >= SAMPLES_MAX {
            self.thin(sample.sent);
        }
        self.ring.push_back(sample);
    }

    /// Removes the sample whose loss costs least: the gap that it leaves is smallest compared with its age. The oldest
    /// and the newest stay. Freshness and lag then err on the safe side.
    fn thin(&mut self, now: Moment) {
        let (before, after) = (self.ring.iter(), self.ring.iter().skip(2));
        let cost = before.zip(after).map(|(before, after)| {
            let (gap, age) = (after.sent.since(before.sent), now.since(before.sent));
            gap.as_micros() * 1_000_000 / age.as_micros().max(1)
        });
        let least = cost.enumerate().min_by_key(|(_, cost)| *cost);
        if let Some((before, _)) = least {
            self.ring.remove(before + 1);
        }
    }

    pub(crate) fn newest(&self) -> Option<Sample> {
        self.ring.back().copied()
    }

    /// Returns the oldest sample that was sent after a time: its position is above every commit that was acknowledged
    /// until then.
    pub(crate) fn after(&self, time: Moment) -> Option<Sample> {
        let at = self.ring.partition_point(|sample| sample.sent <= time);
        self.ring.get(at).copied()
    }

    /// Returns the newest sample whose position a replica has replayed.
    pub(crate) fn replayed(&self, replayed: Lsn) -> Option<Sample> {
        let after = self.ring.partition_point(|sample| sample.lsn <= replayed);
        self.ring.get(after.checked_sub(1)?).copied()
    }

    /// Returns the age of what a replica has replayed.
    ///
    /// A primary flushes whole pages of WAL, so its flush position may lie inside of a record that is not written to its
    /// end, for up to 15 s while no session commits. No replica can replay such a record. If the newest position is the
    /// end of a page, a replica that has received it counts as current within two pages.
    pub(crate) fn age(&self, now: Moment, replayed: Lsn, received: Option<Lsn>) -> Age {
        let Some(newest) = self.newest() else {
            return Age::Unknown;
        };
        let is_page_end = newest.lsn.0.is_multiple_of(PAGE);
        let has_received = received.is_some_and(|received| received >= newest.lsn);
        let is_near = newest.lsn.since(replayed) <= 2 * PAGE;
        if replayed >= newest.lsn || is_page_end && has_received && is_near {
            return Age::Exactly(Duration::ZERO);
        }
        let oldest = self.ring.front().copied().unwrap_or(newest);
        self.replayed(replayed).map_or_else(
            || Age::AtLeast(now.since(oldest.sent)),
            |sample| Age::Exactly(now.since(sample.sent)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(list: &[(u64, u64)]) -> Samples {
        let mut samples = Samples::default();
        for &(sent, lsn) in list {
            samples.push(Sample {
                sent: Moment(sent),
                lsn: Lsn(lsn),
            });
        }
        samples
    }

    fn fresh(samples: &Samples, replayed: u64) -> Option<u64> {
        samples.replayed(Lsn(replayed)).map(|sample| sample.sent.0)
    }

    #[test]
    fn the_newest_replayed_sample_bounds_the_commits() {
        let samples = samples(&[(10, 100), (20, 200), (30, 300)]);
        assert_eq!(fresh(&samples, 99), None);
        assert_eq!(fresh(&samples, 100), Some(10));
        assert_eq!(fresh(&samples, 299), Some(20));
        assert_eq!(fresh(&samples, 1000), Some(30));
    }

    #[test]
    fn the_first_sample_after_a_commit_is_above_it() {
        let samples = samples(&[(10, 100), (20, 200), (30, 300)]);
        let after = |time| samples.after(Moment(time)).map(|sample| sample.lsn.0);
        assert_eq!(after(0), Some(100));
        assert_eq!(after(10), Some(200));
        assert_eq!(after(19), Some(200));
        assert_eq!(after(20), Some(300));
        assert_eq!(after(30), None);
    }

    #[test]
    fn an_idle_primary_needs_one_sample_and_gives_no_lag() {
        let mut samples = samples(&[(10, 100)]);
        for sent in 11..5000 {
            samples.push(Sample {
                sent: Moment(sent),
                lsn: Lsn(100),
            });
        }
        assert_eq!(samples.ring.len(), 1);
        assert_eq!(fresh(&samples, 100), Some(4999));
        let age = samples.age(Moment(1_000_000), Lsn(100), None);
        assert_eq!(age, Age::Exactly(Duration::ZERO));
    }

    #[test]
    fn late_samples_are_ignored_and_a_position_that_goes_back_empties_the_ring() {
        let mut samples = samples(&[(10, 100), (20, 200), (15, 150), (20, 210)]);
        assert_eq!(samples.ring.len(), 2);
        samples.push(Sample {
            sent: Moment(30),
            lsn: Lsn(50),
        });
        assert_eq!(samples.ring.len(), 1);
        assert_eq!(fresh(&samples, 50), Some(30));
    }

    #[test]
    fn lag_is_counted_from_the_last_replayed_sample() {
        let samples = samples(&[(10, 100), (20, 200), (30, 300)]);
        let age = |replayed| samples.age(Moment(50), Lsn(replayed), None);
        assert_eq!(age(300), Age::Exactly(Duration::ZERO));
        assert_eq!(age(250), Age::Exactly(Duration::from_micros(30)));
        assert_eq!(age(50), Age::AtLeast(Duration::from_micros(40)));
        assert_eq!(
            Samples::default().age(Moment(50), Lsn(50), None),
            Age::Unknown
        );
    }

    #[test]
    fn a_record_that_is_half_flushed_is_no_lag() {
        let (end, replayed) = (Lsn(3 * PAGE), Lsn(3 * PAGE - 300));
        let samples = samples(&[(10, PAGE), (20, end.0)]);
        let age = |received| samples.age(Moment(50), replayed, received);
        assert_eq!(age(Some(end)), Age::Exactly(Duration::ZERO));
        assert_eq!(age(Some(replayed)), Age::Exactly(Duration::from_micros(40)));
        assert_eq!(age(None), Age::Exactly(Duration::from_micros(40)));
        // Freshness has no tolerance.
        assert_eq!(fresh(&samples, replayed.0), Some(10));
        let far = samples.age(Moment(50), Lsn(PAGE - 1), Some(end));
        assert_eq!(far, Age::AtLeast(Duration::from_micros(40)));
    }

    #[test]
    fn the_ring_is_bounded_and_keeps_its_ends() {
        let mut samples = Samples::default();
        for step in 1..=100_000 {
            samples.push(Sample {
                sent: Moment(step),
                lsn: Lsn(step * 10),
            });
            assert!(samples.ring.len() <= SAMPLES_MAX);
        }
        assert_eq!(fresh(&samples, 10), Some(1));
        assert_eq!(fresh(&samples, 999_990), Some(99_999));
        // Never newer than what was replayed, and not absurdly older.
        for step in (1..=100_000).step_by(997) {
            let found = fresh(&samples, step * 10).unwrap();
            assert!(found <= step, "{found} > {step}");
        }
        // The error is a small part of the age.
        for age in [10, 100, 1000, 10_000, 50_000] {
            let found = fresh(&samples, (100_000 - age) * 10).unwrap();
            assert!(found >= 100_000 - age - age / 4 - 1, "{found} for {age}");
        }
    }
}
