//! Encoders for messages that a server sends.

use crate::backend::{TransactionStatus, tag};
use crate::encode::{Body, EncodeError, tagged};
use crate::frame::Side;
use crate::sqlstate::SqlState;
use crate::startup::{CANCEL_KEY_LEN_MAX, CANCEL_KEY_LEN_MIN, Version};

fn message(
    buf: &mut Vec<u8>,
    tag: u8,
    write: impl FnOnce(&mut Body<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    tagged(buf, Side::Backend, tag, 0, write)
}

fn empty(buf: &mut Vec<u8>, tag: u8) -> Result<(), EncodeError> {
    message(buf, tag, |_| Ok(()))
}

/// Appends AuthenticationOk.
///
/// # Errors
/// Never fails in practice.
pub fn authentication_ok(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    message(buf, tag::AUTHENTICATION, |body| body.u32(0))
}

/// Appends AuthenticationCleartextPassword.
///
/// # Errors
/// Never fails in practice.
pub fn authentication_cleartext(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    message(buf, tag::AUTHENTICATION, |body| body.u32(3))
}

/// Appends AuthenticationMD5Password.
///
/// # Errors
/// Never fails in practice.
pub fn authentication_md5(buf: &mut Vec<u8>, salt: [u8; 4]) -> Result<(), EncodeError> {
    message(buf, tag::AUTHENTICATION, |body| {
        body.u32(5)?;
        body.bytes(&salt)
    })
}

/// Appends AuthenticationSASL with the mechanisms offered, the preferred one first.
///
/// # Errors
/// An empty name or a NUL in one, or more than 30,000 bytes.
pub fn authentication_sasl(buf: &mut Vec<u8>, mechanisms: &[&[u8]]) -> Result<(), EncodeError> {
    message(buf, tag::AUTHENTICATION, |body| {
        body.u32(10)?;
        for mechanism in mechanisms {
            body.entry(mechanism)?;
        }
        body.bytes(&[0])
    })
}

/// Appends AuthenticationSASLContinue.
///
/// # Errors
/// More than 30,000 bytes.
pub fn authentication_sasl_continue(buf: &mut Vec<u8>, data: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::AUTHENTICATION, |body| {
        body.u32(11)?;
        body.bytes(data)
    })
}

/// Appends AuthenticationSASLFinal.
///
/// # Errors
/// More than 30,000 bytes.
pub fn authentication_sasl_final(buf: &mut Vec<u8>, data: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::AUTHENTICATION, |body| {
        body.u32(12)?;
        body.bytes(data)
    })
}

/// Appends BackendKeyData. A client of protocol 3.0 understands a key of 4 bytes only.
///
/// # Errors
/// A key that is not 4 to 256 bytes long.
pub fn backend_key_data(buf: &mut Vec<u8>, pid: u32, key: &[u8]) -> Result<(), EncodeError> {
    if !(CANCEL_KEY_LEN_MIN..=CANCEL_KEY_LEN_MAX).contains(&key.len()) {
        return Err(EncodeError::BadKeyLength);
    }
    message(buf, tag::BACKEND_KEY_DATA, |body| {
        body.u32(pid)?;
        body.bytes(key)
    })
}

/// Appends ParameterStatus.
///
/// # Errors
/// A NUL in name or value, or more than 30,000 bytes.
pub fn parameter_status(buf: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::PARAMETER_STATUS, |body| {
        body.cstr(name)?;
        body.cstr(value)
    })
}

/// Appends ReadyForQuery.
///
/// # Errors
/// Never fails in practice.
pub fn ready_for_query(buf: &mut Vec<u8>, status: TransactionStatus) -> Result<(), EncodeError> {
    message(buf, tag::READY_FOR_QUERY, |body| {
        body.bytes(&[status.to_u8()])
    })
}

/// Appends ErrorResponse from field codes and values, in the order given.
///
/// # Errors
/// A field code of zero, or a NUL in a value.
pub fn error_response(buf: &mut Vec<u8>, fields: &[(u8, &[u8])]) -> Result<(), EncodeError> {
    message(buf, tag::ERROR_RESPONSE, |body| write_fields(body, fields))
}

/// Appends NoticeResponse from field codes and values, in the order given.
///
/// # Errors
/// A field code of zero, or a NUL in a value.
pub fn notice_response(buf: &mut Vec<u8>, fields: &[(u8, &[u8])]) -> Result<(), EncodeError> {
    message(buf, tag::NOTICE_RESPONSE, |body| write_fields(body, fields))
}

fn write_fields(body: &mut Body<'_>, fields: &[(u8, &[u8])]) -> Result<(), EncodeError> {
    for &(field, value) in fields {
        if field == 0 {
            return Err(EncodeError::EmptyEntry);
        }
        body.bytes(&[field])?;
        body.cstr(value)?;
    }
    body.bytes(&[0])
}

/// Severity of an error or notice, in PostgreSQL's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Notice for debugging.
    Debug,
    /// Error: the statement failed.
    Error,
    /// Error that ends the session.
    Fatal,
    /// Notice that the client asked for.
    Info,
    /// Notice meant for the log.
    Log,
    /// Notice of general interest.
    Notice,
    /// Error that ends all sessions.
    Panic,
    /// Notice about a likely mistake.
    Warning,
}

impl Severity {
    /// Returns the word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
            Self::Info => "INFO",
            Self::Log => "LOG",
            Self::Notice => "NOTICE",
            Self::Panic => "PANIC",
            Self::Warning => "WARNING",
        }
    }
}

/// Error or notice of Weir's own: the fields S, V, C, M and, if present, D and H.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorReport<'a> {
    /// Severity, sent as S and V.
    pub severity: Severity,
    /// SQLSTATE, sent as C.
    pub code: SqlState,
    /// Message, sent as M: one line, lower case, no full stop.
    pub message: &'a str,
    /// Detail, sent as D.
    pub detail: Option<&'a str>,
    /// Hint, sent as H.
    pub hint: Option<&'a str>,
}

impl<'a> ErrorReport<'a> {
    /// Creates a report without detail and hint.
    #[must_use]
    pub const fn new(severity: Severity, code: SqlState, message: &'a str) -> Self {
        Self {
            severity,
            code,
            message,
            detail: None,
            hint: None,
        }
    }

    /// Appends the report as ErrorResponse.
    ///
    /// # Errors
    /// A NUL in a text.
    pub fn encode(&self, buf: &mut Vec<u8>) -> Result<(), EncodeError> {
        message(buf, tag::ERROR_RESPONSE, |body| self.write(body))
    }

    /// Appends the report as NoticeResponse.
    ///
    /// # Errors
    /// A NUL in a text.
    pub fn encode_notice(&self, buf: &mut Vec<u8>) -> Result<(), EncodeError> {
        message(buf, tag::NOTICE_RESPONSE, |body| self.write(body))
    }

    fn write(&self, body: &mut Body<'_>) -> Result<(), EncodeError> {
        let severity = self.severity.as_str();
        let fields = [
            (b'S', Some(severity)),
            (b'V', Some(severity)),
            (b'C', Some(self.code.as_str())),
            (b'M', Some(self.message)),
            (b'D', self.detail),
            (b'H', self.hint),
        ];
        for (field, value) in fields {
            if let Some(value) = value {
                body.bytes(&[field])?;
                body.cstr(value.as_bytes())?;
            }
        }
        body.bytes(&[0])
    }
}

/// Appends NegotiateProtocolVersion with the newest supported minor version of protocol 3 and the unknown options. Like
/// PostgreSQL, sends the whole version as the number.
///
/// # Errors
/// A NUL in an option, or more than 30,000 bytes.
pub fn negotiate_protocol_version(
    buf: &mut Vec<u8>,
    newest_minor: u16,
    unrecognised_options: &[&[u8]],
) -> Result<(), EncodeError> {
    let count =
        i32::try_from(unrecognised_options.len()).map_err(|_| EncodeError::TooManyEntries)?;
    message(buf, tag::NEGOTIATE_PROTOCOL_VERSION, |body| {
        body.u32(
            Version {
                major: Version::V3_0.major,
                minor: newest_minor,
            }
            .to_u32(),
        )?;
        body.i32(count)?;
        unrecognised_options
            .iter()
            .try_for_each(|option| body.cstr(option))
    })
}

/// Appends CommandComplete.
///
/// # Errors
/// A NUL in the tag, or more than 30,000 bytes.
pub fn command_complete(buf: &mut Vec<u8>, command_tag: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::COMMAND_COMPLETE, |body| body.cstr(command_tag))
}

/// Appends EmptyQueryResponse.
///
/// # Errors
/// Never fails in practice.
pub fn empty_query_response(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    empty(buf, tag::EMPTY_QUERY_RESPONSE)
}

/// Appends ParseComplete.
///
/// # Errors
/// Never fails in practice.
pub fn parse_complete(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    empty(buf, tag::PARSE_COMPLETE)
}

/// Appends BindComplete.
///
/// # Errors
/// Never fails in practice.
pub fn bind_complete(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    empty(buf, tag::BIND_COMPLETE)
}

/// Appends CloseComplete.
///
/// # Errors
/// Never fails in practice.
pub fn close_complete(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    empty(buf, tag::CLOSE_COMPLETE)
}

/// Appends NoData.
///
/// # Errors
/// Never fails in practice.
pub fn no_data(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    empty(buf, tag::NO_DATA)
}

/// Appends PortalSuspended.
///
/// # Errors
/// Never fails in practice.
pub fn portal_suspended(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    empty(buf, tag::PORTAL_SUSPENDED)
}

/// Column of a result that Weir itself makes; it belongs to no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// Name of the column.
    pub name: &'a str,
    /// Oid of the type, for example 25 for `text`.
    pub type_oid: u32,
    /// `pg_type.typlen` of the type: bytes, or -1 for variable.
    pub type_len: i16,
}

/// Format of a value (manual, 55.1.3 "Formats and Format Codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text, code 0.
    Text,
    /// Binary, as the type's `send` function writes it, code 1.
    Binary,
}

impl Format {
    /// Returns the code on the wire.
    #[must_use]
    pub const fn to_i16(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }

    /// Returns the format with this code, if there is one.
    #[must_use]
    pub const fn from_i16(code: i16) -> Option<Self> {
        match code {
            0 => Some(Self::Text),
            1 => Some(Self::Binary),
            _ => None,
        }
    }
}

/// Appends RowDescription, every column in text format.
///
/// # Errors
/// A NUL in a name, or more than 32,767 columns.
pub fn row_description(buf: &mut Vec<u8>, columns: &[Column<'_>]) -> Result<(), EncodeError> {
    row_description_in(buf, columns, |_| Format::Text)
}

/// Appends RowDescription, with the format of each column by its place, from 0.
///
/// # Errors
/// Same as [`row_description`].
pub fn row_description_in(
    buf: &mut Vec<u8>,
    columns: &[Column<'_>],
    format: impl Fn(usize) -> Format,
) -> Result<(), EncodeError> {
    let count = i16::try_from(columns.len()).map_err(|_| EncodeError::TooManyEntries)?;
    message(buf, tag::ROW_DESCRIPTION, |body| {
        body.i16(count)?;
        for (place, column) in columns.iter().enumerate() {
            body.cstr(column.name.as_bytes())?;
            body.u32(0)?; // oid of the table: none
            body.i16(0)?; // number of the table's column: none
            body.u32(column.type_oid)?;
            body.i16(column.type_len)?;
            body.i32(-1)?; // type modifier: none
            body.i16(format(place).to_i16())?;
        }
        Ok(())
    })
}

/// Appends DataRow; `None` is NULL.
///
/// # Errors
/// More than 32,767 columns, or a row of 1 GiB.
pub fn data_row(buf: &mut Vec<u8>, values: &[Option<&[u8]>]) -> Result<(), EncodeError> {
    let count = i16::try_from(values.len()).map_err(|_| EncodeError::TooManyEntries)?;
    message(buf, tag::DATA_ROW, |body| {
        body.i16(count)?;
        for value in values {
            match value {
                None => body.i32(-1)?,
                Some(value) => {
                    body.i32(i32::try_from(value.len()).map_err(|_| EncodeError::TooLong)?)?;
                    body.bytes(value)?;
                }
            }
        }
        Ok(())
    })
}

/// Appends ParameterDescription of a statement without parameters.
///
/// # Errors
/// Never fails in practice.
pub fn no_parameters(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    message(buf, tag::PARAMETER_DESCRIPTION, |body| body.i16(0))
}

/// Appends NotificationResponse.
///
/// # Errors
/// A NUL in channel or payload, or a message of 1 GiB.
pub fn notification_response(
    buf: &mut Vec<u8>,
    pid: u32,
    channel: &[u8],
    payload: &[u8],
) -> Result<(), EncodeError> {
    message(buf, tag::NOTIFICATION_RESPONSE, |body| {
        body.u32(pid)?;
        body.cstr(channel)?;
        body.cstr(payload)
    })
}
