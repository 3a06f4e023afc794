//! Messages that servers send: borrowed views of their bodies.
//!
//! Row descriptions, COPY data and function results have no view on purpose: only clients interpret the counts inside
//! them (hazard SEC-25). The view of rows, [`DataRow`], is for replies to Weir's own queries.

use std::fmt;

use crate::read::{MessageError, Reader, Strings, split_cstr};
use crate::sqlstate::SqlState;
use crate::startup::{CANCEL_KEY_LEN_MAX, CANCEL_KEY_LEN_MIN, Version};

/// Type bytes of backend messages (manual, "Message Formats").
pub mod tag {
    /// All authentication requests; the number behind the length tells them apart.
    pub const AUTHENTICATION: u8 = b'R';
    /// BackendKeyData.
    pub const BACKEND_KEY_DATA: u8 = b'K';
    /// BindComplete.
    pub const BIND_COMPLETE: u8 = b'2';
    /// CloseComplete.
    pub const CLOSE_COMPLETE: u8 = b'3';
    /// CommandComplete.
    pub const COMMAND_COMPLETE: u8 = b'C';
    /// CopyBothResponse.
    pub const COPY_BOTH_RESPONSE: u8 = b'W';
    /// CopyData.
    pub const COPY_DATA: u8 = b'd';
    /// CopyDone.
    pub const COPY_DONE: u8 = b'c';
    /// CopyInResponse.
    pub const COPY_IN_RESPONSE: u8 = b'G';
    /// CopyOutResponse.
    pub const COPY_OUT_RESPONSE: u8 = b'H';
    /// DataRow.
    pub const DATA_ROW: u8 = b'D';
    /// EmptyQueryResponse.
    pub const EMPTY_QUERY_RESPONSE: u8 = b'I';
    /// ErrorResponse.
    pub const ERROR_RESPONSE: u8 = b'E';
    /// FunctionCallResponse.
    pub const FUNCTION_CALL_RESPONSE: u8 = b'V';
    /// NegotiateProtocolVersion.
    pub const NEGOTIATE_PROTOCOL_VERSION: u8 = b'v';
    /// NoData.
    pub const NO_DATA: u8 = b'n';
    /// NoticeResponse.
    pub const NOTICE_RESPONSE: u8 = b'N';
    /// NotificationResponse.
    pub const NOTIFICATION_RESPONSE: u8 = b'A';
    /// ParameterDescription.
    pub const PARAMETER_DESCRIPTION: u8 = b't';
    /// ParameterStatus.
    pub const PARAMETER_STATUS: u8 = b'S';
    /// ParseComplete.
    pub const PARSE_COMPLETE: u8 = b'1';
    /// PortalSuspended.
    pub const PORTAL_SUSPENDED: u8 = b's';
    /// ReadyForQuery.
    pub const READY_FOR_QUERY: u8 = b'Z';
    /// RowDescription.
    pub const ROW_DESCRIPTION: u8 = b'T';
}

/// Request or statement of the server during authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// Authentication succeeded; session set-up follows.
    Ok,
    /// Asks for a password in clear text.
    CleartextPassword,
    /// Asks for the MD5 hash of password, user and salt.
    Md5 {
        /// Four random bytes.
        salt: [u8; 4],
    },
    /// Asks for a SASL exchange by one of these mechanisms.
    Sasl {
        /// Names of the mechanisms, in the server's order of preference.
        mechanisms: Strings<'a>,
    },
    /// Carries the mechanism's next message.
    SaslContinue(&'a [u8]),
    /// Carries the mechanism's last message.
    SaslFinal(&'a [u8]),
    /// Asks for an unsupported method, by number: Kerberos, GSSAPI, SSPI or a newer one.
    Unsupported(u32),
}

impl<'a> Authentication<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// A body shorter or longer than its method asks for, or a mechanism list without terminator.
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        match reader.u32()? {
            0 => reader.end().map(|()| Self::Ok),
            3 => reader.end().map(|()| Self::CleartextPassword),
            5 => {
                let salt = reader.array4()?;
                reader.end()?;
                Ok(Self::Md5 { salt })
            }
            10 => Ok(Self::Sasl {
                mechanisms: mechanisms(reader.rest())?,
            }),
            11 => Ok(Self::SaslContinue(reader.rest())),
            12 => Ok(Self::SaslFinal(reader.rest())),
            code => Ok(Self::Unsupported(code)),
        }
    }
}

/// Reads C strings up to an empty one, which must be the last.
fn mechanisms(list: &[u8]) -> Result<Strings<'_>, MessageError> {
    let mut rest = list;
    loop {
        match split_cstr(rest) {
            None => return Err(MessageError::MissingTerminator),
            Some(([], [])) => break,
            Some(([], _)) => return Err(MessageError::TrailingData),
            Some((_, after)) => rest = after,
        }
    }
    Ok(Strings::new(list.get(..list.len() - 1).unwrap_or_default()))
}

/// BackendKeyData: process id and key that a CancelRequest must contain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BackendKeyData<'a> {
    /// Process id of the server's session.
    pub pid: u32,
    /// Secret key, 4 to 256 bytes; 4 in protocol 3.0.
    pub key: &'a [u8],
}

impl<'a> BackendKeyData<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// No process id, or a key that is not 4 to 256 bytes long.
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        let pid = reader.u32()?;
        let key = reader.rest();
        if (CANCEL_KEY_LEN_MIN..=CANCEL_KEY_LEN_MAX).contains(&key.len()) {
            Ok(Self { pid, key })
        } else {
            Err(MessageError::InvalidKeyLength { len: key.len() })
        }
    }
}

/// Shows only the length of the key, which is a secret.
impl fmt::Debug for BackendKeyData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendKeyData")
            .field("pid", &self.pid)
            .field("key_len", &self.key.len())
            .finish()
    }
}

/// ParameterStatus: the present value of a reported parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterStatus<'a> {
    /// Name of the parameter, for example `client_encoding`.
    pub name: &'a [u8],
    /// Value of the parameter.
    pub value: &'a [u8],
}

impl<'a> ParameterStatus<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// Not exactly two C strings.
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        let name = reader.cstr()?;
        let value = reader.cstr()?;
        reader.end()?;
        Ok(Self { name, value })
    }
}

/// Transaction state of the session between two batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionStatus {
    /// `I`: not in a transaction block.
    Idle,
    /// `T`: in a transaction block.
    InTransaction,
    /// `E`: in a failed transaction block.
    Failed,
}

impl TransactionStatus {
    /// Returns the byte on the wire.
    #[inline]
    #[must_use]
    pub const fn to_u8(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::InTransaction => b'T',
            Self::Failed => b'E',
        }
    }
}

/// ReadyForQuery: the batch is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyForQuery(pub TransactionStatus);

impl ReadyForQuery {
    /// Parses the body.
    ///
    /// # Errors
    /// Not exactly one byte, or none of `I`, `T`, `E`.
    #[inline]
    pub fn parse(body: &[u8]) -> Result<Self, MessageError> {
        match *body {
            [b'I'] => Ok(Self(TransactionStatus::Idle)),
            [b'T'] => Ok(Self(TransactionStatus::InTransaction)),
            [b'E'] => Ok(Self(TransactionStatus::Failed)),
            [status] => Err(MessageError::InvalidTransactionStatus { status }),
            [] => Err(MessageError::InsufficientData),
            _ => Err(MessageError::TrailingData),
        }
    }
}

/// Fields of an ErrorResponse or NoticeResponse. Any field may be absent or repeated.
///
/// Iterates over code and value. The getters search only fields that the iteration has not passed, so iterate over a
/// copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorFields<'a> {
    /// Complete fields, without the terminator.
    rest: &'a [u8],
}

impl<'a> ErrorFields<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// A field without NUL, no terminator, or bytes behind it.
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut rest = body;
        loop {
            match rest {
                [] => return Err(MessageError::MissingTerminator),
                [0] => break,
                [0, ..] => return Err(MessageError::TrailingData),
                [_, value @ ..] => {
                    (_, rest) = split_cstr(value).ok_or(MessageError::InvalidString)?;
                }
            }
        }
        Ok(Self {
            rest: body.get(..body.len() - 1).unwrap_or_default(),
        })
    }

    /// Returns the first value of a field, for example `b'C'` for the SQLSTATE.
    #[must_use]
    pub fn get(&self, field: u8) -> Option<&'a [u8]> {
        let mut fields = *self;
        fields
            .find(|&(code, _)| code == field)
            .map(|(_, value)| value)
    }

    /// Returns the SQLSTATE, if there is one of five bytes.
    #[must_use]
    pub fn sqlstate(&self) -> Option<SqlState> {
        self.get(b'C').and_then(SqlState::from_slice)
    }

    /// Returns the severity: the untranslated one (`V`, since PostgreSQL 9.6), otherwise the translated one.
    #[must_use]
    pub fn severity(&self) -> Option<&'a [u8]> {
        self.get(b'V').or_else(|| self.get(b'S'))
    }

    /// Returns the message text.
    #[must_use]
    pub fn message(&self) -> Option<&'a [u8]> {
        self.get(b'M')
    }
}

impl<'a> Iterator for ErrorFields<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&field, rest) = self.rest.split_first()?;
        let (value, rest) = split_cstr(rest)?;
        self.rest = rest;
        Some((field, value))
    }
}

/// NegotiateProtocolVersion: the server supports less than the client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiateProtocolVersion<'a> {
    /// Newest minor version of protocol 3 that the server supports.
    pub newest_minor: u16,
    /// Names of the `_pq_.` options that the server does not know.
    pub options: Strings<'a>,
}

impl<'a> NegotiateProtocolVersion<'a> {
    /// Parses the body. The manual calls the first number a minor version, but PostgreSQL sends the whole version (3 in
    /// the upper half). Both are accepted.
    ///
    /// # Errors
    /// Another major version, or strings that do not fit their count.
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        let version = reader.u32()?;
        let Version { major, minor } = Version::from_u32(version);
        if major != 0 && major != Version::V3_0.major {
            return Err(MessageError::InvalidVersion { version });
        }
        let count = reader.u32()?;
        let options = reader.rest();
        // A false count ends at the end of the body: every turn takes at least one byte.
        for _ in 0..count {
            reader.cstr()?;
        }
        reader.end()?;
        Ok(Self {
            newest_minor: minor,
            options: Strings::new(options),
        })
    }
}

/// NotificationResponse: a session ran NOTIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotificationResponse<'a> {
    /// Process id of that session.
    pub pid: u32,
    /// Name of the channel.
    pub channel: &'a [u8],
    /// Payload, possibly empty.
    pub payload: &'a [u8],
}

impl<'a> NotificationResponse<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// Not exactly a process id and two C strings.
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        let pid = reader.u32()?;
        let channel = reader.cstr()?;
        let payload = reader.cstr()?;
        reader.end()?;
        Ok(Self {
            pid,
            channel,
            payload,
        })
    }
}

/// CommandComplete: a statement has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandComplete<'a> {
    /// Command tag, for example `INSERT 0 1`.
    pub tag: &'a [u8],
}

impl<'a> CommandComplete<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// Not exactly one C string.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        let tag = reader.cstr()?;
        reader.end()?;
        Ok(Self { tag })
    }
}

/// DataRow: the row's columns in order; `None` is NULL.
#[derive(Clone, Debug)]
pub struct DataRow<'a> {
    left: u16,
    rest: Reader<'a>,
}

impl<'a> DataRow<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// The lengths do not add up to the body (PostgreSQL manual, 55.7).
    pub fn parse(body: &'a [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(body);
        let [high, low] = [reader.u8()?, reader.u8()?];
        let row = Self {
            left: u16::from_be_bytes([high, low]),
            rest: reader,
        };
        let mut columns = row.clone();
        while columns.left > 0 {
            columns.column()?;
        }
        columns.rest.end()?;
        Ok(row)
    }

    fn column(&mut self) -> Result<Option<&'a [u8]>, MessageError> {
        self.left -= 1;
        match usize::try_from(self.rest.i32()?) {
            Ok(len) => self.rest.take(len).map(Some),
            Err(_) => Ok(None),
        }
    }
}

impl<'a> Iterator for DataRow<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.column().ok()
    }
}
