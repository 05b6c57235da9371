//! Values as Cassandra's tools print them: in JSON, as plain text, as CQL.
//!
//! The three differ: a `timestamp` has a blank in JSON and a T elsewhere; a frozen collection is hexadecimal digits as plain text;
//! a counter in JSON is the first eight bytes of its context, because sstabledump prints those. Where Cassandra gives up on a
//! value that does not fit its type, JSON holds its bytes as a text, and plain text is none.

use crate::json::quoted;
use crate::times;
use num_bigint::BigInt;
use types::collection::{Fields, elements, entries, vector_elements};
use types::duration::Duration;
use types::text::{format_hex, format_inet, inet_of, quote};
use types::{CqlType, UdtType, Value, float_text, number};

/// What a scalar is between two quotes, or without.
enum Scalar {
    /// Numbers, truths, durations and the like.
    Bare(String),
    /// What CQL and JSON put between quotes.
    Quoted(String),
}

fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// A duration without its "0ns".
fn duration_text(bytes: &[u8]) -> Option<String> {
    let duration = Duration::decode(bytes).ok()?;
    let is_none = duration == Duration::default();
    Some(if is_none { String::new() } else { duration.to_string() })
}

/// A scalar that is neither text nor bytes; `None` when the bytes are none of its type, or empty.
fn scalar(ty: &CqlType, bytes: &[u8]) -> Option<Scalar> {
    use Scalar::{Bare, Quoted};
    Some(match ty {
        CqlType::Boolean => Bare((*array::<1>(bytes)?.first()? != 0).to_string()),
        CqlType::Tinyint => Bare(i8::from_be_bytes(array(bytes)?).to_string()),
        CqlType::Smallint => Bare(i16::from_be_bytes(array(bytes)?).to_string()),
        CqlType::Int => Bare(i32::from_be_bytes(array(bytes)?).to_string()),
        CqlType::Bigint => Bare(i64::from_be_bytes(array(bytes)?).to_string()),
        CqlType::Counter => Bare(i64::from_be_bytes(*bytes.first_chunk()?).to_string()),
        CqlType::Float => Bare(float_text::format_float(f32::from_be_bytes(array(bytes)?))),
        CqlType::Double => Bare(float_text::format_double(f64::from_be_bytes(array(bytes)?))),
        CqlType::Varint if !bytes.is_empty() => Bare(BigInt::from_signed_bytes_be(bytes).to_string()),
        CqlType::Decimal => {
            let (scale, unscaled) = number::decode_decimal(bytes)?;
            Bare(number::format_decimal(scale, &unscaled))
        }
        CqlType::Duration => Bare(duration_text(bytes)?),
        CqlType::Uuid | CqlType::Timeuuid | CqlType::LexicalUuid => {
            Bare(uuid::Uuid::from_bytes(array(bytes)?).to_string())
        }
        CqlType::Inet => Quoted(format_inet(&inet_of(bytes)?)),
        CqlType::Timestamp => Quoted(times::timestamp(i64::from_be_bytes(array(bytes)?), 'T')),
        CqlType::Date => {
            let days = i64::from(u32::from_be_bytes(array(bytes)?)) - i64::from(types::datetime::EPOCH_DAY);
            Quoted(times::day(days))
        }
        CqlType::Time => Quoted(types::datetime::format_time(i64::from_be_bytes(array(bytes)?))),
        _ => return None,
    })
}

/// A value in JSON.
pub(crate) fn json(ty: &CqlType, bytes: &[u8]) -> String {
    json_of(ty, bytes).unwrap_or_else(|| quoted(&format!("0x{}", format_hex(bytes))))
}

fn json_of(ty: &CqlType, bytes: &[u8]) -> Option<String> {
    Some(match ty {
        CqlType::Frozen(inner) => return json_of(inner, bytes),
        CqlType::Ascii | CqlType::Text => quoted(std::str::from_utf8(bytes).ok()?),
        CqlType::Blob | CqlType::Custom(_) => quoted(&format!("0x{}", format_hex(bytes))),
        CqlType::List(e) | CqlType::Set(e) => {
            let items: Option<Vec<String>> =
                elements(bytes).map(|item| Some(json_or_null(e, item.ok()?))).collect();
            format!("[{}]", non_empty(bytes, items?)?.join(", "))
        }
        CqlType::Vector(e, n) => {
            let items: Option<Vec<String>> =
                vector_elements(e, *n, bytes).map(|item| Some(json(e, item.ok()?))).collect();
            format!("[{}]", non_empty(bytes, items?)?.join(", "))
        }
        CqlType::Map(k, v) => {
            let entry = |key: &[u8], value: &[u8]| format!("{}: {}", json_key(k, key), json(v, value));
            let items: Option<Vec<String>> =
                entries(bytes).map(|item| item.ok().map(|(key, value)| entry(key, value))).collect();
            format!("{{{}}}", non_empty(bytes, items?)?.join(", "))
        }
        CqlType::Tuple(types) => {
            let fields = fields(types.len(), bytes)?;
            let items = types.iter().zip(fields).map(|(ty, field)| json_or_null(ty, field));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        CqlType::Udt(udt) => json_udt(udt, bytes)?,
        // What Cassandra makes of no time at all.
        CqlType::Time if bytes.is_empty() => "\"null\"".into(),
        _ if bytes.is_empty() => "\"\"".into(),
        CqlType::Float | CqlType::Double => match scalar(ty, bytes)? {
            Scalar::Bare(text) if text.ends_with(|c: char| c.is_ascii_digit()) => text,
            _ => "null".into(),
        },
        CqlType::Timestamp => quoted(&times::timestamp(i64::from_be_bytes(array(bytes)?), ' ')),
        CqlType::Uuid | CqlType::Timeuuid | CqlType::LexicalUuid | CqlType::Duration => {
            match scalar(ty, bytes)? {
                Scalar::Bare(text) | Scalar::Quoted(text) => quoted(&text),
            }
        }
        _ => match scalar(ty, bytes)? {
            Scalar::Bare(text) => text,
            Scalar::Quoted(text) => quoted(&text),
        },
    })
}

fn json_or_null(ty: &CqlType, bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "null".into(), |bytes| json(ty, bytes))
}

/// A key of an object: a text already, or put between quotes.
fn json_key(ty: &CqlType, bytes: &[u8]) -> String {
    let text = json(ty, bytes);
    if text.starts_with('"') { text } else { quoted(&text) }
}

fn json_udt(udt: &UdtType, bytes: &[u8]) -> Option<String> {
    let fields = fields(udt.fields.len(), bytes)?;
    let item = |((name, ty), bytes): (&(_, CqlType), Option<&[u8]>)| {
        let name: &std::sync::Arc<str> = name;
        let is_lower = **name == name.to_lowercase();
        let name = if is_lower { quoted(name) } else { quoted(&format!("\"{name}\"")) };
        format!("{name}: {}", json_or_null(ty, bytes))
    };
    let items: Vec<String> = udt.fields.iter().zip(fields).map(item).collect();
    Some(format!("{{{}}}", items.join(", ")))
}

/// A collection of no bytes is none.
fn non_empty(bytes: &[u8], items: Vec<String>) -> Option<Vec<String>> {
    (!bytes.is_empty()).then_some(items)
}

/// The fields of a tuple or user type, nulls for those that are left out; `None` when they are more, or cut off.
fn fields(count: usize, bytes: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let mut fields = Vec::with_capacity(count);
    for field in Fields::new(bytes) {
        fields.push(field.ok()?);
    }
    if fields.len() > count {
        return None;
    }
    fields.resize(count, None);
    Some(fields)
}

/// A value as plain text: of keys, paths of cells, and in the representation of one line per row. `None` when the bytes are none of
/// the type.
pub(crate) fn plain(ty: &CqlType, bytes: &[u8]) -> Option<String> {
    Some(match ty {
        CqlType::Frozen(inner) => return plain(inner, bytes),
        CqlType::Ascii | CqlType::Text => std::str::from_utf8(bytes).ok()?.to_owned(),
        CqlType::Blob | CqlType::Custom(_) | CqlType::Counter => format_hex(bytes),
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) | CqlType::Vector(..) => format_hex(bytes),
        CqlType::Tuple(types) => plain_fields(types.iter(), bytes)?,
        CqlType::Udt(udt) => plain_fields(udt.fields.iter().map(|(_, ty)| ty), bytes)?,
        // Of these Cassandra takes no empty values.
        CqlType::Tinyint | CqlType::Smallint | CqlType::Date | CqlType::Time | CqlType::Duration
            if bytes.is_empty() =>
        {
            return None;
        }
        _ if bytes.is_empty() => String::new(),
        _ => match scalar(ty, bytes)? {
            Scalar::Bare(text) | Scalar::Quoted(text) => text,
        },
    })
}

fn plain_fields<'t>(types: impl Iterator<Item = &'t CqlType>, bytes: &[u8]) -> Option<String> {
    let mut fields = Fields::new(bytes);
    let mut texts = Vec::new();
    for ty in types {
        let Some(field) = fields.next() else { break };
        texts.push(match field.ok()? {
            None => "@".to_owned(),
            Some(bytes) => plain(ty, bytes)?.replace(':', "\\:").replace('@', "\\@"),
        });
    }
    fields.next().is_none().then(|| texts.join(":"))
}

/// A value as a CQL literal, as far as rows are printed with them.
pub(crate) fn cql(ty: &CqlType, bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "null".into() };
    cql_of(ty, bytes).unwrap_or_else(|| format!("0x{}", format_hex(bytes)))
}

fn cql_of(ty: &CqlType, bytes: &[u8]) -> Option<String> {
    Some(match ty {
        CqlType::Frozen(inner) => return cql_of(inner, bytes),
        CqlType::Ascii | CqlType::Text => quote(std::str::from_utf8(bytes).ok()?),
        CqlType::Blob | CqlType::Custom(_) => format!("0x{}", format_hex(bytes)),
        CqlType::List(e) => format!("[{}]", cql_elements(e, bytes)?),
        CqlType::Set(e) => format!("{{{}}}", cql_elements(e, bytes)?),
        CqlType::Map(k, v) => {
            let entry = |key: &[u8], value: &[u8]| format!("{}: {}", cql(k, Some(key)), cql(v, Some(value)));
            let items: Option<Vec<String>> =
                entries(bytes).map(|item| item.ok().map(|(key, value)| entry(key, value))).collect();
            format!("{{{}}}", items?.join(", "))
        }
        CqlType::Vector(e, n) => {
            let items: Option<Vec<String>> =
                vector_elements(e, *n, bytes).map(|item| Some(cql(e, Some(item.ok()?)))).collect();
            format!("[{}]", items?.join(", "))
        }
        CqlType::Tuple(types) => {
            let items: Option<Vec<String>> =
                types.iter().zip(Fields::new(bytes)).map(|(ty, field)| Some(cql(ty, field.ok()?))).collect();
            format!("({})", items?.join(", "))
        }
        CqlType::Udt(udt) => {
            let field = |((name, ty), field): (&(std::sync::Arc<str>, CqlType), Result<_, _>)| {
                let field: Option<&[u8]> = field.ok()?;
                Some(format!("{}: {}", ::cql::quoted(name), cql(ty, field)))
            };
            let zipped = udt.fields.iter().zip(Fields::new(bytes).map(|field| field.map_err(|_| ())));
            format!("{{{}}}", zipped.map(field).collect::<Option<Vec<_>>>()?.join(", "))
        }
        _ if bytes.is_empty() => "null".into(),
        _ => match scalar(ty, bytes)? {
            Scalar::Bare(text) => text,
            Scalar::Quoted(text) => format!("'{text}'"),
        },
    })
}

fn cql_elements(ty: &CqlType, bytes: &[u8]) -> Option<String> {
    let items: Option<Vec<String>> = elements(bytes).map(|item| Some(cql(ty, item.ok()?))).collect();
    Some(items?.join(", "))
}

/// A value that a person typed, as the bytes of a key column. Errors: in words.
pub(crate) fn parse(ty: &CqlType, text: &str) -> Result<Vec<u8>, String> {
    match ty {
        CqlType::Tuple(_) | CqlType::Udt(_) | CqlType::Frozen(_) | CqlType::Vector(..) => {
            // Frozen values are named by the digits of their bytes.
            let bytes =
                types::text::parse_hex(text).ok_or_else(|| format!("\"{text}\" is no hexadecimal number"))?;
            Value::decode(ty, &bytes).map(|_| bytes).map_err(|error| error.to_string())
        }
        _ => types::literal::from_text(ty, text).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Apache Cassandra 5.0.6 prints: `class|bytes|JSON|plain|CQL`; `!` where it gives up.
    const CASSANDRAS: &str = include_str!("../testdata/values.txt");

    fn unescaped(text: &str) -> String {
        let mut out = String::new();
        let mut symbols = text.chars();
        while let Some(symbol) = symbols.next() {
            out.push(match (symbol, symbol == '\\') {
                (_, true) => match symbols.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    other => other.expect("something is escaped"),
                },
                (symbol, false) => symbol,
            });
        }
        out
    }

    #[test]
    fn values_are_printed_as_cassandra_does() {
        let mut checked = 0;
        for line in CASSANDRAS.lines() {
            let parts: Vec<&str> = line.splitn(5, '|').collect();
            let [class, hex, in_json, in_plain, in_cql] = parts[..] else { panic!("{line}") };
            let ty = CqlType::parse_class(&class.replace('_', " ")).expect(class);
            let bytes = types::text::parse_hex(hex.trim_matches('-')).expect(hex);
            if !in_json.starts_with('!') {
                assert_eq!(json(&ty, &bytes), unescaped(in_json), "{line}");
            }
            if !in_plain.starts_with('!') {
                assert_eq!(plain(&ty, &bytes).as_deref(), Some(&*unescaped(in_plain)), "{line}");
            }
            if !in_cql.starts_with('!') {
                assert_eq!(cql(&ty, Some(&bytes)), unescaped(in_cql), "{line}");
            }
            checked += 1;
        }
        assert!(checked > 150);
    }

    #[test]
    fn damaged_values_are_shown_as_bytes() {
        assert_eq!(json(&CqlType::Int, &[1, 2]), "\"0x0102\"");
        assert_eq!(json(&CqlType::list(CqlType::Int), &[0, 0, 0, 9]), "\"0x00000009\"");
        assert_eq!(plain(&CqlType::Int, &[1, 2]), None);
    }

    #[test]
    fn counters_are_summed() {
        let mut context = vec![0, 1, 0x80, 0];
        context.extend_from_slice(&[7; 16]);
        context.extend_from_slice(&1i64.to_be_bytes());
        context.extend_from_slice(&(-5i64).to_be_bytes());
        assert_eq!(mutation::counter_total(&context), Some(-5));
        assert_eq!(mutation::counter_total(&context[..30]), None);
        assert_eq!(mutation::counter_total(&[0, 0]), Some(0));
    }
}
