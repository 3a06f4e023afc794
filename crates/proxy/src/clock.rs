//! The only place that reads clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_pool::Moment;

/// Clock of the process: monotonic microseconds since it was made, and the wall clock for people to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
    start_unix_us: u64,
    /// Time that a test has set, in microseconds.
    #[cfg(test)]
    hands: Option<&'static std::sync::atomic::AtomicU64>,
}

/// Returns the wall-clock time, which may jump. Dates of certificates and of passwords are compared with it.
#[expect(
    clippy::disallowed_methods,
    reason = "the one module that reads clocks"
)]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// Returns the microseconds of the machine's monotonic clock, which all processes share.
pub(crate) fn machine_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default() / 1_000
}

impl Clock {
    /// Starts counting. `Moment(0)` means "never yet" to the pool, so counting starts a second after it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one module that reads clocks"
    )]
    pub(crate) fn new() -> Self {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let start_unix_us = u64::try_from(unix.as_micros()).unwrap_or_default();
        Self {
            start: Instant::now(),
            start_unix_us,
            #[cfg(test)]
            hands: None,
        }
    }

    /// Returns a clock that shows the time set by a test, in microseconds.
    #[cfg(test)]
    pub(crate) fn set_by(hands: &'static std::sync::atomic::AtomicU64) -> Self {
        Self {
            hands: Some(hands),
            ..Self::new()
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one module that reads clocks"
    )]
    pub(crate) fn now(self) -> Moment {
        #[cfg(test)]
        if let Some(hands) = self.hands {
            return Moment(hands.load(std::sync::atomic::Ordering::Relaxed));
        }
        let elapsed = Instant::now().duration_since(self.start).as_micros();
        Moment(
            u64::try_from(elapsed)
                .unwrap_or(u64::MAX)
                .saturating_add(1_000_000),
        )
    }

    /// Unix seconds of a moment.
    pub(crate) fn unix_seconds(self, moment: Moment) -> u64 {
        (self.start_unix_us + moment.0.saturating_sub(1_000_000)) / 1_000_000
    }
}
