//! Messages of a client, built by hand: an oracle must not share code with the program it judges.
//!
//! Formats: PostgreSQL manual, "Message Formats" (55.7).

/// Protocol 3.0.
pub const VERSION_3_0: i32 = 196_608;

/// A message body under construction.
#[derive(Clone, Debug, Default)]
struct Body(Vec<u8>);

impl Body {
    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn cstr(self, text: &str) -> Self {
        self.bytes(text.as_bytes()).bytes(&[0])
    }

    fn i16(self, value: i16) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    fn i32(self, value: i32) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    fn count(self, value: usize) -> Self {
        self.i16(i16::try_from(value).expect("suites use few parameters"))
    }

    fn length(self, value: usize) -> Self {
        self.i32(i32::try_from(value).expect("suites stay below PostgreSQL's 1 GiB"))
    }

    /// Prefixes the length and, except at startup, the tag.
    fn finish(self, tag: Option<u8>) -> Vec<u8> {
        let mut message: Vec<u8> = tag.into_iter().collect();
        message.extend(Self::default().length(self.0.len() + 4).0);
        message.extend(self.0);
        message
    }
}

/// Any message, well formed or not.
#[must_use]
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    Body::default().bytes(body).finish(Some(tag))
}

/// `StartupMessage` with the given parameters.
#[must_use]
pub fn startup(version: i32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let start = Body::default().i32(version);
    let pairs = parameters
        .iter()
        .fold(start, |body, (key, value)| body.cstr(key).cstr(value));
    pairs.bytes(&[0]).finish(None)
}

/// `SSLRequest`.
#[must_use]
pub fn ssl_request() -> Vec<u8> {
    Body::default().i32(80_877_103).finish(None)
}

/// `GSSENCRequest`.
#[must_use]
pub fn gssenc_request() -> Vec<u8> {
    Body::default().i32(80_877_104).finish(None)
}

/// `CancelRequest`; `secret` is 4 bytes in protocol 3.0.
#[must_use]
pub fn cancel_request(pid: i32, secret: &[u8]) -> Vec<u8> {
    Body::default()
        .i32(80_877_102)
        .i32(pid)
        .bytes(secret)
        .finish(None)
}

/// `Query`.
#[must_use]
pub fn query(sql: &str) -> Vec<u8> {
    Body::default().cstr(sql).finish(Some(b'Q'))
}

/// `Parse` with parameter types by oid.
#[must_use]
pub fn parse(name: &str, sql: &str, types: &[i32]) -> Vec<u8> {
    let head = Body::default().cstr(name).cstr(sql).count(types.len());
    types
        .iter()
        .fold(head, |body, oid| body.i32(*oid))
        .finish(Some(b'P'))
}

/// `Bind` with text parameters and text results.
#[must_use]
pub fn bind(portal: &str, statement: &str, parameters: &[Option<&[u8]>]) -> Vec<u8> {
    let head = Body::default()
        .cstr(portal)
        .cstr(statement)
        .i16(0)
        .count(parameters.len());
    let body = parameters
        .iter()
        .fold(head, |body, parameter| match parameter {
            Some(bytes) => body.length(bytes.len()).bytes(bytes),
            None => body.i32(-1),
        });
    body.i16(0).finish(Some(b'B'))
}

/// `Describe` of a statement (`b'S'`) or portal (`b'P'`).
#[must_use]
pub fn describe(kind: u8, name: &str) -> Vec<u8> {
    Body::default().bytes(&[kind]).cstr(name).finish(Some(b'D'))
}

/// `Execute`; `rows_max` of 0 means all rows.
#[must_use]
pub fn execute(portal: &str, rows_max: i32) -> Vec<u8> {
    Body::default()
        .cstr(portal)
        .i32(rows_max)
        .finish(Some(b'E'))
}

/// `Close` of a statement (`b'S'`) or portal (`b'P'`).
#[must_use]
pub fn close(kind: u8, name: &str) -> Vec<u8> {
    Body::default().bytes(&[kind]).cstr(name).finish(Some(b'C'))
}

/// `Sync`.
#[must_use]
pub fn sync() -> Vec<u8> {
    message(b'S', &[])
}

/// `Flush`.
#[must_use]
pub fn flush() -> Vec<u8> {
    message(b'H', &[])
}

/// `Terminate`.
#[must_use]
pub fn terminate() -> Vec<u8> {
    message(b'X', &[])
}

/// `CopyData`.
#[must_use]
pub fn copy_data(bytes: &[u8]) -> Vec<u8> {
    message(b'd', bytes)
}

/// `CopyDone`.
#[must_use]
pub fn copy_done() -> Vec<u8> {
    message(b'c', &[])
}

/// `CopyFail` with a reason.
#[must_use]
pub fn copy_fail(reason: &str) -> Vec<u8> {
    Body::default().cstr(reason).finish(Some(b'f'))
}

/// `FunctionCall` with binary arguments and a binary result.
#[must_use]
pub fn function_call(oid: i32, arguments: &[&[u8]]) -> Vec<u8> {
    let head = Body::default()
        .i32(oid)
        .i16(1)
        .i16(1)
        .count(arguments.len());
    let body = arguments
        .iter()
        .fold(head, |body, bytes| body.length(bytes.len()).bytes(bytes));
    body.i16(1).finish(Some(b'F'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_their_length() {
        assert_eq!(query("x"), b"Q\0\0\0\x06x\0");
        assert_eq!(sync(), b"S\0\0\0\x04");
        assert_eq!(
            startup(VERSION_3_0, &[("a", "b")]),
            b"\0\0\0\x0d\0\x03\0\0a\0b\0\0"
        );
        assert_eq!(
            bind("", "", &[None]),
            b"B\0\0\0\x10\0\0\0\0\0\x01\xff\xff\xff\xff\0\0"
        );
    }
}
