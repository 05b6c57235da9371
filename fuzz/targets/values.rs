//! Values of every type: what validates can be decoded, written again, told as a literal, parsed as one, and compared; what
//! does not is refused, never a panic. The first bytes choose the type.
#![no_main]

use std::cmp::Ordering;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use types::{CqlType, UdtType, Value, order};

const SCALARS: [CqlType; 21] = [
    CqlType::Ascii,
    CqlType::Bigint,
    CqlType::Blob,
    CqlType::Boolean,
    CqlType::Counter,
    CqlType::Decimal,
    CqlType::Double,
    CqlType::Float,
    CqlType::Int,
    CqlType::Text,
    CqlType::Timestamp,
    CqlType::Uuid,
    CqlType::Varint,
    CqlType::Timeuuid,
    CqlType::Inet,
    CqlType::Date,
    CqlType::Time,
    CqlType::Smallint,
    CqlType::Tinyint,
    CqlType::Duration,
    CqlType::Empty,
];

/// A type spelled by bytes, nested as deep as they say and no deeper than four.
fn type_of(data: &mut &[u8], depth: usize) -> CqlType {
    let Some((&first, rest)) = data.split_first() else { return CqlType::Int };
    *data = rest;
    let scalar = SCALARS[usize::from(first) % SCALARS.len()].clone();
    if depth == 0 || first < 128 {
        return scalar;
    }
    let mut inner = || Arc::new(type_of(data, depth - 1));
    match first % 7 {
        0 => CqlType::List(inner()),
        1 => CqlType::Set(inner()),
        2 => CqlType::Map(inner(), inner()),
        3 => CqlType::tuple(vec![(*inner()).clone(), (*inner()).clone()]),
        4 => CqlType::Vector(inner(), u32::from(first / 7 % 5) + 1),
        5 => inner().frozen(),
        _ => {
            let fields = vec![("a".into(), (*inner()).clone()), ("b c".into(), (*inner()).clone())];
            CqlType::Udt(Arc::new(UdtType { keyspace: "ks".into(), name: "u".into(), fields }))
        }
    }
}

fn order_bytes(ty: &CqlType, wire: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    order::encode_component(ty, Some(wire), false, &mut out);
    out
}

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    let ty = type_of(&mut data, 4);
    let class = ty.class_name();
    let parsed = CqlType::parse_class(&class).expect("our own class name");
    assert_eq!(parsed.class_name(), class);

    let half = data.len() / 2;
    let (left, right) = data.split_at(half);
    let forward = ty.compare(left, right);
    assert_eq!(forward, ty.compare(right, left).reverse(), "{ty}: one is before the other, or neither");
    assert_eq!(ty.compare(left, left), Ordering::Equal);

    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(wire) = types::literal::from_text(&ty, text)
    {
        assert!(ty.validate(&wire).is_ok(), "{ty}: a literal is a value");
    }
    for wire in [data, left, right] {
        if ty.validate(wire).is_err() {
            assert!(Value::decode(&ty, wire).is_err());
            continue;
        }
        let value = Value::decode(&ty, wire).expect("what validates decodes");
        let literal = value.to_cql();
        cql::parse_expression(&literal).unwrap_or_else(|error| panic!("{ty} {literal}: {error}"));
        // Nulls inside of collections and elements out of order come in, but do not go out again.
        if let Ok(again) = value.encode(&ty) {
            let back = Value::decode(&ty, &again).expect("what encodes decodes");
            assert_eq!(
                back.to_cql(),
                Value::decode(&ty, &back.encode(&ty).expect("twice")).expect("twice").to_cql()
            );
            assert_eq!(order_bytes(&ty, &again), order_bytes(&ty, &back.encode(&ty).expect("twice")));
        }
    }
});
