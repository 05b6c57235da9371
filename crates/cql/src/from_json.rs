//! JSON to values: what INSERT JSON and `from_json` take.
//!
//! Numbers keep their digits, so that varints and decimals of any size come through whole. A text may stand for anything
//! that has a literal, and for whole collections where they are keys of a map.

use crate::error::{Result, invalid};
use crate::limits;
use types::{CqlType, collection, literal};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Boolean(bool),
    /// Digits as written.
    Number(String),
    /// A string, unescaped.
    Text(String),
    /// `[a, b]`
    List(Vec<Json>),
    /// `{"a": b}`, in order; of equal names the last counts.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads the first value of a text; what follows it is not looked at, as in Cassandra. Errors: in words.
    pub fn parse(text: &str) -> std::result::Result<Json, String> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        parser.value()
    }

    /// Java's name of what its parser makes of the value, for errors.
    fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Boolean(_) => "Boolean",
            Json::Number(digits) if digits.contains(['.', 'e', 'E']) => "Double",
            Json::Number(digits) if digits.parse::<i32>().is_ok() => "Integer",
            Json::Number(digits) if digits.parse::<i64>().is_ok() => "Long",
            Json::Number(_) => "BigInteger",
            Json::Text(_) => "String",
            Json::List(_) => "ArrayList",
            Json::Object(_) => "LinkedHashMap",
        }
    }

    /// As Java prints it, for errors.
    fn text(&self) -> String {
        match self {
            Json::Null => "null".to_string(),
            Json::Boolean(value) => value.to_string(),
            Json::Number(text) | Json::Text(text) => text.clone(),
            Json::List(items) => {
                format!("[{}]", items.iter().map(Json::text).collect::<Vec<_>>().join(", "))
            }
            Json::Object(entries) => {
                let entries: Vec<String> = entries.iter().map(|(k, v)| format!("{k}={}", v.text())).collect();
                format!("{{{}}}", entries.join(", "))
            }
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

type Parsed<T> = std::result::Result<T, String>;

impl Parser<'_> {
    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn bad<T>(&mut self) -> Parsed<T> {
        self.space();
        match self.text[self.at..].chars().next() {
            Some(found) => Err(format!("unexpected character '{found}' at byte {}", self.at)),
            None => Err("unexpected end of input".to_string()),
        }
    }

    fn value(&mut self) -> Parsed<Json> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::list),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words =
                    [("null", Json::Null), ("true", Json::Boolean(true)), ("false", Json::Boolean(false))];
                for (word, value) in words {
                    let rest = &self.text[self.at..];
                    let ends = |tail: &str| !tail.starts_with(|c: char| c.is_alphanumeric());
                    if rest.strip_prefix(word).is_some_and(ends) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                self.bad()
            }
        }
    }

    fn nested(&mut self, rule: fn(&mut Self) -> Parsed<Json>) -> Parsed<Json> {
        if self.depth >= limits::NESTING_DEPTH {
            return Err(format!("nested deeper than {} levels", limits::NESTING_DEPTH));
        }
        self.depth += 1;
        self.at += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    fn list(&mut self) -> Parsed<Json> {
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value()?);
            if self.take(b']') {
                return Ok(Json::List(items));
            }
            if !self.take(b',') {
                return self.bad();
            }
        }
    }

    fn object(&mut self) -> Parsed<Json> {
        let mut entries: Vec<(String, Json)> = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(entries));
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.bad();
            }
            let name = self.string()?;
            if !self.take(b':') {
                return self.bad();
            }
            entries.push((name, self.value()?));
            if self.take(b'}') {
                return Ok(Json::Object(entries));
            }
            if !self.take(b',') {
                return self.bad();
            }
        }
    }

    fn number(&mut self) -> Parsed<Json> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let digits = &rest[..end.unwrap_or(rest.len())];
        let whole = digits.strip_prefix('-').unwrap_or(digits);
        let leading = whole.len() > 1 && whole.starts_with('0') && whole.as_bytes()[1].is_ascii_digit();
        let pointed = whole.ends_with('.') || whole.contains(".e") || whole.contains(".E");
        if leading
            || pointed
            || types::number::parse_decimal(digits).is_err()
            || !whole.starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(format!("'{digits}' is no number"));
        }
        self.at += digits.len();
        Ok(Json::Number(digits.to_string()))
    }

    fn string(&mut self) -> Parsed<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find(['"', '\\']) else {
                return Err("unexpected end of input in a string".to_string());
            };
            if rest[..end].contains(|c: char| c < ' ') {
                return Err("control character in a string".to_string());
            }
            out.push_str(&rest[..end]);
            self.at += end + 1;
            if rest.as_bytes()[end] == b'"' {
                return Ok(out);
            }
            out.push(self.escaped()?);
        }
    }

    fn escaped(&mut self) -> Parsed<char> {
        let Some(byte) = self.text.as_bytes().get(self.at).copied() else {
            return Err("unexpected end of input in a string".to_string());
        };
        // What follows a backslash is one byte, or the escape is wrong anyway.
        if !byte.is_ascii() {
            return Err("unknown escape in a string".to_string());
        }
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => byte as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hex()?;
                if (0xD800..0xDC00).contains(&high)
                    && let Some(low) = self.low_surrogate()
                {
                    return Ok(char::from_u32(0x10000 + ((high - 0xD800) << 10) + low).unwrap_or('?'));
                }
                // Half a pair is no character: Java's encoder writes a question mark for it.
                char::from_u32(high).unwrap_or('?')
            }
            _ => return Err("unknown escape in a string".to_string()),
        })
    }

    /// The ten bits of the second half of a pair, if that is what comes next.
    fn low_surrogate(&mut self) -> Option<u32> {
        let digits = self.text[self.at..].strip_prefix("\\u")?.get(..4)?;
        let low = u32::from_str_radix(digits, 16).ok()?.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
        self.at += 6;
        Some(low)
    }

    fn hex(&mut self) -> Parsed<u32> {
        let digits = self.text.get(self.at..self.at + 4).unwrap_or("");
        self.at += digits.len();
        u32::from_str_radix(digits, 16).map_err(|_| "four hexadecimal digits expected".to_string())
    }
}

/// A name in JSON as CQL means it: folded to lower case unless it is in double quotes of its own.
pub(crate) fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(inside) => inside.to_string(),
        None => name.to_lowercase(),
    }
}

/// The columns of an INSERT JSON by name. Errors: no object.
pub(crate) fn columns(text: &str) -> Result<Vec<(String, Json)>> {
    match Json::parse(text) {
        Ok(Json::Object(entries)) => Ok(entries.into_iter().map(|(k, v)| (folded(&k), v)).collect()),
        Ok(Json::Null) => invalid("Got null for INSERT JSON values"),
        Ok(other) => invalid(format!(
            "Could not decode JSON string as a map: it is of type {} (String was: {text})",
            other.kind()
        )),
        Err(error) => {
            invalid(format!("Could not decode JSON string as a map: {error}. (String was: {text})"))
        }
    }
}

/// The wire form of a JSON value as a value of a type; `None` for null.
/// Errors: Cassandra's texts, such as `Expected an int value, but got a Double: 1.5`.
pub(crate) fn wire(ty: &CqlType, json: &Json) -> Result<Option<Vec<u8>>> {
    if *json == Json::Null {
        return Ok(None);
    }
    let ty = ty.unfrozen();
    let bytes = match ty {
        CqlType::List(_) | CqlType::Set(_) | CqlType::Vector(..) => sequence(ty, json)?,
        CqlType::Map(key, value) => map(key, value, json)?,
        CqlType::Tuple(fields) => tuple(fields, json)?,
        CqlType::Udt(udt) => user_type(udt, json)?,
        _ => scalar(ty, json)?,
    };
    Ok(Some(bytes))
}

/// A text where a collection is asked for holds one: that is how keys of maps are written.
fn unwrapped(json: &Json) -> Result<std::borrow::Cow<'_, Json>> {
    match json {
        Json::Text(text) => match Json::parse(text) {
            Ok(inner) => Ok(std::borrow::Cow::Owned(inner)),
            Err(error) => invalid(format!("Could not decode JSON string '{text}': {error}")),
        },
        other => Ok(std::borrow::Cow::Borrowed(other)),
    }
}

fn expected<T>(what: &str, json: &Json) -> Result<T> {
    invalid(format!("Expected {what}, but got a {}: {}", json.kind(), json.text()))
}

fn sequence(ty: &CqlType, json: &Json) -> Result<Vec<u8>> {
    let json = unwrapped(json)?;
    let Json::List(items) = &*json else { return expected("a list", &json) };
    let is_set = matches!(ty, CqlType::Set(_));
    let Some(element) = ty.element_type() else { return expected("a list", &json) };
    let mut wires = Vec::with_capacity(items.len());
    for item in items {
        match wire(element, item)? {
            Some(bytes) => wires.push(std::borrow::Cow::Owned(bytes)),
            None => {
                return invalid(format!("Invalid null element in {}", if is_set { "set" } else { "list" }));
            }
        }
    }
    if let CqlType::Vector(element, dimension) = ty {
        if wires.len() != *dimension as usize {
            return invalid(format!(
                "List had incorrect size: expected {dimension} but given {}; {}",
                wires.len(),
                json.text()
            ));
        }
        let mut out = Vec::new();
        wires.iter().for_each(|bytes| collection::put_vector_element(element, bytes, &mut out));
        return Ok(out);
    }
    if is_set {
        wires = crate::value::sort_elements(element, wires);
    }
    Ok(collection::build(wires.iter().map(|bytes| &**bytes)))
}

fn map(key_type: &CqlType, value_type: &CqlType, json: &Json) -> Result<Vec<u8>> {
    let json = unwrapped(json)?;
    let Json::Object(entries) = &*json else { return expected("a map", &json) };
    let mut pairs = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let key = wire(key_type, &Json::Text(key.clone()))?;
        let Some(value) = wire(value_type, value)? else { return invalid("Invalid null value in map") };
        pairs.push((std::borrow::Cow::Owned(key.unwrap_or_default()), std::borrow::Cow::Owned(value)));
    }
    let pairs = crate::value::sort_pairs(key_type, pairs);
    Ok(collection::build_map(pairs.iter().map(|(k, v)| (&**k, &**v))))
}

fn tuple(fields: &[CqlType], json: &Json) -> Result<Vec<u8>> {
    let json = unwrapped(json)?;
    let Json::List(items) = &*json else { return expected("a list representation of a tuple", &json) };
    let count = fields.len();
    if items.len() > count {
        return invalid(format!("Tuple contains extra items (expected {count}): {}", json.text()));
    }
    if items.len() < count {
        return invalid(format!("Tuple is missing items (expected {count}): {}", json.text()));
    }
    let values: Result<Vec<_>> = fields.iter().zip(items).map(|(ty, item)| wire(ty, item)).collect();
    Ok(collection::build_tuple(values?.iter().map(Option::as_deref)))
}

fn user_type(udt: &types::UdtType, json: &Json) -> Result<Vec<u8>> {
    let json = unwrapped(json)?;
    let Json::Object(entries) = &*json else { return expected("a map", &json) };
    let entries: Vec<(String, &Json)> = entries.iter().map(|(k, v)| (folded(k), v)).collect();
    if let Some((unknown, _)) = entries.iter().find(|(k, _)| !udt.fields.iter().any(|(f, _)| **f == **k)) {
        return invalid(format!("Unknown field '{unknown}' in value of user defined type {}", udt.name));
    }
    let mut values = Vec::with_capacity(udt.fields.len());
    for (field, ty) in &udt.fields {
        let given = entries.iter().rev().find(|(name, _)| **name == **field);
        values.push(given.map_or(Ok(None), |(_, value)| wire(ty, value))?);
    }
    Ok(collection::build_tuple(values.iter().map(Option::as_deref)))
}

fn scalar(ty: &CqlType, json: &Json) -> Result<Vec<u8>> {
    use CqlType as T;
    let whole = |digits: &str| !digits.contains(['.', 'e', 'E']);
    let text = match (ty, json) {
        (T::Float | T::Double, Json::Text(text)) if text.contains(['n', 'N', 'i', 'I']) => {
            if !matches!(text.as_str(), "NaN" | "-NaN" | "+NaN" | "Infinity" | "-Infinity" | "+Infinity") {
                return invalid(format!("Unable to make {ty} from '{text}'"));
            }
            text.trim_start_matches('+').to_string()
        }
        (T::Float | T::Double, Json::Text(text)) => text.strip_prefix('+').unwrap_or(text).to_string(),
        (T::Decimal | T::Varint, Json::Number(text) | Json::Text(text)) => {
            return literal::from_any_text(ty, text).or_else(|_| {
                invalid(format!("Value '{text}' is not a valid representation of a {ty} value"))
            });
        }
        (T::Blob | T::Custom(_), Json::Text(text)) => {
            let bad =
                |why: String| invalid(format!("Value '{text}' is not a valid blob representation: {why}"));
            return match text.strip_prefix("0x") {
                None => bad(format!("String representation of blob is missing 0x prefix: {text}")),
                Some(digits) => match types::text::parse_hex(digits) {
                    Some(bytes) => Ok(bytes),
                    None => bad(format!("cannot parse '{digits}' as hex bytes")),
                },
            };
        }
        (T::Empty, Json::Text(text)) => {
            return if text.is_empty() { Ok(Vec::new()) } else { invalid(format!("'{text}' is not empty")) };
        }
        (_, Json::Text(text)) => text.clone(),
        (T::Empty, json) => return invalid(format!("Expected an empty string, but got: {}", json.text())),
        (T::Boolean, Json::Boolean(value)) => value.to_string(),
        (T::Tinyint | T::Smallint | T::Int | T::Bigint | T::Counter | T::Timestamp, Json::Number(digits))
            if whole(digits) && (*ty != T::Int || digits.parse::<i32>().is_ok()) =>
        {
            digits.clone()
        }
        // A whole number has no sign of zero.
        (T::Float | T::Double, Json::Number(digits)) if digits == "-0" => "0".to_string(),
        (T::Float | T::Double, Json::Number(digits)) => digits.clone(),
        _ => return expected(wanted(ty), json),
    };
    literal::from_any_text(ty, &text).map_err(crate::Error::from)
}

/// What is asked for, in Cassandra's words.
fn wanted(ty: &CqlType) -> &'static str {
    match ty {
        CqlType::Ascii => "an ascii string",
        CqlType::Text => "a UTF-8 string",
        CqlType::Boolean => "a boolean value",
        CqlType::Tinyint => "a byte value",
        CqlType::Smallint => "a short value",
        CqlType::Int => "an int value",
        CqlType::Bigint | CqlType::Counter => "a bigint value",
        CqlType::Float => "a float value",
        CqlType::Double => "a double value",
        CqlType::Decimal => "a decimal value",
        CqlType::Varint => "a varint value",
        CqlType::Timestamp => "a long or a datestring representation of a timestamp value",
        CqlType::Date => "a string representation of a date value",
        CqlType::Time => "a string representation of a time value",
        CqlType::Inet => "a string representation of an inet value",
        CqlType::Duration => "a string representation of a duration",
        CqlType::Uuid | CqlType::Timeuuid | CqlType::LexicalUuid => "a string representation of a uuid",
        _ => "a string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Value;

    fn told(ty: &str, json: &str) -> String {
        let ty = CqlType::parse(ty).expect("a type");
        let json = Json::parse(json).expect("JSON");
        match wire(&ty, &json) {
            Ok(Some(bytes)) => Value::decode(&ty, &bytes).expect("valid").to_cql(),
            Ok(None) => "null".to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn values_as_cassandra_takes_them() {
        for (ty, json, want) in [
            ("int", "5", "5"),
            ("int", "\"5\"", "5"),
            ("int", "null", "null"),
            ("int", "1.5", "Expected an int value, but got a Double: 1.5"),
            ("int", "2147483648", "Expected an int value, but got a Long: 2147483648"),
            ("int", "[1]", "Expected an int value, but got a ArrayList: [1]"),
            ("int", "{\"a\":1}", "Expected an int value, but got a LinkedHashMap: {a=1}"),
            ("text", "5", "Expected a UTF-8 string, but got a Integer: 5"),
            ("varint", "123456789012345678901234567890", "123456789012345678901234567890"),
            ("varint", "1.5", "Value '1.5' is not a valid representation of a varint value"),
            ("decimal", "1234567890.123456789012345", "1234567890.123456789012345"),
            ("text", r#""\u00e9\n\"q\" \ud83d\ude00""#, "'é\n\"q\" 😀'"),
            ("text", r#""\ud800 \udc00 \ud800\u0041""#, "'? ? ?A'"),
            ("int", "\"\"", "''"),
            ("inet", "\"\"", "''"),
            ("boolean", "\"\"", "false"),
            ("varint", "\"\"", "Value '' is not a valid representation of a varint value"),
            ("double", "-0", "0.0"),
            ("double", "\"nan\"", "Unable to make double from 'nan'"),
            ("map<int, int>", "{\"\": 1}", "{'': 1}"),
            ("blob", "\"0xcafe\"", "0xcafe"),
            (
                "blob",
                "\"cafe\"",
                "Value 'cafe' is not a valid blob representation: String representation of blob is missing 0x prefix: cafe",
            ),
            ("list<int>", "[1, \"2\"]", "[1, 2]"),
            ("list<int>", "[null]", "Invalid null element in list"),
            ("set<text>", "[\"b\", \"a\", \"b\"]", "{'a', 'b'}"),
            ("map<int, text>", "{\"2\": \"x\", \"1\": \"y\"}", "{1: 'y', 2: 'x'}"),
            ("map<frozen<list<int>>, int>", "{\"[1, 2]\": 3}", "{[1, 2]: 3}"),
            ("map<int, text>", "{\"1\": null}", "Invalid null value in map"),
            ("tuple<int, text>", "[null, \"a\"]", "(null, 'a')"),
            ("tuple<int, text>", "[1]", "Tuple is missing items (expected 2): [1]"),
            ("vector<float, 2>", "[1, 2.5]", "[1.0, 2.5]"),
            ("vector<float, 2>", "[1]", "List had incorrect size: expected 2 but given 1; [1]"),
            ("timestamp", "1577836800001", "'2020-01-01T00:00:00.001Z'"),
            ("boolean", "\"TRUE\"", "true"),
        ] {
            assert_eq!(told(ty, json), want, "{ty} {json}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            "x",
            "{",
            "{\"k\":1",
            "{\"k\":1, }",
            "[1,]",
            "{\"k\":007}",
            "\"\\q\"",
            r#""\ud80""#,
            r#""\ud800\u00""#,
            "1.",
            "nul",
            "-",
            "\"\\é\"",
        ] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
        assert!(Json::parse(&"[".repeat(100_000)).is_err());
        assert_eq!(columns("{\"K\":1,\"\\\"Mixed\\\"\":2}").expect("an object")[1].0, "Mixed");
        assert!(columns("[1]").is_err() && columns("null").is_err());
    }
}
