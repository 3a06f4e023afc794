//! Search for a character of the alphabet in all that a client sends. Each batch on a database with several hosts is searched.

/// Number of bytes that are compared together. The compiler makes a few instructions of so many.
const STEP: usize = 16;

/// Returns the position of the first such character of the alphabet, in upper or lower case; `lower` is the latter.
#[inline]
pub(super) fn character(input: &[u8], lower: u8) -> Option<usize> {
    let is_it = |byte: &u8| byte | 0x20 == lower;
    let has_it = |step: &[u8]| step.iter().fold(false, |has, byte| has | is_it(byte));
    let steps = input.chunks_exact(STEP);
    let skipped = STEP * steps.take_while(|step| !has_it(step)).count();
    let rest = input.get(skipped..).unwrap_or_default();
    rest.iter().position(is_it).map(|at| skipped + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_is_found_wherever_it_stands() {
        for len in 0..3 * STEP {
            assert_eq!(character(&vec![b'x'; len], b'y'), None);
            for at in 0..len {
                let mut text = vec![b'x'; len];
                // A place behind it is not the first.
                text[len - 1] = b'y';
                text[at] = b'Y';
                assert_eq!(character(&text, b'y'), Some(at), "{len}");
            }
        }
    }

    #[test]
    fn no_other_byte_is_taken_for_it() {
        let others: Vec<u8> = (0..=255).filter(|byte| !b"yY".contains(byte)).collect();
        assert_eq!(character(&others, b'y'), None);
    }
}
