//! The orders of columns that are no key: in rows of sstables, and in what `SELECT *` answers.
//!
//! ```text
//! rows      simple columns, then complex ones; of each, names whose first byte is 0x80 or above come first, and all other
//!           bytes compare as they are: "ж" < "a" < "b" < "bж", for 0xD0 < 0x61 once the highest bit of the first is flipped
//! SELECT *  both kinds together, merged: what Cassandra takes for simple with what it takes for complex, smaller bytes first
//!           where bytes are signed. It takes those complex ones for simple that precede an empty name
//! ```
//! Cassandra compares numbers made of the first bytes of names, and flips the highest bit of one of them in a place where its
//! numbers have no sign. By now its files have that order, so it is the format's. Tried with Cassandra 5.0.6.

use crate::Column;
use std::cmp::Ordering;

/// What a name is compared by: its first eight bytes as a number whose highest bit is flipped, then all of it.
fn row_key(name: &str) -> (u64, &[u8]) {
    let mut first = [0; 8];
    let length = name.len().min(first.len());
    first[..length].copy_from_slice(&name.as_bytes()[..length]);
    (u64::from_be_bytes(first) ^ 1 << 63, name.as_bytes())
}

/// Which of two columns comes first in the rows of sstables, each given as whether it is complex and its name. This order
/// is on disk: it must never change.
pub fn row_order(left: (bool, &str), right: (bool, &str)) -> Ordering {
    left.0.cmp(&right.0).then_with(|| row_key(left.1).cmp(&row_key(right.1)))
}

/// Puts static or regular columns into the order of `SELECT *`.
pub(crate) fn sort_as_selected(columns: &mut Vec<Column>) {
    columns.sort_by(|a, b| row_order((a.is_complex(), &a.name), (b.is_complex(), &b.name)));
    let is_late = |column: &Column| column.is_complex() && row_key(&column.name) >= row_key("");
    let split = match columns.last() {
        Some(last) if last.is_complex() => columns.iter().position(is_late).unwrap_or(columns.len()),
        _ => return,
    };
    let mut late = columns.split_off(split).into_iter().peekable();
    let early = std::mem::take(columns);
    let signed = |column: &Column| -> Vec<i8> { column.name.bytes().map(|byte| byte as i8).collect() };
    for column in early {
        let own = signed(&column);
        while let Some(other) = late.next_if(|other| signed(other) < own) {
            columns.push(other);
        }
        columns.push(column);
    }
    columns.extend(late);
}

#[cfg(test)]
mod tests {
    use crate::{Table, TableBuilder, TableId};
    use types::CqlType;

    fn names(table: &Table) -> Vec<&str> {
        table.regulars.iter().map(|column| &*column.name).collect()
    }

    fn table(simple: &[&str], complex: &[&str]) -> Table {
        let mut builder = TableBuilder::new("ks", "t", TableId(1)).partition_key("k", CqlType::Int);
        for name in simple {
            builder = builder.regular(name, CqlType::Int);
        }
        for name in complex {
            builder = builder.regular(name, CqlType::list(CqlType::Int));
        }
        builder.build().unwrap()
    }

    /// What Cassandra 5.0.6 answers.
    #[test]
    fn select_star_orders_names_as_cassandra_does() {
        let simple = ["a", "ж", "b", "aж", "ab", "abcdefж", "abcdefg", "z", "😀", "A"];
        let complex = ["é", "el", "я", "aя", "as"];
        let both = table(&simple, &complex);
        let expected =
            ["ж", "😀", "A", "a", "ab", "abcdefg", "abcdefж", "aж", "as", "aя", "b", "el", "z", "é", "я"];
        assert_eq!(names(&both), expected);
        // An ordinal stays what it was given as, wherever its column stands.
        let ordinals: Vec<u16> = simple.iter().map(|name| both.column(name).unwrap().ordinal).collect();
        assert_eq!(ordinals, (0..10).collect::<Vec<_>>());
        assert_eq!(names(&table(&["b", "ж"], &[])), ["ж", "b"]);
        assert_eq!(names(&table(&[], &["b", "ж"])), ["ж", "b"]);
        assert_eq!(names(&table(&["b"], &["ж"])), ["b", "ж"]);
        assert_eq!(names(&table(&["ж", "b"], &["a", "c"])), ["ж", "a", "b", "c"]);
    }
}
