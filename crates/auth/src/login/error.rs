//! Violations of the protocol by a client that logs in. Wrong credentials are not among them: see
//! [`super::Progress::Rejected`].

use thiserror::Error;

use crate::scram::ScramError;

/// The client broke the protocol; its connection has to end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoginError {
    /// More than [`super::TOKEN_LEN_MAX`] bytes.
    #[error("authentication message has {len} bytes, the limit is 65535")]
    BodyTooLong {
        /// Bytes found.
        len: usize,
    },
    /// The password is empty. PostgreSQL never accepts one, and reports it.
    #[error("empty password returned by client")]
    EmptyPassword,
    /// The body is not one zero-terminated text.
    #[error("invalid password packet size")]
    MalformedPassword,
    /// The body is not a name, a length and that many bytes.
    #[error("malformed SASLInitialResponse")]
    MalformedSaslInitial,
    /// A message or a call out of turn.
    #[error("authentication message out of order")]
    OutOfOrder,
    /// More than [`crate::userlist::SECRET_LEN_MAX`] bytes.
    #[error("password too long")]
    PasswordTooLong,
    /// A SCRAM message is wrong.
    #[error(transparent)]
    Scram(#[from] ScramError),
    /// The client chose a mechanism that was not offered.
    #[error("client selected an invalid SASL authentication mechanism")]
    UnknownMechanism,
}
