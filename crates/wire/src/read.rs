//! Cursor over a message body, and the error for bodies that do not fit their message.
//!
//! The cursor never allocates, never panics and never reads past the slice.

/// Reason for which a body is not the message that its tag announced. Texts are PostgreSQL's where it has one
/// (`libpq/pqformat.c`). Clients get SQLSTATE 08P01 for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The body ends inside a number or a counted string.
    #[error("insufficient data left in message")]
    InsufficientData,
    /// A string runs to the end of the body without its NUL.
    #[error("invalid string in message")]
    InvalidString,
    /// Bytes remain after the last field.
    #[error("invalid message format")]
    TrailingData,
    /// Describe or Close names neither a statement nor a portal.
    #[error("invalid {message} message subtype {kind}")]
    InvalidSubtype {
        /// `DESCRIBE` or `CLOSE`.
        message: &'static str,
        /// Byte that was found in place of `S` or `P`.
        kind: u8,
    },
    /// A statement or portal name is longer than [`crate::frontend::NAME_LEN_MAX`].
    #[error("statement or portal name is too long")]
    NameTooLong,
    /// A password message is not exactly one C string.
    #[error("invalid password packet size")]
    InvalidPasswordSize,
    /// A cancel key is not 4 to 256 bytes long.
    #[error("invalid cancel key length {len}")]
    InvalidKeyLength {
        /// Number of bytes found.
        len: usize,
    },
    /// ReadyForQuery holds none of `I`, `T`, `E`.
    #[error("invalid transaction status {status}")]
    InvalidTransactionStatus {
        /// Byte that was found.
        status: u8,
    },
    /// A list (error fields, SASL mechanisms) ends without its terminating zero byte.
    #[error("message has no terminator")]
    MissingTerminator,
    /// NegotiateProtocolVersion names a protocol that is not 3.x.
    #[error("invalid protocol version {version:#010x} in protocol negotiation message")]
    InvalidVersion {
        /// Number that was found.
        version: u32,
    },
}

/// Unread rest of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) const fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let (chunk, rest) = self
            .0
            .split_first_chunk()
            .ok_or(MessageError::InsufficientData)?;
        self.0 = rest;
        Ok(*chunk)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, MessageError> {
        self.chunk().map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, MessageError> {
        self.chunk().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Result<i32, MessageError> {
        self.chunk().map(i32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn array4(&mut self) -> Result<[u8; 4], MessageError> {
        self.chunk()
    }

    /// Returns the bytes up to the next NUL, which is consumed but not returned.
    #[inline]
    pub(crate) fn cstr(&mut self) -> Result<&'a [u8], MessageError> {
        let (string, rest) = split_cstr(self.0).ok_or(MessageError::InvalidString)?;
        self.0 = rest;
        Ok(string)
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], MessageError> {
        let (taken, rest) = self
            .0
            .split_at_checked(len)
            .ok_or(MessageError::InsufficientData)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }

    #[inline]
    pub(crate) const fn end(self) -> Result<(), MessageError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(MessageError::TrailingData)
        }
    }
}

/// Splits off the C string at the start of `bytes`; `None` without a NUL.
#[inline]
pub(crate) fn split_cstr(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (string, rest) = bytes.split_at_checked(find_nul(bytes)?)?;
    Some((string, rest.get(1..)?))
}

/// Returns the bytes in front of the first NUL; all of them without one.
///
/// The text of a statement is looked for several times while its message is handled, and may be long.
#[inline]
#[must_use]
pub fn before_nul(bytes: &[u8]) -> &[u8] {
    find_nul(bytes)
        .and_then(|end| bytes.get(..end))
        .unwrap_or(bytes)
}

/// Returns the place of the first NUL. Most names are empty, which needs no search.
#[inline]
fn find_nul(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        0 => Some(0),
        _ => memchr::memchr(0, bytes),
    }
}

/// C strings of a list that was checked when its message was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strings<'a> {
    /// Complete C strings in sequence, without the terminator of the list.
    rest: &'a [u8],
}

impl<'a> Strings<'a> {
    /// Creates the list. `bytes` must consist of complete C strings; a rest without NUL would end the iteration early.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (string, rest) = split_cstr(self.rest)?;
        self.rest = rest;
        Some(string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_ends_at_its_first_nul_wherever_that_is() {
        for len in 0..70 {
            let text = vec![b'x'; len];
            let whole = [&text[..], b"\0rest\0"].concat();
            assert_eq!(before_nul(&whole), text);
            assert_eq!(split_cstr(&whole), Some((&text[..], &b"rest\0"[..])));
            assert_eq!(before_nul(&text), text, "without a NUL");
            assert_eq!(split_cstr(&text), None);
        }
    }
}
