//! Start of TLS on one connection: the answer to the request for it, and the handshake. Pure; its owner moves the bytes,
//! and lets a helper thread compute the steps.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_tls::session::{HANDSHAKE_LEN_MAX, TlsFault};
use weir_wire::encode;

use crate::tls::{Advanced, Handshake, Session};

/// Answer of a server to the request for TLS.
pub(crate) enum Answer {
    /// The server continues in TLS.
    Yes,
    /// The server has no TLS.
    No,
    /// The answer cannot be trusted or understood.
    Strange(&'static str),
}

/// Reads the answer to the request for TLS, which is one byte (PostgreSQL manual, 54.2.11). Bytes with it or instead of
/// it came unprotected and may be from anybody: none of them is used or shown (hazards SEC-02, SEC-03).
pub(crate) fn answer(bytes: &[u8]) -> Answer {
    match bytes {
        b"S" => Answer::Yes,
        b"N" => Answer::No,
        [b'S' | b'N', ..] => {
            Answer::Strange("server sent unencrypted data with its answer to the SSL request")
        }
        [b'E', ..] => Answer::Strange("server answered the SSL request with an error"),
        _ => Answer::Strange("server sent an invalid answer to the SSL request"),
    }
}

/// Returns the message that asks for TLS.
pub(crate) fn request() -> Vec<u8> {
    let mut message = Vec::new();
    // Eight bytes.
    let _ = encode::ssl_request(&mut message);
    message
}

/// Handshake in progress.
pub(crate) struct Securing {
    /// State of the handshake; none while a helper has it.
    handshake: Option<Handshake>,
    /// Bytes that came in while a helper had the handshake.
    input: Vec<u8>,
}

/// Step of a handshake, for a helper.
pub(crate) struct Step {
    handshake: Handshake,
    input: Vec<u8>,
}

impl Securing {
    /// Returns a new handshake, whose first step needs no bytes.
    pub(crate) fn new(handshake: Handshake) -> Self {
        Self {
            handshake: Some(handshake),
            input: Vec::new(),
        }
    }

    /// Adds received bytes. Returns the next step, unless a helper has the handshake.
    ///
    /// # Errors
    /// The other side sends more than a handshake may have.
    pub(crate) fn next_step(&mut self, bytes: &[u8]) -> Result<Option<Step>, TlsFault> {
        if self.input.len() + bytes.len() > HANDSHAKE_LEN_MAX {
            return Err(TlsFault::TooLong);
        }
        self.input.extend_from_slice(bytes);
        let step = |handshake| Step {
            handshake,
            input: std::mem::take(&mut self.input),
        };
        Ok(self.handshake.take().map(step))
    }

    /// Takes the handshake back from a helper. Returns true if bytes for the next step have come meanwhile.
    pub(crate) fn put_back(&mut self, handshake: Handshake) -> bool {
        self.handshake = Some(handshake);
        !self.input.is_empty()
    }

    /// Opens the records that came in while a helper had the handshake, behind those that it opened itself. Writes
    /// answers of the record layer to `out`.
    ///
    /// # Errors
    /// A record cannot be opened.
    pub(crate) fn open_behind(
        &mut self,
        session: &mut Session,
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsFault> {
        let mut behind = std::mem::take(&mut self.input);
        if behind.is_empty() {
            return Ok(());
        }
        let mut partial = vec![0; HANDSHAKE_LEN_MAX];
        let len = session.take_partial(&mut partial);
        partial.truncate(len);
        partial.append(&mut behind);
        let mut opened = vec![0; partial.len()];
        let outcome = session.open(&mut partial, &mut opened, out);
        plain.extend_from_slice(opened.get(..outcome?.len).unwrap_or_default());
        Ok(())
    }
}

impl Step {
    /// Computes the step. A bug must not leave the connection waiting for an answer that never comes.
    pub(crate) fn compute(self) -> Advanced {
        let advanced = catch_unwind(AssertUnwindSafe(|| self.handshake.advance(&self.input)));
        advanced.unwrap_or_else(|_| Advanced {
            output: Vec::new(),
            progress: Err(TlsFault::Bug),
        })
    }
}
