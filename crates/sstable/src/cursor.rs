//! A reading position in bytes from disk: every failure knows where it happened.

use base::ByteReader;
use std::path::Path;

use crate::error::Error;

/// Why bytes could not be decoded. Offsets count from the start of the decoded bytes.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The bytes end too early; `wanted` more than there are, if that is known, else 1.
    Short { at: u64, wanted: u64 },
    /// The bytes say something the format does not allow.
    Bad { at: u64, expected: String, got: String },
}

impl Fault {
    /// The error for a file whose bytes from `base` on were decoded.
    pub(crate) fn in_file(self, file: &Path, base: u64) -> Error {
        match self {
            Fault::Short { at, wanted } => Error::corrupt(
                file,
                base + at,
                format!("at least {wanted} more bytes"),
                "the end of the data",
            ),
            Fault::Bad { at, expected, got } => Error::corrupt(file, base + at, expected, got),
        }
    }
}

/// The result of decoding.
pub(crate) type Decoded<T> = Result<T, Fault>;

/// Reads primitives from a byte slice.
pub(crate) struct Cursor<'a> {
    reader: ByteReader<'a>,
}

macro_rules! primitive {
    ($name:ident, $type:ty) => {
        /// The next value.
        pub(crate) fn $name(&mut self) -> Decoded<$type> {
            let at = self.at();
            self.reader.$name().map_err(|_| Fault::Short { at, wanted: 1 })
        }
    };
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { reader: ByteReader::new(bytes) }
    }

    /// Bytes read so far.
    pub(crate) fn at(&self) -> u64 {
        self.reader.position() as u64
    }

    /// Bytes left.
    pub(crate) fn remaining(&self) -> usize {
        self.reader.remaining()
    }

    /// Whether all was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.reader.is_empty()
    }

    primitive!(u8, u8);
    primitive!(u16, u16);
    primitive!(u32, u32);
    primitive!(i32, i32);
    primitive!(i64, i64);
    primitive!(u64, u64);
    primitive!(uvint, u64);
    primitive!(svint, i64);

    /// The next `size` bytes.
    pub(crate) fn bytes(&mut self, size: usize) -> Decoded<&'a [u8]> {
        let at = self.at();
        let wanted = size.saturating_sub(self.remaining()) as u64;
        self.reader.bytes(size).map_err(|_| Fault::Short { at, wanted })
    }

    /// A length as a `uvint`, then that many bytes.
    pub(crate) fn vbytes(&mut self) -> Decoded<&'a [u8]> {
        let size = self.uvint()?;
        self.sized(size)
    }

    /// `size` bytes, where the size itself came from the data.
    pub(crate) fn sized(&mut self, size: u64) -> Decoded<&'a [u8]> {
        let at = self.at();
        if size > crate::limits::ROW_BYTES_MAX {
            return Err(self.bad_at(
                at,
                format!("a length up to {}", crate::limits::ROW_BYTES_MAX),
                size.to_string(),
            ));
        }
        self.bytes(size as usize)
    }

    /// A length as a `u16`, then that many bytes.
    pub(crate) fn short_bytes(&mut self) -> Decoded<&'a [u8]> {
        let size = self.u16()?;
        self.bytes(usize::from(size))
    }

    /// A text with a `u16` length.
    pub(crate) fn utf(&mut self) -> Decoded<&'a str> {
        let at = self.at();
        let bytes = self.short_bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.bad_at(at, "UTF-8 text", "other bytes"))
    }

    /// A text with a `uvint` length.
    pub(crate) fn vtext(&mut self) -> Decoded<&'a str> {
        let at = self.at();
        let bytes = self.vbytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.bad_at(at, "UTF-8 text", "other bytes"))
    }

    /// A count of elements that take at least `least` bytes each: never more than can follow.
    pub(crate) fn count(&mut self, count: u64, least: usize) -> Decoded<usize> {
        let most = self.remaining() / least.max(1);
        if count > most as u64 {
            return Err(self.bad_at(self.at(), format!("at most {most} elements"), count.to_string()));
        }
        Ok(count as usize)
    }

    /// An `i32` count of elements that take at least `least` bytes each.
    pub(crate) fn count_i32(&mut self, least: usize) -> Decoded<usize> {
        let at = self.at();
        let count = self.i32()?;
        match u64::try_from(count) {
            Ok(count) => self.count(count, least),
            Err(_) => Err(self.bad_at(at, "a count", count.to_string())),
        }
    }

    /// A fault at `at`.
    pub(crate) fn bad_at(&self, at: u64, expected: impl Into<String>, got: impl Into<String>) -> Fault {
        Fault::Bad { at, expected: expected.into(), got: got.into() }
    }
}

/// Appends a length as a `uvint` and the bytes.
pub(crate) fn put_vbytes(out: &mut Vec<u8>, bytes: &[u8]) {
    base::put_uvint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a length as a `u16` and the bytes. The caller has checked that they fit.
pub(crate) fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let size = u16::try_from(bytes.len()).expect("callers store only names and keys checked against 64 KiB");
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends the difference of two 32-bit numbers as Cassandra does: sign-extended, so that a negative one takes nine bytes.
pub(crate) fn put_delta32(out: &mut Vec<u8>, value: u32, base: u32) {
    let delta = value.wrapping_sub(base) as i32;
    base::put_uvint(out, i64::from(delta) as u64);
}
