//! Schedule of an open loop, independent of the target. A time that has passed is still given out, so that late
//! transactions are measured and not left out.

use std::time::{Duration, Instant};

use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;

use crate::load::plan::Pace;

/// Schedule of one thread.
#[derive(Debug)]
pub(super) struct Schedule {
    start: Instant,
    /// End of the schedule; times from then on are not given out.
    end: Instant,
    share: Share,
    per_second: f64,
    /// Next time, in seconds after `start`.
    next_s: f64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Number of this thread's next time. Times of all threads together are numbered from 0.
    Fixed(u64),
    Poisson(Xoshiro256PlusPlus),
}

/// Share of a thread in the load: clients are dealt out to threads in turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Number of the thread, from 0.
    pub(super) thread: u32,
    /// Number of threads, at most that of clients.
    pub(super) threads: u32,
    /// Number of clients of all threads.
    pub(super) clients: u32,
}

impl Share {
    /// True if the time with this number belongs to this thread. Times are dealt out to clients in turn.
    fn has(self, number: u64) -> bool {
        let client = number % u64::from(self.clients);
        client % u64::from(self.threads) == u64::from(self.thread)
    }

    /// Returns the number of this thread's clients.
    fn clients(self) -> u32 {
        (self.clients - self.thread).div_ceil(self.threads)
    }
}

impl Schedule {
    /// Creates a schedule; `None` in a closed loop.
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
        let kind = match is_random {
            false => Kind::Fixed(u64::from(share.thread)),
            true => {
                // Distant from the clients' seeds, which count up.
                let seed = seed ^ (u64::from(share.thread) + 1).rotate_right(16);
                Kind::Poisson(Xoshiro256PlusPlus::seed_from_u64(seed))
            }
        };
        let mut schedule = Self {
            start,
            end,
            share,
            per_second,
            next_s: f64::from(share.thread) / per_second,
            kind,
        };
        if is_random {
            schedule.next_s = 0.0;
            schedule.advance();
        }
        Some(schedule)
    }

    /// Returns the next intended start; `None` after the last.
    pub(super) fn next(&self) -> Option<Instant> {
        let at = self.start + Duration::from_secs_f64(self.next_s);
        (at < self.end).then_some(at)
    }

    /// Takes the next intended start, if it has come.
    pub(super) fn take(&mut self, now: Instant) -> Option<Instant> {
        let at = self.next().filter(|at| *at <= now)?;
        self.advance();
        Some(at)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "numbers of transactions are far below 2^53"
    )]
    fn advance(&mut self) {
        let share = self.share;
        match &mut self.kind {
            Kind::Fixed(number) => {
                *number += 1;
                while !share.has(*number) {
                    *number += 1;
                }
                self.next_s = *number as f64 / self.per_second;
            }
            Kind::Poisson(random) => {
                let part = f64::from(share.clients()) / f64::from(share.clients);
                // An exponentially distributed gap; the drawn number is below 1.
                let gap = -(1.0 - random.random::<f64>()).ln();
                self.next_s += gap / (self.per_second * part);
            }
        }
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
        // Far in the future: no time is skipped.
        std::iter::from_fn(|| schedule.take(end))
            .map(|at| (at - start).as_secs_f64())
            .collect()
    }

    const HALF: Share = Share {
        thread: 1,
        threads: 2,
        clients: 2,
    };
    const ALL: Share = Share {
        thread: 0,
        threads: 1,
        clients: 1,
    };

    #[test]
    fn two_threads_take_turns() {
        let pace = Pace::Fixed { per_second: 4.0 };
        let first = Share { thread: 0, ..HALF };
        assert_eq!(times(pace, first, 0, 2.0), [0.0, 0.5, 1.0, 1.5]);
        assert_eq!(times(pace, HALF, 0, 2.0), [0.25, 0.75, 1.25, 1.75]);
    }

    #[test]
    fn threads_with_unequal_shares_have_all_times_between_them() {
        let pace = Pace::Fixed { per_second: 8.0 };
        let of = |thread: u32| {
            let share = Share {
                thread,
                threads: 3,
                clients: 5,
            };
            times(pace, share, 0, 2.0)
        };
        assert_eq!(of(2), [0.25, 0.875, 1.5]);
        let mut all = [of(0), of(1), of(2)].concat();
        all.sort_by(f64::total_cmp);
        let expected: Vec<f64> = (0..16).map(|number| f64::from(number) / 8.0).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn a_poisson_schedule_has_its_rate_and_its_spread() {
        let pace = Pace::Poisson { per_second: 1000.0 };
        let times = times(pace, ALL, 3, 50.0);
        let count = f64::from(u32::try_from(times.len()).unwrap());
        // Five standard deviations.
        assert!(
            (count - 50_000.0).abs() < 5.0 * 50_000_f64.sqrt(),
            "{count}"
        );
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
