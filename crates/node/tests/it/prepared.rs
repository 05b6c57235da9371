//! Prepared statements whose tables change under them: which must be prepared again, on every shard and in every version.

use crate::harness::*;
use client::{Connection, Options};
use protocol::envelope::Version;
use protocol::request::Parameters;
use protocol::response::Response;
use std::collections::BTreeSet;

/// Statements about `ks.kv` and what else there is, and what becomes of them when something else than `ks.kv` changes.
const PREPARED: &[&str] = &[
    "SELECT * FROM ks.kv",
    "SELECT k FROM ks.kv",
    "INSERT INTO ks.kv (k, v) VALUES (1, 'a')",
    "UPDATE ks.kv SET v = 'b' WHERE k = 1",
    "DELETE FROM ks.kv WHERE k = 1",
    "BEGIN BATCH INSERT INTO ks.other (k) VALUES (1); DELETE FROM ks.kv WHERE k = 1; APPLY BATCH",
    "SELECT * FROM ks.other",
    "SELECT k FROM ks.uses",
    "SELECT (u){a: 1} FROM ks.other",
    "TRUNCATE ks.kv",
    "USE ks",
];

/// As [`PREPARED`]: `.` goes on, `U` must be prepared again, `e` is refused.
const CHANGED: &[(&[&str], &str)] = &[
    (&["ALTER TABLE ks.kv ADD x int"], "UUUUUU....."),
    (&["ALTER TABLE ks.kv DROP v"], "UUUUUU....."),
    (&["ALTER TABLE ks.kv RENAME k TO key"], "UUUUUU....."),
    (&["ALTER TABLE ks.kv WITH comment = 'c'"], "..........."),
    (&["ALTER TABLE ks.kv WITH default_time_to_live = 9"], "UUUUUU....."),
    (&["ALTER TABLE ks.kv WITH gc_grace_seconds = 9"], "UUUUUU....."),
    (&["DROP TABLE ks.kv"], "UUUUUU...e."),
    (&["DROP TABLE ks.kv", "CREATE TABLE ks.kv (k int PRIMARY KEY, v text)"], "UUUUUU....."),
    (&["ALTER TYPE ks.u ADD b int"], ".......U..."),
    (&["ALTER TYPE ks.u RENAME a TO c"], ".......U..."),
    (&["DROP TABLE ks.uses", "DROP TYPE ks.u"], ".......U..."),
    (&["CREATE TABLE ks.more (k int PRIMARY KEY)", "CREATE TYPE ks.t (a int)"], "..........."),
    (&["ALTER KEYSPACE ks WITH durable_writes = false"], "..........."),
    (&["DROP KEYSPACE ks"], "UUUUUUUUUee"),
];

async fn make_prepared(connection: &Connection) {
    run(connection, "DROP KEYSPACE IF EXISTS ks").await;
    make_kv(connection).await;
    run(connection, "CREATE TABLE ks.other (k int PRIMARY KEY)").await;
    run(connection, "CREATE TYPE ks.u (a int)").await;
    run(connection, "CREATE TABLE ks.uses (k int PRIMARY KEY, u frozen<u>)").await;
}

#[test]
fn what_is_prepared_outlives_only_changes_of_other_things() {
    let mut stage = stage(15, 3);
    stage.play(async {
        let first = connect().await;
        let mut connections = Vec::new();
        for version in [Version::V3, Version::V4, Version::V5, Version::V5] {
            connections.push(Connection::connect(native(), &Options::new(version)).await.unwrap());
        }
        let shards: BTreeSet<u16> = connections.iter().map(|c| c.sharding().unwrap().shard).collect();
        assert_eq!(shards.len(), 3);
        for (changes, expected) in CHANGED {
            make_prepared(&first).await;
            let mut prepared = Vec::new();
            for text in PREPARED {
                prepared.push(first.prepare(text).await.unwrap());
            }
            for text in *changes {
                run(&first, text).await;
            }
            for connection in &connections {
                let mut found = String::new();
                for statement in &prepared {
                    let answer = connection.execute_raw(statement, one()).await.unwrap();
                    let letter = if answer.is_result() { '.' } else { 'e' };
                    found.push(if answer.is_unprepared() { 'U' } else { letter });
                }
                assert_eq!(found, *expected, "{changes:?}");
            }
            let kept = rows(&first, "SELECT prepared_id FROM system.prepared_statements").await;
            assert_eq!(kept.rows.len(), expected.matches(['.', 'e']).count(), "{changes:?}");
        }
    });
}

#[test]
fn a_statement_prepared_again_describes_its_new_columns_to_all() {
    let mut stage = stage(16, 2);
    stage.play(async {
        let first = connect().await;
        make_kv(&first).await;
        let text = "SELECT * FROM ks.kv";
        let parameters = Parameters { skip_metadata: true, ..one() };
        let mut others = Vec::new();
        for version in [Version::V3, Version::V4, Version::V5] {
            let connection = Connection::connect(native(), &Options::new(version)).await.unwrap();
            others.push((connection.prepare(text).await.unwrap(), connection));
        }
        run(&first, "ALTER TABLE ks.kv ADD extra int").await;
        let again = first.prepare(text).await.unwrap();
        assert_eq!(again.columns().unwrap().len(), 3);
        // They did not notice that it was prepared again meanwhile, and hold the columns of before.
        for (statement, connection) in &others {
            assert_eq!((statement.id(), statement.columns().unwrap().len()), (again.id(), 2));
            let answer = connection.execute_raw(statement, parameters).await.unwrap();
            let Response::Rows(rows) = answer.response().unwrap() else { panic!("no rows") };
            assert_eq!(rows.metadata.columns.as_ref().unwrap().len(), 3);
        }
    });
}

#[test]
fn an_id_depends_on_the_keyspace_only_where_that_matters() {
    let mut stage = stage(17, 2);
    stage.play(async {
        let (first, second) = (connect().await, connect().await);
        make_kv(&first).await;
        run(&second, "USE ks").await;
        for (text, same) in [
            ("SELECT v FROM ks.kv", true),
            ("BEGIN BATCH DELETE FROM ks.kv WHERE k = 1; APPLY BATCH", true),
            ("TRUNCATE ks.kv", true),
            ("DESCRIBE TABLE ks.kv", false),
            ("DROP TABLE IF EXISTS ks.none", false),
        ] {
            let ids = (first.prepare(text).await.unwrap(), second.prepare(text).await.unwrap());
            assert_eq!(ids.0.id() == ids.1.id(), same, "{text}");
        }
        let mixed = "BEGIN BATCH DELETE FROM ks.kv WHERE k = 1; DELETE FROM kv WHERE k = 2; APPLY BATCH";
        for text in ["SELECT v FROM kv", mixed] {
            assert!(first.prepare(text).await.is_err(), "{text}");
            let prepared = second.prepare(text).await.unwrap();
            first.execute_raw(&prepared, one()).await.unwrap().response().unwrap();
            assert!(first.prepare(text).await.is_err(), "{text}");
        }
    });
}
