//! What a directory said about a password.

use thiserror::Error;

/// The directory's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The password is the user's, and the account may be used.
    Accepted,
    /// It is not. The reason is for the log; the client must not learn it.
    Refused(Refusal),
}

/// Why a password was refused. For the log only.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The account exists, but may not be used (PAM account management, LDAP policy).
    #[error("account may not be used: {}", reason.escape_debug())]
    Account {
        /// In the directory's words.
        reason: String,
    },
    /// More than one entry fits the user name (PostgreSQL manual 21.10: exactly one must).
    #[error("user name fits more than one directory entry")]
    AmbiguousUser,
    /// The password is empty. A simple bind without a password succeeds whoever one claims to be (RFC 4513
    /// section 5.1.2), so it is never tried.
    #[error("empty password")]
    EmptyPassword,
    /// The password holds bytes that the method cannot carry: LDAP wants UTF-8, PAM no zero byte.
    #[error("password cannot be sent to the directory")]
    Password,
    /// The user is not known there.
    #[error("no such user in the directory")]
    UnknownUser,
    /// The user name is empty or holds a character that PostgreSQL does not allow in a search: `* ( ) \ /`.
    #[error("user name holds a character that is not allowed")]
    UserName,
    /// Wrong password. A directory may also say so of a user that it does not know.
    #[error("wrong password or no such user")]
    WrongPassword,
}
