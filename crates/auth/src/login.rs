//! Login of one client: the challenge that it gets, and the check of its answers.
//!
//! The user is fixed when the exchange begins and cannot change (SEC-40). A user who does not exist, or whose secret
//! does not suit the method, goes through the same exchange as all others. The rejection comes at its end, after the
//! same work (SEC-49; `docs/internals/login.md`).

mod begin;
mod body;
mod error;
mod exchange;

use crate::kdf::KdfRequest;
use crate::mock::Population;
use crate::scram::NONCE_RANDOM_LEN;
use crate::scram::PassThrough;
use crate::secret::Secret;
use crate::secret::ServerSecret;
use crate::stored::StoredSecret;

pub use body::TOKEN_LEN_MAX;
pub use error::LoginError;
pub use exchange::Exchange;

/// Authentication method (PgBouncer's `auth_type`, or the method of an HBA line).
///
/// Certificates and peer credentials are not methods here: they need no exchange, and the caller compares names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The password in clear text, checked by LDAP or PAM. The stored secret does not matter; see
    /// [`Progress::NeedCheck`].
    External,
    /// MD5, or SCRAM for a user with a SCRAM verifier, as in PgBouncer and PostgreSQL.
    Md5,
    /// The password in clear text.
    Plain,
    /// Refuses every client.
    Reject,
    /// SCRAM-SHA-256 only, with channel binding if the client can.
    Scram,
    /// Accepts every known user without a password.
    Trust,
}

/// Knowledge about the user who logs in.
#[derive(Clone)]
pub enum Account {
    /// The user exists; [`StoredSecret::Empty`] if the user has no secret.
    Known(StoredSecret),
    /// The user does not exist.
    Unknown,
}

/// Input of an exchange.
pub struct LoginInput<'a> {
    /// The authentication method.
    pub method: Method,
    /// The name in the startup message.
    pub user: &'a [u8],
    /// The account of that user.
    pub account: Account,
    /// Fresh random bytes for the challenge.
    pub random: LoginRandom,
    /// The secret of this process, drawn once at its start.
    pub server_secret: &'a ServerSecret,
    /// PBKDF2 rounds for verifiers that Weir makes (`scram_iterations`), at least 1.
    pub iterations: u32,
    /// The `tls-server-end-point` hash of the certificate that Weir showed this client; `None` without TLS. If set,
    /// SCRAM-SHA-256-PLUS is offered (SEC-63).
    pub channel_binding: Option<&'a [u8]>,
    /// Kinds of secrets that real users have, for challenges to users who do not exist (SEC-49).
    pub population: &'a Population,
}

/// Bytes of a cryptographic random generator; never use them twice.
#[derive(Clone, Copy)]
pub struct LoginRandom {
    /// For the MD5 challenge.
    pub md5_salt: [u8; 4],
    /// For Weir's part of the SCRAM nonce.
    pub scram_nonce: [u8; NONCE_RANDOM_LEN],
}

/// First step of a login.
pub enum Opening {
    /// Let the client in without a challenge.
    Accepted,
    /// Send the challenge, then feed every `p` message to the exchange.
    Ask {
        /// The request to send.
        challenge: Challenge,
        /// The exchange that takes the client's messages.
        exchange: Box<Exchange>,
    },
    /// Refuse the client without a challenge.
    Rejected,
}

/// The authentication request to send first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// AuthenticationCleartextPassword.
    Cleartext,
    /// AuthenticationMD5Password.
    Md5 {
        /// The salt, four bytes.
        salt: [u8; 4],
    },
    /// AuthenticationSASL.
    Sasl {
        /// The mechanisms to list, best first.
        mechanisms: &'static [&'static str],
    },
}

/// State of a login after a message.
pub enum Progress {
    /// The client has proved its identity.
    Accepted(Acceptance),
    /// Send this as AuthenticationSASLContinue, even if it is empty, and wait for the next `p`.
    Continue(Vec<u8>),
    /// Have this password, which is not empty, checked by LDAP or PAM, then call [`Exchange::provide_verdict`].
    NeedCheck(Secret),
    /// Compute keys off the event loop, then call [`Exchange::provide_keys`]. If a cache has the keys, call
    /// [`Exchange::provide_cached_keys`] at once instead.
    NeedKdf(KdfRequest),
    /// The credentials are wrong. Report no more than "password authentication failed".
    Rejected,
}

/// A successful login.
pub struct Acceptance {
    /// Send this as AuthenticationSASLFinal before AuthenticationOk.
    pub final_message: Option<Vec<u8>>,
    /// Key material for a login to a server with the same verifier.
    pub pass_through: Option<PassThrough>,
}

#[cfg(test)]
mod tests;
