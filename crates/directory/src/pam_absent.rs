//! Replacement for PAM in builds without it.

use weir_auth::secret::Secret;

use crate::DirectoryError;
use crate::Verdict;

/// Reports that this build has no PAM.
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
