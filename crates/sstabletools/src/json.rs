//! JSON as sstabledump lays it out: objects and arrays are switched between lines of their own and one line, separately
//! and at any moment, and what is open takes the mode of the moment for its next separator.

/// Writes JSON into a buffer.
pub(crate) struct Json {
    pretty: bool,
    open: Vec<Open>,
    /// A name was written, its value was not.
    named: bool,
    roots: usize,
    one_line_objects: bool,
    one_line_arrays: bool,
}

struct Open {
    is_array: bool,
    entries: usize,
}

impl Json {
    /// With line ends and indentation, or without a blank.
    pub(crate) fn new(pretty: bool) -> Json {
        let (one_line_objects, one_line_arrays) = (false, false);
        Json { pretty, open: Vec::new(), named: false, roots: 0, one_line_objects, one_line_arrays }
    }

    /// From now on entries of objects stand on one line, or each on its own.
    pub(crate) fn objects_on_one_line(&mut self, on: bool) {
        self.one_line_objects = on;
    }

    /// From now on elements of arrays stand on one line, or each on its own.
    pub(crate) fn arrays_on_one_line(&mut self, on: bool) {
        self.one_line_arrays = on;
    }

    fn indent(&self, array: bool, out: &mut Vec<u8>) {
        if !self.pretty {
            return;
        }
        if if array { self.one_line_arrays } else { self.one_line_objects } {
            return out.push(b' ');
        }
        out.push(b'\n');
        out.resize(out.len() + 2 * self.open.len(), b' ');
    }

    /// What stands before a value.
    fn before(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.named) {
            return;
        }
        match self.open.last_mut() {
            None => {
                if self.roots > 0 {
                    out.push(b'\n');
                }
                self.roots += 1;
            }
            Some(open) => {
                if open.entries > 0 {
                    out.push(b',');
                }
                open.entries += 1;
                let is_array = open.is_array;
                self.indent(is_array, out);
            }
        }
    }

    fn start(&mut self, is_array: bool, out: &mut Vec<u8>) {
        self.before(out);
        out.push(if is_array { b'[' } else { b'{' });
        self.open.push(Open { is_array, entries: 0 });
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let Some(open) = self.open.pop() else { return };
        if open.entries > 0 {
            self.indent(open.is_array, out);
        } else if self.pretty {
            out.push(b' ');
        }
        out.push(if open.is_array { b']' } else { b'}' });
    }

    /// `{`.
    pub(crate) fn start_object(&mut self, out: &mut Vec<u8>) {
        self.start(false, out);
    }

    /// `}`.
    pub(crate) fn end_object(&mut self, out: &mut Vec<u8>) {
        self.end(out);
    }

    /// `[`.
    pub(crate) fn start_array(&mut self, out: &mut Vec<u8>) {
        self.start(true, out);
    }

    /// `]`.
    pub(crate) fn end_array(&mut self, out: &mut Vec<u8>) {
        self.end(out);
    }

    /// The name of the value that comes next.
    pub(crate) fn name(&mut self, name: &str, out: &mut Vec<u8>) {
        self.before(out);
        put_quoted(name, out);
        out.extend_from_slice(if self.pretty { b" : " } else { b":" });
        self.named = true;
    }

    /// A text.
    pub(crate) fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        self.before(out);
        put_quoted(text, out);
    }

    /// What is JSON already: numbers, truths, nested values.
    pub(crate) fn raw(&mut self, text: &str, out: &mut Vec<u8>) {
        self.before(out);
        out.extend_from_slice(text.as_bytes());
    }

    /// A name and a text.
    pub(crate) fn text_field(&mut self, name: &str, text: &str, out: &mut Vec<u8>) {
        self.name(name, out);
        self.text(text, out);
    }

    /// A name and a number or truth.
    pub(crate) fn field(&mut self, name: &str, value: impl std::fmt::Display, out: &mut Vec<u8>) {
        self.name(name, out);
        self.raw(&value.to_string(), out);
    }
}

/// Appends a text between double quotes, escaped as Jackson does.
fn put_quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    put_escaped(text, out);
    out.push(b'"');
}

fn put_escaped(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04X}").as_bytes()),
            _ => out.push(byte),
        }
    }
}

/// A text between double quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    put_quoted(text, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pretty: bool) -> String {
        let (mut json, out) = (Json::new(pretty), &mut Vec::new());
        json.start_array(out);
        json.start_object(out);
        json.name("key", out);
        json.arrays_on_one_line(true);
        json.start_array(out);
        json.text("a\"\u{1}\n", out);
        json.end_array(out);
        json.arrays_on_one_line(false);
        json.name("info", out);
        json.objects_on_one_line(true);
        json.start_object(out);
        json.field("n", 5, out);
        json.text_field("t", "x", out);
        json.end_object(out);
        json.objects_on_one_line(false);
        json.name("rows", out);
        json.start_array(out);
        json.end_array(out);
        json.end_object(out);
        json.end_array(out);
        String::from_utf8(out.clone()).unwrap()
    }

    #[test]
    fn modes_change_in_the_middle() {
        let expected = "[\n  {\n    \"key\" : [ \"a\\\"\\u0001\\n\" ],\n    \"info\" : { \"n\" : 5, \"t\" : \"x\" },\n    \"rows\" : [ ]\n  }\n]";
        assert_eq!(sample(true), expected);
        let expected = "[{\"key\":[\"a\\\"\\u0001\\n\"],\"info\":{\"n\":5,\"t\":\"x\"},\"rows\":[]}]";
        assert_eq!(sample(false), expected);
    }

    #[test]
    fn values_without_pretty_layout_stand_on_lines() {
        let (mut json, out) = (Json::new(false), &mut Vec::new());
        json.raw("1", out);
        json.raw("2", out);
        assert_eq!(out, b"1\n2");
    }
}
