//! JSON as it stands: numbers keep their digits, members their order, so that two writers can be compared.

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`, `true`, `false` or a number, as written.
    Word(String),
    /// A string, unescaped.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Map(Vec<(String, Json)>),
}

/// Reads one document; the error says where it is none.
pub fn parse(text: &str) -> Result<Json, String> {
    let mut parser = Parser { bytes: text.as_bytes(), at: 0 };
    let value = parser.value()?;
    parser.space();
    if parser.at < parser.bytes.len() { Err(parser.wrong("the end")) } else { Ok(value) }
}

/// The first place where two differ, as a path and both values; numbers are equal when their values are.
pub fn difference(ours: &Json, theirs: &Json) -> Option<String> {
    match (ours, theirs) {
        (Json::List(mine), Json::List(other)) => {
            let inner = mine.iter().zip(other).enumerate();
            let found =
                inner.filter_map(|(at, (mine, other))| Some(format!("[{at}]{}", difference(mine, other)?)));
            let mut found = found;
            found.next().or_else(|| {
                (mine.len() != other.len())
                    .then(|| format!(": {} elements here, {} there", mine.len(), other.len()))
            })
        }
        (Json::Map(mine), Json::Map(other)) => {
            for (name, value) in mine {
                match other.iter().find(|(known, _)| known == name) {
                    Some((_, theirs)) => {
                        if let Some(inner) = difference(value, theirs) {
                            return Some(format!(".{name}{inner}"));
                        }
                    }
                    None => return Some(format!(".{name} is only here: {}", shown(value))),
                }
            }
            let missing = other.iter().find(|(name, _)| !mine.iter().any(|(known, _)| known == name));
            missing.map(|(name, value)| format!(".{name} is only there: {}", shown(value)))
        }
        (Json::Word(mine), Json::Word(other))
            if mine == other || number(mine).is_some_and(|mine| Some(mine) == number(other)) =>
        {
            None
        }
        _ if ours == theirs => None,
        _ => Some(format!(": here {}, there {}", shown(ours), shown(theirs))),
    }
}

/// The value, cut where it is long.
fn shown(value: &Json) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(400) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Sign, digits without zeros at either end, and the power of ten behind them.
fn number(text: &str) -> Option<(bool, String, i64)> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let mut exponent: i64 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    exponent -= fraction.len() as i64;
    let digits = format!("{whole}{fraction}");
    let trimmed = digits.trim_end_matches('0');
    exponent += (digits.len() - trimmed.len()) as i64;
    let digits = trimmed.trim_start_matches('0');
    if digits.is_empty() {
        return Some((negative, "0".into(), 0));
    }
    Some((negative, digits.to_owned(), exponent))
}

struct Parser<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl Parser<'_> {
    fn wrong(&self, wanted: &str) -> String {
        let end = (self.at + 40).min(self.bytes.len());
        let found = String::from_utf8_lossy(self.bytes.get(self.at..end).unwrap_or_default());
        format!("{wanted} is missing at byte {} of JSON: {found}", self.at)
    }

    fn space(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// Whether that byte comes next, behind space; then it is passed.
    fn passes(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Result<Json, String> {
        if self.passes(b'[') {
            let mut items = Vec::new();
            while !self.passes(b']') {
                if !items.is_empty() && !self.passes(b',') {
                    return Err(self.wrong("a comma"));
                }
                items.push(self.value()?);
            }
            return Ok(Json::List(items));
        }
        if self.passes(b'{') {
            let mut members = Vec::new();
            while !self.passes(b'}') {
                if !members.is_empty() && !self.passes(b',') {
                    return Err(self.wrong("a comma"));
                }
                let name = self.text()?;
                if !self.passes(b':') {
                    return Err(self.wrong("a colon"));
                }
                members.push((name, self.value()?));
            }
            return Ok(Json::Map(members));
        }
        if self.bytes.get(self.at) == Some(&b'"') {
            return Ok(Json::Text(self.text()?));
        }
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| b",]} \n\r\t".contains(byte)).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.wrong("a value"));
        }
        self.at += end;
        Ok(Json::Word(String::from_utf8_lossy(&rest[..end]).into_owned()))
    }

    fn text(&mut self) -> Result<String, String> {
        if !self.passes(b'"') {
            return Err(self.wrong("a string"));
        }
        let mut out: Vec<u16> = Vec::new();
        loop {
            let rest = &self.bytes[self.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            let plain = plain.ok_or_else(|| self.wrong("the end of a string"))?;
            out.extend(String::from_utf8_lossy(&rest[..plain]).encode_utf16());
            self.at += plain + 1;
            if rest[plain] == b'"' {
                return Ok(String::from_utf16_lossy(&out));
            }
            let escape = self.bytes.get(self.at).copied().unwrap_or(b'"');
            self.at += 1;
            out.push(match escape {
                b'n' => 10,
                b't' => 9,
                b'r' => 13,
                b'b' => 8,
                b'f' => 12,
                b'u' => {
                    let digits = self.bytes.get(self.at..self.at + 4).unwrap_or_default();
                    let unit =
                        std::str::from_utf8(digits).ok().and_then(|text| u16::from_str_radix(text, 16).ok());
                    let unit = unit.ok_or_else(|| self.wrong("four digits"))?;
                    self.at += 4;
                    unit
                }
                other => other.into(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_and_compared() {
        let of = |text: &str| parse(text).expect("is JSON");
        let left = of(r#"[{"a": 1.50, "b": "x\u00e9\"\ud83d\ude00", "c": [true, null]}]"#);
        assert_eq!(difference(&left, &of(r#"[{"c":[true,null],"b":"xé\"😀","a":15e-1}]"#)), None);
        let told = |right: &str| difference(&left, &of(right)).expect("differs");
        assert!(told(r#"[{"a": 1.51, "b": "xé\"😀", "c": [true, null]}]"#).starts_with("[0].a: here"));
        assert!(told(r#"[{"a": 1.5, "b": "xé\"😀", "c": [true]}]"#).starts_with("[0].c: 2 elements"));
        assert!(told("[{}]").starts_with("[0].a is only here"));
        assert!(parse("[1").is_err());
        assert!(parse("{\"a\" 1}").is_err());
    }

    #[test]
    fn numbers_are_what_they_are_worth() {
        assert_eq!(number("1.0E10"), number("10000000000"));
        assert_eq!(number("-0.0"), number("-0"));
        assert_ne!(number("12345678901234567890"), number("12345678901234567891"));
        assert_eq!(number("NaN"), None);
    }
}
