//! Profiles: a table of one's own, what its columns hold, and what is asked of it, in YAML.
//!
//! ```yaml
//! keyspace: shop
//! table: visits
//! table_definition: CREATE TABLE visits (who text, at timeuuid, page text, PRIMARY KEY (who, at))
//! columnspec:
//!   - {name: who, size: fixed(12), population: uniform(1..1M)}
//!   - {name: at, cluster: uniform(1..50)}
//! insert: {partitions: fixed(1), batchtype: UNLOGGED, select: fixed(1)/1}
//! queries:
//!   latest: {cql: select * from visits where who = ? LIMIT 10, fields: samerow}
//! ```

use crate::distribution::Distribution;
use crate::error::Error;
use crate::grammar::Ratio;
use protocol::request::BatchKind;
use regex_lite::Regex;
use types::Consistency;
use yaml::{Entry, Node, Value};

/// Rows of a page of a query over token ranges, where the profile says nothing.
const PAGE_ROWS: u32 = 5_000;
/// Words that are operations of their own.
const RESERVED: [&str; 2] = ["insert", "validate"];
/// Keys of statements that make something.
const KEYSPACE: &str = "keyspace_definition";
const TABLE: &str = "table_definition";
const EXTRA: &str = "extra_definitions";

/// What a column holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnSpec {
    /// The column.
    pub name: String,
    /// Bytes, letters or elements of a value.
    pub size: Option<Distribution>,
    /// From what values are drawn.
    pub population: Option<Distribution>,
    /// Values of a clustering column in a partition.
    pub cluster: Option<Distribution>,
    /// The line on which its description begins.
    pub line: usize,
    /// The line of `cluster`.
    pub cluster_line: usize,
}

/// A statement that makes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The key it stands under.
    pub key: &'static str,
    /// Its line.
    pub line: usize,
    /// Its text.
    pub cql: String,
}

/// How rows are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InsertSpec {
    /// Partitions of an operation.
    pub partitions: Option<Distribution>,
    /// What a batch promises.
    pub batch: Option<BatchKind>,
    /// Share of a partition's rows.
    pub select: Option<Ratio>,
    /// Share of columns that are not null.
    pub row_population: Option<Ratio>,
    /// Where it is not the run's.
    pub levels: Levels,
}

/// Consistency levels of a statement's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Of the statement.
    pub level: Option<Consistency>,
    /// Of its condition.
    pub serial: Option<Consistency>,
}

/// From which rows the arguments of a query come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// All from one.
    SameRow,
    /// Each from any of the partition.
    MultiRow,
}

/// A query.
#[derive(Clone, Debug, PartialEq)]
pub struct QuerySpec {
    /// Its name in small letters.
    pub name: String,
    /// Its line.
    pub line: usize,
    /// Its text.
    pub cql: String,
    /// Where its arguments come from.
    pub fields: Fields,
    /// Where it is not the run's.
    pub levels: Levels,
}

/// A query over all of the table, token range by token range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanSpec {
    /// Its name in small letters.
    pub name: String,
    /// Its line.
    pub line: usize,
    /// The columns that are read, as written.
    pub columns: String,
    /// Rows of a page.
    pub page_rows: u32,
}

/// A profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its file, as it was named.
    pub file: String,
    /// What operations are told apart by where there are several profiles.
    pub name: String,
    /// The keyspace as written.
    pub keyspace: String,
    /// The table as written.
    pub table: String,
    /// Makes the keyspace.
    pub keyspace_definition: Option<Definition>,
    /// Makes the table.
    pub table_definition: Option<Definition>,
    /// Made after the table.
    pub extra_definitions: Vec<Definition>,
    /// Columns that are not made as their type is by default.
    pub columns: Vec<ColumnSpec>,
    /// How rows are written.
    pub insert: InsertSpec,
    /// Queries.
    pub queries: Vec<QuerySpec>,
    /// Queries over all of the table.
    pub scans: Vec<ScanSpec>,
}

/// What is wrong, and on which line.
struct Wrong {
    line: usize,
    text: String,
}

fn wrong<T>(line: usize, text: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { line, text: text.into() })
}

impl Profile {
    /// Reads a profile's file.
    #[allow(clippy::disallowed_methods, reason = "read once, before there is any load")]
    pub fn open(file: &str) -> Result<Profile, Error> {
        // Files may be named as addresses, too.
        let path = file.strip_prefix("file://").or_else(|| file.strip_prefix("file:")).unwrap_or(file);
        let text = std::fs::read_to_string(path).map_err(|error| Error::run(format!("{file}: {error}")))?;
        Profile::parse(file, &text)
    }

    /// Reads the text of a profile; errors name the file, the line and the key.
    pub fn parse(file: &str, text: &str) -> Result<Profile, Error> {
        let read = || {
            let document = yaml::parse(text).or_else(|malformed| wrong(malformed.line, malformed.reason))?;
            read(file, &document)
        };
        read().map_err(|Wrong { line, text }| Error::run(format!("{file}:{line}: {text}")))
    }

    /// What is wrong with the value of a key: with file, line and key.
    pub fn wrong(&self, line: usize, key: &str, text: impl std::fmt::Display) -> Error {
        Error::run(format!("{}:{line}: {key}: {text}", self.file))
    }
}

fn read(file: &str, document: &Node) -> Result<Profile, Wrong> {
    let mut profile = Profile {
        file: file.to_owned(),
        name: String::new(),
        keyspace: String::new(),
        table: String::new(),
        keyspace_definition: None,
        table_definition: None,
        extra_definitions: Vec::new(),
        columns: Vec::new(),
        insert: InsertSpec::default(),
        queries: Vec::new(),
        scans: Vec::new(),
    };
    for entry in map("a profile", document)? {
        let value = &entry.value;
        match entry.key.as_str() {
            "specname" => profile.name = text(entry)?,
            "keyspace" => profile.keyspace = text(entry)?,
            "table" => profile.table = text(entry)?,
            KEYSPACE => {
                profile.keyspace_definition =
                    definition(entry, KEYSPACE, "keyspace", profile_name(document, "keyspace"))?;
            }
            TABLE => {
                profile.table_definition =
                    definition(entry, TABLE, "table", profile_name(document, "table"))?;
            }
            EXTRA => profile.extra_definitions = extra_definitions(entry)?,
            "columnspec" => profile.columns = columns(value)?,
            "insert" => profile.insert = insert(value)?,
            "queries" => profile.queries = operations("queries", value, query)?,
            "token_range_queries" => profile.scans = operations("token_range_queries", value, scan)?,
            key => return wrong(entry.line, format!("{key}: no such key of a profile")),
        }
    }
    if profile.keyspace.is_empty() {
        return wrong(document.line, "keyspace: the name of the keyspace is required");
    }
    if profile.table.is_empty() {
        return wrong(document.line, "table: the name of the table is required");
    }
    if profile.name.is_empty() {
        profile.name = format!("{}.{}", profile.keyspace, profile.table);
    }
    let twice = profile.scans.iter().find(|scan| profile.queries.iter().any(|query| query.name == scan.name));
    if let Some(scan) = twice {
        let text = format!(
            "Found {} in both queries and token_range_queries, please use different names",
            scan.name
        );
        return wrong(scan.line, text);
    }
    Ok(profile)
}

/// The name at the top of the document, wherever it stands.
fn profile_name<'d>(document: &'d Node, key: &str) -> &'d str {
    let Value::Map(entries) = &document.value else { return "" };
    let value = entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value.value);
    match value {
        Some(Value::Scalar(text)) => text,
        _ => "",
    }
}

/// The statement that makes something; its name must be the one that the profile says.
fn definition(entry: &Entry, key: &'static str, what: &str, name: &str) -> Result<Option<Definition>, Wrong> {
    let text = match &entry.value.value {
        Value::Null => return Ok(None),
        _ => text(entry)?,
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let pattern = format!(
        r#"(?is)^(?:\s|--[^\n]*\n|//[^\n]*\n|/\*.*?\*/)*create\s+(?:{what}|{})\s+(?:if\s+not\s+exists\s+)?(?:"?\w+"?\s*\.\s*)?("?\w+"?)"#,
        if what == "table" { "columnfamily" } else { "schema" }
    );
    let found = Regex::new(&pattern).ok().and_then(|regex| {
        let found = regex.captures(&text)?.get(1)?.as_str().trim_matches('"').to_owned();
        Some(found)
    });
    match found {
        None => wrong(
            entry.line,
            format!("There was a problem parsing the {what} cql: no CREATE {}", what.to_uppercase()),
        ),
        Some(found) if found.eq_ignore_ascii_case(name.trim_matches('"')) => {
            Ok(Some(Definition { key, line: entry.line, cql: text }))
        }
        Some(found) => wrong(
            entry.line,
            format!("Name in {what}_definition doesn't match {what} property: '{found}' != '{name}'"),
        ),
    }
}

fn map<'n>(what: &str, node: &'n Node) -> Result<&'n [Entry], Wrong> {
    match &node.value {
        Value::Map(entries) => Ok(entries),
        Value::Null => Ok(&[]),
        Value::Scalar(_) | Value::List(_) => wrong(node.line, format!("{what} is a map of keys to values")),
    }
}

fn text(entry: &Entry) -> Result<String, Wrong> {
    match &entry.value.value {
        Value::Scalar(text) => Ok(text.clone()),
        Value::Null | Value::List(_) | Value::Map(_) => {
            wrong(entry.line, format!("{}: a text is wanted", entry.key))
        }
    }
}

fn extra_definitions(entry: &Entry) -> Result<Vec<Definition>, Wrong> {
    let Value::List(items) = &entry.value.value else {
        return match entry.value.value {
            Value::Null => Ok(Vec::new()),
            _ => wrong(entry.line, format!("{}: a list of texts is wanted", entry.key)),
        };
    };
    items
        .iter()
        .map(|item| match &item.value {
            Value::Scalar(text) => Ok(Definition { key: EXTRA, line: item.line, cql: text.clone() }),
            _ => wrong(item.line, format!("{}: each is a text", entry.key)),
        })
        .collect()
}

/// A text without white space, which distributions may be written with.
fn dense(entry: &Entry) -> Result<String, Wrong> {
    Ok(text(entry)?.split_whitespace().collect())
}

fn distribution(entry: &Entry) -> Result<Option<Distribution>, Wrong> {
    let text = dense(entry)?;
    Distribution::parse(&text).map(Some).or_else(|error| wrong(entry.line, format!("{}: {error}", entry.key)))
}

fn ratio(entry: &Entry) -> Result<Option<Ratio>, Wrong> {
    let text = dense(entry)?;
    Ratio::parse(&text).map(Some).or_else(|error| wrong(entry.line, format!("{}: {error}", entry.key)))
}

fn level(entry: &Entry) -> Result<Option<Consistency>, Wrong> {
    let text = text(entry)?;
    match Consistency::parse(&text) {
        Some(level) => Ok(Some(level)),
        None => wrong(entry.line, format!("{}: {text} is no consistency level", entry.key)),
    }
}

fn columns(node: &Node) -> Result<Vec<ColumnSpec>, Wrong> {
    let items = match &node.value {
        Value::Null => return Ok(Vec::new()),
        Value::List(items) => items,
        Value::Scalar(_) | Value::Map(_) => return wrong(node.line, "columnspec: a list of maps is wanted"),
    };
    let mut columns: Vec<ColumnSpec> = Vec::new();
    for item in items {
        let mut column = ColumnSpec { line: item.line, ..ColumnSpec::default() };
        for entry in map("an item of columnspec", item)? {
            match entry.key.to_ascii_lowercase().as_str() {
                "name" => column.name = text(entry)?,
                "size" => column.size = distribution(entry)?,
                "population" => column.population = distribution(entry)?,
                "cluster" => {
                    column.cluster = distribution(entry)?;
                    column.cluster_line = entry.line;
                }
                key => return wrong(entry.line, format!("Unrecognised option(s) in column spec: {key}")),
            }
        }
        if column.name.is_empty() {
            return wrong(item.line, "Missing name argument in column spec");
        }
        if columns.iter().any(|known| known.name == column.name) {
            return wrong(item.line, format!("columnspec: {} is described twice", column.name));
        }
        columns.push(column);
    }
    Ok(columns)
}

fn insert(node: &Node) -> Result<InsertSpec, Wrong> {
    let mut insert = InsertSpec::default();
    for entry in map("insert", node)? {
        match entry.key.to_ascii_lowercase().as_str() {
            "partitions" => insert.partitions = distribution(entry)?,
            "select" => insert.select = ratio(entry)?,
            "row-population" => insert.row_population = ratio(entry)?,
            "batchtype" => {
                let text = text(entry)?;
                insert.batch = match batch_kind(&text) {
                    Some(kind) => Some(kind),
                    None => {
                        return wrong(
                            entry.line,
                            format!("batchtype: {text} is none of LOGGED, UNLOGGED, COUNTER"),
                        );
                    }
                };
            }
            "consistencylevel" => insert.levels.level = level(entry)?,
            "serialconsistencylevel" => insert.levels.serial = level(entry)?,
            key => return wrong(entry.line, format!("Unrecognised insert option(s): {key}")),
        }
    }
    Ok(insert)
}

/// The kind of a batch by its name.
pub fn batch_kind(name: &str) -> Option<BatchKind> {
    match name.to_ascii_uppercase().as_str() {
        "LOGGED" => Some(BatchKind::Logged),
        "UNLOGGED" => Some(BatchKind::Unlogged),
        "COUNTER" => Some(BatchKind::Counter),
        _ => None,
    }
}

/// The name of an operation, which no operation of every profile has.
fn operation_name(entry: &Entry) -> Result<String, Wrong> {
    let name = entry.key.to_ascii_lowercase();
    if RESERVED.contains(&name.as_str()) {
        return wrong(
            entry.line,
            format!("{name} is an operation of every profile: please use another name"),
        );
    }
    Ok(name)
}

/// The operations under a key, each read under its name in small letters; none has the name of another.
fn operations<T>(
    what: &str,
    node: &Node,
    read: fn(String, &Entry) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    let mut names: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for operation in map(what, node)? {
        let name = operation_name(operation)?;
        if names.contains(&name) {
            return wrong(operation.line, format!("{}: the name is given twice", operation.key));
        }
        names.push(name.clone());
        all.push(read(name, operation)?);
    }
    Ok(all)
}

fn query(name: String, query: &Entry) -> Result<QuerySpec, Wrong> {
    let mut spec = QuerySpec {
        name,
        line: query.line,
        cql: String::new(),
        fields: Fields::MultiRow,
        levels: Levels::default(),
    };
    for entry in map(&query.key, &query.value)? {
        match entry.key.to_ascii_lowercase().as_str() {
            "cql" => spec.cql = text(entry)?,
            "fields" => {
                spec.fields = match text(entry)?.to_ascii_lowercase().as_str() {
                    "samerow" => Fields::SameRow,
                    "multirow" => Fields::MultiRow,
                    other => {
                        return wrong(entry.line, format!("fields: {other} is neither samerow nor multirow"));
                    }
                };
            }
            "consistencylevel" => spec.levels.level = level(entry)?,
            "serialconsistencylevel" => spec.levels.serial = level(entry)?,
            key => return wrong(entry.line, format!("{key}: no such key of a query")),
        }
    }
    if spec.cql.trim().is_empty() {
        return wrong(query.line, format!("{}: its cql is required", query.key));
    }
    Ok(spec)
}

fn scan(name: String, scan: &Entry) -> Result<ScanSpec, Wrong> {
    let mut spec = ScanSpec { name, line: scan.line, columns: "*".into(), page_rows: PAGE_ROWS };
    for entry in map(&scan.key, &scan.value)? {
        match entry.key.as_str() {
            "columns" => spec.columns = text(entry)?,
            "page_size" => {
                spec.page_rows = match text(entry)?.parse::<u32>().ok().filter(|rows| *rows > 0) {
                    Some(rows) => rows,
                    None => return wrong(entry.line, "page_size: a number of rows is wanted"),
                };
            }
            key => return wrong(entry.line, format!("{key}: no such key of a query over token ranges")),
        }
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "\
keyspace: shop
keyspace_definition: |
  CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
table: Visits
table_definition: |
  CREATE TABLE shop.visits (who text, at timeuuid, page text, PRIMARY KEY (who, at))
extra_definitions:
  - CREATE INDEX ON visits (page)
columnspec:
  - name: who
    size: gaussian(1..10, 5, 2)
    POPULATION: uniform(1..10M)
  - name: at
    cluster: fixed(20)
insert:
  Partitions: fixed(2)
  batchtype: UNLOGGED
  select: fixed(1)/5
queries:
  Latest:
    cql: select * from visits where who = ? LIMIT 10
    fields: samerow
  any: {cql: select page from visits where who = ? and at = ?, consistencyLevel: QUORUM}
token_range_queries:
  all: {columns: '*', page_size: 100}
";

    fn problem(text: &str) -> String {
        Profile::parse("p.yaml", text).expect_err(text).to_string()
    }

    #[test]
    fn a_profile_is_read_whole() {
        let profile = Profile::parse("p.yaml", EXAMPLE).expect("a profile");
        assert_eq!((profile.name.as_str(), profile.table.as_str()), ("shop.Visits", "Visits"));
        let extra = Definition { key: EXTRA, line: 8, cql: "CREATE INDEX ON visits (page)".into() };
        assert_eq!(profile.extra_definitions, [extra]);
        let lines = [&profile.keyspace_definition, &profile.table_definition]
            .map(|definition| definition.as_ref().map(|definition| definition.line));
        assert_eq!(lines, [Some(2), Some(5)]);
        assert_eq!((profile.columns[1].line, profile.columns[1].cluster_line), (13, 14));
        assert_eq!(profile.queries.iter().map(|query| query.line).collect::<Vec<_>>(), [20, 23]);
        assert_eq!(profile.columns[0].size, Distribution::parse("gaussian(1..10,5,2)").ok());
        assert_eq!(profile.columns[0].population, Distribution::parse("uniform(1..10M)").ok());
        assert_eq!(profile.columns[1].cluster, Distribution::parse("fixed(20)").ok());
        assert_eq!(profile.insert.batch, Some(BatchKind::Unlogged));
        assert_eq!(profile.insert.select, Ratio::parse("fixed(1)/5").ok());
        let names: Vec<&str> = profile.queries.iter().map(|query| query.name.as_str()).collect();
        assert_eq!(names, ["latest", "any"]);
        assert_eq!(
            profile.queries.iter().map(|query| query.fields).collect::<Vec<_>>(),
            [Fields::SameRow, Fields::MultiRow]
        );
        assert_eq!(profile.queries[1].levels.level, Some(Consistency::Quorum));
        assert_eq!(
            profile.scans,
            [ScanSpec { name: "all".into(), line: 25, columns: "*".into(), page_rows: 100 }]
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_key() {
        let with = |from: &str, to: &str| problem(&EXAMPLE.replacen(from, to, 1));
        assert_eq!(
            with("cluster: fixed(20)", "cluster: zipf(20)"),
            "p.yaml:14: cluster: Illegal distribution type: zipf"
        );
        assert_eq!(
            with("cluster:", "clusters:"),
            "p.yaml:14: Unrecognised option(s) in column spec: clusters"
        );
        assert_eq!(with("- name: at", "- size: fixed(1)"), "p.yaml:13: Missing name argument in column spec");
        assert_eq!(with("Partitions", "rows"), "p.yaml:16: Unrecognised insert option(s): rows");
        assert_eq!(
            with("fields: samerow", "fields: norow"),
            "p.yaml:22: fields: norow is neither samerow nor multirow"
        );
        assert_eq!(
            with("table: Visits", "table: views"),
            "p.yaml:5: Name in table_definition doesn't match table property: 'visits' != 'views'"
        );
        let commented = EXAMPLE.replace("CREATE TABLE", "-- visits\n  /* all\n  of them */ CREATE TABLE");
        assert!(Profile::parse("p.yaml", &commented).is_ok());
        assert_eq!(
            with("CREATE TABLE", "MAKE TABLE"),
            "p.yaml:5: There was a problem parsing the table cql: no CREATE TABLE"
        );
        assert_eq!(
            with("  all:", "  latest:"),
            "p.yaml:25: Found latest in both queries and token_range_queries, please use different names"
        );
        assert_eq!(
            with("  any:", "  insert:"),
            "p.yaml:23: insert is an operation of every profile: please use another name"
        );
        assert_eq!(
            problem(&format!("{EXAMPLE}  ALL: {{page_size: 1}}\n")),
            "p.yaml:26: ALL: the name is given twice"
        );
        assert_eq!(with("insert:", "inserts:"), "p.yaml:15: inserts: no such key of a profile");
        assert_eq!(
            with("keyspace: shop\n", ""),
            "p.yaml:1: Name in keyspace_definition doesn't match keyspace property: 'shop' != ''"
        );
        assert_eq!(problem("keyspace: k\n"), "p.yaml:1: table: the name of the table is required");
        assert!(problem("keyspace: [k\n").starts_with("p.yaml:2: "));
        assert!(problem("- a\n").starts_with("p.yaml:1: a profile is a map"));
    }

    /// Whatever the text is, it is a profile or refused.
    #[test]
    fn any_text_is_read_or_refused() {
        let pieces = [
            "\n",
            "  ",
            "- ",
            ": ",
            "{",
            "}",
            "[",
            "]",
            ",",
            "'",
            "\"",
            "|",
            "#",
            "*",
            "&a",
            "\t",
            "fixed(1)",
            "fixed(1)/0",
            "uniform(9..1)",
            "~exp(1..2)",
            "seq(1..9b)",
            "99999999999999999999",
            "-1",
            "ü",
            "CREATE TABLE visits",
            "cluster",
            "size",
            "insert",
            "queries",
            "null",
            "\u{0}",
        ];
        let mut rng = base::Prng::new(5);
        let (mut read, mut refused) = (0, 0);
        for _ in 0..4_000 {
            let mut lines: Vec<String> = EXAMPLE.lines().map(str::to_owned).collect();
            for _ in 0..=rng.below(3) {
                let line = rng.below(lines.len() as u64) as usize;
                let piece = pieces[rng.below(pieces.len() as u64) as usize];
                match rng.below(5) {
                    0 => drop(lines.remove(line)),
                    1 => lines[line] = piece.to_owned(),
                    2 => lines.insert(line, piece.to_owned()),
                    3 => lines[line].push_str(piece),
                    _ => {
                        let letters = lines[line].chars().count() as u64;
                        let at = rng.below(letters + 1) as usize;
                        let at = lines[line].char_indices().nth(at).map_or(lines[line].len(), |(at, _)| at);
                        lines[line].insert_str(at, piece);
                    }
                }
            }
            match Profile::parse("p.yaml", &lines.join("\n")) {
                Ok(_) => read += 1,
                Err(error) => {
                    assert!(error.to_string().starts_with("p.yaml:"), "{error}");
                    refused += 1;
                }
            }
        }
        assert!(read > 100 && refused > 100, "{read} {refused}");
    }
}
