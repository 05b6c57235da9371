//! Types as the protocol writes them: a number, and what it needs.

use crate::envelope::Version;
use crate::error::Error;
use crate::limits::TYPE_DEPTH_MAX;
use crate::wire::{Reader, put_short, put_string};
use std::sync::Arc;
use types::limits::FIELDS_MAX;
use types::{CqlType, UdtType};

const CUSTOM: u16 = 0x0000;
const DATE: u16 = 0x0011;
const TINYINT: u16 = 0x0014;
const DURATION: u16 = 0x0015;
const LIST: u16 = 0x0020;
const MAP: u16 = 0x0021;
const SET: u16 = 0x0022;
const UDT: u16 = 0x0030;
const TUPLE: u16 = 0x0031;

const SCALARS: [(u16, CqlType); 20] = [
    (0x0001, CqlType::Ascii),
    (0x0002, CqlType::Bigint),
    (0x0003, CqlType::Blob),
    (0x0004, CqlType::Boolean),
    (0x0005, CqlType::Counter),
    (0x0006, CqlType::Decimal),
    (0x0007, CqlType::Double),
    (0x0008, CqlType::Float),
    (0x0009, CqlType::Int),
    (0x000B, CqlType::Timestamp),
    (0x000C, CqlType::Uuid),
    (0x000D, CqlType::Text),
    (0x000E, CqlType::Varint),
    (0x000F, CqlType::Timeuuid),
    (0x0010, CqlType::Inet),
    (DATE, CqlType::Date),
    (0x0012, CqlType::Time),
    (0x0013, CqlType::Smallint),
    (TINYINT, CqlType::Tinyint),
    (DURATION, CqlType::Duration),
];

/// Appends a type. Frozen marks are not written; scalars that are younger than the version are custom; vectors, the empty type
/// and classes unknown here are custom in every version.
pub fn put_type(out: &mut Vec<u8>, version: Version, ty: &CqlType) {
    let ty = ty.unfrozen();
    if let Some((id, _)) = SCALARS.iter().find(|(_, scalar)| scalar == ty) {
        let since = match *id {
            DURATION => Version::V5,
            DATE..=TINYINT => Version::V4,
            _ => Version::V3,
        };
        if version < since {
            return put_custom(out, ty);
        }
        return put_short(out, *id);
    }
    match ty {
        CqlType::List(e) => {
            put_short(out, LIST);
            put_type(out, version, e);
        }
        CqlType::Set(e) => {
            put_short(out, SET);
            put_type(out, version, e);
        }
        CqlType::Map(k, v) => {
            put_short(out, MAP);
            put_type(out, version, k);
            put_type(out, version, v);
        }
        CqlType::Tuple(fields) => {
            put_short(out, TUPLE);
            put_short(out, fields.len() as u16);
            for field in fields.iter() {
                put_type(out, version, field);
            }
        }
        CqlType::Udt(udt) => {
            put_short(out, UDT);
            put_string(out, &udt.keyspace);
            put_string(out, &udt.name);
            put_short(out, udt.fields.len() as u16);
            for (name, field) in &udt.fields {
                put_string(out, name);
                put_type(out, version, field);
            }
        }
        other => put_custom(out, other),
    }
}

fn put_custom(out: &mut Vec<u8>, ty: &CqlType) {
    put_short(out, CUSTOM);
    put_string(out, &ty.class_name());
}

/// Reads a type.
pub fn read_type(reader: &mut Reader<'_>) -> Result<CqlType, Error> {
    read_nested(reader, 0)
}

fn read_nested(reader: &mut Reader<'_>, depth: usize) -> Result<CqlType, Error> {
    if depth > TYPE_DEPTH_MAX {
        return Err(Error::message("type nested too deeply"));
    }
    let id = reader.short()?;
    if let Some((_, ty)) = SCALARS.iter().find(|(scalar, _)| *scalar == id) {
        return Ok(ty.clone());
    }
    let inner = |reader: &mut Reader<'_>| read_nested(reader, depth + 1);
    Ok(match id {
        CUSTOM => CqlType::parse_class(reader.string()?)?,
        LIST => CqlType::list(inner(reader)?),
        SET => CqlType::set(inner(reader)?),
        MAP => {
            let key = inner(reader)?;
            CqlType::map(key, inner(reader)?)
        }
        TUPLE => {
            let n = field_count(reader)?;
            let mut fields = Vec::new();
            for _ in 0..n {
                fields.push(inner(reader)?);
            }
            CqlType::tuple(fields)
        }
        UDT => {
            let keyspace = reader.string()?.into();
            let name = reader.string()?.into();
            let n = field_count(reader)?;
            let mut fields = Vec::new();
            for _ in 0..n {
                let field = reader.string()?.into();
                fields.push((field, inner(reader)?));
            }
            CqlType::Udt(Arc::new(UdtType { keyspace, name, fields }))
        }
        _ => return Err(Error::Message(format!("Unknown type code {id}"))),
    })
}

fn field_count(reader: &mut Reader<'_>) -> Result<usize, Error> {
    let n = usize::from(reader.short()?);
    if n <= FIELDS_MAX { Ok(n) } else { Err(Error::message("type has too many fields")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_round_trip() {
        let udt = CqlType::Udt(Arc::new(UdtType {
            keyspace: "ks".into(),
            name: "u".into(),
            fields: vec![("f".into(), CqlType::list(CqlType::Int))],
        }));
        for version in [Version::V3, Version::V4, Version::V5] {
            for ty in [
                "map<text, list<set<inet>>>",
                "tuple<int, duration>",
                "vector<float, 3>",
                "'org.example.Odd'",
            ]
            .map(|text| CqlType::parse(text).expect(text))
            .into_iter()
            .chain([udt.clone(), CqlType::Empty])
            .chain(SCALARS.iter().map(|(_, ty)| ty.clone()))
            {
                let mut out = Vec::new();
                put_type(&mut out, version, &ty);
                assert_eq!(read_type(&mut Reader::new(&out)), Ok(ty));
            }
        }
    }

    #[test]
    fn frozen_is_not_written_and_younger_types_are_custom() {
        let frozen = CqlType::parse("frozen<list<int>>").expect("a type");
        let mut out = Vec::new();
        put_type(&mut out, Version::V4, &frozen);
        assert_eq!(out, [0, 0x20, 0, 9]);
        out.clear();
        put_type(&mut out, Version::V4, &CqlType::Duration);
        assert_eq!(out[..4], [0, 0, 0, 44]);
        out.clear();
        put_type(&mut out, Version::V5, &CqlType::Duration);
        assert_eq!(out, [0, 0x15]);
        for ty in [CqlType::Date, CqlType::Time, CqlType::Smallint, CqlType::Tinyint] {
            out.clear();
            put_type(&mut out, Version::V3, &ty);
            assert_eq!(out[..3], [0, 0, 0]);
            out.clear();
            put_type(&mut out, Version::V4, &ty);
            assert_eq!((out[0], out.len()), (0, 2));
        }
        let deep: Vec<u8> = [0, 0x20].repeat(1000);
        assert!(read_type(&mut Reader::new(&deep)).is_err());
    }
}
