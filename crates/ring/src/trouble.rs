//! Trouble by dice, for tests: what a kernel may do and rarely does.

/// Source of trouble: short sends, receives that end without being asked to, no buffers or
/// other ones, interrupted waits.
#[derive(Debug, Clone)]
pub struct Trouble {
    state: u64,
    /// Receives that may be ended.
    receives: Vec<u64>,
}

impl Trouble {
    /// Makes trouble that follows from this number.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed,
            receives: Vec::new(),
        }
    }

    /// True once in `times` on average (splitmix64).
    fn strikes(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    /// Length of a send of `len` bytes.
    pub(crate) fn send_len(&mut self, len: u32) -> u32 {
        if len > 1 && self.strikes(4) {
            return u32::try_from(1 + self.below(u64::from(len - 1))).unwrap_or(len);
        }
        len
    }

    /// Notes a receive.
    pub(crate) fn note_receive(&mut self, number: u64) {
        if self.receives.len() >= 64 {
            self.receives.clear();
        }
        self.receives.push(number);
    }

    /// Returns a receive that is to end now.
    pub(crate) fn ends_receive(&mut self) -> Option<u64> {
        if self.receives.is_empty() || !self.strikes(8) {
            return None;
        }
        let at = self.below(self.receives.len() as u64);
        Some(self.receives.swap_remove(usize::try_from(at).unwrap_or(0)))
    }

    /// Number of buffers to give the kernel instead of `count`.
    pub(crate) fn buffers(&mut self, count: usize) -> usize {
        match self.below(6) {
            0 => 1,
            1 => count.min(3),
            _ => count,
        }
    }

    /// True if the kernel is to get other buffers.
    pub(crate) fn renews(&mut self) -> bool {
        self.strikes(2)
    }

    /// True if a wait is to be interrupted.
    pub(crate) fn interrupts(&mut self) -> bool {
        self.strikes(16)
    }
}
