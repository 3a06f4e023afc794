//! Derivation of SCRAM keys from a password.
//!
//! [`derive()`] is slow on purpose (milliseconds) and must never run on an event loop (SEC-61). The state machines of
//! this crate only return a [`KdfRequest`] and take the [`ScramKeys`] back.

use pbkdf2::pbkdf2_hmac;
use sha2::Sha256;
use stringprep::saslprep;
use zeroize::Zeroize;

use crate::crypto;
use crate::secret::ClientKey;
use crate::secret::KEY_LEN;
use crate::secret::SaltedPassword;
use crate::secret::Secret;
use crate::secret::ServerKey;
use crate::secret::StoredKey;

/// Maximum number of PBKDF2 iterations that Weir computes at the demand of a server (SEC-61). PostgreSQL's default
/// is 4096.
pub const ITERATIONS_MAX: u32 = 100_000;

/// Iterations for verifiers that Weir makes: the default of PostgreSQL's `scram_iterations`.
pub const ITERATIONS_DEFAULT: u32 = 4096;

/// A derivation to run outside the event loop.
#[derive(Clone)]
pub struct KdfRequest {
    password: Secret,
    salt: Vec<u8>,
    iterations: u32,
    is_cacheable: bool,
}

impl KdfRequest {
    /// Describes a derivation from a password as the user typed it; SASLprep is applied here.
    ///
    /// `iterations` below 1 counts as 1.
    #[must_use]
    pub fn new(password: &Secret, salt: Vec<u8>, iterations: u32) -> Self {
        Self {
            password: prepare(password),
            salt,
            iterations: iterations.max(1),
            is_cacheable: true,
        }
    }

    /// As [`KdfRequest::new`], but computed each time. For passwords that a client typed, because wrong guesses would
    /// fill a cache, and for work that only hides which users exist (SEC-49).
    #[must_use]
    pub fn uncached(password: &Secret, salt: Vec<u8>, iterations: u32) -> Self {
        Self {
            is_cacheable: false,
            ..Self::new(password, salt, iterations)
        }
    }

    /// The salt of the verifier that the keys will fit.
    #[must_use]
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// PBKDF2 rounds, at least 1.
    #[must_use]
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Returns the key of the result in a cache: equal requests give equal keys, and without `process_key` a key
    /// reveals nothing about the password. `None` if the result must be neither looked up nor kept.
    #[must_use]
    pub fn cache_key(&self, process_key: &[u8; KEY_LEN]) -> Option<[u8; KEY_LEN]> {
        let salt_len = (self.salt.len() as u64).to_be_bytes();
        let rounds = self.iterations.to_be_bytes();
        let parts: &[&[u8]] = &[&rounds, &salt_len, &self.salt, self.password.expose()];
        self.is_cacheable.then(|| crypto::hmac(process_key, parts))
    }
}

/// Keys that both roles of a SCRAM exchange use.
#[derive(Clone)]
pub struct ScramKeys {
    /// Key by which a client proves its knowledge.
    pub client_key: ClientKey,
    /// Key by which a server proves its knowledge.
    pub server_key: ServerKey,
}

impl ScramKeys {
    /// Derives the keys from the result of PBKDF2: the cheap step of RFC 5802 section 3.
    #[must_use]
    pub fn from_salted(salted: &SaltedPassword) -> Self {
        Self {
            client_key: ClientKey::new(crypto::hmac(salted.expose(), &[b"Client Key"])),
            server_key: ServerKey::new(crypto::hmac(salted.expose(), &[b"Server Key"])),
        }
    }

    /// Returns the hash of the client key, as held by a verifier.
    #[must_use]
    pub fn stored_key(&self) -> StoredKey {
        StoredKey::new(crypto::sha256(self.client_key.expose()))
    }
}

/// Runs PBKDF2. Slow: a few milliseconds at 4096 iterations. Call it on a thread that may block.
#[must_use]
pub fn derive(request: &KdfRequest) -> SaltedPassword {
    let mut out = [0; KEY_LEN];
    pbkdf2_hmac::<Sha256>(
        request.password.expose(),
        &request.salt,
        request.iterations,
        &mut out,
    );
    let salted = SaltedPassword::new(out);
    out.zeroize();
    salted
}

/// Applies SASLprep as PostgreSQL does. A password that is not valid UTF-8, has prohibited characters or becomes empty
/// is used unchanged, and pure ASCII is never changed.
fn prepare(password: &Secret) -> Secret {
    let bytes = password.expose();
    let prepared = std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| saslprep(text).ok());
    match prepared {
        Some(text) if !text.is_empty() => Secret::new(text.into_owned().into_bytes()),
        _ => password.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::ScramVerifier;
    use crate::stored::StoredSecret;

    /// Derives from `password` with the verifier's own salt and compares the keys.
    fn check(password: &[u8], verifier: &str) {
        let StoredSecret::Scram(stored) = StoredSecret::parse(verifier.as_bytes()) else {
            panic!("not a verifier: {verifier}");
        };
        let request = KdfRequest::new(
            &Secret::new(password.to_vec()),
            stored.salt().to_vec(),
            stored.iterations(),
        );
        let keys = ScramKeys::from_salted(&derive(&request));
        let made = ScramVerifier::from_keys(&keys, stored.salt().to_vec(), stored.iterations());
        assert!(made.to_text().ct_eq(verifier.as_bytes()));
    }

    // The verifiers below were made by PostgreSQL 15 with CREATE ROLE ... PASSWORD.

    #[test]
    fn keys_equal_those_of_postgresql_for_ascii() {
        check(
            b"pencil",
            "SCRAM-SHA-256$4096:00ZwZFQtFSz6QGVCVmRknA==$\
             M1yQobhCeihmxyyOe00jQNM5Is0mO1qC9tExporSKEQ=:\
             lazRMVYAnmT+5oKcSiFBhmgMEWHktOjmTOyok2ERRso=",
        );
    }

    #[test]
    fn keys_equal_those_of_postgresql_after_saslprep() {
        check(
            "I\u{AD}X".as_bytes(),
            "SCRAM-SHA-256$4096:UUDZh0ZFPHJacx0fBrmjtg==$\
             j4Mv7EKfMJF6a+YRg27MGc/VAriWEeLKfzubsb8pNCY=:\
             NOeX6JPG61tt4jt3K6WQ9LEfYs2smoxQcdwJ2PY+A5s=",
        );
        check(
            "\u{AA}\u{2168}".as_bytes(),
            "SCRAM-SHA-256$4096:zO+84DbzQnCYrLZjnP+2yw==$\
             eSYZBNy58Eq0eergfQuuMV225BfTPlscfiOdkwpBSGc=:\
             HKaLZeTW/2t3s0aQF4WlHSmNyBBG/M37qlKgdOcpmGA=",
        );
    }

    #[test]
    fn keys_equal_those_of_postgresql_for_a_prohibited_character() {
        check(
            b"p\x07w",
            "SCRAM-SHA-256$4096:19gm64n0lJ6Y6Q1X4clrww==$\
             W0/AikPTF96WeIRSUlVWlU70ZhZGrbhz9Knzy8q5Sog=:\
             Nf9zrED0z68tcUiGqHRiMFJP3Mk1rDBXYOtSkvmD/jA=",
        );
    }

    #[test]
    fn a_password_that_is_not_utf8_or_vanishes_is_used_as_it_is() {
        assert!(prepare(&Secret::new(vec![0xff, 0xfe])).ct_eq(&[0xff, 0xfe]));
        assert!(prepare(&Secret::from("\u{AD}")).ct_eq("\u{AD}".as_bytes()));
    }

    #[test]
    fn cache_keys_differ_when_any_part_differs() {
        let name = |password: &str, salt: &[u8], rounds, process| {
            KdfRequest::new(&Secret::from(password), salt.to_vec(), rounds)
                .cache_key(&[process; 32])
        };
        let base = name("a", b"s", 1, 0);
        assert_eq!(base, name("a", b"s", 1, 0));
        for other in [
            name("b", b"s", 1, 0),
            name("a", b"t", 1, 0),
            name("a", b"s", 2, 0),
            name("a", b"s", 1, 1),
            name("", b"sa", 1, 0),
            name("sa", b"", 1, 0),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn what_a_client_typed_has_no_name_in_a_cache() {
        let request = KdfRequest::uncached(&Secret::from("a"), b"s".to_vec(), 1);
        assert_eq!(request.cache_key(&[0; 32]), None);
    }
}
