//! Text to tokens: words, quoted names, strings, numbers, uuids, durations, hex, symbols; comments and blanks vanish.
//!
//! A minus is always a symbol of its own; the parser joins it to the number that follows.
//! Positions are Cassandra's: lines from 1, characters within the line from 0.

use crate::error::{Error, Result};
use crate::limits;

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// An unquoted word, as written; names fold it to lower case.
    Word(String),
    /// A name in double quotes, unescaped.
    Quoted(String),
    /// A string in single quotes or between `$$`, unescaped.
    Text(String),
    /// Decimal digits.
    Integer(String),
    /// Digits with a point or an exponent.
    Float(String),
    /// A uuid in its five groups.
    Uuid(u128),
    /// The digits after `0x`.
    Hex(String),
    /// A duration literal such as `1y2mo3d`, without its sign.
    Duration(String),
    /// Punctuation.
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// A token and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Byte offset of its first character.
    pub start: usize,
    /// Byte offset after its last character.
    pub end: usize,
}

/// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 28] = [
    "!=", "<=", ">=", "+=", "-=", "..", "(", ")", "[", "]", "{", "}", "<", ">", "=", ",", ";", ":", ".", "?",
    "+", "-", "*", "/", "%", "&", "|", "@",
];

/// Cuts `text` into tokens, the last one [`Kind::End`].
pub fn tokens(text: &str) -> Result<Vec<Token>> {
    if text.len() > limits::STATEMENT_BYTES {
        return Err(Error::Syntax {
            text: format!(
                "line 1:0 statement of {} bytes is longer than {}",
                text.len(),
                limits::STATEMENT_BYTES
            ),
        });
    }
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0 };
    let mut out = Vec::with_capacity(text.len() / 5 + 2);
    loop {
        lexer.skip_blank()?;
        let start = lexer.at;
        if start == text.len() {
            out.push(Token { kind: Kind::End, start, end: start });
            return Ok(out);
        }
        let kind = lexer.token()?;
        debug_assert!(lexer.at > start, "a token has at least one byte");
        out.push(Token { kind, start, end: lexer.at });
    }
}

/// Line (from 1) and character within it (from 0) of a byte offset.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count());
    (line, column)
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn fail<T>(&self, offset: usize, what: &str) -> Result<T> {
        let (line, column) = position(self.text, offset);
        Err(Error::Syntax { text: format!("line {line}:{column} {what}") })
    }

    fn skip_blank(&mut self) -> Result<()> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b' ' | b'\t' | b'\n' | b'\r', _) => self.at += 1,
                (b'-', b'-') | (b'/', b'/') => self.skip_line(),
                (b'/', b'*') => match self.text[self.at + 2..].find("*/") {
                    Some(length) => self.at += length + 4,
                    None => {
                        return self.fail(self.text.len(), "mismatched character '<EOF>' expecting '*'");
                    }
                },
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|&b| b == b'\n' || b == b'\r').unwrap_or(rest.len());
    }

    fn token(&mut self) -> Result<Kind> {
        let first = self.peek(0);
        if first.is_ascii_hexdigit()
            && let Some(uuid) = self.uuid()
        {
            return Ok(uuid);
        }
        match first {
            b'\'' => self.quoted(b'\'').map(Kind::Text),
            b'"' => {
                let start = self.at;
                let name = self.quoted(b'"')?;
                if name.is_empty() {
                    return self.fail(start, "no viable alternative at input '\"\"'");
                }
                Ok(Kind::Quoted(name))
            }
            b'$' if self.peek(1) == b'$' => self.dollars(),
            b'0' if matches!(self.peek(1), b'x' | b'X') => self.hex(),
            b'0'..=b'9' => self.number(),
            b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            _ => self.symbol(),
        }
    }

    fn uuid(&mut self) -> Option<Kind> {
        let candidate = self.text.as_bytes().get(self.at..self.at + 36)?;
        let mut value = 0u128;
        for (index, &byte) in candidate.iter().enumerate() {
            if matches!(index, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return None;
                }
            } else {
                value = value << 4 | u128::from((byte as char).to_digit(16)?);
            }
        }
        self.at += 36;
        Some(Kind::Uuid(value))
    }

    fn quoted(&mut self, quote: u8) -> Result<String> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(length) = rest.bytes().position(|b| b == quote) else {
                let _ = start;
                let mark = quote as char;
                return self
                    .fail(self.text.len(), &format!("mismatched character '<EOF>' expecting '{mark}'"));
            };
            out.push_str(&rest[..length]);
            self.at += length + 1;
            if self.peek(0) != quote {
                return Ok(out);
            }
            out.push(quote as char);
            self.at += 1;
        }
    }

    fn dollars(&mut self) -> Result<Kind> {
        let body = &self.text[self.at + 2..];
        let Some(length) = body.find("$$") else {
            return self.fail(self.text.len(), "mismatched character '<EOF>' expecting '$'");
        };
        self.at += length + 4;
        Ok(Kind::Text(body[..length].to_string()))
    }

    fn hex(&mut self) -> Result<Kind> {
        let start = self.at;
        self.at += 2;
        let length = self.bytes[self.at..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
        let digits = &self.text[self.at..self.at + length];
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return self.fail(start, &format!("no viable alternative at input '0x{digits}'"));
        }
        self.at += length;
        Ok(Kind::Hex(digits.to_string()))
    }

    fn digits(&self, from: usize) -> usize {
        self.bytes[self.at + from..].iter().take_while(|b| b.is_ascii_digit()).count()
    }

    fn number(&mut self) -> Result<Kind> {
        let start = self.at;
        let mut length = self.digits(0);
        let mut float = false;
        if self.peek(length) == b'.' && self.peek(length + 1) != b'.' {
            float = true;
            length += 1;
            length += self.digits(length);
        }
        if matches!(self.peek(length), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(length + 1), b'+' | b'-'));
            let exponent = self.digits(length + 1 + sign);
            if exponent > 0 {
                float = true;
                length += 1 + sign + exponent;
            }
        }
        let tail = self.bytes[start + length..]
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || **b >= 0x80)
            .count();
        if tail == 0 {
            self.at += length;
            let text = self.text[start..self.at].to_string();
            return Ok(if float { Kind::Float(text) } else { Kind::Integer(text) });
        }
        let mut whole = &self.text[start..];
        if let Some(end) =
            whole.char_indices().find(|(_, c)| !c.is_alphanumeric() && *c != 'µ').map(|(i, _)| i)
        {
            whole = &whole[..end];
        }
        if float || !is_duration(whole) {
            return self.fail(start, &format!("no viable alternative at input '{whole}'"));
        }
        self.at += whole.len();
        Ok(Kind::Duration(whole.to_string()))
    }

    fn word(&mut self) -> Result<Kind> {
        let start = self.at;
        if let Some(length) = alternative_duration(&self.bytes[start..]) {
            self.at += length;
            return Ok(Kind::Duration(self.text[start..self.at].to_string()));
        }
        let length =
            self.bytes[start..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        self.at += length;
        let word = &self.text[start..self.at];
        Ok(if is_iso_duration(word) {
            Kind::Duration(word.to_string())
        } else {
            Kind::Word(word.to_string())
        })
    }

    fn symbol(&mut self) -> Result<Kind> {
        let rest = &self.bytes[self.at..];
        if let Some(symbol) = SYMBOLS.iter().find(|s| rest.starts_with(s.as_bytes())) {
            self.at += symbol.len();
            return Ok(Kind::Symbol(symbol));
        }
        let character = self.text[self.at..].chars().next().unwrap_or('\u{fffd}');
        self.fail(self.at, &format!("no viable alternative at character '{character}'"))
    }
}

/// Whether every number in `text` is followed by a unit, as in `1y2mo3w4d5h6m7s8ms9us10ns`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 12] = ["mo", "ms", "us", "µs", "ns", "y", "w", "d", "h", "m", "s", "µ"];
    let mut rest = text.to_lowercase();
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = &rest[digits..];
        let Some(unit) = UNITS.iter().filter(|u| **u != "µ").find(|u| after.starts_with(**u)) else {
            return false;
        };
        if digits == 0 {
            return false;
        }
        rest = after[unit.len()..].to_string();
    }
    true
}

/// ISO 8601 durations with designators: `P1Y2M3DT4H5M6S`, `P3W`.
fn is_iso_duration(word: &str) -> bool {
    let Some(body) = word.strip_prefix('P') else {
        return false;
    };
    let mut units = "YMWDTHMS".chars();
    let mut digits = 0;
    let mut seen = false;
    for character in body.chars() {
        if character.is_ascii_digit() {
            digits += 1;
            continue;
        }
        if !units.by_ref().any(|u| u == character) || (digits == 0) != (character == 'T') {
            return false;
        }
        seen |= character != 'T';
        digits = 0;
    }
    seen && digits == 0 && !body.ends_with('T')
}

/// ISO 8601's alternative form `P0001-02-03T04:05:06`; its length, if `bytes` starts with one.
fn alternative_duration(bytes: &[u8]) -> Option<usize> {
    const SHAPE: &[u8] = b"P9999-99-99T99:99:99";
    let candidate = bytes.get(..SHAPE.len())?;
    let fits =
        candidate.iter().zip(SHAPE).all(|(&b, &s)| if s == b'9' { b.is_ascii_digit() } else { b == s });
    fits.then_some(SHAPE.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokens(text).expect("lexes").into_iter().map(|t| t.kind).collect()
    }

    #[test]
    fn words_strings_and_comments() {
        let got = kinds("Sel \"A\"\"b\" 'it''s' $$x'y$$ -- c\n /* d */ ; // e");
        let want = [
            Kind::Word("Sel".into()),
            Kind::Quoted("A\"b".into()),
            Kind::Text("it's".into()),
            Kind::Text("x'y".into()),
            Kind::Symbol(";"),
            Kind::End,
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn numbers_durations_uuids_hex() {
        let got = kinds("12 1.5 1e3 0xAb 1y2mo3us P1Y2M3DT4H P0001-02-03T04:05:06 7d 1..2 Parts");
        let want = [
            Kind::Integer("12".into()),
            Kind::Float("1.5".into()),
            Kind::Float("1e3".into()),
            Kind::Hex("Ab".into()),
            Kind::Duration("1y2mo3us".into()),
            Kind::Duration("P1Y2M3DT4H".into()),
            Kind::Duration("P0001-02-03T04:05:06".into()),
            Kind::Duration("7d".into()),
            Kind::Integer("1".into()),
            Kind::Symbol(".."),
            Kind::Integer("2".into()),
            Kind::Word("Parts".into()),
            Kind::End,
        ];
        assert_eq!(got, want);
        assert_eq!(
            kinds("deadbeef-0000-1000-8000-000000000001")[0],
            Kind::Uuid(0xdeadbeef_0000_1000_8000_000000000001)
        );
    }

    #[test]
    fn unfinished_tokens_are_errors_with_a_position() {
        let error = tokens("a\n 'b").expect_err("unfinished").to_string();
        assert_eq!(error, "line 2:3 mismatched character '<EOF>' expecting '''");
        assert!(tokens("12abc").is_err());
        assert!(tokens("$").is_err());
        assert!(tokens("/* x").is_err());
    }
}
