//! When transactions are to begin in open loop. It goes its way whatever the target does: a time that has passed is
//! still given out, so that what was late is measured and not left out.

use std::time::{Duration, Instant};

use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;

use crate::load::plan::Pace;

/// The times of one thread.
#[derive(Debug)]
pub(super) struct Schedule {
    start: Instant,
    /// Times from then on are not given out.
    end: Instant,
    /// Seconds between two, on the average.
    gap_s: f64,
    /// Seconds after `start` of the next.
    next_s: f64,
    /// Of a Poisson process.
    random: Option<Xoshiro256PlusPlus>,
}

/// Which part of the load a thread has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Of the thread, from 0.
    pub(super) thread: u32,
    /// Its clients over all clients.
    pub(super) part: f64,
}

impl Schedule {
    /// Absent in closed loop.
    pub(super) fn new(
        pace: Pace,
        share: Share,
        seed: u64,
        between: (Instant, Instant),
    ) -> Option<Self> {
        let (start, end) = between;
        let (per_second, is_random) = match pace {
            Pace::Closed | Pace::Idle => return None,
            Pace::Fixed { per_second } => (per_second, false),
            Pace::Poisson { per_second } => (per_second, true),
        };
        let mut schedule = Self {
            start,
            end,
            gap_s: 1.0 / (per_second * share.part),
            // Threads take turns.
            next_s: f64::from(share.thread) / per_second,
            random: None,
        };
        if is_random {
            // Far from the seeds of clients, which count up.
            let seed = seed ^ (u64::from(share.thread) + 1).rotate_right(16);
            schedule.random = Some(Xoshiro256PlusPlus::seed_from_u64(seed));
            schedule.next_s = 0.0;
            schedule.advance();
        }
        Some(schedule)
    }

    /// When the next one is to begin; `None` when the last was given out.
    pub(super) fn next(&self) -> Option<Instant> {
        let at = self.start + Duration::from_secs_f64(self.next_s);
        (at < self.end).then_some(at)
    }

    /// The next one, if its time has come.
    pub(super) fn take(&mut self, now: Instant) -> Option<Instant> {
        let at = self.next().filter(|at| *at <= now)?;
        self.advance();
        Some(at)
    }

    fn advance(&mut self) {
        let factor = match &mut self.random {
            None => 1.0,
            // An exponentially distributed gap; the drawn number is below 1.
            Some(random) => -(1.0 - random.random::<f64>()).ln(),
        };
        self.next_s += self.gap_s * factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::clock;

    fn times(pace: Pace, share: Share, seed: u64, seconds: f64) -> Vec<f64> {
        let start = clock::now();
        let end = start + Duration::from_secs_f64(seconds);
        let mut schedule = Schedule::new(pace, share, seed, (start, end)).unwrap();
        // Long past: nothing is skipped.
        std::iter::from_fn(|| schedule.take(end))
            .map(|at| (at - start).as_secs_f64())
            .collect()
    }

    const HALF: Share = Share {
        thread: 1,
        part: 0.5,
    };
    const ALL: Share = Share {
        thread: 0,
        part: 1.0,
    };

    #[test]
    fn two_threads_take_turns() {
        let pace = Pace::Fixed { per_second: 4.0 };
        let first = Share { thread: 0, ..HALF };
        assert_eq!(times(pace, first, 0, 2.0), [0.0, 0.5, 1.0, 1.5]);
        assert_eq!(times(pace, HALF, 0, 2.0), [0.25, 0.75, 1.25, 1.75]);
    }

    #[test]
    fn a_poisson_schedule_has_its_rate_and_its_spread() {
        let pace = Pace::Poisson { per_second: 1000.0 };
        let times = times(pace, ALL, 3, 50.0);
        let count = f64::from(u32::try_from(times.len()).unwrap());
        // Five standard deviations.
        assert!((count - 50_000.0).abs() < 5.0 * 50_000_f64.sqrt(), "{count}");
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let long = gaps.iter().filter(|gap| **gap > 0.001).count();
        let part = f64::from(u32::try_from(long).unwrap()) / count;
        assert!((part - (-1.0_f64).exp()).abs() < 0.02, "{part}");
    }

    #[test]
    fn a_schedule_is_repeated_by_its_seed_and_not_shared_by_threads() {
        let pace = Pace::Poisson { per_second: 100.0 };
        assert_eq!(times(pace, HALF, 3, 1.0), times(pace, HALF, 3, 1.0));
        assert_ne!(times(pace, HALF, 3, 1.0), times(pace, HALF, 4, 1.0));
        let other = Share { thread: 0, ..HALF };
        assert_ne!(times(pace, HALF, 3, 1.0), times(pace, other, 3, 1.0));
    }

    #[test]
    fn nothing_is_given_out_before_its_time() {
        let start = clock::now();
        let between = (start, start + Duration::from_secs(1));
        let pace = Pace::Fixed { per_second: 10.0 };
        let mut schedule = Schedule::new(pace, ALL, 0, between).unwrap();
        assert_eq!(schedule.take(start), Some(start));
        assert_eq!(schedule.take(start), None);
        assert_eq!(schedule.next(), Some(start + Duration::from_millis(100)));
    }
}
