//! Values as JSON text: `SELECT JSON` and `toJson`. Spelled as Cassandra spells it, blanks included.

use crate::error::Result;
use types::{CqlType, Value, datetime, text};

/// The JSON of a function's argument; null for none, and for an empty value of a type that empty values are none of.
/// Floats that are no numbers become null, as JSON has no word for them.
pub(crate) fn text(ty: &CqlType, value: Option<&[u8]>) -> Result<String> {
    let mut out = String::new();
    match value.map(|bytes| Value::decode(ty, bytes)).transpose()? {
        None => out.push_str("null"),
        Some(Value::Empty) if !matches!(ty.unfrozen(), CqlType::Udt(_)) => out.push_str("null"),
        Some(value) => put(&mut out, &value, ty),
    }
    Ok(out)
}

/// A row as one object: names that are not all lower case are quoted inside their quotes.
pub(crate) fn row<'v>(
    fields: impl Iterator<Item = (&'v str, &'v CqlType, Option<&'v [u8]>)>,
) -> Result<String> {
    let mut out = String::from("{");
    for (index, (name, ty, value)) in fields.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        put_name(&mut out, name);
        out.push_str(": ");
        match value {
            Some(bytes) => put(&mut out, &Value::decode(ty, bytes)?, ty),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    Ok(out)
}

fn put_name(out: &mut String, name: &str) {
    if name.to_lowercase() == name {
        put_text(out, name);
    } else {
        put_text(out, &format!("\"{name}\""));
    }
}

fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn put(out: &mut String, value: &Value, ty: &CqlType) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Empty => put_empty(out, ty),
        Value::Text(v) => put_text(out, v),
        Value::Float(v) if !v.is_finite() => out.push_str("null"),
        Value::Double(v) if !v.is_finite() => out.push_str("null"),
        Value::Blob(v) => out.push_str(&format!("\"0x{}\"", text::format_hex(v))),
        Value::Timestamp(v) => out.push_str(&format!("\"{}\"", datetime::format_timestamp_with(*v, ' '))),
        Value::Date(v) => out.push_str(&format!("\"{}\"", datetime::format_date(*v))),
        Value::Time(v) => out.push_str(&format!("\"{}\"", datetime::format_time(*v))),
        Value::Inet(v) => out.push_str(&format!("\"{}\"", text::format_inet(v))),
        Value::Uuid(v) => out.push_str(&format!("\"{v}\"")),
        Value::Duration(v) => out.push_str(&format!("\"{v}\"")),
        Value::List(items) | Value::Set(items) | Value::Vector(items) => {
            put_items(out, items.iter().map(|item| (item, ty.element_type().unwrap_or(ty))));
        }
        Value::Tuple(items) => {
            let types: &[CqlType] = match ty.unfrozen() {
                CqlType::Tuple(types) => types,
                _ => &[],
            };
            let missing = types.len().saturating_sub(items.len());
            let nulls = std::iter::repeat_n(&Value::Null, missing);
            put_items(out, items.iter().chain(nulls).zip(types));
        }
        Value::Map(pairs) => put_map(out, pairs, ty),
        Value::Udt(fields) => put_fields(out, fields.iter().map(|(_, value)| value), ty),
        plain => out.push_str(&plain.to_cql()),
    }
}

/// A value of no bytes is an empty text, which reads back as it; a user type has all its fields, null.
fn put_empty(out: &mut String, ty: &CqlType) {
    match ty.unfrozen() {
        CqlType::Udt(_) => put_fields(out, std::iter::empty(), ty),
        CqlType::Boolean | CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) | CqlType::Vector(..) => {
            out.push_str("null");
        }
        _ => out.push_str("\"\""),
    }
}

/// The fields of a user type; those that are missing at the end are null.
fn put_fields<'v>(out: &mut String, values: impl Iterator<Item = &'v Value>, ty: &CqlType) {
    let CqlType::Udt(udt) = ty.unfrozen() else { return };
    out.push('{');
    let values = values.chain(std::iter::repeat(&Value::Null));
    for (index, ((name, ty), value)) in udt.fields.iter().zip(values).enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        put_name(out, name);
        out.push_str(": ");
        put(out, value, ty);
    }
    out.push('}');
}

fn put_items<'v>(out: &mut String, items: impl Iterator<Item = (&'v Value, &'v CqlType)>) {
    out.push('[');
    for (index, (item, ty)) in items.enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        put(out, item, ty);
    }
    out.push(']');
}

/// Keys are texts in JSON whatever they are in CQL.
fn put_map(out: &mut String, pairs: &[(Value, Value)], ty: &CqlType) {
    let CqlType::Map(key_type, value_type) = ty.unfrozen() else { return };
    out.push('{');
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        let mut written = String::new();
        put(&mut written, key, key_type);
        if written.starts_with('"') {
            out.push_str(&written);
        } else {
            put_text(out, &written);
        }
        out.push_str(": ");
        put(out, value, value_type);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::literal::from_text;

    fn shown(ty: &CqlType, literal: &str) -> String {
        text(ty, Some(&from_text(ty, literal).expect("a literal"))).expect("valid")
    }

    #[test]
    fn values_are_written_as_cassandra_writes_them() {
        assert_eq!(shown(&CqlType::Text, "a\"b\\c\té\u{1}"), r#""a\"b\\c\té\u0001""#);
        assert_eq!(shown(&CqlType::Double, "1e10"), "1.0E10");
        assert_eq!(shown(&CqlType::Double, "NaN"), "null");
        assert_eq!(shown(&CqlType::Decimal, "12.3450"), "12.3450");
        assert_eq!(shown(&CqlType::Blob, "0xcafe"), "\"0xcafe\"");
        assert_eq!(text(&CqlType::Int, None).expect("null"), "null");
        let map = CqlType::map(CqlType::Int, CqlType::list(CqlType::Text));
        let value = Value::Map(vec![(Value::Int(1), Value::List(vec![Value::text("x"), Value::text("y")]))]);
        let bytes = value.encode(&map).expect("encodes");
        assert_eq!(text(&map, Some(&bytes)).expect("valid"), r#"{"1": ["x", "y"]}"#);
        let tuple = CqlType::tuple(vec![CqlType::Int, CqlType::Text]);
        let short = types::collection::build_tuple([Some(&[0u8, 0, 0, 1][..])]);
        assert_eq!(text(&tuple, Some(&short)).expect("valid"), "[1, null]");
        // Empty is not null, but for a function whose argument it is.
        let empties = CqlType::tuple(vec![CqlType::Int, CqlType::Inet, CqlType::Timestamp, CqlType::Text]);
        let fields = types::collection::build_tuple([Some(&[][..]); 4]);
        assert_eq!(text(&empties, Some(&fields)).expect("valid"), r#"["", "", "", ""]"#);
        assert_eq!(text(&CqlType::Int, Some(&[])).expect("valid"), "null");
        let rows = row([("v", &CqlType::Int, Some(&[][..]))].into_iter());
        assert_eq!(rows.expect("valid"), r#"{"v": ""}"#);
        let before = text(&CqlType::Timestamp, Some(&i64::MIN.to_be_bytes())).expect("valid");
        assert_eq!(before, "\"-292275055-05-16 16:47:04.192Z\"");
        let fields = [("a", &CqlType::Int, None), ("Upper", &CqlType::Int, Some(&[0u8, 0, 0, 5][..]))];
        assert_eq!(row(fields.into_iter()).expect("valid"), r#"{"a": null, "\"Upper\"": 5}"#);
    }
}
