//! Violations of the protocol by a client that logs in. Wrong credentials are no error of this
//! kind: see [`super::Progress::Rejected`].

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
    /// PostgreSQL never accepts an empty password, and says so.
    #[error("empty password returned by client")]
    EmptyPassword,
    /// Not one zero-terminated text.
    #[error("invalid password packet size")]
    MalformedPassword,
    /// Not a name, a length and that many bytes.
    #[error("malformed SASLInitialResponse")]
    MalformedSaslInitial,
    /// A message or a call when it was not its turn.
    #[error("authentication message out of order")]
    OutOfOrder,
    /// More than [`crate::userlist::SECRET_LEN_MAX`] bytes.
    #[error("password too long")]
    PasswordTooLong,
    /// A message inside SASL is wrong.
    #[error(transparent)]
    Scram(#[from] ScramError),
    /// The client chose a mechanism that was not offered.
    #[error("client selected an invalid SASL authentication mechanism")]
    UnknownMechanism,
}
