//! Whether bytes are a value of a type. The texts are Cassandra's, because drivers' users see them.

use crate::collection::{self, Fields};
use crate::cql_type::CqlType;
use crate::error::TypeError;
use crate::limits::NUMBER_BYTES_MAX;

fn sized(ok: bool, text: &str, wire: &[u8]) -> Result<(), TypeError> {
    if ok { Ok(()) } else { Err(TypeError::Bytes(format!("{text} ({})", wire.len()))) }
}

impl CqlType {
    /// Checks the bytes of one value that a client or a file gave. An empty value is legal for most types.
    pub fn validate(&self, wire: &[u8]) -> Result<(), TypeError> {
        let bad = |text: &str| TypeError::Bytes(text.to_owned());
        let len = wire.len();
        match self {
            CqlType::Ascii => match wire.iter().find(|b| **b >= 0x80) {
                Some(b) => Err(TypeError::Bytes(format!("Invalid byte for ascii: {}", *b as i8))),
                None => Ok(()),
            },
            CqlType::Text => match std::str::from_utf8(wire) {
                Ok(_) => Ok(()),
                Err(_) => Err(bad("String didn't validate.")),
            },
            CqlType::Blob | CqlType::Custom(_) => Ok(()),
            CqlType::Varint => {
                sized(len <= NUMBER_BYTES_MAX, "Expected at most 16384 bytes for a varint", wire)
            }
            CqlType::Boolean => sized(len <= 1, "Expected 1 or 0 byte value", wire),
            CqlType::Tinyint => sized(len == 1, "Expected 1 byte for a tinyint", wire),
            CqlType::Smallint => sized(len == 2, "Expected 2 bytes for a smallint", wire),
            CqlType::Int => sized(len == 4 || len == 0, "Expected 4 or 0 byte int", wire),
            CqlType::Bigint | CqlType::Counter => {
                sized(len == 8 || len == 0, "Expected 8 or 0 byte long", wire)
            }
            CqlType::Float => sized(len == 4 || len == 0, "Expected 4 or 0 byte value for a float", wire),
            CqlType::Double => sized(len == 8 || len == 0, "Expected 8 or 0 byte value for a double", wire),
            CqlType::Timestamp => sized(len == 8 || len == 0, "Expected 8 or 0 byte long for date", wire),
            CqlType::Date => sized(len == 4, "Expected 4 byte long for date", wire),
            CqlType::Time => {
                sized(len == 8, "Expected 8 byte long for time", wire)?;
                let nanos = wire.try_into().map_or(-1, i64::from_be_bytes);
                if (0..86_400_000_000_000).contains(&nanos) {
                    Ok(())
                } else {
                    Err(TypeError::Bytes(format!("Input long out of bounds for time: {nanos}")))
                }
            }
            CqlType::Uuid | CqlType::LexicalUuid => {
                sized(len == 16 || len == 0, "UUID should be 16 or 0 bytes", wire)
            }
            CqlType::Timeuuid => {
                sized(len == 16 || len == 0, "UUID should be 16 or 0 bytes", wire)?;
                if wire.get(6).is_some_and(|b| b >> 4 != 1) {
                    return Err(bad("Invalid version for TimeUUID type."));
                }
                Ok(())
            }
            CqlType::Decimal => validate_decimal(wire),
            CqlType::Inet => validate_inet(wire),
            CqlType::Duration => crate::duration::Duration::decode(wire).map(|_| ()),
            CqlType::Empty => sized(len == 0, "EmptyType only accept empty values", wire),
            CqlType::List(e) | CqlType::Set(e) => validate_elements(e, wire),
            CqlType::Map(k, v) => {
                check_count(wire)?;
                for entry in collection::entries(wire) {
                    let (key, value) = entry?;
                    k.validate(key)?;
                    v.validate(value)?;
                }
                Ok(())
            }
            CqlType::Tuple(fields) => validate_fields(fields.iter(), "tuple", wire),
            CqlType::Udt(udt) => validate_fields(udt.fields.iter().map(|(_, ty)| ty), "user type", wire),
            CqlType::Vector(e, n) => self.validate_vector(e, *n, wire),
            CqlType::Frozen(inner) => inner.validate(wire),
        }
    }
}

impl CqlType {
    /// `self` is the vector.
    fn validate_vector(&self, element: &CqlType, dimension: u32, wire: &[u8]) -> Result<(), TypeError> {
        for item in collection::vector_elements(element, dimension, wire) {
            match item {
                Ok(item) => element.validate(item)?,
                Err(TypeError::Bytes(text)) if text.starts_with("Not enough bytes") => {
                    return Err(TypeError::Bytes(format!("Not enough bytes to read a {self}")));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn validate_inet(wire: &[u8]) -> Result<(), TypeError> {
    match wire.len() {
        0 | 4 | 16 => Ok(()),
        _ => {
            let shown = crate::text::format_hex(wire);
            Err(TypeError::Bytes(format!("Expected 4 or 16 byte inetaddress; got {shown}")))
        }
    }
}

fn validate_decimal(wire: &[u8]) -> Result<(), TypeError> {
    let len = wire.len();
    sized(len == 0 || len >= 4, "Expected 0 or at least 4 bytes", wire)?;
    sized(len <= 4 + NUMBER_BYTES_MAX, "Expected at most 16388 bytes for a decimal", wire)
}

/// A count is no reason to loop long: each element takes at least four bytes.
fn check_count(wire: &[u8]) -> Result<(), TypeError> {
    if wire.is_empty() {
        return Err(TypeError::Bytes("Not enough bytes to read a collection".into()));
    }
    if wire.len() / 4 < collection::count(wire)? {
        return Err(TypeError::Bytes("Not enough bytes to read a collection".into()));
    }
    Ok(())
}

fn validate_elements(element: &CqlType, wire: &[u8]) -> Result<(), TypeError> {
    check_count(wire)?;
    for item in collection::elements(wire) {
        match item? {
            Some(bytes) => element.validate(bytes)?,
            None => {
                return Err(TypeError::Bytes("null is not supported inside collections".into()));
            }
        }
    }
    Ok(())
}

fn validate_fields<'t>(
    types: impl ExactSizeIterator<Item = &'t CqlType>,
    what: &str,
    wire: &[u8],
) -> Result<(), TypeError> {
    let count = types.len();
    let mut fields = Fields::new(wire);
    for ty in types {
        match fields.next().transpose()? {
            Some(Some(bytes)) => ty.validate(bytes)?,
            Some(None) => {}
            None => return Ok(()),
        }
    }
    match fields.next() {
        None => Ok(()),
        Some(_) => Err(TypeError::Bytes(format!("Expected {count} values for {what} but got more"))),
    }
}
