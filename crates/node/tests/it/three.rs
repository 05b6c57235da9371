//! Three nodes with a fixed membership: every node coordinates, a lost node is missed only by the levels that need it.

use crate::harness::{failure, one, rows, run};
use crate::many::{Many, Place, at, connect_to};
use std::time::Duration;
use types::{Consistency, Value};

/// Three nodes of 1, 2 and 3 shards, all ready.
fn three(seed: u64) -> Many {
    let places: Vec<Place> = (1..=3).map(|shards| Place { dc: "dc", rack: "r", shards }).collect();
    Many::start(seed, &places, |_| {})
}

#[test]
fn data_is_shared_and_one_node_may_be_missing() {
    let mut many = three(51);
    many.play(async {
        // Nodes that start together wait for each other.
        for n in 1..=3 {
            let connection = connect_to(n).await;
            run(
                &connection,
                "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
            )
            .await;
            run(&connection, "CREATE TABLE ks.kv (k int PRIMARY KEY, v int) WITH ID = 00000000-0000-1000-8000-00000000abcd").await;
        }
        let peers =
            rows(&connect_to(1).await, "SELECT peer, rpc_address, host_id, tokens FROM system.peers").await;
        assert_eq!(peers.rows.len(), 2);
        for k in 0..30 {
            let connection = connect_to(1 + (k % 3) as usize).await;
            let text = format!("INSERT INTO ks.kv (k, v) VALUES ({k}, {k})");
            connection.query(&text, at(Consistency::Quorum)).await.unwrap();
        }
        for n in 1..=3 {
            let count = connect_to(n)
                .await
                .query("SELECT count(*) FROM ks.kv", at(Consistency::All))
                .await
                .unwrap()
                .rows();
            assert_eq!(count.value(0, 0).unwrap(), Value::Bigint(30), "node {n}");
        }
    });
    many.world.kill(many.node(3));
    many.play(async {
        runtime::sleep(Duration::from_secs(20)).await;
        let connection = connect_to(1).await;
        connection.query("INSERT INTO ks.kv (k, v) VALUES (100, 1)", at(Consistency::Quorum)).await.unwrap();
        let read = connect_to(2)
            .await
            .query("SELECT v FROM ks.kv WHERE k = 100", at(Consistency::Quorum))
            .await
            .unwrap()
            .rows();
        assert_eq!(read.rows.len(), 1);
        let (code, text) =
            failure(&connection, "SELECT * FROM ks.kv WHERE k = 100", at(Consistency::All)).await;
        assert_eq!(code, 0x1000, "{text}");
        assert_eq!(rows(&connection, "SELECT * FROM ks.kv WHERE k = 3").await.rows.len(), 1);
        assert_eq!(connection.query("SELECT k FROM ks.kv", one()).await.unwrap().rows().rows.len(), 31);
    });
}
