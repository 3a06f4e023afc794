//! Frame scanner: reads five bytes of tag and length, and finds the end of a message.
//!
//! The scanner knows PostgreSQL's length limits, but nothing about the contents of a body.

use std::fmt;

use crate::{backend, frontend};

/// Sender of a message. The same tag means different messages in the two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// A client, towards a server.
    Frontend,
    /// A server, towards a client.
    Backend,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Frontend => "frontend",
            Self::Backend => "backend",
        })
    }
}

/// Length of a header: one byte of tag, four of length.
pub const HEADER_LEN: usize = 5;

/// Maximum length word of a frontend message whose size does not depend on the user's data: `PQ_SMALL_MESSAGE_LIMIT` of
/// PostgreSQL's `libpq/libpq.h`.
pub const FRONTEND_SMALL_MAX: u32 = 10_000;

/// Maximum length word of Query, Parse, Bind, FunctionCall and CopyData: `PQ_LARGE_MESSAGE_LIMIT`, which is
/// `MaxAllocSize - 1`.
pub const FRONTEND_LARGE_MAX: u32 = 0x3fff_ffff - 1;

/// Maximum length word of a password, GSS or SASL response: `PG_MAX_AUTH_TOKEN_LENGTH`.
pub const AUTH_TOKEN_MAX: u32 = 65_535;

/// Maximum length word that libpq accepts for a backend message outside its list of long ones (`fe-protocol3.c`,
/// `pqParseInput3`). Used here for messages that PostgreSQL keeps far shorter. The longest are CopyInResponse with
/// 1,664 columns, and NegotiateProtocolVersion with the options of a start-up packet of 10,000 bytes.
pub const BACKEND_SMALL_MAX: u32 = 30_000;

/// Maximum length word of the long backend messages. A server builds a message in one `StringInfo`, which cannot exceed
/// `MaxAllocSize`. The tag is not part of it, and the length word is added.
pub const BACKEND_LARGE_MAX: u32 = 0x3fff_ffff + 4;

/// Maximum length word of ParameterStatus: 1 MiB.
///
/// PostgreSQL has no limit of its own. Since version 18 it reports `search_path`, which may exceed libpq's limit. Weir
/// keeps the message until it is complete, so it needs a bound.
pub const PARAMETER_STATUS_MAX: u32 = 1 << 20;

/// Tag and length of a message, checked against the limits of its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type byte.
    pub tag: u8,
    /// Length word as on the wire, in bytes: includes itself, not the tag. At least 4.
    pub len: u32,
}

impl Header {
    /// Returns the length of the body, without tag and length word.
    #[inline]
    #[must_use]
    pub const fn body_len(self) -> usize {
        self.len.saturating_sub(4) as usize
    }

    /// Returns the length of the whole message: tag, length word and body.
    #[inline]
    #[must_use]
    pub const fn total_len(self) -> usize {
        self.len as usize + 1
    }
}

/// A complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Tag and length.
    pub header: Header,
    /// Bytes behind the length word.
    pub body: &'a [u8],
    /// Tag, length word and body: the bytes to forward.
    pub raw: &'a [u8],
}

/// Reason for which bytes are not the start of a message. Nothing behind them may be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No message of that side has this tag. The text is PostgreSQL's (`SocketBackend`).
    #[error("invalid {side} message type {tag}")]
    UnknownTag {
        /// Byte that was found.
        tag: u8,
        /// Sender of the message.
        side: Side,
    },
    /// The length word is below 4 or above the limit of the tag.
    #[error("invalid message length {len} for {side} message type {tag} (4 to {max} bytes)")]
    BadLength {
        /// The type byte.
        tag: u8,
        /// Length word that was found.
        len: u32,
        /// Largest length word that PostgreSQL accepts for this tag.
        max: u32,
        /// Sender of the message.
        side: Side,
    },
}

/// Reads the header at the start of `buf`. `Ok(None)` means fewer than [`HEADER_LEN`] bytes.
///
/// # Errors
/// Fails if the tag is unknown for that side, or the length is outside PostgreSQL's own limits. The check comes before
/// the body arrives, so a hostile length costs no memory.
#[inline]
pub fn header(buf: &[u8], side: Side) -> Result<Option<Header>, FrameError> {
    let Some(&[tag, a, b, c, d]) = buf.first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes([a, b, c, d]);
    let max = length_max(tag, side);
    if len < 4 || len > max {
        return Err(bad_header(tag, len, max, side));
    }
    Ok(Some(Header { tag, len }))
}

/// Reads the message at the start of `buf`. `Ok(None)` means that it is incomplete.
///
/// # Errors
/// Same as [`header`].
#[inline]
pub fn frame(buf: &[u8], side: Side) -> Result<Option<Frame<'_>>, FrameError> {
    let Some(header) = header(buf, side)? else {
        return Ok(None);
    };
    let Some(raw) = buf.get(..header.total_len()) else {
        return Ok(None);
    };
    let body = raw.get(HEADER_LEN..).unwrap_or_default();
    Ok(Some(Frame { header, body, raw }))
}

/// Returns the maximum length word of a message with this tag; 0 for an unknown tag.
#[inline]
#[must_use]
pub fn length_max(tag: u8, side: Side) -> u32 {
    let table = match side {
        Side::Frontend => &FRONTEND_MAX,
        Side::Backend => &BACKEND_MAX,
    };
    table.get(usize::from(tag)).copied().unwrap_or(0)
}

#[cold]
const fn bad_header(tag: u8, len: u32, max: u32, side: Side) -> FrameError {
    if max == 0 {
        FrameError::UnknownTag { tag, side }
    } else {
        FrameError::BadLength {
            tag,
            len,
            max,
            side,
        }
    }
}

/// Limits of frontend tags, from `SocketBackend` of PostgreSQL's `tcop/postgres.c`.
static FRONTEND_MAX: [u32; 256] = table(&[
    (frontend::tag::QUERY, FRONTEND_LARGE_MAX),
    (frontend::tag::PARSE, FRONTEND_LARGE_MAX),
    (frontend::tag::BIND, FRONTEND_LARGE_MAX),
    (frontend::tag::FUNCTION_CALL, FRONTEND_LARGE_MAX),
    (frontend::tag::COPY_DATA, FRONTEND_LARGE_MAX),
    (frontend::tag::CLOSE, FRONTEND_SMALL_MAX),
    (frontend::tag::DESCRIBE, FRONTEND_SMALL_MAX),
    (frontend::tag::EXECUTE, FRONTEND_SMALL_MAX),
    (frontend::tag::FLUSH, FRONTEND_SMALL_MAX),
    (frontend::tag::SYNC, FRONTEND_SMALL_MAX),
    (frontend::tag::TERMINATE, FRONTEND_SMALL_MAX),
    (frontend::tag::COPY_DONE, FRONTEND_SMALL_MAX),
    (frontend::tag::COPY_FAIL, FRONTEND_SMALL_MAX),
    (frontend::tag::PASSWORD, AUTH_TOKEN_MAX),
]);

/// Limits of backend tags. Long messages are those of libpq's `VALID_LONG_MESSAGE_TYPE`, and ParameterDescription.
/// PostgreSQL accepts parameters up to `$268435455`; only their count wraps at 65,536. libpq drops a connection at a
/// description of more than 7,498 parameters; other drivers read it.
static BACKEND_MAX: [u32; 256] = table(&[
    (backend::tag::ROW_DESCRIPTION, BACKEND_LARGE_MAX),
    (backend::tag::DATA_ROW, BACKEND_LARGE_MAX),
    (backend::tag::COPY_DATA, BACKEND_LARGE_MAX),
    (backend::tag::FUNCTION_CALL_RESPONSE, BACKEND_LARGE_MAX),
    (backend::tag::ERROR_RESPONSE, BACKEND_LARGE_MAX),
    (backend::tag::NOTICE_RESPONSE, BACKEND_LARGE_MAX),
    (backend::tag::NOTIFICATION_RESPONSE, BACKEND_LARGE_MAX),
    (backend::tag::PARAMETER_DESCRIPTION, BACKEND_LARGE_MAX),
    (backend::tag::AUTHENTICATION, BACKEND_SMALL_MAX),
    (backend::tag::BACKEND_KEY_DATA, BACKEND_SMALL_MAX),
    (backend::tag::BIND_COMPLETE, BACKEND_SMALL_MAX),
    (backend::tag::CLOSE_COMPLETE, BACKEND_SMALL_MAX),
    (backend::tag::COMMAND_COMPLETE, BACKEND_SMALL_MAX),
    (backend::tag::COPY_BOTH_RESPONSE, BACKEND_SMALL_MAX),
    (backend::tag::COPY_DONE, BACKEND_SMALL_MAX),
    (backend::tag::COPY_IN_RESPONSE, BACKEND_SMALL_MAX),
    (backend::tag::COPY_OUT_RESPONSE, BACKEND_SMALL_MAX),
    (backend::tag::EMPTY_QUERY_RESPONSE, BACKEND_SMALL_MAX),
    (backend::tag::NEGOTIATE_PROTOCOL_VERSION, BACKEND_SMALL_MAX),
    (backend::tag::NO_DATA, BACKEND_SMALL_MAX),
    (backend::tag::PARAMETER_STATUS, PARAMETER_STATUS_MAX),
    (backend::tag::PARSE_COMPLETE, BACKEND_SMALL_MAX),
    (backend::tag::PORTAL_SUSPENDED, BACKEND_SMALL_MAX),
    (backend::tag::READY_FOR_QUERY, BACKEND_SMALL_MAX),
]);

#[expect(
    clippy::indexing_slicing,
    reason = "runs in the compiler, where a panic is an error"
)]
const fn table(rows: &[(u8, u32)]) -> [u32; 256] {
    let mut table = [0; 256];
    let mut row = 0;
    while row < rows.len() {
        let (tag, max) = rows[row];
        assert!(table[tag as usize] == 0, "a tag is listed twice");
        table[tag as usize] = max;
        row += 1;
    }
    table
}
