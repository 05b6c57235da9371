//! COPY TO and FROM: every type, many rows, files of other shapes; and what cqlsh cannot carry, whatever the server.

use std::fs;
use std::path::Path;

use super::{LIMIT, cqlsh_command, holds, log, shell};
use crate::command;
use crate::server::Server;

/// One column of every type that COPY carries, with what each holds in two rows; a third row is empty.
/// `shell.spot` and `shell.whole` are user types.
const EVERY_TYPE: &[(&str, &str, &str)] = &[
    ("ascii", "'it''s'", "'~'"),
    ("bigint", "-9223372036854775808", "9223372036854775807"),
    ("blob", "0xcafe00", "0x"),
    ("boolean", "true", "false"),
    ("date", "'2024-02-29'", "'1969-12-31'"),
    ("decimal", "-1.50", "1E+20"),
    ("double", "-1.5e-3", "Infinity"),
    ("duration", "1y2mo3d4h", "-1ns"),
    ("float", "0.5", "-Infinity"),
    ("inet", "'127.0.0.1'", "'2001:db8::1'"),
    ("int", "-2147483648", "2147483647"),
    ("smallint", "-32768", "32767"),
    ("text", "'a, \"b\" ''c'' €'", "'line'"),
    ("time", "'12:34:56.789012345'", "'00:00:00'"),
    ("timestamp", "'2024-02-29T23:59:59.999+0000'", "'1969-12-31T23:59:59.000+0000'"),
    ("timeuuid", "c2cb1b30-8d1a-11ee-b9d1-0242ac120002", "00000000-0000-1000-8080-808080808080"),
    ("tinyint", "-128", "127"),
    ("uuid", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "00000000-0000-0000-0000-000000000000"),
    ("varint", "-1000000000000000000000000000000", "255"),
    ("list<text>", "['b', 'a, c']", "['x']"),
    ("set<int>", "{3, -1}", "{0}"),
    ("map<text, int>", "{'k': 1, 'l': -2}", "{'': 0}"),
    ("frozen<list<frozen<map<int, text>>>>", "[{1: 'a'}, {2: 'b'}]", "[]"),
    ("tuple<int, text>", "(1, 'a')", "(-1, 'b')"),
    ("frozen<spot>", "{x: 1, y: 'a'}", "{x: -1, y: 'b'}"),
    ("spot", "{x: 2, y: 'c'}", "{x: -2, y: 'd'}"),
    ("vector<float, 3>", "[1.5, -0.25, 3]", "[0, 1e10, -1e-10]"),
    ("vector<text, 2>", "['a, b', 'it''s']", "['', 'x']"),
    ("list<frozen<vector<int, 2>>>", "[[1, 2], [3, 4]]", "[[0, 0]]"),
    ("vector<frozen<list<int>>, 2>", "[[1, 2], []]", "[[3], [4]]"),
    ("map<text, duration>", "{'a': 1d}", "{'b': -1h}"),
    ("list<blob>", "[0xcafe, 0x]", "[0x00]"),
    ("list<timestamp>", "['2024-02-29T23:59:59.999+0000']", "['1969-12-31T23:59:59.000+0000']"),
    ("list<text>", "['it''s', '\"q\"', '[', '{a: b}']", "['', '€']"),
    ("map<inet, varint>", "{'127.0.0.1': 12345678901234567890123}", "{'2001:db8::1': -1}"),
    ("set<frozen<map<text, int>>>", "{{'a': 1, 'b': 2}}", "{{'c': 3}}"),
    (
        "map<text, frozen<map<int, frozen<list<text>>>>>",
        "{'a': {1: ['x', 'y']}, 'b': {2: ['z']}}",
        "{'c': {3: ['q']}}",
    ),
    ("map<frozen<tuple<int, text>>, frozen<set<int>>>", "{(1, 'a'): {1, 2}}", "{(2, 'b'): {3}}"),
    (
        "tuple<int, tuple<text, double>, frozen<map<int, text>>>",
        "(1, ('a', 0.5), {1: 'x'})",
        "(2, ('b', -0.5), {2: 'y'})",
    ),
    ("list<frozen<spot>>", "[{x: 1, y: 'a'}, {x: 2, y: 'b, c'}]", "[{x: 3, y: 'it''s'}]"),
    (
        "frozen<whole>",
        "{s: {x: 1, y: 'a'}, l: [{x: 2, y: 'b'}], m: {'k': {1, 2}}}",
        "{s: {x: 5, y: 'z'}, l: [{x: 0, y: 'q'}], m: {'r': {3}}}",
    ),
    (
        "whole",
        "{s: {x: 1, y: 'a'}, l: [{x: 2, y: 'b'}], m: {'k': {1, 2}}}",
        "{s: {x: 5, y: 'z'}, l: [{x: 0, y: 'q'}], m: {'r': {3}}}",
    ),
];

/// Types that cqlsh reads from a file only as text, `PREPAREDSTATEMENTS = false`: it cannot make values of them to bind.
const NOT_BOUND: &[&str] = &["duration", "map<text, duration>", "vector<text, 2>"];

/// What cqlsh itself cannot carry, neither way: a time has the colon that ends a key, a null in a tuple has no text.
const NOT_CARRIED: &[(&str, &str)] =
    &[("map<date, time>", "{'2024-02-29': '12:34:56.789012345'}"), ("tuple<int, text>", "(1, null)")];

/// What COPY TO writes, COPY FROM reads, as text and bound: the same rows, and the same file again.
pub fn every_type(server: &Server) -> Result<String, String> {
    let all: Vec<(String, &str)> =
        EVERY_TYPE.iter().enumerate().map(|(column, (kind, ..))| (format!("c{column}"), *kind)).collect();
    let bound: Vec<(String, &str)> =
        all.iter().filter(|(_, kind)| !NOT_BOUND.contains(kind)).cloned().collect();
    let names = |columns: &[(String, &str)]| {
        columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let create = |table: &str, columns: &[(String, &str)]| {
        let columns: Vec<String> = columns.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        format!("CREATE TABLE {table} (k int PRIMARY KEY, {});\n", columns.join(", "))
    };
    let insert = |key: u8, row: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
        let values: Vec<&str> = EVERY_TYPE.iter().map(row).collect();
        format!("INSERT INTO source (k, {}) VALUES ({key}, {});\n", names(&all), values.join(", "))
    };
    let mut text = "USE shell;\nCREATE TYPE spot (x int, y text);\nCREATE TYPE whole (s frozen<spot>, \
        l frozen<list<frozen<spot>>>, m frozen<map<text, frozen<set<int>>>>);\n"
        .to_owned();
    text += &create("source", &all);
    text += &create("as_text", &all);
    text += &create("bound", &bound);
    text += &insert(1, |(_, first, _)| first);
    text += &insert(2, |(_, _, second)| second);
    text += "INSERT INTO source (k) VALUES (3);\n";
    let file = |name: &str| server.folder.join(name).display().to_string();
    let columns = format!("(k, {})", names(&bound));
    let [first, second] = ["every-first.csv", "every-second.csv"].map(file);
    let [first_bound, second_bound] = ["bound-first.csv", "bound-second.csv"].map(file);
    text +=
        &format!("COPY source TO '{first}';\nCOPY as_text FROM '{first}' WITH PREPAREDSTATEMENTS = false;\n");
    text += &format!("COPY as_text TO '{second}';\n");
    text +=
        &format!("COPY source {columns} TO '{first_bound}';\nCOPY bound {columns} FROM '{first_bound}';\n");
    text += &format!("COPY bound {columns} TO '{second_bound}';\n");
    let answer = shell(server, "every-type", &text)?;
    let (out, into) = ("3 rows exported to 1 files in", "3 rows imported from 1 files in");
    if (answer.matches(out).count(), answer.matches(into).count()) != (4, 2) {
        return Err(format!("not every row was copied: {answer}"));
    }
    for (first, second, table, columns) in [
        (&first, &second, "as_text", "*"),
        (&first_bound, &second_bound, "bound", &*format!("k, {}", names(&bound))),
    ] {
        let (first, second) = (sorted(Path::new(first))?, sorted(Path::new(second))?);
        if first != second {
            return Err(format!("copied out {first:#?}\nin and out again {second:#?}"));
        }
        let (wrote, read) = (rows(server, "source", columns)?, rows(server, table, columns)?);
        if wrote != read {
            return Err(format!("copied {wrote}\nas {read}"));
        }
    }
    Ok(format!("{} types, {} of them bound, too", all.len(), bound.len()))
}

/// What cqlsh cannot carry does not arrive; when that changes, the lists above are wrong.
pub fn beyond_cqlsh(server: &Server) -> Result<String, String> {
    let alone = EVERY_TYPE.iter().filter(|(kind, ..)| NOT_BOUND.contains(kind));
    let alone = alone.map(|(kind, _, second)| (*kind, *second, false));
    let neither = NOT_CARRIED.iter().map(|(kind, value)| (*kind, *value, true));
    let cases: Vec<(&str, &str, bool)> = alone.chain(neither).collect();
    for (number, (kind, value, as_text)) in cases.iter().enumerate() {
        let [source, target] = ["lost", "missing"].map(|name| format!("{name}{number}"));
        let mut text = format!("USE shell;\nCREATE TABLE {source} (k int PRIMARY KEY, v {kind});\n");
        text += &format!("CREATE TABLE {target} (k int PRIMARY KEY, v {kind});\n");
        text += &format!("INSERT INTO {source} (k, v) VALUES (1, {value});\n");
        shell(server, &source, &text)?;
        let file = server.folder.join(format!("{source}.csv"));
        let file = file.display();
        let mut ways =
            vec![format!("COPY shell.{source} TO '{file}';\nCOPY shell.{target} FROM '{file}';\n")];
        if *as_text {
            ways.push(format!("COPY shell.{target} FROM '{file}' WITH PREPAREDSTATEMENTS = false;\n"));
        }
        for way in ways {
            // It tells its mistakes, and ends with success or without.
            let _ = shell(server, &target, &way);
        }
        let (wrote, read) = (rows(server, &source, "*")?, rows(server, &target, "*")?);
        if wrote == read {
            return Err(format!("cqlsh carries {kind} after all"));
        }
    }
    Ok(format!("{} types", cases.len()))
}

/// Headers, other delimiters and nulls, standard output and input, a part of the columns, rows skipped.
pub fn ways(server: &Server) -> Result<String, String> {
    let file = server.folder.join("ways.csv");
    let told = |error: std::io::Error| format!("{}: {error}", file.display());
    let setup = "USE shell;\nCREATE TABLE ways (k int PRIMARY KEY, v text, n int);\n\
        INSERT INTO ways (k, v, n) VALUES (1, 'a|b', 5);\nINSERT INTO ways (k, v) VALUES (2, '');\n\
        CREATE TABLE ways_again (k int PRIMARY KEY, v text, n int);\n";
    let with = "WITH HEADER = true AND DELIMITER = '|' AND NULL = '<none>'";
    let path = file.display();
    let text = format!("{setup}COPY ways TO '{path}' {with};\nCOPY ways_again FROM '{path}' {with};\n");
    shell(server, "ways", &text)?;
    let lines = sorted(&file)?;
    if lines != ["1|5|\"a|b\"", "2|<none>|", "k|n|v"] {
        return Err(format!("written {lines:?}"));
    }
    let (wrote, read) = (rows(server, "ways", "*")?, rows(server, "ways_again", "*")?);
    if wrote != read {
        return Err(format!("copied {wrote}\nas {read}"));
    }
    holds(&shell(server, "ways-stdout", "COPY shell.ways (k, n) TO STDOUT;\n")?, &["1,5\n", "2,\n"])?;
    fs::write(&file, "9,nine\nskipped\n8,eight\n7,\n").map_err(told)?;
    let part = |with: &str| {
        let text = format!("USE shell;\nTRUNCATE ways;\nCOPY ways (k, v) FROM '{path}' WITH {with};\n");
        shell(server, "ways-part", &text)?;
        rows(server, "ways", "k, v")
    };
    holds(&part("SKIPROWS = 2")?, &[" k | 8", " v | eight", " k | 7", " v | null", "(2 rows)"])?;
    holds(&part("MAXROWS = 1")?, &[" k | 9", "(1 rows)"])?;
    let mut cqlsh = cqlsh_command(server)?;
    cqlsh.args(["-e", "COPY shell.ways (k, nothing) FROM '/dev/null'"]);
    match command::run(&mut cqlsh, &log(&server.folder, "ways-mistake"), LIMIT) {
        Err(error) if error.contains("Invalid column name nothing") => Ok(String::new()),
        other => Err(format!("a column that is not there: {other:?}")),
    }
}

fn sorted(path: &Path) -> Result<Vec<String>, String> {
    let mut lines: Vec<String> = command::read(path)?.lines().map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

fn rows(server: &Server, table: &str, columns: &str) -> Result<String, String> {
    shell(server, "every-rows", &format!("EXPAND ON;\nSELECT {columns} FROM shell.{table};\n"))
}

/// Rows of a file through two processes, and back into one.
pub fn many_rows(server: &Server, rows: u64) -> Result<String, String> {
    let from = server.folder.join("from.csv");
    let to = server.folder.join("to.csv");
    let mut lines: Vec<String> = (0..rows)
        .map(|i| {
            format!(
                "{i},\"name, {i}\",{}.5,\"{{'a{i}', 'b'}}\",2024-02-29 00:00:{:02}.000+0000",
                i * 3,
                i % 60
            )
        })
        .collect();
    fs::write(&from, lines.join("\n") + "\n").map_err(|error| format!("{}: {error}", from.display()))?;
    let columns = "(id, name, score, tags, seen)";
    let text = format!(
        "CREATE TABLE shell.copied (id int PRIMARY KEY, name text, score double, tags set<text>, seen timestamp);\n\
         COPY shell.copied {columns} FROM '{}' WITH NUMPROCESSES=2;\n\
         COPY shell.copied {columns} TO '{}' WITH NUMPROCESSES=2 AND DATETIMEFORMAT='%Y-%m-%d %H:%M:%S.000%z';\n\
         SELECT count(*) FROM shell.copied;\n",
        from.display(),
        to.display()
    );
    let answer = shell(server, "copy", &text)?;
    holds(
        &answer,
        &[&format!("{rows} rows imported from 1 files in"), &format!("{rows} rows exported to 1 files in")],
    )?;
    let written = command::read(&to)?;
    let mut got: Vec<&str> = written.lines().map(str::trim_end).collect();
    got.sort_unstable();
    lines.sort_unstable();
    match got.iter().zip(&lines).find(|(got, wrote)| **got != wrote.as_str()) {
        Some((got, wrote)) => Err(format!("copied {wrote} in and {got} out")),
        None if got.len() != lines.len() => Err(format!("{} rows in and {} out", lines.len(), got.len())),
        None => Ok(format!("{rows} rows")),
    }
}
