//! What drivers and tools ask when they connect, and DESCRIBE.

use crate::harness::*;
use types::Value;

/// The texts drivers send, white space and letter case included.
const DRIVER_QUERIES: &[&str] = &[
    "SELECT * FROM system.peers_v2",
    "SELECT * FROM system.peers",
    "SELECT * FROM system.local WHERE key='local'",
    "SELECT * FROM system_schema.keyspaces",
    "SELECT * FROM system_schema.tables",
    "SELECT * FROM system_schema.columns",
    "SELECT * FROM system_schema.types",
    "SELECT * FROM system_schema.functions",
    "SELECT * FROM system_schema.aggregates",
    "SELECT * FROM system_schema.triggers",
    "SELECT * FROM system_schema.indexes",
    "SELECT * FROM system_schema.views",
    "SELECT * from system_virtual_schema.keyspaces",
    "SELECT * from system_virtual_schema.tables",
    "SELECT * from system_virtual_schema.columns",
    "SELECT host_id, cluster_name, data_center, rack, partitioner, release_version, schema_version FROM system.local WHERE key='local'",
    "SELECT host_id, peer, peer_port, data_center, rack, native_address, native_port, release_version, schema_version FROM system.peers_v2",
    "SELECT broadcast_address, cluster_name, data_center, host_id, listen_address, partitioner, rack, release_version, rpc_address, schema_version, tokens FROM system.local WHERE key='local' USING TIMEOUT 2000ms",
    "SELECT peer, data_center, host_id, rack, release_version, rpc_address, schema_version, tokens FROM system.peers USING TIMEOUT 2000ms",
    "SELECT cluster_name FROM system.local",
    "SELECT schema_version FROM system.local",
    "SELECT prepared_id FROM system.prepared_statements",
    "select * from system.local where key = 'local'",
    "SELECT * FROM system_schema.tables WHERE keyspace_name = 'ks' AND table_name = 'kv'",
    "SELECT * FROM system_schema.columns WHERE keyspace_name IN ('ks', 'system')",
    "SELECT * FROM system_schema.functions WHERE keyspace_name = 'ks' AND function_name = 'f' AND argument_types = ['int']",
    "SELECT keyspace_name, table_name, column_name, kind, position, type FROM system_schema.columns",
    "\n\t\tSELECT durable_writes, replication\n\t\tFROM system_schema.keyspaces\n\t\tWHERE keyspace_name = 'ks'",
    "SELECT * FROM system_traces.sessions WHERE session_id = 6ba7b810-9dad-41d1-80b4-00c04fd430c8",
    "SELECT * FROM system_traces.events WHERE session_id = 6ba7b810-9dad-41d1-80b4-00c04fd430c8",
    "SELECT * FROM system.size_estimates WHERE keyspace_name = 'ks' AND table_name = 'kv'",
    "SELECT * FROM system_auth.roles",
    "SELECT * FROM system_views.settings",
    "SELECT * FROM system_distributed.view_build_status",
    "SELECT * FROM system.\"IndexInfo\"",
];

#[test]
fn every_query_of_a_driver_is_answered() {
    let mut stage = stage(21, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        for text in DRIVER_QUERIES {
            rows(&connection, text).await;
            let prepared = connection.prepare(text).await.unwrap();
            connection.execute(&prepared, one()).await.unwrap();
        }
        for text in [
            "SELECT keyspace_name, table_name, partitioner FROM system_schema.scylla_tables",
            "SELECT keyspace_name, initial_tablets FROM system_schema.scylla_keyspaces",
        ] {
            assert_eq!(failure(&connection, text, one()).await.0, 0x2200);
        }
    });
}

#[test]
fn local_describes_this_node() {
    let mut stage = stage(22, 2);
    stage.play(async {
        let connection = connect().await;
        let before = rows(&connection, "SELECT * FROM system.local WHERE key = 'local'").await;
        let text = |name: &str| before.value(0, before.column(name).unwrap()).unwrap();
        assert_eq!(text("release_version"), Value::Text("5.0.6".into()));
        assert_eq!(text("cluster_name"), Value::Text("Test Cluster".into()));
        assert_eq!(text("rpc_address"), Value::Inet(native().ip()));
        assert_ne!(text("host_id"), Value::Null);
        let tokens = before.rows[0][before.column("tokens").unwrap()].clone().unwrap();
        assert_eq!(types::collection::count(&tokens), Ok(16));
        make_kv(&connection).await;
        let after = rows(&connection, "SELECT schema_version FROM system.local").await;
        assert_ne!(after.value(0, 0).unwrap(), text("schema_version"));
        assert_eq!(rows(&connection, "SELECT * FROM system.peers").await.rows.len(), 0);
    });
}

#[test]
fn the_schema_tables_hold_the_schema() {
    let mut stage = stage(23, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let keyspaces = rows(&connection, "SELECT keyspace_name FROM system_schema.keyspaces").await;
        let mut names: Vec<String> =
            keyspaces.rows.iter().map(|r| String::from_utf8(r[0].clone().unwrap()).unwrap()).collect();
        names.sort();
        assert_eq!(
            names,
            ["ks", "system", "system_auth", "system_distributed", "system_schema", "system_traces"]
        );
        let columns = rows(
            &connection,
            "SELECT column_name, kind, position, type FROM system_schema.columns WHERE keyspace_name = 'ks'",
        )
        .await;
        assert_eq!(
            columns.values().unwrap(),
            [
                vec![
                    Value::Text("k".into()),
                    Value::Text("partition_key".into()),
                    Value::Int(0),
                    Value::Text("int".into())
                ],
                vec![
                    Value::Text("v".into()),
                    Value::Text("regular".into()),
                    Value::Int(-1),
                    Value::Text("text".into())
                ],
            ]
        );
        let first = rows(&connection, "SELECT table_name FROM system_schema.tables LIMIT 3").await;
        assert_eq!(first.rows.len(), 3);
    });
}

#[test]
fn clients_of_every_shard_are_listed() {
    let mut stage = stage(24, 3);
    stage.play(async {
        let mut connections = Vec::new();
        for _ in 0..6 {
            connections.push(connect().await);
        }
        let listed =
            rows(&connections[0], "SELECT address, port, connection_stage FROM system_views.clients").await;
        assert_eq!(listed.rows.len(), 6);
        drop(connections);
    });
}

#[test]
fn describe_gives_statements_that_make_the_schema_again() {
    let mut stage = stage(25, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        run(&connection, "CREATE TABLE ks.wide (a int, \"B\" text, c int, s text static, l list<int>, PRIMARY KEY ((a, \"B\"), c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'it''s wide'").await;
        let described = rows(&connection, "DESCRIBE KEYSPACE ks").await;
        let column = described.column("create_statement").unwrap();
        let statements: Vec<String> =
            described.rows.iter().map(|r| String::from_utf8(r[column].clone().unwrap()).unwrap()).collect();
        assert_eq!(statements.len(), 3);
        run(&connection, "DROP KEYSPACE ks").await;
        for statement in &statements {
            run(&connection, statement).await;
        }
        let again = rows(&connection, "DESCRIBE KEYSPACE ks").await;
        assert_eq!(described.rows, again.rows);
        for text in ["DESCRIBE KEYSPACES", "DESCRIBE TABLES", "DESCRIBE CLUSTER", "DESCRIBE FULL SCHEMA", "DESC TABLE ks.kv"] {
            assert!(!rows(&connection, text).await.rows.is_empty(), "{text}");
        }
        let cluster = rows(&connection, "DESCRIBE CLUSTER").await;
        assert_eq!(cluster.value(0, 2).unwrap(), Value::Text("DynamicEndpointSnitch".into()));
        assert_eq!(failure(&connection, "DESCRIBE TABLE ks.nothing", one()).await.0, 0x2200);
    });
}
