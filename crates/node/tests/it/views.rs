//! `system_views`, and the tables of `system` that tell of stored data: what they say is what has happened.

use crate::harness::*;
use client::Connection;
use types::Value;

/// One value of the first row.
async fn value(connection: &Connection, text: &str) -> Value {
    let found = rows(connection, text).await;
    assert_eq!(found.rows.len(), 1, "{text}");
    found.value(0, 0).unwrap()
}

#[test]
fn counts_of_every_shard_are_summed() {
    let mut stage = stage(61, 3);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        for k in 0..30 {
            run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({k}, 'v')")).await;
        }
        let read = connection.prepare("SELECT v FROM ks.kv WHERE k = 7").await.unwrap();
        for _ in 0..12 {
            connection.execute(&read, one()).await.unwrap();
        }
        run(&connection, "SELECT v FROM ks.kv").await;
        run(&connection, "BEGIN UNLOGGED BATCH INSERT INTO ks.kv (k) VALUES (1); INSERT INTO ks.kv (k) VALUES (2); APPLY BATCH").await;
        let of_kv = "WHERE keyspace_name = 'ks' AND table_name = 'kv'";
        for (column, table, expected) in [
            ("count", "local_write_latency", Value::Bigint(32)),
            ("count", "local_read_latency", Value::Bigint(12)),
            ("p50th", "rows_per_read", Value::Double(1.0)),
            ("max", "tombstones_per_read", Value::Double(0.0)),
            ("mebibytes", "disk_usage", Value::Bigint(0)),
        ] {
            let text = format!("SELECT {column} FROM system_views.{table} {of_kv}");
            assert_eq!(value(&connection, &text).await, expected, "{table}");
        }
        let metric = |name: &str| format!("SELECT value FROM system_views.cql_metrics WHERE name = '{name}'");
        assert_eq!(value(&connection, &metric("prepared_statements_count")).await, Value::Double(1.0));
        assert_eq!(value(&connection, &metric("prepared_statements_executed")).await, Value::Double(12.0));
        let batches = "SELECT max FROM system_views.batch_metrics WHERE name = 'partitions_per_unlogged_batch'";
        assert_eq!(value(&connection, batches).await, Value::Bigint(2));
        let groups = rows(&connection, "SELECT name, active_tasks_limit FROM system_views.thread_pools").await;
        assert!(groups.rows.len() >= 7 && groups.value(0, 1).unwrap() == Value::Int(3));
    });
}

#[test]
fn every_virtual_table_can_be_read_and_none_written() {
    let mut stage = stage(62, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let tables =
            rows(&connection, "SELECT keyspace_name, table_name FROM system_virtual_schema.tables").await;
        assert_eq!(tables.rows.len(), 46, "as many as Cassandra 5.0 has");
        for row in 0..tables.rows.len() {
            let (Value::Text(keyspace), Value::Text(table)) =
                (tables.value(row, 0).unwrap(), tables.value(row, 1).unwrap())
            else {
                panic!("names are texts")
            };
            rows(&connection, &format!("SELECT * FROM {keyspace}.{table}")).await;
            rows(&connection, &format!("SELECT JSON * FROM {keyspace}.{table}")).await;
        }
        for (text, code, said) in [
            (
                "UPDATE system_views.settings SET value = 'x' WHERE name = 'cluster_name'",
                0x2200,
                "Modification is not supported by table system_views.settings",
            ),
            (
                "BEGIN BATCH INSERT INTO system_views.caches (name) VALUES ('x') APPLY BATCH",
                0x2200,
                "Modification is not supported by table system_views.caches",
            ),
            (
                "TRUNCATE system_views.clients",
                0x2200,
                "Truncation is not supported by table system_views.clients",
            ),
            (
                "CREATE TABLE system_views.x (a int PRIMARY KEY)",
                0x2100,
                "system_views keyspace is not user-modifiable.",
            ),
        ] {
            assert_eq!(failure(&connection, text, one()).await, (code, said.to_string()), "{text}");
        }
    });
}

#[test]
fn estimates_add_up_to_the_table() {
    let mut stage = stage(63, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        for k in 0..200 {
            run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({k}, 'v')")).await;
        }
        let text = "SELECT partitions_count, range_start, range_end FROM system.size_estimates \
                    WHERE keyspace_name = 'ks' AND table_name = 'kv'";
        let ranges = rows(&connection, text).await;
        let tokens = rows(&connection, "SELECT tokens FROM system.local").await;
        let Value::Set(tokens) = tokens.value(0, 0).unwrap() else { panic!("tokens are a set") };
        assert_eq!(ranges.rows.len(), tokens.len());
        let partitions = |row| match ranges.value(row, 0).unwrap() {
            Value::Bigint(count) => count,
            other => panic!("{other:?}"),
        };
        let sum: i64 = (0..ranges.rows.len()).map(partitions).sum();
        // Each range is rounded by itself.
        assert!((sum - 200).unsigned_abs() <= ranges.rows.len() as u64, "{sum}");
        let both =
            "SELECT range_type FROM system.table_estimates WHERE keyspace_name = 'ks' AND table_name = 'kv'";
        assert_eq!(rows(&connection, both).await.rows.len(), 2 * ranges.rows.len());
    });
}
