//! State machine of one login, from the challenge on. [`super::begin`] has its start.

use std::mem;

use super::Acceptance;
use super::LoginError;
use super::Progress;
use super::TOKEN_LEN_MAX;
use super::body;
use super::body::Mechanism;
use crate::kdf::KdfRequest;
use crate::kdf::ScramKeys;
use crate::md5;
use crate::scram::ChannelBinding;
use crate::scram::Nonce;
use crate::scram::PassThrough;
use crate::scram::Proof;
use crate::scram::ScramServer;
use crate::secret::Secret;
use crate::stored::ScramVerifier;
use crate::stored::StoredSecret;

/// Login of one client, from the challenge to the verdict.
///
/// ```text
/// External ─────────────────────────────> checking ───────────────┐
/// Cleartext ────────────────────┬─(SCRAM verifier)─> keys ────────┤
/// Md5 ──────────────────────────┤                                 ├─> verdict (done)
/// SaslInitial ─┬─> SaslFinal ───┼─(password in the clear)─> keys ─┤
///              └─> SaslFirst ─^ └─(wrong)─> keys for nothing ─────┘
/// ```
///
/// `SaslFirst` is for a client that names the mechanism without a first message. Keys for nothing are requested where a
/// right password would have cost keys too (SEC-49).
///
/// A message or call out of turn is [`LoginError::OutOfOrder`]. Every error ends the login (SEC-40).
pub struct Exchange {
    pub(super) user: Vec<u8>,
    pub(super) state: State,
    pub(super) leveling: Leveling,
}

pub(super) enum State {
    Checking,
    Cleartext(StoredSecret),
    CleartextKeys(ScramVerifier),
    Done,
    External,
    KeysForNothing,
    Md5 {
        salt: [u8; 4],
        secret: StoredSecret,
    },
    SaslInitial {
        plan: Plan,
        nonce: Nonce,
        binding: Option<Box<[u8]>>,
    },
    SaslFirst {
        plan: Plan,
        server: ScramServer,
    },
    SaslFinal {
        plan: Plan,
        server: ScramServer,
    },
    SaslKeys {
        proof: Proof,
        salt: Vec<u8>,
        iterations: u32,
    },
}

/// Secret that a SCRAM exchange is checked against.
pub(super) enum Plan {
    /// A password in clear text: a verifier must be made before the proof can be checked.
    Derive(KdfRequest),
    /// No proof fits; see [`crate::mock`].
    Mock(ScramVerifier),
    Stored(ScramVerifier),
}

/// Work done before a rejection, so that all rejections of one method cost the same.
pub(super) enum Leveling {
    /// No user's secret requires the derivation of keys.
    None,
    /// Derives keys from the typed password, as for a user with a verifier of this shape.
    OfTyped { salt: Vec<u8>, iterations: u32 },
    /// Derives keys that fit nothing.
    Request(KdfRequest),
}

impl Exchange {
    /// The user who logs in; does not change during the exchange.
    #[must_use]
    pub fn user(&self) -> &[u8] {
        &self.user
    }

    /// True if the client is certain to be rejected, although keys are still requested to hide this (SEC-49). The
    /// failure counts from now on, or else many concurrent logins would escape a limit.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self.state, State::KeysForNothing)
    }

    /// Processes the body of a `p` message (PasswordMessage, SASLInitialResponse, SASLResponse).
    ///
    /// # Errors
    /// Returns the violation by the message; end the connection with a protocol error.
    pub fn handle_response(&mut self, body: &[u8]) -> Result<Progress, LoginError> {
        let state = mem::replace(&mut self.state, State::Done);
        if body.len() > TOKEN_LEN_MAX {
            return Err(LoginError::BodyTooLong { len: body.len() });
        }
        match state {
            State::Cleartext(secret) => self.check_cleartext(secret, body),
            State::External => {
                let password = Secret::new(body::password(body)?.to_vec());
                self.state = State::Checking;
                Ok(Progress::NeedCheck(password))
            }
            State::Md5 { salt, secret } => {
                let response = body::password(body)?;
                Ok(verdict(md5::verify(&secret, &self.user, salt, response)))
            }
            State::SaslInitial {
                plan,
                nonce,
                binding,
            } => self.sasl_initial(plan, nonce, binding, body),
            State::SaslFirst { plan, server } => self.sasl_first(plan, server, body),
            State::SaslFinal { plan, server } => self.sasl_final(plan, server, body),
            State::Checking
            | State::CleartextKeys(_)
            | State::Done
            | State::KeysForNothing
            | State::SaslKeys { .. } => Err(LoginError::OutOfOrder),
        }
    }

    /// Takes the keys that were derived for [`Progress::NeedKdf`].
    ///
    /// # Errors
    /// Returns [`LoginError::OutOfOrder`] if no keys were requested.
    pub fn provide_keys(&mut self, keys: &ScramKeys) -> Result<Progress, LoginError> {
        self.check_keys(keys).map(|accepted| match accepted {
            Some(acceptance) => Progress::Accepted(acceptance),
            None => Progress::Rejected,
        })
    }

    /// As [`Exchange::provide_keys`], with keys from a cache. If they do not fit, keys are requested once more, for
    /// nothing. Otherwise a quick rejection would reveal that the user has logged in before (SEC-49).
    ///
    /// # Errors
    /// Returns [`LoginError::OutOfOrder`] if no keys were requested.
    pub fn provide_cached_keys(&mut self, keys: &ScramKeys) -> Result<Progress, LoginError> {
        match self.check_keys(keys)? {
            Some(acceptance) => Ok(Progress::Accepted(acceptance)),
            None => Ok(self.reject()),
        }
    }

    /// Takes the verdict on the password of [`Progress::NeedCheck`].
    ///
    /// # Errors
    /// Returns [`LoginError::OutOfOrder`] if no verdict was requested.
    pub fn provide_verdict(&mut self, fits: bool) -> Result<Progress, LoginError> {
        match mem::replace(&mut self.state, State::Done) {
            State::Checking => Ok(verdict(fits)),
            _ => Err(LoginError::OutOfOrder),
        }
    }

    fn check_cleartext(
        &mut self,
        secret: StoredSecret,
        body: &[u8],
    ) -> Result<Progress, LoginError> {
        let password = body::password(body)?;
        let fits = match secret {
            StoredSecret::Empty => false,
            StoredSecret::Md5(stored) => md5::hash(password, &self.user).ct_eq(&stored),
            StoredSecret::Plain(stored) => stored.ct_eq(password),
            StoredSecret::Scram(verifier) => {
                let password = Secret::new(password.to_vec());
                let salt = verifier.salt().to_vec();
                let request = KdfRequest::uncached(&password, salt, verifier.iterations());
                self.state = State::CleartextKeys(verifier);
                return Ok(Progress::NeedKdf(request));
            }
        };
        if fits {
            return Ok(verdict(true));
        }
        if let Leveling::OfTyped { salt, iterations } = &self.leveling {
            let password = Secret::new(password.to_vec());
            let request = KdfRequest::uncached(&password, salt.clone(), *iterations);
            self.leveling = Leveling::Request(request);
        }
        Ok(self.reject())
    }

    fn sasl_initial(
        &mut self,
        plan: Plan,
        nonce: Nonce,
        data: Option<Box<[u8]>>,
        body: &[u8],
    ) -> Result<Progress, LoginError> {
        let initial = body::sasl_initial(body)?;
        let binding = match (initial.mechanism, data) {
            (Mechanism::Plus, Some(data)) => ChannelBinding::EndPoint(data),
            (Mechanism::Plus, None) => return Err(LoginError::UnknownMechanism),
            (Mechanism::Plain, Some(_)) => ChannelBinding::Unused,
            (Mechanism::Plain, None) => ChannelBinding::None,
        };
        let (salt, iterations) = match &plan {
            Plan::Derive(request) => (request.salt(), request.iterations()),
            Plan::Mock(verifier) | Plan::Stored(verifier) => {
                (verifier.salt(), verifier.iterations())
            }
        };
        let server = ScramServer::new(salt.to_vec(), iterations, nonce, binding);
        match initial.data {
            Some(client_first) => self.sasl_first(plan, server, client_first),
            // As in PostgreSQL (pg_be_scram_exchange), an empty challenge asks for the first message.
            None => {
                self.state = State::SaslFirst { plan, server };
                Ok(Progress::Continue(Vec::new()))
            }
        }
    }

    fn sasl_first(
        &mut self,
        plan: Plan,
        mut server: ScramServer,
        client_first: &[u8],
    ) -> Result<Progress, LoginError> {
        let server_first = server.handle_first(client_first)?;
        self.state = State::SaslFinal { plan, server };
        Ok(Progress::Continue(server_first))
    }

    fn sasl_final(
        &mut self,
        plan: Plan,
        mut server: ScramServer,
        body: &[u8],
    ) -> Result<Progress, LoginError> {
        let proof = server.handle_final(body)?;
        match plan {
            Plan::Derive(request) => {
                self.state = State::SaslKeys {
                    proof,
                    salt: request.salt().to_vec(),
                    iterations: request.iterations(),
                };
                Ok(Progress::NeedKdf(request))
            }
            Plan::Stored(verifier) => match accepted(&proof, verifier) {
                Some(acceptance) => Ok(Progress::Accepted(acceptance)),
                None => Ok(self.reject()),
            },
            Plan::Mock(verifier) => {
                // Same work as with a stored verifier; the result is ignored.
                let _ = accepted(&proof, verifier);
                Ok(self.reject())
            }
        }
    }

    fn check_keys(&mut self, keys: &ScramKeys) -> Result<Option<Acceptance>, LoginError> {
        match mem::replace(&mut self.state, State::Done) {
            // The password came in clear text: its keys must be those of the verifier.
            State::CleartextKeys(verifier) => {
                let pass_through = PassThrough::new(keys.client_key.clone(), verifier);
                Ok(pass_through.map(|pass_through| Acceptance {
                    final_message: None,
                    pass_through: Some(pass_through),
                }))
            }
            State::KeysForNothing => Ok(None),
            State::SaslKeys {
                proof,
                salt,
                iterations,
            } => {
                let verifier = ScramVerifier::from_keys(keys, salt, iterations);
                Ok(accepted(&proof, verifier))
            }
            _ => Err(LoginError::OutOfOrder),
        }
    }

    /// Rejects wrong credentials: at once, or after the work that a right guess may have cost.
    fn reject(&mut self) -> Progress {
        match mem::replace(&mut self.leveling, Leveling::None) {
            Leveling::Request(request) => {
                self.state = State::KeysForNothing;
                Progress::NeedKdf(request)
            }
            Leveling::None | Leveling::OfTyped { .. } => Progress::Rejected,
        }
    }
}

/// Checks a proof. Success includes the keys for Weir's own login to a server.
fn accepted(proof: &Proof, verifier: ScramVerifier) -> Option<Acceptance> {
    let accepted = proof.check(&verifier).ok()?;
    Some(Acceptance {
        final_message: Some(accepted.server_final),
        pass_through: PassThrough::new(accepted.client_key, verifier),
    })
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
