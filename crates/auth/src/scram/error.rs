//! Errors of a SCRAM exchange.

use std::fmt;

use thiserror::Error;

/// A message of an exchange (RFC 5802 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScramMessage {
    /// From the client: header, name and nonce.
    ClientFirst,
    /// From the server: nonce, salt and iterations.
    ServerFirst,
    /// From the client: channel binding, nonce and proof.
    ClientFinal,
    /// From the server: its signature.
    ServerFinal,
}

impl fmt::Display for ScramMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ClientFirst => "client-first-message",
            Self::ServerFirst => "server-first-message",
            Self::ClientFinal => "client-final-message",
            Self::ServerFinal => "server-final-message",
        })
    }
}

/// Reason for which an exchange ended. None of the variants holds bytes of the peer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScramError {
    /// The peer left out an attribute, sent it twice or in the wrong place.
    #[error("{message}: expected attribute \"{attribute}\"")]
    Attribute {
        /// The message.
        message: ScramMessage,
        /// The attribute that was expected.
        attribute: char,
    },
    /// The client asked to act as another user, which PostgreSQL does not support.
    #[error("client uses authorization identity, but it is not supported")]
    AuthorizationIdentity,
    /// The value of an attribute is malformed.
    #[error("{message}: malformed value of attribute \"{attribute}\"")]
    BadValue {
        /// The message.
        message: ScramMessage,
        /// The attribute.
        attribute: char,
    },
    /// The client believes that Weir cannot bind, but SCRAM-SHA-256-PLUS was offered: an attacker in between removed it
    /// from the list (SEC-63).
    #[error(
        "SCRAM channel binding negotiation error: the client supports channel binding but thinks \
         the server does not; this server does support channel binding"
    )]
    ChannelBindingDowngrade,
    /// The client's `c=` does not match its header and the data of this channel (SEC-63): the TLS connection does not
    /// reach from one end to the other.
    #[error("SCRAM channel binding check failed")]
    ChannelBindingMismatch,
    /// The client chose SCRAM-SHA-256-PLUS and then did not bind (SEC-63).
    #[error(
        "the client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel \
         binding data"
    )]
    ChannelBindingMissing,
    /// The client bound without having chosen SCRAM-SHA-256-PLUS (SEC-63).
    #[error(
        "the client selected SCRAM-SHA-256 without channel binding, but the SCRAM message \
         includes channel binding data"
    )]
    ChannelBindingRefused,
    /// The client bound to something other than the server's certificate (SEC-63).
    #[error("unsupported SCRAM channel-binding type")]
    ChannelBindingType,
    /// The server demands more iterations than allowed (SEC-61).
    #[error("server demands {iterations} iterations, the limit is {max}")]
    IterationsTooMany {
        /// The number demanded.
        iterations: u32,
        /// The number allowed.
        max: u32,
    },
    /// The peer requires an extension (`m=`); none is known.
    #[error("{message}: peer requires an unsupported extension")]
    MandatoryExtension {
        /// The message.
        message: ScramMessage,
    },
    /// A nonce is empty or longer than [`super::NONCE_LEN_MAX`].
    #[error("nonce has a length of {len} bytes")]
    NonceLength {
        /// Bytes found.
        len: usize,
    },
    /// The nonce is not the one that this exchange began with.
    #[error("nonce does not match")]
    NonceMismatch,
    /// A nonce has a character that RFC 5802 forbids.
    #[error("nonce contains non-printable characters")]
    NonceNotPrintable,
    /// A message or a call out of turn.
    #[error("SCRAM message out of order")]
    OutOfOrder,
    /// The client does not know the password, or the user does not exist.
    #[error("client proof does not match")]
    ProofMismatch,
    /// The server answered with `e=`.
    #[error("server reported an error in the SCRAM exchange")]
    ServerReported,
    /// The server does not know the verifier, so it is not the right server.
    #[error("invalid server signature")]
    SignatureMismatch,
    /// Bytes follow the last attribute.
    #[error("{message}: garbage at the end")]
    TrailingBytes {
        /// The message.
        message: ScramMessage,
    },
    /// Pass-through: the server's salt or iterations are not those of the client's login.
    #[error(
        "the server holds another SCRAM verifier than the one the client logged in with; \
         salt, iterations and keys must be identical on both sides"
    )]
    VerifierMismatch,
}

impl ScramError {
    /// True if the exchange was well-formed and only the credentials were wrong.
    #[must_use]
    pub fn is_wrong_credentials(&self) -> bool {
        matches!(self, Self::ProofMismatch)
    }
}
