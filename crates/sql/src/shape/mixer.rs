//! Hash over tokens, with a secret seed.
//!
//! Tokens are hashed in words of eight bytes. The last word of a token has at most seven bytes and their number, and another
//! secret factor, so two tokens are told from one that looks like both. The mixing step is that of foldhash: the halves of a
//! product with a secret number.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

/// Number of bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();

/// State of a hash. A copy goes its own way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mixer {
    state: u64,
    /// Secret factor of words that others of the token follow.
    key: u64,
    /// Secret factor of last words.
    last_key: u64,
}

impl Mixer {
    pub(super) fn new(seed: u64) -> Self {
        let secrets = FixedState::with_seed(seed);
        Self {
            state: secrets.hash_one(0_u64),
            key: secrets.hash_one(1_u64) | 1,
            last_key: secrets.hash_one(2_u64) | 1,
        }
    }

    #[inline]
    pub(super) fn finish(self) -> u64 {
        fold(self.state, self.key.rotate_left(32))
    }

    /// Adds a token of one byte.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.last(u64::from(byte), 1);
    }

    /// Adds a hash.
    pub(super) fn item(&mut self, hash: u64) {
        self.state = fold(self.state.rotate_left(32) ^ hash, self.last_key);
    }

    /// Adds a token.
    pub(super) fn exact(&mut self, token: &[u8]) {
        self.token(token, |word| word);
    }

    /// Adds an identifier, in which the case of ASCII letters does not count.
    #[inline]
    pub(super) fn folded(&mut self, identifier: &[u8]) {
        self.token(identifier, folded);
    }

    #[inline]
    fn token(&mut self, token: &[u8], read: impl Fn(u64) -> u64) {
        let mut rest = token;
        while let Some((word, behind)) = rest.split_first_chunk() {
            self.word(read(u64::from_le_bytes(*word)));
            rest = behind;
        }
        let len = rest.len();
        // Folding sets bits of bytes that are not there.
        self.last(read(packed(rest)) & !(u64::MAX << (8 * len)), len);
    }

    /// Adds eight bytes of a token, of which at least the last word follows.
    #[inline]
    pub(super) fn word(&mut self, word: u64) {
        self.state = fold(self.state ^ word, self.key);
    }

    /// Adds the last word of a token: fewer than eight bytes, with zeros behind them.
    #[inline]
    pub(super) fn last(&mut self, word: u64, len: usize) {
        self.state = fold(self.state ^ word ^ (len as u64) << 56, self.last_key);
    }
}

/// Returns fewer than eight bytes as a number, with zeros behind them.
#[inline]
fn packed(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

/// Returns eight bytes of identifiers in a form that does not tell the case of ASCII letters, and all else: sets the bit that
/// tells them apart. Of the other bytes below 0x80 only `_` lacks it, and no identifier has 0x7f.
#[inline]
pub(super) const fn folded(word: u64) -> u64 {
    const CASE: u64 = 0x2020_2020_2020_2020;
    // Leaves bytes beyond ASCII alone.
    word | (CASE & !(word >> 2))
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
    fn only_the_case_of_letters_is_lost() {
        let is_part =
            |byte: &u8| matches!(byte, b'_' | b'$' | 0x80..) || byte.is_ascii_alphanumeric();
        let mut seen = std::collections::HashMap::new();
        for byte in (0..=u8::MAX).filter(is_part) {
            let expected = byte.to_ascii_lowercase();
            for place in 0..WORD {
                let mut bytes = *b"aZ09_$\x80\xfe";
                bytes[place] = byte;
                let found = folded(u64::from_le_bytes(bytes)).to_le_bytes()[place];
                assert_eq!(*seen.entry(found).or_insert(expected), expected);
            }
        }
        assert_eq!(seen.len(), 26 + 10 + 2 + 128);
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
