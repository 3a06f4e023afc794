//! Hash over tokens, with a secret seed.
//!
//! Tokens are short, so they are hashed in words of eight bytes, and a token is told from two that look like it when they
//! stand together. The mixing step is that of foldhash: the halves of a product with a secret number.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

const WORD: usize = size_of::<u64>();

/// State of a hash. A copy goes its own way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mixer {
    state: u64,
    /// Secret factor.
    key: u64,
}

impl Mixer {
    pub(super) fn new(seed: u64) -> Self {
        let secrets = FixedState::with_seed(seed);
        Self {
            state: secrets.hash_one(0_u64),
            key: secrets.hash_one(1_u64) | 1,
        }
    }

    pub(super) fn finish(self) -> u64 {
        fold(self.state, self.key.rotate_left(32))
    }

    /// Adds a token of one byte.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.last(u64::from(byte).wrapping_mul(0x01_0101), 1);
    }

    /// Adds a hash.
    pub(super) fn item(&mut self, hash: u64) {
        self.last(hash, WORD + 1);
    }

    /// Adds a token.
    pub(super) fn exact(&mut self, token: &[u8]) {
        self.token(token, |word| word);
    }

    /// Adds a token, in which the case of ASCII letters does not count.
    #[inline]
    pub(super) fn folded(&mut self, token: &[u8]) {
        self.token(token, lower);
    }

    #[inline]
    fn token(&mut self, token: &[u8], read: impl Fn(u64) -> u64) {
        let mut rest = token;
        while let Some((word, behind)) = rest.split_first_chunk()
            && !behind.is_empty()
        {
            self.state = fold(self.state ^ read(u64::from_le_bytes(*word)), self.key);
            rest = behind;
        }
        self.last(read(packed(rest)), rest.len());
    }

    /// Adds the last word of a token, of which this many bytes count. The rotation tells it from all that is not the last.
    #[inline]
    fn last(&mut self, word: u64, len: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "at most nine")]
        let turn = len as u32 + 1;
        self.state = fold(self.state.rotate_left(turn) ^ word, self.key);
    }
}

/// Returns at most eight bytes as a number. Numbers of texts with the same length differ.
#[inline]
fn packed(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.first_chunk() {
        return u64::from_le_bytes(*word);
    }
    if let (Some(begin), Some(end)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_le_bytes(*begin)) | u64::from(u32::from_le_bytes(*end)) << 32;
    }
    match bytes {
        [] => 0,
        [a] => u64::from(*a) * 0x01_0101,
        [a, b] => u64::from(*a) | u64::from(*b) << 8 | u64::from(*b) << 16,
        [a, b, .., c] => u64::from(*a) | u64::from(*b) << 8 | u64::from(*c) << 16,
    }
}

/// Returns eight bytes with `A` to `Z` in lower case.
#[inline]
fn lower(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    let low = word & !HIGH;
    let from_a = low + (0x80 - 0x41) * EACH;
    let behind_z = low + (0x7f - 0x5a) * EACH;
    let is_upper = (from_a ^ behind_z) & !word & HIGH;
    word | is_upper >> 2
}

/// Returns the halves of the product, combined.
#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    #[expect(clippy::cast_possible_truncation, reason = "the halves")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(tokens: &[&[u8]]) -> u64 {
        let mut mixer = Mixer::new(3);
        tokens.iter().for_each(|token| mixer.exact(token));
        mixer.finish()
    }

    #[test]
    fn letters_become_lower_and_nothing_else_changes() {
        for byte in 0..=u8::MAX {
            for place in 0..WORD {
                let mut bytes = *b"aZ[@`z{_";
                bytes[place] = byte;
                let expected = bytes.map(|byte| byte.to_ascii_lowercase());
                assert_eq!(lower(u64::from_le_bytes(bytes)).to_le_bytes(), expected);
            }
        }
    }

    #[test]
    fn a_token_cut_in_two_has_another_hash() {
        let text: Vec<u8> = (0..200).map(|number| b'a' + number % 3).collect();
        for len in 1..text.len() {
            let whole = hash(&[&text[..len]]);
            for cut in 0..=len {
                assert_ne!(
                    whole,
                    hash(&[&text[..cut], &text[cut..len]]),
                    "{len} at {cut}"
                );
            }
        }
    }

    #[test]
    fn each_byte_and_the_length_count() {
        let mut seen = std::collections::HashSet::new();
        for len in 0..40 {
            let mut text = vec![b'x'; len];
            assert!(seen.insert(hash(&[&text])), "{len}");
            for place in 0..len {
                text[place] = b'y';
                assert!(seen.insert(hash(&[&text])), "{len} at {place}");
                text[place] = b'x';
            }
        }
    }

    #[test]
    fn a_byte_is_a_token_of_one_byte() {
        for byte in 0..=u8::MAX {
            let mut mixer = Mixer::new(3);
            mixer.byte(byte);
            assert_eq!(mixer.finish(), hash(&[&[byte]]));
        }
    }
}
