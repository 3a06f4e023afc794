//! Bodies of `p` messages (PostgreSQL manual 55.7: PasswordMessage, SASLInitialResponse).

use super::LoginError;
use crate::scram::MECHANISM;
use crate::scram::MECHANISM_PLUS;
use crate::userlist::SECRET_LEN_MAX;

/// Maximum length of a body, in bytes: PostgreSQL's `PG_MAX_AUTH_TOKEN_LENGTH`.
pub const TOKEN_LEN_MAX: usize = 65_535;

/// Returns the text of a PasswordMessage without its zero.
pub(super) fn password(body: &[u8]) -> Result<&[u8], LoginError> {
    let (last, text) = body.split_last().ok_or(LoginError::MalformedPassword)?;
    if *last != 0 || text.contains(&0) {
        return Err(LoginError::MalformedPassword);
    }
    if text.is_empty() {
        return Err(LoginError::EmptyPassword);
    }
    if text.len() > SECRET_LEN_MAX {
        return Err(LoginError::PasswordTooLong);
    }
    Ok(text)
}

/// The mechanism chosen by a client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mechanism {
    /// [`MECHANISM`].
    Plain,
    /// [`MECHANISM_PLUS`].
    Plus,
}

/// A parsed SASLInitialResponse.
pub(super) struct SaslInitial<'a> {
    pub(super) mechanism: Mechanism,
    /// The mechanism's first message; `None` if the client sent none (length -1).
    pub(super) data: Option<&'a [u8]>,
}

/// Parses a SASLInitialResponse that chose one of Weir's mechanisms.
pub(super) fn sasl_initial(body: &[u8]) -> Result<SaslInitial<'_>, LoginError> {
    let malformed = LoginError::MalformedSaslInitial;
    let mut halves = body.splitn(2, |byte| *byte == 0);
    let name = halves.next().unwrap_or_default();
    let rest = halves.next().ok_or_else(|| malformed.clone())?;
    let mechanism = if name == MECHANISM.as_bytes() {
        Mechanism::Plain
    } else if name == MECHANISM_PLUS.as_bytes() {
        Mechanism::Plus
    } else {
        return Err(LoginError::UnknownMechanism);
    };
    let (len, data) = rest
        .split_first_chunk::<4>()
        .ok_or_else(|| malformed.clone())?;
    let len = i32::from_be_bytes(*len);
    let data = match usize::try_from(len) {
        Ok(len) if len == data.len() => Some(data),
        Err(_) if len == -1 && data.is_empty() => None,
        _ => return Err(malformed),
    };
    Ok(SaslInitial { mechanism, data })
}
