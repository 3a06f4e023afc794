//! Passwords checked by somebody else: LDAP and PAM. Blocks; run it on threads of its own.
//!
//! [`check_ldap`] and [`check_pam`] take what the client typed and answer with a [`Verdict`], or with a
//! [`DirectoryError`] if nobody could be asked. Both are for the log only: the client is told the same in every
//! case. Neither ever panics, and neither shows a password in a value, an error or a log line.
//!
//! A method that was not built in (features `ldap`, `pam`) is there all the same and says
//! [`DirectoryError::NotBuilt`], so that callers need no conditions of their own. [`LDAP_BUILT`] and [`PAM_BUILT`]
//! let a configuration be refused when it is read rather than at the first login.

mod error;
#[cfg(feature = "ldap")]
mod ldap;
#[cfg(not(feature = "ldap"))]
#[path = "ldap_absent.rs"]
mod ldap;
#[cfg(feature = "pam")]
mod pam;
#[cfg(not(feature = "pam"))]
#[path = "pam_absent.rs"]
mod pam;
mod verdict;

pub use error::DirectoryError;
pub use error::Failure;
pub use error::ServerFailure;
pub use error::Step;
pub use error::TlsSetupError;
pub use ldap::LdapTls;
pub use ldap::check_ldap;
pub use pam::check_pam;
pub use verdict::Refusal;
pub use verdict::Verdict;

/// Whether [`check_ldap`] can do anything in this build.
pub const LDAP_BUILT: bool = cfg!(feature = "ldap");

/// Whether [`check_pam`] can do anything in this build.
pub const PAM_BUILT: bool = cfg!(feature = "pam");

/// The PAM service that is asked unless the HBA line names another (`pamservice=`); PgBouncer's.
pub const PAM_SERVICE: &str = "pgbouncer";
