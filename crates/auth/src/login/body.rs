//! Bodies of `p` messages (PostgreSQL manual 55.7: PasswordMessage, SASLInitialResponse).

use super::LoginError;
use crate::scram::MECHANISM;
use crate::userlist::SECRET_LEN_MAX;

/// The longest body that is looked at, in bytes: PostgreSQL's `PG_MAX_AUTH_TOKEN_LENGTH`.
pub const TOKEN_LEN_MAX: usize = 65_535;

/// The text of a PasswordMessage without its zero.
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

/// The data of a SASLInitialResponse that chose [`MECHANISM`].
///
/// A response without data (length -1) is refused: SCRAM always begins with the client.
pub(super) fn sasl_initial(body: &[u8]) -> Result<&[u8], LoginError> {
    let malformed = LoginError::MalformedSaslInitial;
    let mut halves = body.splitn(2, |byte| *byte == 0);
    let mechanism = halves.next().unwrap_or_default();
    let rest = halves.next().ok_or_else(|| malformed.clone())?;
    if mechanism != MECHANISM.as_bytes() {
        return Err(LoginError::UnknownMechanism);
    }
    let (len, data) = rest
        .split_first_chunk::<4>()
        .ok_or_else(|| malformed.clone())?;
    match usize::try_from(i32::from_be_bytes(*len)) {
        Ok(len) if len == data.len() => Ok(data),
        _ => Err(malformed),
    }
}
