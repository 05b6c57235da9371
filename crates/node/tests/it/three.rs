//! Three nodes with a fixed membership: every node coordinates, a lost node is missed only by the levels that need it.

use crate::harness::{failure, one, rows, run};
use client::{Connection, Options};
use node::config::{Config, Peer};
use node::{Reporter, main_closure};
use protocol::envelope::Version;
use protocol::request::Parameters;
use runtime::sim::{NodeId, SimConfig, World};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use types::{Consistency, Value};

const PATIENCE: Duration = Duration::from_secs(120);

fn ip(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

fn config_of(n: u8) -> Config {
    let mut config = Config::standard("/data".into());
    config.listen_address = ip(n);
    config.rpc_address = ip(n);
    config.prometheus = None;
    config.api_port = None;
    config.host_id = Some(u128::from(n));
    config.initial_tokens = vec![i64::from(n) * (i64::MAX / 4)];
    config
}

fn peer_of(n: u8) -> Peer {
    let config = config_of(n);
    Peer {
        host_id: u128::from(n),
        address: SocketAddr::new(ip(n), config.storage_port),
        native_address: SocketAddr::new(ip(n), config.native_transport_port),
        tokens: config.initial_tokens,
        shards: u16::from(n),
        data_center: config.data_center,
        rack: config.rack,
    }
}

/// Three nodes of 1, 2 and 3 shards, all ready, and a client machine.
fn three(seed: u64) -> (World, Vec<NodeId>, NodeId) {
    let mut world = World::new(seed, SimConfig::calm());
    let nodes: Vec<NodeId> = (1..=3).map(|n| world.add_node(ip(n))).collect();
    let client = world.add_client(ip(99));
    let ready = Arc::new(AtomicU32::new(0));
    for n in 1..=3u8 {
        let mut config = config_of(n);
        config.peers = (1..=3).filter(|other| *other != n).map(peer_of).collect();
        let told = ready.clone();
        let reporter = Reporter {
            ready: Arc::new(move |_| {
                told.fetch_add(1, Ordering::Relaxed);
            }),
            ..Reporter::silent()
        };
        world.boot(nodes[usize::from(n - 1)], u16::from(n), main_closure(config, reporter));
    }
    assert!(world.run_until(|_| ready.load(Ordering::Relaxed) == 3, PATIENCE), "{:?}", world.log_lines());
    (world, nodes, client)
}

fn play<T: 'static>(world: &mut World, client: NodeId, scenario: impl Future<Output = T> + 'static) -> T {
    let mut task = world.spawn(client, scenario);
    assert!(world.run_until(|_| task.done(), PATIENCE), "{:?}", world.log_lines());
    task.take().expect("it is done")
}

async fn connect_to(n: u8) -> Connection {
    Connection::connect(SocketAddr::new(ip(n), 9042), &Options::new(Version::V5)).await.unwrap()
}

fn at(consistency: Consistency) -> Parameters<'static> {
    Parameters::at(consistency)
}

#[test]
fn data_is_shared_and_one_node_may_be_missing() {
    let (mut world, nodes, client) = three(51);
    play(&mut world, client, async {
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
            let connection = connect_to(1 + (k % 3) as u8).await;
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
    world.kill(nodes[2]);
    play(&mut world, client, async {
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
