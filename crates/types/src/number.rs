//! Integers and decimals of any size: bytes and text.

use crate::error::TypeError;
use crate::limits::NUMBER_DIGITS_MAX;
use num_bigint::BigInt;

/// The two parts of a decimal's bytes: scale and unscaled number. `None` below four bytes.
pub fn decode_decimal(wire: &[u8]) -> Option<(i32, BigInt)> {
    let (scale, unscaled) = wire.split_first_chunk::<4>()?;
    Some((i32::from_be_bytes(*scale), BigInt::from_signed_bytes_be(unscaled)))
}

/// The bytes of a decimal.
pub fn encode_decimal(scale: i32, unscaled: &BigInt) -> Vec<u8> {
    let mut out = scale.to_be_bytes().to_vec();
    out.extend_from_slice(&unscaled.to_signed_bytes_be());
    out
}

/// Parses an integer of any size: an optional minus sign and digits.
pub fn parse_varint(text: &str) -> Result<BigInt, TypeError> {
    let bad = || TypeError::Literal(format!("unable to make int from '{text}'"));
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || digits.len() > NUMBER_DIGITS_MAX || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    text.parse().map_err(|_| bad())
}

/// Parses a decimal: sign, digits with an optional point, an optional exponent.
pub fn parse_decimal(text: &str) -> Result<(i32, BigInt), TypeError> {
    let bad = || TypeError::Literal(format!("unable to make BigDecimal from '{text}'"));
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i64>().map_err(|_| bad())?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if fraction.starts_with(['-', '+'])
        || (whole.trim_start_matches(['-', '+']).is_empty() && fraction.is_empty())
    {
        return Err(bad());
    }
    let unscaled = parse_varint(&format!("{whole}{fraction}")).map_err(|_| bad())?;
    let scale =
        (fraction.len() as i64).checked_sub(exponent).and_then(|s| i32::try_from(s).ok()).ok_or_else(bad)?;
    Ok((scale, unscaled))
}

/// A decimal's text: plain digits when the exponent is small, else with an exponent, as Java's BigDecimal prints it.
pub fn format_decimal(scale: i32, unscaled: &BigInt) -> String {
    let digits = unscaled.magnitude().to_str_radix(10);
    let sign = if *unscaled < BigInt::ZERO { "-" } else { "" };
    let scale = i64::from(scale);
    let adjusted = digits.len() as i64 - 1 - scale;
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    if scale > 0 && adjusted >= -6 {
        let padded = format!("{digits:0>width$}", width = scale as usize + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale as usize);
        return format!("{sign}{whole}.{fraction}");
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}E{adjusted:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_print_as_java_prints_them() {
        for (text, printed) in [
            ("1.50", "1.50"),
            ("-0.001", "-0.001"),
            ("1e3", "1E+3"),
            ("123e-10", "1.23E-8"),
            ("12.5E+3", "1.25E+4"),
            ("0", "0"),
            (".5", "0.5"),
            ("5.", "5"),
        ] {
            let (scale, unscaled) = parse_decimal(text).expect(text);
            assert_eq!(format_decimal(scale, &unscaled), printed, "{text}");
            let bytes = encode_decimal(scale, &unscaled);
            assert_eq!(decode_decimal(&bytes), Some((scale, unscaled)));
        }
        for bad in ["", ".", "-", "1e", "1.-5", "a", "1e99999999999", "--1", "+-1"] {
            assert!(parse_decimal(bad).is_err(), "{bad}");
        }
        assert!(parse_varint("12a").is_err());
        assert_eq!(parse_varint("-7"), Ok(BigInt::from(-7)));
    }
}
