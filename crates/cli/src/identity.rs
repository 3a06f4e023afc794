//! Changes to the system user that `user` names, if the process was started as root.

use std::ffi::CString;

use nix::errno::Errno;
use nix::unistd::{Uid, User, initgroups, setgid, setuid};

/// Reason why the process could not change its user.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum IdentityError {
    #[error("user {0:?} does not exist on this system")]
    Unknown(String),
    #[error("cannot become user {name:?}: {error}")]
    Refused { name: String, error: Errno },
}

/// Changes permanently to the user and its groups: group ids first, since only root may set them. A process that
/// is not root keeps its user, as in PgBouncer. Call this before the first thread starts and the first file is
/// made.
///
/// # Errors
/// If there is no such user, or the system refuses.
pub(crate) fn become_user(name: &str) -> Result<(), IdentityError> {
    if name.is_empty() || !Uid::effective().is_root() {
        return Ok(());
    }
    let user = look_up(name)?;
    let refused = |error| IdentityError::Refused {
        name: name.to_owned(),
        error,
    };
    let c_name = CString::new(name).map_err(|_| refused(Errno::EINVAL))?;
    initgroups(&c_name, user.gid).map_err(refused)?;
    setgid(user.gid).map_err(refused)?;
    setuid(user.uid).map_err(refused)
}

/// Finds a user of the system.
///
/// # Errors
/// If there is no user of this name.
fn look_up(name: &str) -> Result<User, IdentityError> {
    let found = User::from_name(name).map_err(|error| IdentityError::Refused {
        name: name.to_owned(),
        error,
    })?;
    found.ok_or_else(|| IdentityError::Unknown(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_looked_up_in_the_system() {
        assert!(look_up("root").unwrap().uid.is_root());
        let unknown = "nobody-of-this-name";
        let error = look_up(unknown).unwrap_err();
        assert_eq!(error, IdentityError::Unknown(unknown.to_owned()));
        assert_eq!(become_user(""), Ok(()));
    }
}
