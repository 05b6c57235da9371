//! Values survive the trip to bytes, compare like their order bytes, and no bytes at all make any of it panic.

use super::*;
use crate::UdtType;
use crate::order;
use proptest::prelude::*;

fn scalar() -> impl Strategy<Value = (CqlType, Value)> {
    prop_oneof![
        "[a-z']{0,8}".prop_map(|s| (CqlType::Ascii, Value::Text(s))),
        "\\PC{0,8}".prop_map(|s| (CqlType::Text, Value::Text(s))),
        any::<i64>().prop_map(|v| (CqlType::Bigint, Value::Bigint(v))),
        any::<Vec<u8>>().prop_map(|v| (CqlType::Blob, Value::Blob(v))),
        any::<bool>().prop_map(|v| (CqlType::Boolean, Value::Boolean(v))),
        (any::<i32>(), any::<i128>())
            .prop_map(|(s, v)| (CqlType::Decimal, Value::Decimal(s, BigInt::from(v)))),
        (-1e300..1e300f64).prop_map(|v| (CqlType::Double, Value::Double(v))),
        (-1e30..1e30f32).prop_map(|v| (CqlType::Float, Value::Float(v))),
        any::<i32>().prop_map(|v| (CqlType::Int, Value::Int(v))),
        any::<i64>().prop_map(|v| (CqlType::Timestamp, Value::Timestamp(v))),
        any::<u128>().prop_map(|v| (CqlType::Uuid, Value::Uuid(Uuid::from_u128(v)))),
        (0i64..1 << 55).prop_map(|v| (CqlType::Timeuuid, Value::Uuid(crate::timeuuid::from_ticks(v, 9)))),
        any::<i128>().prop_map(|v| (CqlType::Varint, Value::Varint(BigInt::from(v)))),
        any::<u32>().prop_map(|v| (CqlType::Inet, Value::Inet(IpAddr::from(v.to_be_bytes())))),
        any::<u128>().prop_map(|v| (CqlType::Inet, Value::Inet(IpAddr::from(v.to_be_bytes())))),
        any::<u32>().prop_map(|v| (CqlType::Date, Value::Date(v))),
        (0i64..86_400_000_000_000).prop_map(|v| (CqlType::Time, Value::Time(v))),
        any::<i16>().prop_map(|v| (CqlType::Smallint, Value::Smallint(v))),
        any::<i8>().prop_map(|v| (CqlType::Tinyint, Value::Tinyint(v))),
        (0i32..i32::MAX, 0i32..i32::MAX, 0i64..i64::MAX).prop_map(|(months, days, nanos)| {
            let duration = Duration { months, days, nanos };
            (CqlType::Duration, Value::Duration(duration))
        }),
    ]
}

fn typed() -> impl Strategy<Value = (CqlType, Value)> {
    scalar().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|(t, v)| (CqlType::list(t), Value::List(vec![v.clone(), v]))),
            inner.clone().prop_map(|(t, v)| (CqlType::set(t).frozen(), Value::Set(vec![v]))),
            (inner.clone(), inner.clone())
                .prop_map(|((k, a), (v, b))| (CqlType::map(k, v), Value::Map(vec![(a, b)]))),
            (inner.clone(), inner.clone()).prop_map(|((s, a), (t, b))| {
                (CqlType::tuple(vec![s, t.clone(), t]), Value::Tuple(vec![a, Value::Null, b]))
            }),
            inner.clone().prop_map(|(t, v)| {
                (CqlType::Vector(Arc::new(t.frozen()), 2), Value::Vector(vec![v.clone(), v]))
            }),
            (inner.clone(), inner).prop_map(|((s, a), (t, _))| {
                let udt = UdtType {
                    keyspace: "ks".into(),
                    name: "pair".into(),
                    fields: vec![("a".into(), s), ("b".into(), t)],
                };
                let value = Value::Udt(vec![("a".into(), a), ("b".into(), Value::Null)]);
                (CqlType::Udt(Arc::new(udt)), value)
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn values_round_trip((ty, value) in typed()) {
        let wire = value.encode(&ty).expect("the strategy makes values of the type");
        let back = Value::decode(&ty, &wire).expect("encode makes valid bytes");
        // A set or map of one element keeps it; text of a literal never fails.
        prop_assert_eq!(&back, &value);
        prop_assert!(!value.to_cql().is_empty());
        let class = ty.class_name();
        let parsed = CqlType::parse_class(&class).expect("our own class name");
        prop_assert_eq!(parsed.class_name(), class);
        prop_assert!(ty.compare(&wire, &wire).is_eq());
    }

    #[test]
    fn any_bytes_are_safe((ty, value) in typed(), noise in any::<Vec<u8>>(), at in any::<usize>(), cut in any::<usize>()) {
        let mut damaged = value.encode(&ty).expect("a value of the type");
        if !damaged.is_empty() {
            let at = at % damaged.len();
            damaged[at] ^= noise.first().copied().unwrap_or(1);
            damaged.truncate(cut % (damaged.len() + 1));
        }
        for bytes in [&noise, &damaged] {
            let valid = ty.validate(bytes);
            prop_assert_eq!(valid.is_ok(), Value::decode(&ty, bytes).is_ok());
            let mut out = Vec::new();
            order::encode(&ty, bytes, &mut out);
            let _ = ty.compare(bytes, &damaged);
        }
    }

    #[test]
    fn any_text_is_safe(text in "[a-zA-Z<>(),.:'\" 0-9]{0,40}") {
        let _ = CqlType::parse(&text);
        let _ = CqlType::parse_class(&text);
    }
}

#[test]
fn sets_and_maps_are_put_in_order() {
    let set = CqlType::set(CqlType::Int);
    let wire = Value::Set(vec![Value::Int(2), Value::Int(-1), Value::Int(2)]).encode(&set);
    let back = Value::decode(&set, &wire.expect("ints")).expect("ints");
    assert_eq!(back, Value::Set(vec![Value::Int(-1), Value::Int(2)]));
    let map = CqlType::map(CqlType::Int, CqlType::Text);
    let entries = vec![
        (Value::Int(2), Value::text("a")),
        (Value::Int(1), Value::text("b")),
        (Value::Int(2), Value::text("c")),
    ];
    let wire = Value::Map(entries).encode(&map).expect("fits");
    let back = Value::decode(&map, &wire).expect("fits");
    assert_eq!(back.to_cql(), "{1: 'b', 2: 'c'}");
}

#[test]
fn wrong_types_are_refused() {
    assert!(Value::Int(1).encode(&CqlType::Text).is_err());
    assert!(Value::Null.encode(&CqlType::Int).is_err());
    assert!(Value::Time(-1).encode(&CqlType::Time).is_err());
    let pair = CqlType::Vector(Arc::new(CqlType::Float), 2);
    assert!(Value::Vector(vec![Value::Float(1.0)]).encode(&pair).is_err());
    assert_eq!(Value::decode(&CqlType::Int, &[]), Ok(Value::Empty));
    assert_eq!(Value::Null.encode_nullable(&CqlType::Int), Ok(None));
}
