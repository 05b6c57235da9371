//! The primitive encodings of the protocol: strings, bytes, maps, addresses; all big-endian.

use crate::envelope::Version;
use crate::error::Error;
use base::ByteReader;
use std::net::{IpAddr, SocketAddr};
use types::Consistency;

/// A value of a request: absent, left as it is, or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawValue<'a> {
    /// No value.
    Null,
    /// Not set: leaves what is stored untouched.
    Unset,
    /// The value's bytes.
    Bytes(&'a [u8]),
}

impl RawValue<'_> {
    /// What a negative length means; `None`: nothing.
    #[inline]
    pub(crate) fn of_negative(length: i32, version: Version) -> Option<Self> {
        match length {
            -1 => Some(RawValue::Null),
            _ if version < Version::V4 => Some(RawValue::Null),
            -2 => Some(RawValue::Unset),
            _ => None,
        }
    }
}

/// Reads protocol primitives front to back; never panics.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(ByteReader<'a>);

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(ByteReader::new(bytes))
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.0.rest()
    }

    /// How many bytes were read.
    pub fn position(&self) -> usize {
        self.0.position()
    }

    /// `[byte]`.
    pub fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.0.u8()?)
    }

    /// `[short]`.
    pub fn short(&mut self) -> Result<u16, Error> {
        Ok(self.0.u16()?)
    }

    /// `[int]`.
    pub fn int(&mut self) -> Result<i32, Error> {
        Ok(self.0.i32()?)
    }

    /// `[long]`.
    pub fn long(&mut self) -> Result<i64, Error> {
        Ok(self.0.i64()?)
    }

    /// So many bytes.
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8], Error> {
        Ok(self.0.bytes(n)?)
    }

    /// `[string]`.
    pub fn string(&mut self) -> Result<&'a str, Error> {
        let n = self.short()?;
        text(self.raw(usize::from(n))?)
    }

    /// `[long string]`.
    pub fn long_string(&mut self) -> Result<&'a str, Error> {
        match usize::try_from(self.int()?) {
            Ok(n) => text(self.raw(n)?),
            Err(_) => Err(Error::message("Cannot read a string of negative length")),
        }
    }

    /// `[bytes]`: `None` when the length is negative.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, Error> {
        match usize::try_from(self.int()?) {
            Ok(n) => Ok(Some(self.raw(n)?)),
            Err(_) => Ok(None),
        }
    }

    /// `[short bytes]`.
    pub fn short_bytes(&mut self) -> Result<&'a [u8], Error> {
        let n = self.short()?;
        self.raw(usize::from(n))
    }

    /// `[value]`; in version 3 every negative length is null.
    #[inline]
    pub fn value(&mut self, version: Version) -> Result<RawValue<'a>, Error> {
        let length = self.int()?;
        match usize::try_from(length) {
            Ok(n) => Ok(RawValue::Bytes(self.raw(n)?)),
            Err(_) => RawValue::of_negative(length, version)
                .ok_or_else(|| Error::Message(format!("Invalid ByteBuf length {length}"))),
        }
    }

    /// `[string list]`.
    pub fn string_list(&mut self) -> Result<Vec<&'a str>, Error> {
        let n = self.short()?;
        (0..n).map(|_| self.string()).collect()
    }

    /// `[consistency]`.
    pub fn consistency(&mut self) -> Result<Consistency, Error> {
        Ok(Consistency::try_from(self.short()?)?)
    }

    /// `[inetaddr]`.
    pub fn inetaddr(&mut self) -> Result<IpAddr, Error> {
        match self.byte()? {
            4 => Ok(IpAddr::from(self.0.array::<4>()?)),
            16 => Ok(IpAddr::from(self.0.array::<16>()?)),
            n => Err(Error::Message(format!("Invalid inet address size {n}"))),
        }
    }

    /// `[inet]`.
    pub fn inet(&mut self) -> Result<SocketAddr, Error> {
        let address = self.inetaddr()?;
        let port = u16::try_from(self.int()?).map_err(|_| Error::message("Invalid port"))?;
        Ok(SocketAddr::new(address, port))
    }
}

fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::message("Cannot decode string as UTF8"))
}

/// Appends a `[short]`.
pub fn put_short(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends an `[int]`.
pub fn put_int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a `[long]`.
pub fn put_long(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a `[string]`. Text longer than 65535 bytes is cut at a character: only messages for people get that long.
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    put_short(out, end as u16);
    out.extend_from_slice(&text.as_bytes()[..end]);
}

/// Appends a `[long string]`.
pub fn put_long_string(out: &mut Vec<u8>, text: &str) {
    put_int(out, text.len() as i32);
    out.extend_from_slice(text.as_bytes());
}

/// Appends `[bytes]`; `None` is null.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_int(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
        None => put_int(out, -1),
    }
}

/// Appends `[short bytes]`; the caller keeps them below 65536.
pub fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
    put_short(out, bytes.len() as u16);
    out.extend_from_slice(bytes);
}

/// Appends a `[value]`.
pub fn put_value(out: &mut Vec<u8>, value: RawValue<'_>) {
    match value {
        RawValue::Null => put_int(out, -1),
        RawValue::Unset => put_int(out, -2),
        RawValue::Bytes(bytes) => put_bytes(out, Some(bytes)),
    }
}

/// Appends a `[string list]`.
pub fn put_string_list<T: AsRef<str>>(out: &mut Vec<u8>, list: &[T]) {
    let list = &list[..list.len().min(usize::from(u16::MAX))];
    put_short(out, list.len() as u16);
    for text in list {
        put_string(out, text.as_ref());
    }
}

/// Appends an `[inetaddr]`.
pub fn put_inetaddr(out: &mut Vec<u8>, address: &IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            out.push(4);
            out.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(16);
            out.extend_from_slice(&v6.octets());
        }
    }
}

/// Appends an `[inet]`.
pub fn put_inet(out: &mut Vec<u8>, address: &SocketAddr) {
    put_inetaddr(out, &address.ip());
    put_int(out, i32::from(address.port()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primitives_round_trip() {
        let mut out = Vec::new();
        put_string(&mut out, "é");
        put_long_string(&mut out, "long");
        put_bytes(&mut out, None);
        put_bytes(&mut out, Some(b"x"));
        put_value(&mut out, RawValue::Unset);
        put_string_list(&mut out, &["a", "b"]);
        let address: SocketAddr = "[::1]:9042".parse().expect("an address");
        put_inet(&mut out, &address);
        let mut reader = Reader::new(&out);
        assert_eq!(reader.string(), Ok("é"));
        assert_eq!(reader.long_string(), Ok("long"));
        assert_eq!(reader.bytes(), Ok(None));
        assert_eq!(reader.bytes(), Ok(Some(&b"x"[..])));
        assert_eq!(reader.clone().value(Version::V3), Ok(RawValue::Null));
        assert_eq!(reader.value(Version::V4), Ok(RawValue::Unset));
        assert_eq!(reader.string_list(), Ok(vec!["a", "b"]));
        assert_eq!(reader.inet(), Ok(address));
        assert!(reader.rest().is_empty());
        assert!(Reader::new(&[0xFF, 0xFF, 0xFF, 0xFD]).value(Version::V4).is_err());
        assert_eq!(Reader::new(&[0xFF, 0xFF, 0xFF, 0xFD]).value(Version::V3), Ok(RawValue::Null));
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let mut out = Vec::new();
        put_string(&mut out, &"é".repeat(40_000));
        assert_eq!(Reader::new(&out).string().map(str::len), Ok(65_534));
    }
}
