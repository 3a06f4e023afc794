//! Virtual time, which advances only when a test says so.

/// Clock that counts microseconds since the test began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct VirtualClock(u64);

impl VirtualClock {
    /// Microseconds since the beginning.
    pub fn now_us(self) -> u64 {
        self.0
    }

    /// Advances the time and returns the new time. Saturates at the maximum instead of wrapping.
    pub fn advance_us(&mut self, us: u64) -> u64 {
        self.0 = self.0.saturating_add(us);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_only_when_told_and_never_wraps() {
        let mut clock = VirtualClock::default();
        assert_eq!(clock.now_us(), 0);
        assert_eq!(clock.advance_us(7), 7);
        assert_eq!(clock.advance_us(u64::MAX), u64::MAX);
    }
}
