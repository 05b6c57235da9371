//! A file of the catalogue as a row of a file to import: seven fields, by their names or in this order.
//!
//! | field | what |
//! |---|---|
//! | `path` | where the catalogue has it |
//! | `owner` | a name |
//! | `permissions` | octal, `644` |
//! | `size` | bytes |
//! | `changed` | milliseconds since 1970, or `2018-10-01 12:00:00.000` in UTC |
//! | `guid` | a version 1 UUID: as text, or its 16 bytes |
//! | `locations` | where its bytes are: `ELEMENT=physical name;…`; `\` before what is meant as itself |

use crate::path;
use std::ops::Range;
use types::datetime;
use uuid::Uuid;

/// The fields, in the order of rows that name none.
pub const FIELDS: [&str; 7] = ["path", "owner", "permissions", "size", "changed", "guid", "locations"];

/// One file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where the catalogue has it.
    pub path: &'a str,
    /// Whose it is.
    pub owner: &'a str,
    /// Bits as of a file system.
    pub permissions: i16,
    /// Bytes.
    pub size: i64,
    /// Milliseconds since 1970.
    pub changed: i64,
    /// Its name for ever.
    pub guid: Uuid,
    /// Physical locations as text.
    pub locations: &'a str,
}

/// The fields of one row as they were read: bytes one after the other.
#[derive(Debug, Default)]
pub struct Row {
    /// The bytes of all fields.
    pub bytes: Vec<u8>,
    /// Where each field ends.
    pub ends: Vec<u32>,
}

impl Row {
    /// Forgets the fields, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Ends a field: it has the bytes since the last one.
    pub fn end_field(&mut self) {
        self.ends.push(self.bytes.len() as u32);
    }

    /// A field's bytes; nothing when there are fewer.
    pub fn field(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        Some(&self.bytes[start..end])
    }
}

/// Which field of a row each of ours is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    at: [usize; 7],
    /// Fields of a row.
    pub count: usize,
}

impl Default for Columns {
    fn default() -> Columns {
        Columns { at: [0, 1, 2, 3, 4, 5, 6], count: 7 }
    }
}

impl Columns {
    /// By the names of the fields of a row. Errors: which of ours is not there.
    pub fn named<S: AsRef<str>>(names: &[S]) -> Result<Columns, String> {
        let mut at = [0; 7];
        for (place, field) in at.iter_mut().zip(FIELDS) {
            let found = names.iter().position(|name| name.as_ref().eq_ignore_ascii_case(field));
            *place = found.ok_or_else(|| format!("there is no column \"{field}\""))?;
        }
        Ok(Columns { at, count: names.len() })
    }

    /// The record of a row. Errors: what is wrong with which field.
    pub fn record<'r>(&self, row: &'r Row) -> Result<Record<'r>, String> {
        if row.ends.len() != self.count {
            return Err(format!("{} fields instead of {}", row.ends.len(), self.count));
        }
        let bytes = |field: usize| row.field(self.at[field]).unwrap_or_default();
        let text = |field: usize| {
            std::str::from_utf8(bytes(field)).map_err(|_| format!("{} is not UTF-8", FIELDS[field]))
        };
        let wrong = |field: usize, expected: &str| {
            format!("{} is \"{}\", not {expected}", FIELDS[field], String::from_utf8_lossy(bytes(field)))
        };
        let path = text(0)?;
        path::split_entry(path).map_err(|error| error.to_string())?;
        let permissions = octal(bytes(2)).ok_or_else(|| wrong(2, "up to four octal digits"))?;
        let size = decimal(bytes(3)).ok_or_else(|| wrong(3, "a number of bytes"))?;
        let changed = match decimal(bytes(4)) {
            Some(ms) => ms,
            None => datetime::parse_timestamp(text(4)?).map_err(|_| wrong(4, "a time"))?,
        };
        let guid = uuid_of(bytes(5)).ok_or_else(|| wrong(5, "a UUID"))?;
        if guid.get_version_num() != 1 {
            return Err(wrong(5, "a version 1 UUID"));
        }
        let locations = text(6)?;
        let mut parts = Locations::new(locations);
        while let Some(location) = parts.next_written() {
            if location.is_none() {
                return Err(wrong(6, "ELEMENT=physical name, with ; between"));
            }
        }
        Ok(Record { path, owner: text(1)?, permissions, size, changed, guid, locations })
    }
}

fn decimal(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || 18 < bytes.len() {
        return None;
    }
    bytes
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

fn octal(bytes: &[u8]) -> Option<i16> {
    if bytes.is_empty() || 4 < bytes.len() {
        return None;
    }
    bytes.iter().try_fold(0, |number, digit| {
        (b'0'..=b'7').contains(digit).then(|| number * 8 + i16::from(digit - b'0'))
    })
}

/// A UUID from its text or its bytes.
fn uuid_of(bytes: &[u8]) -> Option<Uuid> {
    match bytes.len() {
        16 => Uuid::from_slice(bytes).ok(),
        _ => Uuid::try_parse_ascii(bytes).ok(),
    }
}

/// The locations of a text: element and physical name; nothing for a part that is none.
#[derive(Clone, Debug)]
pub struct Locations<'a> {
    rest: Option<&'a str>,
    has_escapes: bool,
}

/// A storage element and the physical name there.
pub type Location = (String, String);

impl<'a> Locations<'a> {
    /// Those of a text.
    pub fn new(text: &'a str) -> Locations<'a> {
        Locations { rest: Some(text).filter(|text| !text.is_empty()), has_escapes: text.contains('\\') }
    }

    /// The next one as it is written: element and name, escapes and all.
    pub fn next_written(&mut self) -> Option<Option<(&'a str, &'a str)>> {
        let rest = self.rest?;
        let (part, rest) = match self.place_of(rest, ';') {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        self.rest = rest;
        let written = self.place_of(part, '=').map(|at| (&part[..at], &part[at + 1..]));
        Some(written.filter(|(element, name)| !element.is_empty() && !name.is_empty()))
    }

    /// Whether what is written is meant as it is written.
    pub fn is_plain(&self) -> bool {
        !self.has_escapes
    }

    fn place_of(&self, text: &str, wanted: char) -> Option<usize> {
        if self.has_escapes { unescaped(text, wanted) } else { text.find(wanted) }
    }
}

impl Iterator for Locations<'_> {
    type Item = Option<Location>;

    fn next(&mut self) -> Option<Option<Location>> {
        let written = self.next_written()?;
        Some(written.map(|(element, name)| (plain(element), plain(name))))
    }
}

/// Where a letter stands without a `\` before it.
fn unescaped(text: &str, wanted: char) -> Option<usize> {
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            letter if letter == wanted => return Some(at),
            _ => {}
        }
    }
    None
}

fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.extend(characters.next()),
            character => out.push(character),
        }
    }
    out
}

/// Appends a location to a text of them.
pub fn put_location(element: &str, name: &str, out: &mut String) {
    if !out.is_empty() {
        out.push(';');
    }
    for (part, between) in [(element, "="), (name, "")] {
        for character in part.chars() {
            if matches!(character, '\\' | ';') || (character == '=' && !between.is_empty()) {
                out.push('\\');
            }
            out.push(character);
        }
        out.push_str(between);
    }
}

/// Records one after the other, of one folder, in memory that is used again.
#[derive(Debug, Default)]
pub struct Block {
    text: String,
    folder_end: usize,
    rows: Vec<BlockRow>,
}

#[derive(Debug)]
struct BlockRow {
    path: Range<usize>,
    owner: Range<usize>,
    locations: Range<usize>,
    permissions: i16,
    size: i64,
    changed: i64,
    guid: Uuid,
}

impl Block {
    /// Forgets the records, keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.rows.clear();
        self.folder_end = 0;
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The folder of all of them; the root when there is none.
    pub fn folder(&self) -> &str {
        if self.folder_end == 0 { path::ROOT } else { &self.text[..self.folder_end] }
    }

    /// Adds a record. False: it is in another folder and was not added.
    pub fn push(&mut self, record: &Record<'_>) -> bool {
        let (folder, _) = path::split(record.path).unwrap_or((path::ROOT, ""));
        if self.rows.is_empty() {
            self.folder_end = if folder == path::ROOT { 0 } else { folder.len() };
        } else if folder != self.folder() {
            return false;
        }
        let mut put = |text: &str| {
            let start = self.text.len();
            self.text.push_str(text);
            start..self.text.len()
        };
        let (path, owner, locations) = (put(record.path), put(record.owner), put(record.locations));
        self.rows.push(BlockRow {
            path,
            owner,
            locations,
            permissions: record.permissions,
            size: record.size,
            changed: record.changed,
            guid: record.guid,
        });
        true
    }

    /// A record.
    pub fn record(&self, index: usize) -> Record<'_> {
        let row = &self.rows[index];
        Record {
            path: &self.text[row.path.clone()],
            owner: &self.text[row.owner.clone()],
            permissions: row.permissions,
            size: row.size,
            changed: row.changed,
            guid: row.guid,
            locations: &self.text[row.locations.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUID: &str = "8b7c2f00-c50a-11e8-9a1d-0242ac110002";

    fn row(fields: &[&str]) -> Row {
        let mut row = Row::default();
        for field in fields {
            row.bytes.extend_from_slice(field.as_bytes());
            row.end_field();
        }
        row
    }

    #[test]
    fn a_row_is_a_record_by_the_names_of_its_columns() {
        let fields = ["/a/b", "me", "644", "12", "2018-10-01 00:00:00.5", GUID, "A=x"];
        let plain = row(&fields);
        let record = Columns::default().record(&plain).expect("a record");
        assert_eq!((record.path, record.owner, record.locations), ("/a/b", "me", "A=x"));
        assert_eq!((record.permissions, record.size, record.changed), (0o644, 12, 1_538_352_000_500));
        let columns =
            Columns::named(&["id", "Locations", "GUID", "changed", "size", "permissions", "owner", "path"])
                .expect("all");
        let turned = row(&["9", "A=x", GUID, "1538352000500", "12", "644", "me", "/a/b"]);
        assert_eq!(columns.record(&turned), Ok(record));
        assert_eq!(Columns::named(&["path"]), Err("there is no column \"owner\"".into()));
    }

    #[test]
    fn what_is_wrong_with_a_row_is_said() {
        let good = ["/a/b", "me", "644", "12", "0", GUID, "A=x;B=y"];
        assert!(Columns::default().record(&row(&good)).is_ok());
        for (at, bad, said) in [
            (0, "a/b", "does not begin with /"),
            (0, "/", "the root"),
            (2, "888", "permissions is \"888\""),
            (2, "77777", "permissions"),
            (3, "-1", "size is \"-1\""),
            (3, "", "size"),
            (4, "yesterday", "changed is \"yesterday\", not a time"),
            (5, "8b7c2f00", "guid is \"8b7c2f00\", not a UUID"),
            (5, "8b7c2f00-c50a-41e8-9a1d-0242ac110002", "version 1"),
            (6, "A", "locations is \"A\""),
            (6, "A=x;", "locations"),
            (6, "=x", "locations"),
        ] {
            let mut fields = good;
            fields[at] = bad;
            let text = Columns::default().record(&row(&fields)).expect_err(bad);
            assert!(text.contains(said), "{text}");
        }
        assert_eq!(Columns::default().record(&row(&good[..6])), Err("6 fields instead of 7".into()));
    }

    #[test]
    fn locations_keep_every_letter() {
        let mut text = String::new();
        let pairs = [("A;=\\", "root://h//x?a=b;c\\d"), ("B", "y")];
        for (element, name) in pairs {
            put_location(element, name, &mut text);
        }
        let read: Vec<Location> = Locations::new(&text).flatten().collect();
        assert_eq!(read, pairs.map(|(element, name)| (element.to_owned(), name.to_owned())));
        assert_eq!(Locations::new("").count(), 0);
    }

    #[test]
    fn a_block_is_of_one_folder() {
        let record = |path| Record {
            path,
            owner: "me",
            permissions: 0,
            size: 1,
            changed: 2,
            guid: Uuid::nil(),
            locations: "",
        };
        let mut block = Block::default();
        assert!(block.push(&record("/a/b")) && block.push(&record("/a/c")) && !block.push(&record("/a/c/d")));
        assert_eq!((block.len(), block.folder(), block.record(1)), (2, "/a", record("/a/c")));
        block.clear();
        assert!(block.push(&record("/x")) && !block.push(&record("/a/c")));
        assert_eq!(block.folder(), "/");
    }
}
