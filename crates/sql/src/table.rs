//! A table with an entry for every byte.

/// Table with an entry for every byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerByte<T>([T; 256]);

impl<T: Copy> PerByte<T> {
    pub(crate) const fn new(entries: [T; 256]) -> Self {
        Self(entries)
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "every byte has an entry")]
    pub(crate) const fn at(&self, byte: u8) -> T {
        self.0[byte as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "every byte has an entry")]
    pub(crate) const fn set(&mut self, byte: u8, entry: T) {
        self.0[byte as usize] = entry;
    }
}
