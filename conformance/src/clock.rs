//! Clock of the suite: deadlines, and waiting for conditions without blind sleeps.

use std::thread;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use anyhow::Result;
use anyhow::bail;

/// Current time. Suites run against real processes, so they use real time.
#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the conformance suites"
)]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Calendar time, for the dates of certificates.
#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the conformance suites"
)]
#[must_use]
pub fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Time limit for actions that Weir takes without waiting. A machine with four busy loops per core needs seconds for
/// what takes milliseconds on an idle one. Weir's default time-outs are all longer, so none is mistaken for an
/// immediate action: the shortest is `server_connect_timeout`, 15 s.
pub const SOON: Duration = Duration::from_secs(12);

/// Polls `condition` until it holds or `limit` has passed; the error names `what`.
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
