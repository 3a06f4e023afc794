//! A verifier for a user who does not exist, so that the exchange does not tell so (SEC-49).
//!
//! The salt depends on the user only, so that asking twice shows the same salt, as for a real
//! user; PostgreSQL's `scram_mock_salt` does likewise.

use crate::crypto;
use crate::secret::ServerKey;
use crate::secret::ServerSecret;
use crate::secret::StoredKey;
use crate::stored::ScramVerifier;

/// Length in bytes of PostgreSQL's salts, and so of ours.
pub const SALT_LEN: usize = 16;

/// The salt shown for a user without a verifier: HMAC of the name under `secret`, 16 bytes.
#[must_use]
pub fn salt(secret: &ServerSecret, user: &[u8]) -> Vec<u8> {
    let digest = crypto::hmac(secret.expose(), &[b"mock salt\0", user]);
    digest.into_iter().take(SALT_LEN).collect()
}

/// A verifier with that salt which no password fits.
#[must_use]
pub fn verifier(secret: &ServerSecret, user: &[u8], iterations: u32) -> ScramVerifier {
    ScramVerifier::from_parts(
        iterations,
        salt(secret, user),
        StoredKey::new(crypto::hmac(secret.expose(), &[b"mock stored key\0", user])),
        ServerKey::new(crypto::hmac(secret.expose(), &[b"mock server key\0", user])),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_49_the_salt_is_stable_per_user_and_process() {
        let secret = ServerSecret::new([1; 32]);
        assert_eq!(salt(&secret, b"alice").len(), SALT_LEN);
        assert_eq!(salt(&secret, b"alice"), salt(&secret, b"alice"));
        assert_ne!(salt(&secret, b"alice"), salt(&secret, b"bob"));
        assert_ne!(
            salt(&secret, b"alice"),
            salt(&ServerSecret::new([2; 32]), b"alice")
        );
    }
}
