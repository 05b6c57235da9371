//! The order of the bytes is the order of the values, no encoding is a prefix of another once a separator follows, and
//! the forms are Cassandra's: known pairs first, then properties.

use super::*;
use crate::Value;
use crate::literal::from_text;
use proptest::prelude::*;
use std::cmp::Ordering;

fn encoded(ty: &CqlType, wire: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(ty, wire, &mut out);
    out
}

fn of_text(ty: &CqlType, text: &str) -> Vec<u8> {
    encoded(ty, &from_text(ty, text).expect(text))
}

#[test]
fn integers_have_the_known_forms() {
    for (text, bytes) in [
        ("0", &[0x80][..]),
        ("63", &[0xBF]),
        ("64", &[0xC0, 0x40]),
        ("-1", &[0x7F]),
        ("255", &[0xC0, 0xFF]),
        ("-256", &[0x3F, 0x00]),
        ("36028797018963968", &[0xFF, 0x80, 0x80, 0, 0, 0, 0, 0, 0]),
        ("36028797018963967", &[0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
    ] {
        assert_eq!(of_text(&CqlType::Bigint, text), bytes, "{text}");
    }
    assert_eq!(of_text(&CqlType::Varint, "64"), [0xC0, 0x40]);
    assert_eq!(of_text(&CqlType::Varint, "72057594037927936"), [0xFF, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(of_text(&CqlType::Varint, "-72057594037927936"), [0, 0xFF, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(of_text(&CqlType::Int, "-1"), [0x7F, 0xFF, 0xFF, 0xFF]);
    assert_eq!(of_text(&CqlType::Tinyint, "1"), [0x81]);
}

#[test]
fn decimals_have_the_known_forms() {
    assert_eq!(of_text(&CqlType::Decimal, "0.00"), [0x80]);
    assert_eq!(of_text(&CqlType::Decimal, "1.1"), [0xC1, 1, 0x81, 0x8A, 0]);
    assert_eq!(of_text(&CqlType::Decimal, "-1.1"), [0x3F, 0xFF, 0x7E, 0xDA, 0]);
    assert_eq!(of_text(&CqlType::Decimal, "0.01"), [0xC0, 0x81, 0]);
    for (a, b) in [("1.0", "1.000"), ("100", "1e2"), ("-5e-7", "-0.0000005")] {
        assert_eq!(of_text(&CqlType::Decimal, a), of_text(&CqlType::Decimal, b));
    }
}

#[test]
fn zeros_in_strings_are_escaped() {
    for (bytes, form) in [
        (&b"a"[..], &[b'a', 0][..]),
        (b"", &[0]),
        (b"\0", &[0, 0xFE]),
        (b"\0\0", &[0, 0xFE, 0xFE]),
        (b"\0a", &[0, 0xFF, b'a', 0]),
        (b"\0\0a", &[0, 0xFE, 0xFF, b'a', 0]),
    ] {
        assert_eq!(encoded(&CqlType::Blob, bytes), form, "{bytes:?}");
    }
}

#[test]
fn components_carry_their_separators() {
    let mut out = Vec::new();
    encode_component(&CqlType::Int, None, false, &mut out);
    encode_component(&CqlType::Int, Some(&[]), false, &mut out);
    encode_component(&CqlType::Int, Some(&[]), true, &mut out);
    encode_component(&CqlType::Text, Some(&[]), false, &mut out);
    encode_component(&CqlType::Boolean, Some(&[1]), true, &mut out);
    assert_eq!(out, [0x3E, 0x3F, 0x41, 0x40, 0, 0x40, 0xFE]);
    let list = Value::List(vec![Value::Bigint(0), Value::Bigint(64)]);
    let ty = CqlType::list(CqlType::Bigint);
    let wire = list.encode(&ty).expect("fits");
    assert_eq!(encoded(&ty, &wire), [0x40, 0x80, 0x40, 0xC0, 0x40, 0x38]);
    let pair = CqlType::tuple(vec![CqlType::Int, CqlType::Text, CqlType::Int]);
    let wire = Value::Tuple(vec![Value::Null, Value::text("a"), Value::Null]);
    let wire = wire.encode(&pair).expect("fits");
    assert_eq!(encoded(&pair, &wire), [0x3E, 0x40, b'a', 0, 0x38]);
}

/// As Cassandra sorts `LexicalUUIDType`: two signed numbers.
#[test]
fn lexical_uuids_sort_as_signed_numbers() {
    let ids = [
        "80000000-0000-4000-ffff-000000000001",
        "80000000-0000-4000-0000-000000000001",
        "ffffffff-0000-1000-8000-000000000001",
        "00000000-0000-0000-0000-000000000001",
        "00000001-0002-0003-0004-000000000005",
        "7fffffff-0000-0000-0000-000000000001",
    ];
    let ty = CqlType::LexicalUuid;
    let bytes = ids.map(|id| crate::literal::from_text(&ty, id).unwrap());
    for pair in bytes.windows(2) {
        assert_eq!(ty.compare(&pair[0], &pair[1]), std::cmp::Ordering::Less);
    }
    assert_eq!(ty.compare(b"", &bytes[0]), std::cmp::Ordering::Less);
    assert_eq!(crate::literal::from_text(&ty, ""), Ok(Vec::new()));
    for bad in ["nope", "12", "1-2-3-4", "1-2-3-4-", "1-2-3-4-5-6", "true"] {
        let told = crate::literal::from_text(&ty, bad).unwrap_err().to_string();
        assert_eq!(told, format!("unable to make UUID from '{bad}'"));
    }
}

#[test]
fn uuids_sort_by_version_then_time() {
    let ids = [
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-0000-1000-8000-000000000000",
        "00000000-0001-1000-8000-000000000000",
        "00000000-0000-1001-8000-000000000000",
        "00000000-0000-1001-f000-000000000000",
        "00000000-0000-4000-8000-000000000000",
        "10000000-0000-4000-8000-000000000000",
    ];
    let forms: Vec<_> = ids.iter().map(|id| of_text(&CqlType::Uuid, id)).collect();
    assert!(forms.is_sorted_by(|a, b| a < b));
    // Timeuuid: the low half is signed by byte, so 0x80.. comes before 0x7f...
    let low = of_text(&CqlType::Timeuuid, "00000000-0000-1001-8000-000000000000");
    let high = of_text(&CqlType::Timeuuid, "00000000-0000-1001-7f00-000000000000");
    assert!(low < high);
}

/// Wire values with their expected order, for types whose order a plain Rust type has.
fn pair_of() -> impl Strategy<Value = (CqlType, Vec<u8>, Vec<u8>, Ordering)> {
    fn near() -> impl Strategy<Value = i64> + Clone {
        prop_oneof![any::<i64>(), -300i64..300, (any::<i64>(), 0u32..64).prop_map(|(v, s)| v >> s)]
    }
    let number = (near(), near());
    let floats = (any::<f64>(), any::<f64>()).prop_map(|(a, b)| {
        (CqlType::Double, a.to_be_bytes().to_vec(), b.to_be_bytes().to_vec(), a.total_cmp(&b))
    });
    let float32 = (any::<f32>(), any::<f32>()).prop_map(|(a, b)| {
        (CqlType::Float, a.to_be_bytes().to_vec(), b.to_be_bytes().to_vec(), a.total_cmp(&b))
    });
    let blob = (proptest::collection::vec(0u8..3, 0..6), proptest::collection::vec(0u8..3, 0..6)).prop_map(
        |(a, b)| {
            let order = a.cmp(&b);
            (CqlType::Blob, a, b, order)
        },
    );
    let big = (proptest::collection::vec(any::<u8>(), 1..12), proptest::collection::vec(any::<u8>(), 1..12))
        .prop_map(|(a, b)| {
            let order = BigInt::from_signed_bytes_be(&a).cmp(&BigInt::from_signed_bytes_be(&b));
            (CqlType::Varint, a, b, order)
        });
    let decimal = (-30i32..30, near(), -30i32..30, near()).prop_map(|(s, a, t, b)| {
        let (a, b) = (BigInt::from(a), BigInt::from(b));
        let ten = BigInt::from(10);
        let order = (&a * ten.pow((30 - s) as u32)).cmp(&(&b * ten.pow((30 - t) as u32)));
        (CqlType::Decimal, number::encode_decimal(s, &a), number::encode_decimal(t, &b), order)
    });
    prop_oneof![
        number.clone().prop_map(|(a, b)| (
            CqlType::Bigint,
            a.to_be_bytes().to_vec(),
            b.to_be_bytes().to_vec(),
            a.cmp(&b)
        )),
        number.clone().prop_map(|(a, b)| (
            CqlType::Timestamp,
            a.to_be_bytes().to_vec(),
            b.to_be_bytes().to_vec(),
            a.cmp(&b)
        )),
        number.clone().prop_map(|(a, b)| {
            let (a, b) = (a as i32, b as i32);
            (CqlType::Int, a.to_be_bytes().to_vec(), b.to_be_bytes().to_vec(), a.cmp(&b))
        }),
        number.prop_map(|(a, b)| {
            let (a, b) = (a as i16, b as i16);
            (CqlType::Smallint, a.to_be_bytes().to_vec(), b.to_be_bytes().to_vec(), a.cmp(&b))
        }),
        floats,
        float32,
        blob,
        big,
        decimal,
    ]
}

proptest! {
    #[test]
    fn comparing_uuids_is_comparing_their_order_bytes(a: [u8; 16], b: [u8; 16], one: bool) {
        let (mut a, mut b) = (a, b);
        if one {
            a[6] = 0x10 | a[6] & 0xF;
            b[6] = 0x10 | b[6] & 0xF;
        }
        for ty in [CqlType::Uuid, CqlType::Timeuuid] {
            prop_assert_eq!(ty.compare(&a, &b), encoded(&ty, &a).cmp(&encoded(&ty, &b)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn memcmp_is_the_order((ty, a, b, want) in pair_of()) {
        prop_assert_eq!(ty.compare(&a, &b), want);
        for (reversed, want) in [(false, want), (true, want.reverse())] {
            for (end_a, end_b) in [(END, END), (NEXT, END), (BEFORE, AFTER), (AFTER, BEFORE)] {
                let (mut x, mut y) = (Vec::new(), Vec::new());
                encode_component(&ty, Some(&a), reversed, &mut x);
                encode_component(&ty, Some(&b), reversed, &mut y);
                x.push(end_a);
                y.push(end_b);
                // Different values differ before the separators; equal ones are told apart by them alone.
                let expected = if want == Ordering::Equal { end_a.cmp(&end_b) } else { want };
                prop_assert_eq!(x.cmp(&y), expected, "{} {:?} {:?}", ty, a, b);
            }
        }
    }

    #[test]
    fn sequences_sort_by_component(
        a in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..3), 0..4),
        b in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..3), 0..4),
    ) {
        let ty = CqlType::list(CqlType::Blob);
        let x = collection::build(a.iter().map(Vec::as_slice));
        let y = collection::build(b.iter().map(Vec::as_slice));
        prop_assert_eq!(ty.compare(&x, &y), a.cmp(&b));
    }
}
