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

    /// Reads what [`Cardinality::encode`] wrote; `None` for another form, as the sparse one of small sets.
    pub fn decode(bytes: &[u8]) -> Option<Cardinality> {
        let words = REGISTERS.div_ceil(REGISTERS_PER_WORD);
        let head = Cardinality::default().encode();
        let head = &head[..head.len() - words * 4];
        let body = bytes.strip_prefix(head).filter(|body| body.len() == words * 4)?;
        let of_word = |word: &[u8]| {
            let word = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
            (0..REGISTERS_PER_WORD).map(move |index| (word >> (5 * index)) as u8 & 31)
        };
        let registers = body.chunks_exact(4).flat_map(of_word).take(REGISTERS).collect();
        Some(Cardinality { registers })
    }

    /// About how many keys a serialized estimate was made of, in either form; `None` for one of another precision.
    /// Source: the sparse form of Cassandra holds hashes of 25 bits each, which are counted as such.
    pub fn estimate_of(bytes: &[u8]) -> Option<u64> {
        if let Some(dense) = Cardinality::decode(bytes) {
            return Some(dense.estimate());
        }
        let mut head = (-2i32).to_be_bytes().to_vec();
        [PRECISION, SPARSE_PRECISION, 1].into_iter().for_each(|value| put_leb128(&mut head, value));
        let (mut count, mut shift) = (0u64, 0);
        for byte in bytes.strip_prefix(&head[..])? {
            count |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                let all = f64::from(1u32 << SPARSE_PRECISION);
                let left = all - count as f64;
                return (left > 0.0).then(|| (all * (all / left).ln()).round() as u64);
            }
            if shift > 28 {
                return None;
            }
        }
        None
    }

    /// Adds the keys of another.
    pub fn merge(&mut self, other: &Cardinality) {
        for (mine, theirs) in self.registers.iter_mut().zip(&other.registers) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// About how many distinct keys were counted: within some 1.2 % of the truth in most cases.
    /// Source: O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6.
    pub fn estimate(&self) -> u64 {
        const HIGHEST: usize = 31;
        let mut counts = [0f64; HIGHEST + 1];
        self.registers.iter().for_each(|register| counts[usize::from(*register).min(HIGHEST)] += 1.0);
        let all = REGISTERS as f64;
        let mut sum = all * tau(1.0 - counts[HIGHEST] / all);
        for count in counts[1..HIGHEST].iter().rev() {
            sum = 0.5 * (sum + count);
        }
        sum += all * sigma(counts[0] / all);
        let alpha = 0.5 / std::f64::consts::LN_2;
        (alpha * all * all / sum).round() as u64
    }
}

/// x + Σ x^(2^k) 2^(k-1): what registers never hit say.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut scale, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * scale;
        scale += scale;
        if sum == before {
            return sum;
        }
    }
}

/// What full registers say.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut scale, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        scale *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * scale;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_how_many_keys_there_are() {
        let sparse = |tail: &[u8]| [&[0xff, 0xff, 0xff, 0xfe, 13, 25, 1], tail].concat();
        assert_eq!(Cardinality::estimate_of(&sparse(&[0])), Some(0));
        assert_eq!(Cardinality::estimate_of(&sparse(&[0xb0, 9, 1, 2, 3])), Some(1200));
        assert_eq!(Cardinality::estimate_of(&sparse(&[0xff; 9])), None);
        assert_eq!(Cardinality::estimate_of(&Cardinality::default().encode()), Some(0));
        assert_eq!(Cardinality::estimate_of(&[]), None);
    }

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

    #[test]
    fn estimates_are_near_and_unions_count_once() {
        let of = |keys: std::ops::Range<u64>| {
            let mut cardinality = Cardinality::default();
            keys.for_each(|key| cardinality.add(&key.to_be_bytes()));
            cardinality
        };
        assert_eq!(Cardinality::default().estimate(), 0);
        for count in [1u64, 10, 1000, 20_000, 60_000, 1_000_000] {
            let estimate = of(0..count).estimate();
            assert!(estimate.abs_diff(count) as f64 <= 0.05 * count as f64, "{estimate} for {count}");
        }
        let mut both = Cardinality::decode(&of(0..30_000).encode()).expect("its own form");
        both.merge(&of(20_000..40_000));
        assert!((38_000..42_000).contains(&both.estimate()), "{}", both.estimate());
        assert!(Cardinality::decode(&of(0..10).encode()[1..]).is_none());
        assert!(Cardinality::decode(&[]).is_none());
    }
}
