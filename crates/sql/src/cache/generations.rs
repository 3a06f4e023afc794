//! Values by text, of which the recently used ones are kept.

use std::collections::HashMap;

/// Maximum number of texts, and of their bytes, in each of the two generations.
pub(super) const TEXTS_MAX: usize = 512;
pub(super) const BYTES_MAX: usize = 512 * 1024;

/// Maximum length of a text that is kept.
pub(super) const TEXT_MAX: usize = 32 * 1024;

/// Cache of values by text: at most 1024, for 1 MiB of text. Allocates nothing while it is empty.
#[derive(Debug)]
pub(super) struct Generations<V> {
    /// Recently used values. When the map is full, it becomes `old`, and the previous `old` is dropped. A hit in `old`
    /// moves the value back.
    pub(super) young: HashMap<Box<[u8]>, V>,
    pub(super) old: HashMap<Box<[u8]>, V>,
    /// Bytes of text in `young`.
    pub(super) young_bytes: usize,
}

impl<V> Default for Generations<V> {
    fn default() -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            young_bytes: 0,
        }
    }
}

impl<V: Clone> Generations<V> {
    /// Returns the value of a text, if it is kept.
    pub(super) fn find(&mut self, text: &[u8]) -> Option<V> {
        if let Some(value) = self.young.get(text) {
            return Some(value.clone());
        }
        let (text, value) = self.old.remove_entry(text)?;
        self.insert(text, &value);
        Some(value)
    }

    /// Keeps the value of a text, unless the text is too long.
    pub(super) fn keep(&mut self, text: &[u8], value: &V) {
        if text.len() <= TEXT_MAX {
            self.insert(text.into(), value);
        }
    }

    fn insert(&mut self, text: Box<[u8]>, value: &V) {
        if self.young.len() >= TEXTS_MAX || self.young_bytes + text.len() > BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += text.len();
        self.young.insert(text, value.clone());
    }
}
