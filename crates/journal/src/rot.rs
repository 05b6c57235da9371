//! Tells a flipped bit from a write that was cut short, by what it does to a CRC-32.
//!
//! The checksum is linear: flipping one bit of the message changes it by a value that depends on the bit's place alone. A checksum
//! that is off by exactly such a value means one bit has rotted; a torn write matches one of the 2^32 values by chance only.

const POLYNOMIAL: u32 = 0xedb8_8320;

/// Where a bit has flipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flipped {
    /// In the message.
    Message {
        /// Index of the byte.
        byte: usize,
        /// 0 is the lowest.
        bit: usize,
    },
    /// In the stored checksum.
    Checksum,
}

/// The one flipped bit that explains `difference` (found checksum xor stored checksum) of a message of `len` bytes, if one
/// does. O(bits of the message).
pub fn one_bit_off(difference: u32, len: usize) -> Option<Flipped> {
    if difference.is_power_of_two() {
        return Some(Flipped::Checksum);
    }
    let mut effect = POLYNOMIAL;
    for back in 0..len * 8 {
        if effect == difference {
            return Some(Flipped::Message { byte: len - 1 - back / 8, bit: 7 - back % 8 });
        }
        effect = (effect >> 1) ^ if effect & 1 != 0 { POLYNOMIAL } else { 0 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Prng, crc32};

    #[test]
    fn every_single_bit_is_found_and_other_damage_is_not() {
        let mut prng = Prng::new(9);
        let mut message = vec![0; 300];
        prng.fill(&mut message);
        let stored = crc32(&message);
        for bit in 0..message.len() * 8 {
            message[bit / 8] ^= 1 << (bit % 8);
            let found = one_bit_off(crc32(&message) ^ stored, message.len());
            assert_eq!(found, Some(Flipped::Message { byte: bit / 8, bit: bit % 8 }));
            message[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(one_bit_off(0, message.len()), None);
        for from in 0..message.len() - 8 {
            let mut torn = message.clone();
            torn[from..].fill(0);
            assert_eq!(one_bit_off(crc32(&torn) ^ stored, torn.len()), None, "cut at {from}");
        }
    }
}
