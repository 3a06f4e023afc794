//! Challenges for users who do not exist, so that the exchange does not reveal this (SEC-49).
//!
//! They depend only on the name and on a secret of the process, so repeated attempts show the same, as for a real user.
//! PostgreSQL's `scram_mock_salt` works likewise. The kind of challenge and its shape are drawn from the [`Population`]
//! of real users. The reasons are in `docs/internals/login.md`.

use std::collections::BTreeMap;

use crate::crypto;
use crate::secret::ServerKey;
use crate::secret::ServerSecret;
use crate::secret::StoredKey;
use crate::stored::ScramVerifier;
use crate::stored::StoredSecret;
use crate::userlist::UserList;

/// Length in bytes of PostgreSQL's and Weir's salts.
pub const SALT_LEN: usize = 16;

/// Maximum length of a mock salt in bytes. Real salts may be longer, but no known software makes such.
const SALT_LEN_MAX: usize = 32;

/// Maximum number of distinct verifier shapes. PostgreSQL makes one per setting of `scram_iterations`.
const SHAPES_MAX: usize = 64;

/// Properties of a verifier that a client sees, besides the bytes of the salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// PBKDF2 rounds.
    pub iterations: u32,
    /// Length of the salt in bytes.
    pub salt_len: usize,
}

/// Number of real users by kind of secret. Count again only when the secrets are read again: if the numbers change in
/// between, unknown users can be told by the change.
///
/// If secrets come from a database, use [`Population::default`]: every user then counts as having a SCRAM verifier as
/// PostgreSQL makes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Population {
    md5: u64,
    plain: u64,
    scram: BTreeMap<Shape, u64>,
}

impl Population {
    /// Counts the users of an auth_file.
    #[must_use]
    pub fn of(users: &UserList) -> Self {
        let mut all = Self::default();
        for (_, secret) in users.iter() {
            all.add(secret);
        }
        all
    }

    /// Counts one more user. A user with an empty secret cannot log in, looks like an unknown one, and is not counted.
    pub fn add(&mut self, secret: &StoredSecret) {
        match secret {
            StoredSecret::Empty => {}
            StoredSecret::Md5(_) => self.md5 += 1,
            StoredSecret::Plain(_) => self.plain += 1,
            StoredSecret::Scram(verifier) => {
                let shape = Shape {
                    iterations: verifier.iterations(),
                    salt_len: verifier.salt().len().min(SALT_LEN_MAX),
                };
                if self.scram.len() < SHAPES_MAX || self.scram.contains_key(&shape) {
                    *self.scram.entry(shape).or_default() += 1;
                }
            }
        }
    }

    /// Decides if `user`, who cannot log in, gets SCRAM where users with a verifier get SCRAM and all others get MD5.
    /// SCRAM is drawn as often as real users have it.
    pub(crate) fn draws_scram(&self, secret: &ServerSecret, user: &[u8]) -> bool {
        let scram: u64 = self.scram.values().sum();
        let all = scram + self.md5 + self.plain;
        all == 0 || draw(secret, b"mock method\0", user, all) < scram
    }

    /// Shape of the mock verifier of `user`, among users who have a verifier.
    pub(crate) fn shape(&self, secret: &ServerSecret, user: &[u8], iterations: u32) -> Shape {
        self.shape_among(secret, user, iterations, 0)
    }

    /// As `shape`, where users with a password in clear text get SCRAM too: their shape is `iterations` and
    /// [`SALT_LEN`].
    pub(crate) fn shape_with_plain(
        &self,
        secret: &ServerSecret,
        user: &[u8],
        iterations: u32,
    ) -> Shape {
        self.shape_among(secret, user, iterations, self.plain)
    }

    /// True if any user has a password in clear text.
    pub(crate) fn has_plain(&self) -> bool {
        self.plain > 0
    }

    /// True if any user has a SCRAM verifier.
    pub(crate) fn has_scram(&self) -> bool {
        !self.scram.is_empty()
    }

    fn shape_among(
        &self,
        secret: &ServerSecret,
        user: &[u8],
        iterations: u32,
        plain: u64,
    ) -> Shape {
        let made_here = Shape {
            iterations,
            salt_len: SALT_LEN,
        };
        let all = self.scram.values().sum::<u64>() + plain;
        if all == 0 {
            return made_here;
        }
        let mut left = draw(secret, b"mock shape\0", user, all);
        for (shape, count) in &self.scram {
            match left.checked_sub(*count) {
                Some(rest) => left = rest,
                None => return *shape,
            }
        }
        made_here
    }
}

/// Salt shown for a user without a verifier: HMAC of the name under `secret`, 16 bytes.
#[must_use]
pub fn salt(secret: &ServerSecret, user: &[u8]) -> Vec<u8> {
    salt_of_len(secret, user, SALT_LEN)
}

/// Verifier of this shape that no password fits; its salt begins like [`salt`].
#[must_use]
pub fn verifier(secret: &ServerSecret, user: &[u8], shape: Shape) -> ScramVerifier {
    ScramVerifier::from_parts(
        shape.iterations,
        salt_of_len(secret, user, shape.salt_len),
        StoredKey::new(crypto::hmac(secret.expose(), &[b"mock stored key\0", user])),
        ServerKey::new(crypto::hmac(secret.expose(), &[b"mock server key\0", user])),
    )
}

fn salt_of_len(secret: &ServerSecret, user: &[u8], len: usize) -> Vec<u8> {
    let digest = crypto::hmac(secret.expose(), &[b"mock salt\0", user]);
    digest.into_iter().take(len).collect()
}

/// Draws a number below `end` (at least 1), always the same for the same user.
fn draw(secret: &ServerSecret, purpose: &[u8], user: &[u8], end: u64) -> u64 {
    let digest = crypto::hmac(secret.expose(), &[purpose, user]);
    let first = digest.first_chunk::<8>().copied().unwrap_or_default();
    // The bias is less than end / 2^64.
    u64::from_be_bytes(first) % end.max(1)
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
