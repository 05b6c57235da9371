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
    fn scalars_survive_their_literals((ty, value) in scalar()) {
        let wire = value.encode(&ty).expect("the strategy makes values of the type");
        let literal = value.to_cql();
        let bare = literal.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).map(|t| t.replace("''", "'"));
        let text = bare.unwrap_or(literal);
        // Text says dates of four digits a year; years far out are told by their number.
        let far = matches!(value, Value::Timestamp(ms) if ms.unsigned_abs() > 200_000_000_000_000);
        let far = far || matches!(value, Value::Date(days) if days.abs_diff(1 << 31) > 2_000_000);
        if let (false, Ok(again)) = (far, crate::literal::from_text(&ty, &text)) {
            prop_assert_eq!(Value::decode(&ty, &again), Ok(value.clone()), "{}", text);
        } else {
            prop_assert!(far, "{} {}", ty, text);
        }
        prop_assert!(!wire.is_empty() || matches!(value, Value::Text(_) | Value::Blob(_)));
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
fn a_tuple_of_no_bytes_has_a_literal() {
    let ty = CqlType::tuple(vec![CqlType::Int, CqlType::Text]);
    assert_eq!(Value::decode(&ty, &[]).map(|value| value.to_cql()), Ok("(null)".to_string()));
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

#[test]
fn values_at_the_edges() {
    let max = BigInt::from(u128::MAX);
    for (ty, value, literal) in [
        (CqlType::Tinyint, Value::Tinyint(i8::MIN), "-128"),
        (CqlType::Smallint, Value::Smallint(i16::MIN), "-32768"),
        (CqlType::Int, Value::Int(i32::MIN), "-2147483648"),
        (CqlType::Bigint, Value::Bigint(i64::MIN), "-9223372036854775808"),
        (CqlType::Varint, Value::Varint(-max.clone()), "-340282366920938463463374607431768211455"),
        (CqlType::Decimal, Value::Decimal(i32::MAX, BigInt::from(1)), "1E-2147483647"),
        (CqlType::Decimal, Value::Decimal(-5, BigInt::from(-12)), "-1.2E+6"),
        (CqlType::Float, Value::Float(f32::MAX), "3.4028235E38"),
        (CqlType::Float, Value::Float(f32::NEG_INFINITY), "-Infinity"),
        (CqlType::Double, Value::Double(f64::MIN_POSITIVE), "2.2250738585072014E-308"),
        (CqlType::Double, Value::Double(-0.0), "-0.0"),
        (CqlType::Time, Value::Time(0), "'00:00:00.000000000'"),
        (CqlType::Time, Value::Time(86_399_999_999_999), "'23:59:59.999999999'"),
        (CqlType::Timestamp, Value::Timestamp(-1), "'1969-12-31T23:59:59.999Z'"),
        (CqlType::Inet, Value::Inet("2001:db8::1".parse().expect("an address")), "'2001:db8:0:0:0:0:0:1'"),
        (CqlType::Boolean, Value::Boolean(false), "false"),
        (CqlType::Text, Value::Text(String::new()), "''"),
        (CqlType::Blob, Value::Blob(Vec::new()), "0x"),
    ] {
        let wire = value.encode(&ty).expect("a value of the type");
        assert_eq!(Value::decode(&ty, &wire), Ok(value.clone()), "{ty}");
        assert_eq!(value.to_cql(), literal);
        let text = literal.trim_matches('\'');
        assert_eq!(crate::literal::from_text(&ty, text), Ok(wire), "{ty} {literal}");
    }
    for (ty, wire) in [
        (CqlType::Time, &86_400_000_000_000i64.to_be_bytes()[..]),
        (CqlType::Time, &[]),
        (CqlType::Tinyint, &[]),
        (CqlType::Smallint, &[1]),
        (CqlType::Date, &[]),
        (CqlType::Duration, &[0, 0]),
        (CqlType::Duration, &[2, 1, 0]),
        (CqlType::Decimal, &[0, 0, 0]),
        (CqlType::Ascii, &[0x80]),
        (CqlType::Text, &[0xC0, 0x80]),
        (CqlType::Boolean, &[0, 0]),
        (CqlType::Inet, &[1, 2, 3]),
        (CqlType::Vector(Arc::new(CqlType::Float), 2), &[0; 7]),
        (CqlType::Vector(Arc::new(CqlType::Float), 2), &[]),
        (CqlType::tuple(vec![CqlType::Int]), &[0, 0, 0, 3, 1, 2, 3]),
    ] {
        assert!(ty.validate(wire).is_err(), "{ty} {wire:?}");
    }
}
