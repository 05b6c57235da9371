//! A cursor over bytes that never panics, and variable-length integers.
//!
//! `uvint`: the count of leading one bits of the first byte is the number of extra bytes; the rest of the first byte holds the most
//! significant bits, the extra bytes follow big-endian. `svint` is the zig-zag of it. These are Cassandra's on-disk forms and must never change.

/// The bytes ended before the value did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Where the value began.
    pub position: usize,
    /// How many bytes it wanted.
    pub wanted: usize,
    /// How many there were.
    pub left: usize,
}

impl std::fmt::Display for Truncated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "truncated at byte {}: wanted {} bytes, {} left", self.position, self.wanted, self.left)
    }
}

impl std::error::Error for Truncated {}

/// Reads big-endian values from a byte slice, front to back.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> ByteReader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader { bytes, position: 0 }
    }

    /// How many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// How many bytes were read.
    #[inline]
    pub fn position(&self) -> usize {
        self.position
    }

    /// True when nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// What is left, without reading it.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }

    /// The next byte, without reading it.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    /// The next `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Truncated> {
        match self.rest().get(..n) {
            Some(slice) => {
                self.position += n;
                Ok(slice)
            }
            None => Err(Truncated { position: self.position, wanted: n, left: self.remaining() }),
        }
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let slice = self.bytes(N)?;
        let mut out = [0u8; N];
        out.copy_from_slice(slice);
        Ok(out)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, big-endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Two bytes, big-endian, signed.
    pub fn i16(&mut self) -> Result<i16, Truncated> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    /// Four bytes, big-endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Four bytes, big-endian, signed.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, Truncated> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Eight bytes, big-endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Eight bytes, big-endian, signed.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, Truncated> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Sixteen bytes, big-endian.
    pub fn u128(&mut self) -> Result<u128, Truncated> {
        Ok(u128::from_be_bytes(self.array()?))
    }

    /// An unsigned variable-length integer, 1 to 9 bytes.
    #[inline]
    pub fn uvint(&mut self) -> Result<u64, Truncated> {
        match self.peek() {
            Some(first) if first < 0x80 => {
                self.position += 1;
                Ok(u64::from(first))
            }
            _ => self.long_uvint(),
        }
    }

    fn long_uvint(&mut self) -> Result<u64, Truncated> {
        let start = *self;
        let first = self.u8()?;
        let extra = first.leading_ones() as usize;
        let high = if extra >= 7 { 0 } else { u64::from(first) & ((1 << (7 - extra)) - 1) };
        // Eight bytes at once, when there are as many, whether they are all of it or not.
        if let Some(word) = self.rest().first_chunk::<8>()
            && extra > 0
        {
            self.position += extra;
            let tail = u64::from_be_bytes(*word) >> (64 - 8 * extra);
            return Ok(if extra == 8 { tail } else { high << (8 * extra) | tail });
        }
        match self.bytes(extra) {
            Ok(tail) => Ok(tail.iter().fold(high, |v, b| v << 8 | u64::from(*b))),
            Err(error) => {
                *self = start;
                Err(error)
            }
        }
    }

    /// A signed (zig-zag) variable-length integer.
    #[inline]
    pub fn svint(&mut self) -> Result<i64, Truncated> {
        Ok(unzigzag(self.uvint()?))
    }
}

/// Maps signed to unsigned so that small magnitudes stay small.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

/// Bytes that [`put_uvint`] writes for this value: 1 to 9.
#[inline]
pub fn uvint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7).min(9)
}

/// Bytes that [`put_svint`] writes for this value: 1 to 9.
pub fn svint_len(value: i64) -> usize {
    uvint_len(zigzag(value))
}

/// Appends an unsigned variable-length integer.
#[inline]
pub fn put_uvint(out: &mut Vec<u8>, value: u64) {
    let len = uvint_len(value);
    if len == 1 {
        out.push(value as u8);
        return;
    }
    if len == 9 {
        out.push(0xFF);
        out.extend_from_slice(&value.to_be_bytes());
        return;
    }
    // `len - 1` leading ones; the terminating zero and the value's top bits fill the rest of the first byte.
    let ones = u64::from(!(0xFFu8 >> (len - 1))) << 56;
    let end = out.len() + len;
    // A copy of a length that the compiler knows is cheaper than one of the right length.
    out.extend_from_slice(&(value << (64 - 8 * len) | ones).to_be_bytes());
    out.truncate(end);
}

/// Appends a signed (zig-zag) variable-length integer.
pub fn put_svint(out: &mut Vec<u8>, value: i64) {
    put_uvint(out, zigzag(value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_uvint(&mut out, value);
        out
    }

    #[test]
    fn examples_from_the_format() {
        assert_eq!(encoded(0), [0]);
        assert_eq!(encoded(127), [0x7F]);
        assert_eq!(encoded(128), [0x80, 0x80]);
        assert_eq!(encoded(16383), [0xBF, 0xFF]);
        assert_eq!(encoded(16384), [0xC0, 0x40, 0]);
        assert_eq!(encoded(1 << 56), [0xFF, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encoded((1 << 56) - 1)[0], 0xFE);
    }

    #[test]
    fn truncation_is_an_error_and_does_not_move() {
        let mut reader = ByteReader::new(&[0xC0, 1]);
        assert!(reader.uvint().is_err());
        assert_eq!(reader.position(), 0);
        assert!(reader.u32().is_err());
        assert_eq!(reader.u16().expect("two bytes"), 0xC001);
        assert!(reader.is_empty());
        assert!(reader.bytes(usize::MAX).is_err());
    }

    proptest! {
        #[test]
        fn uvint_round_trip(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let bytes = encoded(value);
            prop_assert_eq!(bytes.len(), uvint_len(value));
            let mut reader = ByteReader::new(&bytes);
            prop_assert_eq!(reader.uvint(), Ok(value));
            prop_assert!(reader.is_empty());
            // Whatever stands behind it is left alone.
            let longer = [bytes.as_slice(), &[0xa5; 9]].concat();
            let mut reader = ByteReader::new(&longer);
            prop_assert_eq!(reader.uvint(), Ok(value));
            prop_assert_eq!(reader.position(), bytes.len());
            prop_assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let mut reader = ByteReader::new(&bytes);
            while reader.uvint().is_ok() {}
        }
    }
}
