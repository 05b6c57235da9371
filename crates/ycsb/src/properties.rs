//! Properties, from files as Java writes them and from the command line.
//!
//! ```text
//!  # comment      ! comment
//!  key=value      key: value      key value      long = one \
//!                                                       two          escapes: \t \n \r \f \u0041, others are the character itself
//! ```
//! Source: the documentation of `java.util.Properties.load`. Bytes are characters of ISO 8859-1.

use crate::error::Error;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Names with their values; what was set last holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Reads a file's content. Errors: a `\u` without four hexadecimal digits, with the file's name and the line.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Properties, Error> {
        let mut properties = Properties::default();
        for (number, line) in logical_lines(bytes) {
            let malformed = || Error::Line {
                file: file.to_owned(),
                line: number,
                reason: "\\u wants four hexadecimal digits".into(),
            };
            let (key, value) = split(&line);
            let key = unescaped(key).ok_or_else(malformed)?;
            let value = unescaped(value).ok_or_else(malformed)?;
            properties.0.insert(key, value);
        }
        Ok(properties)
    }

    /// Sets one.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Sets all of another.
    pub fn set_all(&mut self, other: Properties) {
        self.0.extend(other.0);
    }

    /// The value, if there is one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value, or what holds without one.
    pub fn text<'p>(&'p self, name: &str, default: &'p str) -> &'p str {
        self.get(name).unwrap_or(default)
    }

    /// `true` in any case of letters; anything else is no.
    pub fn flag(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, |value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// A whole number within bounds. Errors: names the property.
    pub fn whole(&self, name: &str, default: u64, bounds: RangeInclusive<u64>) -> Result<u64, Error> {
        Ok(self.whole_if_set(name, bounds)?.unwrap_or(default))
    }

    /// The same where nothing holds without one.
    pub fn whole_if_set(&self, name: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, Error> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.trim().parse::<u64>() {
            Ok(number) if bounds.contains(&number) => Ok(Some(number)),
            _ => {
                let expected = format!("a whole number of {} to {}", bounds.start(), bounds.end());
                Err(Error::property(name, value, expected))
            }
        }
    }

    /// A number that is not negative. Errors: names the property.
    pub fn number(&self, name: &str, default: f64) -> Result<f64, Error> {
        let Some(value) = self.get(name) else { return Ok(default) };
        match value.trim().parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(Error::property(name, value, "a number of 0 or more")),
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0c)
}

/// Whether a line goes on: it ends in an odd number of backslashes.
fn goes_on(line: &[u8]) -> bool {
    line.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

fn without_leading_blanks(line: &[u8]) -> &[u8] {
    let blanks = line.iter().take_while(|byte| is_blank(**byte)).count();
    &line[blanks..]
}

/// Lines as they end in `\n`, `\r` or both, with the ones that go on put together and comments left out; each with its number.
fn logical_lines(bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut natural: Vec<&[u8]> = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        natural.extend(line.split(|byte| *byte == b'\r'));
    }
    let mut lines = Vec::new();
    let mut natural = natural.into_iter().enumerate();
    while let Some((index, line)) = natural.next() {
        let line = without_leading_blanks(line);
        // Comments do not go on.
        if matches!(line.first(), None | Some(b'#' | b'!')) {
            continue;
        }
        let mut whole = line.to_vec();
        while goes_on(&whole) {
            whole.pop();
            let Some((_, next)) = natural.next() else { break };
            whole.extend_from_slice(without_leading_blanks(next));
        }
        if !whole.is_empty() {
            lines.push((index + 1, whole));
        }
    }
    lines
}

/// Key and value, still escaped. The key ends at the first `=`, `:` or blank without a backslash.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let mut end = 0;
    while end < line.len() {
        match line[end] {
            b'\\' => end += 1,
            b'=' | b':' => break,
            byte if is_blank(byte) => break,
            _ => {}
        }
        end += 1;
    }
    let end = end.min(line.len());
    let mut value = without_leading_blanks(&line[end..]);
    if let Some(b'=' | b':') = value.first() {
        value = without_leading_blanks(&value[1..]);
    }
    (&line[..end], value)
}

/// The text behind the escapes; `None` for a `\u` without four digits. Pairs of surrogates are one character, halves of them are lost.
fn unescaped(bytes: &[u8]) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        if *byte != b'\\' {
            units.push(u16::from(*byte));
            continue;
        }
        let Some(escaped) = bytes.get(at) else { break };
        at += 1;
        units.push(match escaped {
            b't' => 9,
            b'n' => 10,
            b'r' => 13,
            b'f' => 12,
            b'u' => {
                let digits = bytes.get(at..at + 4)?;
                at += 4;
                hexadecimal(digits)?
            }
            other => u16::from(*other),
        });
    }
    Some(String::from_utf16_lossy(&units))
}

fn hexadecimal(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0u16, |value, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(value << 4 | digit as u16)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(String, String)> {
        Properties::parse("some.file", text.as_bytes()).expect(text).0.into_iter().collect()
    }

    fn one(text: &str) -> (String, String) {
        let all = parsed(text);
        assert_eq!(all.len(), 1, "{text:?}");
        all.into_iter().next().expect("one")
    }

    #[test]
    fn keys_end_at_a_sign_or_a_blank() {
        for text in
            ["k=v", "k:v", "k v", " k = v", "\tk\t:\tv", "k   v", "k=v\r\n", "k=v\r", "\n\nk=v\n# c\n! c"]
        {
            assert_eq!(one(text), ("k".into(), "v".into()), "{text:?}");
        }
        assert_eq!(one("k = = v"), ("k".into(), "= v".into()));
        assert_eq!(one("k=v "), ("k".into(), "v ".into()));
        assert_eq!(one("k"), ("k".into(), String::new()));
        assert_eq!(one("a\\ b\\=c\\:d=e"), ("a b=c:d".into(), "e".into()));
        assert_eq!(one("=v"), (String::new(), "v".into()));
    }

    #[test]
    fn lines_go_on_after_a_backslash() {
        assert_eq!(one("k=one\\\n   two\\\n\tthree"), ("k".into(), "onetwothree".into()));
        assert_eq!(parsed("k=one\\\\\nl=two").len(), 2);
        assert_eq!(one("k=one\\"), ("k".into(), "one".into()));
        // A comment ends with its line, and what follows a backslash is no comment.
        assert_eq!(one("# comment\\\nk=v"), ("k".into(), "v".into()));
        assert_eq!(one("k=a\\\n#b"), ("k".into(), "a#b".into()));
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(one("k=\\t\\n\\r\\f\\q\\\\").1, "\t\n\r\u{c}q\\");
        assert_eq!(one("k=\\u0041\\u00e9\\ud83d\\ude00").1, "A\u{e9}\u{1f600}");
        assert_eq!(Properties::parse("f", b"k=\xe9").expect("a byte").get("k"), Some("\u{e9}"));
        for wrong in ["k=\\u00", "k=\\u00g0", "k\\u=v"] {
            let error = Properties::parse("a.file", format!("# one\n\n{wrong}").as_bytes()).expect_err(wrong);
            assert!(error.to_string().starts_with("a.file:3: "), "{error}");
        }
    }

    #[test]
    fn values_are_what_their_readers_want() {
        let properties =
            Properties::parse("f", b"n=12 \nx=0.5\nyes=TRUE\nno=yes\nbad=1e\nbelow=-1").expect("good");
        assert_eq!(properties.whole("n", 0, 0..=20).expect("12"), 12);
        assert_eq!(properties.whole("none", 7, 0..=9).expect("7"), 7);
        assert!((properties.number("x", 0.0).expect("0.5") - 0.5).abs() < 1e-9);
        assert_eq!((properties.flag("yes", false), properties.flag("no", true)), (true, false));
        for name in ["bad", "below"] {
            assert!(properties.number(name, 0.0).is_err());
            let error = properties.whole(name, 0, 0..=9).expect_err(name).to_string();
            assert!(error.starts_with(&format!("property \"{name}\" is ")), "{error}");
        }
        assert!(properties.whole("n", 0, 0..=11).is_err());
    }

    /// Whatever the bytes are, they are read or refused.
    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut rng = base::Prng::new(3);
        let letters = b"ak=: \\\n\r\tu0f#!\xff";
        for _ in 0..20_000 {
            let length = rng.below(24);
            let bytes: Vec<u8> =
                (0..length).map(|_| letters[rng.below(letters.len() as u64) as usize]).collect();
            let _read_or_refused = Properties::parse("f", &bytes);
        }
    }
}
