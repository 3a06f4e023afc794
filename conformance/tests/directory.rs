//! Passwords checked by LDAP and PAM: `weir-directory`, then Weir's binary, against a real slapd and a PAM stack.

#[path = "directory/ldap.rs"]
mod ldap;
#[path = "directory/logins.rs"]
mod logins;
#[path = "directory/pam.rs"]
mod pam;
#[path = "directory/support.rs"]
mod support;
#[path = "directory/transport.rs"]
mod transport;
