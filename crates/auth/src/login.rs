//! The login of one client: which challenge it gets, and whether its answers are accepted.
//!
//! The user is fixed when the exchange begins and cannot change (SEC-40). A user who does not
//! exist, or whose secret does not suit the method, goes through the same exchange as everybody
//! else and is rejected at its end (SEC-49).

mod body;
mod error;

use std::mem;

use crate::kdf::KdfRequest;
use crate::kdf::ScramKeys;
use crate::md5;
use crate::mock;
use crate::scram::Accepted;
use crate::scram::ChannelBinding;
use crate::scram::MECHANISM;
use crate::scram::NONCE_RANDOM_LEN;
use crate::scram::Nonce;
use crate::scram::PassThrough;
use crate::scram::ScramServer;
use crate::secret::Secret;
use crate::secret::ServerSecret;
use crate::stored::ScramVerifier;
use crate::stored::StoredSecret;

pub use body::TOKEN_LEN_MAX;
pub use error::LoginError;

/// How a client has to prove who it is (PgBouncer's `auth_type`, or the method of an HBA line).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// MD5; SCRAM for a user who has a SCRAM verifier, as in PgBouncer and PostgreSQL.
    Md5,
    /// The password in the clear.
    Plain,
    /// Nobody comes in.
    Reject,
    /// SCRAM-SHA-256 and nothing else.
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
    /// Send this as AuthenticationSASLContinue and wait for the next `p`.
    Continue(Vec<u8>),
    /// Compute keys off the event loop, then call [`Exchange::provide_keys`].
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

/// One client's login, from the challenge to the verdict.
///
/// ```text
/// Cleartext ──────────────┬─(SCRAM verifier)─> keys ─┐
/// Md5 ────────────────────┤                          ├─> verdict (done)
/// SaslInitial ─┬──> SaslFinal ───────────────────────┘
///              └> keys ──^   (password stored in the clear)
/// ```
///
/// After the verdict or an error every call answers [`LoginError::OutOfOrder`].
pub struct Exchange {
    user: Vec<u8>,
    state: State,
}

enum State {
    Cleartext(StoredSecret),
    CleartextKeys(ScramVerifier),
    Done,
    Md5 {
        salt: [u8; 4],
        secret: StoredSecret,
    },
    SaslFinal(ScramServer),
    SaslInitial {
        plan: Plan,
        nonce: Nonce,
    },
    SaslKeys {
        client_first: Vec<u8>,
        salt: Vec<u8>,
        iterations: u32,
        nonce: Nonce,
    },
}

/// What a SCRAM exchange is checked against.
enum Plan {
    /// A password in the clear: a verifier has to be made first.
    Derive(KdfRequest),
    /// Nothing fits; see [`mock`].
    Mock(ScramVerifier),
    Stored(ScramVerifier),
}

impl Exchange {
    /// Begins the login of one client.
    #[must_use]
    pub fn begin(input: LoginInput<'_>) -> Opening {
        let is_known = matches!(input.account, Account::Known(_));
        match (input.method, &input.account) {
            (Method::Trust, _) if is_known => Opening::Accepted,
            (Method::Trust | Method::Reject, _) => Opening::Rejected,
            (Method::Plain, _) => Self::begin_cleartext(input),
            (Method::Scram, _) | (Method::Md5, Account::Known(StoredSecret::Scram(_))) => {
                Self::begin_sasl(input)
            }
            (Method::Md5, _) => Self::begin_md5(input),
        }
    }

    /// The user who logs in; the same from the beginning to the end.
    #[must_use]
    pub fn user(&self) -> &[u8] {
        &self.user
    }

    /// Takes the body of a `p` message (PasswordMessage, SASLInitialResponse, SASLResponse).
    ///
    /// # Errors
    /// What the message violates; end the connection with a protocol error.
    pub fn handle_response(&mut self, body: &[u8]) -> Result<Progress, LoginError> {
        if body.len() > TOKEN_LEN_MAX {
            self.state = State::Done;
            return Err(LoginError::BodyTooLong { len: body.len() });
        }
        match mem::replace(&mut self.state, State::Done) {
            State::Cleartext(secret) => self.check_cleartext(&secret, body),
            State::Md5 { salt, secret } => self.check_md5(&secret, salt, body),
            State::SaslInitial { plan, nonce } => self.sasl_initial(plan, nonce, body),
            State::SaslFinal(server) => sasl_final(server, body),
            State::CleartextKeys(_) | State::SaslKeys { .. } | State::Done => {
                Err(LoginError::OutOfOrder)
            }
        }
    }

    /// Takes the keys that [`Progress::NeedKdf`] asked for.
    ///
    /// # Errors
    /// [`LoginError::OutOfOrder`] when nobody asked, or what the waiting message violates.
    pub fn provide_keys(&mut self, keys: &ScramKeys) -> Result<Progress, LoginError> {
        match mem::replace(&mut self.state, State::Done) {
            State::CleartextKeys(verifier) => Ok(check_keys(keys, verifier)),
            State::SaslKeys {
                client_first,
                salt,
                iterations,
                nonce,
            } => {
                let verifier = ScramVerifier::from_keys(keys, salt, iterations);
                let server = ScramServer::new(verifier, nonce, ChannelBinding::None);
                self.sasl_first(server, &client_first)
            }
            _ => Err(LoginError::OutOfOrder),
        }
    }

    // === the challenges ===

    fn begin_cleartext(input: LoginInput<'_>) -> Opening {
        let state = State::Cleartext(secret_of(input.account));
        Self::ask(input.user, Challenge::Cleartext, state)
    }

    fn begin_md5(input: LoginInput<'_>) -> Opening {
        let salt = input.random.md5_salt;
        let state = State::Md5 {
            salt,
            secret: secret_of(input.account),
        };
        Self::ask(input.user, Challenge::Md5 { salt }, state)
    }

    fn begin_sasl(input: LoginInput<'_>) -> Opening {
        let (server_secret, user) = (input.server_secret, input.user);
        let iterations = input.iterations.max(1);
        let plan = match secret_of(input.account) {
            StoredSecret::Scram(verifier) => Plan::Stored(verifier),
            // The salt of the mock, not a random one: it is the same at each login, so the keys
            // can be cached and the user cannot be told from an unknown one.
            StoredSecret::Plain(password) => {
                let salt = mock::salt(server_secret, user);
                Plan::Derive(KdfRequest::new(&password, salt, iterations))
            }
            StoredSecret::Empty | StoredSecret::Md5(_) => {
                Plan::Mock(mock::verifier(server_secret, user, iterations))
            }
        };
        let nonce = Nonce::from_random(input.random.scram_nonce);
        let challenge = Challenge::Sasl {
            mechanisms: &[MECHANISM],
        };
        Self::ask(user, challenge, State::SaslInitial { plan, nonce })
    }

    fn ask(user: &[u8], challenge: Challenge, state: State) -> Opening {
        let exchange = Box::new(Self {
            user: user.to_vec(),
            state,
        });
        Opening::Ask {
            challenge,
            exchange,
        }
    }

    // === the answers ===

    fn check_cleartext(
        &mut self,
        secret: &StoredSecret,
        body: &[u8],
    ) -> Result<Progress, LoginError> {
        let password = body::password(body)?;
        let fits = match secret {
            StoredSecret::Empty => false,
            StoredSecret::Md5(stored) => md5::hash(password, &self.user).ct_eq(stored),
            StoredSecret::Plain(stored) => stored.ct_eq(password),
            StoredSecret::Scram(verifier) => {
                let password = Secret::new(password.to_vec());
                let salt = verifier.salt().to_vec();
                let request = KdfRequest::new(&password, salt, verifier.iterations());
                self.state = State::CleartextKeys(verifier.clone());
                return Ok(Progress::NeedKdf(request));
            }
        };
        Ok(verdict(fits))
    }

    fn check_md5(
        &self,
        secret: &StoredSecret,
        salt: [u8; 4],
        body: &[u8],
    ) -> Result<Progress, LoginError> {
        let response = body::password(body)?;
        Ok(verdict(md5::verify(secret, &self.user, salt, response)))
    }

    fn sasl_initial(
        &mut self,
        plan: Plan,
        nonce: Nonce,
        body: &[u8],
    ) -> Result<Progress, LoginError> {
        let client_first = body::sasl_initial(body)?;
        let server = match plan {
            Plan::Stored(verifier) => ScramServer::new(verifier, nonce, ChannelBinding::None),
            Plan::Mock(verifier) => ScramServer::new_mock(verifier, nonce, ChannelBinding::None),
            Plan::Derive(request) => {
                self.state = State::SaslKeys {
                    client_first: client_first.to_vec(),
                    salt: request.salt().to_vec(),
                    iterations: request.iterations(),
                    nonce,
                };
                return Ok(Progress::NeedKdf(request));
            }
        };
        self.sasl_first(server, client_first)
    }

    fn sasl_first(
        &mut self,
        mut server: ScramServer,
        client_first: &[u8],
    ) -> Result<Progress, LoginError> {
        let server_first = server.handle_first(client_first)?;
        self.state = State::SaslFinal(server);
        Ok(Progress::Continue(server_first))
    }
}

fn sasl_final(mut server: ScramServer, body: &[u8]) -> Result<Progress, LoginError> {
    match server.handle_final(body) {
        Ok(Accepted {
            server_final,
            client_key,
        }) => {
            let pass_through = PassThrough::new(client_key, server.verifier().clone());
            let final_message = Some(server_final);
            Ok(Progress::Accepted(Acceptance {
                final_message,
                pass_through,
            }))
        }
        Err(error) if error.is_wrong_credentials() => Ok(Progress::Rejected),
        Err(error) => Err(error.into()),
    }
}

/// The password came in the clear: its keys have to be those of the verifier.
fn check_keys(keys: &ScramKeys, verifier: ScramVerifier) -> Progress {
    match PassThrough::new(keys.client_key.clone(), verifier) {
        Some(pass_through) => Progress::Accepted(Acceptance {
            final_message: None,
            pass_through: Some(pass_through),
        }),
        None => Progress::Rejected,
    }
}

fn secret_of(account: Account) -> StoredSecret {
    match account {
        Account::Known(secret) => secret,
        Account::Unknown => StoredSecret::Empty,
    }
}

fn verdict(fits: bool) -> Progress {
    if fits {
        Progress::Accepted(Acceptance {
            final_message: None,
            pass_through: None,
        })
    } else {
        Progress::Rejected
    }
}

#[cfg(test)]
mod tests;
