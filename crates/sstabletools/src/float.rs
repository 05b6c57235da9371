//! Floating point numbers as Java up to 18 prints them, which is not always the shortest way.
//!
//! Digits are generated from the exact value as long as neither what is cut off nor its complement is below half a unit in the last place of
//! the number. Two habits make the result longer than it must be: a number that needs an exponent gets two digits before
//! the generation may end, and large whole numbers are cut by a table. Cassandra 5.0 runs on such a Java.

use num_bigint::{BigInt, BigUint};

/// Decimal digits without trailing zeros, and where the point stands: `0.d1d2d3… * 10^point`.
struct Digits {
    digits: Vec<u8>,
    point: i32,
}

/// What sets the two formats apart.
struct Format {
    /// Bits of the fraction.
    fraction_bits: i32,
    /// What the exponent is counted from.
    bias: i32,
}

const DOUBLE: Format = Format { fraction_bits: 52, bias: 1023 };
const FLOAT: Format = Format { fraction_bits: 23, bias: 127 };

/// `Double.toString`.
pub(crate) fn double(value: f64) -> String {
    let bits = value.to_bits();
    let parts = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
    text(value.is_nan(), value.is_infinite(), value.is_sign_negative(), parts, &DOUBLE)
}

/// `Float.toString`.
pub(crate) fn float(value: f32) -> String {
    let bits = u64::from(value.to_bits());
    let parts = (bits >> 23 & 0xff, bits & ((1 << 23) - 1));
    text(value.is_nan(), value.is_infinite(), value.is_sign_negative(), parts, &FLOAT)
}

fn text(nan: bool, infinite: bool, negative: bool, parts: (u64, u64), format: &Format) -> String {
    if nan {
        return "NaN".into();
    }
    let sign = if negative { "-" } else { "" };
    if infinite {
        return format!("{sign}Infinity");
    }
    if parts == (0, 0) {
        return format!("{sign}0.0");
    }
    format!("{sign}{}", laid_out(&digits(parts, format)))
}

/// With a point, or with an exponent below a thousandth and from ten million on.
fn laid_out(number: &Digits) -> String {
    let digits = std::str::from_utf8(&number.digits).unwrap_or_default();
    let count = digits.len() as i32;
    match number.point {
        point @ 1..=7 if count <= point => format!("{digits}{}.0", "0".repeat((point - count) as usize)),
        point @ 1..=7 => format!("{}.{}", &digits[..point as usize], &digits[point as usize..]),
        point @ -2..=0 => format!("0.{}{digits}", "0".repeat(-point as usize)),
        point => {
            let rest = if count == 1 { "0" } else { &digits[1..] };
            format!("{}.{rest}E{}", &digits[..1], point - 1)
        }
    }
}

fn digits((exponent, fraction): (u64, u64), format: &Format) -> Digits {
    // The number is `fraction * 2^(exponent - fraction_bits)`, the fraction's highest bit being that of 2^fraction_bits.
    let (mut exponent, mut fraction) = (exponent as i32, fraction);
    let significant;
    if exponent == 0 {
        let shift = fraction.leading_zeros() as i32 - (63 - format.fraction_bits);
        fraction <<= shift;
        exponent = 1 - shift;
        significant = format.fraction_bits + 1 - shift;
    } else {
        fraction |= 1 << format.fraction_bits;
        significant = format.fraction_bits + 1;
    }
    exponent -= format.bias;
    let used = format.fraction_bits + 1 - fraction.trailing_zeros() as i32;
    let is_whole = used - exponent - 1 <= 0;
    if is_whole && (-21..=62).contains(&exponent) {
        return whole(u128::from(fraction) << exponent >> format.fraction_bits, exponent, significant);
    }
    generated(fraction, exponent, significant, format.fraction_bits)
}

/// Digits of a whole number, of which those beyond the format's precision are rounded off.
fn whole(mut number: u128, exponent: i32, significant: i32) -> Digits {
    let beyond = if exponent > significant { exponent - significant - 1 } else { 0 };
    let cut = (f64::from(beyond) * std::f64::consts::LOG10_2) as u32;
    if cut > 0 {
        let unit = 10u128.pow(cut);
        let rest = number % unit;
        number = number / unit + u128::from(rest >= unit / 2);
    }
    let text = number.to_string();
    Digits { point: text.len() as i32 + cut as i32, digits: without_zeros(text.into_bytes()) }
}

fn without_zeros(mut digits: Vec<u8>) -> Vec<u8> {
    while digits.len() > 1 && digits.last() == Some(&b'0') {
        digits.pop();
    }
    digits
}

/// The exponent of ten of the first digit, or one more.
fn estimated(fraction: u64, exponent: i32, fraction_bits: i32) -> i32 {
    let mantissa = fraction as f64 / (1u64 << fraction_bits) as f64;
    let estimate =
        (mantissa - 1.5) * 0.289_529_654 + 0.176_091_259 + f64::from(exponent) * std::f64::consts::LOG10_2;
    estimate.floor() as i32
}

/// The number, ten in the place of its next digit and the margin as whole numbers, and whether Java computes with 32 or 64
/// bits, where sums wrap around.
struct Scaled {
    rest: BigUint,
    place: BigUint,
    margin: BigUint,
    bits: Option<u32>,
}

impl Scaled {
    fn new(fraction: u64, exponent: i32, significant: i32, decimal: i32, fraction_bits: i32) -> Scaled {
        let zeros = fraction.trailing_zeros() as i32;
        let used = fraction_bits + 1 - zeros;
        let tiny = (used - exponent - 1).max(0);
        let (rest_5, place_5) = ((-decimal).max(0), decimal.max(0));
        let (mut rest_2, mut place_2) = (rest_5 + tiny + exponent, place_5 + tiny);
        let mut margin_2 = rest_2 - significant;
        rest_2 -= used - 1;
        let common = rest_2.min(place_2);
        (rest_2, place_2, margin_2) = (rest_2 - common, place_2 - common, margin_2 - common);
        // Below a power of two numbers are twice as dense.
        margin_2 -= i32::from(used == 1);
        if margin_2 < 0 {
            (rest_2, place_2, margin_2) = (rest_2 - margin_2, place_2 - margin_2, 0);
        }
        let five = |power: i32| BigUint::from(5u8).pow(power as u32);
        let bits_of_5 = |power: i32| match power {
            0 => 0,
            1..=26 => five(power).bits() as i32,
            _ => power * 3,
        };
        let (rest_bits, tens_bits) =
            (used + rest_2 + bits_of_5(rest_5), place_2 + 1 + bits_of_5(place_5 + 1));
        let bits = [32, 64].into_iter().find(|bits| rest_bits < *bits && tens_bits < *bits);
        Scaled {
            rest: (five(rest_5) * (fraction >> zeros)) << rest_2 as u64,
            place: five(place_5) << place_2 as u64,
            margin: five(rest_5) << margin_2 as u64,
            bits: bits.map(|bits| bits as u32),
        }
    }

    /// A sum or product as Java has it.
    fn wrapped(&self, number: BigUint) -> BigInt {
        let Some(bits) = self.bits else { return number.into() };
        let low = number & ((BigUint::from(1u8) << bits) - 1u8);
        if low.bit(u64::from(bits) - 1) {
            return BigInt::from(low) - (BigInt::from(1) << bits);
        }
        low.into()
    }

    /// The next digit; whether what is left is within the margin, and whether its complement is.
    fn next(&mut self, is_first: bool) -> (u8, bool, bool) {
        let digit = &self.rest / &self.place;
        self.rest = (&self.rest - &digit * &self.place) * 10u8;
        let margin = self.wrapped(&self.margin * 10u8);
        let digit = digit.to_u64_digits().first().copied().unwrap_or(0) as u8;
        if !is_first && margin <= BigInt::ZERO {
            return (digit, true, true);
        }
        self.margin = margin.to_biguint().unwrap_or_default();
        let low = BigInt::from(self.rest.clone()) < margin;
        let high = self.wrapped(&self.rest + &self.margin) > BigInt::from(&self.place * 10u8);
        (digit, low, high)
    }

    /// Whether what is left is more than half a digit, or half of one.
    fn left(&self) -> std::cmp::Ordering {
        let tens = BigInt::from(&self.place * 10u8);
        let difference = self.wrapped(&self.rest << 1u8) - tens;
        let bits = self.bits.unwrap_or(0);
        // Where the difference wraps around, too, it is positive.
        let wraps = bits > 0 && difference < -(BigInt::from(1) << (bits - 1));
        if wraps { std::cmp::Ordering::Greater } else { difference.cmp(&BigInt::ZERO) }
    }
}

fn generated(fraction: u64, exponent: i32, significant: i32, fraction_bits: i32) -> Digits {
    let mut decimal = estimated(fraction, exponent, fraction_bits);
    let mut scaled = Scaled::new(fraction, exponent, significant, decimal, fraction_bits);
    let mut digits = Vec::with_capacity(20);
    let (first, mut low, mut high) = scaled.next(true);
    if first == 0 && !high {
        decimal -= 1;
    } else {
        digits.push(b'0' + first);
    }
    if !(-3..8).contains(&decimal) {
        (low, high) = (false, false);
    }
    while !low && !high {
        let digit;
        (digit, low, high) = scaled.next(false);
        digits.push(b'0' + digit);
    }
    let up = high
        && (!low
            || match scaled.left() {
                std::cmp::Ordering::Less => false,
                std::cmp::Ordering::Equal => digits.last().is_some_and(|digit| digit & 1 == 1),
                std::cmp::Ordering::Greater => true,
            });
    let mut point = decimal + 1;
    if up {
        round_up(&mut digits, &mut point);
    }
    Digits { digits: without_zeros(digits), point }
}

fn round_up(digits: &mut [u8], point: &mut i32) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    *point += 1;
    if let Some(first) = digits.first_mut() {
        *first = b'1';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_java() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.001, "0.001"),
            (1e7, "1.0E7"),
            (9_999_999.999_999_998, "9999999.999999998"),
            (2e-3, "0.002"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (5e-324, "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (9_007_199_254_740_992.0, "9.007199254740992E15"),
            (f64::from_bits(0x44b5_2d02_c7e1_4af6), "9.999999999999999E22"),
            (f64::from_bits(0x1000_0000_0000_0000), "1.2882297539194267E-231"),
        ] {
            assert_eq!(double(value), expected);
        }
        // `d` or `f`, the bits, and what Java 17 prints: random ones, powers of two, whole ones.
        for line in include_str!("../testdata/floats.txt").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let bits = u64::from_str_radix(words[1], 16).unwrap();
            let printed = if words[0] == "d" {
                double(f64::from_bits(bits))
            } else {
                float(f32::from_bits(bits as u32))
            };
            assert_eq!(printed, words[2], "{line}");
        }
        assert_eq!(float(1.4e-45), "1.4E-45");
        assert_eq!((float(3.4028235e38), float(0.1)), ("3.4028235E38".into(), "0.1".into()));
    }
}
