//! What is shown to a user who does not exist, so that the exchange does not tell so (SEC-49).
//!
//! All of it depends on the name and on a secret of the process only, so that asking twice shows
//! the same, as for a real user; PostgreSQL's `scram_mock_salt` does likewise. What kind of
//! challenge it is, and of what shape, is drawn from the [`Population`] of real users. The
//! argument is in `docs/internals/login.md`.

use std::collections::BTreeMap;

use crate::crypto;
use crate::secret::ServerKey;
use crate::secret::ServerSecret;
use crate::secret::StoredKey;
use crate::stored::ScramVerifier;
use crate::stored::StoredSecret;
use crate::userlist::UserList;

/// Length in bytes of PostgreSQL's salts, and so of ours.
pub const SALT_LEN: usize = 16;

/// The longest mock salt in bytes; real ones may be longer, but nobody makes such.
const SALT_LEN_MAX: usize = 32;

/// How many shapes of verifiers are told apart. PostgreSQL makes one per setting of
/// `scram_iterations`.
const SHAPES_MAX: usize = 64;

/// What a client sees of a verifier besides the salt's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// PBKDF2 rounds.
    pub iterations: u32,
    /// Length of the salt in bytes.
    pub salt_len: usize,
}

/// How many real users have which kind of secret. Count them anew when the secrets are read anew;
/// it must not change in between, or unknown users would be seen to change.
///
/// Where secrets come from a database, [`Population::default`] is right: there every user counts
/// as having a SCRAM verifier as PostgreSQL makes it.
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

    /// Counts one user more. Nobody can log in with an empty secret: such a user looks like one
    /// that does not exist, and is not counted.
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

    /// Whether `user`, who cannot log in, is asked by SCRAM where users with a verifier are and
    /// all others are asked by MD5: as often as real users are.
    pub(crate) fn draws_scram(&self, secret: &ServerSecret, user: &[u8]) -> bool {
        let scram: u64 = self.scram.values().sum();
        let all = scram + self.md5 + self.plain;
        all == 0 || draw(secret, b"mock method\0", user, all) < scram
    }

    /// The verifier shown for `user`, who has none, among users who have one.
    pub(crate) fn shape(&self, secret: &ServerSecret, user: &[u8], iterations: u32) -> Shape {
        self.shape_among(secret, user, iterations, 0)
    }

    /// The same where users with a password in the clear are asked by SCRAM too: these get
    /// `iterations` and [`SALT_LEN`].
    pub(crate) fn shape_with_plain(
        &self,
        secret: &ServerSecret,
        user: &[u8],
        iterations: u32,
    ) -> Shape {
        self.shape_among(secret, user, iterations, self.plain)
    }

    /// Whether somebody has a password in the clear.
    pub(crate) fn has_plain(&self) -> bool {
        self.plain > 0
    }

    /// Whether somebody has a SCRAM verifier.
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

/// The salt shown for a user without a verifier: HMAC of the name under `secret`, 16 bytes.
#[must_use]
pub fn salt(secret: &ServerSecret, user: &[u8]) -> Vec<u8> {
    salt_of_len(secret, user, SALT_LEN)
}

/// A verifier of that shape which no password fits; its salt is that of [`salt`].
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

/// A number below `end` (at least 1), the same for the same user each time.
fn draw(secret: &ServerSecret, purpose: &[u8], user: &[u8], end: u64) -> u64 {
    let digest = crypto::hmac(secret.expose(), &[purpose, user]);
    let first = digest.first_chunk::<8>().copied().unwrap_or_default();
    // Uneven by less than end / 2^64.
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
