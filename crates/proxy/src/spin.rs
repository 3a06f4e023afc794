//! CPU time that each transaction wastes, on request, in test builds (feature `debug-spin`): benchmarks must notice it.
//! A release has none of it.

use std::sync::LazyLock;
use std::time::Duration;

use crate::clock::Clock;

const VARIABLE: &str = "WEIR_DEBUG_SPIN_US";

static TIME: LazyLock<Duration> = LazyLock::new(|| {
    let asked = std::env::var(VARIABLE).ok();
    Duration::from_micros(
        asked
            .and_then(|micros| micros.parse().ok())
            .unwrap_or_default(),
    )
});

/// Logs a warning if transactions waste CPU time.
pub(crate) fn warn() {
    if !TIME.is_zero() {
        let micros = TIME.as_micros();
        tracing::warn!("{VARIABLE}: every transaction wastes {micros} us of CPU time");
    }
}

/// Spins for the time that `WEIR_DEBUG_SPIN_US` names.
pub(crate) fn waste(clock: Clock) {
    if TIME.is_zero() {
        return;
    }
    let end = clock.now().plus(*TIME);
    while clock.now() < end {
        std::hint::spin_loop();
    }
}
