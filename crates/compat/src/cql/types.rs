//! Types and values of results: from the wire to a text that is the same on every run, and bound values back.
//!
//! Written from the protocol's specification, and on its own: the server's codec is not checked against itself.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A type of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// By its name in CQL.
    Native(&'static str),
    /// A Java class that no version of the protocol has a code for.
    Custom(String),
    /// `list<…>`, `set<…>`.
    Sequence(&'static str, Box<Type>),
    /// `map<…, …>`.
    Map(Box<Type>, Box<Type>),
    /// A user type: its name and fields.
    User(String, Vec<(String, Type)>),
    /// `tuple<…>`.
    Tuple(Vec<Type>),
    /// `vector<…, n>`.
    Vector(Box<Type>, usize),
}

const NATIVE: [(u16, &str, &str); 20] = [
    (0x01, "ascii", "AsciiType"),
    (0x02, "bigint", "LongType"),
    (0x03, "blob", "BytesType"),
    (0x04, "boolean", "BooleanType"),
    (0x05, "counter", "CounterColumnType"),
    (0x06, "decimal", "DecimalType"),
    (0x07, "double", "DoubleType"),
    (0x08, "float", "FloatType"),
    (0x09, "int", "Int32Type"),
    (0x0B, "timestamp", "TimestampType"),
    (0x0C, "uuid", "UUIDType"),
    (0x0D, "text", "UTF8Type"),
    (0x0E, "varint", "IntegerType"),
    (0x0F, "timeuuid", "TimeUUIDType"),
    (0x10, "inet", "InetAddressType"),
    (0x11, "date", "SimpleDateType"),
    (0x12, "time", "TimeType"),
    (0x13, "smallint", "ShortType"),
    (0x14, "tinyint", "ByteType"),
    (0x15, "duration", "DurationType"),
];

impl Type {
    /// The native type of a code of the protocol.
    pub fn of_code(code: u16) -> Option<Type> {
        NATIVE.iter().find(|(known, ..)| *known == code).map(|(_, name, _)| Type::Native(name))
    }

    /// What a Java class stands for: native types and vectors of them; others stay classes.
    pub fn of_class(class: &str) -> Type {
        let simple = class.strip_prefix("org.apache.cassandra.db.marshal.").unwrap_or(class);
        let vector = simple.strip_prefix("VectorType(").and_then(|rest| rest.strip_suffix(')'));
        if let Some((element, count)) = vector.and_then(|rest| rest.rsplit_once(','))
            && let Ok(count) = count.trim().parse()
        {
            return Type::Vector(Box::new(Type::of_class(element.trim())), count);
        }
        match NATIVE.iter().find(|(.., known)| *known == simple) {
            Some((_, name, _)) => Type::Native(name),
            None => Type::Custom(simple.into()),
        }
    }

    /// As in CQL.
    pub fn text(&self) -> String {
        match self {
            Type::Native(name) => (*name).to_owned(),
            Type::Custom(class) => format!("'{class}'"),
            Type::Sequence(kind, element) => format!("{kind}<{}>", element.text()),
            Type::Map(key, value) => format!("map<{}, {}>", key.text(), value.text()),
            Type::User(name, fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(field, ty)| format!("{field}: {}", ty.text())).collect();
                format!("{name}{{{}}}", fields.join(", "))
            }
            Type::Tuple(items) => {
                format!("tuple<{}>", items.iter().map(Type::text).collect::<Vec<_>>().join(", "))
            }
            Type::Vector(element, count) => format!("vector<{}, {count}>", element.text()),
        }
    }

    /// A value as text; bytes that are none of the type are shown in hexadecimal with a question mark.
    pub fn value(&self, bytes: Option<&[u8]>) -> String {
        match bytes {
            None => "null".into(),
            Some([]) if !matches!(self, Type::Native("text" | "ascii" | "blob")) => "empty".into(),
            Some(bytes) => self.shown(bytes).unwrap_or_else(|| format!("{}?", hex(bytes))),
        }
    }

    fn shown(&self, bytes: &[u8]) -> Option<String> {
        let all = |items: Vec<String>, open: &str, close: &str| format!("{open}{}{close}", items.join(", "));
        match self {
            Type::Native(name) => native(name, bytes),
            Type::Custom(_) => Some(hex(bytes)),
            Type::Sequence(kind, element) => {
                let items = counted(bytes, 1)?.iter().map(|item| element.value(*item)).collect();
                let (open, close) = if *kind == "list" { ("[", "]") } else { ("{", "}") };
                Some(all(items, open, close))
            }
            Type::Map(key, value) => {
                let items = counted(bytes, 2)?;
                let pairs = items.chunks(2).map(|pair| match pair {
                    [k, v] => format!("{}: {}", key.value(*k), value.value(*v)),
                    _ => String::new(),
                });
                Some(all(pairs.collect(), "{", "}"))
            }
            Type::User(_, fields) => {
                let values = sized(bytes)?;
                let shown = fields.iter().enumerate().map(|(index, (name, ty))| {
                    format!("{name}: {}", ty.value(values.get(index).copied().flatten()))
                });
                Some(all(shown.collect(), "{", "}"))
            }
            Type::Tuple(types) => {
                let values = sized(bytes)?;
                let shown = types
                    .iter()
                    .enumerate()
                    .map(|(index, ty)| ty.value(values.get(index).copied().flatten()));
                Some(all(shown.collect(), "(", ")"))
            }
            Type::Vector(element, count) => {
                let items = vector(element, *count, bytes)?;
                Some(all(items.iter().map(|item| element.value(Some(item))).collect(), "[", "]"))
            }
        }
    }

    /// Bytes of a value written as `value` shows it; `0x…` are bytes of any type; `…*1000` has the same bytes so often.
    pub fn encode(&self, text: &str) -> Result<Vec<u8>, String> {
        let told = || format!("{text} is not a {}", self.text());
        if let (Type::Native(_), Some((one, times))) = (self, text.rsplit_once('*'))
            && let Ok(times) = times.parse()
        {
            return Ok(self.encode(one)?.repeat(times));
        }
        if let Some(digits) = text.strip_prefix("0x") {
            return unhex(digits).ok_or_else(told);
        }
        if text == "empty" {
            return Ok(Vec::new());
        }
        match self {
            Type::Native(name) => encode_native(name, text).ok_or_else(told),
            Type::Custom(_) => Err(told()),
            Type::Sequence(_, element) => {
                let items = split(text.get(1..text.len() - 1).ok_or_else(told)?);
                let mut out = (items.len() as i32).to_be_bytes().to_vec();
                items.iter().try_for_each(|item| put(&mut out, element, item))?;
                Ok(out)
            }
            Type::Map(key, value) => {
                let items = split(text.get(1..text.len() - 1).ok_or_else(told)?);
                let mut out = (items.len() as i32).to_be_bytes().to_vec();
                for item in items {
                    let (k, v) = item.split_once(": ").ok_or_else(told)?;
                    put(&mut out, key, k)?;
                    put(&mut out, value, v)?;
                }
                Ok(out)
            }
            Type::User(_, fields) => fields_of(text, fields.iter().map(|(_, ty)| ty)),
            Type::Tuple(types) => fields_of(text, types.iter()),
            Type::Vector(element, _) => {
                let items = split(text.get(1..text.len() - 1).ok_or_else(told)?);
                items.iter().try_fold(Vec::new(), |mut out, item| {
                    out.extend(element.encode(item)?);
                    Ok(out)
                })
            }
        }
    }
}

fn fields_of<'t>(text: &str, types: impl Iterator<Item = &'t Type>) -> Result<Vec<u8>, String> {
    let items = split(text.get(1..text.len() - 1).unwrap_or_default());
    let mut out = Vec::new();
    for (item, ty) in items.iter().zip(types) {
        put(&mut out, ty, item)?;
    }
    Ok(out)
}

fn put(out: &mut Vec<u8>, ty: &Type, text: &str) -> Result<(), String> {
    if text == "null" {
        out.extend_from_slice(&(-1i32).to_be_bytes());
        return Ok(());
    }
    let bytes = ty.encode(text)?;
    out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(&bytes);
    Ok(())
}

/// Parts at the commas outside of quotes and brackets.
pub fn split(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let (mut depth, mut quoted) = (0, false);
    for c in text.chars() {
        match c {
            '\'' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                out.push(String::new());
                continue;
            }
            _ => {}
        }
        out.last_mut().expect("there is one").push(c);
    }
    let out: Vec<String> = out.iter().map(|part| part.trim().to_owned()).collect();
    if out[..] == [String::new()] { Vec::new() } else { out }
}

/// `[int]` values, each with its length, behind their number; `per`: values of one element.
fn counted(bytes: &[u8], per: usize) -> Option<Vec<Option<&[u8]>>> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let items = sized(rest)?;
    (items.len() == usize::try_from(i32::from_be_bytes(*count)).ok()? * per).then_some(items)
}

/// Values each behind its length, -1 for null.
fn sized(mut bytes: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let mut out = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<4>() {
        bytes = rest;
        out.push(match usize::try_from(i32::from_be_bytes(*len)) {
            Ok(len) => {
                let item = bytes.get(..len)?;
                bytes = &bytes[len..];
                Some(item)
            }
            Err(_) => None,
        });
    }
    bytes.is_empty().then_some(out)
}

fn vector<'b>(element: &Type, count: usize, mut bytes: &'b [u8]) -> Option<Vec<&'b [u8]>> {
    let fixed = match element {
        Type::Native("boolean") => Some(1),
        Type::Native("int" | "float") => Some(4),
        Type::Native("bigint" | "double" | "timestamp") => Some(8),
        Type::Native("uuid" | "timeuuid") => Some(16),
        Type::Vector(inner, n) if matches!(**inner, Type::Native("float" | "int")) => Some(4 * n),
        _ => None,
    };
    let mut out = Vec::new();
    for _ in 0..count {
        let len = match fixed {
            Some(len) => len,
            None => unsigned_vint(&mut bytes)? as usize,
        };
        out.push(bytes.get(..len)?);
        bytes = &bytes[len..];
    }
    bytes.is_empty().then_some(out)
}

fn unsigned_vint(bytes: &mut &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first()?;
    let extra = first.leading_ones() as usize;
    let mut value = if extra >= 8 { 0 } else { u64::from(first & (0xFF >> extra)) };
    for byte in rest.get(..extra)? {
        value = value << 8 | u64::from(*byte);
    }
    *bytes = &rest[extra..];
    Some(value)
}

fn signed_vint(bytes: &mut &[u8]) -> Option<i64> {
    let value = unsigned_vint(bytes)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

fn native(name: &str, bytes: &[u8]) -> Option<String> {
    Some(match name {
        "ascii" | "text" => quoted(std::str::from_utf8(bytes).ok()?),
        "blob" => hex(bytes),
        "boolean" => (*<&[u8; 1]>::try_from(bytes).ok()? != [0]).to_string(),
        "tinyint" => i8::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "smallint" => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "int" => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "bigint" | "counter" => i64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "float" => format!("{:?}", f32::from_be_bytes(bytes.try_into().ok()?)),
        "double" => format!("{:?}", f64::from_be_bytes(bytes.try_into().ok()?)),
        "varint" => integer(bytes),
        "decimal" => {
            let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
            format!("{}e{}", integer(unscaled), -i64::from(i32::from_be_bytes(*scale)))
        }
        "timestamp" => {
            let millis = i64::from_be_bytes(bytes.try_into().ok()?);
            let (days, within) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
            format!("{}T{}Z", date(days), &clock(within * 1_000_000)[..12])
        }
        "date" => date(i64::from(u32::from_be_bytes(bytes.try_into().ok()?)) - (1 << 31)),
        "time" => clock(i64::from_be_bytes(bytes.try_into().ok()?)),
        "uuid" | "timeuuid" => {
            let digits = &hex(bytes)[2..];
            let part = |range: std::ops::Range<usize>| digits.get(range).map(str::to_owned);
            [part(0..8)?, part(8..12)?, part(12..16)?, part(16..20)?, part(20..32)?].join("-")
        }
        "inet" => match <[u8; 4]>::try_from(bytes) {
            Ok(four) => Ipv4Addr::from(four).to_string(),
            Err(_) => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string(),
        },
        "duration" => {
            let mut rest = bytes;
            let (months, days) = (signed_vint(&mut rest)?, signed_vint(&mut rest)?);
            format!("{months}mo{days}d{}ns", signed_vint(&mut rest)?)
        }
        _ => return None,
    })
}

fn encode_native(name: &str, text: &str) -> Option<Vec<u8>> {
    Some(match name {
        "ascii" | "text" => text.strip_prefix('\'')?.strip_suffix('\'')?.replace("''", "'").into_bytes(),
        "boolean" => vec![u8::from(text.parse::<bool>().ok()?)],
        "tinyint" => text.parse::<i8>().ok()?.to_be_bytes().to_vec(),
        "smallint" => text.parse::<i16>().ok()?.to_be_bytes().to_vec(),
        "int" => text.parse::<i32>().ok()?.to_be_bytes().to_vec(),
        "bigint" | "counter" | "timestamp" | "time" => text.parse::<i64>().ok()?.to_be_bytes().to_vec(),
        "varint" => text.parse::<i64>().ok()?.to_be_bytes().to_vec(),
        "decimal" => [&[0; 4][..], &text.parse::<i64>().ok()?.to_be_bytes()].concat(),
        "float" => text.parse::<f32>().ok()?.to_be_bytes().to_vec(),
        "double" => text.parse::<f64>().ok()?.to_be_bytes().to_vec(),
        "date" => ((text.parse::<i64>().ok()? + (1 << 31)) as u32).to_be_bytes().to_vec(),
        "uuid" | "timeuuid" => unhex(&text.replace('-', ""))?,
        "inet" => match text.parse().ok()? {
            std::net::IpAddr::V4(address) => address.octets().to_vec(),
            std::net::IpAddr::V6(address) => address.octets().to_vec(),
        },
        _ => return None,
    })
}

/// In single quotes; characters that would break the line, and the column separator's neighbours, as `\u{…}`.
fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        match c {
            '\'' => out.push_str("''"),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("0x"), |out, byte| out + &format!("{byte:02x}"))
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}

/// A two's complement integer of any length in decimal.
fn integer(bytes: &[u8]) -> String {
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let mut magnitude: Vec<u8> = bytes.to_vec();
    if negative {
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            let (sum, over) = (!*byte).overflowing_add(u8::from(carry));
            *byte = sum;
            carry = over;
        }
    }
    let mut digits = Vec::new();
    while magnitude.iter().any(|byte| *byte != 0) {
        let mut rest = 0u16;
        for byte in &mut magnitude {
            let value = rest << 8 | u16::from(*byte);
            *byte = (value / 10) as u8;
            rest = value % 10;
        }
        digits.push(char::from(b'0' + rest as u8));
    }
    let digits: String = if digits.is_empty() { "0".into() } else { digits.iter().rev().collect() };
    if negative { format!("-{digits}") } else { digits }
}

/// A day since the Unix epoch in the Gregorian calendar (the algorithm of days and eras of 400 years).
fn date(days: i64) -> String {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

fn clock(nanos: i64) -> String {
    let seconds = nanos / 1_000_000_000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:09}", seconds % 60, nanos % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &'static str, bytes: &[u8]) -> String {
        Type::Native(name).value(Some(bytes))
    }

    #[test]
    fn values_are_shown() {
        assert_eq!(shown("varint", &[0xff, 0x00]), "-256");
        assert_eq!(shown("varint", &[1, 0, 0, 0, 0, 0, 0, 0, 0]), "18446744073709551616");
        assert_eq!(shown("decimal", &[0, 0, 0, 2, 0x7b]), "123e-2");
        assert_eq!(shown("timestamp", &1_709_208_000_001i64.to_be_bytes()), "2024-02-29T12:00:00.001Z");
        assert_eq!(shown("date", &(1u32 << 31).to_be_bytes()), "1970-01-01");
        assert_eq!(shown("duration", &[2, 4, 0x81, 0x00]), "1mo2d128ns");
        assert_eq!(shown("text", b"it's\n"), "'it''s\\u{a}'");
        assert_eq!(shown("int", &[1]), "0x01?");
        assert_eq!(shown("int", &[]), "empty");
        let vector = Type::of_class(
            "org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 2)",
        );
        assert_eq!(vector.text(), "vector<float, 2>");
        assert_eq!(vector.value(Some(&[0x3f, 0x80, 0, 0, 0, 0, 0, 0])), "[1.0, 0.0]");
    }

    #[test]
    fn bound_values_come_back() {
        let list = Type::Sequence("list", Box::new(Type::Native("int")));
        let map = Type::Map(Box::new(Type::Native("text")), Box::new(list));
        let text = "{'a, b': [1, -2], 'c': []}";
        assert_eq!(map.value(Some(&map.encode(text).expect("encodes"))), text);
        let tuple = Type::Tuple(vec![Type::Native("int"), Type::Native("uuid")]);
        let text = "(null, 00000000-0000-1000-8000-00000000000a)";
        assert_eq!(tuple.value(Some(&tuple.encode(text).expect("encodes"))), text);
        assert!(tuple.encode("(x, y)").is_err());
    }
}
