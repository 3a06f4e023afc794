//! Encoders for messages that a client sends.

use crate::encode::{Body, EncodeError, tagged, untagged};
use crate::frame::Side;
use crate::frontend::{Kind, tag};
use crate::startup::{
    CANCEL_KEY_LEN_MAX, CANCEL_KEY_LEN_MIN, CANCEL_REQUEST_CODE, GSSENC_REQUEST_CODE,
    MAX_STARTUP_PACKET_LENGTH, SSL_REQUEST_CODE, Version,
};

/// Maximum length word of an opening message.
const STARTUP_MAX: u32 = 4 + MAX_STARTUP_PACKET_LENGTH;

fn message(
    buf: &mut Vec<u8>,
    tag: u8,
    write: impl FnOnce(&mut Body<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    tagged(buf, Side::Frontend, tag, 0, write)
}

/// Appends StartupMessage.
///
/// # Errors
/// An empty name, a NUL in a name or value, or more bytes than PostgreSQL accepts.
pub fn startup(
    buf: &mut Vec<u8>,
    version: Version,
    params: &[(&[u8], &[u8])],
) -> Result<(), EncodeError> {
    untagged(buf, STARTUP_MAX, |body| {
        body.u32(version.to_u32())?;
        for (name, value) in params {
            body.entry(name)?;
            body.cstr(value)?;
        }
        body.bytes(&[0])
    })
}

/// Appends SSLRequest.
///
/// # Errors
/// Never fails in practice.
pub fn ssl_request(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    untagged(buf, STARTUP_MAX, |body| body.u32(SSL_REQUEST_CODE))
}

/// Appends GSSENCRequest.
///
/// # Errors
/// Never fails in practice.
pub fn gssenc_request(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    untagged(buf, STARTUP_MAX, |body| body.u32(GSSENC_REQUEST_CODE))
}

/// Appends CancelRequest.
///
/// # Errors
/// A key that is not 4 to 256 bytes long.
pub fn cancel_request(buf: &mut Vec<u8>, pid: u32, key: &[u8]) -> Result<(), EncodeError> {
    if !(CANCEL_KEY_LEN_MIN..=CANCEL_KEY_LEN_MAX).contains(&key.len()) {
        return Err(EncodeError::BadKeyLength);
    }
    untagged(buf, STARTUP_MAX, |body| {
        body.u32(CANCEL_REQUEST_CODE)?;
        body.u32(pid)?;
        body.bytes(key)
    })
}

/// Appends Query.
///
/// # Errors
/// A NUL in the text, or a text of 1 GiB.
pub fn query(buf: &mut Vec<u8>, sql: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::QUERY, |body| body.cstr(sql))
}

/// Appends Parse; `rest` is the count of parameter types and their oids, as received.
///
/// # Errors
/// A NUL in a string, or a message of 1 GiB.
pub fn parse(buf: &mut Vec<u8>, name: &[u8], sql: &[u8], rest: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::PARSE, |body| {
        body.cstr(name)?;
        body.cstr(sql)?;
        body.bytes(rest)
    })
}

/// Appends the start of a Parse: tag, length and name. `sql_and_rest_len` bytes must follow: the SQL with its NUL and
/// the parameter types.
///
/// # Errors
/// A NUL in the name, or a message that would be longer than PostgreSQL accepts.
pub fn parse_head(
    buf: &mut Vec<u8>,
    name: &[u8],
    sql_and_rest_len: usize,
) -> Result<(), EncodeError> {
    tagged(buf, Side::Frontend, tag::PARSE, sql_and_rest_len, |body| {
        body.cstr(name)
    })
}

/// Appends Bind with names of ours; `rest` is everything behind the names, as received.
///
/// # Errors
/// A NUL in a name, or a message of 1 GiB.
pub fn bind_renamed(
    buf: &mut Vec<u8>,
    portal: &[u8],
    statement: &[u8],
    rest: &[u8],
) -> Result<(), EncodeError> {
    message(buf, tag::BIND, |body| {
        body.cstr(portal)?;
        body.cstr(statement)?;
        body.bytes(rest)
    })
}

/// Appends the start of a Bind: tag, length and names. `rest_len` bytes must follow.
///
/// # Errors
/// A NUL in a name, or a message that would be longer than PostgreSQL accepts.
pub fn bind_head(
    buf: &mut Vec<u8>,
    portal: &[u8],
    statement: &[u8],
    rest_len: usize,
) -> Result<(), EncodeError> {
    tagged(buf, Side::Frontend, tag::BIND, rest_len, |body| {
        body.cstr(portal)?;
        body.cstr(statement)
    })
}

/// Appends Describe.
///
/// # Errors
/// A NUL in the name, or a name of 10,000 bytes.
pub fn describe(buf: &mut Vec<u8>, kind: Kind, name: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::DESCRIBE, |body| {
        body.bytes(&[kind.to_u8()])?;
        body.cstr(name)
    })
}

/// Appends Close.
///
/// # Errors
/// A NUL in the name, or a name of 10,000 bytes.
pub fn close(buf: &mut Vec<u8>, kind: Kind, name: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::CLOSE, |body| {
        body.bytes(&[kind.to_u8()])?;
        body.cstr(name)
    })
}

/// Appends Execute; `max_rows` of 0 means all.
///
/// # Errors
/// A NUL in the name, or a name of 10,000 bytes.
pub fn execute(buf: &mut Vec<u8>, portal: &[u8], max_rows: i32) -> Result<(), EncodeError> {
    message(buf, tag::EXECUTE, |body| {
        body.cstr(portal)?;
        body.i32(max_rows)
    })
}

/// Appends Sync.
///
/// # Errors
/// Never fails in practice.
pub fn sync(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    message(buf, tag::SYNC, |_| Ok(()))
}

/// Appends Flush.
///
/// # Errors
/// Never fails in practice.
pub fn flush(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    message(buf, tag::FLUSH, |_| Ok(()))
}

/// Appends Terminate.
///
/// # Errors
/// Never fails in practice.
pub fn terminate(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    message(buf, tag::TERMINATE, |_| Ok(()))
}

/// Appends PasswordMessage with a password in clear text or an MD5 answer.
///
/// # Errors
/// A NUL in the password, or more than 65,535 bytes.
pub fn password(buf: &mut Vec<u8>, password: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::PASSWORD, |body| body.cstr(password))
}

/// Appends SASLInitialResponse.
///
/// # Errors
/// A NUL in the mechanism, or more than 65,535 bytes.
pub fn sasl_initial(
    buf: &mut Vec<u8>,
    mechanism: &[u8],
    data: Option<&[u8]>,
) -> Result<(), EncodeError> {
    message(buf, tag::PASSWORD, |body| {
        body.cstr(mechanism)?;
        match data {
            None => body.i32(-1),
            Some(data) => {
                body.i32(i32::try_from(data.len()).map_err(|_| EncodeError::TooLong)?)?;
                body.bytes(data)
            }
        }
    })
}

/// Appends SASLResponse.
///
/// # Errors
/// More than 65,535 bytes.
pub fn sasl_response(buf: &mut Vec<u8>, data: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::PASSWORD, |body| body.bytes(data))
}

/// Appends CopyFail with the reason.
///
/// # Errors
/// A NUL in the reason, or 10,000 bytes.
pub fn copy_fail(buf: &mut Vec<u8>, reason: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::COPY_FAIL, |body| body.cstr(reason))
}

/// Appends CopyDone; the same bytes in both directions.
///
/// # Errors
/// Never fails in practice.
pub fn copy_done(buf: &mut Vec<u8>) -> Result<(), EncodeError> {
    message(buf, tag::COPY_DONE, |_| Ok(()))
}

/// Appends CopyData; the same bytes in both directions.
///
/// # Errors
/// A message of 1 GiB.
pub fn copy_data(buf: &mut Vec<u8>, data: &[u8]) -> Result<(), EncodeError> {
    message(buf, tag::COPY_DATA, |body| body.bytes(data))
}
