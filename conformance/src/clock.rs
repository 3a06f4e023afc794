//! The suite's only clock: deadlines and waiting for a condition without sleeping blindly.

use std::thread;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use anyhow::Result;
use anyhow::bail;

/// The time now. Suites run against real processes, so real time is the only time there is.
#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the conformance suites"
)]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// The calendar's time, for the dates of certificates.
#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the conformance suites"
)]
#[must_use]
pub fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Limit for what Weir does without waiting. A machine with four busy loops per core needs seconds for what takes
/// milliseconds alone. No time-out of Weir's that could be mistaken for "at once" is shorter by default: the shortest is
/// `server_connect_timeout`, 15 s.
pub const SOON: Duration = Duration::from_secs(12);

/// Polls `condition` until it holds or `limit` has passed; the error names `what` was waited for.
///
/// # Errors
/// When the limit passes, or when the condition itself fails.
pub fn wait_until(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = now() + limit;
    while !condition()? {
        if now() >= deadline {
            bail!("{what} did not happen within {limit:?}");
        }
        thread::park_timeout(Duration::from_millis(10));
    }
    Ok(())
}
