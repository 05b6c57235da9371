//! A stop that comes too early, a clock that is set, a disk that can only be read.

use crate::harness::*;
use node::config::CommitlogSync;
use node::{Reporter, main_closure};
use protocol::envelope::Version;
use std::time::Duration;
use storage::{CommitFailurePolicy, DiskFailurePolicy};
use types::Value;

const FIRST_PORT: u16 = 50_000;

/// A connection to that one of two shards.
async fn connect_to(shard: u16) -> client::Connection {
    let address = std::net::SocketAddr::new(native().ip(), 19_042);
    for port in FIRST_PORT.. {
        if port % 2 == shard {
            let local = format!("10.0.9.9:{port}").parse().unwrap();
            let options = client::Options { local: Some(local), ..client::Options::new(Version::V5) };
            if let Ok(connection) = client::Connection::connect(address, &options).await {
                return connection;
            }
        }
    }
    panic!("no free port");
}

fn insert(k: i32) -> String {
    format!("INSERT INTO ks.kv (k, v) VALUES ({k}, '{}')", "v".repeat(2_000))
}

#[test]
fn a_stop_does_not_wait_for_the_end_of_a_replay() {
    let mut stage = Stage::new(61);
    stage.config.commitlog_sync = CommitlogSync::Batch;
    stage.config.commitlog_segment_bytes = 64 << 10;
    stage.boot(2);
    stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        for k in 0..400 {
            run(&connection, &insert(k)).await;
        }
    });
    let node = stage.node;
    stage.world.power_cut(node);
    let slow = Duration::from_millis(40);
    stage.world.slow_disk(node, (slow, slow));
    // At ten times of its start it is asked to stop; what it had done so far is done again by the next one.
    for tenth in 1..=10 {
        stage.world.boot(node, 2, main_closure(stage.config.clone(), Reporter::silent()));
        stage.world.run_for(slow * 5 * tenth);
        assert!(stage.world.alive(node), "it ended by itself");
        let asked = stage.world.now();
        stage.stop();
        let took = stage.world.now().since(asked);
        assert!(took < Duration::from_secs(2), "the stop took {took:?}");
    }
    let early = "stopped during the commitlog replay";
    let lines = stage.world.log_lines();
    assert!(lines.iter().filter(|line| line.1.contains(early)).count() >= 3, "{lines:?}");
    stage.world.slow_disk(node, (Duration::from_micros(50), Duration::from_micros(100)));
    stage.boot(1);
    stage.play(async {
        let connection = connect().await;
        let count = rows(&connection, "SELECT count(*) FROM ks.kv").await;
        assert_eq!(count.value(0, 0).unwrap(), Value::Bigint(400));
    });
}

#[test]
fn a_clock_that_is_set_back_makes_no_write_older() {
    let mut stage = stage(62, 2);
    let hour = 3_600_000_000;
    stage.play(async { make_kv(&connect().await).await });
    // Forwards, back, further back; each time a shard that has seen nothing of it writes next.
    for (round, skew) in [0, hour, -hour, -2 * hour, 0].into_iter().enumerate() {
        let node = stage.node;
        stage.world.set_skew(node, skew);
        stage.play(async move {
            for shard in [0, 1, 0] {
                let connection = connect_to(shard).await;
                let value = format!("round {round} of {shard}");
                run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES (1, '{value}')")).await;
                let read = rows(&connection, "SELECT v FROM ks.kv WHERE k = 1").await;
                assert_eq!(read.value(0, 0).unwrap(), Value::Text(value));
            }
        });
    }
    let lines = stage.world.log_lines();
    let told = lines.iter().filter(|line| line.1.contains("clock was set back by")).count();
    assert!((1..=4).contains(&told), "{told}: {lines:?}");
}

#[test]
fn a_disk_that_can_only_be_read_stops_writes_and_nothing_else() {
    let mut stage = Stage::new(63);
    stage.config.commitlog_sync = CommitlogSync::Batch;
    stage.config.memtable_bytes = Some(64 << 10);
    // The policies that leave the port open; the others have a test of their own.
    stage.config.disk_failure = DiskFailurePolicy::Ignore;
    stage.config.commit_failure = CommitFailurePolicy::StopCommit;
    stage.boot(2);
    let acknowledged = stage.play(async {
        let connection = connect().await;
        make_kv(&connection).await;
        for k in 0..20 {
            run(&connection, &insert(k)).await;
        }
        20
    });
    let node = stage.node;
    let before = stage.world.log_lines().len();
    stage.world.set_read_only(node, true);
    stage.play(async move {
        let connection = connect().await;
        for k in 100..140 {
            let refused = connection.query(&insert(k), one()).await;
            let text = format!("{:?}", refused.err());
            assert!(text != "None", "a write to a disk that cannot be written was acknowledged");
        }
        let count = rows(&connection, "SELECT count(*) FROM ks.kv WHERE k < 100 ALLOW FILTERING").await;
        assert_eq!(count.value(0, 0).unwrap(), Value::Bigint(acknowledged));
    });
    // An hour of it: the log says what is wrong now and then, not all the time.
    stage.world.run_until(|_| false, Duration::from_secs(3600));
    let lines = stage.world.log_lines().split_off(before);
    let told = lines.iter().filter(|line| line.1.contains("read-only file system")).count();
    assert!((1..=2 * 6 * 60).contains(&told), "{told} lines: {lines:?}");
    assert!(stage.world.alive(node));
    // A start on it says so, too.
    stage.world.power_cut(node);
    let refused = stage.try_boot(2).unwrap_err();
    assert!(refused.contains("read-only file system") && refused.contains("/data"), "{refused}");
    let ended = stage.world.run_until(|world| !world.alive(node), Duration::from_secs(30));
    assert!(ended, "the node neither starts nor ends");
    stage.world.set_read_only(node, false);
    stage.boot(2);
    stage.play(async move {
        let connection = connect().await;
        let count = rows(&connection, "SELECT count(*) FROM ks.kv WHERE k < 100 ALLOW FILTERING").await;
        assert_eq!(count.value(0, 0).unwrap(), Value::Bigint(acknowledged));
        run(&connection, &insert(200)).await;
    });
}

#[test]
fn slow_requests_are_told_in_the_log() {
    let mut stage = Stage::new(64);
    stage.config.commitlog_sync = CommitlogSync::Batch;
    stage.config.slow_query_timeout = Duration::from_millis(100);
    stage.boot(1);
    stage.play(async { make_kv(&connect().await).await });
    let node = stage.node;
    let slow = Duration::from_millis(150);
    stage.world.slow_disk(node, (slow, slow));
    stage.play(async {
        let connection = connect().await;
        let prepared = connection.prepare("INSERT INTO ks.kv (k, v) VALUES (6, 'x')").await.unwrap();
        for _ in 0..3 {
            connection.execute(&prepared, one()).await.unwrap();
        }
        run(&connection, "INSERT INTO ks.kv (k, v) VALUES (7, 'y')").await;
        rows(&connection, "SELECT v FROM ks.kv WHERE k = 7").await;
        runtime::sleep(Duration::from_secs(6)).await;
    });
    let lines = stage.world.log_lines();
    let told: Vec<&str> = lines.iter().map(|line| line.1.as_str()).filter(|l| l.contains(" slow ")).collect();
    assert_eq!(told.len(), 3, "{lines:?}");
    assert!(told[0].contains("4 operations were slow in the last 5000 ms:"), "{}", told[0]);
    assert!(
        told[1].contains("<INSERT INTO ks.kv (k, v) VALUES (6, 'x')>, was slow 3 times: avg/min/max "),
        "{}",
        told[1]
    );
    assert!(told[2].contains("<INSERT INTO ks.kv (k, v) VALUES (7, 'y')>, time "), "{}", told[2]);
    assert!(told[2].ends_with(" ms - slow timeout 100 ms\n"), "{}", told[2]);
}
