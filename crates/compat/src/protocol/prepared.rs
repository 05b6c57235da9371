//! What becomes of a prepared statement when the schema changes under it: for each change and each statement, whether
//! EXECUTE finds it as before or must prepare again, by every version and on every shard.
//!
//! Without that a driver that skips the columns of results goes on with those it has, and sees rows of an older table.

use std::net::SocketAddr;

use super::VERSIONS;
use super::result::{Executed, Prepared};
use super::talk::Talk;

const INVALID: u32 = 0x2200;
const UNPREPARED: u32 = 0x2500;

/// The statements, in the order of the columns of [`CHANGES`].
const STATEMENTS: &[&str] = &[
    "SELECT * FROM K.t",
    "SELECT v FROM K.t WHERE k = 1",
    "INSERT INTO K.t (k, v) VALUES (2, 2)",
    "UPDATE K.t SET v = 3 WHERE k = 3",
    "DELETE FROM K.t WHERE k = 3",
    "BEGIN BATCH INSERT INTO K.other (k, v) VALUES (4, 4); DELETE FROM K.t WHERE k = 3; APPLY BATCH",
    "SELECT * FROM K.uses",
    "SELECT k FROM K.uses",
    "SELECT * FROM K.other",
    "SELECT (u){a: 1} FROM K.other",
    "TRUNCATE K.t",
    "USE K",
    "CREATE TABLE IF NOT EXISTS K.other (k int PRIMARY KEY)",
    "SELECT keyspace_name FROM system_schema.keyspaces",
    "DESCRIBE TABLE K.t",
];

/// Changes, and what each makes of each statement: `.` it stays, `U` it must be prepared again, `e` it stays and is
/// refused when it runs.
const CHANGES: &[(&[&str], &str)] = &[
    (&[], "..............."),
    (&["ALTER TABLE K.t ADD y int"], "UUUUUU........."),
    (&["ALTER TABLE K.t DROP x"], "UUUUUU........."),
    (&["ALTER TABLE K.t RENAME k TO key"], "UUUUUU........."),
    (&["ALTER TABLE K.t ADD y int", "ALTER TABLE K.t DROP y"], "UUUUUU........."),
    (&["ALTER TABLE K.t WITH comment = 'c'"], "..............."),
    (&["ALTER TABLE K.t WITH default_time_to_live = 1000"], "UUUUUU........."),
    (
        &[
            "ALTER TABLE K.t WITH default_time_to_live = 1000",
            "ALTER TABLE K.t WITH default_time_to_live = 0",
        ],
        "UUUUUU.........",
    ),
    (&["ALTER TABLE K.t WITH gc_grace_seconds = 1000"], "UUUUUU........."),
    (&["ALTER TABLE K.t WITH compaction = {'class': 'LeveledCompactionStrategy'}"], "..............."),
    (
        &["ALTER TABLE K.t WITH caching = {'keys': 'NONE'} AND bloom_filter_fp_chance = 0.5"],
        "...............",
    ),
    (&["ALTER TABLE K.t WITH compression = {'enabled': false}"], "..............."),
    (&["TRUNCATE K.t"], "..............."),
    (&["CREATE TABLE K.more (k int PRIMARY KEY)"], "..............."),
    (&["DROP TABLE K.t"], "UUUUUU....e...e"),
    (&["DROP TABLE K.t", "CREATE TABLE K.t (k int PRIMARY KEY, v int, x text)"], "UUUUUU........."),
    (&["DROP TABLE K.other"], ".....U..UU....."),
    (&["CREATE TYPE K.more (a int)"], "..............."),
    (&["DROP TYPE K.idle"], "..............."),
    (&["ALTER TYPE K.u ADD b int"], "......UU......."),
    (&["ALTER TYPE K.u RENAME a TO c"], "......UU......."),
    (&["ALTER TYPE K.idle ADD b int"], "..............."),
    (&["DROP TABLE K.uses", "DROP TYPE K.w", "DROP TYPE K.u"], "......UU......."),
    (&["ALTER KEYSPACE K WITH durable_writes = false"], "..............."),
    (
        &["ALTER KEYSPACE K WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"],
        "...............",
    ),
    (&["DROP KEYSPACE K"], "UUUUUUUUUUeee.e"),
    (&["DROP KEYSPACE K", "SETUP"], "UUUUUUUUUU....."),
];

const SETUP: &[&str] = &[
    "CREATE KEYSPACE K WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TYPE K.u (a int)",
    "CREATE TYPE K.w (u frozen<u>)",
    "CREATE TYPE K.idle (a int)",
    "CREATE TABLE K.t (k int PRIMARY KEY, v int, x text)",
    "CREATE TABLE K.uses (k int PRIMARY KEY, l list<frozen<w>>)",
    "CREATE TABLE K.other (k int PRIMARY KEY, v int)",
];

/// Every change, seen by every statement on every shard and by every version: an id is the same in all.
pub fn changes(address: SocketAddr, shards: usize) -> Result<String, String> {
    let mut talks = Vec::new();
    for version in VERSIONS {
        // Connections go to the shards in turn.
        for _ in 0..2 * shards {
            talks.push((version, Talk::open(address, version)?));
        }
    }
    let mut wrong = Vec::new();
    for (change, expected) in CHANGES {
        set_up(&mut talks[0].1, "prepared")?;
        let mut prepared = Vec::new();
        for text in STATEMENTS {
            prepared.push(prepare(&mut talks[0].1, &inside(text, "prepared"))?);
        }
        for text in *change {
            match *text {
                "SETUP" => set_up(&mut talks[0].1, "prepared")?,
                text => drop(talks[0].1.run(&inside(text, "prepared"))?),
            }
        }
        for (version, talk) in &mut talks {
            let mut found = String::new();
            for statement in &prepared {
                found.push(match talk.execute(statement, true)? {
                    Executed::Error { code: UNPREPARED, id, .. } if id == statement.id => 'U',
                    Executed::Error { code: INVALID, .. } => 'e',
                    Executed::Error { code, why, .. } => return Err(format!("{change:?}: {code:#x} {why}")),
                    _ => '.',
                });
            }
            if found != *expected {
                wrong.push(format!("v{version} after {change:?}: expected {expected}, found {found}"));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    if wrong.is_empty() { Ok(format!("{} changes", CHANGES.len())) } else { Err(wrong.join("\n")) }
}

/// What a statement is that was prepared again after its table has got a column, for who has done that and for others.
pub fn again(address: SocketAddr, version: u8, shards: usize) -> Result<String, String> {
    let keyspace = format!("prepared_again_v{version}");
    let mut talks = (0..2 * shards).map(|_| Talk::open(address, version)).collect::<Result<Vec<_>, _>>()?;
    set_up(&mut talks[0], &keyspace)?;
    let (all, insert) =
        (inside("SELECT * FROM K.t", &keyspace), inside("INSERT INTO K.t (k) VALUES (1)", &keyspace));
    let before = prepare(&mut talks[0], &all)?;
    let write = prepare(&mut talks[0], &insert)?;
    talks[0].run(&inside("ALTER TABLE K.t ADD y int", &keyspace))?;
    for talk in &mut talks {
        unprepared(&before, talk.execute(&before, true)?)?;
        unprepared(&write, talk.batch(&write)?)?;
    }
    let after = prepare(&mut talks[0], &all)?;
    if after.id != before.id || (version >= 5) != (after.columns_id != before.columns_id) {
        return Err(format!("{before:?} is {after:?} when prepared again"));
    }
    let columns = Some(["k", "v", "x", "y"].map(str::to_owned).to_vec());
    for (index, talk) in talks.iter_mut().enumerate() {
        for (statement, skips) in [(&before, true), (&before, false), (&after, true), (&after, false)] {
            let Executed::Rows(rows) = talk.execute(statement, skips)? else { return Err("no rows".into()) };
            let new_id = (version >= 5 && statement == &before).then(|| after.columns_id.clone());
            // Who says that it has the columns need not be told them, but for those that it cannot have.
            let told = rows.columns == columns || (rows.columns.is_none() && skips && new_id.is_none());
            if rows.column_count != 4 || rows.new_id != new_id || !told {
                return Err(format!("connection {index}, {statement:?}, skips {skips}: {rows:?}"));
            }
        }
    }
    talks[0].run(&inside("DROP TABLE K.t", &keyspace))?;
    for talk in &mut talks {
        unprepared(&after, talk.execute(&after, true)?)?;
        match talk.prepare(&all)? {
            Err((INVALID, why)) if why == "table t does not exist" => {}
            other => return Err(format!("a statement about a dropped table was prepared: {other:?}")),
        }
    }
    Ok(String::new())
}

/// The id of a statement that names its keyspace does not depend on the one in use: drivers that prepare again after a
/// USE would otherwise get another than they have.
pub fn ids(address: SocketAddr, version: u8, _: usize) -> Result<String, String> {
    let keyspace = format!("prepared_ids_v{version}");
    let (mut without, mut using) = (Talk::open(address, version)?, Talk::open(address, version)?);
    set_up(&mut without, &keyspace)?;
    using.run(&format!("USE {keyspace}"))?;
    for (text, same) in [
        ("SELECT * FROM K.t", true),
        ("DELETE FROM K.t WHERE k = 1", true),
        ("BEGIN BATCH DELETE FROM K.t WHERE k = 1; DELETE FROM K.other WHERE k = 1; APPLY BATCH", true),
        ("TRUNCATE K.t", true),
        ("DESCRIBE TABLE K.t", false),
        ("CREATE TABLE IF NOT EXISTS K.t (k int PRIMARY KEY)", false),
    ] {
        let text = inside(text, &keyspace);
        let ids = (prepare(&mut without, &text)?.id, prepare(&mut using, &text)?.id);
        if (ids.0 == ids.1) != same {
            return Err(format!("{text}: {ids:?}"));
        }
    }
    for text in
        ["SELECT * FROM t", "BEGIN BATCH DELETE FROM K.t WHERE k = 1; DELETE FROM t WHERE k = 1; APPLY BATCH"]
    {
        let text = inside(text, &keyspace);
        let prepared = prepare(&mut using, &text)?;
        match (without.execute(&prepared, true)?, without.prepare(&text)?) {
            (Executed::Rows(_) | Executed::Other, Err((INVALID, _))) => {}
            other => return Err(format!("{text} without a keyspace in use: {other:?}")),
        }
    }
    Ok(String::new())
}

fn set_up(talk: &mut Talk, keyspace: &str) -> Result<(), String> {
    talk.run(&format!("DROP KEYSPACE IF EXISTS {keyspace}"))?;
    SETUP.iter().try_for_each(|text| talk.run(&inside(text, keyspace)).map(drop))
}

fn prepare(talk: &mut Talk, text: &str) -> Result<Prepared, String> {
    talk.prepare(text)?.map_err(|(code, why)| format!("{text}: {code:#x} {why}"))
}

fn unprepared(statement: &Prepared, answer: Executed) -> Result<(), String> {
    match answer {
        Executed::Error { code: UNPREPARED, id, .. } if id == statement.id => Ok(()),
        other => Err(format!("{statement:?} is not unprepared, but {other:?}")),
    }
}

/// A statement in this keyspace.
fn inside(text: &str, keyspace: &str) -> String {
    text.replace(" K.", &format!(" {keyspace}."))
        .replace("KEYSPACE K", &format!("KEYSPACE {keyspace}"))
        .replace("USE K", &format!("USE {keyspace}"))
}
