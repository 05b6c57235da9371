//! The text of floats and doubles as Java 17 prints them, which Cassandra's casts and JSON show: usually the shortest that
//! reads back, but longer for some powers of two and for numbers beyond 10^7 or below 10^-3, which have two digits at least.
//!
//! Digits are made one after another from exact fractions until what is left is within half of the distance to the next
//! number: `b / s` is the rest, `m / s` that half distance, all three in integers. Where Java stops is written down in the
//! documentation of its bugs JDK-4511638 and JDK-7032154; measured against Java 17 over millions of numbers.

use num_bigint::BigInt;

/// A number above zero: `fraction · 2^(exponent - 52)`, the highest bit of the fraction being bit 52.
struct Parts {
    fraction: u64,
    exponent: i32,
    /// Bits that its type keeps of it: fewer for subnormal numbers.
    kept_bits: i32,
}

/// Digits behind `0.`, and the power of ten that they are multiplied with.
struct Decimal {
    digits: Vec<u8>,
    exponent: i32,
}

/// The text of a `double`.
pub fn format_double(value: f64) -> String {
    let bits = value.to_bits();
    let stored = (bits >> 52 & 0x7FF) as i32;
    format(value, bits & ((1 << 52) - 1), stored, -1022, 52)
}

/// The text of a `float`.
pub fn format_float(value: f32) -> String {
    let bits = value.to_bits();
    let stored = (bits >> 23 & 0xFF) as i32;
    format(f64::from(value), u64::from(bits & ((1 << 23) - 1)), stored, -126, 23)
}

fn format(value: f64, mantissa: u64, stored: i32, least: i32, width: i32) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    let parts = if stored == 0 {
        let bits = 64 - mantissa.leading_zeros() as i32;
        Parts { fraction: mantissa << (53 - bits), exponent: least + bits - width - 1, kept_bits: bits }
    } else {
        let fraction = (mantissa | 1 << width) << (52 - width);
        Parts { fraction, exponent: stored - 1 + least, kept_bits: width + 1 }
    };
    format!("{sign}{}", laid_out(&decimal_of(&parts)))
}

/// Plain between 10^-3 and 10^7, else with an exponent; at least one digit on both sides of the point.
fn laid_out(decimal: &Decimal) -> String {
    let digits: String = decimal.digits.iter().map(|digit| char::from(b'0' + digit)).collect();
    match decimal.exponent {
        1..8 => {
            let whole = decimal.exponent as usize;
            let padded = format!("{digits:0<whole$}");
            let (whole, fraction) = padded.split_at(whole);
            format!("{whole}.{}", if fraction.is_empty() { "0" } else { fraction })
        }
        -2..=0 => format!("0.{}{digits}", "0".repeat(decimal.exponent.unsigned_abs() as usize)),
        _ => {
            let (first, rest) = digits.split_at(1);
            format!("{first}.{}E{}", if rest.is_empty() { "0" } else { rest }, decimal.exponent - 1)
        }
    }
}

fn decimal_of(parts: &Parts) -> Decimal {
    let zeros = parts.fraction.trailing_zeros() as i32;
    let fraction_bits = 53 - zeros;
    // Bits behind the point.
    let behind = (fraction_bits - parts.exponent - 1).max(0);
    if behind == 0 && (-21..=62).contains(&parts.exponent) {
        return of_integer(parts);
    }
    fraction_digits(parts, zeros, fraction_bits, behind)
}

/// Integers have all their digits but those that the type cannot tell apart.
fn of_integer(parts: &Parts) -> Decimal {
    let excess = parts.exponent - parts.kept_bits;
    // The digits of the power of two below the distance of two numbers.
    let dropped = if excess > 1 { ((excess - 1) as f64 * std::f64::consts::LOG10_2) as u32 } else { 0 };
    let shift = parts.exponent - 52;
    let mut number = if shift >= 0 { parts.fraction << shift } else { parts.fraction >> -shift };
    let unit = 10u64.pow(dropped);
    number = number / unit + u64::from(dropped > 0 && number % unit >= unit / 2);
    let text = number.to_string();
    let exponent = text.len() as i32 + dropped as i32;
    Decimal { digits: text.trim_end_matches('0').bytes().map(|b| b - b'0').collect(), exponent }
}

/// Bits of `5^power`, as Java counts them to choose between machine words and integers of any size.
fn five_bits(power: i32) -> i32 {
    match power {
        0 => 0,
        1..27 => (f64::from(power) * std::f64::consts::LOG2_10 - f64::from(power)) as i32 + 1,
        _ => power * 3,
    }
}

fn five_to(power: i32) -> BigInt {
    BigInt::from(5).pow(power.unsigned_abs())
}

/// What is left of a number above zero in a word with a sign.
fn low_word(number: &BigInt) -> i64 {
    number.iter_u64_digits().next().unwrap_or(0) as i64
}

fn fraction_digits(parts: &Parts, zeros: i32, fraction_bits: i32, behind: i32) -> Decimal {
    // A line through the logarithm between two powers of two: exact, or one too high.
    let mantissa = f64::from_bits(1023 << 52 | parts.fraction & ((1 << 52) - 1));
    let estimate = (mantissa - 1.5) * 0.289_529_654
        + 0.176_091_259
        + f64::from(parts.exponent) * std::f64::consts::LOG10_2;
    let mut exponent = estimate.floor() as i32;
    let (b5, s5) = ((-exponent).max(0), exponent.max(0));
    let mut b2 = b5 + behind + parts.exponent;
    let mut s2 = s5 + behind;
    let mut m2 = b2 - parts.kept_bits;
    b2 -= fraction_bits - 1;
    let common = b2.min(s2);
    (b2, s2, m2) = (b2 - common, s2 - common, m2 - common);
    // Below a power of two the numbers lie twice as close.
    if fraction_bits == 1 {
        m2 -= 1;
    }
    if m2 < 0 {
        (b2, s2, m2) = (b2 - m2, s2 - m2, 0);
    }
    let in_words = fraction_bits + b2 + five_bits(b5) < 64 && s2 + 1 + five_bits(s5 + 1) < 64;
    let mut b = (BigInt::from(parts.fraction >> zeros) * five_to(b5)) << b2;
    let s = five_to(s5) << s2;
    let mut m = five_to(b5) << m2;
    let ten_s = &s * 10;
    let mut digits = Vec::new();
    // The next digit, and whether the rest is small enough to end below it, or above.
    let step = |b: &mut BigInt, m: &mut BigInt| {
        let digit = &*b / &s;
        *b = (&*b - &digit * &s) * 10;
        *m *= 10;
        let digit = u8::try_from(digit).unwrap_or(9);
        let sum = &*b + &*m;
        if !in_words {
            return (digit, *b < *m, sum >= ten_s);
        }
        // The half distance, and the sum with it, may outgrow a word, which shows in the last digit near 10^25.
        let half = low_word(m);
        (digit, half <= 0 || low_word(b) < half, half <= 0 || low_word(&sum) > low_word(&ten_s))
    };
    let (digit, mut low, mut high) = step(&mut b, &mut m);
    if digit == 0 && !high {
        exponent -= 1;
    } else {
        digits.push(digit);
    }
    // Two digits at least where there is an exponent.
    if !(-3..8).contains(&exponent) {
        (low, high) = (false, false);
    }
    while !low && !high {
        let digit;
        (digit, low, high) = step(&mut b, &mut m);
        digits.push(digit);
    }
    let twice = &b * 2;
    let odd = digits.last().is_some_and(|digit| digit % 2 == 1);
    if high && (!low || twice > ten_s || (twice == ten_s && odd)) {
        round_up(&mut digits, &mut exponent);
    }
    Decimal { digits, exponent: exponent + 1 }
}

fn round_up(digits: &mut [u8], exponent: &mut i32) {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
    if let Some(first) = digits.first_mut() {
        *first = 1;
        *exponent += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_printed_as_java_17_prints_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.001, "0.001"),
            (9.999e-4, "9.999E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (2e-3, "0.002"),
            (f64::from_bits(1), "4.9E-324"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (f64::MAX, "1.7976931348623157E308"),
            (8.41e21, "8.409999999999999E21"),
            (2e23, "1.9999999999999998E23"),
            (1e23, "9.999999999999999E22"),
            (2f64.powi(62), "4.6116860184273879E18"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
            (-123_456.789, "-123456.789"),
            (9_999_999.999_999_998, "9999999.999999998"),
            (9_007_199_254_740_992.0, "9.007199254740992E15"),
            (f64::from_bits(0x1000_0000_0000_0000), "1.2882297539194267E-231"),
        ] {
            assert_eq!(format_double(value), text);
        }
        for (value, text) in [
            (f32::from_bits(1), "1.4E-45"),
            (f32::MAX, "3.4028235E38"),
            (f32::from_bits(0x5b78_b9c7), "7.0010059E16"),
            (0.1, "0.1"),
            (33_554_432.0, "3.3554432E7"),
            (f32::from_bits(0x6900_0000), "9.6714065E24"),
        ] {
            assert_eq!(format_float(value), text);
        }
    }

    /// `d` or `f`, the bits, and what Java 17 prints: random ones, powers of two, whole ones.
    #[test]
    fn texts_recorded_from_java_are_met() {
        for line in include_str!("../testdata/floats.txt").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let bits = u64::from_str_radix(words[1], 16).expect("digits");
            let printed = match words[0] {
                "d" => format_double(f64::from_bits(bits)),
                _ => format_float(f32::from_bits(bits as u32)),
            };
            assert_eq!(printed, words[2], "{line}");
        }
    }

    proptest! {
        #[test]
        fn every_text_reads_back(bits in any::<u64>()) {
            let double = f64::from_bits(bits);
            if double.is_finite() {
                prop_assert_eq!(format_double(double).parse::<f64>().map(f64::to_bits), Ok(bits));
            }
            let float = f32::from_bits(bits as u32);
            if float.is_finite() {
                prop_assert_eq!(format_float(float).parse::<f32>().map(f32::to_bits), Ok(bits as u32));
            }
        }
    }
}
