//! Ways to split a byte stream into pieces, as a network may.

/// Method of splitting a stream.
#[derive(Debug, Clone)]
pub enum Cuts {
    /// Single bytes.
    Bytes,
    /// Pieces of random length, mostly short ones.
    Random(Dice),
    /// No split: each piece as it was sent.
    Whole,
}

impl Cuts {
    /// Random cuts, equal for equal seeds.
    pub fn random(seed: u64) -> Self {
        Self::Random(Dice::new(seed))
    }

    /// Length of the next piece: 1 to `available` bytes, 0 only if nothing is available.
    pub fn next_len(&mut self, available: usize) -> usize {
        match self {
            Self::Bytes => available.min(1),
            Self::Whole => available,
            Self::Random(_) if available == 0 => 0,
            Self::Random(dice) => {
                // Small pieces hit headers, large ones several messages at once.
                let bound = [3, 12, 60, usize::MAX]
                    .get(dice.below(4))
                    .map_or(available, |bound| available.min(*bound));
                1 + dice.below(bound)
            }
        }
    }

    /// Splits a stream into all its pieces.
    pub fn pieces<'b>(&mut self, mut bytes: &'b [u8]) -> Vec<&'b [u8]> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(self.next_len(bytes.len()));
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }
}

/// Seeded random numbers (`SplitMix64`): the same seed gives the same numbers on every machine.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let rolled = self.roll() % (bound.max(1) as u64);
        usize::try_from(rolled).unwrap_or_default()
    }

    /// Picks an element of a slice that is not empty.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        of.get(self.below(of.len())).expect("there is a choice")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_cutting_gives_all_bytes_in_order_and_no_empty_piece() {
        let bytes: Vec<u8> = (0..=255).collect();
        for mut cuts in [Cuts::Whole, Cuts::Bytes, Cuts::random(1), Cuts::random(2)] {
            let pieces = cuts.pieces(&bytes);
            assert_eq!(pieces.concat(), bytes);
            assert!(pieces.iter().all(|piece| !piece.is_empty()));
        }
    }

    #[test]
    fn the_same_seed_cuts_the_same_way() {
        let bytes = [0; 500];
        let lens = |seed| -> Vec<usize> {
            let pieces = Cuts::random(seed).pieces(&bytes).into_iter();
            pieces.map(<[u8]>::len).collect()
        };
        assert_eq!(lens(3), lens(3));
        assert_ne!(lens(3), lens(4));
    }
}
