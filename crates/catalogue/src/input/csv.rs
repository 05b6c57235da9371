//! Rows of CSV, as RFC 4180 says: commas, `"` around what contains them, two of them for one, lines that end in LF or CR LF.

use super::Step;
use crate::record::{Columns, Row};

/// Reads rows.
#[derive(Debug, Default)]
pub struct Csv {
    /// Which column is which.
    pub columns: Columns,
    has_begun: bool,
}

/// How a field ended.
enum Ended {
    /// With a comma, behind which the next one begins.
    Field(usize),
    /// With the line, behind which the next one begins.
    Line(usize),
    /// The bytes end first.
    More,
}

impl Csv {
    /// The next row of the bytes.
    pub fn next(&mut self, bytes: &[u8], is_last: bool, row: &mut Row) -> Result<Step, String> {
        match bytes {
            [] if is_last => return Ok(Step::End),
            [] => return Ok(Step::More),
            // A line without anything, such as the last one.
            [b'\n', ..] => return Ok(Step::Passed(1)),
            [b'\r', b'\n', ..] => return Ok(Step::Passed(2)),
            _ => {}
        }
        row.clear();
        let mut at = 0;
        loop {
            let ended = match bytes.get(at) {
                Some(b'"') => quoted(bytes, at + 1, is_last, row)?,
                _ => plain(bytes, at, is_last, row)?,
            };
            row.end_field();
            match ended {
                Ended::More => return Ok(Step::More),
                Ended::Field(next) => at = next,
                Ended::Line(next) => return self.line(next, row),
            }
        }
    }

    /// A whole line: the names of columns, if it is the first and says so.
    fn line(&mut self, taken: usize, row: &Row) -> Result<Step, String> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(Step::Row(taken));
        }
        let fields = (0..row.ends.len()).filter_map(|index| row.field(index));
        let names: Vec<String> = fields.map(|field| String::from_utf8_lossy(field).into_owned()).collect();
        if !names.iter().any(|name| name.trim_start_matches('\u{feff}').eq_ignore_ascii_case("path")) {
            return Ok(Step::Row(taken));
        }
        let names: Vec<&str> = names.iter().map(|name| name.trim_start_matches('\u{feff}')).collect();
        self.columns = Columns::named(&names)?;
        Ok(Step::Passed(taken))
    }
}

/// A field without quotes, from here.
fn plain(bytes: &[u8], from: usize, is_last: bool, row: &mut Row) -> Result<Ended, String> {
    let rest = &bytes[from..];
    let Some(length) = rest.iter().position(|byte| matches!(byte, b',' | b'\n' | b'\r' | b'"')) else {
        row.bytes.extend_from_slice(rest);
        return Ok(if is_last { Ended::Line(bytes.len()) } else { Ended::More });
    };
    row.bytes.extend_from_slice(&rest[..length]);
    if rest[length] == b'"' {
        return Err("a quote inside a field that does not begin with one".into());
    }
    after(bytes, from + length, is_last)
}

/// A field with quotes, from behind the first.
fn quoted(bytes: &[u8], mut from: usize, is_last: bool, row: &mut Row) -> Result<Ended, String> {
    loop {
        let Some(length) = bytes[from..].iter().position(|byte| *byte == b'"') else {
            return if is_last { Err("a quoted field without an end".into()) } else { Ok(Ended::More) };
        };
        row.bytes.extend_from_slice(&bytes[from..from + length]);
        from += length + 1;
        match bytes.get(from) {
            Some(b'"') => {
                row.bytes.push(b'"');
                from += 1;
            }
            None if !is_last => return Ok(Ended::More),
            _ => return after(bytes, from, is_last),
        }
    }
}

/// What comes after a field.
fn after(bytes: &[u8], at: usize, is_last: bool) -> Result<Ended, String> {
    match (bytes.get(at), bytes.get(at + 1)) {
        (Some(b','), _) => Ok(Ended::Field(at + 1)),
        (Some(b'\n'), _) => Ok(Ended::Line(at + 1)),
        (Some(b'\r'), Some(b'\n')) => Ok(Ended::Line(at + 2)),
        (Some(b'\r'), None) if !is_last => Ok(Ended::More),
        (Some(b'\r'), None) | (None, _) => Ok(Ended::Line(bytes.len())),
        (Some(b'\r'), Some(_)) => Err("a carriage return that ends no line".into()),
        (Some(other), _) => Err(format!("\"{}\" after the end of a quoted field", other.escape_ascii())),
    }
}
