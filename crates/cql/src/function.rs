//! Scalar functions: what they take, what they give, and the doing of it.

use crate::error::{Error, Result, invalid};
use crate::names::native_type;
use crate::value::{BindContext, Val};
use schema::Table;
use std::borrow::Cow;
use types::{CqlType, number, timeuuid};

/// A function with the types it was resolved to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Function {
    /// Name as Cassandra prints it, for result columns.
    pub name: String,
    /// What it does.
    pub kind: FunctionKind,
    /// Argument types.
    pub arguments: Vec<CqlType>,
    /// Result type.
    pub returns: CqlType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionKind {
    /// A new timeuuid.
    Now,
    /// A new random uuid.
    Uuid,
    CurrentTimestamp,
    CurrentDate,
    CurrentTime,
    /// From date or timeuuid to timestamp.
    ToTimestamp,
    ToDate,
    /// Milliseconds.
    ToUnixTimestamp,
    MinTimeuuid,
    MaxTimeuuid,
    /// The same bytes as blob.
    AsBlob,
    /// A blob's bytes, checked against the result type.
    BlobAs,
    /// The token of a partition key.
    Token,
    /// Between numbers, to text, between date types.
    Cast,
}

/// Resolves a name and as much of the argument types as is known.
/// Errors: unknown function, wrong number of arguments.
pub(crate) fn resolve(name: &str, known: &[Option<CqlType>], table: &Table) -> Result<Function> {
    let simple = name.replace('_', "");
    if let Some(function) = conversion(name, &simple) {
        return checked(name, function, known);
    }
    let first = known.first().cloned().flatten();
    let none: Vec<CqlType> = Vec::new();
    let time_like = || vec![first.clone().unwrap_or(CqlType::Timeuuid)];
    let (kind, arguments, returns) = match simple.as_str() {
        "now" | "currenttimeuuid" => (FunctionKind::Now, none, CqlType::Timeuuid),
        "uuid" => (FunctionKind::Uuid, none, CqlType::Uuid),
        "currenttimestamp" => (FunctionKind::CurrentTimestamp, none, CqlType::Timestamp),
        "currentdate" => (FunctionKind::CurrentDate, none, CqlType::Date),
        "currenttime" => (FunctionKind::CurrentTime, none, CqlType::Time),
        "totimestamp" | "dateof" => (FunctionKind::ToTimestamp, time_like(), CqlType::Timestamp),
        "todate" => (FunctionKind::ToDate, time_like(), CqlType::Date),
        "tounixtimestamp" | "unixtimestampof" => {
            (FunctionKind::ToUnixTimestamp, time_like(), CqlType::Bigint)
        }
        "mintimeuuid" => (FunctionKind::MinTimeuuid, vec![CqlType::Timestamp], CqlType::Timeuuid),
        "maxtimeuuid" => (FunctionKind::MaxTimeuuid, vec![CqlType::Timestamp], CqlType::Timeuuid),
        "token" => {
            let types = table.partition_key.iter().map(|c| c.ty.clone()).collect();
            (FunctionKind::Token, types, CqlType::Bigint)
        }
        _ => return invalid(format!("Unknown function '{name}'")),
    };
    checked(name, Function { name: name.to_string(), kind, arguments, returns }, known)
}

/// `blobAsInt`, `blob_as_int`, `intAsBlob`, `int_as_blob`.
fn conversion(name: &str, simple: &str) -> Option<Function> {
    let make = |kind, argument, returns| {
        Some(Function { name: name.to_string(), kind, arguments: vec![argument], returns })
    };
    if let Some(ty) = simple.strip_prefix("blobas").and_then(native_type) {
        return make(FunctionKind::BlobAs, CqlType::Blob, ty);
    }
    if let Some(ty) = simple.strip_suffix("asblob").and_then(native_type) {
        return make(FunctionKind::AsBlob, ty, CqlType::Blob);
    }
    None
}

fn checked(name: &str, function: Function, known: &[Option<CqlType>]) -> Result<Function> {
    if function.arguments.len() != known.len() {
        return invalid(format!(
            "Invalid number of arguments in call to function system.{name}: {} required but {} provided",
            function.arguments.len(),
            known.len()
        ));
    }
    for (index, (wanted, given)) in function.arguments.iter().zip(known).enumerate() {
        if let Some(given) = given
            && !accepts(wanted, given)
        {
            return invalid(format!(
                "Type error: argument {} of function {name} must be of type {wanted}, not {given}",
                index + 1
            ));
        }
    }
    let time = function.arguments.first();
    let wants_time = matches!(
        function.kind,
        FunctionKind::ToTimestamp | FunctionKind::ToDate | FunctionKind::ToUnixTimestamp
    );
    if wants_time && !matches!(time, Some(CqlType::Timeuuid | CqlType::Timestamp | CqlType::Date)) {
        return invalid(format!("Invalid call to function {name}, none of its type signatures match"));
    }
    Ok(function)
}

/// Whether a value of `given` may stand where `wanted` is asked for.
pub(crate) fn accepts(wanted: &CqlType, given: &CqlType) -> bool {
    let (wanted, given) = (wanted.unfrozen(), given.unfrozen());
    wanted == given
        || matches!(
            (wanted, given),
            (CqlType::Text, CqlType::Ascii)
                | (CqlType::Uuid, CqlType::Timeuuid)
                | (CqlType::Bigint, CqlType::Counter)
                | (CqlType::Counter, CqlType::Bigint)
        )
}

/// The function of `CAST(a AS type)`.
pub(crate) fn cast(from: &CqlType, to: &CqlType) -> Result<Function> {
    let number = |ty: &CqlType| is_number(ty);
    let time = |ty: &CqlType| matches!(ty, CqlType::Timeuuid | CqlType::Timestamp | CqlType::Date);
    let known = from == to
        || (number(from) && number(to) && *to != CqlType::Counter)
        || (matches!(to, CqlType::Text | CqlType::Ascii) && !from.is_collection())
        || (time(from) && matches!(to, CqlType::Timestamp | CqlType::Date));
    if !known {
        return invalid(format!("{from} cannot be cast to {to}"));
    }
    let name = format!("castas{to}");
    Ok(Function { name, kind: FunctionKind::Cast, arguments: vec![from.clone()], returns: to.clone() })
}

pub(crate) fn is_number(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::Tinyint
            | CqlType::Smallint
            | CqlType::Int
            | CqlType::Bigint
            | CqlType::Counter
            | CqlType::Varint
            | CqlType::Float
            | CqlType::Double
            | CqlType::Decimal
    )
}

impl Function {
    /// Whether every call gives another value, so that it cannot be computed when preparing.
    pub fn is_volatile(&self) -> bool {
        matches!(
            self.kind,
            FunctionKind::Now
                | FunctionKind::Uuid
                | FunctionKind::CurrentTimestamp
                | FunctionKind::CurrentDate
                | FunctionKind::CurrentTime
        )
    }

    /// Calls it. A null argument gives null.
    pub fn call<'v>(
        &self,
        table: &Table,
        arguments: &[Val<'v>],
        context: &BindContext<'_>,
    ) -> Result<Val<'v>> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match argument {
                Val::Bytes(bytes) => values.push(&**bytes),
                Val::Null => return Ok(Val::Null),
                Val::Unset => {
                    return invalid(format!(
                        "Invalid unset value for argument in call to function {}",
                        self.name
                    ));
                }
            }
        }
        let millis = context.now_micros.div_euclid(1000);
        let bytes = match self.kind {
            FunctionKind::Now => new_timeuuid(context).to_vec(),
            FunctionKind::Uuid => {
                let high = (context.random)() & 0xffff_ffff_ffff_0fff | 0x4000;
                let low = (context.random)() & 0x3fff_ffff_ffff_ffff | 1 << 63;
                [high.to_be_bytes(), low.to_be_bytes()].concat()
            }
            FunctionKind::CurrentTimestamp => millis.to_be_bytes().to_vec(),
            FunctionKind::CurrentDate => date_of_millis(millis).to_be_bytes().to_vec(),
            FunctionKind::CurrentTime => {
                let nanos = context.now_micros.rem_euclid(86_400_000_000) * 1000;
                nanos.to_be_bytes().to_vec()
            }
            FunctionKind::Token => {
                let mut key = Vec::new();
                table.push_key(&values, &mut key);
                base::Token::of_key(&key).0.to_be_bytes().to_vec()
            }
            FunctionKind::AsBlob => values[0].to_vec(),
            FunctionKind::BlobAs => {
                self.returns.validate(values[0]).map_err(|_| Error::Invalid {
                    text: format!(
                        "In call to function system.{}, value 0x{} is not a valid binary representation for type {}",
                        self.name,
                        types::text::format_hex(values[0]),
                        self.returns
                    ),
                })?;
                values[0].to_vec()
            }
            FunctionKind::ToTimestamp
            | FunctionKind::ToDate
            | FunctionKind::ToUnixTimestamp
            | FunctionKind::MinTimeuuid
            | FunctionKind::MaxTimeuuid => match time_function(self, values[0]) {
                Some(bytes) => bytes,
                None => return Ok(Val::Null),
            },
            FunctionKind::Cast => match convert(&self.arguments[0], &self.returns, values[0])? {
                Some(bytes) => bytes,
                None => return Ok(Val::Null),
            },
        };
        Ok(Val::Bytes(Cow::Owned(bytes)))
    }
}

/// A timeuuid of now with random node bits.
fn new_timeuuid(context: &BindContext<'_>) -> [u8; 16] {
    let ticks = context.now_micros.saturating_mul(10);
    *timeuuid::from_ticks(ticks, (context.random)()).as_bytes()
}

fn date_of_millis(millis: i64) -> u32 {
    (millis.div_euclid(86_400_000) + (1 << 31)) as u32
}

/// Milliseconds since the epoch of a date, timestamp or timeuuid; `None` for empty values.
fn millis_of(ty: &CqlType, value: &[u8]) -> Option<i64> {
    match ty {
        CqlType::Timestamp => Some(i64::from_be_bytes(value.try_into().ok()?)),
        CqlType::Date => {
            let days = i64::from(u32::from_be_bytes(value.try_into().ok()?)) - (1 << 31);
            Some(days * 86_400_000)
        }
        CqlType::Timeuuid => timeuuid::unix_ms(&uuid::Uuid::from_slice(value).ok()?),
        _ => None,
    }
}

fn time_function(function: &Function, value: &[u8]) -> Option<Vec<u8>> {
    let millis = millis_of(&function.arguments[0], value)?;
    Some(match function.kind {
        FunctionKind::ToDate => date_of_millis(millis).to_be_bytes().to_vec(),
        FunctionKind::MinTimeuuid => timeuuid::min_of_ms(millis).as_bytes().to_vec(),
        FunctionKind::MaxTimeuuid => timeuuid::max_of_ms(millis).as_bytes().to_vec(),
        _ => millis.to_be_bytes().to_vec(),
    })
}

/// A number of any type, as exact as its type allows.
pub(crate) enum Number {
    /// Of the integer types.
    Integer(num_bigint::BigInt),
    /// Of float and double.
    Float(f64),
    /// Scale and unscaled value.
    Decimal(i32, num_bigint::BigInt),
}

/// Reads a number; `None` for empty values and other types.
pub(crate) fn number_of(ty: &CqlType, value: &[u8]) -> Option<Number> {
    use num_bigint::BigInt;
    if value.is_empty() {
        return None;
    }
    Some(match ty {
        CqlType::Tinyint
        | CqlType::Smallint
        | CqlType::Int
        | CqlType::Bigint
        | CqlType::Counter
        | CqlType::Varint => Number::Integer(BigInt::from_signed_bytes_be(value)),
        CqlType::Float => Number::Float(f32::from_be_bytes(value.try_into().ok()?).into()),
        CqlType::Double => Number::Float(f64::from_be_bytes(value.try_into().ok()?)),
        CqlType::Decimal => {
            let (scale, unscaled) = number::decode_decimal(value)?;
            Number::Decimal(scale, unscaled)
        }
        _ => return None,
    })
}

fn convert(from: &CqlType, to: &CqlType, value: &[u8]) -> Result<Option<Vec<u8>>> {
    if from == to {
        return Ok(Some(value.to_vec()));
    }
    if matches!(to, CqlType::Text | CqlType::Ascii) {
        if value.is_empty() {
            return Ok(None);
        }
        let text = types::Value::decode(from, value)?.to_cql();
        let bare = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).map(|t| t.replace("''", "'"));
        return Ok(Some(bare.unwrap_or(text).into_bytes()));
    }
    if let Some(millis) = millis_of(from, value) {
        return Ok(Some(match to {
            CqlType::Date => date_of_millis(millis).to_be_bytes().to_vec(),
            _ => millis.to_be_bytes().to_vec(),
        }));
    }
    Ok(number_of(from, value).and_then(|number| number_to(to, &number)))
}

/// Writes a number as another type, narrowing as Java does (low bits kept, fractions cut).
pub(crate) fn number_to(to: &CqlType, number: &Number) -> Option<Vec<u8>> {
    use num_bigint::BigInt;
    let float = match number {
        Number::Integer(i) => i.to_string().parse::<f64>().ok()?,
        Number::Float(f) => *f,
        Number::Decimal(scale, unscaled) => number::format_decimal(*scale, unscaled).parse::<f64>().ok()?,
    };
    let integer = || -> Option<BigInt> {
        Some(match number {
            Number::Integer(i) => i.clone(),
            Number::Float(f) if !f.is_finite() => return None,
            Number::Float(f) => BigInt::from(*f as i128),
            Number::Decimal(scale, unscaled) => match u32::try_from(*scale) {
                Ok(scale) if scale <= 10_000 => unscaled / BigInt::from(10).pow(scale),
                Ok(_) => BigInt::ZERO,
                Err(_) => unscaled * BigInt::from(10).pow(scale.unsigned_abs().min(10_000)),
            },
        })
    };
    let low = |bytes: usize| -> Option<Vec<u8>> {
        let integer = integer()?;
        let fill = if integer < BigInt::ZERO { 0xff } else { 0 };
        let mut wide = vec![fill; bytes];
        wide.extend_from_slice(&integer.to_signed_bytes_be());
        Some(wide[wide.len() - bytes..].to_vec())
    };
    match to {
        CqlType::Tinyint => low(1),
        CqlType::Smallint => low(2),
        CqlType::Int => low(4),
        CqlType::Bigint | CqlType::Counter => low(8),
        CqlType::Varint => Some(integer()?.to_signed_bytes_be()),
        CqlType::Float => Some((float as f32).to_be_bytes().to_vec()),
        CqlType::Double => Some(float.to_be_bytes().to_vec()),
        CqlType::Decimal => match number {
            Number::Integer(i) => Some(number::encode_decimal(0, i)),
            Number::Decimal(scale, unscaled) => Some(number::encode_decimal(*scale, unscaled)),
            Number::Float(f) => {
                let (scale, unscaled) = number::parse_decimal(&format!("{f:?}")).ok()?;
                Some(number::encode_decimal(scale, &unscaled))
            }
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{TableBuilder, TableId};

    fn table() -> Table {
        TableBuilder::new("ks", "t", TableId(1)).partition_key("k", CqlType::Int).build().expect("builds")
    }

    fn call(name: &str, ty: CqlType, value: &[u8]) -> Val<'static> {
        let table = table();
        let random = || 7;
        let context = BindContext {
            timestamp: 0,
            now_micros: 1_600_000_000_123_456,
            now_s: 1_600_000_000,
            random: &random,
            ticks: &crate::value::no_ticks,
        };
        let arguments = if value.is_empty() { vec![] } else { vec![Val::Bytes(Cow::Owned(value.to_vec()))] };
        let known: Vec<_> = arguments.iter().map(|_| Some(ty.clone())).collect();
        resolve(name, &known, &table).expect("resolves").call(&table, &arguments, &context).expect("calls")
    }

    #[test]
    fn time_functions_agree() {
        let now = call("now", CqlType::Empty, &[]);
        let now = now.bytes().expect("a value");
        let millis = call("toTimestamp".to_lowercase().as_str(), CqlType::Timeuuid, now);
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
        assert!(resolve("nothing", &[], &table()).is_err());
        assert!(resolve("token", &[], &table()).is_err());
    }

    #[test]
    fn numbers_cast() {
        let cast_to = |from: CqlType, to: CqlType, value: &[u8]| convert(&from, &to, value).expect("casts");
        assert_eq!(cast_to(CqlType::Int, CqlType::Text, &[0, 0, 0, 5]), Some(b"5".to_vec()));
        assert_eq!(cast_to(CqlType::Int, CqlType::Tinyint, &[0, 0, 1, 5]), Some(vec![5]));
        assert_eq!(
            cast_to(CqlType::Double, CqlType::Int, &(-2.7f64).to_be_bytes()),
            Some((-2i32).to_be_bytes().to_vec())
        );
        assert_eq!(cast_to(CqlType::Bigint, CqlType::Varint, &(-1i64).to_be_bytes()), Some(vec![0xff]));
        assert!(cast(&CqlType::Blob, &CqlType::Int).is_err());
    }
}
