//! Histogram of durations: a fixed array of buckets that one worker owns, so recording a duration is an addition.
//!
//! Each power of two has four buckets, from 1 microsecond to five hours. A value is known to within a quarter of
//! itself, which is enough for percentiles. The bounds that the metrics page shows are powers of two and therefore
//! bounds of buckets, so the page is exact. `hdrhistogram` would be accurate to a sixteenth at four times the memory.
//! Each pool has three histograms per worker, and three more for the period, so the difference is 25 KB.

use std::ops::{AddAssign, Sub};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Buckets per power of two.
const PARTS: usize = 4;
/// Exponent of the first power of two without a bucket of its own: values from 2^34 microseconds (five hours) on
/// share the last bucket.
const EXPONENT_MAX: u32 = 34;
/// Number of buckets: one each for 0, 1, 2 and 3, then four for each power of two.
const BUCKETS: usize = PARTS * (EXPONENT_MAX as usize - 1);

/// Histogram of durations in whole microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            sum_us: 0,
        }
    }
}

impl Histogram {
    /// Records one duration of `us` microseconds.
    #[inline]
    pub fn record(&mut self, us: u64) {
        self.record_many(us, 1);
    }

    /// Records `times` durations of `us` microseconds each.
    #[inline]
    pub fn record_many(&mut self, us: u64, times: u64) {
        // Always present: `index` returns at most the last bucket.
        if let Some(count) = self.counts.get_mut(index(us)) {
            *count = count.wrapping_add(times);
        }
        self.sum_us = self.sum_us.wrapping_add(us.wrapping_mul(times));
    }

    /// Number of recorded durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of the recorded durations in microseconds.
    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Number of durations below 2^`exponent` microseconds; exact for exponents from 2 to 33.
    #[must_use]
    pub fn below(&self, exponent: u32) -> u64 {
        let end = index(1_u64.checked_shl(exponent).unwrap_or(u64::MAX));
        self.counts.iter().take(end).sum()
    }

    /// Duration in microseconds that a share (0 to 1) of all recorded durations did not exceed; none if nothing was
    /// recorded. Values are assumed to be spread evenly within a bucket, so the result is off by less than a quarter
    /// of itself.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = rank(count, share);
        let mut before = 0;
        for (bucket, here) in self.counts.iter().enumerate() {
            if before + here >= rank {
                let (low, width) = (lower(bucket), lower(bucket + 1) - lower(bucket));
                // The middle of this rank's part of the bucket.
                let place = 2 * (rank - before) - 1;
                let offset = u128::from(width) * u128::from(place) / (2 * u128::from(*here));
                return Some(low + u64::try_from(offset).unwrap_or(width));
            }
            before += here;
        }
        None
    }
}

/// Histogram that one thread records in and any thread reads, at half the size.
#[derive(Debug)]
pub(crate) struct AtomicHistogram {
    counts: [AtomicU32; BUCKETS],
    sum_us: AtomicU64,
}

impl Default for AtomicHistogram {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU32::new(0) }; BUCKETS],
            sum_us: AtomicU64::new(0),
        }
    }
}

impl AtomicHistogram {
    /// Records one duration of `us` microseconds. Not a read-modify-write: there is one writer. A bucket counts to 2^32 - 1.
    #[inline]
    pub(crate) fn record(&self, us: u64) {
        // Always present: `index` returns at most the last bucket.
        if let Some(count) = self.counts.get(index(us)) {
            count.store(count.load(Relaxed).saturating_add(1), Relaxed);
        }
        let sum = self.sum_us.load(Relaxed).wrapping_add(us);
        self.sum_us.store(sum, Relaxed);
    }

    /// Sum of the recorded durations in microseconds.
    pub(crate) fn sum_us(&self) -> u64 {
        self.sum_us.load(Relaxed)
    }

    pub(crate) fn read(&self) -> Histogram {
        let mut histogram = Histogram::default();
        for (mine, theirs) in histogram.counts.iter_mut().zip(&self.counts) {
            *mine = u64::from(theirs.load(Relaxed));
        }
        histogram.sum_us = self.sum_us();
        histogram
    }
}

/// Rank, counted from 1, of the last duration within `share` of `count` durations.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank that is off by one in 2^53 moves no percentile"
)]
fn rank(count: u64, share: f64) -> u64 {
    let rank = (count as f64 * share.clamp(0.0, 1.0)).ceil();
    (rank as u64).clamp(1, count)
}

/// Index of the bucket that holds a value.
#[inline]
fn index(us: u64) -> usize {
    let Some(exponent) = us.checked_ilog2().filter(|exponent| *exponent >= 2) else {
        // Values 0 to 3 are their own index; this cannot truncate.
        return usize::from(us.to_le_bytes()[0]);
    };
    if exponent >= EXPONENT_MAX {
        return BUCKETS - 1;
    }
    let part = usize::from((us >> (exponent - 2)).to_le_bytes()[0] & 3);
    (exponent as usize - 1) * PARTS + part
}

/// Smallest value of a bucket.
fn lower(bucket: usize) -> u64 {
    let (doubling, part) = (bucket / PARTS, (bucket % PARTS) as u64);
    match doubling {
        0 => part,
        _ => (4 + part) << (doubling - 1),
    }
}

impl AddAssign<&Self> for Histogram {
    fn add_assign(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.wrapping_add(*theirs);
        }
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
    }
}

impl Sub for &Histogram {
    type Output = Histogram;

    fn sub(self, earlier: Self) -> Histogram {
        let mut rest = self.clone();
        for (mine, theirs) in rest.counts.iter_mut().zip(&earlier.counts) {
            *mine = mine.saturating_sub(*theirs);
        }
        rest.sum_us = rest.sum_us.saturating_sub(earlier.sum_us);
        rest
    }
}

/// Latencies of a pool, as its clients see them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// Waits for a server, including those that ended without one.
    pub wait: Histogram,
    /// Transactions, from the lease of the server on.
    pub transaction: Histogram,
    /// Queries, from the request to the end of its answer. Each of several pipelined queries counts the time until
    /// its own answer arrived.
    pub query: Histogram,
}

impl AddAssign<&Self> for Times {
    fn add_assign(&mut self, other: &Self) {
        self.wait += &other.wait;
        self.transaction += &other.transaction;
        self.query += &other.query;
    }
}

impl Sub for &Times {
    type Output = Times;

    fn sub(self, earlier: Self) -> Times {
        Times {
            wait: &self.wait - &earlier.wait,
            transaction: &self.transaction - &earlier.transaction,
            query: &self.query - &earlier.query,
        }
    }
}

/// Three percentiles in microseconds; all zero if nothing was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// Median.
    pub p50_us: u64,
    /// 95th percentile.
    pub p95_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
}

impl From<&Histogram> for Percentiles {
    fn from(histogram: &Histogram) -> Self {
        let of = |share| histogram.percentile(share).unwrap_or_default();
        Self {
            p50_us: of(0.5),
            p95_us: of(0.95),
            p99_us: of(0.99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        for bucket in 0..BUCKETS {
            assert_eq!(index(lower(bucket)), bucket, "the first of bucket {bucket}");
            let next = lower(bucket + 1);
            let last = index(next - 1);
            assert_eq!(last, bucket, "the last of bucket {bucket}");
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn powers_of_two_are_exact_bounds() {
        let mut times = Histogram::default();
        for us in [0, 3, 4, 7, 8, 1023, 1024, 1025, u64::MAX] {
            times.record(us);
        }
        let below = [2, 3, 10, 11, 33].map(|exponent| times.below(exponent));
        assert_eq!(below, [2, 4, 6, 8, 8]);
        assert_eq!(times.count(), 9);
    }

    #[test]
    fn percentiles_are_within_a_quarter() {
        let mut times = Histogram::default();
        (1..=10_000).for_each(|us| times.record(us));
        let Percentiles {
            p50_us,
            p95_us,
            p99_us,
        } = Percentiles::from(&times);
        for (found, real) in [(p50_us, 5000), (p95_us, 9500), (p99_us, 9900_u64)] {
            assert!(found.abs_diff(real) < real / 4, "{found} for {real}");
        }
        assert_eq!(times.sum_us(), 50_005_000);
    }

    #[test]
    fn one_slow_one_of_a_hundred_is_not_the_percentile() {
        let mut times = Histogram::default();
        times.record_many(3, 99);
        times.record(1_000_000);
        assert_eq!(Percentiles::from(&times).p99_us, 3);
        times.record(1_000_000);
        assert!(Percentiles::from(&times).p99_us > 900_000);
    }

    #[test]
    fn nothing_has_no_percentile() {
        assert_eq!(Histogram::default().percentile(0.5), None);
    }

    #[test]
    fn a_period_is_what_came_since() {
        let mut before = Times::default();
        before.query.record(10);
        let mut now = before.clone();
        now.query.record(1000);
        let mut period = &now - &before;
        assert_eq!((period.query.count(), period.query.sum_us()), (1, 1000));
        period += &before;
        assert_eq!(period, now);
    }

    /// Measures the figure that docs/internals/metrics.md gives; not a check of the machine.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "measures a record")]
    fn a_record_takes_nanoseconds() {
        const RECORDS: u32 = 1_000_000;
        let mut times = Histogram::default();
        let start = std::time::Instant::now();
        for i in 0..RECORDS {
            times.record(std::hint::black_box(u64::from(i) & 0xffff));
        }
        let each = start.elapsed() / RECORDS * 10;
        println!("ten records take {each:?}");
        assert_eq!(times.count(), u64::from(RECORDS));
    }
}
