//! Clock of the load generator.

use std::time::Instant;

/// Returns the current time.
#[expect(
    clippy::disallowed_methods,
    reason = "a load generator measures time; nothing else of it reads the clock"
)]
#[inline]
pub(super) fn now() -> Instant {
    Instant::now()
}
