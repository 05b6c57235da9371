//! The values of a request, read in place.

use crate::envelope::Version;
use crate::error::Error;
use crate::wire::{RawValue, Reader, put_string, put_value};

/// Bound values as they stand in a request: checked once, iterated without copying.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    count: u16,
    named: bool,
    /// What negative lengths mean.
    version: Version,
    bytes: &'a [u8],
}

impl PartialEq for Values<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Default for Values<'_> {
    fn default() -> Self {
        Values { count: 0, named: false, version: Version::HIGHEST, bytes: &[] }
    }
}

impl<'a> Values<'a> {
    /// Reads the count and walks the values, so that iterating them later cannot fail.
    pub fn read(reader: &mut Reader<'a>, version: Version, named: bool) -> Result<Values<'a>, Error> {
        let count = reader.short()?;
        let bytes = reader.rest();
        let start = reader.position();
        for _ in 0..count {
            if named {
                reader.string()?;
            }
            reader.value(version)?;
        }
        let bytes = &bytes[..reader.position() - start];
        Ok(Values { count, named, version, bytes })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether each value has a name.
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// The values in order, with their names if they have them.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&'a str>, RawValue<'a>)> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        let (named, version) = (self.named, self.version);
        (0..self.count).map_while(move |_| {
            let name = if named { Some(reader.string().ok()?) } else { None };
            Some((name, reader.value(version).ok()?))
        })
    }

    /// The values in order, for those that have no names.
    #[inline]
    pub fn positional(&self) -> impl Iterator<Item = RawValue<'a>> + use<'a> {
        assert!(!self.named, "values with names are taken by name");
        let (mut rest, version) = (self.bytes, self.version);
        (0..self.count).map_while(move |_| {
            let (length, behind) = rest.split_first_chunk::<4>()?;
            let length = i32::from_be_bytes(*length);
            let (value, behind) = match usize::try_from(length) {
                Ok(length) => {
                    let (bytes, behind) = behind.split_at_checked(length)?;
                    (RawValue::Bytes(bytes), behind)
                }
                Err(_) => (RawValue::of_negative(length, version)?, behind),
            };
            rest = behind;
            Some(value)
        })
    }

    /// Appends count and values.
    pub fn encode(&self, out: &mut Vec<u8>) {
        crate::wire::put_short(out, self.count);
        out.extend_from_slice(self.bytes);
    }
}

/// Gathers the values of a request. At most 65535; more are refused by [`ValuesBuilder::push`].
#[derive(Clone, Debug, Default)]
pub struct ValuesBuilder {
    count: u16,
    named: bool,
    bytes: Vec<u8>,
}

impl ValuesBuilder {
    /// No values yet.
    pub fn new() -> ValuesBuilder {
        ValuesBuilder::default()
    }

    /// Adds a value by position.
    pub fn push(&mut self, value: RawValue<'_>) -> &mut ValuesBuilder {
        self.count = self.count.checked_add(1).expect("a statement has at most 65535 markers");
        put_value(&mut self.bytes, value);
        self
    }

    /// Adds a value's bytes.
    pub fn bytes(&mut self, value: &[u8]) -> &mut ValuesBuilder {
        self.push(RawValue::Bytes(value))
    }

    /// Adds a value by name; either all values have names or none.
    pub fn push_named(&mut self, name: &str, value: RawValue<'_>) -> &mut ValuesBuilder {
        assert!(self.named || self.count == 0, "names are for all values or none");
        self.named = true;
        put_string(&mut self.bytes, name);
        self.push(value)
    }

    /// Forgets the values, keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.named = false;
        self.bytes.clear();
    }

    /// The values for a request.
    pub fn values(&self) -> Values<'_> {
        Values { count: self.count, named: self.named, version: Version::HIGHEST, bytes: &self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_position_are_those_of_the_walk_that_knows_names() {
        let lengths: [&[u8]; 5] = [
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xfe],
            &[0, 0, 0, 0],
            &[0, 0, 0, 2, 7, 8],
            &[0, 0, 0, 1, 9],
        ];
        let mut bytes = vec![0, 5];
        bytes.extend(lengths.concat());
        for version in [Version::V3, Version::V4, Version::V5] {
            let values = Values::read(&mut Reader::new(&bytes), version, false).expect("well formed");
            let walked: Vec<RawValue<'_>> = values.iter().map(|(_, value)| value).collect();
            let unset = if version == Version::V3 { RawValue::Null } else { RawValue::Unset };
            assert_eq!(walked[..3], [RawValue::Null, unset, RawValue::Bytes(&[])]);
            assert_eq!(values.positional().collect::<Vec<_>>(), walked, "{version:?}");
        }
    }

    #[test]
    #[should_panic(expected = "taken by name")]
    fn values_with_names_have_no_positions() {
        let mut builder = ValuesBuilder::new();
        builder.push_named("a", RawValue::Null);
        let _ = builder.values().positional();
    }
}
