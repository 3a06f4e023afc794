//! Interface to a console: the caller connects, because addresses and passwords are its business.

use std::fmt::Display;

use weir_proxy::blocking::Table;

/// Reason for which a connection to the console could not be made or was lost, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Lost(String);

impl Lost {
    /// Takes the words of an error.
    pub fn new(error: impl Display) -> Self {
        Self(error.to_string())
    }
}

/// Logged-in client of a console.
pub trait Ask {
    /// Sends a command and returns the answer, or the message of the server's error.
    ///
    /// # Errors
    /// If the connection is lost, which makes this client useless.
    fn ask(&mut self, sql: &str) -> Result<Result<Table, String>, Lost>;
}

/// Opens connections to one console.
pub trait Connect: Send + 'static {
    /// Opens a connection and logs in.
    ///
    /// # Errors
    /// If no connection can be made or the login is refused.
    fn connect(&self) -> Result<Box<dyn Ask>, Lost>;
}
