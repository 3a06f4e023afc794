//! SCRAM-SHA-256 (RFC 5802, RFC 7677; PostgreSQL manual 55.3 "SASL Authentication").
//!
//! Works on the text of the SCRAM messages, not on wire frames.

mod client;
mod error;
mod message;
mod server;

use crate::crypto;

pub use client::PassThrough;
pub use client::ScramClient;
pub use client::Step;
pub use error::ScramError;
pub use error::ScramMessage;
pub use server::Accepted;
pub use server::Proof;
pub use server::ScramServer;

/// The name of the mechanism in AuthenticationSASL and SASLInitialResponse.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// The mechanism with channel binding; offered only over TLS.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// The only type of channel binding that PostgreSQL supports (RFC 5929 section 4): the hash of the server's
/// certificate.
pub const BINDING_TYPE: &str = "tls-server-end-point";

/// Maximum length of a peer's nonce, in bytes (SEC-22). PostgreSQL's nonces have 24.
pub const NONCE_LEN_MAX: usize = 1024;

/// Maximum length of a server's salt, in bytes, decoded. PostgreSQL's salts have 16.
pub const SALT_LEN_MAX: usize = 1024;

/// Number of random bytes in a nonce; base64 makes 24 characters of them.
pub const NONCE_RANDOM_LEN: usize = 18;

/// TLS channel that an exchange is bound to. The meaning is the same in both roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    /// SCRAM-SHA-256-PLUS was chosen. Holds the `tls-server-end-point` data: the hash of the server's certificate, 28
    /// to 64 bytes depending on the hash function.
    EndPoint(Box<[u8]>),
    /// This side cannot bind: no TLS, or no data. A client sends `n`.
    None,
    /// This side could bind, but SCRAM-SHA-256 was chosen. A client sends `y`, which claims that no SCRAM-SHA-256-PLUS
    /// was offered; a server that had offered it rejects the claim (SEC-63).
    Unused,
}

impl ChannelBinding {
    /// Returns the header of the client's first message, with the final commas.
    fn gs2_header(&self) -> &'static str {
        match self {
            Self::EndPoint(_) => "p=tls-server-end-point,,",
            Self::None => "n,,",
            Self::Unused => "y,,",
        }
    }

    /// Returns the value of `c=` for that header.
    fn repetition(&self, gs2_header: &[u8]) -> String {
        let data: &[u8] = match self {
            Self::EndPoint(data) => data,
            Self::None | Self::Unused => &[],
        };
        crypto::base64_encode(&[gs2_header, data].concat())
    }
}

/// Part of the nonce from one side: printable ASCII without comma, 1 to [`NONCE_LEN_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonce(Vec<u8>);

impl Nonce {
    /// Makes a nonce from bytes of a cryptographic random generator.
    #[must_use]
    pub fn from_random(random: [u8; NONCE_RANDOM_LEN]) -> Self {
        Self(crypto::base64_encode(&random).into_bytes())
    }

    /// Makes a nonce from printable text.
    ///
    /// # Errors
    /// [`ScramError::NonceLength`] or [`ScramError::NonceNotPrintable`].
    pub fn from_printable(text: &[u8]) -> Result<Self, ScramError> {
        message::check_nonce(text)?;
        Ok(Self(text.to_vec()))
    }

    /// The characters as sent.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests;
