//! The wire form of collections, tuples and vectors: `i32 n, (i32 len, bytes)*` and its relatives, read in place.

use crate::cql_type::CqlType;
use crate::error::TypeError;
use base::{ByteReader, put_uvint};

/// The elements of a list or set: see [`elements`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    reader: ByteReader<'a>,
    left: usize,
    failed: bool,
}

/// Iterates a list or set. A length below zero is a null (`None`). An error ends the iteration; bytes after the last element are an error.
pub fn elements(wire: &[u8]) -> Elements<'_> {
    let mut reader = ByteReader::new(wire);
    match reader.i32() {
        Ok(n) if n >= 0 => Elements { reader, left: n as usize, failed: false },
        _ => Elements { reader, left: usize::from(!wire.is_empty()), failed: !wire.is_empty() },
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Option<&'a [u8]>, TypeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            if self.failed || self.reader.is_empty() {
                return None;
            }
            self.failed = true;
            return Some(Err(TypeError::Bytes("Unexpected extraneous bytes after collection value".into())));
        }
        self.left -= 1;
        if self.failed {
            self.left = 0;
            return Some(Err(TypeError::Bytes("invalid collection size".into())));
        }
        let item = read_sized(&mut self.reader);
        if item.is_err() {
            self.left = 0;
            self.failed = true;
        }
        Some(item)
    }
}

fn read_sized<'a>(reader: &mut ByteReader<'a>) -> Result<Option<&'a [u8]>, TypeError> {
    match reader.i32()? {
        len if len < 0 => Ok(None),
        len => Ok(Some(reader.bytes(len as usize)?)),
    }
}

/// How many elements (or map entries) a wire collection says it has; 0 for an empty value. Not yet checked against the bytes.
pub fn count(wire: &[u8]) -> Result<usize, TypeError> {
    if wire.is_empty() {
        return Ok(0);
    }
    let n = ByteReader::new(wire).i32()?;
    usize::try_from(n).map_err(|_| TypeError::Bytes("invalid collection size".into()))
}

/// Iterates a map as key and value. Nulls and bytes after the last entry are errors; an error ends the iteration.
pub fn entries(wire: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8]), TypeError>> + use<'_> {
    let mut inner = elements(wire);
    // Each entry is two elements; a count near the limit stays bounded by the bytes that follow.
    if !inner.failed {
        inner.left = inner.left.saturating_mul(2);
    }
    std::iter::from_fn(move || {
        let null = || TypeError::Bytes("null is not supported inside collections".into());
        let key = match inner.next()? {
            Ok(Some(key)) => key,
            Ok(None) => {
                inner.left = 0;
                inner.failed = true;
                return Some(Err(null()));
            }
            Err(error) => return Some(Err(error)),
        };
        match inner.next()? {
            Ok(Some(value)) => Some(Ok((key, value))),
            Ok(None) => {
                inner.left = 0;
                inner.failed = true;
                Some(Err(null()))
            }
            Err(error) => Some(Err(error)),
        }
    })
}

/// The fields of a tuple or user type: nulls are `None`, trailing fields may be absent.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    reader: ByteReader<'a>,
    failed: bool,
}

impl<'a> Fields<'a> {
    /// Starts at the first field.
    pub fn new(wire: &'a [u8]) -> Fields<'a> {
        Fields { reader: ByteReader::new(wire), failed: false }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Option<&'a [u8]>, TypeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.reader.is_empty() {
            return None;
        }
        let item = read_sized(&mut self.reader);
        self.failed = item.is_err();
        Some(item)
    }
}

/// Iterates a vector's elements: of a fixed-length type one after another, of any other with a uvint length each.
pub fn vector_elements<'a>(
    element: &CqlType,
    dimension: u32,
    wire: &'a [u8],
) -> impl Iterator<Item = Result<&'a [u8], TypeError>> + use<'a> {
    let fixed = element.fixed_len();
    let mut reader = ByteReader::new(wire);
    // Elements of no bytes say nothing, and nothing bounds their number.
    let mut left = if fixed == Some(0) { 0 } else { dimension };
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        left -= 1;
        let item = match fixed {
            Some(len) => reader.bytes(len),
            None => reader.uvint().and_then(|len| reader.bytes(usize::try_from(len).unwrap_or(usize::MAX))),
        };
        let extra = left == 0 && !reader.is_empty();
        if item.is_err() {
            left = 0;
        }
        Some(match item {
            Ok(_) if extra => Err(TypeError::Bytes("Unexpected extraneous bytes after vector value".into())),
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(error.into()),
        })
    })
}

/// Appends one length-prefixed value; `None` is a null.
pub fn put_element(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

/// Builds a list or set from its elements, already in order.
pub fn build<'a>(elements: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = vec![0; 4];
    let mut n = 0i32;
    for element in elements {
        put_element(&mut out, Some(element));
        n += 1;
    }
    out[..4].copy_from_slice(&n.to_be_bytes());
    out
}

/// Builds a map from its entries, already in key order.
pub fn build_map<'a>(entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut out = vec![0; 4];
    let mut n = 0i32;
    for (key, value) in entries {
        put_element(&mut out, Some(key));
        put_element(&mut out, Some(value));
        n += 1;
    }
    out[..4].copy_from_slice(&n.to_be_bytes());
    out
}

/// Builds a tuple or user type from its fields.
pub fn build_tuple<'a>(fields: impl IntoIterator<Item = Option<&'a [u8]>>) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        put_element(&mut out, field);
    }
    out
}

/// Appends one element of a vector whose element type is `element`.
pub fn put_vector_element(element: &CqlType, bytes: &[u8], out: &mut Vec<u8>) {
    if element.fixed_len().is_none() {
        put_uvint(out, bytes.len() as u64);
    }
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_maps() {
        let list = build([&b"a"[..], b"", b"ccc"]);
        let read: Vec<_> = elements(&list).map(|e| e.expect("well formed")).collect();
        assert_eq!(read, [Some(&b"a"[..]), Some(b""), Some(b"ccc")]);
        let map = build_map([(&b"k"[..], &b"v"[..])]);
        assert_eq!(count(&map), Ok(1));
        let read: Vec<_> = entries(&map).map(|e| e.expect("well formed")).collect();
        assert_eq!(read, [(&b"k"[..], &b"v"[..])]);
        assert_eq!(elements(b"").count(), 0);
    }

    #[test]
    fn damage_is_one_error_and_the_end() {
        for bytes in [
            &[0u8, 0, 0][..],
            &[0xFF, 0xFF, 0xFF, 0xFF],
            &[0, 0, 0, 1],
            &[0, 0, 0, 2, 0, 0, 0, 9, 1],
            &[0, 0, 0, 0, 7],
            &[0x7F, 0xFF, 0xFF, 0xFF, 0, 0],
        ] {
            assert_eq!(elements(bytes).filter(Result::is_err).count(), 1, "{bytes:?}");
            assert_eq!(entries(bytes).filter(Result::is_err).count(), 1, "{bytes:?}");
        }
        let null_value = [0, 0, 0, 1, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
        assert_eq!(entries(&null_value).filter(Result::is_err).count(), 1);
    }

    #[test]
    fn vectors_of_both_kinds() {
        let floats = vector_elements(&CqlType::Float, 2, &[0; 8]).collect::<Vec<_>>();
        assert_eq!(floats, [Ok(&[0u8; 4][..]), Ok(&[0; 4])]);
        assert!(vector_elements(&CqlType::Float, 2, &[0; 9]).any(|e| e.is_err()));
        assert!(vector_elements(&CqlType::Float, 2, &[0; 7]).any(|e| e.is_err()));
        let mut texts = Vec::new();
        put_vector_element(&CqlType::Text, b"ab", &mut texts);
        put_vector_element(&CqlType::Text, b"", &mut texts);
        assert_eq!(texts, [2, b'a', b'b', 0]);
        let read: Vec<_> = vector_elements(&CqlType::Text, 2, &texts).collect();
        assert_eq!(read, [Ok(&b"ab"[..]), Ok(b"")]);
    }
}
