//! Turns of the event loop that last too long: everything on the worker waits meanwhile.

use rustix::time::{ClockId, clock_gettime};

/// Longest turns. Read from the coarse clock, which costs a few nanoseconds and is off by 4 ms at most.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    began_us: u64,
    /// Longest turn of the current and of the last period, in microseconds.
    longest_us: [u64; 2],
}

impl Stalls {
    #[inline]
    pub(super) fn turn_begins(&mut self) {
        self.began_us = coarse_us();
    }

    #[inline]
    pub(super) fn turn_ends(&mut self) {
        let took = coarse_us().saturating_sub(self.began_us);
        let [current, _] = &mut self.longest_us;
        *current = took.max(*current);
    }

    /// Begins another period (`stats_period`).
    pub(super) fn begin_period(&mut self) {
        let [current, _] = self.longest_us;
        self.longest_us = [0, current];
    }

    /// Returns the longest turn of this period and the last, in microseconds.
    pub(super) fn longest_us(&self) -> u64 {
        let [current, last] = self.longest_us;
        current.max(last)
    }
}

/// The rule about clocks does not apply: no decision depends on this value.
fn coarse_us() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_turn_is_known_for_two_periods() {
        let mut stalls = Stalls::default();
        stalls.turn_begins();
        stalls.began_us -= 240_000;
        stalls.turn_ends();
        assert!((240_000..10_000_000).contains(&stalls.longest_us()));
        stalls.begin_period();
        assert!(stalls.longest_us() >= 240_000, "the last period counts");
        stalls.begin_period();
        assert_eq!(stalls.longest_us(), 0);
    }
}
