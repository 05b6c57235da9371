//! Length-prefixed values whose fields are only ever appended.
//!
//! ```text
//! struct   u32 bytes, fields          text   u32 bytes, UTF-8         list   u32 count, elements
//! ```
//! Integers are big-endian. Who reads a struct of a later release passes over what comes behind the fields it knows; who reads one of
//! an earlier release finds its end where a later field would begin, and takes that field's default.

use crate::Error;
use base::{ByteReader, HostId};
use topology::Version;

/// Appends a struct: what `fields` appends, behind its length.
pub(crate) fn put_struct(out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fields(out);
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

pub(crate) fn put_version(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(&version.epoch.to_be_bytes());
    out.extend_from_slice(&version.index.to_be_bytes());
}

pub(crate) fn put_id(out: &mut Vec<u8>, id: u128) {
    out.extend_from_slice(&id.to_be_bytes());
}

/// Appends a list, each element by `put`.
pub(crate) fn put_list<T>(
    out: &mut Vec<u8>,
    list: impl ExactSizeIterator<Item = T>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    out.extend_from_slice(&(list.len() as u32).to_be_bytes());
    for element in list {
        put(out, element);
    }
}

pub(crate) fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

/// Reads what the functions above wrote. Offsets in errors count from the start of the whole value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    reader: ByteReader<'a>,
    base: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { reader: ByteReader::new(bytes), base: 0 }
    }

    pub(crate) fn malformed(&self, expected: &'static str) -> Error {
        Error::Malformed { offset: self.base + self.reader.position(), expected }
    }

    /// Whether the struct ends here: fields of later releases are missing.
    pub(crate) fn is_at_end(&self) -> bool {
        self.reader.is_empty()
    }

    /// Errors unless everything was read.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if self.is_at_end() { Ok(()) } else { Err(self.malformed("the end")) }
    }

    pub(crate) fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], Error> {
        let error = self.malformed(expected);
        self.reader.array().map_err(|_| error)
    }

    pub(crate) fn u8(&mut self, expected: &'static str) -> Result<u8, Error> {
        Ok(u8::from_be_bytes(self.array(expected)?))
    }

    pub(crate) fn u16(&mut self, expected: &'static str) -> Result<u16, Error> {
        Ok(u16::from_be_bytes(self.array(expected)?))
    }

    pub(crate) fn u32(&mut self, expected: &'static str) -> Result<u32, Error> {
        Ok(u32::from_be_bytes(self.array(expected)?))
    }

    pub(crate) fn u64(&mut self, expected: &'static str) -> Result<u64, Error> {
        Ok(u64::from_be_bytes(self.array(expected)?))
    }

    pub(crate) fn i64(&mut self, expected: &'static str) -> Result<i64, Error> {
        Ok(i64::from_be_bytes(self.array(expected)?))
    }

    pub(crate) fn u128(&mut self, expected: &'static str) -> Result<u128, Error> {
        Ok(u128::from_be_bytes(self.array(expected)?))
    }

    pub(crate) fn host(&mut self, expected: &'static str) -> Result<HostId, Error> {
        Ok(HostId(self.u128(expected)?))
    }

    pub(crate) fn flag(&mut self, expected: &'static str) -> Result<bool, Error> {
        let error = self.malformed(expected);
        match self.u8(expected)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(error),
        }
    }

    pub(crate) fn version(&mut self) -> Result<Version, Error> {
        Ok(Version { epoch: self.u64("an epoch")?, index: self.u64("an index")? })
    }

    pub(crate) fn blob(&mut self, expected: &'static str) -> Result<&'a [u8], Error> {
        let error = self.malformed(expected);
        let len = self.u32(expected)? as usize;
        self.reader.bytes(len).map_err(|_| error)
    }

    pub(crate) fn text(&mut self, expected: &'static str) -> Result<String, Error> {
        let error = self.malformed(expected);
        Ok(str::from_utf8(self.blob(expected)?).map_err(|_| error)?.to_owned())
    }

    /// A struct: reads its fields by itself.
    pub(crate) fn structure(&mut self, expected: &'static str) -> Result<Input<'a>, Error> {
        let start = self.base + self.reader.position() + 4;
        let bytes = self.blob(expected)?;
        Ok(Input { reader: ByteReader::new(bytes), base: start })
    }

    pub(crate) fn option<T>(
        &mut self,
        expected: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if self.flag(expected)? { Ok(Some(read(self)?)) } else { Ok(None) }
    }

    /// A list. Memory grows with what was read, never with what a count claims: no element takes less than a byte.
    pub(crate) fn list<T>(
        &mut self,
        expected: &'static str,
        mut read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let count = self.u32(expected)?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = self.reader.rest();
        self.reader.bytes(rest.len()).unwrap_or_default()
    }

    /// A member, whose bytes carry their own length.
    pub(crate) fn member(&mut self) -> Result<topology::Member, Error> {
        Ok(topology::Member::decode(&mut self.reader)?)
    }
}
