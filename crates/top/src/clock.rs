//! The only place that reads the clocks.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// Time of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Time since the program began; never goes back.
    pub(crate) since: Duration,
    /// Time of day, to compare with timestamps of the console.
    pub(crate) wall: Timestamp,
}

/// Both clocks, from the same start for all threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the pure core takes times as arguments; this is where they come from"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Moment {
        Moment {
            since: self.0.elapsed(),
            wall: Timestamp::now(),
        }
    }
}
