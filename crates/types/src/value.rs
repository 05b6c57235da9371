//! Values as a tree: for tools, tests, functions and system tables. The data path keeps wire bytes.

use crate::collection::{self, Fields};
use crate::cql_type::{CqlType, quoted};
use crate::datetime;
use crate::duration::Duration;
use crate::error::TypeError;
use crate::float_text;
use crate::number;
use crate::text;
use num_bigint::BigInt;
use std::net::IpAddr;
use std::sync::Arc;
use uuid::Uuid;

/// A decoded value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A value of no bytes, of a type whose empty form is no text.
    Empty,
    /// `ascii` or `text`.
    Text(String),
    /// `bigint`.
    Bigint(i64),
    /// `blob`, or a value of a custom type.
    Blob(Vec<u8>),
    /// `boolean`.
    Boolean(bool),
    /// `counter`.
    Counter(i64),
    /// `decimal`: scale and unscaled number.
    Decimal(i32, BigInt),
    /// `double`.
    Double(f64),
    /// `float`.
    Float(f32),
    /// `int`.
    Int(i32),
    /// `timestamp`: milliseconds since the Unix epoch.
    Timestamp(i64),
    /// `uuid` or `timeuuid`.
    Uuid(Uuid),
    /// `varint`.
    Varint(BigInt),
    /// `inet`.
    Inet(IpAddr),
    /// `date`: days, 2^31 being 1970-01-01.
    Date(u32),
    /// `time`: nanoseconds since midnight.
    Time(i64),
    /// `smallint`.
    Smallint(i16),
    /// `tinyint`.
    Tinyint(i8),
    /// `duration`.
    Duration(Duration),
    /// `list`.
    List(Vec<Value>),
    /// `set`, in order once decoded.
    Set(Vec<Value>),
    /// `map`, in key order once decoded.
    Map(Vec<(Value, Value)>),
    /// `tuple`; fields may be null.
    Tuple(Vec<Value>),
    /// A user type's fields by name; they may be null.
    Udt(Vec<(Arc<str>, Value)>),
    /// `vector`.
    Vector(Vec<Value>),
}

fn mismatch(ty: &CqlType) -> TypeError {
    TypeError::Literal(format!("value is not of type {ty}"))
}

impl Value {
    /// A text value.
    pub fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    /// The wire bytes as a value of `ty`; `None` for null.
    pub fn encode_nullable(&self, ty: &CqlType) -> Result<Option<Vec<u8>>, TypeError> {
        match self {
            Value::Null => Ok(None),
            value => value.encode(ty).map(Some),
        }
    }

    /// The wire bytes as a value of `ty`. Null has none and is an error; sets and maps are put in order, duplicates dropped.
    pub fn encode(&self, ty: &CqlType) -> Result<Vec<u8>, TypeError> {
        let ty = ty.unfrozen();
        let bytes = match (self, ty) {
            (Value::Empty, _) if ty.empty_is_no_value() || matches!(ty, CqlType::Inet) => Vec::new(),
            (Value::Text(v), CqlType::Text | CqlType::Ascii) => v.clone().into_bytes(),
            (Value::Bigint(v), CqlType::Bigint | CqlType::Counter)
            | (Value::Counter(v), CqlType::Counter)
            | (Value::Timestamp(v), CqlType::Timestamp)
            | (Value::Time(v), CqlType::Time) => v.to_be_bytes().to_vec(),
            (Value::Blob(v), CqlType::Blob | CqlType::Custom(_)) => v.clone(),
            (Value::Boolean(v), CqlType::Boolean) => vec![u8::from(*v)],
            (Value::Decimal(scale, unscaled), CqlType::Decimal) => number::encode_decimal(*scale, unscaled),
            (Value::Double(v), CqlType::Double) => v.to_be_bytes().to_vec(),
            (Value::Float(v), CqlType::Float) => v.to_be_bytes().to_vec(),
            (Value::Int(v), CqlType::Int) => v.to_be_bytes().to_vec(),
            (Value::Uuid(v), CqlType::Uuid | CqlType::Timeuuid | CqlType::LexicalUuid) => {
                v.as_bytes().to_vec()
            }
            (Value::Varint(v), CqlType::Varint) => v.to_signed_bytes_be(),
            (Value::Inet(v), CqlType::Inet) => text::inet_bytes(v),
            (Value::Date(v), CqlType::Date) => v.to_be_bytes().to_vec(),
            (Value::Smallint(v), CqlType::Smallint) => v.to_be_bytes().to_vec(),
            (Value::Tinyint(v), CqlType::Tinyint) => v.to_be_bytes().to_vec(),
            (Value::Duration(v), CqlType::Duration) => v.encode(),
            (Value::List(items), CqlType::List(e)) => {
                let items = encode_all(items, e)?;
                collection::build(items.iter().map(Vec::as_slice))
            }
            (Value::Set(items), CqlType::Set(e)) => {
                let mut items = encode_all(items, e)?;
                items.sort_by(|a, b| e.compare(a, b));
                items.dedup_by(|a, b| e.compare(a, b).is_eq());
                collection::build(items.iter().map(Vec::as_slice))
            }
            (Value::Map(entries), CqlType::Map(k, v)) => encode_map(entries, k, v)?,
            (Value::Tuple(items), CqlType::Tuple(types)) if items.len() <= types.len() => {
                let fields = items.iter().zip(types.iter());
                encode_fields(fields)?
            }
            (Value::Udt(items), CqlType::Udt(udt)) => {
                let found = |name: &str| items.iter().find(|(n, _)| &**n == name).map(|(_, v)| v);
                encode_fields(udt.fields.iter().map(|(n, ty)| (found(n).unwrap_or(&Value::Null), ty)))?
            }
            (Value::Vector(items) | Value::List(items), CqlType::Vector(e, n))
                if items.len() == *n as usize =>
            {
                let mut out = Vec::new();
                for item in encode_all(items, e)? {
                    collection::put_vector_element(e, &item, &mut out);
                }
                out
            }
            _ => return Err(mismatch(ty)),
        };
        ty.validate(&bytes)?;
        Ok(bytes)
    }

    /// Reads the wire bytes of a value of `ty`.
    pub fn decode(ty: &CqlType, wire: &[u8]) -> Result<Value, TypeError> {
        let ty = ty.unfrozen();
        ty.validate(wire)?;
        if wire.is_empty() && (ty.empty_is_no_value() || matches!(ty, CqlType::Inet)) {
            return Ok(match ty {
                CqlType::Tuple(_) => Value::Tuple(Vec::new()),
                _ => Value::Empty,
            });
        }
        decode_valid(ty, wire)
    }

    /// The value as a CQL literal: text quoted, blobs as `0x..`, null as `null`.
    pub fn to_cql(&self) -> String {
        match self {
            Value::Null => "null".into(),
            Value::Empty => "''".into(),
            Value::Text(v) => text::quote(v),
            Value::Bigint(v) | Value::Counter(v) => v.to_string(),
            Value::Blob(v) => format!("0x{}", text::format_hex(v)),
            Value::Boolean(v) => v.to_string(),
            Value::Decimal(scale, unscaled) => number::format_decimal(*scale, unscaled),
            Value::Double(v) => float_text::format_double(*v),
            Value::Float(v) => float_text::format_float(*v),
            Value::Int(v) => v.to_string(),
            Value::Timestamp(v) => format!("'{}'", datetime::format_timestamp(*v)),
            Value::Uuid(v) => v.to_string(),
            Value::Varint(v) => v.to_string(),
            Value::Inet(v) => format!("'{}'", text::format_inet(v)),
            Value::Date(v) => format!("'{}'", datetime::format_date(*v)),
            Value::Time(v) => format!("'{}'", datetime::format_time(*v)),
            Value::Smallint(v) => v.to_string(),
            Value::Tinyint(v) => v.to_string(),
            Value::Duration(v) => v.to_string(),
            Value::List(items) | Value::Vector(items) => format!("[{}]", joined(items)),
            Value::Set(items) => format!("{{{}}}", joined(items)),
            // A value of no bytes: all its fields are null, and a literal has at least one.
            Value::Tuple(items) if items.is_empty() => "(null)".into(),
            Value::Tuple(items) => format!("({})", joined(items)),
            Value::Map(entries) => {
                let texts: Vec<String> =
                    entries.iter().map(|(k, v)| format!("{}: {}", k.to_cql(), v.to_cql())).collect();
                format!("{{{}}}", texts.join(", "))
            }
            Value::Udt(fields) => {
                let texts: Vec<String> =
                    fields.iter().map(|(name, v)| format!("{}: {}", quoted(name), v.to_cql())).collect();
                format!("{{{}}}", texts.join(", "))
            }
        }
    }
}

fn joined(items: &[Value]) -> String {
    let texts: Vec<String> = items.iter().map(Value::to_cql).collect();
    texts.join(", ")
}

fn encode_all(items: &[Value], ty: &CqlType) -> Result<Vec<Vec<u8>>, TypeError> {
    items.iter().map(|item| item.encode(ty)).collect()
}

fn encode_map(entries: &[(Value, Value)], k: &CqlType, v: &CqlType) -> Result<Vec<u8>, TypeError> {
    let mut pairs = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        pairs.push((key.encode(k)?, value.encode(v)?));
    }
    // The sort is stable and the last of equal keys wins.
    pairs.reverse();
    pairs.sort_by(|a, b| k.compare(&a.0, &b.0));
    pairs.dedup_by(|a, b| k.compare(&a.0, &b.0).is_eq());
    Ok(collection::build_map(pairs.iter().map(|(k, v)| (k.as_slice(), v.as_slice()))))
}

fn encode_fields<'v>(fields: impl Iterator<Item = (&'v Value, &'v CqlType)>) -> Result<Vec<u8>, TypeError> {
    let mut out = Vec::new();
    for (value, ty) in fields {
        let bytes = value.encode_nullable(ty)?;
        collection::put_element(&mut out, bytes.as_deref());
    }
    Ok(out)
}

fn array<const N: usize>(wire: &[u8]) -> Result<[u8; N], TypeError> {
    wire.try_into().map_err(|_| TypeError::Bytes(format!("Expected {N} bytes ({})", wire.len())))
}

fn decode_list(e: &CqlType, wire: &[u8]) -> Result<Vec<Value>, TypeError> {
    collection::elements(wire)
        .map(|item| item?.map_or(Ok(Value::Null), |bytes| Value::decode(e, bytes)))
        .collect()
}

fn decode_field(ty: &CqlType, bytes: Option<&[u8]>) -> Result<Value, TypeError> {
    bytes.map_or(Ok(Value::Null), |bytes| Value::decode(ty, bytes))
}

/// The bytes were validated, but nothing here relies on it for safety.
fn decode_valid(ty: &CqlType, wire: &[u8]) -> Result<Value, TypeError> {
    Ok(match ty {
        CqlType::Ascii | CqlType::Text => Value::Text(String::from_utf8_lossy(wire).into_owned()),
        CqlType::Blob | CqlType::Custom(_) => Value::Blob(wire.to_vec()),
        CqlType::Bigint => Value::Bigint(i64::from_be_bytes(array(wire)?)),
        CqlType::Counter => Value::Counter(i64::from_be_bytes(array(wire)?)),
        CqlType::Timestamp => Value::Timestamp(i64::from_be_bytes(array(wire)?)),
        CqlType::Time => Value::Time(i64::from_be_bytes(array(wire)?)),
        CqlType::Boolean => Value::Boolean(wire.iter().any(|b| *b != 0)),
        CqlType::Decimal => {
            let (scale, unscaled) = number::decode_decimal(wire).ok_or_else(|| mismatch(ty))?;
            Value::Decimal(scale, unscaled)
        }
        CqlType::Double => Value::Double(f64::from_be_bytes(array(wire)?)),
        CqlType::Float => Value::Float(f32::from_be_bytes(array(wire)?)),
        CqlType::Int => Value::Int(i32::from_be_bytes(array(wire)?)),
        CqlType::Uuid | CqlType::Timeuuid | CqlType::LexicalUuid => {
            Value::Uuid(Uuid::from_bytes(array(wire)?))
        }
        CqlType::Varint => Value::Varint(BigInt::from_signed_bytes_be(wire)),
        CqlType::Inet => Value::Inet(text::inet_of(wire).ok_or_else(|| mismatch(ty))?),
        CqlType::Date => Value::Date(u32::from_be_bytes(array(wire)?)),
        CqlType::Smallint => Value::Smallint(i16::from_be_bytes(array(wire)?)),
        CqlType::Tinyint => Value::Tinyint(i8::from_be_bytes(array(wire)?)),
        CqlType::Duration => Value::Duration(Duration::decode(wire)?),
        CqlType::Empty => Value::Empty,
        CqlType::List(e) => Value::List(decode_list(e, wire)?),
        CqlType::Set(e) => Value::Set(decode_list(e, wire)?),
        CqlType::Map(k, v) => {
            let mut entries = Vec::new();
            for entry in collection::entries(wire) {
                let (key, value) = entry?;
                entries.push((Value::decode(k, key)?, Value::decode(v, value)?));
            }
            Value::Map(entries)
        }
        CqlType::Tuple(types) => {
            let mut items = Vec::new();
            for (ty, bytes) in types.iter().zip(Fields::new(wire)) {
                items.push(decode_field(ty, bytes?)?);
            }
            Value::Tuple(items)
        }
        CqlType::Udt(udt) => {
            let mut items = Vec::new();
            let mut fields = Fields::new(wire);
            for (name, ty) in &udt.fields {
                let bytes = fields.next().transpose()?.flatten();
                items.push((name.clone(), decode_field(ty, bytes)?));
            }
            Value::Udt(items)
        }
        CqlType::Vector(e, n) => Value::Vector(
            collection::vector_elements(e, *n, wire)
                .map(|bytes| Value::decode(e, bytes?))
                .collect::<Result<_, _>>()?,
        ),
        CqlType::Frozen(inner) => Value::decode(inner, wire)?,
    })
}

#[cfg(test)]
mod tests;
