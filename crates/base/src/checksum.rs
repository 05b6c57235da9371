//! CRC-32 (the zlib polynomial, as in every Cassandra file) and the running hash by which two simulated runs are compared.

pub use crc32fast::Hasher as Crc32;

/// CRC-32 of one byte string.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// An order-sensitive hash of a sequence of numbers: equal traces give equal hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        TraceHash::new()
    }
}

impl TraceHash {
    /// The hash of the empty trace.
    pub const fn new() -> TraceHash {
        TraceHash(0xCBF2_9CE4_8422_2325)
    }

    /// Adds one number.
    pub fn update(&mut self, value: u64) {
        let mut z = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        self.0 = z ^ (z >> 32);
    }

    /// Adds a byte string and its length.
    pub fn update_bytes(&mut self, bytes: &[u8]) {
        self.update(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.update(u64::from_le_bytes(word));
        }
    }

    /// The hash so far.
    pub fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_matters() {
        let (mut a, mut b) = (TraceHash::new(), TraceHash::new());
        a.update(1);
        a.update(2);
        b.update(2);
        b.update(1);
        assert_ne!(a.finish(), b.finish());
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
