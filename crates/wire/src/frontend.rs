//! Messages that clients send: borrowed views of their bodies.
//!
//! A view reads the leading names and leaves the rest opaque, so that it can be forwarded unchanged.

use std::fmt;

use crate::read::{MessageError, Reader, split_cstr};

/// Type bytes of frontend messages (manual, "Message Formats").
pub mod tag {
    /// Bind.
    pub const BIND: u8 = b'B';
    /// Close.
    pub const CLOSE: u8 = b'C';
    /// CopyData.
    pub const COPY_DATA: u8 = b'd';
    /// CopyDone.
    pub const COPY_DONE: u8 = b'c';
    /// CopyFail.
    pub const COPY_FAIL: u8 = b'f';
    /// Describe.
    pub const DESCRIBE: u8 = b'D';
    /// Execute.
    pub const EXECUTE: u8 = b'E';
    /// Flush.
    pub const FLUSH: u8 = b'H';
    /// FunctionCall.
    pub const FUNCTION_CALL: u8 = b'F';
    /// Parse.
    pub const PARSE: u8 = b'P';
    /// Shared by PasswordMessage, GSSResponse, SASLInitialResponse and SASLResponse.
    pub const PASSWORD: u8 = b'p';
    /// Query.
    pub const QUERY: u8 = b'Q';
    /// Sync.
    pub const SYNC: u8 = b'S';
    /// Terminate.
    pub const TERMINATE: u8 = b'X';
}

/// Maximum length of a statement or portal name, in bytes without the NUL.
///
/// PostgreSQL has no such limit in Parse and Bind, and compares the first 63 bytes only. (Describe, Close and Execute
/// end at 10,000 bytes in PostgreSQL and here.) The limit bounds the memory for a message that is being streamed.
pub const NAME_LEN_MAX: usize = 1 << 20;

/// Query: a string of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// SQL text, possibly with several statements.
    pub sql: &'a [u8],
}

impl<'a> Query<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// No NUL, or bytes behind it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        let sql = reader.cstr()?;
        reader.end()?;
        Ok(Self { sql })
    }
}

/// Parse: prepares a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Statement name, empty for the unnamed one.
    pub name: &'a [u8],
    /// Text of a single statement.
    pub sql: &'a [u8],
    /// Number and oids of parameter types, not examined.
    pub rest: &'a [u8],
}

impl<'a> Parse<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// A string without NUL, or a name above [`NAME_LEN_MAX`].
    #[inline]
    #[expect(
        clippy::self_named_constructors,
        reason = "every view is read by `parse`"
    )]
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        let name = bounded(reader.cstr()?)?;
        let sql = reader.cstr()?;
        Ok(Self {
            name,
            sql,
            rest: reader.rest(),
        })
    }

    /// Reads the name from the first bytes of an incomplete body; `Ok(None)` asks for more.
    ///
    /// # Errors
    /// A name above [`NAME_LEN_MAX`].
    #[inline]
    pub fn head(prefix: &'a [u8]) -> Result<Option<ParseHead<'a>>, MessageError> {
        let Some((name, _)) = name_in_prefix(prefix)? else {
            return Ok(None);
        };
        Ok(Some(ParseHead {
            name,
            len_consumed: name.len() + 1,
        }))
    }
}

/// Part of a Parse in front of the SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseHead<'a> {
    /// Statement name, empty for the unnamed one.
    pub name: &'a [u8],
    /// Length of this part, including the NUL.
    pub len_consumed: usize,
}

/// Bind: makes a portal from a statement and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// Portal name, empty for the unnamed one.
    pub portal: &'a [u8],
    /// Statement name, empty for the unnamed one.
    pub statement: &'a [u8],
    /// Formats and values, not examined.
    pub rest: &'a [u8],
}

impl<'a> Bind<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// A name without NUL or above [`NAME_LEN_MAX`].
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        let portal = bounded(reader.cstr()?)?;
        let statement = bounded(reader.cstr()?)?;
        Ok(Self {
            portal,
            statement,
            rest: reader.rest(),
        })
    }

    /// Reads the names from the first bytes of an incomplete body; `Ok(None)` asks for more.
    ///
    /// # Errors
    /// A name above [`NAME_LEN_MAX`].
    #[inline]
    pub fn head(prefix: &'a [u8]) -> Result<Option<BindHead<'a>>, MessageError> {
        let Some((portal, after)) = name_in_prefix(prefix)? else {
            return Ok(None);
        };
        let Some((statement, _)) = name_in_prefix(after)? else {
            return Ok(None);
        };
        let len_consumed = portal.len() + statement.len() + 2;
        Ok(Some(BindHead {
            portal,
            statement,
            len_consumed,
        }))
    }
}

/// Part of a Bind in front of formats and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindHead<'a> {
    /// Portal name, empty for the unnamed one.
    pub portal: &'a [u8],
    /// Statement name, empty for the unnamed one.
    pub statement: &'a [u8],
    /// Length of this part, including both NULs.
    pub len_consumed: usize,
}

/// Kind of object that Describe and Close refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A prepared statement, `S` on the wire.
    Statement,
    /// A portal, `P` on the wire.
    Portal,
}

impl Kind {
    /// Returns the byte on the wire.
    #[inline]
    #[must_use]
    pub const fn to_u8(self) -> u8 {
        match self {
            Self::Statement => b'S',
            Self::Portal => b'P',
        }
    }

    const fn from_u8(kind: u8) -> Option<Self> {
        match kind {
            b'S' => Some(Self::Statement),
            b'P' => Some(Self::Portal),
            _ => None,
        }
    }
}

/// Describe: asks for the columns of a statement or portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Describe<'a> {
    /// Kind of the object.
    pub kind: Kind,
    /// Name of the object, empty for the unnamed one.
    pub name: &'a [u8],
}

impl<'a> Describe<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// An unknown kind, no NUL, or bytes behind it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let (kind, name) = kind_and_name(body, "DESCRIBE")?;
        Ok(Self { kind, name })
    }
}

/// Close: drops a statement or portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// Kind of the object.
    pub kind: Kind,
    /// Name of the object, empty for the unnamed one.
    pub name: &'a [u8],
}

impl<'a> Close<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// An unknown kind, no NUL, or bytes behind it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let (kind, name) = kind_and_name(body, "CLOSE")?;
        Ok(Self { kind, name })
    }
}

/// Execute: runs a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    /// Portal name, empty for the unnamed one.
    pub portal: &'a [u8],
    /// Maximum number of rows to return; 0 or less means all, as in PostgreSQL.
    pub max_rows: i32,
}

impl<'a> Execute<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// No NUL, no count, or bytes behind it.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        let portal = reader.cstr()?;
        let max_rows = reader.i32()?;
        reader.end()?;
        Ok(Self { portal, max_rows })
    }
}

/// Any message with tag `p`. The server's last request decides which one it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Password<'a> {
    /// Complete body: a SASLResponse is exactly this.
    pub body: &'a [u8],
}

impl<'a> Password<'a> {
    /// Accepts any body.
    ///
    /// # Errors
    /// Never fails; returns a result like the other views.
    #[inline]
    pub const fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        Ok(Self { body })
    }

    /// Returns the password of a PasswordMessage, without its NUL. It may be empty.
    ///
    /// # Errors
    /// The body is not exactly one C string.
    pub fn password(self) -> Result<&'a [u8], MessageError> {
        match split_cstr(self.body) {
            Some((password, [])) => Ok(password),
            _ => Err(MessageError::InvalidPasswordSize),
        }
    }
}

/// Shows only the length of the body, which is a secret.
impl fmt::Debug for Password<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Password")
            .field("body_len", &self.body.len())
            .finish()
    }
}

/// SASLInitialResponse: the chosen mechanism and possibly its first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslInitialResponse<'a> {
    /// Name of the mechanism.
    pub mechanism: &'a [u8],
    /// First message of the mechanism; `None` differs from an empty one.
    pub data: Option<&'a [u8]>,
}

impl<'a> SaslInitialResponse<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// No NUL, a length that is not -1 and not that of the remaining bytes.
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        let mechanism = reader.cstr()?;
        let data = match reader.i32()? {
            -1 => None,
            len => {
                let len = usize::try_from(len).map_err(|_| MessageError::InsufficientData)?;
                Some(reader.take(len)?)
            }
        };
        reader.end()?;
        Ok(Self { mechanism, data })
    }
}

#[inline]
fn kind_and_name<'a>(
    body: &'a [u8],
    message: &'static str,
) -> Result<(Kind, &'a [u8]), MessageError> {
    let mut reader = Reader::new(body);
    let kind = reader.u8()?;
    let name = reader.cstr()?;
    reader.end()?;
    let kind = Kind::from_u8(kind).ok_or(MessageError::InvalidSubtype { message, kind })?;
    Ok((kind, name))
}

#[inline]
const fn bounded(name: &[u8]) -> Result<&[u8], MessageError> {
    if name.len() > NAME_LEN_MAX {
        Err(MessageError::NameTooLong)
    } else {
        Ok(name)
    }
}

type NameAndRest<'a> = (&'a [u8], &'a [u8]);

/// Splits a name off the front, and examines no more bytes than a name may have.
#[inline]
fn name_in_prefix(prefix: &[u8]) -> Result<Option<NameAndRest<'_>>, MessageError> {
    let window = prefix.get(..=NAME_LEN_MAX).unwrap_or(prefix);
    match split_cstr(window) {
        Some((name, _)) => Ok(prefix.get(name.len() + 1..).map(|after| (name, after))),
        None if window.len() > NAME_LEN_MAX => Err(MessageError::NameTooLong),
        None => Ok(None),
    }
}
