//! Reasons why a transaction or a connection failed. Failures are counted by code and never end a run.

use std::io;

use weir_session::login::LoginFault;
use weir_wire::backend::ErrorFields;
use weir_wire::encode::EncodeError;
use weir_wire::frame::FrameError;

/// Failure of a transaction or of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// SQLSTATE, or one of the words below.
    pub(super) code: Box<str>,
    /// Message, for display.
    pub(super) message: Box<str>,
}

/// Code: no connection could be made.
const CONNECT: &str = "connect";
/// Code: the connection ended without a reason.
const CLOSED: &str = "closed";
/// Code: the login failed on the generator's side.
const LOGIN: &str = "login";
/// Code: the server's bytes violate PostgreSQL's protocol.
const PROTOCOL: &str = "protocol";
/// Code: encryption failed.
const TLS: &str = "tls";

impl Failure {
    fn new(code: &str, message: impl Into<Box<str>>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
        }
    }

    pub(super) fn connect(error: &io::Error) -> Self {
        Self::new(CONNECT, error.to_string())
    }

    pub(super) fn closed() -> Self {
        Self::new(CLOSED, "the server closed the connection unexpectedly")
    }

    pub(super) fn tls(message: impl Into<Box<str>>) -> Self {
        Self::new(TLS, message)
    }

    pub(super) fn login(message: impl Into<Box<str>>) -> Self {
        Self::new(LOGIN, message)
    }

    /// Parses the body of an ErrorResponse.
    pub(super) fn reported(body: &[u8]) -> Self {
        let Ok(fields) = ErrorFields::parse(body) else {
            return Self::new(PROTOCOL, "an error report that cannot be read");
        };
        let message = String::from_utf8_lossy(fields.message().unwrap_or_default());
        match fields.sqlstate() {
            Some(code) => Self::new(code.as_str(), message),
            None => Self::new(PROTOCOL, message),
        }
    }
}

impl From<FrameError> for Failure {
    fn from(error: FrameError) -> Self {
        Self::new(PROTOCOL, error.to_string())
    }
}

impl From<EncodeError> for Failure {
    fn from(error: EncodeError) -> Self {
        Self::new(PROTOCOL, error.to_string())
    }
}

impl From<LoginFault> for Failure {
    fn from(fault: LoginFault) -> Self {
        match &fault {
            LoginFault::Refused(body) => Self::reported(body),
            _ => Self::new(LOGIN, fault.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // rustls reports through the same type.
        match error.kind() {
            io::ErrorKind::InvalidData => Self::new(TLS, error.to_string()),
            _ => Self::new(CLOSED, error.to_string()),
        }
    }
}
