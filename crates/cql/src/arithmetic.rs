//! Arithmetic on wire values, by Cassandra's rules: what type comes out of which two, and how it is computed.
//!
//! ```text
//! numbers     the wider of both; floating point if one is: tinyint < smallint < int < bigint < varint,
//!             float < double < decimal; integers wrap around, as Java's do
//! timestamp or date  + -  duration, text + text
//! ```
//! The only failures are divisions of integers and decimals by zero, and durations finer than what they are added to.

use crate::ast::Arithmetic;
use crate::error::{Error, Result, invalid};
use crate::function::{NUMBERS, TOO_LARGE, is_number, is_workable, number_of, number_to};
use num_bigint::BigInt;
use types::duration::Duration;
use types::{CqlType, number};

/// The sign of an operator.
pub(crate) fn symbol(operator: Arithmetic) -> char {
    match operator {
        Arithmetic::Add => '+',
        Arithmetic::Subtract => '-',
        Arithmetic::Multiply => '*',
        Arithmetic::Divide => '/',
        Arithmetic::Modulo => '%',
    }
}

/// The type of `left operator right`; `None` when there is no such operation.
pub(crate) fn result_type(operator: Arithmetic, left: &CqlType, right: &CqlType) -> Option<CqlType> {
    if is_number(left) && is_number(right) {
        return Some(wider(left, right));
    }
    let plus_or_minus = matches!(operator, Arithmetic::Add | Arithmetic::Subtract);
    match (left, right) {
        (CqlType::Timestamp | CqlType::Date, CqlType::Duration) if plus_or_minus => Some(left.clone()),
        (CqlType::Ascii, CqlType::Ascii) if operator == Arithmetic::Add => Some(CqlType::Ascii),
        (CqlType::Ascii | CqlType::Text, CqlType::Ascii | CqlType::Text) if operator == Arithmetic::Add => {
            Some(CqlType::Text)
        }
        _ => None,
    }
}

/// The type of `-value`: that of a number.
pub(crate) fn negated_type(ty: &CqlType) -> Option<CqlType> {
    is_number(ty).then(|| ty.clone())
}

fn is_floating(ty: &CqlType) -> bool {
    matches!(ty, CqlType::Float | CqlType::Double | CqlType::Decimal)
}

/// Bytes of a number; those of any size count as the widest.
fn width(ty: &CqlType) -> u32 {
    match ty {
        CqlType::Tinyint => 1,
        CqlType::Smallint => 2,
        CqlType::Int | CqlType::Float => 4,
        CqlType::Bigint | CqlType::Counter | CqlType::Double => 8,
        _ => u32::MAX,
    }
}

fn wider(left: &CqlType, right: &CqlType) -> CqlType {
    let width = width(left).max(width(right));
    match (is_floating(left) || is_floating(right), width) {
        (true, ..=4) => CqlType::Float,
        (true, 8) => CqlType::Double,
        (true, _) => CqlType::Decimal,
        (false, 1) => CqlType::Tinyint,
        (false, 2) => CqlType::Smallint,
        (false, 4) => CqlType::Int,
        (false, 8) => CqlType::Bigint,
        (false, _) => CqlType::Varint,
    }
}

/// Computes `left operator right`; `None`: an empty value took part, which is no number.
/// Errors: [`Error::Function`]. Cost of varints and decimals: that of the numbers' digits, which their bytes bound.
pub(crate) fn apply(
    operator: Arithmetic,
    left: (&CqlType, &[u8]),
    right: (&CqlType, &[u8]),
) -> Result<Option<Vec<u8>>> {
    let failed = |text: String| Error::Function {
        name: function_name(operator).to_string(),
        arguments: vec![left.0.to_string(), right.0.to_string()],
        text: format!("the operation '{} {} {}' failed: {text}", left.0, symbol(operator), right.0),
    };
    let Some(ty) = result_type(operator, left.0, right.0) else {
        return crate::error::invalid(format!(
            "the '{}' operation is not supported between {} and {}",
            symbol(operator),
            left.0,
            right.0
        ));
    };
    if matches!(ty, CqlType::Ascii | CqlType::Text) {
        return Ok(Some([left.1, right.1].concat()));
    }
    if left.1.is_empty() || right.1.is_empty() {
        return Ok(None);
    }
    if !is_workable(left.0, left.1) || !is_workable(right.0, right.1) {
        return Err(failed(TOO_LARGE.to_string()));
    }
    match &ty {
        CqlType::Timestamp | CqlType::Date => shifted(operator, left, right.1).map(Some).map_err(failed),
        CqlType::Float | CqlType::Double => Ok(floats(operator, &ty, left, right)),
        CqlType::Decimal => decimals(operator, left, right).map_err(failed),
        _ => integers(operator, &ty, left, right).map_err(failed),
    }
}

/// Cassandra's name of the function behind an operator.
fn function_name(operator: Arithmetic) -> &'static str {
    match operator {
        Arithmetic::Add => "_add",
        Arithmetic::Subtract => "_substract",
        Arithmetic::Multiply => "_multiply",
        Arithmetic::Divide => "_divide",
        Arithmetic::Modulo => "_modulo",
    }
}

/// The refusal of a minus in front of what is no number.
pub(crate) fn no_negation<T>() -> Result<T> {
    let known: Vec<String> = NUMBERS.iter().map(|ty| format!("system._negate : ({ty}) -> {ty}")).collect();
    invalid(format!(
        "Invalid call to function system._negate, none of its type signatures match (known type signatures: {})",
        known.join(", ")
    ))
}

/// Computes `-value`; `None` for an empty value.
pub(crate) fn negate(ty: &CqlType, value: &[u8]) -> Result<Option<Vec<u8>>> {
    use crate::function::Number;
    let Some(value) = number_of(ty, value) else { return Ok(None) };
    let negated = match value {
        Number::Integer(i) => Number::Integer(-i),
        Number::Float(f) => Number::Float(-f),
        Number::Decimal(scale, unscaled) => Number::Decimal(scale, -unscaled),
    };
    Ok(number_to(ty, &negated))
}

type Computed<T> = std::result::Result<T, String>;

fn integers(
    operator: Arithmetic,
    ty: &CqlType,
    left: (&CqlType, &[u8]),
    right: (&CqlType, &[u8]),
) -> Computed<Option<Vec<u8>>> {
    let (left, right) = (BigInt::from_signed_bytes_be(left.1), BigInt::from_signed_bytes_be(right.1));
    let divides = matches!(operator, Arithmetic::Divide | Arithmetic::Modulo);
    if divides && right == BigInt::ZERO {
        let exact = if *ty == CqlType::Varint { "BigInteger divide by zero" } else { "/ by zero" };
        return Err(exact.to_string());
    }
    let result = match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Modulo => left % right,
    };
    // Narrowing keeps the low bits: overflow wraps around.
    Ok(number_to(ty, &crate::function::Number::Integer(result)))
}

fn floats(
    operator: Arithmetic,
    ty: &CqlType,
    left: (&CqlType, &[u8]),
    right: (&CqlType, &[u8]),
) -> Option<Vec<u8>> {
    let read = |(ty, value): (&CqlType, &[u8])| -> Option<f64> {
        let wide = number_to(&CqlType::Double, &number_of(ty, value)?)?;
        Some(f64::from_be_bytes(wide.try_into().ok()?))
    };
    let (left, right) = (read(left)?, read(right)?);
    if *ty == CqlType::Float {
        let (left, right) = (left as f32, right as f32);
        let result = match operator {
            Arithmetic::Add => left + right,
            Arithmetic::Subtract => left - right,
            Arithmetic::Multiply => left * right,
            Arithmetic::Divide => left / right,
            Arithmetic::Modulo => left % right,
        };
        return Some(result.to_be_bytes().to_vec());
    }
    let result = match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Modulo => left % right,
    };
    Some(result.to_be_bytes().to_vec())
}

/// Digits that a quotient has at least, and the most digits behind the point: those of Cassandra's `DecimalType`.
const QUOTIENT_DIGITS: i64 = 32;
const QUOTIENT_SCALE_MAX: i64 = 1000;
/// Powers of ten beyond this are refused: their digits would fill memory. Far beyond what fits a sensible decimal.
const POWER_MAX: i64 = 20_000;

fn decimals(
    operator: Arithmetic,
    left: (&CqlType, &[u8]),
    right: (&CqlType, &[u8]),
) -> Computed<Option<Vec<u8>>> {
    let read = |(ty, value): (&CqlType, &[u8])| -> Computed<Option<(i64, BigInt)>> {
        let Some(number) = number_of(ty, value) else { return Ok(None) };
        if let crate::function::Number::Float(f) = &number
            && !f.is_finite()
        {
            let what = if f.is_nan() { "A NaN" } else { "An infinite number" };
            return Err(format!("{what} cannot be converted into a decimal"));
        }
        let Some(wire) = number_to(&CqlType::Decimal, &number) else { return Ok(None) };
        Ok(number::decode_decimal(&wire).map(|(scale, unscaled)| (i64::from(scale), unscaled)))
    };
    let (Some((a_scale, a)), Some((b_scale, b))) = (read(left)?, read(right)?) else { return Ok(None) };
    let (scale, unscaled) = match operator {
        Arithmetic::Multiply => (a_scale + b_scale, a * b),
        Arithmetic::Add | Arithmetic::Subtract => {
            let scale = a_scale.max(b_scale);
            let (a, b) = (raised(a, scale - a_scale)?, raised(b, scale - b_scale)?);
            (scale, if operator == Arithmetic::Add { a + b } else { a - b })
        }
        Arithmetic::Divide if b == BigInt::ZERO => return Err("BigInteger divide by zero".to_string()),
        Arithmetic::Modulo if b == BigInt::ZERO => {
            let word = if a == BigInt::ZERO { "undefined" } else { "by zero" };
            return Err(format!("Division {word}"));
        }
        Arithmetic::Divide => quotient(a_scale, a, b_scale, b)?,
        Arithmetic::Modulo => {
            let scale = a_scale.max(b_scale);
            (scale, raised(a, scale - a_scale)? % raised(b, scale - b_scale)?)
        }
    };
    let scale = i32::try_from(scale).map_err(|_| "the scale is out of range".to_string())?;
    Ok(Some(number::encode_decimal(scale, &unscaled)))
}

fn raised(number: BigInt, power: i64) -> Computed<BigInt> {
    match u32::try_from(power) {
        Ok(power) if i64::from(power) <= POWER_MAX => Ok(number * BigInt::from(10).pow(power)),
        _ => Err("the numbers are too far apart".to_string()),
    }
}

fn digits(number: &BigInt) -> i64 {
    number.magnitude().to_str_radix(10).len() as i64
}

/// Rounded half up, without zeros at the end.
fn quotient(a_scale: i64, a: BigInt, b_scale: i64, b: BigInt) -> Computed<(i64, BigInt)> {
    let first_digit = (digits(&a) - a_scale) - (digits(&b) - b_scale);
    let scale = (QUOTIENT_DIGITS - first_digit).max(a_scale).max(b_scale).max(QUOTIENT_DIGITS);
    let scale = scale.min(QUOTIENT_SCALE_MAX);
    let shift = scale - a_scale + b_scale;
    let (a, b) = if shift >= 0 { (raised(a, shift)?, b) } else { (a, raised(b, -shift)?) };
    let negative = (a < BigInt::ZERO) != (b < BigInt::ZERO);
    let (a, b) = (BigInt::from(a.magnitude().clone()), BigInt::from(b.magnitude().clone()));
    let mut rounded = (a * 2 + &b) / (b * 2);
    let mut scale = scale;
    let ten = BigInt::from(10);
    if rounded == BigInt::ZERO {
        return Ok((0, rounded));
    }
    while &rounded % &ten == BigInt::ZERO {
        rounded /= &ten;
        scale -= 1;
    }
    Ok((scale, if negative { -rounded } else { rounded }))
}

const DAY_MS: i64 = 86_400_000;

fn shifted(operator: Arithmetic, left: (&CqlType, &[u8]), right: &[u8]) -> Computed<Vec<u8>> {
    let bad = |error: types::TypeError| error.to_string();
    let duration = Duration::decode(right).map_err(bad)?;
    let out_of_range = || "the result is out of range".to_string();
    if *left.0 == CqlType::Date {
        if duration.nanos != 0 {
            return Err(format!("The duration must have a day precision. Was: {duration}"));
        }
        let days = <[u8; 4]>::try_from(left.1).map_err(|_| out_of_range())?;
        let days = i64::from(u32::from_be_bytes(days)) - (1 << 31);
        let moved = moved_days(operator, days, &duration).ok_or_else(out_of_range)?;
        let date = u32::try_from(moved.checked_add(1 << 31).ok_or_else(out_of_range)?);
        return date.map(|date| date.to_be_bytes().to_vec()).map_err(|_| out_of_range());
    }
    if duration.nanos % 1_000_000 != 0 {
        return Err(format!("The duration must have a millisecond precision. Was: {duration}"));
    }
    let millis = <[u8; 8]>::try_from(left.1).map(i64::from_be_bytes).map_err(|_| out_of_range())?;
    let (days, rest) = (millis.div_euclid(DAY_MS), millis.rem_euclid(DAY_MS));
    let days = moved_days(operator, days, &duration).ok_or_else(out_of_range)?;
    let extra = duration.nanos / 1_000_000;
    let extra = if operator == Arithmetic::Add { extra } else { -extra };
    let millis = days.checked_mul(DAY_MS).and_then(|ms| ms.checked_add(rest)?.checked_add(extra));
    millis.map(|ms| ms.to_be_bytes().to_vec()).ok_or_else(out_of_range)
}

/// Days since the epoch after months and days have been added or taken away; a day that the month has not becomes its last.
fn moved_days(operator: Arithmetic, days: i64, duration: &Duration) -> Option<i64> {
    let sign = if operator == Arithmetic::Add { 1 } else { -1 };
    let days = base::calendar::plus_months(days, sign * i64::from(duration.months))?;
    days.checked_add(sign * i64::from(duration.days))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Arithmetic::{Add, Divide, Modulo, Multiply, Subtract};
    use types::literal::from_text;

    fn compute(operator: Arithmetic, left: (CqlType, &str), right: (CqlType, &str)) -> String {
        let wire = |(ty, text): &(CqlType, &str)| from_text(ty, text).expect("a literal");
        let ty = result_type(operator, &left.0, &right.0).expect("an operation");
        match apply(operator, (&left.0, &wire(&left)), (&right.0, &wire(&right))) {
            Ok(Some(bytes)) => format!("{ty} {}", types::Value::decode(&ty, &bytes).expect("valid").to_cql()),
            Ok(None) => format!("{ty} null"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_cassandra_answers() {
        use CqlType::*;
        for (left, operator, right, want) in [
            ((Int, "2147483647"), Add, (Int, "1"), "int -2147483648"),
            ((Tinyint, "100"), Add, (Tinyint, "100"), "tinyint -56"),
            ((Tinyint, "100"), Add, (Smallint, "300"), "smallint 400"),
            ((Int, "7"), Add, (Float, "1.5"), "float 8.5"),
            ((Bigint, "9"), Add, (Float, "1.5"), "double 10.5"),
            ((Varint, "11"), Add, (Double, "2.5"), "decimal 13.5"),
            ((Decimal, "3.25"), Multiply, (Decimal, "3.25"), "decimal 10.5625"),
            ((Decimal, "3.25"), Divide, (Int, "7"), "decimal 0.46428571428571428571428571428571"),
            ((Decimal, "1"), Divide, (Decimal, "3"), "decimal 0.33333333333333333333333333333333"),
            ((Decimal, "-7.5"), Modulo, (Decimal, "2"), "decimal -1.5"),
            ((Varint, "-7"), Divide, (Varint, "2"), "varint -3"),
            ((Varint, "-7"), Modulo, (Varint, "2"), "varint -1"),
            ((Double, "1"), Divide, (Double, "0"), "double Infinity"),
            ((Int, "1"), Divide, (Int, "0"), "the operation 'int / int' failed: / by zero"),
            (
                (Decimal, "1"),
                Divide,
                (Int, "0"),
                "the operation 'decimal / int' failed: BigInteger divide by zero",
            ),
            ((Int, "-2147483648"), Divide, (Int, "-1"), "int -2147483648"),
            ((Date, "2020-01-31"), Add, (Duration, "1mo"), "date '2020-02-29'"),
            ((Date, "2020-03-01"), Subtract, (Duration, "1d"), "date '2020-02-29'"),
            (
                (Timestamp, "2020-01-31 12:00:00+0000"),
                Add,
                (Duration, "1mo1h"),
                "timestamp '2020-02-29T13:00:00.000Z'",
            ),
            (
                (Timestamp, "0"),
                Add,
                (Duration, "1ns"),
                "the operation 'timestamp + duration' failed: The duration must have a millisecond precision. Was: 1ns",
            ),
            ((Text, "a"), Add, (Ascii, "b"), "text 'ab'"),
        ] {
            assert_eq!(compute(operator, left, right), want);
        }
    }

    #[test]
    fn there_is_no_such_operation() {
        for (operator, left, right) in [
            (Subtract, CqlType::Text, CqlType::Text),
            (Add, CqlType::Duration, CqlType::Duration),
            (Add, CqlType::Time, CqlType::Duration),
            (Multiply, CqlType::Date, CqlType::Duration),
            (Add, CqlType::Boolean, CqlType::Int),
        ] {
            assert_eq!(result_type(operator, &left, &right), None);
        }
    }

    #[test]
    fn extremes_are_answered_quickly() {
        use CqlType::*;
        let max = "the numbers are too far apart";
        assert!(compute(Add, (Decimal, "1e2147483647"), (Decimal, "1e-2147483647")).ends_with(max));
        assert!(compute(Add, (Date, "+5881580-07-11"), (Duration, "1d")).ends_with("out of range"));
        assert!(
            compute(Add, (Timestamp, "9223372036854775807"), (Duration, "178956970y"))
                .contains("out of range")
        );
        assert_eq!(negate(&Int, &i32::MIN.to_be_bytes()), Ok(Some(i32::MIN.to_be_bytes().to_vec())));
        assert_eq!(apply(Add, (&Int, &[]), (&Int, &[0, 0, 0, 1])), Ok(None));
        let large = vec![0x7f; 16 << 20];
        assert!(Varint.validate(&large).is_err() && Decimal.validate(&large).is_err());
        for operator in [Add, Multiply, Divide, Modulo] {
            for ty in [Varint, Decimal] {
                assert!(apply(operator, (&ty, &large), (&Tinyint, &[1])).is_err());
                assert!(apply(operator, (&Tinyint, &[1]), (&ty, &large)).is_err());
            }
        }
    }
}
