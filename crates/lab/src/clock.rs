//! The only place of the lab that reads a clock or waits for time to pass.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time, for deadlines and durations.
#[expect(clippy::disallowed_methods, reason = "the one clock of the lab")]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Wall-clock time since the epoch: pgbench's log is stamped with it.
#[expect(clippy::disallowed_methods, reason = "the one clock of the lab")]
#[must_use]
pub fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Blocks for at most `time`; may return early.
pub fn pause(time: Duration) {
    thread::park_timeout(time);
}

/// Asks `ready` again and again until it says yes (`true`) or `limit` has passed (`false`).
pub fn poll_until(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let deadline = now() + limit;
    loop {
        if ready() {
            return true;
        }
        if now() >= deadline {
            return false;
        }
        pause(Duration::from_millis(10));
    }
}
