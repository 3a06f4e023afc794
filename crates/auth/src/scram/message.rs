//! The grammar of the SCRAM messages (RFC 5802 section 7), strict and without allocation.
//!
//! Every attribute that is missing, repeated or in another order is an error (SEC-23).

use zeroize::Zeroizing;

use super::NONCE_LEN_MAX;
use super::SALT_LEN_MAX;
use super::ScramError;
use super::ScramMessage;
use crate::crypto;
use crate::secret::KEY_LEN;
use crate::stored;

/// Attributes with a meaning in RFC 5802; none may stand in the place of an extension.
const RESERVED: &[u8] = b"aceimnprsv";

/// Reader of attributes in sequence.
struct Cursor<'a> {
    message: ScramMessage,
    /// Unread text; `None` once the end was reached without a comma.
    rest: Option<&'a [u8]>,
}

impl<'a> Cursor<'a> {
    fn new(message: ScramMessage, text: &'a [u8]) -> Self {
        Self {
            message,
            rest: Some(text),
        }
    }

    /// Reads `name=value`, which must come next.
    fn attribute(&mut self, name: u8) -> Result<&'a [u8], ScramError> {
        let attribute = char::from(name);
        let missing = ScramError::Attribute {
            message: self.message,
            attribute,
        };
        match self.any()? {
            Some((found, value)) if found == name => Ok(value),
            Some((b'm', _)) => Err(ScramError::MandatoryExtension {
                message: self.message,
            }),
            _ => Err(missing),
        }
    }

    /// Skips optional extensions up to the attribute `name` or the end.
    fn extensions(&mut self, until: Option<u8>) -> Result<(), ScramError> {
        loop {
            let before = self.rest;
            let Some((name, _)) = self.any()? else {
                return Ok(());
            };
            if Some(name) == until {
                self.rest = before;
                return Ok(());
            }
            if RESERVED.contains(&name) {
                return Err(ScramError::TrailingBytes {
                    message: self.message,
                });
            }
        }
    }

    fn end(&self) -> Result<(), ScramError> {
        match self.rest {
            None => Ok(()),
            Some(_) => Err(ScramError::TrailingBytes {
                message: self.message,
            }),
        }
    }

    /// Reads any attribute; `None` at the end.
    fn any(&mut self) -> Result<Option<(u8, &'a [u8])>, ScramError> {
        let Some(rest) = self.rest else {
            return Ok(None);
        };
        let mut halves = rest.splitn(2, |byte| *byte == b',');
        let item = halves.next().unwrap_or_default();
        self.rest = halves.next();
        match item {
            [name, b'=', value @ ..] if name.is_ascii_alphabetic() && !value.contains(&0) => {
                Ok(Some((*name, value)))
            }
            _ => Err(ScramError::TrailingBytes {
                message: self.message,
            }),
        }
    }

    fn bad_value(&self, name: u8) -> ScramError {
        ScramError::BadValue {
            message: self.message,
            attribute: char::from(name),
        }
    }
}

/// The client's first message, parsed.
pub(super) struct ClientFirst<'a> {
    /// The client's choice of binding.
    pub(super) flag: BindingFlag<'a>,
    /// The GS2 header with its final comma; `c=` must repeat it.
    pub(super) gs2_header: &'a [u8],
    /// The part covered by the proof.
    pub(super) bare: &'a [u8],
    pub(super) nonce: &'a [u8],
}

/// The first part of the GS2 header (RFC 5802 section 7, `gs2-cbind-flag`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BindingFlag<'a> {
    /// `p=`: the client binds, to this type of data.
    Binds(&'a [u8]),
    /// `y`: the client could bind, but believes that the server cannot.
    CouldBind,
    /// `n`: the client cannot bind.
    CannotBind,
}

/// Parses a client-first-message.
///
/// As in PostgreSQL, the name in it is ignored, because the startup message has the user.
pub(super) fn client_first(text: &[u8]) -> Result<ClientFirst<'_>, ScramError> {
    let message = ScramMessage::ClientFirst;
    let malformed = ScramError::Attribute {
        message,
        attribute: 'n',
    };
    let (flag, after_flag) = match text {
        [b'n', b',', rest @ ..] => (BindingFlag::CannotBind, rest),
        [b'y', b',', rest @ ..] => (BindingFlag::CouldBind, rest),
        [b'p', b'=', rest @ ..] => {
            let mut halves = rest.splitn(2, |byte| *byte == b',');
            let name = halves.next().unwrap_or_default();
            let rest = halves.next().ok_or_else(|| malformed.clone())?;
            (BindingFlag::Binds(name), rest)
        }
        _ => return Err(malformed),
    };
    let bare = match after_flag {
        [b',', rest @ ..] => rest,
        [b'a', b'=', ..] => return Err(ScramError::AuthorizationIdentity),
        _ => return Err(malformed),
    };
    let gs2_header = prefix(text, bare.len());
    let mut cursor = Cursor::new(message, bare);
    cursor.attribute(b'n')?;
    let nonce = cursor.attribute(b'r')?;
    check_nonce(nonce)?;
    cursor.extensions(None)?;
    Ok(ClientFirst {
        flag,
        gs2_header,
        bare,
        nonce,
    })
}

/// The client's final message, parsed.
pub(super) struct ClientFinal<'a> {
    /// The part covered by the proof.
    pub(super) without_proof: &'a [u8],
    pub(super) channel_binding: &'a [u8],
    pub(super) nonce: &'a [u8],
    pub(super) proof: Zeroizing<[u8; KEY_LEN]>,
}

/// Parses a client-final-message.
pub(super) fn client_final(text: &[u8]) -> Result<ClientFinal<'_>, ScramError> {
    let mut cursor = Cursor::new(ScramMessage::ClientFinal, text);
    let channel_binding = cursor.attribute(b'c')?;
    let nonce = cursor.attribute(b'r')?;
    cursor.extensions(Some(b'p'))?;
    // The comma before the proof is not part of the signed text.
    let proof_len = cursor.rest.map_or(0, |rest| rest.len() + 1);
    let without_proof = prefix(text, proof_len);
    let proof = cursor.attribute(b'p')?;
    cursor.end()?;
    let proof = crypto::base64_decode_key(proof).ok_or_else(|| cursor.bad_value(b'p'))?;
    Ok(ClientFinal {
        without_proof,
        channel_binding,
        nonce,
        proof,
    })
}

/// The server's first message, parsed.
pub(super) struct ServerFirst<'a> {
    pub(super) nonce: &'a [u8],
    pub(super) salt: Vec<u8>,
    /// 1 to `i32::MAX`; the caller checks the limit of work.
    pub(super) iterations: u32,
}

/// Parses a server-first-message of a possibly hostile server (SEC-22).
pub(super) fn server_first(text: &[u8]) -> Result<ServerFirst<'_>, ScramError> {
    let mut cursor = Cursor::new(ScramMessage::ServerFirst, text);
    let nonce = cursor.attribute(b'r')?;
    check_nonce(nonce)?;
    let salt = cursor.attribute(b's')?;
    let iterations = cursor.attribute(b'i')?;
    cursor.end()?;
    if salt.is_empty() || salt.len() > SALT_LEN_MAX.div_ceil(3) * 4 {
        return Err(cursor.bad_value(b's'));
    }
    let salt = crypto::base64_decode(salt)
        .ok_or_else(|| cursor.bad_value(b's'))?
        .to_vec();
    let iterations = stored::parse_iterations(iterations).ok_or_else(|| cursor.bad_value(b'i'))?;
    Ok(ServerFirst {
        nonce,
        salt,
        iterations,
    })
}

/// Parses a server-final-message; returns the signature.
pub(super) fn server_final(text: &[u8]) -> Result<Zeroizing<[u8; KEY_LEN]>, ScramError> {
    if text.starts_with(b"e=") {
        return Err(ScramError::ServerReported);
    }
    let mut cursor = Cursor::new(ScramMessage::ServerFinal, text);
    let signature = cursor.attribute(b'v')?;
    cursor.end()?;
    crypto::base64_decode_key(signature).ok_or_else(|| cursor.bad_value(b'v'))
}

/// Checks that a nonce is printable ASCII without comma, and its length within the limit.
pub(super) fn check_nonce(nonce: &[u8]) -> Result<(), ScramError> {
    if nonce.is_empty() || nonce.len() > NONCE_LEN_MAX {
        return Err(ScramError::NonceLength { len: nonce.len() });
    }
    let is_printable = nonce
        .iter()
        .all(|byte| matches!(byte, 0x21..=0x7e) && *byte != b',');
    if is_printable {
        Ok(())
    } else {
        Err(ScramError::NonceNotPrintable)
    }
}

/// Returns `text` without its last `len` bytes.
fn prefix(text: &[u8], len: usize) -> &[u8] {
    text.len()
        .checked_sub(len)
        .and_then(|end| text.get(..end))
        .unwrap_or_default()
}
