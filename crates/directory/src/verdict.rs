//! Answers of a directory about a password.

use thiserror::Error;

/// Answer of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The password is the user's, and the account may be used.
    Accepted,
    /// The password is wrong or may not be used. The reason is for the log; the client must not learn it.
    Refused(Refusal),
}

/// Reason why a password was refused. For the log only.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The account exists, but may not be used (PAM account management, LDAP policy).
    #[error("account may not be used: {}", reason.escape_debug())]
    Account {
        /// The directory's own description.
        reason: String,
    },
    /// More than one entry matches the user name (PostgreSQL manual 21.10: exactly one must).
    #[error("user name fits more than one directory entry")]
    AmbiguousUser,
    /// The password is empty. A simple bind without a password succeeds for every name (RFC 4513 section
    /// 5.1.2), so it is never tried.
    #[error("empty password")]
    EmptyPassword,
    /// The password holds bytes that the method cannot carry: LDAP requires UTF-8, PAM forbids zero bytes.
    #[error("password cannot be sent to the directory")]
    Password,
    /// The directory does not know the user.
    #[error("no such user in the directory")]
    UnknownUser,
    /// The user name is empty or holds a character that PostgreSQL does not allow in a search: `* ( ) \ /`.
    #[error("user name holds a character that is not allowed")]
    UserName,
    /// Wrong password. A directory may also return this for an unknown user.
    #[error("wrong password or no such user")]
    WrongPassword,
}
