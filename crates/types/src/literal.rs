//! The text of a scalar to its wire bytes: what stands in a CQL literal, a JSON string or a command line.

use crate::cql_type::CqlType;
use crate::datetime;
use crate::duration::Duration;
use crate::error::TypeError;
use crate::number;
use crate::text;

/// The wire bytes of a scalar's text, without quotes. Blobs take hexadecimal digits, with or without `0x`.
pub fn from_text(ty: &CqlType, text: &str) -> Result<Vec<u8>, TypeError> {
    let bad = |what: &str| TypeError::Literal(format!("Unable to make {what} from '{text}'"));
    let bytes = match ty {
        CqlType::Ascii | CqlType::Text => text.as_bytes().to_vec(),
        CqlType::Blob | CqlType::Custom(_) => {
            let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
            text::parse_hex(digits)
                .ok_or_else(|| TypeError::Literal(format!("cannot parse '{digits}' as hex bytes")))?
        }
        CqlType::Boolean => match text.to_ascii_lowercase().as_str() {
            "true" => vec![1],
            "false" => vec![0],
            _ => return Err(bad("boolean")),
        },
        CqlType::Tinyint => integer::<i8>(text).ok_or_else(|| bad("byte"))?.to_be_bytes().to_vec(),
        CqlType::Smallint => integer::<i16>(text).ok_or_else(|| bad("short"))?.to_be_bytes().to_vec(),
        CqlType::Int => integer::<i32>(text).ok_or_else(|| bad("int"))?.to_be_bytes().to_vec(),
        CqlType::Bigint | CqlType::Counter => {
            integer::<i64>(text).ok_or_else(|| bad("long"))?.to_be_bytes().to_vec()
        }
        CqlType::Float => float::<f32>(text).ok_or_else(|| bad("float"))?.to_be_bytes().to_vec(),
        CqlType::Double => float::<f64>(text).ok_or_else(|| bad("double"))?.to_be_bytes().to_vec(),
        CqlType::Varint => number::parse_varint(text)?.to_signed_bytes_be(),
        CqlType::Decimal => {
            let (scale, unscaled) = number::parse_decimal(text)?;
            number::encode_decimal(scale, &unscaled)
        }
        CqlType::Timestamp => datetime::parse_timestamp(text)?.to_be_bytes().to_vec(),
        CqlType::Date => datetime::parse_date(text)?.to_be_bytes().to_vec(),
        CqlType::Time => datetime::parse_time(text)?.to_be_bytes().to_vec(),
        CqlType::Duration => Duration::parse(text)?.encode(),
        CqlType::Uuid | CqlType::Timeuuid => text::parse_uuid(text)
            .ok_or_else(|| TypeError::Literal(format!("unable to parse '{text}' as a UUID")))?
            .as_bytes()
            .to_vec(),
        // As Java reads one.
        CqlType::LexicalUuid if text.is_empty() => Vec::new(),
        CqlType::LexicalUuid => lenient_uuid(text)
            .ok_or_else(|| TypeError::Literal(format!("unable to make UUID from '{text}'")))?
            .to_be_bytes()
            .to_vec(),
        CqlType::Inet => {
            let address = text::parse_inet(text)
                .ok_or_else(|| TypeError::Literal(format!("Unable to make inet address from '{text}'")))?;
            text::inet_bytes(&address)
        }
        CqlType::Empty => Vec::new(),
        CqlType::Frozen(inner) => return from_text(inner, text),
        CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Tuple(_)
        | CqlType::Udt(_)
        | CqlType::Vector(..) => return Err(bad(&ty.to_string())),
    };
    ty.validate(&bytes)?;
    Ok(bytes)
}

/// Digits with an optional minus sign; no plus sign, no space.
fn integer<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.starts_with('+') {
        return None;
    }
    text.parse().ok()
}

fn float<T: std::str::FromStr>(text: &str) -> Option<T> {
    let word = text.trim_start_matches('-').to_ascii_lowercase();
    let spelled = match word.as_str() {
        "nan" | "infinity" => true,
        _ => word.starts_with(|c: char| c.is_ascii_digit() || c == '.'),
    };
    if spelled { text.parse().ok() } else { None }
}

/// A UUID of five hexadecimal numbers, of which the higher digits may be missing or, beyond what has room, are ignored.
fn lenient_uuid(text: &str) -> Option<u128> {
    const DIGITS: [u32; 5] = [8, 4, 4, 4, 12];
    let mut parts = text.split('-');
    let mut uuid = 0u128;
    for digits in DIGITS {
        let part = parts.next().filter(|part| part.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        let number = u64::from_str_radix(part, 16).ok().filter(|number| *number <= i64::MAX as u64)?;
        uuid = uuid << (4 * digits) | u128::from(number & ((1 << (4 * digits)) - 1));
    }
    (text.len() <= 36 && parts.next().is_none()).then_some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn text_to_bytes_and_back() {
        for (ty, text, cql) in [
            (CqlType::Int, "-5", "-5"),
            (CqlType::Text, "it's", "'it''s'"),
            (CqlType::Blob, "0xCAFE", "0xcafe"),
            (CqlType::Boolean, "TRUE", "true"),
            (CqlType::Double, "1.5e3", "1500.0"),
            (CqlType::Float, "NaN", "NaN"),
            (CqlType::Timestamp, "2020-02-29 12:00+0000", "'2020-02-29T12:00:00.000Z'"),
            (CqlType::Date, "2020-02-29", "'2020-02-29'"),
            (CqlType::Time, "01:02:03", "'01:02:03.000000000'"),
            (CqlType::Duration, "1d2h", "1d2h"),
            (CqlType::Inet, "::1", "'::1'"),
            (CqlType::Decimal, "12.50", "12.50"),
            (CqlType::Varint, "123456789012345678901234567890", "123456789012345678901234567890"),
            (CqlType::Uuid, "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000"),
            (CqlType::LexicalUuid, "1-2-3-4-5", "00000001-0002-0003-0004-000000000005"),
        ] {
            let bytes = from_text(&ty, text).expect(text);
            let value = Value::decode(&ty, &bytes).expect(text);
            assert_eq!(value.to_cql(), cql);
        }
        for (ty, text) in [
            (CqlType::Int, "2147483648"),
            (CqlType::Int, "+5"),
            (CqlType::Tinyint, "128"),
            (CqlType::Ascii, "é"),
            (CqlType::Blob, "0x123"),
            (CqlType::Double, "inf"),
            (CqlType::Timeuuid, "123e4567-e89b-42d3-a456-426614174000"),
            (CqlType::Inet, "localhost"),
            (CqlType::list(CqlType::Int), "[1]"),
        ] {
            assert!(from_text(&ty, text).is_err(), "{ty} {text}");
        }
    }
}
