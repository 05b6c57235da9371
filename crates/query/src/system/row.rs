//! One generated row: column names with values in wire form.

use core::net::IpAddr;
use std::collections::BTreeMap;

/// A row of a generated table, key columns included. A column not named is null.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Column names with their values in the wire form of the column's type.
    pub values: Vec<(&'static str, Vec<u8>)>,
}

impl Row {
    /// A row with nothing in it.
    pub fn new() -> Row {
        Row::default()
    }

    /// The wire form of a column, if it has one.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let found = self.values.iter().find(|(n, _)| *n == name);
        found.map(|(_, v)| v.as_slice())
    }

    /// Adds a value that is already in wire form.
    pub fn bytes(mut self, name: &'static str, value: Vec<u8>) -> Row {
        self.values.push((name, value));
        self
    }

    /// Adds a text.
    pub fn text(self, name: &'static str, value: &str) -> Row {
        self.bytes(name, value.as_bytes().to_vec())
    }

    /// Adds a text unless it is absent.
    pub fn text_if(self, name: &'static str, value: Option<&str>) -> Row {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// Adds an int.
    pub fn int(self, name: &'static str, value: i32) -> Row {
        self.bytes(name, value.to_be_bytes().to_vec())
    }

    /// Adds a bigint or a timestamp.
    pub fn bigint(self, name: &'static str, value: i64) -> Row {
        self.bytes(name, value.to_be_bytes().to_vec())
    }

    /// Adds a double.
    pub fn double(self, name: &'static str, value: f64) -> Row {
        self.bytes(name, value.to_be_bytes().to_vec())
    }

    /// Adds a boolean.
    pub fn boolean(self, name: &'static str, value: bool) -> Row {
        self.bytes(name, vec![u8::from(value)])
    }

    /// Adds a uuid.
    pub fn uuid(self, name: &'static str, value: u128) -> Row {
        self.bytes(name, value.to_be_bytes().to_vec())
    }

    /// Adds an address.
    pub fn inet(self, name: &'static str, value: IpAddr) -> Row {
        self.bytes(name, inet(value))
    }

    /// Adds a list or set of texts, in the order given (sets must come sorted).
    pub fn texts<S: AsRef<[u8]>>(self, name: &'static str, values: &[S]) -> Row {
        self.bytes(name, list(values))
    }

    /// Adds a map from text to text or blob.
    pub fn map<V: AsRef<[u8]>>(self, name: &'static str, values: &BTreeMap<String, V>) -> Row {
        let mut out = (values.len() as i32).to_be_bytes().to_vec();
        for (key, value) in values {
            push(&mut out, key.as_bytes());
            push(&mut out, value.as_ref());
        }
        self.bytes(name, out)
    }
}

/// The wire form of an address: 4 or 16 bytes.
pub fn inet(value: IpAddr) -> Vec<u8> {
    match value {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn list<S: AsRef<[u8]>>(values: &[S]) -> Vec<u8> {
    let mut out = (values.len() as i32).to_be_bytes().to_vec();
    for value in values {
        push(&mut out, value.as_ref());
    }
    out
}

fn push(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&(value.len() as i32).to_be_bytes());
    out.extend_from_slice(value);
}
