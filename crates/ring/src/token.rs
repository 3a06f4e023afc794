//! Names of operations, as the kernel returns them.

/// Name that the user gives to a socket's operations: an index with a generation. A user that gives each socket its own
/// generation can tell a late event of a closed socket from one of its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token {
    index: u32,
    generation: u32,
}

impl Token {
    /// Number of bits of an index.
    const INDEX_BITS: u32 = 28;

    /// Makes a token; none if the index is 2^28 or more.
    #[must_use]
    pub fn new(index: u32, generation: u32) -> Option<Self> {
        (index >> Self::INDEX_BITS == 0).then_some(Self { index, generation })
    }

    /// Index, below 2^28.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Generation.
    #[must_use]
    pub fn generation(self) -> u32 {
        self.generation
    }
}

/// Kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Accept = 1,
    /// Cancels another operation; what became of it tells that one's own completion.
    Cancel = 2,
    Poll = 3,
    Receive = 4,
    /// The token's index is the number of the send.
    Send = 5,
    /// The poll of the waker.
    Wake = 6,
    ReceiveOnce = 7,
    /// A message to another ring that could not be sent. The token's index is the number of the ring.
    Message = 8,
    /// A message from another ring.
    Told = 9,
}

/// Packs kind and token into the number that the kernel returns.
pub(crate) fn pack(kind: Kind, token: Token) -> u64 {
    let low = (kind as u32) << Token::INDEX_BITS | token.index;
    u64::from(token.generation) << 32 | u64::from(low)
}

/// Reverses [`pack`]. None for a number that `pack` never makes.
#[expect(clippy::cast_possible_truncation, reason = "each half is taken")]
pub(crate) fn unpack(number: u64) -> Option<(Kind, Token)> {
    let low = number as u32;
    let kind = match low >> Token::INDEX_BITS {
        1 => Kind::Accept,
        2 => Kind::Cancel,
        3 => Kind::Poll,
        4 => Kind::Receive,
        5 => Kind::Send,
        6 => Kind::Wake,
        7 => Kind::ReceiveOnce,
        8 => Kind::Message,
        9 => Kind::Told,
        _ => return None,
    };
    let index = low & ((1 << Token::INDEX_BITS) - 1);
    let generation = (number >> 32) as u32;
    Some((kind, Token { index, generation }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_packed_token_comes_back(index in 0_u32..1 << 28, generation: u32, kind in 0_usize..9) {
            let kinds = [
                Kind::Accept, Kind::Cancel, Kind::Poll, Kind::Receive, Kind::Send, Kind::Wake, Kind::ReceiveOnce,
                Kind::Message, Kind::Told,
            ];
            let kind = kinds[kind];
            let token = Token::new(index, generation).unwrap();
            prop_assert_eq!(unpack(pack(kind, token)), Some((kind, token)));
        }
    }

    #[test]
    fn an_index_that_does_not_fit_is_refused() {
        assert!(Token::new(1 << 28, 0).is_none());
        assert!(Token::new((1 << 28) - 1, 0).is_some());
        assert!(unpack(0).is_none());
    }
}
