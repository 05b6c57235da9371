//! An estimate of the number of distinct keys: HyperLogLog with 2^13 five-bit registers, in the form that the
//! COMPACTION part of `Statistics.db` carries.
//!
//! ```text
//! i32 -2 (version), LEB128 p = 13, LEB128 sp = 25, LEB128 format = 0, LEB128 byte length, i32 words of six registers
//! ```

const PRECISION: u32 = 13;
const SPARSE_PRECISION: u32 = 25;
const REGISTERS: usize = 1 << PRECISION;
const REGISTERS_PER_WORD: usize = 6;

/// The registers.
#[derive(Clone, Debug)]
pub struct Cardinality {
    registers: Vec<u8>,
}

impl Default for Cardinality {
    fn default() -> Cardinality {
        Cardinality { registers: vec![0; REGISTERS] }
    }
}

/// MurmurHash2-64A with seed 0, with the bytes of the tail sign-extended as a Java byte is.
fn hash(key: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = M.wrapping_mul(key.len() as u64);
    let mut blocks = key.chunks_exact(8);
    for block in &mut blocks {
        let mut word = u64::from_le_bytes(block.try_into().expect("chunks of eight")).wrapping_mul(M);
        word = (word ^ (word >> 47)).wrapping_mul(M);
        hash = (hash ^ word).wrapping_mul(M);
    }
    let tail = blocks.remainder();
    if !tail.is_empty() {
        for (index, byte) in tail.iter().enumerate() {
            hash ^= (i64::from(*byte as i8) as u64) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 47)).wrapping_mul(M);
    hash ^ (hash >> 47)
}

fn put_leb128(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl Cardinality {
    /// Counts one key.
    pub fn add(&mut self, key: &[u8]) {
        let hash = hash(key);
        let register = (hash >> (64 - PRECISION)) as usize;
        let rank = ((hash << PRECISION) | (1 << (PRECISION - 1))).leading_zeros() + 1;
        let register = &mut self.registers[register];
        *register = (*register).max(rank as u8);
    }

    /// The serialized registers, without the length in front.
    pub fn encode(&self) -> Vec<u8> {
        let words = REGISTERS.div_ceil(REGISTERS_PER_WORD);
        let mut out = Vec::with_capacity(16 + words * 4);
        out.extend_from_slice(&(-2i32).to_be_bytes());
        for value in [PRECISION, SPARSE_PRECISION, 0, (words * 4) as u32] {
            put_leb128(&mut out, value);
        }
        for registers in self.registers.chunks(REGISTERS_PER_WORD) {
            let word = registers
                .iter()
                .enumerate()
                .fold(0u32, |word, (index, register)| word | (u32::from(*register) & 31) << (5 * index));
            out.extend_from_slice(&word.to_be_bytes());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_layout_of_the_reference() {
        let mut cardinality = Cardinality::default();
        for key in 0..1000u32 {
            cardinality.add(&key.to_be_bytes());
        }
        let bytes = cardinality.encode();
        assert_eq!(bytes[..7], [0xff, 0xff, 0xff, 0xfe, 13, 25, 0]);
        assert_eq!(bytes.len(), 7 + 2 + 1366 * 4);
        let used = cardinality.registers.iter().filter(|register| **register > 0).count();
        assert!((900..=1000).contains(&used), "{used} of 8192 registers by 1000 keys");
    }
}
