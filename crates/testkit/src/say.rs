//! Builder of a client's messages.

use std::ops::Deref;

use weir_wire::encode::{self, EncodeError};
use weir_wire::frontend::{Kind, tag};

/// Starts an empty sequence of messages.
pub fn say() -> Say {
    Say::default()
}

/// Messages of a client; dereferences to their bytes.
///
/// Every method appends one message. A message that PostgreSQL would not accept (a NUL in a text) panics: tests that
/// need malformed bytes use [`Say::raw`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Say {
    bytes: Vec<u8>,
}

impl Say {
    /// Appends a Query.
    #[must_use]
    pub fn query(self, sql: &str) -> Self {
        self.put(|out| encode::query(out, sql.as_bytes()))
    }

    /// Appends a Parse without parameter types.
    #[must_use]
    pub fn parse(self, name: &str, sql: &str) -> Self {
        self.put(|out| encode::parse(out, name.as_bytes(), sql.as_bytes(), &[0, 0]))
    }

    /// Appends a Bind without parameters.
    #[must_use]
    pub fn bind(self, portal: &str, statement: &str) -> Self {
        self.put(|out| encode::bind_renamed(out, portal.as_bytes(), statement.as_bytes(), &[0; 6]))
    }

    /// Appends a Bind with one parameter, as text.
    #[must_use]
    pub fn bind_value(self, portal: &str, statement: &str, value: &str) -> Self {
        let len = u32::try_from(value.len()).unwrap_or_default();
        // No format codes for parameters, one value with its length, no format codes for results.
        let parts = [
            &[0, 0, 0, 1],
            &len.to_be_bytes()[..],
            value.as_bytes(),
            &[0, 0],
        ];
        let rest = parts.concat();
        self.put(|out| encode::bind_renamed(out, portal.as_bytes(), statement.as_bytes(), &rest))
    }

    /// Appends a Describe of a statement.
    #[must_use]
    pub fn describe_statement(self, name: &str) -> Self {
        self.put(|out| encode::describe(out, Kind::Statement, name.as_bytes()))
    }

    /// Appends a Describe of a portal.
    #[must_use]
    pub fn describe_portal(self, name: &str) -> Self {
        self.put(|out| encode::describe(out, Kind::Portal, name.as_bytes()))
    }

    /// Appends an Execute; `max_rows` 0 means all rows.
    #[must_use]
    pub fn execute(self, portal: &str, max_rows: i32) -> Self {
        self.put(|out| encode::execute(out, portal.as_bytes(), max_rows))
    }

    /// Appends a Close of a statement.
    #[must_use]
    pub fn close_statement(self, name: &str) -> Self {
        self.put(|out| encode::close(out, Kind::Statement, name.as_bytes()))
    }

    /// Appends a Close of a portal.
    #[must_use]
    pub fn close_portal(self, name: &str) -> Self {
        self.put(|out| encode::close(out, Kind::Portal, name.as_bytes()))
    }

    /// Appends Bind and Execute without Sync: runs a statement in the unnamed portal.
    #[must_use]
    pub fn run(self, statement: &str) -> Self {
        self.bind("", statement).execute("", 0)
    }

    /// Appends a Flush.
    #[must_use]
    pub fn flush(self) -> Self {
        self.put(encode::flush)
    }

    /// Appends a Sync.
    #[must_use]
    pub fn sync(self) -> Self {
        self.put(encode::sync)
    }

    /// Appends a CopyData.
    #[must_use]
    pub fn copy_data(self, data: &str) -> Self {
        self.put(|out| encode::copy_data(out, data.as_bytes()))
    }

    /// Appends a CopyDone.
    #[must_use]
    pub fn copy_done(self) -> Self {
        self.put(encode::copy_done)
    }

    /// Appends a CopyFail.
    #[must_use]
    pub fn copy_fail(self, reason: &str) -> Self {
        self.put(|out| encode::copy_fail(out, reason.as_bytes()))
    }

    /// Appends a FunctionCall without arguments; the model fails it for `oid` 0.
    #[must_use]
    pub fn function_call(mut self, oid: u32) -> Self {
        self.bytes
            .extend_from_slice(&[tag::FUNCTION_CALL, 0, 0, 0, 14]);
        self.bytes.extend_from_slice(&oid.to_be_bytes());
        self.bytes.extend_from_slice(&[0; 6]);
        self
    }

    /// Appends a Terminate.
    #[must_use]
    pub fn terminate(self) -> Self {
        self.put(encode::terminate)
    }

    /// Appends bytes unchanged.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn put(mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) -> Self {
        write(&mut self.bytes).expect("a test says only what PostgreSQL takes");
        self
    }
}

impl Deref for Say {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
