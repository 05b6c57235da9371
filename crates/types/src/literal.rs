//! The text of a scalar to its wire bytes: what stands in a CQL literal, a JSON string or a command line.

use crate::collection;
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
        // A value of no bytes, as Cassandra has it for these two.
        CqlType::Timestamp | CqlType::Inet if text.is_empty() => Vec::new(),
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
        CqlType::Tuple(fields) => fields_from_text(fields.iter(), text, ty)?,
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) | CqlType::Udt(_) | CqlType::Vector(..) => {
            return Err(bad(&ty.to_string()));
        }
    };
    ty.validate(&bytes)?;
    Ok(bytes)
}

/// The same where a text stands for any value, as in JSON and in the fields of a tuple's text: an empty one is the value of
/// no bytes, of types that have one and no other text for it; a boolean is false.
pub fn from_any_text(ty: &CqlType, text: &str) -> Result<Vec<u8>, TypeError> {
    let ty = ty.unfrozen();
    match ty {
        CqlType::Boolean if text.is_empty() => Ok(vec![0]),
        CqlType::Int
        | CqlType::Bigint
        | CqlType::Counter
        | CqlType::Float
        | CqlType::Double
        | CqlType::Decimal
        | CqlType::Uuid
        | CqlType::Timeuuid
            if text.is_empty() =>
        {
            Ok(Vec::new())
        }
        _ => from_text(ty, text),
    }
}

/// `3:foo`: fields with colons between, `@` being null; a backslash takes both their meaning. Fewer fields are as many.
fn fields_from_text<'t>(
    types: impl ExactSizeIterator<Item = &'t CqlType>,
    text: &str,
    ty: &CqlType,
) -> Result<Vec<u8>, TypeError> {
    let texts = fields_of(text);
    let count = types.len();
    if texts.len() > count {
        return Err(TypeError::Literal(format!(
            "Invalid tuple literal: too many elements. Type {ty} expects {count} but got {}",
            texts.len()
        )));
    }
    let mut out = Vec::new();
    for (text, ty) in texts.iter().zip(types) {
        let field = match *text {
            "@" => None,
            text => Some(field_from_text(ty.unfrozen(), &text.replace("\\:", ":").replace("\\@", "@"))?),
        };
        collection::put_element(&mut out, field.as_deref());
    }
    Ok(out)
}

/// Parts at the colons that no backslash stands before; none of an empty text.
fn fields_of(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut begin = 0;
    for (at, _) in text.match_indices(':') {
        if !text[..at].ends_with('\\') {
            out.push(&text[begin..at]);
            begin = at + 1;
        }
    }
    if !text.is_empty() {
        out.push(&text[begin..]);
    }
    out
}

/// What has no text of its own in a field is written as its bytes, without `0x`.
fn field_from_text(ty: &CqlType, text: &str) -> Result<Vec<u8>, TypeError> {
    match ty {
        CqlType::Udt(udt) => fields_from_text(udt.fields.iter().map(|(_, ty)| ty), text, ty),
        CqlType::Blob | CqlType::Custom(_) | CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) => {
            let bytes = text::parse_hex(text)
                .ok_or_else(|| TypeError::Literal(format!("cannot parse '{text}' as hex bytes")))?;
            ty.validate(&bytes)?;
            Ok(bytes)
        }
        _ => from_any_text(ty, text),
    }
}

/// Digits with an optional sign; no space.
fn integer<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn float<T: std::str::FromStr>(text: &str) -> Option<T> {
    let word = text.trim_start_matches('-').to_ascii_lowercase();
    let spelled = match word.as_str() {
        // There is one NaN in Java, without a sign.
        "nan" => return "NaN".parse().ok(),
        "infinity" => true,
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
            (CqlType::Inet, "::1", "'0:0:0:0:0:0:0:1'"),
            (CqlType::Inet, "", "''"),
            (CqlType::Timestamp, "", "''"),
            (CqlType::Int, "+5", "5"),
            (CqlType::Double, "-NaN", "NaN"),
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

    #[test]
    fn tuples_have_a_text_with_colons() {
        let tuple = CqlType::tuple(vec![CqlType::Int, CqlType::Text]);
        for (text, cql) in [
            ("3:foo", "(3, 'foo')"),
            ("+3:foo", "(3, 'foo')"),
            ("@:foo", "(null, 'foo')"),
            ("3:@", "(3, null)"),
            ("3:\\@", "(3, '@')"),
            ("3:@@", "(3, '@@')"),
            ("3:a\\:b", "(3, 'a:b')"),
            ("3:a\\\\:b", "(3, 'a\\:b')"),
            ("3:\\", "(3, '\\')"),
            ("3", "(3)"),
            (":foo", "('', 'foo')"),
            (":", "('', '')"),
            ("", "(null)"),
        ] {
            let bytes = from_text(&tuple, text).expect(text);
            assert_eq!(Value::decode(&tuple, &bytes).expect(text).to_cql(), cql, "{text}");
        }
        for bad in ["::", "3:foo:", "x:foo", " 3:foo", "2147483648:foo", "3\\:foo", "[3, \"foo\"]"] {
            assert!(from_text(&tuple, bad).is_err(), "{bad}");
        }
        let pair = CqlType::tuple(vec![CqlType::Int, CqlType::Int]);
        let nested = CqlType::tuple(vec![pair.clone(), CqlType::list(CqlType::Int), CqlType::Blob]);
        for (text, cql) in
            [("1\\:2", "((1, 2))"), ("@:00000000:00ff", "(null, [], 0x00ff)"), ("@\\:@", "((null, null))")]
        {
            let bytes = from_text(&nested, text).expect(text);
            assert_eq!(Value::decode(&nested, &bytes).expect(text).to_cql(), cql, "{text}");
        }
        for bad in ["1:00", "@:00", "@:@:0x00", "@:@:0"] {
            assert!(from_text(&nested, bad).is_err(), "{bad}");
        }
    }
}
