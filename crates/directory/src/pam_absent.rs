//! Stands in for PAM in builds without it.

use weir_auth::secret::Secret;

use crate::DirectoryError;
use crate::Verdict;

/// Says that there is no PAM in this build.
///
/// # Errors
/// Always [`DirectoryError::NotBuilt`].
pub fn check_pam(
    _service: &str,
    _user: &str,
    _password: &Secret,
    _remote_host: Option<&str>,
) -> Result<Verdict, DirectoryError> {
    Err(DirectoryError::NotBuilt { method: "PAM" })
}
