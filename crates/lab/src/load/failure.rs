//! Why a transaction or a connection came to nothing. Failures are counted by code and are never the end of a run.

use std::io;

use weir_session::login::LoginFault;
use weir_wire::backend::ErrorFields;
use weir_wire::encode::EncodeError;
use weir_wire::frame::FrameError;

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// SQLSTATE, or one of the words below.
    pub(super) code: Box<str>,
    /// For people.
    pub(super) message: Box<str>,
}

/// No connection could be made.
const CONNECT: &str = "connect";
/// The connection ended without a reason given.
const CLOSED: &str = "closed";
/// The login failed on our side.
const LOGIN: &str = "login";
/// What was said is not PostgreSQL's protocol.
const PROTOCOL: &str = "protocol";
/// Encryption failed.
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

    /// An ErrorResponse, by its body.
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
