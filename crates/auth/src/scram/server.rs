//! Server role: checks a client.

use std::mem;

use super::BINDING_TYPE;
use super::ChannelBinding;
use super::Nonce;
use super::ScramError;
use super::message;
use super::message::BindingFlag;
use crate::crypto;
use crate::secret::ClientKey;
use crate::secret::KEY_LEN;
use crate::secret::StoredKey;
use crate::stored::ScramVerifier;

/// Result for a client that has proved that it knows the password.
pub struct Accepted {
    /// The text of AuthenticationSASLFinal.
    pub server_final: Vec<u8>,
    /// The client's key, recovered from its proof, for a login by pass-through (SEC-64).
    pub client_key: ClientKey,
}

/// Exchange with one client, up to the [`Proof`] that the client gives.
///
/// ```text
/// new ──> awaiting first ──handle_first──> awaiting final ──handle_final──> done
///               └──────────────── any error ────────┴──────────────────────> done
/// ```
///
/// Call `handle_first`, send its result, then call `handle_final`. After an error every call returns
/// [`ScramError::OutOfOrder`]. So far only salt and iterations are needed. The keys are needed only for
/// [`Proof::check`], so a client that merely begins a login cannot cause a derivation.
pub struct ScramServer {
    salt: Vec<u8>,
    iterations: u32,
    nonce: Nonce,
    binding: ChannelBinding,
    state: State,
}

enum State {
    AwaitingFirst,
    AwaitingFinal(Opened),
    Done,
}

/// Values fixed by the first two messages.
struct Opened {
    gs2_header: Vec<u8>,
    client_first_bare: Vec<u8>,
    server_first: Vec<u8>,
    /// Both parts of the nonce, the client's first.
    nonce: Vec<u8>,
}

impl ScramServer {
    /// Begins an exchange about keys with this salt and number of iterations. `nonce` must be fresh.
    ///
    /// `binding` is [`ChannelBinding::None`] if SCRAM-SHA-256-PLUS was not offered, [`ChannelBinding::Unused`] if it
    /// was offered and not chosen, else [`ChannelBinding::EndPoint`].
    #[must_use]
    pub fn new(salt: Vec<u8>, iterations: u32, nonce: Nonce, binding: ChannelBinding) -> Self {
        Self {
            salt,
            iterations,
            nonce,
            binding,
            state: State::AwaitingFirst,
        }
    }

    /// Processes the client-first-message, returns the server-first-message.
    ///
    /// # Errors
    /// Returns the violation by the message; see [`ScramError`].
    pub fn handle_first(&mut self, text: &[u8]) -> Result<Vec<u8>, ScramError> {
        let State::AwaitingFirst = mem::replace(&mut self.state, State::Done) else {
            return Err(ScramError::OutOfOrder);
        };
        let first = message::client_first(text)?;
        check_flag(first.flag, &self.binding)?;
        let nonce = [first.nonce, self.nonce.as_bytes()].concat();
        let mut server_first = b"r=".to_vec();
        server_first.extend_from_slice(&nonce);
        let salt = crypto::base64_encode(&self.salt);
        let tail = format!(",s={salt},i={}", self.iterations);
        server_first.extend_from_slice(tail.as_bytes());
        self.state = State::AwaitingFinal(Opened {
            gs2_header: first.gs2_header.to_vec(),
            client_first_bare: first.bare.to_vec(),
            server_first: server_first.clone(),
            nonce,
        });
        Ok(server_first)
    }

    /// Processes the client-final-message; returns the proof to check.
    ///
    /// # Errors
    /// Returns the violation by the message; nothing is known about the password yet.
    pub fn handle_final(&mut self, text: &[u8]) -> Result<Proof, ScramError> {
        let State::AwaitingFinal(opened) = mem::replace(&mut self.state, State::Done) else {
            return Err(ScramError::OutOfOrder);
        };
        let last = message::client_final(text)?;
        let repetition = self.binding.repetition(&opened.gs2_header);
        if last.channel_binding != repetition.as_bytes() {
            return Err(ScramError::ChannelBindingMismatch);
        }
        if last.nonce != opened.nonce {
            return Err(ScramError::NonceMismatch);
        }
        let signed: &[&[u8]] = &[
            &opened.client_first_bare,
            b",",
            &opened.server_first,
            b",",
            last.without_proof,
        ];
        Ok(Proof {
            signed: signed.concat(),
            proof: *last.proof,
        })
    }
}

/// Checks the flag by RFC 5802 section 6, given the mechanisms offered and chosen (SEC-63).
fn check_flag(flag: BindingFlag<'_>, binding: &ChannelBinding) -> Result<(), ScramError> {
    match (flag, binding) {
        (BindingFlag::Binds(name), ChannelBinding::EndPoint(_)) => {
            if name == BINDING_TYPE.as_bytes() {
                Ok(())
            } else {
                Err(ScramError::ChannelBindingType)
            }
        }
        (BindingFlag::Binds(_), _) => Err(ScramError::ChannelBindingRefused),
        (_, ChannelBinding::EndPoint(_)) => Err(ScramError::ChannelBindingMissing),
        (BindingFlag::CouldBind, ChannelBinding::Unused) => {
            Err(ScramError::ChannelBindingDowngrade)
        }
        (BindingFlag::CouldBind | BindingFlag::CannotBind, _) => Ok(()),
    }
}

/// A well-formed proof that was not checked yet.
pub struct Proof {
    /// The `AuthMessage` of RFC 5802.
    signed: Vec<u8>,
    proof: [u8; KEY_LEN],
}

impl Proof {
    /// Checks the proof in constant time; success means that the client knows the password. The verifier must have the
    /// salt and the iterations that the exchange began with.
    ///
    /// # Errors
    /// [`ScramError::ProofMismatch`].
    pub fn check(&self, verifier: &ScramVerifier) -> Result<Accepted, ScramError> {
        let signature = crypto::hmac(verifier.stored_key().expose(), &[&self.signed]);
        let client_key = ClientKey::new(*crypto::xor(&self.proof, &signature));
        let stored_key = StoredKey::new(crypto::sha256(client_key.expose()));
        let server_signature = crypto::hmac(verifier.server_key().expose(), &[&self.signed]);
        if !stored_key.ct_eq(verifier.stored_key()) {
            return Err(ScramError::ProofMismatch);
        }
        let server_final = format!("v={}", crypto::base64_encode(&server_signature)).into_bytes();
        Ok(Accepted {
            server_final,
            client_key,
        })
    }
}
