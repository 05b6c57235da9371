//! What is asked of each type: which literals and JSON are written as a value of it (`crates/compat/texts/forms.txt`), and
//! what is selected from its values.

use std::collections::BTreeMap;
use std::fs;

use crate::paths;

/// A type: its text in CQL, literals, JSON.
pub struct Form {
    /// As CREATE TABLE has it.
    pub ty: &'static str,
    /// Literals: each is written and read back.
    pub literals: Vec<String>,
    /// JSON texts: the same by INSERT JSON.
    pub json: Vec<String>,
    /// Selections of the column `v`.
    pub selects: Vec<String>,
}

const TYPES: &[&str] = &[
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "varint",
    "float",
    "double",
    "decimal",
    "timestamp",
    "date",
    "time",
    "duration",
    "boolean",
    "text",
    "ascii",
    "blob",
    "inet",
    "uuid",
    "timeuuid",
    "list<int>",
    "frozen<set<int>>",
    "list<text>",
    "map<text, text>",
    "map<int, int>",
    "map<timestamp, int>",
    "map<double, int>",
    "map<inet, int>",
    "map<blob, int>",
    "map<boolean, int>",
    "map<frozen<list<int>>, int>",
    "map<frozen<tuple<int, text>>, int>",
    "map<frozen<u>, int>",
    "tuple<int, text>",
    "frozen<u>",
    "vector<float, 2>",
    "vector<text, 1>",
    "tuple<date, timestamp, time>",
    "list<frozen<tuple<double, inet>>>",
    "tuple<list<int>, blob, uuid>",
    "frozen<tuple<frozen<tuple<int, int>>, text>>",
];

const NUMBERS: &[&str] = &["tinyint", "smallint", "int", "bigint", "varint", "float", "double", "decimal"];

/// All types. Errors: a file cannot be read, or has a section of no type.
pub fn all() -> Result<Vec<Form>, String> {
    let mut sections = sections()?;
    let forms = TYPES.iter().map(|ty| {
        let mut take = |what: &str| sections.remove(&format!("{what} {ty}")).unwrap_or_default();
        let (mut literals, json) = (take("literal"), take("JSON"));
        if *ty == "timestamp" {
            literals.extend(zone_names()?);
        }
        Ok(Form { ty, literals, json, selects: selects(ty) })
    });
    let forms = forms.collect::<Result<Vec<Form>, String>>()?;
    match sections.keys().next() {
        Some(unknown) => Err(format!("forms.txt: no type has the section [{unknown}]")),
        None => Ok(forms),
    }
}

fn read(path: &std::path::Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn sections() -> Result<BTreeMap<String, Vec<String>>, String> {
    let text = read(&paths::resources().join("texts/forms.txt"))?;
    let mut sections = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let heading = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match heading.filter(|heading| heading.starts_with("literal ") || heading.starts_with("JSON ")) {
            Some(heading) => name = heading.to_owned(),
            None => sections.entry(name.clone()).or_insert_with(Vec::new).push(unescaped(line)?),
        }
    }
    Ok(sections)
}

/// The text of a line: `\\` is a backslash, `\u{…}` a character.
fn unescaped(line: &str) -> Result<String, String> {
    let bad = || format!("forms.txt: {line}: neither \\\\ nor \\u{{…}} behind a backslash");
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        if let Some(tail) = escape.strip_prefix('\\') {
            out.push('\\');
            rest = tail;
            continue;
        }
        let (digits, tail) =
            escape.strip_prefix("u{").and_then(|tail| tail.split_once('}')).ok_or_else(bad)?;
        let code = u32::from_str_radix(digits, 16).map_err(|_| bad())?;
        out.push(char::from_u32(code).ok_or_else(bad)?);
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn is_number(ty: &str) -> bool {
    NUMBERS.contains(&ty)
}

fn selects(ty: &str) -> Vec<String> {
    let mut out = owned(&["CAST(v AS text)", "CAST(v AS ascii)", "toJson(v)"]);
    if is_number(ty) {
        out.extend(NUMBERS.iter().map(|to| format!("CAST(v AS {to})")));
        out.extend(owned(&[
            "-v", "v + v", "v * v", "v - v", "v / v", "v % v", "abs(v)", "round(v)", "v + 1", "v * 1.5",
        ]));
    }
    out.extend(owned(match ty {
        "timestamp" | "date" | "timeuuid" => &[
            "CAST(v AS date)",
            "CAST(v AS timestamp)",
            "CAST(v AS bigint)",
            "toDate(v)",
            "toTimestamp(v)",
            "toUnixTimestamp(v)",
            "minTimeuuid(v)",
            "maxTimeuuid(v)",
            "toTimestamp(minTimeuuid(v))",
            "toTimestamp(maxTimeuuid(v))",
            "v + 1d",
            "v - 1d",
            "v + 1mo",
            "v - 1y",
            "v + 178956970y",
            "v - 2147483647d",
            "v + 1ms",
            "v + 2562047h",
            "floor(v, 1d)",
            "floor(v, 1mo)",
            "floor(v, 1h)",
            "floor(v, 7y)",
        ][..],
        "bigint" | "int" => {
            &["CAST(v AS timestamp)", "CAST(v AS date)", "toTimestamp(v)", "toDate(v)", "minTimeuuid(v)"]
        }
        "time" => &["floor(v, 1h)", "floor(v, 7ns)", "v + 1h"],
        "blob" => &[
            "blob_as_tinyint(v)",
            "blob_as_smallint(v)",
            "blob_as_int(v)",
            "blob_as_bigint(v)",
            "blob_as_varint(v)",
            "blob_as_float(v)",
            "blob_as_decimal(v)",
            "blob_as_timestamp(v)",
            "blob_as_date(v)",
            "blob_as_time(v)",
            "blob_as_duration(v)",
            "blob_as_boolean(v)",
            "blob_as_text(v)",
            "blob_as_ascii(v)",
            "blob_as_inet(v)",
            "blob_as_uuid(v)",
            "blob_as_timeuuid(v)",
        ],
        _ => &[],
    }));
    out
}

/// A moment in winter and one in summer in every zone that has a name beside its identifier.
fn zone_names() -> Result<Vec<String>, String> {
    let names = read(&paths::repository().join("crates/types/src/zone_names.txt"))?;
    let names = names.lines().filter_map(|line| line.split('\t').next());
    let moments = names
        .flat_map(|name| ["2011-01-15 12:00", "2022-07-15T12:00:00.5"].map(|at| format!("'{at} {name}'")));
    Ok(moments.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_is_of_a_type() {
        let forms = all().expect("the file is right");
        assert_eq!(forms.iter().filter(|form| !form.literals.is_empty()).count(), 29);
        assert_eq!(unescaped("a\\\\u{41}\\u{41}"), Ok("a\\u{41}A".to_owned()));
        assert!(unescaped("\\n").is_err() && unescaped("\\u{d800}").is_err());
    }
}
