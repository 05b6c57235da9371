//! Starting, stopping, starting again; the folder, the ports, the metrics.

use crate::harness::*;
use runtime::net::TcpStream;
use std::time::Duration;
use types::Value;

#[test]
fn data_and_schema_survive_a_restart_with_another_number_of_shards() {
    let mut stage = stage(41, 2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        for k in 0..50 {
            run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({k}, 'v{k}')")).await;
        }
    });
    for shards in [3, 1] {
        stage.stop();
        stage.boot(shards);
        stage.play(async {
            let connection = connect().await;
            let count = rows(&connection, "SELECT count(*) FROM ks.kv").await;
            assert_eq!(count.value(0, 0).unwrap(), Value::Bigint(50));
            let one_row = rows(&connection, "SELECT v FROM ks.kv WHERE k = 31").await;
            assert_eq!(one_row.value(0, 0).unwrap(), Value::Text("v31".into()));
        });
    }
}

#[test]
fn the_identity_stays_and_a_foreign_one_is_refused() {
    let mut stage = Stage::new(42);
    let first = stage.try_boot(1).unwrap();
    stage.stop();
    assert_eq!(stage.try_boot(2).unwrap().host_id, first.host_id);
    stage.stop();
    stage.config.host_id = Some(7);
    let reason = stage.try_boot(1).unwrap_err();
    assert!(reason.contains("the folder belongs to host"), "{reason}");
}

#[test]
fn a_power_cut_loses_nothing_that_was_synced() {
    let mut stage = Stage::new(43);
    stage.config.commitlog_sync = node::config::CommitlogSync::Batch;
    stage.boot(2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        for k in 0..50 {
            run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({k}, 'v')")).await;
        }
    });
    let node = stage.node;
    stage.world.power_cut(node);
    stage.boot(2);
    stage.play(async {
        let connection = connect().await;
        let count = rows(&connection, "SELECT count(*) FROM ks.kv").await;
        assert_eq!(count.value(0, 0).unwrap(), Value::Bigint(50));
    });
}

#[test]
fn metrics_of_every_shard_are_served() {
    let mut stage = stage(44, 2);
    let text = stage.play(async {
        make_kv(&connect().await).await;
        let stream = TcpStream::connect("10.0.0.1:9180".parse().unwrap(), None).await.unwrap();
        stream.send_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n".to_vec()).await.unwrap();
        let mut text = Vec::new();
        while let Ok(Ok(bytes)) = runtime::timeout(Duration::from_secs(5), stream.recv()).await {
            if bytes.is_empty() {
                break;
            }
            text.extend_from_slice(&bytes);
        }
        String::from_utf8(text).unwrap()
    });
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    for shard in 0..2 {
        let line = text
            .lines()
            .find(|l| l.contains("transport_requests") && l.contains(&format!("shard=\"{shard}\"")));
        assert!(line.is_some(), "shard {shard}: {text}");
    }
}

#[test]
fn connections_above_the_limit_are_refused_until_others_leave() {
    let mut stage = Stage::new(45);
    stage.config.connections_max = Some(2);
    stage.boot(2);
    stage.play(async {
        let first = connect().await;
        let second = connect().await;
        let options = client::Options::new(protocol::envelope::Version::V5);
        assert!(client::Connection::connect(native(), &options).await.is_err());
        drop(first);
        runtime::sleep(Duration::from_secs(1)).await;
        let third = connect().await;
        rows(&third, "SELECT key FROM system.local").await;
        rows(&second, "SELECT key FROM system.local").await;
    });
}

#[test]
fn a_shard_with_too_much_to_do_says_so() {
    let mut stage = Stage::new(46);
    stage.config.requests_per_shard_max = Some(4);
    stage.config.commitlog_sync = node::config::CommitlogSync::Batch;
    stage.boot(1);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        let requests: Vec<_> = (0..50)
            .map(|k| {
                let connection = connection.clone();
                runtime::spawn(runtime::Group::MAIN, async move {
                    connection.query(&format!("INSERT INTO ks.kv (k, v) VALUES ({k}, 'v')"), one()).await
                })
            })
            .collect();
        let (mut done, mut shed) = (0, 0);
        for request in requests {
            match request.await {
                Ok(_) => done += 1,
                Err(error) => {
                    assert_eq!(error.failure().map(|kind| kind.code()), Some(0x1001), "{error}");
                    shed += 1;
                }
            }
        }
        assert!(done >= 4 && shed > 0, "{done} done, {shed} shed");
        rows(&connection, "SELECT * FROM ks.kv").await;
    });
}
