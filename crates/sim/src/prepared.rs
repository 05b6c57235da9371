//! The other way a statement goes over the wire: PREPARE once, then EXECUTE, with its literals bound or left in the text.

use std::collections::BTreeMap;

use protocol::metadata::Prepared;
use protocol::values::ValuesBuilder;
use protocol::wire::RawValue;

use crate::limits::STATEMENTS_KEPT;

/// How a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// QUERY.
    Text,
    /// EXECUTE of the whole text.
    Whole,
    /// EXECUTE of the text with markers in place of its literals.
    Bound,
}

impl Way {
    /// From the shard's chance. Nearly all requests of real clients are bound.
    pub(crate) fn drawn() -> Way {
        match runtime::random_u64() % 4 {
            0 => Way::Text,
            1 => Way::Whole,
            _ => Way::Bound,
        }
    }
}

/// What one client has prepared on one node, by text. Ids outlive a connection, and a restart of the node makes them unknown.
#[derive(Debug, Default)]
pub(crate) struct Statements(BTreeMap<String, Prepared>);

impl Statements {
    pub(crate) fn get(&self, text: &str) -> Option<&Prepared> {
        self.0.get(text)
    }

    pub(crate) fn keep(&mut self, text: &str, prepared: Prepared) {
        if self.0.len() >= STATEMENTS_KEPT {
            self.0.clear();
        }
        self.0.insert(text.to_string(), prepared);
    }

    pub(crate) fn forget(&mut self, text: &str) {
        self.0.remove(text);
    }
}

/// The literal that a token is: an integer, a text or null.
fn bind(token: &str, values: &mut ValuesBuilder) -> bool {
    if token == "null" {
        values.push(RawValue::Null);
    } else if let Some(text) = token.strip_prefix('\'').and_then(|token| token.strip_suffix('\'')) {
        values.bytes(text.as_bytes());
    } else if let Ok(number) = token.parse::<i32>() {
        values.bytes(&number.to_be_bytes());
    } else {
        return false;
    }
    true
}

/// A statement with markers in place of its literals, and these. Those inside collections and indexes stay in the text, as
/// does everything in a change of the schema. No text of a scenario has a quote or a sign in it.
pub(crate) fn with_markers(cql: &str) -> (String, ValuesBuilder) {
    let mut values = ValuesBuilder::new();
    if !["SELECT ", "INSERT ", "UPDATE ", "DELETE "].iter().any(|verb| cql.starts_with(verb)) {
        return (cql.to_string(), values);
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut text, mut rest, mut depth) = (String::new(), cql, 0);
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |at| at + 2),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, behind) = rest.split_at(len);
        match token {
            "[" | "{" => depth += 1,
            "]" | "}" => depth -= 1,
            _ => {}
        }
        text += if depth == 0 && bind(token, &mut values) { "?" } else { token };
        rest = behind;
    }
    (text, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(cql: &str) -> (String, usize) {
        let (text, values) = with_markers(cql);
        (text, values.values().len())
    }

    #[test]
    fn literals_become_markers() {
        let cases = [
            (
                "INSERT INTO ks.t (k, v, w) VALUES (1, 'it is 7', null)",
                "INSERT INTO ks.t (k, v, w) VALUES (?, ?, ?)",
                3,
            ),
            (
                "UPDATE ks.t SET l[2] = 41 WHERE pk = 3 AND ck = 0",
                "UPDATE ks.t SET l[2] = ? WHERE pk = ? AND ck = ?",
                3,
            ),
            ("UPDATE ks.t SET m = {1: 'a'} WHERE pk = 3", "UPDATE ks.t SET m = {1: 'a'} WHERE pk = ?", 1),
            ("SELECT v FROM ks.d12 WHERE k IN (1, 2)", "SELECT v FROM ks.d12 WHERE k IN (?, ?)", 2),
            ("TRUNCATE ks.r", "TRUNCATE ks.r", 0),
            (
                "CREATE TABLE a (k int PRIMARY KEY) WITH x = 5",
                "CREATE TABLE a (k int PRIMARY KEY) WITH x = 5",
                0,
            ),
        ];
        for (cql, text, count) in cases {
            assert_eq!(marked(cql), (text.to_string(), count), "{cql}");
        }
    }
}
