//! The notation of the tables of cases, turned into the driver's values and back; see `cases/types.json`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use num_bigint::BigInt;
use scylla::cluster::metadata::{CollectionType, ColumnType, NativeType};
use scylla::value::{
    Counter, CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint,
};
use serde_json::Value;

use crate::suite::Failure;

/// The driver counts days from 2^31 before the first of 1970.
const EPOCH_DAY: i64 = 1 << 31;

/// The value of an entry, repeated as often as it says.
pub fn value_of(entry: &Value) -> Value {
    let times = entry["repeat"].as_u64().map_or(1, |times| times as usize);
    match &entry["value"] {
        Value::String(text) => Value::String(text.repeat(times)),
        Value::Array(parts) => Value::Array((0..times).flat_map(|_| parts.clone()).collect()),
        other => other.clone(),
    }
}

/// The text of what an entry's value is read as.
pub fn expected_of(entry: &Value) -> String {
    plain(&entry.get("reads").cloned().unwrap_or_else(|| value_of(entry)))
}

fn plain(value: &Value) -> String {
    match value {
        Value::Array(parts) => list(parts.iter().map(plain).collect()),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn list(parts: Vec<String>) -> String {
    format!("[{}]", parts.join(","))
}

/// The driver's value of a value in the table.
pub fn build(of: &ColumnType<'_>, value: &Value) -> Result<Option<CqlValue>, Failure> {
    if value.is_null() {
        return Ok(None);
    }
    Ok(Some(match of {
        ColumnType::Native(native) => scalar(native, value)?,
        ColumnType::Collection { typ: CollectionType::List(of), .. } => CqlValue::List(elements(of, value)?),
        ColumnType::Collection { typ: CollectionType::Set(of), .. } => CqlValue::Set(elements(of, value)?),
        ColumnType::Collection { typ: CollectionType::Map(key, held), .. } => {
            let pairs = parts(value)?.iter().map(|pair| Ok((whole(key, &pair[0])?, whole(held, &pair[1])?)));
            CqlValue::Map(pairs.collect::<Result<_, Failure>>()?)
        }
        ColumnType::Vector { typ, .. } => CqlValue::Vector(elements(typ, value)?),
        ColumnType::Tuple(types) => {
            let parts = types.iter().zip(parts(value)?).map(|(of, part)| build(of, part));
            CqlValue::Tuple(parts.collect::<Result<_, Failure>>()?)
        }
        ColumnType::UserDefinedType { definition, .. } => {
            let fields = definition.field_types.iter().zip(parts(value)?);
            let fields = fields.map(|((name, of), part)| Ok((name.to_string(), build(of, part)?)));
            CqlValue::UserDefinedType {
                keyspace: definition.keyspace.to_string(),
                name: definition.name.to_string(),
                fields: fields.collect::<Result<_, Failure>>()?,
            }
        }
        other => return Err(format!("a type of which the tables know nothing: {other:?}").into()),
    }))
}

fn parts(value: &Value) -> Result<&Vec<Value>, Failure> {
    value.as_array().ok_or_else(|| format!("{value} is no array").into())
}

fn elements(of: &ColumnType<'_>, value: &Value) -> Result<Vec<CqlValue>, Failure> {
    parts(value)?.iter().map(|part| whole(of, part)).collect()
}

/// A value where null cannot be.
fn whole(of: &ColumnType<'_>, value: &Value) -> Result<CqlValue, Failure> {
    build(of, value)?.ok_or_else(|| "a null inside of a collection".into())
}

fn scalar(of: &NativeType, value: &Value) -> Result<CqlValue, Failure> {
    if let Value::Bool(value) = value {
        return Ok(CqlValue::Boolean(*value));
    }
    let text = value.as_str().ok_or_else(|| format!("{value} is no text"))?;
    let parts: Vec<&str> = text.split(':').collect();
    Ok(match of {
        NativeType::Ascii => CqlValue::Ascii(text.into()),
        NativeType::BigInt => CqlValue::BigInt(text.parse()?),
        NativeType::Blob => CqlValue::Blob(unhex(text)?),
        NativeType::Counter => CqlValue::Counter(Counter(text.parse()?)),
        NativeType::Date => CqlValue::Date(CqlDate((text.parse::<i64>()? + EPOCH_DAY).try_into()?)),
        NativeType::Decimal => {
            let unscaled = parts[0].parse::<BigInt>()?.to_signed_bytes_be();
            CqlValue::Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(unscaled, parts[1].parse()?))
        }
        NativeType::Double => CqlValue::Double(f64::from_bits(u64::from_str_radix(text, 16)?)),
        NativeType::Duration => CqlValue::Duration(CqlDuration {
            months: parts[0].parse()?,
            days: parts[1].parse()?,
            nanoseconds: parts[2].parse()?,
        }),
        NativeType::Float => CqlValue::Float(f32::from_bits(u32::from_str_radix(text, 16)?)),
        NativeType::Inet => CqlValue::Inet(match text.len() {
            8 => IpAddr::V4(Ipv4Addr::from(u32::from_str_radix(text, 16)?)),
            _ => IpAddr::V6(Ipv6Addr::from(u128::from_str_radix(text, 16)?)),
        }),
        NativeType::Int => CqlValue::Int(text.parse()?),
        NativeType::SmallInt => CqlValue::SmallInt(text.parse()?),
        NativeType::Text => CqlValue::Text(text.into()),
        NativeType::Time => CqlValue::Time(CqlTime(text.parse()?)),
        NativeType::Timestamp => CqlValue::Timestamp(CqlTimestamp(text.parse()?)),
        NativeType::Timeuuid => CqlValue::Timeuuid(text.parse::<CqlTimeuuid>()?),
        NativeType::TinyInt => CqlValue::TinyInt(text.parse()?),
        NativeType::Uuid => CqlValue::Uuid(text.parse()?),
        NativeType::Varint => {
            CqlValue::Varint(CqlVarint::from_signed_bytes_be(text.parse::<BigInt>()?.to_signed_bytes_be()))
        }
        other => return Err(format!("a type of which the tables know nothing: {other:?}").into()),
    })
}

/// The text of a value that was read.
pub fn show(value: Option<&CqlValue>) -> String {
    let Some(value) = value else { return "null".into() };
    let all = |values: &[CqlValue]| values.iter().map(|value| show(Some(value))).collect::<Vec<_>>();
    let sorted = |mut texts: Vec<String>| {
        texts.sort_unstable();
        list(texts)
    };
    match value {
        CqlValue::List(values) | CqlValue::Vector(values) => list(all(values)),
        CqlValue::Set(values) => sorted(all(values)),
        CqlValue::Map(pairs) => {
            sorted(pairs.iter().map(|(key, held)| list(vec![show(Some(key)), show(Some(held))])).collect())
        }
        CqlValue::Tuple(parts) => list(parts.iter().map(|part| show(part.as_ref())).collect()),
        CqlValue::UserDefinedType { fields, .. } => {
            list(fields.iter().map(|(_, part)| show(part.as_ref())).collect())
        }
        scalar => text(scalar),
    }
}

fn text(value: &CqlValue) -> String {
    match value {
        CqlValue::Ascii(value) | CqlValue::Text(value) => value.clone(),
        CqlValue::BigInt(value) => value.to_string(),
        CqlValue::Blob(bytes) => hex(bytes),
        CqlValue::Boolean(value) => value.to_string(),
        CqlValue::Counter(value) => value.0.to_string(),
        CqlValue::Date(value) => (i64::from(value.0) - EPOCH_DAY).to_string(),
        CqlValue::Decimal(value) => {
            let (unscaled, scale) = value.as_signed_be_bytes_slice_and_exponent();
            format!("{}:{scale}", BigInt::from_signed_bytes_be(unscaled))
        }
        CqlValue::Double(value) => format!("{:016x}", value.to_bits()),
        CqlValue::Duration(value) => format!("{}:{}:{}", value.months, value.days, value.nanoseconds),
        CqlValue::Float(value) => format!("{:08x}", value.to_bits()),
        CqlValue::Inet(IpAddr::V4(address)) => hex(&address.octets()),
        CqlValue::Inet(IpAddr::V6(address)) => hex(&address.octets()),
        CqlValue::Int(value) => value.to_string(),
        CqlValue::SmallInt(value) => value.to_string(),
        CqlValue::Time(value) => value.0.to_string(),
        CqlValue::Timestamp(value) => value.0.to_string(),
        CqlValue::Timeuuid(value) => value.to_string(),
        CqlValue::TinyInt(value) => value.to_string(),
        CqlValue::Uuid(value) => value.to_string(),
        CqlValue::Varint(value) => BigInt::from_signed_bytes_be(value.as_signed_bytes_be_slice()).to_string(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>, Failure> {
    let byte = |pair: &[u8]| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?);
    text.as_bytes().chunks(2).map(byte).collect()
}
