//! SCRAM verifiers in PostgreSQL's format, with any number of iterations: up to PostgreSQL 15 the
//! server itself always takes 4096.

use std::num::NonZeroU32;

use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Returns `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>` (PostgreSQL manual,
/// pg_authid; the keys are those of RFC 5802, section 3). `password` must not need SASLprep; ASCII
/// does not.
#[must_use]
pub fn verifier(password: &str, salt: &[u8], iterations: NonZeroU32) -> String {
    let mut salted = [0; 32];
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(
        algorithm,
        iterations,
        salt,
        password.as_bytes(),
        &mut salted,
    );
    let salted = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let client = hmac::sign(&salted, b"Client Key");
    let stored = digest::digest(&digest::SHA256, client.as_ref());
    let server = hmac::sign(&salted, b"Server Key");
    format!(
        "SCRAM-SHA-256${iterations}:{}${}:{}",
        STANDARD.encode(salt),
        STANDARD.encode(stored),
        STANDARD.encode(server),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_what_postgresql_stored() {
        // Written by PostgreSQL 15 for this password.
        let stored = "SCRAM-SHA-256$4096:h0RwRvUnF+xO2xSVXiCr4g==$NNBYTNHq1QYXuXaVB//BxdF3/\
                      1KlM7T0IRBbPXVbSrE=:/wL+lrNrqq66oifbKYi7ek4QirlQkAFgwoJWaIscyJY=";
        let salt = STANDARD.decode("h0RwRvUnF+xO2xSVXiCr4g==").unwrap();
        let ours = verifier("weir-bench", &salt, NonZeroU32::new(4096).unwrap());
        assert_eq!(ours, stored);
    }
}
