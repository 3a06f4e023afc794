//! Values of short texts, found at the cost of a hash of a few bytes and one comparison.

/// Maximum length in bytes of a text that [`Short`] keeps. Most are shorter, and comparing a longer one costs as much as scanning it.
pub const SHORT_MAX: usize = 240;

/// Number of texts that are kept; a power of two.
pub(crate) const SHORT_COUNT: usize = 32;

/// Cache of the last short text for each of a few dozen hashes. Allocates nothing while it is empty.
#[derive(Debug)]
pub struct Short<V> {
    pub(crate) slots: Vec<Slot<V>>,
}

/// A short text and its value; `None` while the slot is empty.
#[derive(Debug)]
pub(crate) struct Slot<V> {
    text: Vec<u8>,
    pub(crate) value: Option<V>,
}

impl<V> Default for Short<V> {
    fn default() -> Self {
        Self { slots: Vec::new() }
    }
}

/// Returns the slot of a text in every [`Short`]. Length, end and middle differ most between statements.
#[must_use]
pub fn slot(text: &[u8]) -> usize {
    let word = |at: usize| text.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    let word = |at| word(at).map_or(0, u64::from_le_bytes);
    let end = text.len().saturating_sub(8);
    let mixed = word(end) ^ word(end / 2).rotate_left(17) ^ text.len() as u64;
    let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(mixed).unwrap_or(0) % SHORT_COUNT
}

impl<V> Short<V> {
    /// Returns the value of the text in this slot, if that is this text.
    #[inline]
    #[must_use]
    pub fn find(&self, slot: usize, text: &[u8]) -> Option<&V> {
        let slot = self.slots.get(slot)?;
        slot.value.as_ref().filter(|_| slot.text == text)
    }

    /// Keeps the value of a text in its slot, unless the text is too long.
    pub fn keep(&mut self, slot: usize, text: &[u8], value: V) {
        if text.len() > SHORT_MAX {
            return;
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SHORT_COUNT, || Slot {
                text: Vec::new(),
                value: None,
            });
        }
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.text.clear();
            slot.text.extend_from_slice(text);
            slot.value = Some(value);
        }
    }
}
