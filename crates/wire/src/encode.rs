//! Encoders: each appends one message to the caller's buffer, or fails and leaves the buffer unchanged.
//!
//! A length is always computed with checks and compared with the reader's limit. It never wraps (hazard SEC-20), and no
//! string contains a NUL that would end it early (hazard SEC-29).

mod backend;
mod frontend;

pub use backend::*;
pub use frontend::*;

use crate::frame::{HEADER_LEN, Side, length_max};

/// Reason for which a message cannot be written. The buffer is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The message would be longer than its reader accepts.
    #[error("message is too long")]
    TooLong,
    /// A string holds a NUL, which would end it early.
    #[error("string contains a NUL byte")]
    EmbeddedNul,
    /// A parameter name, list entry or field code is empty, which would end its list early.
    #[error("list entry is empty")]
    EmptyEntry,
    /// There are more columns or options than the message's count can hold.
    #[error("too many entries in a message")]
    TooManyEntries,
    /// The cancel key is not 4 to 256 bytes long.
    #[error("cancel key has an invalid length")]
    BadKeyLength,
}

/// Returns the length word of a message whose body has parts of these lengths: 4 plus their sum.
///
/// # Errors
/// [`EncodeError::TooLong`] if the sum does not fit into the signed 32 bits of the protocol.
pub fn checked_len(parts: impl Iterator<Item = usize>) -> Result<i32, EncodeError> {
    let mut total: usize = 4;
    for part in parts {
        total = total.checked_add(part).ok_or(EncodeError::TooLong)?;
    }
    i32::try_from(total).map_err(|_| EncodeError::TooLong)
}

/// Body that is being written behind its length word.
pub(crate) struct Body<'b> {
    buf: &'b mut Vec<u8>,
    /// Offset in `buf` of the length word, so `start + 4 <= buf.len()`.
    start: usize,
    /// Largest length word allowed.
    max: u32,
}

impl Body<'_> {
    /// Appends bytes. Checks the limit before it copies, so an oversized part costs no memory.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.len_with(bytes.len())?;
        self.buf.extend_from_slice(bytes);
        Ok(())
    }

    fn cstr(&mut self, string: &[u8]) -> Result<(), EncodeError> {
        if string.contains(&0) {
            return Err(EncodeError::EmbeddedNul);
        }
        self.bytes(string)?;
        self.bytes(&[0])
    }

    /// Appends an entry of a list that an empty string ends.
    fn entry(&mut self, string: &[u8]) -> Result<(), EncodeError> {
        if string.is_empty() {
            Err(EncodeError::EmptyEntry)
        } else {
            self.cstr(string)
        }
    }

    fn u32(&mut self, number: u32) -> Result<(), EncodeError> {
        self.bytes(&number.to_be_bytes())
    }

    fn i32(&mut self, number: i32) -> Result<(), EncodeError> {
        self.bytes(&number.to_be_bytes())
    }

    fn i16(&mut self, number: i16) -> Result<(), EncodeError> {
        self.bytes(&number.to_be_bytes())
    }

    /// Returns the length word as if `more` bytes followed those written.
    fn len_with(&self, more: usize) -> Result<i32, EncodeError> {
        let written = self.buf.len().saturating_sub(self.start + 4);
        let len = checked_len([written, more].into_iter())?;
        if len.unsigned_abs() > self.max {
            Err(EncodeError::TooLong)
        } else {
            Ok(len)
        }
    }

    /// Fills in the length word; the caller writes `more` bytes behind the body.
    fn finish(&mut self, more: usize) -> Result<(), EncodeError> {
        let len = self.len_with(more)?;
        let word = self
            .buf
            .get_mut(self.start..)
            .and_then(|tail| tail.first_chunk_mut::<4>());
        *word.expect("the length word was reserved when the message began") = len.to_be_bytes();
        Ok(())
    }
}

/// Writes a message without a tag; its length word may be at most `max`.
fn untagged(
    buf: &mut Vec<u8>,
    max: u32,
    write: impl FnOnce(&mut Body<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = buf.len();
    buf.extend_from_slice(&[0; 4]);
    let mut body = Body { buf, start, max };
    let result = write(&mut body).and_then(|()| body.finish(0));
    if result.is_err() {
        buf.truncate(start);
    }
    result
}

/// Writes a message of `side`. The caller writes the last `more` bytes of its body.
fn tagged(
    buf: &mut Vec<u8>,
    side: Side,
    tag: u8,
    more: usize,
    write: impl FnOnce(&mut Body<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = buf.len();
    buf.extend_from_slice(&[tag, 0, 0, 0, 0]);
    debug_assert_eq!(buf.len() - start, HEADER_LEN, "tag and length word");
    let mut body = Body {
        buf,
        start: start + 1,
        max: length_max(tag, side),
    };
    let result = write(&mut body).and_then(|()| body.finish(more));
    if result.is_err() {
        buf.truncate(start);
    }
    result
}
