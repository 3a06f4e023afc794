//! Client role: logs in to a server, and checks that the server knows the verifier.

use std::mem;

use subtle::ConstantTimeEq;

use super::ChannelBinding;
use super::Nonce;
use super::ScramError;
use super::message;
use crate::crypto;
use crate::kdf::ITERATIONS_MAX;
use crate::kdf::KdfRequest;
use crate::kdf::ScramKeys;
use crate::secret::ClientKey;
use crate::secret::KEY_LEN;
use crate::secret::Secret;
use crate::secret::StoredKey;
use crate::stored::ScramVerifier;

/// Key material left from a client's own SCRAM login: enough to log in to a server that holds exactly the same
/// verifier, and to no other. As good as a password; keep it as briefly as one.
///
/// Rules for code that keeps it (SEC-64):
/// - it belongs to one user of one database of one server, and is never used for a user that the
///   configuration forces on the client;
/// - before each use, call [`PassThrough::matches`] with the verifier known now, and drop the value if it returns
///   false: the secret was changed;
/// - it is dropped when a login with it fails, on RELOAD, and when it grows old;
/// - it never leaves the process, except for the successor in an upgrade;
/// - channel binding is computed from the certificate of the server, never taken from the client.
#[derive(Clone)]
pub struct PassThrough {
    client_key: ClientKey,
    verifier: ScramVerifier,
}

impl PassThrough {
    /// Combines both; `None` if the key does not belong to the verifier.
    #[must_use]
    pub fn new(client_key: ClientKey, verifier: ScramVerifier) -> Option<Self> {
        let stored_key = StoredKey::new(crypto::sha256(client_key.expose()));
        let fits = stored_key.ct_eq(verifier.stored_key());
        fits.then_some(Self {
            client_key,
            verifier,
        })
    }

    /// True if it allows a login to a server that holds `verifier`: salt, iterations and both keys must be equal byte
    /// for byte (SEC-64).
    #[must_use]
    pub fn matches(&self, verifier: &ScramVerifier) -> bool {
        self.verifier.ct_eq(verifier)
    }

    /// The key. Only for the successor of this process.
    #[must_use]
    pub fn client_key(&self) -> &ClientKey {
        &self.client_key
    }

    /// The verifier that the client logged in with.
    #[must_use]
    pub fn verifier(&self) -> &ScramVerifier {
        &self.verifier
    }

    fn into_keys(self) -> ScramKeys {
        let server_key = self.verifier.server_key().clone();
        ScramKeys {
            client_key: self.client_key,
            server_key,
        }
    }
}

/// Next step after the server's first message.
pub enum Step {
    /// Compute the keys off the event loop, then call [`ScramClient::provide_keys`].
    NeedKeys(KdfRequest),
    /// Send this as SASLResponse.
    Send(Vec<u8>),
}

/// Login to one server.
///
/// ```text
/// new ─first_message─> sent first ─handle_server_first─> sent final ─handle_server_final─> done
///                                        │                   ^
///                                        └> needs keys ──provide_keys
/// ```
///
/// After an error every call returns [`ScramError::OutOfOrder`]. Trust the server only after `handle_server_final` has
/// returned `Ok`.
pub struct ScramClient {
    source: Option<Source>,
    nonce: Nonce,
    binding: ChannelBinding,
    iterations_max: u32,
    state: State,
}

enum Source {
    PassThrough(PassThrough),
    Password(Secret),
}

enum State {
    Created,
    SentFirst,
    NeedsKeys(Opened),
    SentFinal { server_signature: [u8; KEY_LEN] },
    Done,
}

/// Values fixed by the server's first message.
struct Opened {
    server_first: Vec<u8>,
    /// Both parts of the nonce, the client's first.
    nonce: Vec<u8>,
}

impl ScramClient {
    /// Starts a login with a password as the user wrote it. `nonce` must be fresh.
    #[must_use]
    pub fn with_password(password: Secret, nonce: Nonce) -> Self {
        Self::new(Source::Password(password), nonce)
    }

    /// Starts a login with the key material of a client's own login. `nonce` must be fresh.
    #[must_use]
    pub fn with_pass_through(keys: PassThrough, nonce: Nonce) -> Self {
        Self::new(Source::PassThrough(keys), nonce)
    }

    fn new(source: Source, nonce: Nonce) -> Self {
        let source = Some(source);
        Self {
            source,
            nonce,
            binding: ChannelBinding::None,
            iterations_max: ITERATIONS_MAX,
            state: State::Created,
        }
    }

    /// Sets the binding of the exchange to TLS; [`ChannelBinding::None`] by default. The data is that of the
    /// certificate that the *server* showed (SEC-64). The mechanism to name is [`super::MECHANISM_PLUS`] for
    /// [`ChannelBinding::EndPoint`], else [`super::MECHANISM`].
    #[must_use]
    pub fn channel_binding(mut self, binding: ChannelBinding) -> Self {
        self.binding = binding;
        self
    }

    /// Sets the maximum number of iterations that the server may demand; [`ITERATIONS_MAX`] by default.
    #[must_use]
    pub fn iterations_max(mut self, max: u32) -> Self {
        self.iterations_max = max;
        self
    }

    /// Returns the client-first-message, for SASLInitialResponse. As in libpq the name is empty, because the startup
    /// message has it.
    ///
    /// # Errors
    /// Returns [`ScramError::OutOfOrder`] if called twice.
    pub fn first_message(&mut self) -> Result<Vec<u8>, ScramError> {
        let State::Created = mem::replace(&mut self.state, State::Done) else {
            return Err(ScramError::OutOfOrder);
        };
        self.state = State::SentFirst;
        let header = self.binding.gs2_header();
        Ok([header.as_bytes(), &self.first_bare()].concat())
    }

    /// Processes the server-first-message (AuthenticationSASLContinue).
    ///
    /// # Errors
    /// Returns the violation by the message, [`ScramError::IterationsTooMany`] above the limit, or
    /// [`ScramError::VerifierMismatch`] if pass-through does not fit this server.
    pub fn handle_server_first(&mut self, text: &[u8]) -> Result<Step, ScramError> {
        let State::SentFirst = mem::replace(&mut self.state, State::Done) else {
            return Err(ScramError::OutOfOrder);
        };
        let first = message::server_first(text)?;
        // The server must have added a part of its own.
        match first.nonce.strip_prefix(self.nonce.as_bytes()) {
            Some(added) if !added.is_empty() => {}
            _ => return Err(ScramError::NonceMismatch),
        }
        let opened = Opened {
            server_first: text.to_vec(),
            nonce: first.nonce.to_vec(),
        };
        match self.source.take().ok_or(ScramError::OutOfOrder)? {
            Source::PassThrough(keys) => {
                if !keys
                    .verifier
                    .has_same_salt_as(&first.salt, first.iterations)
                {
                    return Err(ScramError::VerifierMismatch);
                }
                Ok(Step::Send(self.finish(&opened, &keys.into_keys())))
            }
            Source::Password(password) => {
                let max = self.iterations_max;
                if first.iterations > max {
                    let iterations = first.iterations;
                    return Err(ScramError::IterationsTooMany { iterations, max });
                }
                self.state = State::NeedsKeys(opened);
                Ok(Step::NeedKeys(KdfRequest::new(
                    &password,
                    first.salt,
                    first.iterations,
                )))
            }
        }
    }

    /// Takes the keys of [`Step::NeedKeys`]; returns the SASLResponse to send.
    ///
    /// # Errors
    /// Returns [`ScramError::OutOfOrder`] if no keys were requested.
    pub fn provide_keys(&mut self, keys: &ScramKeys) -> Result<Vec<u8>, ScramError> {
        let State::NeedsKeys(opened) = mem::replace(&mut self.state, State::Done) else {
            return Err(ScramError::OutOfOrder);
        };
        Ok(self.finish(&opened, keys))
    }

    /// Processes the server-final-message (AuthenticationSASLFinal). `Ok` means that the server knows the verifier.
    ///
    /// # Errors
    /// Returns [`ScramError::SignatureMismatch`] if it does not, else the violation by the message.
    pub fn handle_server_final(&mut self, text: &[u8]) -> Result<(), ScramError> {
        let State::SentFinal { server_signature } = mem::replace(&mut self.state, State::Done)
        else {
            return Err(ScramError::OutOfOrder);
        };
        let signature = message::server_final(text)?;
        let fits: bool = signature
            .as_slice()
            .ct_eq(server_signature.as_slice())
            .into();
        if fits {
            Ok(())
        } else {
            Err(ScramError::SignatureMismatch)
        }
    }

    fn first_bare(&self) -> Vec<u8> {
        [b"n=,r=", self.nonce.as_bytes()].concat()
    }

    /// Makes the client-final-message and stores the signature to expect.
    fn finish(&mut self, opened: &Opened, keys: &ScramKeys) -> Vec<u8> {
        let header = self.binding.gs2_header().as_bytes();
        let binding = self.binding.repetition(header);
        let mut text = format!("c={binding},r=").into_bytes();
        text.extend_from_slice(&opened.nonce);
        let bare = self.first_bare();
        let signed: &[&[u8]] = &[&bare, b",", &opened.server_first, b",", &text];
        let signature = crypto::hmac(keys.stored_key().expose(), signed);
        let proof = crypto::xor(keys.client_key.expose(), &signature);
        let server_signature = crypto::hmac(keys.server_key.expose(), signed);
        self.state = State::SentFinal { server_signature };
        let proof = crypto::base64_encode(proof.as_slice());
        text.extend_from_slice(b",p=");
        text.extend_from_slice(proof.as_bytes());
        text
    }
}
