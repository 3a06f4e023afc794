//! Passwords checked by a directory: LDAP and PAM. The calls block; run them on threads of their own.
//!
//! [`check_ldap`] and [`check_pam`] take the password that the client sent. They return a [`Verdict`], or a
//! [`DirectoryError`] if no directory could be asked. Both are for the log only: the client receives the same
//! message in every case. Neither function panics, and neither shows a password in a value, an error or a log
//! line.
//!
//! A method that was not built in (features `ldap`, `pam`) still exists and returns [`DirectoryError::NotBuilt`],
//! so that callers need no conditions of their own. With [`LDAP_BUILT`] and [`PAM_BUILT`] a configuration can be
//! refused when it is read rather than at the first login.

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

/// True if this build supports [`check_ldap`].
pub const LDAP_BUILT: bool = cfg!(feature = "ldap");

/// True if this build supports [`check_pam`].
pub const PAM_BUILT: bool = cfg!(feature = "pam");

/// PAM service that is used unless the HBA line names another (`pamservice=`). The default is PgBouncer's.
pub const PAM_SERVICE: &str = "pgbouncer";
