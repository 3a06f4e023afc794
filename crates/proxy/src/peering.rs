//! Cancel keys among peers: poolers behind one address, where a cancel request may reach another pooler than its client
//! did.
//!
//! The layout is PgBouncer's, so that the two can be peers of each other. Of the eight bytes of a key (process number,
//! then secret; protocol 3.2 has a longer secret and the same first eight):
//!
//! ```text
//! byte     0        1    2         3   4   5   6      7
//!          random   peer id,       random             random, but for
//!                   low byte first                    2 low bits: forwards that are left
//! ```

/// Maximum number of forwards of a key, so that misconfigured peers do not forward for ever.
const FORWARDS_MAX: u8 = 3;
/// Index of the byte of the secret that holds the remaining forwards.
const FORWARDS_AT: usize = 3;

/// Puts the id of this process (1 to 65,535) into a key; 0 leaves the key alone. Returns the process number.
pub(crate) fn mark(id: u32, pid: u32, key: &mut [u8]) -> u32 {
    if id == 0 {
        return pid;
    }
    restore(key);
    let [low, high, ..] = id.to_le_bytes();
    let [first, _, _, last] = pid.to_be_bytes();
    u32::from_be_bytes([first, low, high, last])
}

/// Returns the id of the peer that gave out a key.
pub(crate) fn owner(pid: u32) -> u32 {
    let [_, low, high, _] = pid.to_be_bytes();
    u32::from(u16::from_le_bytes([low, high]))
}

/// Restores the secret as it was given out, however often it was forwarded.
pub(crate) fn restore(key: &mut [u8]) {
    if let Some(byte) = key.get_mut(FORWARDS_AT) {
        *byte |= FORWARDS_MAX;
    }
}

/// Uses up one forward. Returns false if none is left.
pub(crate) fn forward(key: &mut [u8]) -> bool {
    match key.get_mut(FORWARDS_AT) {
        Some(byte) if *byte & FORWARDS_MAX > 0 => {
            *byte -= 1;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that PgBouncer's description leads to: bytes 1 and 2 hold the id, the low byte first; the two low
    /// bits of byte 7 hold 3.
    #[test]
    fn a_key_has_pgbouncers_layout() {
        let mut key = [0xa4, 0xa5, 0xa6, 0b1010_0100];
        let pid = mark(0x0102, 0x7f11_2233, &mut key);
        assert_eq!(pid.to_be_bytes(), [0x7f, 0x02, 0x01, 0x33]);
        assert_eq!(key, [0xa4, 0xa5, 0xa6, 0b1010_0111]);
        assert_eq!(owner(pid), 0x0102);
    }

    #[test]
    fn a_key_can_be_forwarded_three_times_and_is_the_same_afterwards() {
        let mut key = [1, 2, 3, 0xff];
        let given = key;
        for left in [2, 1, 0] {
            assert!(forward(&mut key));
            assert_eq!(key[3] & 3, left);
            assert_eq!(key[3] & !3, 0xfc);
        }
        assert!(!forward(&mut key));
        restore(&mut key);
        assert_eq!(key, given);
    }

    #[test]
    fn without_an_id_a_key_stays_random() {
        let mut key = [0; 32];
        assert_eq!(mark(0, 0x4011_2233, &mut key), 0x4011_2233);
        assert_eq!(key, [0; 32]);
    }

    #[test]
    fn a_secret_that_is_too_short_is_not_forwarded() {
        assert!(!forward(&mut [3, 3, 3]));
    }
}
