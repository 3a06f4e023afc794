//! Access to clocks and to waiting. Except for the load generator, the lab uses no other clock.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time, for deadlines and durations.
#[expect(clippy::disallowed_methods, reason = "the one clock of the lab")]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the wall-clock time since the Unix epoch, which pgbench's log uses for its time stamps.
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

/// Calls `ready` until it returns true (result `true`) or `limit` has passed (result `false`).
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
