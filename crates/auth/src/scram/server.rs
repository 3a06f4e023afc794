//! The server's role: we check a client.

use std::mem;

use super::ChannelBinding;
use super::Nonce;
use super::ScramError;
use super::message;
use crate::crypto;
use crate::secret::ClientKey;
use crate::secret::StoredKey;
use crate::stored::ScramVerifier;

/// A client has proved that it knows the password.
pub struct Accepted {
    /// The text of AuthenticationSASLFinal.
    pub server_final: Vec<u8>,
    /// The client's key, recovered from its proof, for a login by pass-through (SEC-64).
    pub client_key: ClientKey,
}

/// Checks one client.
///
/// ```text
/// new ──> awaiting first ──handle_first──> awaiting final ──handle_final──> done
///               └──────────────── any error ────────┴──────────────────────> done
/// ```
///
/// Drive it with `handle_first`, send what it returns, then `handle_final`. After an error every
/// call answers [`ScramError::OutOfOrder`].
pub struct ScramServer {
    verifier: ScramVerifier,
    nonce: Nonce,
    binding: ChannelBinding,
    /// Whether somebody may be accepted at all; false for a mock exchange.
    real: bool,
    state: State,
}

enum State {
    AwaitingFirst,
    AwaitingFinal(Opened),
    Done,
}

/// What the first two messages fixed.
struct Opened {
    gs2_header: Vec<u8>,
    client_first_bare: Vec<u8>,
    server_first: Vec<u8>,
    /// Both parts of the nonce, the client's first.
    nonce: Vec<u8>,
}

impl ScramServer {
    /// Begins an exchange with a user who has a verifier. `nonce` must be fresh.
    #[must_use]
    pub fn new(verifier: ScramVerifier, nonce: Nonce, binding: ChannelBinding) -> Self {
        Self {
            verifier,
            nonce,
            binding,
            real: true,
            state: State::AwaitingFirst,
        }
    }

    /// Begins an exchange that looks like any other and always ends in
    /// [`ScramError::ProofMismatch`] (SEC-49). The verifier comes from [`crate::mock`].
    #[must_use]
    pub fn new_mock(verifier: ScramVerifier, nonce: Nonce, binding: ChannelBinding) -> Self {
        Self {
            verifier,
            nonce,
            binding,
            real: false,
            state: State::AwaitingFirst,
        }
    }

    /// Takes the client-first-message, returns the server-first-message.
    ///
    /// # Errors
    /// What the message violates; see [`ScramError`].
    pub fn handle_first(&mut self, text: &[u8]) -> Result<Vec<u8>, ScramError> {
        let State::AwaitingFirst = mem::replace(&mut self.state, State::Done) else {
            return Err(ScramError::OutOfOrder);
        };
        let first = match self.binding {
            ChannelBinding::None => message::client_first(text)?,
        };
        let nonce = [first.nonce, self.nonce.as_bytes()].concat();
        let mut server_first = b"r=".to_vec();
        server_first.extend_from_slice(&nonce);
        let salt = crypto::base64_encode(self.verifier.salt());
        let tail = format!(",s={salt},i={}", self.verifier.iterations());
        server_first.extend_from_slice(tail.as_bytes());
        self.state = State::AwaitingFinal(Opened {
            gs2_header: first.gs2_header.to_vec(),
            client_first_bare: first.bare.to_vec(),
            server_first: server_first.clone(),
            nonce,
        });
        Ok(server_first)
    }

    /// Takes the client-final-message; success means that the client knows the password.
    ///
    /// # Errors
    /// [`ScramError::ProofMismatch`] for a wrong password and in a mock exchange, else what the
    /// message violates.
    pub fn handle_final(&mut self, text: &[u8]) -> Result<Accepted, ScramError> {
        let State::AwaitingFinal(opened) = mem::replace(&mut self.state, State::Done) else {
            return Err(ScramError::OutOfOrder);
        };
        let last = message::client_final(text)?;
        let header = crypto::base64_encode(&opened.gs2_header);
        if last.channel_binding != header.as_bytes() {
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
        let signature = crypto::hmac(self.verifier.stored_key().expose(), signed);
        let client_key = ClientKey::new(*crypto::xor(&last.proof, &signature));
        let stored_key = StoredKey::new(crypto::sha256(client_key.expose()));
        let server_signature = crypto::hmac(self.verifier.server_key().expose(), signed);
        let fits = stored_key.ct_eq(self.verifier.stored_key());
        if !(fits & self.real) {
            return Err(ScramError::ProofMismatch);
        }
        let server_final = format!("v={}", crypto::base64_encode(&server_signature)).into_bytes();
        Ok(Accepted {
            server_final,
            client_key,
        })
    }

    /// The verifier that the client is checked against.
    #[must_use]
    pub fn verifier(&self) -> &ScramVerifier {
        &self.verifier
    }
}
