//! Received bytes, lent by the driver.

use std::fmt;
use std::ops::Deref;

/// Size of a driver's chunks, in bytes: all pending bytes for most traffic. A large result takes several chunks.
pub(crate) const CHUNK: usize = 64 * 1024;

/// Ticket for received bytes. It owns their memory until [`Driver::recycle`](super::Driver::recycle) gives it back to
/// the driver, whose memory may be registered with the kernel. A dropped ticket costs the driver a new allocation.
#[derive(Default)]
pub(crate) struct Chunk {
    memory: Box<[u8]>,
    len: usize,
}

impl Chunk {
    /// Makes an empty chunk with room for this number of bytes.
    pub(super) fn with_room(room: usize) -> Self {
        Self {
            memory: vec![0; room].into_boxed_slice(),
            len: 0,
        }
    }

    /// Makes a chunk of this memory, with bytes in its first `len`.
    pub(super) fn from_memory(memory: Box<[u8]>, len: usize) -> Self {
        Self { memory, len }
    }

    /// Returns the whole memory.
    pub(super) fn into_memory(self) -> Box<[u8]> {
        self.memory
    }

    /// True if the chunk has no memory: it was taken.
    pub(super) fn is_taken(&self) -> bool {
        self.memory.is_empty()
    }

    /// Returns the whole memory, to receive into.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Takes the chunk with its first `len` bytes; leaves one without memory.
    pub(super) fn take(&mut self, len: usize) -> Self {
        Self {
            memory: std::mem::take(&mut self.memory),
            len,
        }
    }
}

impl Deref for Chunk {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.memory.get(..self.len).unwrap_or_default()
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({} bytes)", self.len)
    }
}
