//! The load generator's only clock.

use std::time::Instant;

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "a load generator measures time; nothing else of it reads the clock"
)]
#[inline]
pub(super) fn now() -> Instant {
    Instant::now()
}
