//! The login of one client: which challenge it gets, and whether its answers are accepted.
//!
//! The user is fixed when the exchange begins and cannot change (SEC-40). A user who does not
//! exist, or whose secret does not suit the method, goes through the same exchange as everybody
//! else and is rejected at its end, after the same work (SEC-49; `docs/internals/login.md`).

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

/// How a client has to prove who it is (PgBouncer's `auth_type`, or the method of an HBA line).
///
/// Certificates and peer credentials are no method here: there is nothing to exchange, the caller
/// compares names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The password in the clear, which somebody else checks: LDAP, PAM. What is stored here does
    /// not matter; see [`Progress::NeedCheck`].
    External,
    /// MD5; SCRAM for a user who has a SCRAM verifier, as in PgBouncer and PostgreSQL.
    Md5,
    /// The password in the clear.
    Plain,
    /// Nobody comes in.
    Reject,
    /// SCRAM-SHA-256, with channel binding where the client can, and nothing else.
    Scram,
    /// Everybody whom we know comes in.
    Trust,
}

/// What is known about the user who wants in.
#[derive(Clone)]
pub enum Account {
    /// There is such a user; [`StoredSecret::Empty`] when the user has no secret.
    Known(StoredSecret),
    /// There is no such user.
    Unknown,
}

/// All that an exchange begins with.
pub struct LoginInput<'a> {
    /// How the client has to prove itself.
    pub method: Method,
    /// The name in the startup message.
    pub user: &'a [u8],
    /// What is known about that user.
    pub account: Account,
    /// Fresh random bytes for the challenge.
    pub random: LoginRandom,
    /// Drawn once per process.
    pub server_secret: &'a ServerSecret,
    /// PBKDF2 rounds for verifiers that we make ourselves (`scram_iterations`), at least 1.
    pub iterations: u32,
    /// The `tls-server-end-point` hash of the certificate that we showed this client; `None`
    /// without TLS. With it SCRAM-SHA-256-PLUS is offered (SEC-63).
    pub channel_binding: Option<&'a [u8]>,
    /// What secrets users have, for those who do not exist (SEC-49).
    pub population: &'a Population,
}

/// Bytes of a cryptographic random generator, never used twice.
#[derive(Clone, Copy)]
pub struct LoginRandom {
    /// For the MD5 challenge.
    pub md5_salt: [u8; 4],
    /// For our part of the SCRAM nonce.
    pub scram_nonce: [u8; NONCE_RANDOM_LEN],
}

/// How a login begins.
pub enum Opening {
    /// Let the client in without a question.
    Accepted,
    /// Send the challenge, then feed every `p` message to the exchange.
    Ask {
        /// What to send.
        challenge: Challenge,
        /// What to feed.
        exchange: Box<Exchange>,
    },
    /// Refuse the client without a question.
    Rejected,
}

/// The authentication request to send first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// AuthenticationCleartextPassword.
    Cleartext,
    /// AuthenticationMD5Password.
    Md5 {
        /// Its four bytes.
        salt: [u8; 4],
    },
    /// AuthenticationSASL.
    Sasl {
        /// The mechanisms to list, best first.
        mechanisms: &'static [&'static str],
    },
}

/// Where a login stands after a message.
pub enum Progress {
    /// The client is who it says.
    Accepted(Acceptance),
    /// Send this as AuthenticationSASLContinue, even if it is empty, and wait for the next `p`.
    Continue(Vec<u8>),
    /// Let somebody else check this password, which is not empty, then call
    /// [`Exchange::provide_verdict`].
    NeedCheck(Secret),
    /// Compute keys off the event loop, then call [`Exchange::provide_keys`]; or, if a cache has
    /// them, [`Exchange::provide_cached_keys`] at once.
    NeedKdf(KdfRequest),
    /// The credentials do not fit. Say no more than "password authentication failed".
    Rejected,
}

/// A successful login.
pub struct Acceptance {
    /// Send this as AuthenticationSASLFinal before AuthenticationOk.
    pub final_message: Option<Vec<u8>>,
    /// What lets us log in to a server with the same verifier.
    pub pass_through: Option<PassThrough>,
}

#[cfg(test)]
mod tests;
