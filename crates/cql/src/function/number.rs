//! Numbers of every type, and the functions of them.

use crate::error::{Error, Result};
use num_bigint::BigInt;
use types::{CqlType, number};

/// Whether values of a type are numbers.
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

/// The types of numbers.
pub(crate) const NUMBERS: [CqlType; 9] = [
    CqlType::Tinyint,
    CqlType::Smallint,
    CqlType::Int,
    CqlType::Bigint,
    CqlType::Float,
    CqlType::Double,
    CqlType::Varint,
    CqlType::Decimal,
    CqlType::Counter,
];

/// A number of any type, as exact as its type allows.
pub(crate) enum Number {
    /// Of the integer types.
    Integer(BigInt),
    /// Of float and double.
    Float(f64),
    /// Scale and unscaled value.
    Decimal(i32, BigInt),
}

/// Reads a number; `None` for empty values and other types.
pub(crate) fn number_of(ty: &CqlType, value: &[u8]) -> Option<Number> {
    if value.is_empty() {
        return None;
    }
    Some(match ty {
        CqlType::Tinyint
        | CqlType::Smallint
        | CqlType::Int
        | CqlType::Bigint
        | CqlType::Counter
        | CqlType::Timestamp
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

/// Whether a number is small enough to compute with: what functions made may be larger than any value that is written.
pub(crate) fn is_workable(ty: &CqlType, value: &[u8]) -> bool {
    !matches!(ty, CqlType::Varint | CqlType::Decimal) || value.len() <= types::limits::NUMBER_BYTES_MAX + 4
}

/// What is said of one that is not.
pub(crate) const TOO_LARGE: &str = "the number has more than 16384 bytes";

/// Powers of ten beyond this have too many digits to compute with. Fractions of that size are zero.
pub(super) const POWER_MAX: i32 = 10_000;

/// Writes a number as another type, narrowing as Java does: integers keep their low bits, fractions are cut, floats that
/// no integer holds become the nearest.
pub(crate) fn number_to(to: &CqlType, number: &Number) -> Option<Vec<u8>> {
    let float = || -> Option<f64> {
        match number {
            Number::Integer(i) => float_of(i),
            Number::Float(f) => Some(*f),
            Number::Decimal(scale, unscaled) => number::format_decimal(*scale, unscaled).parse().ok(),
        }
    };
    let integer = || -> Option<BigInt> {
        Some(match number {
            Number::Integer(i) => i.clone(),
            Number::Float(f) if !f.is_finite() => return None,
            Number::Float(f) => whole(*f)?,
            Number::Decimal(scale, unscaled) => match *scale {
                0..=POWER_MAX => unscaled / ten_to(*scale),
                n if n > POWER_MAX => BigInt::ZERO,
                // Those that are cut have zeros in all bits that an integer type keeps; `varint` is refused before.
                _ => unscaled * ten_to((*scale).max(-POWER_MAX)),
            },
        })
    };
    let low = |bytes: usize| -> Option<Vec<u8>> {
        let integer = match number {
            // Java narrows a float to int or long first, which saturates.
            Number::Float(f) if bytes < 8 => BigInt::from(*f as i32),
            Number::Float(f) => BigInt::from(*f as i64),
            _ => integer()?,
        };
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
        CqlType::Float => Some((float()? as f32).to_be_bytes().to_vec()),
        CqlType::Double => Some(float()?.to_be_bytes().to_vec()),
        CqlType::Decimal => match number {
            Number::Integer(i) => Some(number::encode_decimal(0, i)),
            Number::Decimal(scale, unscaled) => Some(number::encode_decimal(*scale, unscaled)),
            Number::Float(f) => {
                let (scale, unscaled) = number::parse_decimal(&types::float_text::format_double(*f)).ok()?;
                Some(number::encode_decimal(scale, &unscaled))
            }
        },
        _ => None,
    }
}

/// The float nearest to an integer; beyond the largest it is infinite, however many digits there are.
fn float_of(integer: &BigInt) -> Option<f64> {
    const BITS_MAX: u64 = 1024;
    if let Ok(small) = i64::try_from(integer) {
        return Some(small as f64);
    }
    if integer.bits() > BITS_MAX {
        return Some(if *integer < BigInt::ZERO { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    integer.to_string().parse().ok()
}

/// The integer part of a finite float.
fn whole(float: f64) -> Option<BigInt> {
    format!("{:.0}", float.trunc()).parse().ok()
}

/// Functions of one number that give a number of the same type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MathFunction {
    Abs,
    Exp,
    Log,
    Log10,
    Round,
}

impl MathFunction {
    /// By its name.
    pub fn of_name(name: &str) -> Option<MathFunction> {
        Some(match name {
            "abs" => MathFunction::Abs,
            "exp" => MathFunction::Exp,
            "log" => MathFunction::Log,
            "log10" => MathFunction::Log10,
            "round" => MathFunction::Round,
            _ => return None,
        })
    }

    /// Computes it; `None` for an empty value. Errors: logarithms of decimals that have none, powers too large to write.
    pub fn call(self, ty: &CqlType, value: &[u8]) -> std::result::Result<Option<Vec<u8>>, &'static str> {
        if !is_workable(ty, value) {
            return Err(TOO_LARGE);
        }
        let Some(number) = number_of(ty, value) else { return Ok(None) };
        let result = match (self, number) {
            (MathFunction::Abs, Number::Integer(i)) => Number::Integer(BigInt::from(i.magnitude().clone())),
            (MathFunction::Abs, Number::Float(f)) => Number::Float(f.abs()),
            (MathFunction::Abs, Number::Decimal(scale, n)) => {
                Number::Decimal(scale, BigInt::from(n.magnitude().clone()))
            }
            (MathFunction::Round, Number::Integer(i)) => Number::Integer(i),
            (MathFunction::Round, Number::Float(f)) => Number::Float(rounded(ty, f)),
            (MathFunction::Round, Number::Decimal(scale, n)) => {
                Number::Decimal(0, rounded_decimal(scale, n).ok_or(TOO_LARGE)?)
            }
            (function, Number::Decimal(scale, n)) => {
                let (scale, n) = function.of_decimal(scale, &n)?;
                Number::Decimal(scale, n)
            }
            (function, Number::Integer(n)) if *ty == CqlType::Varint => {
                let (scale, n) = function.of_decimal(0, &n)?;
                Number::Decimal(scale, n)
            }
            (function, Number::Integer(n)) => {
                Number::Float(function.of_float(float_of(&n).unwrap_or(f64::NAN)))
            }
            (function, Number::Float(f)) => Number::Float(function.of_float(f)),
        };
        Ok(number_to(ty, &result))
    }

    fn of_float(self, value: f64) -> f64 {
        match self {
            MathFunction::Exp => value.exp(),
            MathFunction::Log => value.ln(),
            MathFunction::Log10 => value.log10(),
            MathFunction::Abs | MathFunction::Round => value,
        }
    }

    fn of_decimal(self, scale: i32, number: &BigInt) -> std::result::Result<(i32, BigInt), &'static str> {
        match self {
            MathFunction::Exp => precise::exp(scale, number),
            MathFunction::Log => precise::ln(scale, number),
            MathFunction::Log10 => precise::log10(scale, number),
            MathFunction::Abs | MathFunction::Round => Ok((scale, number.clone())),
        }
    }
}

/// As Java's `Math.round`: half goes up, and the result is the nearest int of a float, the nearest long of a double.
fn rounded(ty: &CqlType, value: f64) -> f64 {
    let down = value.floor();
    // The rest is exact, where adding a half to the value is not.
    let up = if value - down >= 0.5 { down + 1.0 } else { down };
    if *ty == CqlType::Float { f64::from(up as i32) } else { up as i64 as f64 }
}

/// Ten to the power of a number's size.
fn ten_to(power: i32) -> BigInt {
    BigInt::from(10).pow(power.unsigned_abs())
}

/// To an integer, half away from zero; `None` for one with too many digits.
fn rounded_decimal(scale: i32, unscaled: BigInt) -> Option<BigInt> {
    match scale {
        0..=POWER_MAX => {
            let unit = ten_to(scale);
            let twice: BigInt = BigInt::from(unscaled.magnitude().clone()) * 2 + &unit;
            let rounded: BigInt = twice / (unit * 2);
            Some(if unscaled < BigInt::ZERO { -rounded } else { rounded })
        }
        n if n > POWER_MAX => Some(BigInt::ZERO),
        n if n >= -POWER_MAX => Some(unscaled * ten_to(scale)),
        _ if unscaled == BigInt::ZERO => Some(unscaled),
        _ => None,
    }
}

/// Exponential and logarithms with 32 digits, computed in integers that stand for 90 digits behind the point.
mod precise {
    use super::*;

    const PLACES: u32 = 90;
    /// Significant digits of a result, as Cassandra has them.
    const DIGITS: usize = 32;
    const TOO_LARGE: &str = "the result is out of range";

    type Computed = std::result::Result<(i32, BigInt), &'static str>;

    fn one() -> BigInt {
        BigInt::from(10).pow(PLACES)
    }

    /// `2 atanh(top / bottom)`, the logarithm of `(bottom + top) / (bottom - top)`; the ratio is below 0.82.
    fn log_of_ratio(top: &BigInt, bottom: &BigInt) -> BigInt {
        let ratio = top * one() / bottom;
        let square = &ratio * &ratio / one();
        let (mut power, mut sum) = (ratio.clone(), ratio);
        for odd in (3u32..).step_by(2) {
            power = power * &square / one();
            if power == BigInt::ZERO {
                break;
            }
            sum += &power / odd;
        }
        sum * 2
    }

    fn ln_of_ten() -> BigInt {
        // 10 = 8 × 1.25, and ln 2 = 2 atanh(1/3).
        log_of_ratio(&BigInt::from(1), &BigInt::from(3)) * 3
            + log_of_ratio(&BigInt::from(1), &BigInt::from(9))
    }

    /// The natural logarithm with [`PLACES`] places.
    fn ln_fixed(scale: i32, number: &BigInt) -> std::result::Result<BigInt, &'static str> {
        if *number <= BigInt::ZERO {
            return Err("Illegal log(x) for x <= 0");
        }
        let digits = number.to_string();
        // The number is 0.ddd… times a power of ten.
        let exponent = digits.len() as i64 - i64::from(scale);
        let used = &digits[..digits.len().min(PLACES as usize)];
        let unit = BigInt::from(10).pow(used.len() as u32);
        let mantissa: BigInt = used.parse().map_err(|_| TOO_LARGE)?;
        let small = log_of_ratio(&(&mantissa - &unit), &(&mantissa + &unit));
        Ok(small + ln_of_ten() * exponent)
    }

    /// Rounds a fixed number times a power of ten to 32 digits.
    fn shortened(fixed: &BigInt, exponent: i64) -> Computed {
        let text = fixed.magnitude().to_string();
        let drop = text.len() as i64 - DIGITS as i64;
        let unscaled = if drop > 0 {
            let unit = BigInt::from(10).pow(drop as u32);
            (BigInt::from(fixed.magnitude().clone()) * 2 + &unit) / (unit * 2)
        } else {
            BigInt::from(fixed.magnitude().clone()) * BigInt::from(10).pow((-drop) as u32)
        };
        let unscaled = if *fixed < BigInt::ZERO { -unscaled } else { unscaled };
        if unscaled == BigInt::ZERO {
            return Ok((0, unscaled));
        }
        let scale = i64::from(PLACES) - drop - exponent;
        i32::try_from(scale).map(|scale| (scale, unscaled)).map_err(|_| TOO_LARGE)
    }

    pub fn ln(scale: i32, number: &BigInt) -> Computed {
        shortened(&ln_fixed(scale, number)?, 0)
    }

    pub fn log10(scale: i32, number: &BigInt) -> Computed {
        shortened(&(ln_fixed(scale, number)? * one() / ln_of_ten()), 0)
    }

    pub fn exp(scale: i32, number: &BigInt) -> Computed {
        // Beyond ten digits before the point the result's exponent has no place in a decimal.
        let whole_digits = number.magnitude().to_string().len() as i64 - i64::from(scale);
        if whole_digits > 10 {
            return Err(TOO_LARGE);
        }
        let shift = i64::from(PLACES) - i64::from(scale);
        let fixed = match i32::try_from(shift.unsigned_abs()) {
            Ok(power) if shift >= 0 && power <= POWER_MAX => number * ten_to(power),
            Ok(power) if power <= POWER_MAX => number / ten_to(power),
            _ => BigInt::ZERO,
        };
        let ten = ln_of_ten();
        let exponent = &fixed / &ten;
        let rest = &fixed - &exponent * &ten;
        let (mut term, mut sum) = (one(), one());
        for step in 1u32.. {
            term = term * &rest / one() / step;
            if term == BigInt::ZERO {
                break;
            }
            sum += &term;
        }
        shortened(&sum, i64::try_from(exponent).map_err(|_| TOO_LARGE)?)
    }
}

/// The failure of a function on values, as Cassandra tells it.
pub(crate) fn failed<T>(name: &str, arguments: &[CqlType], text: &str) -> Result<T> {
    Err(Error::Function {
        name: name.to_string(),
        arguments: arguments.iter().map(CqlType::to_string).collect(),
        text: format!("execution of 'system.{name}[{}]' failed: {text}", listed(arguments)),
    })
}

fn listed(types: &[CqlType]) -> String {
    types.iter().map(CqlType::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Vec<u8> {
        let (scale, unscaled) = number::parse_decimal(text).expect("a decimal");
        number::encode_decimal(scale, &unscaled)
    }

    fn shown(function: &str, text: &str) -> String {
        let function = MathFunction::of_name(function).expect("known");
        let out = function.call(&CqlType::Decimal, &decimal(text)).expect("computes").expect("not null");
        let (scale, unscaled) = number::decode_decimal(&out).expect("a decimal");
        format!("{unscaled}e{}", -scale)
    }

    #[test]
    fn functions_of_decimals_are_exact_to_32_digits() {
        assert_eq!(shown("log10", "1e3"), "30000000000000000000000000000000e-31");
        assert_eq!(shown("log", "1e3"), "69077552789821370520539743640531e-31");
        assert_eq!(shown("exp", "1e3"), "19700711140170469938888793522433e403");
        assert_eq!(shown("exp", "0"), "10000000000000000000000000000000e-31");
        assert_eq!(shown("round", "-12.345"), "-12e0");
        assert_eq!(shown("round", "2.5"), "3e0");
        assert_eq!(shown("abs", "-1.50"), "150e-2");
        for cut in ["1e10001", "-3e2147483647"] {
            assert_eq!(MathFunction::Round.call(&CqlType::Decimal, &decimal(cut)), Err(TOO_LARGE), "{cut}");
        }
        assert_eq!(shown("round", "0e10001"), "0e0");
        let log = MathFunction::Log;
        assert!(log.call(&CqlType::Decimal, &decimal("-1")).is_err());
        assert!(MathFunction::Exp.call(&CqlType::Decimal, &decimal("1e400")).is_err());
        assert!(MathFunction::Exp.call(&CqlType::Decimal, &decimal("1e-2000000000")).is_ok());
    }

    #[test]
    fn integers_wrap_and_round_as_java_does() {
        let int = |n: i32| n.to_be_bytes().to_vec();
        let call =
            |f: MathFunction, n: i32| f.call(&CqlType::Int, &int(n)).expect("computes").expect("a value");
        assert_eq!(call(MathFunction::Abs, i32::MIN), int(i32::MIN));
        assert_eq!(call(MathFunction::Log, -5), int(0));
        assert_eq!(call(MathFunction::Log10, i32::MAX), int(9));
        assert_eq!(call(MathFunction::Exp, 100), int(i32::MAX));
        let round = |f: f64| MathFunction::Round.call(&CqlType::Double, &f.to_be_bytes()).expect("computes");
        assert_eq!(round(0.49999999999999994), Some(0f64.to_be_bytes().to_vec()));
        assert_eq!(round(-2.5), Some((-2f64).to_be_bytes().to_vec()));
        assert_eq!(round(f64::NAN), Some(0f64.to_be_bytes().to_vec()));
        let huge = BigInt::from(10).pow(400);
        assert_eq!(float_of(&-huge), Some(f64::NEG_INFINITY));
        assert_eq!(float_of(&BigInt::from(10).pow(300)), Some(1e300));
    }
}
