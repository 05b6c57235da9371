//! `compat older-files FOLDER`: makes the small files of older versions that `crates/sstable/testdata` keeps.
//!
//! The engine of the oldest release executes the statements; each later one takes the files over and writes them anew in its
//! own version. So all say the same, times of deletion included, and every byte was written by the release that knows it.
//! Below FOLDER there is a folder per table, as in `testdata`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::data_files;
use super::older::{self, OLDER};
use super::ours::check_versions;

/// The first argument that asks for it.
pub const WORD: &str = "older-files";

const KEYSPACE: &str = "golden";
const TABLES: [&str; 4] = ["older_rows", "older_types", "older_counts", "older_plain"];
/// Microseconds of the first write.
const FIRST: u64 = 1_700_000_000_000_000;
/// Not over before long.
const TTL: u32 = 300_000_000;

/// Makes them.
pub fn run(words: &[String]) -> ExitCode {
    let made = match words {
        [folder] => make(Path::new(folder)),
        _ => Err(format!("{WORD} FOLDER")),
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn make(folder: &Path) -> Result<(), String> {
    let folder = std::path::absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let engines = folder.join("engines");
    if engines.exists() {
        fs::remove_dir_all(&engines).map_err(told)?;
    }
    let mut last: Vec<PathBuf> = Vec::new();
    for older in &OLDER {
        let mut lines: Vec<String> = schema().into_iter().map(|text| format!("run {text}")).collect();
        if last.is_empty() {
            lines.extend(statements().into_iter().map(|text| format!("run {text}")));
            lines.push(format!("flush {KEYSPACE}"));
        }
        for (table, files) in TABLES.iter().zip(&last) {
            lines.push(format!("load {KEYSPACE} {table} {}", files.display()));
            lines.push(format!("upgrade {KEYSPACE} {table}"));
        }
        let folders = older::engine(&engines.join(older.letters), older, &lines)?;
        last.clear();
        for table in TABLES {
            let written = folders.get(&(KEYSPACE.into(), table.into()));
            let written = written.ok_or_else(|| format!("no folder of {table}"))?;
            last.push(keep(written, &folder, table, older.letters)?);
        }
        println!("{} by {}", older.letters, older.release);
    }
    fs::remove_dir_all(&engines).map_err(told)
}

/// Puts the only sstable of a table beside those of other versions, as the first; returns a folder that holds it alone.
fn keep(written: &Path, folder: &Path, table: &str, letters: &str) -> Result<PathBuf, String> {
    let told = |error: std::io::Error| format!("{}: {error}", written.display());
    check_versions(written, letters)?;
    if data_files(written).len() != 1 {
        return Err(format!("{} holds several sstables", written.display()));
    }
    let (all, alone) = (folder.join(table), written.join("alone"));
    for folder in [&all, &alone] {
        fs::create_dir_all(folder).map_err(told)?;
    }
    for entry in fs::read_dir(written).map_err(told)? {
        let path = entry.map_err(told)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let [_, _, format, component] = name.splitn(4, '-').collect::<Vec<_>>()[..] {
            let name = format!("{letters}-1-{format}-{component}");
            for folder in [&all, &alone] {
                fs::copy(&path, folder.join(&name)).map_err(told)?;
            }
        }
    }
    Ok(alone)
}

fn schema() -> Vec<String> {
    [
        "CREATE KEYSPACE golden WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE golden.place (street text, number int, tags frozen<set<text>>)",
        "CREATE TABLE golden.older_rows (pk text, c1 int, c2 text, s text static, sm map<text, int> static, \
         v int, t text, l list<int>, e set<text>, m map<int, text>, f frozen<list<int>>, u place, \
         PRIMARY KEY (pk, c1, c2)) WITH CLUSTERING ORDER BY (c1 DESC, c2 ASC) \
         AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}",
        "CREATE TABLE golden.older_types (a int, b text, c timeuuid, v_ascii ascii, v_bigint bigint, v_blob blob, \
         v_boolean boolean, v_date date, v_decimal decimal, v_double double, v_duration duration, v_float float, \
         v_inet inet, v_int int, v_smallint smallint, v_text text, v_time time, v_timestamp timestamp, \
         v_tinyint tinyint, v_uuid uuid, v_varint varint, v_tuple tuple<int, text>, v_place frozen<place>, \
         PRIMARY KEY ((a, b), c)) WITH compression = {'class': 'DeflateCompressor', 'chunk_length_in_kb': 4}",
        "CREATE TABLE golden.older_counts (pk text, ck int, n counter, PRIMARY KEY (pk, ck)) \
         WITH compression = {'class': 'SnappyCompressor', 'chunk_length_in_kb': 4}",
        "CREATE TABLE golden.older_plain (k text PRIMARY KEY, v bigint) WITH compression = {'enabled': 'false'}",
    ]
    .map(str::to_owned)
    .into()
}

fn statements() -> Vec<String> {
    let mut all = rows();
    all.extend(wide());
    for a in 0..3 {
        all.push(format!(
            "INSERT INTO golden.older_types (a, b, c, v_ascii, v_bigint, v_blob, v_boolean, v_date, v_decimal, \
             v_double, v_duration, v_float, v_inet, v_int, v_smallint, v_text, v_time, v_timestamp, v_tinyint, \
             v_uuid, v_varint, v_tuple, v_place) VALUES ({a}, 'ß', 7d1d5a20-0000-11ee-8000-00000000000{a}, 'ascii', \
             -{a}, 0x00ff0{a}, true, '2024-02-29', -12.34{a}, 1.5e300, 1y2mo3w4d5h6m7s8ms, -0.25, '2001:db8::{a}', \
             {a}, -{a}, '中{a}', '12:34:56.789', '2024-02-29 12:00:00+0000', {a}, \
             00000000-0000-4000-8000-00000000000{a}, -170141183460469231731687303715884105729, ({a}, null), \
             {{street: 'Straße', tags: {{'a', 'b'}}}}) USING TIMESTAMP {FIRST}"
        ));
    }
    all.push(format!(
        "INSERT INTO golden.older_types (a, b, c, v_text, v_blob, v_int) VALUES \
         (9, 'x', 7d1d5a20-0000-11ee-8000-000000000000, '', 0x, null) USING TIMESTAMP {FIRST} AND TTL {TTL}"
    ));
    for (pk, ck, n) in [("a", 1, 5), ("a", 2, -7), ("b", 1, 1_i64 << 40), ("a", 1, 3), ("c", 1, 1)] {
        all.push(format!("UPDATE golden.older_counts SET n = n + {n} WHERE pk = '{pk}' AND ck = {ck}"));
    }
    all.push("DELETE FROM golden.older_counts WHERE pk = 'c' AND ck = 1".into());
    for k in 0..150 {
        let k = format!("{k:03}");
        all.push(format!(
            "INSERT INTO golden.older_plain (k, v) VALUES ('{k}', 1{k}) USING TIMESTAMP {FIRST}"
        ));
    }
    all
}

/// Every kind of write and deletion, in small partitions.
fn rows() -> Vec<String> {
    let at = |after: u64| format!("USING TIMESTAMP {}", FIRST + after);
    let insert = |values: &str, using: String| format!("INSERT INTO golden.older_rows {values} {using}");
    let delete = |what: &str, place: &str, after: u64| {
        format!("DELETE {what} FROM golden.older_rows {} WHERE {place}", at(after))
    };
    let update = |sets: &str, place: &str, using: String| {
        format!("UPDATE golden.older_rows {using} SET {sets} WHERE {place}")
    };
    let ttl = |after: u64| format!("{} AND TTL {TTL}", at(after));
    let whole = "(pk, c1, c2, s, sm, v, t, l, e, m, f, u) VALUES ('whole', 1, 'x', 'static', {'k': 1}, 1, 'text', \
                 [1, 2], {'b', 'a'}, {1: 'one'}, [7, 8], {street: 'S', number: 4, tags: {'t'}})";
    let mut all = vec![
        insert(whole, at(1)),
        insert("(pk, c1, c2, v) VALUES ('ends', 1, 'x', 1)", ttl(2)),
        update("v = 1, t = 'no row'", "pk = 'parts' AND c1 = 1 AND c2 = 'x'", at(3)),
        update("v = 2", "pk = 'parts' AND c1 = 2 AND c2 = 'x'", ttl(4)),
        update(
            "m = m + {2: 'two'}, l = l + [3], e = e + {'c'}",
            "pk = 'parts' AND c1 = 3 AND c2 = 'x'",
            at(5),
        ),
        update("m = m + {5: 'five'}", "pk = 'parts' AND c1 = 4 AND c2 = 'x'", ttl(6)),
        update("u.number = 5", "pk = 'parts' AND c1 = 5 AND c2 = ''", at(7)),
        update("s = 'alone'", "pk = 'static'", at(8)),
        update("sm = sm + {'z': 26}", "pk = 'static'", ttl(9)),
        insert("(pk, c1, c2) VALUES ('bare', 1, 'x')", at(10)),
        delete("v, t", "pk = 'cells' AND c1 = 1 AND c2 = 'x'", 11),
        delete("m[3], e['q']", "pk = 'cells' AND c1 = 2 AND c2 = 'x'", 12),
        delete("l, m, u", "pk = 'cells' AND c1 = 3 AND c2 = 'x'", 13),
        delete("s, sm", "pk = 'cells'", 14),
        delete("", "pk = 'rows' AND c1 = 1 AND c2 = 'x'", 15),
        insert("(pk, c1, c2, v) VALUES ('rows', 2, 'x', 3)", at(17)),
        delete("", "pk = 'rows' AND c1 = 2 AND c2 = 'x'", 16),
        delete("", "pk = 'gone'", 18),
        insert("(pk, c1, c2, v, s) VALUES ('back', 1, 'x', 1, 's')", at(20)),
        delete("", "pk = 'back'", 19),
        delete("", "pk = 'ranges' AND c1 = 100", 21),
        delete("", "pk = 'ranges' AND c1 = 90 AND c2 > 'b' AND c2 <= 'f'", 22),
        delete("", "pk = 'ranges' AND c1 > 50 AND c1 <= 60", 23),
        delete("", "pk = 'ranges' AND c1 >= 40 AND c1 < 55", 24),
        delete("", "pk = 'ranges' AND c1 < 10", 25),
        delete("", "pk = 'open' AND c1 > 10", 26),
    ];
    for c1 in [100, 90, 60, 55, 50, 45, 40, 10, 9] {
        let values = format!("(pk, c1, c2, v) VALUES ('ranges', {c1}, 'c', {c1})");
        all.push(insert(&values, at(if c1 % 2 == 0 { 27 } else { 20 })));
    }
    all
}

/// A partition of several index blocks with ranges across them.
fn wide() -> Vec<String> {
    let text = "x".repeat(1500);
    let mut all: Vec<String> = (0..130)
        .map(|c1| {
            format!(
                "INSERT INTO golden.older_rows (pk, c1, c2, v, t) VALUES ('wide', {c1}, 'x', {c1}, '{text}') \
                 USING TIMESTAMP {}",
                FIRST + 1000 + c1
            )
        })
        .collect();
    let deletions = [("c1 > 20 AND c1 <= 100", 1000), ("c1 >= 60 AND c1 < 70", 1090), ("c1 >= 125", 2000)];
    all.extend(deletions.map(|(place, after)| {
        let at = FIRST + after;
        format!("DELETE FROM golden.older_rows USING TIMESTAMP {at} WHERE pk = 'wide' AND {place}")
    }));
    all
}
