//! Passwords checked by somebody else: LDAP and PAM. Blocks; run it on threads of its own.
