//! Stored secret of a user, from a file or a query, and the parser of its text.
//!
//! The rule is PostgreSQL's `get_password_type`: a text that is neither an MD5 hash nor a complete SCRAM verifier is a
//! password in clear text, however odd it looks.

use zeroize::Zeroizing;

use crate::crypto;
use crate::kdf::ScramKeys;
use crate::md5::Md5Hash;
use crate::secret::Secret;
use crate::secret::ServerKey;
use crate::secret::StoredKey;

/// The secret of one user, by kind.
#[derive(Clone)]
pub enum StoredSecret {
    /// No secret: no password ever fits.
    Empty,
    /// `md5` and 32 hexadecimal digits.
    Md5(Md5Hash),
    /// A password in clear text.
    Plain(Secret),
    /// A SCRAM-SHA-256 verifier.
    Scram(ScramVerifier),
}

impl StoredSecret {
    /// Parses the text of an auth_file or of PostgreSQL's `rolpassword`. Never fails; see the module's rule.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        if text.is_empty() {
            return Self::Empty;
        }
        if let Some(hash) = Md5Hash::parse(text) {
            return Self::Md5(hash);
        }
        match ScramVerifier::parse(text) {
            Some(verifier) => Self::Scram(verifier),
            None => Self::Plain(Secret::new(text.to_vec())),
        }
    }
}

/// SCRAM verifier: the data by which a server checks SCRAM-SHA-256 proofs (RFC 5802 section 3).
#[derive(Clone)]
pub struct ScramVerifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: StoredKey,
    server_key: ServerKey,
}

impl ScramVerifier {
    /// Makes a verifier from keys and from their salt and iterations.
    #[must_use]
    pub fn from_keys(keys: &ScramKeys, salt: Vec<u8>, iterations: u32) -> Self {
        Self::from_parts(iterations, salt, keys.stored_key(), keys.server_key.clone())
    }

    pub(crate) fn from_parts(
        iterations: u32,
        salt: Vec<u8>,
        stored_key: StoredKey,
        server_key: ServerKey,
    ) -> Self {
        Self {
            iterations,
            salt,
            stored_key,
            server_key,
        }
    }

    /// Parses `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>` (base64 parts).
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text)
            .ok()?
            .strip_prefix("SCRAM-SHA-256$")?;
        let (head, keys) = text.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let iterations = parse_iterations(iterations.as_bytes())?;
        let salt = crypto::base64_decode(salt.as_bytes())?;
        if salt.is_empty() {
            return None;
        }
        let stored_key = crypto::base64_decode_key(stored_key.as_bytes())?;
        let server_key = crypto::base64_decode_key(server_key.as_bytes())?;
        Some(Self::from_parts(
            iterations,
            salt.to_vec(),
            StoredKey::new(*stored_key),
            ServerKey::new(*server_key),
        ))
    }

    /// Returns the text that [`ScramVerifier::parse`] reads, as PostgreSQL writes it.
    #[must_use]
    pub fn to_text(&self) -> Secret {
        let stored_key = Zeroizing::new(crypto::base64_encode(self.stored_key.expose()));
        let server_key = Zeroizing::new(crypto::base64_encode(self.server_key.expose()));
        let salt = crypto::base64_encode(&self.salt);
        let text = format!(
            "SCRAM-SHA-256${}:{salt}${}:{}",
            self.iterations, *stored_key, *server_key
        );
        Secret::new(text.into_bytes())
    }

    /// PBKDF2 rounds, 1 to `i32::MAX`.
    #[must_use]
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// The salt; not empty if it came from a text.
    #[must_use]
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// Key that checks a client's proof.
    #[must_use]
    pub fn stored_key(&self) -> &StoredKey {
        &self.stored_key
    }

    /// Key that makes the server's own proof.
    #[must_use]
    pub fn server_key(&self) -> &ServerKey {
        &self.server_key
    }

    /// True if both verifiers are equal byte for byte, which pass-through needs (SEC-64).
    #[must_use]
    pub fn ct_eq(&self, other: &Self) -> bool {
        let keys =
            self.stored_key.ct_eq(&other.stored_key) & self.server_key.ct_eq(&other.server_key);
        keys && self.has_same_salt_as(&other.salt, other.iterations)
    }

    /// True if keys for this verifier fit that salt and number of iterations. Neither is secret.
    #[must_use]
    pub fn has_same_salt_as(&self, salt: &[u8], iterations: u32) -> bool {
        self.salt == salt && self.iterations == iterations
    }
}

/// Parses a positive decimal number up to `i32::MAX` without sign, blank or leading zero: RFC 5802's `posit-number`
/// within the range of PostgreSQL's `int`.
pub(crate) fn parse_iterations(digits: &[u8]) -> Option<u32> {
    if digits.first() == Some(&b'0') || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: i32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    u32::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERIFIER: &str = "SCRAM-SHA-256$4096:00ZwZFQtFSz6QGVCVmRknA==$\
        M1yQobhCeihmxyyOe00jQNM5Is0mO1qC9tExporSKEQ=:lazRMVYAnmT+5oKcSiFBhmgMEWHktOjmTOyok2ERRso=";

    fn kind(text: &str) -> &'static str {
        match StoredSecret::parse(text.as_bytes()) {
            StoredSecret::Empty => "empty",
            StoredSecret::Md5(_) => "md5",
            StoredSecret::Plain(secret) => {
                assert!(
                    secret.ct_eq(text.as_bytes()),
                    "a plain secret is the whole text"
                );
                "plain"
            }
            StoredSecret::Scram(_) => "scram",
        }
    }

    #[test]
    fn the_kind_follows_the_text() {
        assert_eq!(kind(""), "empty");
        assert_eq!(kind("pencil"), "plain");
        assert_eq!(kind("md53b2f113102c268d240ccb23200f7d571"), "md5");
        assert_eq!(kind(VERIFIER), "scram");
    }

    #[test]
    fn what_only_resembles_an_md5_hash_is_plain() {
        assert_eq!(kind("md53b2f113102c268d240ccb23200f7d57"), "plain");
        assert_eq!(kind("md53b2f113102c268d240ccb23200f7d5710"), "plain");
        assert_eq!(kind("md53B2F113102C268D240CCB23200F7D571"), "plain");
        assert_eq!(kind("MD53b2f113102c268d240ccb23200f7d571"), "plain");
    }

    #[test]
    fn what_only_resembles_a_verifier_is_plain() {
        for (from, to) in [
            ("SCRAM-SHA-256$", "SCRAM-SHA-1$"),
            ("SCRAM-SHA-256$", "scram-sha-256$"),
            ("4096", "0"),
            ("4096", "-1"),
            ("4096", "2147483648"),
            ("4096", "x"),
            ("4096", ""),
            ("00ZwZFQtFSz6QGVCVmRknA==", ""),
            ("00ZwZFQtFSz6QGVCVmRknA==", "*"),
            ("KEQ=", "KEQ"),
            ("M1yQ", ""),
            ("Rso=", ""),
            (":laz", "$laz"),
            (":laz", ":"),
        ] {
            let text = VERIFIER.replacen(from, to, 1);
            assert_ne!(text, VERIFIER);
            assert_eq!(kind(&text), "plain", "{text}");
        }
    }

    #[test]
    fn a_verifier_keeps_its_text() {
        let Some(verifier) = ScramVerifier::parse(VERIFIER.as_bytes()) else {
            panic!("verifier refused");
        };
        assert_eq!(verifier.iterations(), 4096);
        assert_eq!(verifier.salt().len(), 16);
        assert!(verifier.to_text().ct_eq(VERIFIER.as_bytes()));
        assert!(verifier.ct_eq(&verifier.clone()));
    }

    #[test]
    fn sec_64_verifiers_differ_when_any_part_differs() {
        let parse = |text: &str| ScramVerifier::parse(text.as_bytes()).unwrap();
        let base = parse(VERIFIER);
        for (from, to) in [
            ("4096", "4097"),
            ("00Zw", "10Zw"),
            ("M1yQ", "N1yQ"),
            ("lazR", "mazR"),
        ] {
            assert!(
                !base.ct_eq(&parse(&VERIFIER.replacen(from, to, 1))),
                "{from}"
            );
        }
    }
}
