//! Statements through every door: QUERY, PREPARE and EXECUTE, BATCH, pages, schema changes.

use crate::harness::*;
use client::{Connection, Options, Outcome, Pages};
use protocol::compression::Compression;
use protocol::envelope::{Version, flag};
use protocol::event::{Change, Event, EventType, SchemaChange, Target};
use protocol::request::{Batch, BatchKind, BatchSource, BatchStatement, Parameters, Query, Request};
use protocol::values::ValuesBuilder;
use std::collections::BTreeSet;
use types::{Consistency, Value};

async fn fill(connection: &Connection, count: i32) {
    let insert = connection.prepare("INSERT INTO ks.kv (k, v) VALUES (?, ?)").await.unwrap();
    for k in 0..count {
        let values = insert.bind(&[Value::Int(k), Value::Text(format!("value {k}"))]).unwrap();
        let parameters = Parameters { values: values.values(), ..one() };
        connection.execute(&insert, parameters).await.unwrap();
    }
}

#[test]
fn what_is_written_is_read_in_every_dress_and_on_any_number_of_shards() {
    for shards in [1, 2, 3] {
        for (version, compression) in [
            (Version::V3, Compression::None),
            (Version::V3, Compression::Lz4),
            (Version::V3, Compression::Snappy),
            (Version::V4, Compression::None),
            (Version::V4, Compression::Lz4),
            (Version::V4, Compression::Snappy),
            (Version::V5, Compression::None),
            (Version::V5, Compression::Lz4),
        ] {
            let mut stage = stage(u64::from(shards), shards);
            stage.play(async move {
                let options = Options { compression, ..Options::new(version) };
                let connection = Connection::connect(native(), &options).await.unwrap();
                make_kv(&connection).await;
                fill(&connection, 100).await;
                let count = rows(&connection, "SELECT count(*) FROM ks.kv").await;
                assert_eq!(count.value(0, 0).unwrap(), Value::Bigint(100));
                let one_row = rows(&connection, "SELECT v FROM ks.kv WHERE k = 42").await;
                assert_eq!(one_row.value(0, 0).unwrap(), Value::Text("value 42".into()));
                let large = "x".repeat(300_000);
                run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES (7, '{large}')")).await;
                let read = rows(&connection, "SELECT v FROM ks.kv WHERE k = 7").await;
                assert_eq!(read.value(0, 0).unwrap(), Value::Text(large));
            });
        }
    }
}

#[test]
fn pages_hold_every_row_once_whatever_their_size() {
    let mut stage = stage(11, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        fill(&connection, 97).await;
        for page_size in [1, 2, 10, 96, 97, 98, 5000] {
            let pages = Pages::query(&connection, "SELECT k FROM ks.kv", one(), page_size);
            let keys: Vec<Vec<u8>> =
                pages.all().await.unwrap().into_iter().map(|mut r| r.remove(0).unwrap()).collect();
            assert_eq!(keys.len(), 97, "page size {page_size}");
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 97);
        }
        let limited =
            Pages::query(&connection, "SELECT k FROM ks.kv LIMIT 30", one(), 7).all().await.unwrap();
        assert_eq!(limited.len(), 30);
        let state = Parameters { paging_state: Some(b"nonsense"), page_size: Some(10), ..one() };
        let (code, text) = failure(&connection, "SELECT k FROM ks.kv", state).await;
        assert_eq!((code, text.as_str()), (0x000A, "Invalid value for the paging state"));
    });
}

#[test]
fn a_prepared_statement_runs_on_every_shard() {
    let mut stage = stage(12, 3);
    stage.play(async {
        let first = connect().await;
        make_kv(&first).await;
        let insert = first.prepare("INSERT INTO ks.kv (k, v) VALUES (:key, :value)").await.unwrap();
        let mut shards = BTreeSet::new();
        for n in 0..9 {
            let other = connect().await;
            shards.insert(other.sharding().unwrap().shard);
            let values = insert.bind(&[Value::Int(n), Value::Text("v".into())]).unwrap();
            other
                .execute_raw(&insert, Parameters { values: values.values(), ..one() })
                .await
                .unwrap()
                .response()
                .unwrap();
        }
        assert_eq!(shards.len(), 3);
        let mut named = ValuesBuilder::new();
        named.push_named("value", protocol::wire::RawValue::Bytes(b"named"));
        named.push_named("key", protocol::wire::RawValue::Bytes(&77i32.to_be_bytes()));
        first.execute(&insert, Parameters { values: named.values(), ..one() }).await.unwrap();
        let read = rows(&first, "SELECT v FROM ks.kv WHERE k = 77").await;
        assert_eq!(read.value(0, 0).unwrap(), Value::Text("named".into()));
    });
}

#[test]
fn statements_follow_the_schema() {
    for version in [Version::V4, Version::V5] {
        let mut stage = stage(13, 2);
        stage.play(async move {
            let connection = Connection::connect(native(), &Options::new(version)).await.unwrap();
            make_kv(&connection).await;
            fill(&connection, 1).await;
            let select = connection.prepare("SELECT * FROM ks.kv").await.unwrap();
            let parameters = Parameters { skip_metadata: true, ..one() };
            let before = connection.execute(&select, parameters).await.unwrap().rows();
            assert_eq!(before.columns.len(), 2);
            run(&connection, "ALTER TABLE ks.kv ADD extra int").await;
            assert!(connection.execute_raw(&select, parameters).await.unwrap().is_unprepared());
            let after = connection.execute(&select, parameters).await.unwrap().rows();
            assert_eq!(after.columns.len(), 3);
            assert_eq!(after.value(0, after.column("extra").unwrap()).unwrap(), Value::Null);
            run(&connection, "DROP TABLE ks.kv").await;
            assert!(connection.execute(&select, parameters).await.is_err());
        });
    }
}

#[test]
fn batches_are_written_whole() {
    let mut stage = stage(14, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let insert = connection.prepare("INSERT INTO ks.kv (k, v) VALUES (?, ?)").await.unwrap();
        let bound: Vec<ValuesBuilder> =
            (0..20).map(|k| insert.bind(&[Value::Int(k), Value::Text("b".into())]).unwrap()).collect();
        let mut statements: Vec<BatchStatement<'_>> = bound
            .iter()
            .map(|values| BatchStatement { source: BatchSource::Prepared(insert.id()), values: values.values() })
            .collect();
        let none = ValuesBuilder::new();
        statements.push(BatchStatement {
            source: BatchSource::Query("DELETE FROM ks.kv WHERE k = 3"),
            values: none.values(),
        });
        let batch = Batch { kind: BatchKind::Logged, statements, parameters: one() };
        connection.batch(batch, &[&insert]).await.unwrap();
        let count = rows(&connection, "SELECT count(*) FROM ks.kv").await;
        assert_eq!(count.value(0, 0).unwrap(), Value::Bigint(19));
        let text = "BEGIN UNLOGGED BATCH INSERT INTO ks.kv (k, v) VALUES (3, 'x'); UPDATE ks.kv SET v = 'y' WHERE k = 4; APPLY BATCH";
        run(&connection, text).await;
        let read = rows(&connection, "SELECT v FROM ks.kv WHERE k IN (3, 4)").await;
        let values: BTreeSet<String> = read.values().unwrap().iter().map(|r| format!("{:?}", r[0])).collect();
        assert_eq!(values.len(), 2);
        let select = BatchStatement { source: BatchSource::Query("SELECT * FROM ks.kv"), values: none.values() };
        let wrong = Batch { kind: BatchKind::Unlogged, statements: vec![select], parameters: one() };
        let error = connection.batch(wrong, &[]).await.unwrap_err();
        assert_eq!(error.failure().map(|kind| kind.code()), Some(0x2200));
    });
}

#[test]
fn schema_changes_are_told_to_connections_on_every_shard() {
    let mut stage = stage(15, 3);
    stage.play(async {
        let mut listeners = Vec::new();
        for _ in 0..6 {
            let listener = connect().await;
            listener.register(&[EventType::SchemaChange]).await.unwrap();
            listeners.push(listener);
        }
        let connection = connect().await;
        make_kv(&connection).await;
        for listener in &listeners {
            let keyspace =
                SchemaChange { change: Change::Created, keyspace: "ks".into(), target: Target::Keyspace };
            assert_eq!(listener.next_event().await, Some(Event::Schema(keyspace)));
            let table = SchemaChange {
                change: Change::Created,
                keyspace: "ks".into(),
                target: Target::Table("kv".into()),
            };
            assert_eq!(listener.next_event().await, Some(Event::Schema(table)));
        }
        let again = run(&connection, "CREATE TABLE IF NOT EXISTS ks.kv (k int PRIMARY KEY)").await;
        assert!(matches!(again, Outcome::Void));
    });
}

#[test]
fn mistakes_have_the_right_codes() {
    let mut stage = stage(16, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let cases = [
            ("SELEC * FROM ks.kv", 0x2000),
            ("SELECT * FROM ks.nothing", 0x2200),
            ("SELECT nothing FROM ks.kv", 0x2200),
            ("SELECT * FROM ks.kv WHERE v = 'x'", 0x2200),
            ("INSERT INTO ks.kv (v) VALUES ('x')", 0x2200),
            ("INSERT INTO ks.kv (k, v) VALUES (null, 'x')", 0x2200),
            ("INSERT INTO ks.kv (k, v) VALUES ('text', 'x')", 0x2200),
            ("INSERT INTO ks.kv (k, v) VALUES (?, 'x')", 0x2200),
            ("USE nowhere", 0x2200),
            ("CREATE TABLE ks.kv (k int PRIMARY KEY)", 0x2400),
            (
                "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                0x2400,
            ),
            ("INSERT INTO system.local (key) VALUES ('x')", 0x2100),
            ("DROP KEYSPACE system", 0x2100),
            ("TRUNCATE system.peers", 0x2100),
        ];
        for (text, code) in cases {
            let (got, message) = failure(&connection, text, one()).await;
            assert_eq!(got, code, "{text}: {message}");
        }
        let any = Parameters::at(Consistency::Any);
        assert_eq!(failure(&connection, "SELECT * FROM ks.kv", any).await.0, 0x2200);
    });
}

#[test]
fn three_replicas_on_one_node_serve_one_and_refuse_quorum() {
    let mut stage = stage(17, 2);
    stage.play(async {
        let connection = connect().await;
        run(
            &connection,
            "CREATE KEYSPACE rf3 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
        )
        .await;
        run(&connection, "CREATE TABLE rf3.t (k int PRIMARY KEY)").await;
        run(&connection, "INSERT INTO rf3.t (k) VALUES (1)").await;
        assert_eq!(rows(&connection, "SELECT * FROM rf3.t WHERE k = 1").await.rows.len(), 1);
        for text in
            ["INSERT INTO rf3.t (k) VALUES (1)", "SELECT * FROM rf3.t WHERE k = 1", "SELECT * FROM rf3.t"]
        {
            let error = connection.query(text, Parameters::at(Consistency::Quorum)).await.unwrap_err();
            let expected = protocol::failure::FailureKind::Unavailable {
                consistency: Consistency::Quorum,
                required: 2,
                alive: 1,
            };
            assert_eq!(error.failure(), Some(&expected), "{text}");
        }
    });
}

#[test]
fn a_level_that_was_met_is_refused_once_the_keyspace_wants_more_replicas() {
    for shards in [1, 2] {
        let mut stage = stage(18, shards);
        stage.play(async {
            let connection = connect().await;
            make_kv(&connection).await;
            fill(&connection, 10).await;
            let read = connection.prepare("SELECT v FROM ks.kv WHERE k = ?").await.unwrap();
            let write = connection.prepare("INSERT INTO ks.kv (v, k) VALUES ('new', ?)").await.unwrap();
            for factor in [1, 3, 1] {
                let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': {factor}}}");
                run(&connection, &format!("ALTER KEYSPACE ks WITH replication = {replication}")).await;
                for statement in [&read, &write] {
                    for k in 0..10 {
                        let values = statement.bind(&[Value::Int(k)]).unwrap();
                        let quorum = Parameters::at(Consistency::Quorum);
                        let parameters = Parameters { values: values.values(), ..quorum };
                        let answered = connection.execute(statement, parameters).await;
                        assert_eq!(answered.is_ok(), factor == 1, "factor {factor}, key {k}");
                    }
                }
            }
        });
    }
}

/// The warnings that come with a statement's answer.
async fn warnings(connection: &Connection, text: &str) -> Vec<String> {
    let request = Request::Query(Query { query: text, parameters: one() });
    let answer = connection.request(&request).await.unwrap();
    answer.response().unwrap();
    if answer.header.flags & flag::WARNING == 0 {
        return Vec::new();
    }
    let mut body = base::ByteReader::new(&answer.body);
    let count = body.u16().unwrap();
    let text = |_| {
        let length = usize::from(body.u16().unwrap());
        String::from_utf8(body.bytes(length).unwrap().to_vec()).unwrap()
    };
    (0..count).map(text).collect()
}

#[test]
fn unlogged_batches_of_more_partitions_than_configured_warn() {
    let mut stage = Stage::new(33);
    stage.config.batch_warn_partitions = 2;
    stage.boot(2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let batch = |count: i32| {
            let rows = (0..count).map(|k| format!("INSERT INTO ks.kv (k, v) VALUES ({k}, 'x');"));
            format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", rows.collect::<String>())
        };
        assert_eq!(warnings(&connection, &batch(2)).await, Vec::<String>::new());
        let warned = warnings(&connection, &batch(3)).await;
        assert!(warned[0].starts_with("Unlogged batch covering 3 partitions"), "{warned:?}");
    });
}

#[test]
fn a_keyspace_with_more_replicas_than_nodes_warns() {
    let mut stage = stage(31, 2);
    stage.play(async {
        let connection = connect().await;
        let simple = |factor: u32| format!("{{'class': 'SimpleStrategy', 'replication_factor': {factor}}}");
        let warned = |number: u32| {
            vec![format!(
                "Your replication factor {number} for keyspace d2 is higher than the number of nodes 1"
            )]
        };
        let create = format!("CREATE KEYSPACE d2 WITH replication = {}", simple(3));
        assert_eq!(warnings(&connection, &create).await, warned(3));
        let alter = |factor| format!("ALTER KEYSPACE d2 WITH replication = {}", simple(factor));
        assert_eq!(warnings(&connection, &alter(1)).await, Vec::<String>::new());
        let mut of_two = warned(2);
        of_two.push(
            "When increasing replication factor you need to run a full (-full) repair to distribute the data."
                .into(),
        );
        assert_eq!(warnings(&connection, &alter(2)).await, of_two);
        assert_eq!(warnings(&connection, &alter(2)).await, warned(2), "nothing changed, and it is as it was");
        assert_eq!(warnings(&connection, "CREATE TABLE d2.t (k int PRIMARY KEY)").await, Vec::<String>::new());
        let network =
            "ALTER KEYSPACE d2 WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 2}";
        assert_eq!(
            warnings(&connection, network).await,
            [
                "Your replication factor 2 for keyspace d2 is higher than the number of nodes 1 for datacenter \
              datacenter1"
            ]
        );
    });
}

#[test]
fn options_of_compaction_that_are_not_acted_on_warn() {
    let mut stage = stage(34, 1);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let of = |options: &str| {
            format!("ALTER TABLE ks.kv WITH compaction = {{'class': 'IncrementalCompactionStrategy'{options}}}")
        };
        assert_eq!(warnings(&connection, &of(", 'min_threshold': 8")).await, Vec::<String>::new());
        let warned = warnings(&connection, &of(", 'space_amplification_goal': 1.5, 'bucket_low': 0.4")).await;
        assert_eq!(
            warned,
            [
                "Compaction options [bucket_low, space_amplification_goal] have no effect with \
              IncrementalCompactionStrategy, which compacts as UnifiedCompactionStrategy with scaling_parameters T4"
            ]
        );
    });
}

#[test]
fn a_wrong_number_of_values_is_told_in_the_words_of_the_request() {
    let mut stage = stage(32, 1);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let mut one_value = ValuesBuilder::new();
        one_value.bytes(&1i32.to_be_bytes());
        let parameters = || Parameters { values: one_value.values(), ..one() };
        let (code, text) = failure(&connection, "INSERT INTO ks.kv (k, v) VALUES (?, ?)", parameters()).await;
        assert_eq!((code, &*text), (0x2200, "Invalid amount of bind variables"));
        let insert = connection.prepare("INSERT INTO ks.kv (k, v) VALUES (?, ?)").await.unwrap();
        let error = connection.execute(&insert, parameters()).await.unwrap_err();
        assert!(
            error.to_string().contains("there were 2 markers(?) in CQL but 1 bound variables"),
            "{error}"
        );
    });
}

#[test]
fn every_level_of_reads_is_served_where_it_can_be() {
    let mut stage = stage(33, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "INSERT INTO ks.kv (k, v) VALUES (1, 'a')").await;
        for network in [false, true] {
            if network {
                let text =
                    "ALTER KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}";
                run(&connection, text).await;
            }
            for level in [Consistency::EachQuorum, Consistency::Serial, Consistency::LocalSerial] {
                for text in ["SELECT * FROM ks.kv WHERE k = 1", "SELECT * FROM ks.kv"] {
                    let read = connection.query(text, Parameters::at(level)).await.unwrap().rows();
                    assert_eq!(read.rows.len(), 1, "{text} at {level}");
                }
            }
        }
        let serial = Parameters::at(Consistency::Serial);
        let (code, _) = failure(&connection, "INSERT INTO ks.kv (k, v) VALUES (2, 'b')", serial).await;
        assert_eq!(code, 0x2200);
    });
}

#[test]
fn a_list_keeps_the_order_in_which_requests_came() {
    let mut stage = stage(34, 1);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "CREATE TABLE ks.l (k int PRIMARY KEY, l list<int>)").await;
        for n in 0..40 {
            run(&connection, &format!("UPDATE ks.l SET l = l + [{n}] WHERE k = 1")).await;
        }
        let read = rows(&connection, "SELECT l FROM ks.l WHERE k = 1").await;
        let expected: Vec<Value> = (0..40).map(Value::Int).collect();
        assert_eq!(read.value(0, 0).unwrap(), Value::List(expected));
    });
}

#[test]
fn use_and_keyspaces_of_requests() {
    let mut stage = stage(18, 1);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        assert_eq!(failure(&connection, "SELECT * FROM kv", one()).await.0, 0x2200);
        let in_request = Parameters { keyspace: Some("ks"), ..one() };
        connection.query("SELECT * FROM kv", in_request).await.unwrap();
        assert!(matches!(run(&connection, "USE ks").await, Outcome::SetKeyspace(name) if name == "ks"));
        run(&connection, "INSERT INTO kv (k, v) VALUES (1, 'used')").await;
        assert_eq!(rows(&connection, "SELECT * FROM kv").await.rows.len(), 1);
        run(&connection, "TRUNCATE kv").await;
        assert_eq!(rows(&connection, "SELECT * FROM kv").await.rows.len(), 0);
    });
}

#[test]
fn list_elements_are_written_by_place_and_by_value() {
    let mut stage = stage(19, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "CREATE TABLE ks.lists (k int PRIMARY KEY, l list<int>)").await;
        run(&connection, "INSERT INTO ks.lists (k, l) VALUES (1, [10, 20, 30, 20])").await;
        run(&connection, "UPDATE ks.lists SET l[1] = 21 WHERE k = 1").await;
        run(&connection, "UPDATE ks.lists SET l = l - [20] WHERE k = 1").await;
        let prepared = connection.prepare("DELETE l[?] FROM ks.lists WHERE k = ?").await.unwrap();
        let values = prepared.bind(&[Value::Int(0), Value::Int(1)]).unwrap();
        connection.execute(&prepared, Parameters { values: values.values(), ..one() }).await.unwrap();
        let read = rows(&connection, "SELECT l FROM ks.lists WHERE k = 1").await;
        assert_eq!(read.value(0, 0).unwrap(), Value::List(vec![Value::Int(21), Value::Int(30)]));
        run(&connection, "BEGIN BATCH UPDATE ks.lists SET l[0] = 1 WHERE k = 1; UPDATE ks.lists SET l = l + [5] WHERE k = 1; APPLY BATCH").await;
        let none = ValuesBuilder::new();
        let texts = ["UPDATE ks.lists SET l[1] = 2 WHERE k = 1", "UPDATE ks.lists SET l = l + [6] WHERE k = 1"];
        let statements =
            texts.map(|text| BatchStatement { source: BatchSource::Query(text), values: none.values() }).to_vec();
        connection.batch(Batch { kind: BatchKind::Logged, statements, parameters: one() }, &[]).await.unwrap();
        let read = rows(&connection, "SELECT l FROM ks.lists WHERE k = 1").await;
        assert_eq!(read.value(0, 0).unwrap(), Value::List([1, 2, 5, 6].map(Value::Int).to_vec()));
        assert_eq!(failure(&connection, "UPDATE ks.lists SET l[9] = 1 WHERE k = 1", one()).await.0, 0x2200);
    });
}
