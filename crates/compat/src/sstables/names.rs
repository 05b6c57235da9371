//! Tables whose columns have names from all of Unicode: both sides must put them into one order, in files and in `SELECT *`.
//!
//! The order depends on the first byte and on the first six and eight together, so names of every kind of first letter share
//! beginnings of every length. The first complex column of each role has a name that begins with an ASCII letter: without one
//! Cassandra 5.0.6 takes the table for one without complex columns, and its reads end with a NullPointerException.

use super::schemas::{Column, Role, Schema};
use super::values::Chance;

/// First letters and those behind: one from each length of UTF-8, at its edges and between.
const RANGES: [(u32, u32); 8] = [
    (0x21, 0x7e),
    (0x61, 0x7a),
    (0xa1, 0x7ff),
    (0x400, 0x4ff),
    (0x800, 0xd7ff),
    (0xe000, 0xffff),
    (0x1_0000, 0x1_ffff),
    (0x10_0000, 0x10_ffff),
];
/// Letters behind what a name shares with another, at most one more.
const LETTERS_MAX: u64 = 9;

/// Types of values, simple and complex by turns, those of fixed length and others.
const TYPES: [&str; 8] =
    ["int", "set<int>", "text", "list<text>", "boolean", "frozen<set<text>>", "map<int, text>", "letters"];

/// The type of the first complex column.
const FIRST_COMPLEX: usize = 1;

/// The tables of a seed: a few columns, for every commit, and so many that rows list them instead of a bitmap.
pub fn tables(seed: u64) -> Vec<Schema> {
    let mut chance = Chance::new(seed, "names");
    let few = Schema { quick: true, ..of(&mut chance, "names_few", 14, 6) };
    vec![few, of(&mut chance, "names_many", 80, 68), of(&mut chance, "names_simple", 24, 12)]
}

fn of(chance: &mut Chance, name: &str, values: usize, statics: usize) -> Schema {
    let mut schema = Schema::empty(name);
    let mut taken: Vec<String> = Vec::new();
    let mut add = |role: Role, ty: &str| {
        let first = (ty == TYPES[FIRST_COMPLEX]).then_some('s');
        let name = fresh(chance, first, &mut taken);
        schema.columns.push(Column { name, ty: ty.into(), role });
    };
    add(Role::Key, "int");
    add(Role::Asc, "int");
    add(Role::Desc, "text");
    for (count, role) in [(statics, Role::Static), (values, Role::Value)] {
        for index in 0..count {
            // Without complex columns nothing but the order of names decides what a value is.
            let ty = if name.ends_with("simple") { "text" } else { TYPES[index % TYPES.len()] };
            add(role, ty);
        }
    }
    schema
}

/// A name that no other column has, in quotes, with its first letter if told so. One in three continues another, or is its beginning.
fn fresh(chance: &mut Chance, first: Option<char>, taken: &mut Vec<String>) -> String {
    loop {
        let mut name: String = first.into_iter().collect();
        if first.is_none() && !taken.is_empty() && chance.percent(35) {
            let other: Vec<char> = chance.pick(taken).chars().collect();
            let kept = 1 + chance.below(other.len() as u64) as usize;
            name.extend(&other[..kept]);
        }
        let more = chance.below(LETTERS_MAX);
        for _ in 0..=more {
            name.push(letter(chance));
        }
        if !taken.contains(&name) {
            taken.push(name.clone());
            return format!("\"{name}\"");
        }
    }
}

fn letter(chance: &mut Chance) -> char {
    loop {
        let (first, last) = *chance.pick(&RANGES);
        let code = first + chance.below(u64::from(last - first) + 1) as u32;
        match char::from_u32(code) {
            // The statements are lines of a file, and quotes end a name.
            Some('"' | '\u{2028}' | '\u{2029}' | '\u{feff}') | None => {}
            Some(letter) => return letter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_every_length_of_a_letter() {
        let tables = tables(1);
        let names: Vec<&str> = tables
            .iter()
            .flat_map(|table| &table.columns)
            .map(|column| column.name.trim_matches('"'))
            .collect();
        for length in 1..=4 {
            let first = |name: &&&str| name.chars().next().map(char::len_utf8) == Some(length);
            assert!(names.iter().filter(first).count() > 10, "{length}");
        }
        assert_eq!(tables.iter().filter(|table| table.quick).count(), 1);
    }
}
