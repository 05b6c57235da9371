//! Resolving and calling.

use super::*;
use schema::{TableBuilder, TableId};

fn table() -> Table {
    TableBuilder::new("ks", "t", TableId(1)).partition_key("k", CqlType::Int).build().expect("builds")
}

fn find(name: &str, types: &[CqlType]) -> Result<Function> {
    let expr = Expr::Column("c".into());
    let arguments: Vec<Argument<'_>> =
        types.iter().map(|ty| Argument { expr: &expr, ty: Some(ty) }).collect();
    resolve(name, &arguments, &table(), None)
}

fn call(name: &str, ty: CqlType, value: &[u8]) -> Val<'static> {
    let random = || 7;
    let context = BindContext {
        timestamp: 0,
        now_micros: 1_600_000_000_123_456,
        now_s: 1_600_000_000,
        random: &random,
        ticks: &crate::value::no_ticks,
    };
    let arguments = if value.is_empty() { vec![] } else { vec![Val::Bytes(Cow::Owned(value.to_vec()))] };
    let types = vec![ty; arguments.len()];
    find(name, &types).expect("resolves").call(&table(), &arguments, &context).expect("calls")
}

#[test]
fn time_functions_agree() {
    let now = call("now", CqlType::Empty, &[]);
    let now = now.bytes().expect("a value");
    let millis = call("totimestamp", CqlType::Timeuuid, now);
    assert_eq!(millis.bytes(), Some(&1_600_000_000_123i64.to_be_bytes()[..]));
    let date = call("to_date", CqlType::Timestamp, &1_600_000_000_123i64.to_be_bytes());
    assert_eq!(date.bytes(), Some(&(18_518u32 + (1 << 31)).to_be_bytes()[..]));
    assert_eq!(call("uuid", CqlType::Empty, &[]).bytes().map(|b| b[6] >> 4), Some(4));
}

#[test]
fn blobs_and_tokens() {
    assert_eq!(call("intasblob", CqlType::Int, &[0, 0, 0, 5]).bytes(), Some(&[0, 0, 0, 5][..]));
    assert_eq!(call("blob_as_int", CqlType::Blob, &[0, 0, 0, 5]).bytes(), Some(&[0, 0, 0, 5][..]));
    let token = base::Token::of_key(&[0, 0, 0, 5]).0.to_be_bytes();
    assert_eq!(call("token", CqlType::Int, &[0, 0, 0, 5]).bytes(), Some(&token[..]));
    assert!(find("nothing", &[]).is_err());
    assert!(find("token", &[]).is_err());
    assert!(find("blob_as_blob", &[CqlType::Blob]).is_err());
}

#[test]
fn the_signature_that_fits_exactly_wins() {
    assert_eq!(find("abs", &[CqlType::Bigint]).map(|f| f.returns), Ok(CqlType::Bigint));
    let text = |found: Result<Function>| found.expect_err("refused").to_string();
    assert!(text(find("abs", &[CqlType::Text])).starts_with("Invalid call to function abs, none of its"));
    let five = Expr::Integer("5".into());
    let null = Expr::Null;
    let of = |expr| resolve("abs", &[Argument { expr, ty: None }], &table(), None);
    assert_eq!(of(&five).map(|f| f.returns), Ok(CqlType::Int));
    assert!(text(of(&null)).starts_with("Ambiguous call to function abs (can be matched by"));
    assert_eq!(
        text(find("min_timeuuid", &[CqlType::Text])),
        "Type error: c cannot be passed as argument 0 of function system.min_timeuuid of type timestamp"
    );
}

#[test]
fn numbers_cast() {
    let cast_to = |from: CqlType, to: CqlType, value: &[u8]| cast::convert(&from, &to, value).expect("casts");
    assert_eq!(cast_to(CqlType::Int, CqlType::Text, &[0, 0, 0, 5]), Some(b"5".to_vec()));
    assert_eq!(cast_to(CqlType::Int, CqlType::Tinyint, &[0, 0, 1, 5]), Some(vec![5]));
    let double = (-2.7f64).to_be_bytes();
    assert_eq!(cast_to(CqlType::Double, CqlType::Int, &double), Some((-2i32).to_be_bytes().to_vec()));
    assert_eq!(cast_to(CqlType::Bigint, CqlType::Varint, &(-1i64).to_be_bytes()), Some(vec![0xff]));
    assert!(cast(&CqlType::Blob, &CqlType::Int, "b").is_err());
    assert!(cast::convert(&CqlType::Float, &CqlType::Decimal, &f32::NAN.to_be_bytes()).is_err());
}
