//! A bounds-checked cursor whose errors carry the offset.

use crate::Error;

/// Reads big-endian fields from a byte string.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, offset: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.offset == self.bytes.len()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }

    pub(crate) fn malformed(&self, expected: &'static str) -> Error {
        Error::Malformed { offset: self.offset, expected }
    }

    pub(crate) fn bytes(&mut self, count: usize, expected: &'static str) -> Result<&'a [u8], Error> {
        let end = self.offset.checked_add(count).ok_or_else(|| self.malformed(expected))?;
        let taken = self.bytes.get(self.offset..end).ok_or_else(|| self.malformed(expected))?;
        self.offset = end;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], Error> {
        let taken = self.bytes(N, expected)?;
        let mut array = [0; N];
        array.copy_from_slice(taken);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, expected: &'static str) -> Result<u8, Error> {
        Ok(self.array::<1>(expected)?[0])
    }

    pub(crate) fn u16(&mut self, expected: &'static str) -> Result<u16, Error> {
        self.array(expected).map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self, expected: &'static str) -> Result<u32, Error> {
        self.array(expected).map(u32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self, expected: &'static str) -> Result<i64, Error> {
        self.array(expected).map(i64::from_be_bytes)
    }

    /// A byte string behind a `u32` length.
    pub(crate) fn sized(&mut self, expected: &'static str) -> Result<&'a [u8], Error> {
        let len = self.u32(expected)? as usize;
        self.bytes(len, expected)
    }
}

/// Appends a `u32` length and the bytes.
pub(crate) fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}
