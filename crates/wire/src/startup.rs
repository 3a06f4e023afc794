//! Messages without a tag that open a connection: startup, encryption requests, cancel.
//!
//! They are read as in PostgreSQL's `ProcessStartupPacket`; the session decides on the answers.

use std::fmt;

use crate::read::{Reader, split_cstr};

/// Maximum number of bytes behind the length word of an opening message: PostgreSQL's `MAX_STARTUP_PACKET_LENGTH`.
pub const MAX_STARTUP_PACKET_LENGTH: u32 = 10_000;

/// Length of the shortest cancel key in bytes: that of protocol 3.0.
pub const CANCEL_KEY_LEN_MIN: usize = 4;
/// Length of the longest cancel key in bytes: that of protocol 3.2.
pub const CANCEL_KEY_LEN_MAX: usize = 256;

pub(crate) const CANCEL_REQUEST_CODE: u32 = (1234 << 16) | 5678;
pub(crate) const SSL_REQUEST_CODE: u32 = (1234 << 16) | 5679;
pub(crate) const GSSENC_REQUEST_CODE: u32 = (1234 << 16) | 5680;

/// A protocol version: the two halves of its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major version; 3 for every version that this crate reads.
    pub major: u16,
    /// Minor version; 0 or 2 in practice, but a client may ask for any.
    pub minor: u16,
}

impl Version {
    /// Version of PostgreSQL 7.4 and later.
    pub const V3_0: Self = Self { major: 3, minor: 0 };
    /// Version of PostgreSQL 18 and later, with longer cancel keys.
    pub const V3_2: Self = Self { major: 3, minor: 2 };

    /// Splits the number on the wire.
    #[must_use]
    pub const fn from_u32(number: u32) -> Self {
        let [a, b, c, d] = number.to_be_bytes();
        Self {
            major: u16::from_be_bytes([a, b]),
            minor: u16::from_be_bytes([c, d]),
        }
    }

    /// Returns the number on the wire.
    #[must_use]
    pub const fn to_u32(self) -> u32 {
        ((self.major as u32) << 16) | self.minor as u32
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// An opening message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Startup<'a> {
    /// SSLRequest: answer `S` or `N`.
    Ssl,
    /// GSSENCRequest: answer `G` or `N`.
    GssEnc,
    /// CancelRequest: act or not, and close without an answer.
    Cancel(CancelRequest<'a>),
    /// StartupMessage: the session begins.
    Startup(StartupMessage<'a>),
}

/// Request to cancel the statement that the session with this key is running.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CancelRequest<'a> {
    /// Process id from BackendKeyData.
    pub pid: u32,
    /// Secret key from BackendKeyData, 4 to 256 bytes.
    pub key: &'a [u8],
}

/// Shows only the length of the key, which is a secret.
impl fmt::Debug for CancelRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelRequest")
            .field("pid", &self.pid)
            .field("key_len", &self.key.len())
            .finish()
    }
}

/// StartupMessage: a version and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartupMessage<'a> {
    /// Version that the client asks for: 3 and any minor.
    pub version: Version,
    /// Pairs of C strings, name and value, without the terminator of the list.
    pairs: &'a [u8],
}

impl<'a> StartupMessage<'a> {
    /// Iterates over the parameters in the order sent. Names are never empty.
    #[must_use]
    pub const fn params(&self) -> Params<'a> {
        Params { rest: self.pairs }
    }

    /// Returns the value of a parameter. If the name is repeated, the last value counts, as in PostgreSQL, which
    /// applies them in order.
    #[must_use]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&'a [u8]> {
        let name = name.as_ref();
        self.params()
            .filter(|(key, _)| *key == name)
            .last()
            .map(|(_, value)| value)
    }
}

/// Iterator over the parameters of a [`StartupMessage`].
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Params<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = split_cstr(self.rest)?;
        let (value, rest) = split_cstr(rest)?;
        self.rest = rest;
        Some((name, value))
    }
}

/// Reason for which the first bytes of a connection are not an opening message. All are SQLSTATE 08P01, except that
/// PostgreSQL reports an unsupported version as 0A000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartupError {
    /// The length word is outside 8 to 10,004, or does not fit an encryption or cancel request.
    #[error("invalid length of startup packet")]
    BadLength {
        /// Length word that was found; includes itself.
        len: u32,
    },
    /// The version is neither 3.x nor a request code. Drivers before 2003 send 2.0.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2")]
    UnsupportedVersion {
        /// Upper half of the version.
        major: u16,
        /// Lower half of the version.
        minor: u16,
    },
    /// A name without a value, a string without its NUL, no terminator, or bytes behind it.
    #[error("invalid startup packet layout: expected terminator as last byte")]
    BadLayout,
    /// A parameter that identifies the client is repeated. PostgreSQL would use the last value. A program in front that
    /// uses the first would check one identity and log in as another.
    #[error("startup packet has more than one \"{name}\"")]
    DuplicateParameter {
        /// Name of the parameter: `user`, `database` or `options`.
        name: &'static str,
    },
    /// The key of a cancel request is not 4 to 256 bytes long.
    #[error("invalid length of query cancel key")]
    BadCancelKeyLength {
        /// Number of bytes found.
        len: usize,
    },
}

/// Reads the opening message at the start of `buf`. Returns it with its length; `Ok(None)` means that it is incomplete.
///
/// # Errors
/// [`StartupError`]. Length and version are checked as soon as their bytes have arrived.
pub fn startup(buf: &[u8]) -> Result<Option<(Startup<'_>, usize)>, StartupError> {
    let Some((len, after_len)) = buf.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes(*len);
    if !(8..=4 + MAX_STARTUP_PACKET_LENGTH).contains(&len) {
        return Err(StartupError::BadLength { len });
    }
    let Some(code) = after_len.first_chunk::<4>() else {
        return Ok(None);
    };
    let code = u32::from_be_bytes(*code);
    check_code(code, len)?;
    let total = len as usize;
    let Some(body) = buf.get(8..total) else {
        return Ok(None);
    };
    let message = match code {
        SSL_REQUEST_CODE => Startup::Ssl,
        GSSENC_REQUEST_CODE => Startup::GssEnc,
        CANCEL_REQUEST_CODE => Startup::Cancel(cancel(body, len)?),
        _ => Startup::Startup(parameters(Version::from_u32(code), body)?),
    };
    Ok(Some((message, total)))
}

/// Checks what the first eight bytes show. PostgreSQL ignores bytes behind the code of an encryption request. No client
/// sends any, so Weir refuses them: a message without a body must not hide one.
const fn check_code(code: u32, len: u32) -> Result<(), StartupError> {
    match code {
        SSL_REQUEST_CODE | GSSENC_REQUEST_CODE if len == 8 => Ok(()),
        SSL_REQUEST_CODE | GSSENC_REQUEST_CODE => Err(StartupError::BadLength { len }),
        CANCEL_REQUEST_CODE => Ok(()),
        _ => {
            let Version { major, minor } = Version::from_u32(code);
            if major == 3 {
                Ok(())
            } else {
                Err(StartupError::UnsupportedVersion { major, minor })
            }
        }
    }
}

fn cancel(body: &[u8], len: u32) -> Result<CancelRequest<'_>, StartupError> {
    let mut reader = Reader::new(body);
    let pid = reader.u32().map_err(|_| StartupError::BadLength { len })?;
    let key = reader.rest();
    if !(CANCEL_KEY_LEN_MIN..=CANCEL_KEY_LEN_MAX).contains(&key.len()) {
        return Err(StartupError::BadCancelKeyLength { len: key.len() });
    }
    Ok(CancelRequest { pid, key })
}

fn parameters(version: Version, body: &[u8]) -> Result<StartupMessage<'_>, StartupError> {
    let mut rest = body;
    // Each turn takes at least the two NULs of a pair.
    while rest.first().is_some_and(|&byte| byte != 0) {
        let (_name, after) = split_cstr(rest).ok_or(StartupError::BadLayout)?;
        let (_value, after) = split_cstr(after).ok_or(StartupError::BadLayout)?;
        rest = after;
    }
    if rest != [0] {
        return Err(StartupError::BadLayout);
    }
    let pairs = body.get(..body.len() - 1).unwrap_or_default();
    let message = StartupMessage { version, pairs };
    for name in ["user", "database", "options"] {
        if message
            .params()
            .filter(|(key, _)| *key == name.as_bytes())
            .count()
            > 1
        {
            return Err(StartupError::DuplicateParameter { name });
        }
    }
    Ok(message)
}
