//! Filter that rules out nearly every word that is none of a set of names, by its length, first and last byte.

use crate::functions::NAME_MAX;
use crate::table::PerByte;

/// Filter that passes every name of a set in either case, and few other words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sieve {
    /// Lengths by first byte, one bit per length (bit 63: 63 or more).
    lengths: PerByte<u64>,
    /// Lengths by last byte, likewise.
    lasts: PerByte<u64>,
}

impl Default for Sieve {
    /// Creates a filter that passes words of 63 bytes and more: PostgreSQL truncates them, so they are compared later.
    fn default() -> Self {
        let table = PerByte::new([length_bit(NAME_MAX); 256]);
        Self {
            lengths: table.clone(),
            lasts: table,
        }
    }
}

impl Sieve {
    /// Adds a name.
    pub(crate) fn pass(&mut self, name: &[u8]) {
        let (Some(first), Some(last)) = (name.first(), name.last()) else {
            return;
        };
        for fold in [u8::to_ascii_lowercase, u8::to_ascii_uppercase] {
            for (table, byte) in [(&mut self.lengths, first), (&mut self.lasts, last)] {
                let byte = fold(byte);
                table.set(byte, table.at(byte) | length_bit(name.len()));
            }
        }
    }

    /// True if the word may be one of the names. Never false for one of them.
    #[inline]
    pub(crate) fn may_pass(&self, word: &[u8]) -> bool {
        let (Some(first), Some(last)) = (word.first(), word.last()) else {
            return false;
        };
        self.lengths.at(*first) & self.lasts.at(*last) & length_bit(word.len()) != 0
    }
}

const fn length_bit(length: usize) -> u64 {
    1 << if length < NAME_MAX { length } else { NAME_MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_pass_in_either_case_and_most_words_do_not() {
        let mut sieve = Sieve::default();
        for name in ["orders", "x", "\u{e9}t\u{e9}"] {
            sieve.pass(name.as_bytes());
        }
        for word in ["orders", "ORDERS", "Others", "x", "X", "\u{e9}t\u{e9}"] {
            assert!(sieve.may_pass(word.as_bytes()), "{word}");
        }
        for word in ["", "order", "borders", "orderX", "y"] {
            assert!(!sieve.may_pass(word.as_bytes()), "{word}");
        }
        let long = "y".repeat(NAME_MAX);
        assert!(sieve.may_pass(long.as_bytes()) && sieve.may_pass(format!("{long}z").as_bytes()));
    }
}
