//! MD5 password authentication of PostgreSQL, both roles.
//!
//! Manual: 55.2.1 "Start-up", AuthenticationMD5Password. The stored hash is as good as the password (SEC-65), so its
//! type has no `Debug`.

use md5::Digest;
use md5::Md5;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::stored::StoredSecret;

/// Length of `md5` and 32 hexadecimal digits.
pub const MD5_TEXT_LEN: usize = 35;
const HEX_LEN: usize = 32;
const PREFIX: &[u8] = b"md5";

/// `md5(password || user)` as 32 lower-case hexadecimal digits.
#[derive(Clone)]
pub struct Md5Hash(Zeroizing<[u8; HEX_LEN]>);

impl Md5Hash {
    /// Parses `md5` and 32 lower-case hexadecimal digits; `None` for other texts.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits: [u8; HEX_LEN] = text.strip_prefix(PREFIX)?.try_into().ok()?;
        let is_hex = digits
            .iter()
            .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        is_hex.then(|| Self(Zeroizing::new(digits)))
    }

    /// Returns the text as PostgreSQL stores it, with the prefix `md5`.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<[u8; MD5_TEXT_LEN]> {
        Zeroizing::new(with_prefix(&self.0))
    }

    /// Compares in constant time.
    #[must_use]
    pub fn ct_eq(&self, other: &Self) -> bool {
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

/// Computes the hash that PostgreSQL stores for a password; the user's name is the salt.
#[must_use]
pub fn hash(password: &[u8], user: &[u8]) -> Md5Hash {
    Md5Hash(Zeroizing::new(hex_of(&[password, user])))
}

/// Computes the answer to AuthenticationMD5Password with `salt`, without its final zero.
#[must_use]
pub fn response(hash: &Md5Hash, salt: [u8; 4]) -> [u8; MD5_TEXT_LEN] {
    with_prefix(&hex_of(&[hash.0.as_slice(), &salt]))
}

/// True if `response` answers the challenge `salt` for this user. Takes constant time. Always false, after the same
/// work, if the user has a SCRAM verifier or no secret.
#[must_use]
pub fn verify(stored: &StoredSecret, user: &[u8], salt: [u8; 4], response: &[u8]) -> bool {
    let password = match stored {
        StoredSecret::Plain(password) => password.expose(),
        StoredSecret::Empty | StoredSecret::Md5(_) | StoredSecret::Scram(_) => b"",
    };
    let made = hash(password, user);
    let (expected, usable) = match stored {
        StoredSecret::Md5(stored) => (stored.clone(), true),
        StoredSecret::Plain(_) => (made, true),
        StoredSecret::Empty | StoredSecret::Scram(_) => (made, false),
    };
    let fits: bool = self::response(&expected, salt)
        .as_slice()
        .ct_eq(response)
        .into();
    fits & usable
}

fn with_prefix(digits: &[u8; HEX_LEN]) -> [u8; MD5_TEXT_LEN] {
    let mut text = [0; MD5_TEXT_LEN];
    for (byte, from) in text.iter_mut().zip(PREFIX.iter().chain(digits)) {
        *byte = *from;
    }
    text
}

fn hex_of(parts: &[&[u8]]) -> [u8; HEX_LEN] {
    let mut context = Md5::new();
    for part in parts {
        context.update(part);
    }
    let digest: [u8; 16] = context.finalize().into();
    let mut text = [0; HEX_LEN];
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest) {
        if let [high, low] = pair {
            *high = hex_digit(byte >> 4);
            *low = hex_digit(byte & 0x0f);
        }
    }
    text
}

fn hex_digit(value: u8) -> u8 {
    if value < 10 {
        b'0' + value
    } else {
        b'a' + value - 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn the_hash_equals_that_of_postgresql() {
        // CREATE ROLE a5 PASSWORD 'pencil' under password_encryption = md5, PostgreSQL 15.
        let text = hash(b"pencil", b"a5").to_text();
        assert_eq!(text.as_slice(), b"md53b2f113102c268d240ccb23200f7d571");
        let text = hash(b"SCRAM-SHA-256$4096:AAAA$BBBB:CCCC", b"a6").to_text();
        assert_eq!(text.as_slice(), b"md5894c45e23394f2b781e503840af16951");
    }

    #[test]
    fn the_response_equals_that_of_md5sum() {
        // printf '3b2f113102c268d240ccb23200f7d571\x01\x02\x03\x04' | md5sum
        let text = response(&hash(b"pencil", b"a5"), [1, 2, 3, 4]);
        assert_eq!(text.as_slice(), RESPONSE);
    }

    const RESPONSE: &[u8] = b"md55954781222b32d170d5352e2117e8ae2";

    #[test]
    fn plain_and_md5_secrets_accept_the_right_response_only() {
        for text in ["pencil", "md53b2f113102c268d240ccb23200f7d571"] {
            let stored = StoredSecret::parse(text.as_bytes());
            assert!(verify(&stored, b"a5", [1, 2, 3, 4], RESPONSE));
            assert!(!verify(&stored, b"a5", [1, 2, 3, 5], RESPONSE));
            assert!(!verify(&stored, b"a5", [1, 2, 3, 4], b""));
            assert!(!verify(&stored, b"a5", [1, 2, 3, 4], &RESPONSE[..34]));
            assert!(!verify(&stored, b"a5", [1, 2, 3, 4], b"pencil"));
        }
        let plain = StoredSecret::Plain(Secret::from("pencil"));
        assert!(!verify(&plain, b"a6", [1, 2, 3, 4], RESPONSE));
    }

    #[test]
    fn sec_65_no_secret_accepts_nothing_not_even_the_empty_password() {
        let answer = response(&hash(b"", b"a5"), [1, 2, 3, 4]);
        assert!(!verify(&StoredSecret::Empty, b"a5", [1, 2, 3, 4], &answer));
    }
}
