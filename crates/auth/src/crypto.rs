//! The few primitives that the mechanisms share, over the RustCrypto crates. No algorithm is
//! written here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use sha2::Digest;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::secret::KEY_LEN;

/// HMAC-SHA-256 over the concatenation of `parts`.
pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; KEY_LEN] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; KEY_LEN] {
    Sha256::digest(bytes).into()
}

/// Byte-wise exclusive or.
pub(crate) fn xor(left: &[u8; KEY_LEN], right: &[u8; KEY_LEN]) -> Zeroizing<[u8; KEY_LEN]> {
    let mut out = Zeroizing::new(*left);
    for (byte, other) in out.iter_mut().zip(right) {
        *byte ^= other;
    }
    out
}

/// Encodes base64 with padding, as RFC 5802 requires.
pub(crate) fn base64_encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes strict base64: padding required, no white space.
pub(crate) fn base64_decode(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    STANDARD.decode(text).ok().map(Zeroizing::new)
}

/// Decodes strict base64 of exactly one key.
pub(crate) fn base64_decode_key(text: &[u8]) -> Option<Zeroizing<[u8; KEY_LEN]>> {
    let bytes = base64_decode(text)?;
    let key: [u8; KEY_LEN] = bytes.as_slice().try_into().ok()?;
    Some(Zeroizing::new(key))
}
