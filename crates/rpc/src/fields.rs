//! Structs between releases: fields one after the other, each with its length. Fields are only ever appended.
//!
//! A reader that finds fewer fields than it knows takes their defaults (0, empty); what it does not know comes behind and is left alone.
//! An empty field is the default too, so zeros cost a byte.

use crate::error::Malformed;
use base::{ByteReader, put_uvint, uvint_len};

/// Appends the fields of a struct.
pub struct FieldWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> FieldWriter<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> FieldWriter<'a> {
        FieldWriter { out }
    }

    /// A number.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        if value == 0 {
            self.out.push(0);
        } else {
            put_uvint(self.out, uvint_len(value) as u64);
            put_uvint(self.out, value);
        }
        self
    }

    /// A number of 16 bytes: an identifier.
    pub fn u128(&mut self, value: u128) -> &mut Self {
        if value == 0 { self.bytes(&[]) } else { self.bytes(&value.to_be_bytes()) }
    }

    /// Bytes, or a struct of its own.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        put_uvint(self.out, value.len() as u64);
        self.out.extend_from_slice(value);
        self
    }

    /// Text.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }
}

/// Reads the fields of a struct in their order.
pub struct FieldReader<'a> {
    what: &'static str,
    bytes: ByteReader<'a>,
}

impl<'a> FieldReader<'a> {
    /// Reads what a [`FieldWriter`] wrote; errors name the struct by `what`.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> FieldReader<'a> {
        FieldReader { what, bytes: ByteReader::new(bytes) }
    }

    fn wrong(&self, reason: &'static str) -> Malformed {
        Malformed::new(self.what, reason)
    }

    /// The bytes of the next field; empty when there is none.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        if self.bytes.is_empty() {
            return Ok(&[]);
        }
        let length = self.bytes.uvint().map_err(|_| self.wrong("a field's length is cut"))?;
        let length = usize::try_from(length).map_err(|_| self.wrong("a field is too long"))?;
        self.bytes.bytes(length).map_err(|_| self.wrong("a field is cut"))
    }

    /// A number.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        let field = self.bytes()?;
        if field.is_empty() {
            return Ok(0);
        }
        let mut reader = ByteReader::new(field);
        let value = reader.uvint().map_err(|_| self.wrong("a number is cut"))?;
        if reader.is_empty() { Ok(value) } else { Err(self.wrong("a number is too long")) }
    }

    /// A number that fits a smaller type.
    pub fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.u64()?).map_err(|_| self.wrong("a number is too large"))
    }

    /// A number of 16 bytes.
    pub fn u128(&mut self) -> Result<u128, Malformed> {
        match self.bytes()? {
            [] => Ok(0),
            field => {
                let bytes = <[u8; 16]>::try_from(field).map_err(|_| self.wrong("an identifier's size"))?;
                Ok(u128::from_be_bytes(bytes))
            }
        }
    }

    /// Text of at most so many bytes.
    pub fn text(&mut self, max: usize) -> Result<String, Malformed> {
        let field = self.bytes()?;
        if field.len() > max {
            return Err(self.wrong("a text is too long"));
        }
        let text = std::str::from_utf8(field).map_err(|_| self.wrong("a text is no UTF-8"))?;
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    //! What one release writes another reads, whichever knows more fields.
    use super::*;

    #[test]
    fn older_and_newer_readers_agree_on_what_both_know() {
        let mut bytes = Vec::new();
        FieldWriter::new(&mut bytes).u64(7).u64(0).u128(9).text("name").bytes(&[1, 2]);
        let mut reader = FieldReader::new("sample", &bytes);
        assert_eq!((reader.u64(), reader.u64(), reader.u128()), (Ok(7), Ok(0), Ok(9)));
        assert_eq!((reader.text(4), reader.bytes()), (Ok("name".into()), Ok(&[1, 2][..])));
        assert_eq!((reader.u64(), reader.text(9)), (Ok(0), Ok(String::new())), "fields of a newer release");
        let mut older = FieldReader::new("sample", &bytes);
        assert_eq!(older.u64(), Ok(7), "and the rest is left alone");
    }

    #[test]
    fn bytes_that_are_no_fields_are_named() {
        for (bytes, reason) in [
            (&[5, 1][..], "a field is cut"),
            (&[0xff][..], "a field's length is cut"),
            (&[2, 1, 1][..], "a number is too long"),
            (&[1, 0x80][..], "a number is cut"),
        ] {
            let error = FieldReader::new("sample", bytes).u64().expect_err("broken");
            assert_eq!(error, Malformed::new("sample", reason));
        }
        let number = FieldReader::new("sample", &[3, 0xc1, 0, 0]).number::<u8>();
        assert_eq!(number, Err(Malformed::new("sample", "a number is too large")));
        assert_eq!(FieldReader::new("s", &[1, 0xff]).text(9), Err(Malformed::new("s", "a text is no UTF-8")));
    }
}
