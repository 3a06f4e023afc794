//! Holders of secret bytes: wiped when dropped, compared in constant time.
//!
//! None of these types may ever implement `Debug`, `Display` or `PartialEq` (hazards SEC-60 and SEC-68). A value that
//! cannot be formatted cannot be logged, and one without `==` cannot be compared in variable time.

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Length in bytes of every key in SCRAM-SHA-256.
pub const KEY_LEN: usize = 32;

/// Secret bytes of any length, such as a password.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes over the bytes; they are wiped when the value is dropped.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Returns the bytes in the clear. Never log or store them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// True if there is no byte at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares without revealing by its duration where the difference is.
    ///
    /// Different lengths are detected at once: the length of a secret is not hidden.
    #[must_use]
    pub fn ct_eq(&self, other: &[u8]) -> bool {
        self.0.as_slice().ct_eq(other).into()
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes().to_vec())
    }
}

/// Makes a 32-byte key type that shares the rules of [`Secret`].
macro_rules! key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name(Zeroizing<[u8; KEY_LEN]>);

        impl $name {
            /// Takes over the bytes; they are wiped when the value is dropped.
            #[must_use]
            pub fn new(bytes: [u8; KEY_LEN]) -> Self {
                Self(Zeroizing::new(bytes))
            }

            /// Returns the bytes in the clear. Never log or store them.
            #[must_use]
            pub fn expose(&self) -> &[u8; KEY_LEN] {
                &self.0
            }

            /// Compares in constant time.
            #[must_use]
            pub fn ct_eq(&self, other: &Self) -> bool {
                self.0.as_slice().ct_eq(other.0.as_slice()).into()
            }
        }
    };
}

key! {
    /// `SaltedPassword` of RFC 5802 section 3: the result of PBKDF2 for a password.
    SaltedPassword
}
key! {
    /// `ClientKey` of RFC 5802: proves to a server that the client knows the password. As good as the password for
    /// every server that holds the same verifier.
    ClientKey
}
key! {
    /// `StoredKey` of RFC 5802: the hash of the [`ClientKey`], enough to check a client's proof.
    StoredKey
}
key! {
    /// `ServerKey` of RFC 5802: proves to a client that the server knows the verifier.
    ServerKey
}
key! {
    /// Random bytes of this process, drawn once at start; seeds the mock verifiers (SEC-49).
    ServerSecret
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_60_secrets_compare_by_value() {
        let secret = Secret::from("pencil");
        assert!(secret.ct_eq(b"pencil"));
        assert!(!secret.ct_eq(b"pencim"));
        assert!(!secret.ct_eq(b"pencil2"));
        assert!(!secret.ct_eq(b""));
        assert!(ClientKey::new([7; 32]).ct_eq(&ClientKey::new([7; 32])));
        assert!(!ClientKey::new([7; 32]).ct_eq(&ClientKey::new([8; 32])));
    }
}
