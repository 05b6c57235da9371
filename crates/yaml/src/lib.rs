//! A YAML document as a tree that remembers the line of everything in it.
//!
//! The parser comes from `saphyr-parser`; anchors, aliases and tags have no use in the files
//! that are read here and are refused, so no document can expand beyond its own size.

#![forbid(unsafe_code)]

use saphyr_parser::{Event, Parser, ScalarStyle};

/// Longest document read, in bytes: shipped files are below 100 KiB.
const BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of lists and maps.
const DEPTH_MAX: usize = 16;

/// One value and the line (counted from 1) on which it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The line the value starts on.
    pub line: usize,
    /// The value.
    pub value: Value,
}

/// The shapes a value can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A missing value: nothing, `~` or `null`.
    Null,
    /// Text as written, without its quotes.
    Scalar(String),
    /// `- a` or `[a, b]`.
    List(Vec<Node>),
    /// `key: value` in the order of the file.
    Map(Vec<Entry>),
}

/// One `key: value` of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key's text.
    pub key: String,
    /// The line of the key.
    pub line: usize,
    /// What it is set to.
    pub value: Node,
}

/// Where the text stops being YAML, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

/// Parses the first document of `text`; an empty text is an empty map.
pub fn parse(text: &str) -> Result<Node, Malformed> {
    if text.len() > BYTES_MAX {
        return Err(malformed(1, format!("larger than {} bytes", BYTES_MAX)));
    }
    let mut source = Source { parser: Parser::new_from_str(text) };
    loop {
        let (event, line) = source.next()?;
        match event {
            Event::StreamEnd | Event::DocumentEnd => {
                return Ok(Node { line: 1, value: Value::Map(Vec::new()) });
            }
            Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
            other => return source.node(other, line, 0),
        }
    }
}

struct Source<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
}

impl<'a> Source<'a> {
    fn next(&mut self) -> Result<(Event<'a>, usize), Malformed> {
        match self.parser.next_event() {
            None => Ok((Event::StreamEnd, 1)),
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(e)) => Err(malformed(e.marker().line(), e.info().to_string())),
        }
    }

    fn node(&mut self, event: Event<'a>, line: usize, depth: usize) -> Result<Node, Malformed> {
        if depth > DEPTH_MAX {
            return Err(malformed(line, "nested too deeply".into()));
        }
        let value = match event {
            Event::Scalar(text, style, ..) => scalar(&text, style),
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.map(depth)?,
            Event::Alias(_) => return Err(malformed(line, "aliases are not supported".into())),
            other => return Err(malformed(line, format!("unexpected {other:?}"))),
        };
        Ok(Node { line, value })
    }

    fn list(&mut self, depth: usize) -> Result<Value, Malformed> {
        let mut items = Vec::new();
        loop {
            let (event, line) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Value::List(items));
            }
            items.push(self.node(event, line, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, Malformed> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, line) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Value::Map(entries)),
                Event::Scalar(text, ..) => text.into_owned(),
                _ => return Err(malformed(line, "a key must be plain text".into())),
            };
            if entries.iter().any(|e| e.key == key) {
                return Err(malformed(line, format!("key \"{key}\" is given twice")));
            }
            let (event, value_line) = self.next()?;
            let value = self.node(event, value_line, depth + 1)?;
            entries.push(Entry { key, line, value });
        }
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    let plain = style == ScalarStyle::Plain;
    if plain && matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        Value::Null
    } else {
        Value::Scalar(text.to_string())
    }
}

fn malformed(line: usize, reason: String) -> Malformed {
    Malformed { line, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Vec<Entry> {
        match parse(text).unwrap().value {
            Value::Map(entries) => entries,
            other => panic!("not a map: {other:?}"),
        }
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let entries = map("# header\ncluster_name: 'a b'\n\ndirs:\n  - /x\n  - /y\nnothing:\n");
        assert_eq!(entries[0].line, 2);
        assert_eq!(entries[0].value.value, Value::Scalar("a b".into()));
        assert_eq!(entries[1].line, 4);
        let Value::List(items) = &entries[1].value.value else { panic!("not a list") };
        assert_eq!(items[1].line, 6);
        assert_eq!(entries[2].value.value, Value::Null);
    }

    #[test]
    fn empty_text_is_an_empty_map() {
        assert!(map("").is_empty());
        assert!(map("# only a comment\n").is_empty());
    }

    #[test]
    fn malformed_text_names_its_line() {
        assert_eq!(parse("a: 1\nb: [1, 2\n").unwrap_err().line, 3);
        assert_eq!(parse("a: 1\na: 2\n").unwrap_err().line, 2);
        assert!(parse("a: &x 1\nb: *x\n").is_err());
    }
}
