//! Burdens of test builds, on request (feature `debug-spin`): CPU time that each transaction wastes, which benchmarks must
//! notice, and trouble in the ring. A release has none of it.

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

/// Variable whose number makes trouble in the rings.
const TROUBLE: &str = "WEIR_DEBUG_RING_TROUBLE";

/// Makes the rings small and full of trouble, if the environment asks for it.
pub(crate) fn trouble(sizes: &mut weir_ring::Options) {
    let seed = std::env::var(TROUBLE)
        .ok()
        .and_then(|seed| seed.parse().ok());
    if let Some(seed) = seed {
        tracing::warn!("{TROUBLE}: the rings make trouble");
        sizes.operations = 16;
        sizes.completions = 32;
        sizes.small.len = 2048;
        sizes.small.first = 4;
        sizes.large.len = 4096;
        sizes.trouble = Some(weir_ring::Trouble::new(seed));
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
