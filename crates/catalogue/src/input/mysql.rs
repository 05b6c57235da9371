//! Rows of a MySQL dump: `INSERT INTO files VALUES (…),(…);`, statement by statement and row by row.
//!
//! The names of the columns are those of the INSERT, else of the CREATE TABLE before it, else ours in our order. Every other statement is
//! passed over, as are rows of other tables. Source: MySQL's manual on literals, comments and INSERT.

use super::Step;
use crate::limits::COLUMNS_MAX;
use crate::record::{Columns, Row};

/// Reads rows.
#[derive(Debug)]
pub struct Mysql {
    /// Which column is which.
    pub columns: Columns,
    table: String,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between statements.
    Outside,
    /// Before the first row of an INSERT; whether into our table.
    First(bool),
    /// After a row of an INSERT.
    After(bool),
}

/// Reads on in bytes that may end too early: `Ok(None)` then.
type Read<T> = Result<Option<T>, String>;

/// Continues with what was read, or asks for more.
macro_rules! or_more {
    ($read:expr) => {
        match $read? {
            Some(value) => value,
            None => return Ok(Step::More),
        }
    };
}

impl Mysql {
    /// Of the rows of one table.
    pub fn new(table: &str) -> Mysql {
        Mysql { columns: Columns::default(), table: table.to_owned(), state: State::Outside }
    }

    /// The next row of the bytes.
    pub fn next(&mut self, bytes: &[u8], is_last: bool, row: &mut Row) -> Result<Step, String> {
        let blank = or_more!(blanks(bytes, is_last));
        let Some(byte) = bytes.get(blank) else {
            return match (self.state, is_last) {
                (State::Outside, true) => Ok(Step::End),
                (_, true) => Err("the last INSERT has no end".into()),
                (_, false) => Ok(Step::More),
            };
        };
        match (self.state, *byte) {
            (State::Outside, _) => self.statement(bytes, blank, is_last),
            (State::First(is_ours), b'(') => {
                row.clear();
                let end = or_more!(tuple(bytes, blank + 1, is_last, row));
                self.state = State::After(is_ours);
                Ok(if is_ours { Step::Row(end) } else { Step::Passed(end) })
            }
            (State::After(is_ours), b',') => {
                self.state = State::First(is_ours);
                Ok(Step::Passed(blank + 1))
            }
            (State::After(_), b';') => {
                self.state = State::Outside;
                Ok(Step::Passed(blank + 1))
            }
            (State::First(_), other) => Err(format!("expected a row in parentheses, found {}", shown(other))),
            (State::After(_), other) => {
                Err(format!("expected a comma or semicolon after a row, found {}", shown(other)))
            }
        }
    }

    /// A statement from here: the head of an INSERT, or all of another.
    fn statement(&mut self, bytes: &[u8], from: usize, is_last: bool) -> Result<Step, String> {
        let (word, after) = word(bytes, from);
        if after == bytes.len() && !is_last {
            return Ok(Step::More);
        }
        if word.eq_ignore_ascii_case(b"insert") || word.eq_ignore_ascii_case(b"replace") {
            return self.insert(bytes, after, is_last);
        }
        if word.eq_ignore_ascii_case(b"delimiter") {
            return Ok(delimiter(bytes, from, is_last));
        }
        let Some(end) = end_of_statement(bytes, from) else {
            return if is_last { Ok(Step::Passed(bytes.len())) } else { Ok(Step::More) };
        };
        if word.eq_ignore_ascii_case(b"create") {
            self.create(&bytes[after..end - 1]);
        }
        Ok(Step::Passed(end))
    }

    /// `[IGNORE …] [INTO] name [(column, …)] VALUES`.
    fn insert(&mut self, bytes: &[u8], mut at: usize, is_last: bool) -> Result<Step, String> {
        const PASSED: [&str; 5] = ["low_priority", "delayed", "high_priority", "ignore", "into"];
        let name = loop {
            let (name, after) = or_more!(name(bytes, at, is_last));
            at = after;
            if !PASSED.iter().any(|word| name.eq_ignore_ascii_case(word)) {
                break name;
            }
        };
        let mut columns = None;
        at += or_more!(blanks(&bytes[at..], is_last));
        if bytes.get(at) == Some(&b'(') {
            let (names, after) = or_more!(names(bytes, at + 1, is_last));
            columns = Some(names);
            at = after + or_more!(blanks(&bytes[after..], is_last));
        }
        let (word, after) = word(bytes, at);
        if after == bytes.len() && !is_last {
            return Ok(Step::More);
        }
        if !word.eq_ignore_ascii_case(b"values") && !word.eq_ignore_ascii_case(b"value") {
            return Err(format!("expected VALUES, found \"{}\"", String::from_utf8_lossy(word)));
        }
        let is_ours = name == self.table;
        if let (true, Some(columns)) = (is_ours, columns) {
            self.columns = Columns::named(&columns)?;
        }
        self.state = State::First(is_ours);
        Ok(Step::Passed(after))
    }

    /// What a CREATE says of our table's columns, if it is about our table. Anything that is not understood is none of ours.
    fn create(&mut self, statement: &[u8]) {
        let mut at = 0;
        let (kind, after) = word(statement, skipped(statement, at));
        at = after;
        if !kind.eq_ignore_ascii_case(b"table") {
            return;
        }
        let (mut table, mut after) = match name(statement, at, true) {
            Ok(Some(found)) => found,
            _ => return,
        };
        // IF NOT EXISTS
        while ["if", "not", "exists"].iter().any(|word| table.eq_ignore_ascii_case(word)) {
            match name(statement, after, true) {
                Ok(Some(next)) => (table, after) = next,
                _ => return,
            }
        }
        at = skipped(statement, after);
        if table != self.table || statement.get(at) != Some(&b'(') {
            return;
        }
        if let Ok(columns) = Columns::named(&columns_of(&statement[at + 1..])) {
            self.columns = columns;
        }
    }
}

/// The names of the columns of a table's definition, from behind its parenthesis.
fn columns_of(body: &[u8]) -> Vec<String> {
    const OTHERS: [&[u8]; 10] = [
        b"primary",
        b"key",
        b"unique",
        b"index",
        b"constraint",
        b"fulltext",
        b"spatial",
        b"foreign",
        b"check",
        b"period",
    ];
    let (mut names, mut depth, mut starts, mut at) = (Vec::new(), 1, true, 0);
    while at < body.len() && 0 < depth {
        let byte = body[at];
        if starts && !byte.is_ascii_whitespace() {
            starts = false;
            let (plain, _) = word(body, at);
            if !OTHERS.iter().any(|other| plain.eq_ignore_ascii_case(other))
                && let Ok(Some((name, after))) = name(body, at, true)
            {
                names.push(name);
                at = after;
                continue;
            }
        }
        match byte {
            b'\'' | b'"' | b'`' => at = quoted_end(body, at).unwrap_or(body.len()) - 1,
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 1 => starts = true,
            _ => {}
        }
        at += 1;
    }
    names
}

/// What follows `DELIMITER //` is of programs, up to where the delimiter is a semicolon again.
fn delimiter(bytes: &[u8], from: usize, is_last: bool) -> Step {
    let mut at = from;
    while let Some(length) = bytes[at..].iter().position(|byte| *byte == b'\n') {
        let line = bytes[at..at + length].trim_ascii();
        at += length + 1;
        let (word, rest) = line.split_at(line.len().min(9));
        if word.eq_ignore_ascii_case(b"delimiter") && rest.trim_ascii() == b";" {
            return Step::Passed(at);
        }
    }
    if is_last { Step::Passed(bytes.len()) } else { Step::More }
}

/// How many bytes of blanks and comments there are.
fn blanks(bytes: &[u8], is_last: bool) -> Read<usize> {
    let mut at = 0;
    loop {
        at = skipped(bytes, at);
        let rest = &bytes[at..];
        let end = match rest {
            [b'#', ..] => line_end(rest),
            [b'-', b'-', blank, ..] if blank.is_ascii_whitespace() => line_end(rest),
            [b'/', b'*', ..] => rest.windows(2).skip(2).position(|pair| pair == b"*/").map(|found| found + 4),
            [b'-'] | [b'-', b'-'] | [b'/'] if !is_last => return Ok(None),
            _ => return Ok(Some(at)),
        };
        match end {
            Some(end) => at += end,
            None if is_last => return Ok(Some(bytes.len())),
            None => return Ok(None),
        }
    }
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1)
}

/// Where blanks end.
fn skipped(bytes: &[u8], from: usize) -> usize {
    let blank = bytes[from..].iter().position(|byte| !byte.is_ascii_whitespace());
    blank.map_or(bytes.len(), |length| from + length)
}

/// Letters, digits and underscores from here, and where they end.
fn word(bytes: &[u8], from: usize) -> (&[u8], usize) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    let length = bytes[from..].iter().position(|byte| !is_part(byte)).unwrap_or(bytes.len() - from);
    (&bytes[from..from + length], from + length)
}

/// A name, the last part of one with points, and where it ends.
fn name(bytes: &[u8], from: usize, is_last: bool) -> Read<(String, usize)> {
    let blank = blanks(&bytes[from..], is_last)?;
    let Some(mut at) = blank.map(|blank| from + blank) else { return Ok(None) };
    loop {
        let (name, after) = match bytes.get(at) {
            None if !is_last => return Ok(None),
            Some(b'`') => match quoted_end(bytes, at) {
                Some(end) => {
                    let text = String::from_utf8_lossy(&bytes[at + 1..end - 1]).replace("``", "`");
                    (text, end)
                }
                None if is_last => return Err("a name without an end".into()),
                None => return Ok(None),
            },
            _ => {
                let (word, after) = word(bytes, at);
                if word.is_empty() {
                    return Err(format!(
                        "expected a name, found {}",
                        bytes.get(at).map_or("the end".into(), |b| shown(*b))
                    ));
                }
                (String::from_utf8_lossy(word).into_owned(), after)
            }
        };
        match bytes.get(after) {
            None if !is_last => return Ok(None),
            Some(b'.') => at = after + 1,
            _ => return Ok(Some((name, after))),
        }
    }
}

/// Names between parentheses, from behind the first, and where they end.
fn names(bytes: &[u8], mut at: usize, is_last: bool) -> Read<(Vec<String>, usize)> {
    let mut all = Vec::new();
    loop {
        let Some((name, after)) = name(bytes, at, is_last)? else { return Ok(None) };
        all.push(name);
        let Some(blank) = blanks(&bytes[after..], is_last)? else { return Ok(None) };
        at = after + blank + 1;
        match bytes.get(at - 1) {
            Some(b',') if all.len() < COLUMNS_MAX => {}
            Some(b')') => return Ok(Some((all, at))),
            None if !is_last => return Ok(None),
            _ => return Err("expected names of columns, with commas between".into()),
        }
    }
}

/// Where what is quoted here ends, behind its last quote.
fn quoted_end(bytes: &[u8], from: usize) -> Option<usize> {
    let quote = bytes[from];
    let mut at = from + 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if quote != b'`' => at += 2,
            byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Where a statement ends, behind its semicolon.
fn end_of_statement(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        match *bytes.get(at)? {
            b'\'' | b'"' | b'`' => at = quoted_end(bytes, at)?,
            b';' => return Some(at + 1),
            b'/' | b'-' | b'#' => match blanks(&bytes[at..], false) {
                Ok(Some(0)) => at += 1,
                Ok(Some(length)) => at += length,
                _ => return None,
            },
            _ => at += 1,
        }
    }
}

/// The values of a row from behind its parenthesis; where it ends.
fn tuple(bytes: &[u8], mut at: usize, is_last: bool, row: &mut Row) -> Read<usize> {
    loop {
        at = skipped(bytes, at);
        let Some(after) = value(bytes, at, row)? else {
            return if is_last { Err("the file ends in a row".into()) } else { Ok(None) };
        };
        row.end_field();
        at = skipped(bytes, after);
        match bytes.get(at) {
            Some(b',') if row.ends.len() < COLUMNS_MAX => at += 1,
            Some(b')') => return Ok(Some(at + 1)),
            Some(b',') => return Err(format!("a row of more than {COLUMNS_MAX} values")),
            Some(other) => return Err(format!("{} after a value", shown(*other))),
            None if is_last => return Err("the file ends in a row".into()),
            None => return Ok(None),
        }
    }
}

/// A value; where it ends.
fn value(bytes: &[u8], at: usize, row: &mut Row) -> Read<usize> {
    let Some(first) = bytes.get(at) else { return Ok(None) };
    if matches!(first, b'\'' | b'"') {
        return Ok(string(bytes, at, row));
    }
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'+' | b'-');
    let Some(length) = bytes[at..].iter().position(|byte| !is_part(byte)) else { return Ok(None) };
    let (word, after) = (&bytes[at..at + length], at + length);
    let wrong = || Err(format!("\"{}\" is no literal", String::from_utf8_lossy(word)));
    match (word, bytes[after]) {
        (b"x" | b"X", b'\'') => {
            let start = row.bytes.len();
            let Some(end) = string(bytes, after, row) else { return Ok(None) };
            let digits = row.bytes.split_off(start);
            unhex(&digits, row)?;
            Ok(Some(end))
        }
        ([b'_', ..] | b"n" | b"N", b'\'' | b'"') => Ok(string(bytes, after, row)),
        // _binary 'bytes'
        ([b'_', ..], blank) if blank.is_ascii_whitespace() => {
            let after = skipped(bytes, after);
            match bytes.get(after) {
                None => Ok(None),
                Some(b'\'' | b'"') => Ok(string(bytes, after, row)),
                Some(b'0' | b'x' | b'X') => value(bytes, after, row),
                Some(_) => wrong(),
            }
        }
        ([b'0', b'x', digits @ ..], _) => unhex(digits, row).map(|()| Some(after)),
        (word, _) if word.eq_ignore_ascii_case(b"null") => Ok(Some(after)),
        ([b'0'..=b'9' | b'-' | b'+' | b'.', ..], _) => {
            row.bytes.extend_from_slice(word);
            Ok(Some(after))
        }
        ([], other) => Err(format!("expected a value, found {}", shown(other))),
        _ => wrong(),
    }
}

fn unhex(digits: &[u8], row: &mut Row) -> Result<(), String> {
    let text = std::str::from_utf8(digits).unwrap_or_default();
    let bytes = types::text::parse_hex(text).filter(|_| !digits.is_empty());
    row.bytes
        .extend(bytes.ok_or_else(|| format!("\"{}\" is not hexadecimal", String::from_utf8_lossy(digits)))?);
    Ok(())
}

/// A string with its escapes undone; where it ends, or nothing when the bytes end first.
fn string(bytes: &[u8], from: usize, row: &mut Row) -> Option<usize> {
    let quote = bytes[from];
    let mut at = from + 1;
    loop {
        let rest = bytes.get(at..)?;
        let length = rest.iter().position(|byte| *byte == quote || *byte == b'\\')?;
        row.bytes.extend_from_slice(&rest[..length]);
        let next = *rest.get(length + 1).or_else(|| (rest[length] == quote).then_some(&b' '))?;
        at += length + 1;
        if rest[length] == quote {
            if next != quote || rest.len() == length + 1 {
                return Some(at);
            }
            row.bytes.push(quote);
        } else {
            match next {
                b'0' => row.bytes.push(0),
                b'b' => row.bytes.push(8),
                b'n' => row.bytes.push(b'\n'),
                b'r' => row.bytes.push(b'\r'),
                b't' => row.bytes.push(b'\t'),
                b'Z' => row.bytes.push(26),
                // Only patterns want the backslash gone.
                b'%' | b'_' => row.bytes.extend_from_slice(&[b'\\', next]),
                other => row.bytes.push(other),
            }
        }
        at += 1;
    }
}

fn shown(byte: u8) -> String {
    format!("\"{}\"", byte.escape_ascii())
}
