//! How many connections, how much of everything: who goes beyond is refused or slowed down, and nobody else is.

use crate::harness::*;
use client::{Connection, Error, Options};
use protocol::envelope::Version;
use protocol::failure::FailureKind;
use protocol::request::{Parameters, Query, Request, Startup};
use runtime::net::TcpStream;
use std::time::Duration;
use types::Value;

async fn is_served(connection: &Connection) -> bool {
    connection.query("SELECT key FROM system.local", one()).await.is_ok()
}

async fn try_connect() -> Result<Connection, Error> {
    Connection::connect(native(), &Options::new(Version::V4)).await
}

#[test]
fn one_address_gets_so_many_connections() {
    let mut stage = Stage::new(1);
    stage.config.clients.connections_per_ip_max = Some(3);
    stage.boot(2);
    stage.play(async {
        let mut connections = Vec::new();
        for _ in 0..3 {
            connections.push(try_connect().await.unwrap());
        }
        assert!(try_connect().await.is_err());
        connections.pop();
        runtime::sleep(Duration::from_secs(1)).await;
        connections.push(try_connect().await.unwrap());
        for connection in &connections {
            assert!(is_served(connection).await);
        }
    });
}

#[test]
fn silent_clients_are_closed_where_that_is_asked_for() {
    let mut stage = Stage::new(2);
    stage.config.clients.idle_timeout = Duration::from_secs(30);
    stage.boot(1);
    stage.play(async {
        let (silent, busy) = (try_connect().await.unwrap(), try_connect().await.unwrap());
        for _ in 0..4 {
            runtime::sleep(Duration::from_secs(15)).await;
            assert!(is_served(&busy).await);
        }
        assert!(silent.is_closed() && !busy.is_closed());
    });
}

#[test]
fn half_open_connections_stop_nobody_and_end() {
    let mut stage = stage(3, 2);
    stage.play(async {
        let mut silent = Vec::new();
        for index in 0..1000u32 {
            let stream = TcpStream::connect(native(), None).await.unwrap();
            if index % 3 == 0 {
                stream.send_all(vec![4, 0, 0, 1, 1, 0, 0]).await.unwrap();
            }
            silent.push(stream);
        }
        let begun = runtime::now();
        let connection = try_connect().await.unwrap();
        assert!(is_served(&connection).await);
        assert!(runtime::now() - begun < Duration::from_millis(500));
        runtime::sleep(Duration::from_secs(61)).await;
        for stream in &silent {
            let end = runtime::timeout(Duration::from_secs(1), stream.recv()).await;
            assert!(end.is_ok_and(|end| end.is_ok_and(|bytes| bytes.is_empty())), "it is cut");
        }
        assert!(is_served(&connection).await);
    });
}

/// Sends so many QUERY at once and says how many were answered well, how many as overload, and how long it took.
async fn burst(connection: &Connection, count: usize) -> (usize, usize, Duration) {
    let begun = runtime::now();
    let ask =
        |connection: Connection| async move { connection.query("SELECT key FROM system.local", one()).await };
    let tasks: Vec<_> =
        (0..count).map(|_| runtime::spawn(runtime::Group::QUERY, ask(connection.clone()))).collect();
    let (mut good, mut overloaded) = (0, 0);
    for task in tasks {
        match task.await {
            Ok(_) => good += 1,
            Err(Error::Failure(failure)) if failure.kind == FailureKind::Overloaded => overloaded += 1,
            Err(error) => panic!("{error}"),
        }
    }
    (good, overloaded, runtime::now() - begun)
}

#[test]
fn a_bounded_rate_slows_clients_down_or_tells_them() {
    for throws in [false, true] {
        let mut stage = Stage::new(4);
        stage.config.clients.is_rate_bounded = true;
        stage.config.clients.requests_per_second_max = 100;
        stage.config.clients.throw_on_overload = throws;
        stage.boot(1);
        stage.play(async move {
            let connection = try_connect().await.unwrap();
            let (good, overloaded, took) = burst(&connection, 400).await;
            if throws {
                assert!((95..=110).contains(&good) && good + overloaded == 400, "{good} and {overloaded}");
            } else {
                assert_eq!((good, overloaded), (400, 0));
                assert!(took > Duration::from_millis(2500) && took < Duration::from_secs(5), "{took:?}");
            }
        });
    }
}

#[test]
fn bytes_in_flight_slow_clients_down_or_are_told() {
    for throws in [false, true] {
        for by_address in [false, true] {
            let mut stage = Stage::new(5);
            let most = Some(100_000);
            match by_address {
                true => stage.config.clients.request_bytes_per_ip_max = most,
                false => stage.config.clients.request_bytes_max = most,
            }
            stage.config.clients.throw_on_overload = throws;
            stage.config.commitlog_sync = node::config::CommitlogSync::Group(Duration::from_millis(50));
            stage.boot(1);
            stage.play(async move {
                let connection = try_connect().await.unwrap();
                make_kv(&connection).await;
                let insert = connection.prepare("INSERT INTO ks.kv (k, v) VALUES (?, ?)").await.unwrap();
                let write = |key: i32| {
                    let (connection, insert) = (connection.clone(), insert.clone());
                    runtime::spawn(runtime::Group::QUERY, async move {
                        let text = Value::Text("x".repeat(30_000));
                        let values = insert.bind(&[Value::Int(key), text]).unwrap();
                        let parameters = Parameters { values: values.values(), ..one() };
                        connection.execute(&insert, parameters).await
                    })
                };
                let tasks: Vec<_> = (0..40).map(write).collect();
                let (mut good, mut overloaded) = (0, 0);
                for task in tasks {
                    match task.await {
                        Ok(_) => good += 1,
                        Err(Error::Failure(failure)) if failure.kind == FailureKind::Overloaded => {
                            overloaded += 1
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                assert_eq!(overloaded > 0, throws, "{good} and {overloaded}");
                assert_eq!(good + overloaded, 40);
            });
        }
    }
}

#[test]
fn a_rate_below_one_for_each_shard_serves_slowly() {
    let mut stage = Stage::new(7);
    stage.config.clients.is_rate_bounded = true;
    stage.config.clients.requests_per_second_max = 1;
    stage.boot(4);
    stage.play(async {
        let begun = runtime::now();
        for _ in 0..8 {
            assert!(is_served(&try_connect().await.unwrap()).await);
        }
        assert!(runtime::now() - begun < Duration::from_secs(20));
    });
}

#[test]
fn clients_that_wait_for_answers_are_not_idle() {
    let mut stage = Stage::new(8);
    stage.config.clients.idle_timeout = Duration::from_secs(2);
    stage.config.write_timeout = Duration::from_secs(30);
    stage.config.commitlog_sync = node::config::CommitlogSync::Group(Duration::from_secs(7));
    stage.boot(1);
    stage.play(async {
        let connection = try_connect().await.unwrap();
        make_kv(&connection).await;
        let begun = runtime::now();
        for key in 0..2 {
            run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({key}, 'x')")).await;
        }
        assert!(runtime::now() - begun > Duration::from_secs(4), "the writes waited for their sync");
        runtime::sleep(Duration::from_secs(5)).await;
        assert!(connection.is_closed());
    });
}

#[test]
fn large_requests_that_do_not_end_wait_for_memory_and_are_cut() {
    const LARGE: usize = 8 << 20;
    let mut stage = Stage::new(9);
    stage.config.clients.request_bytes_max = Some(16 << 20);
    stage.boot(1);
    stage.play(async {
        let connection = try_connect().await.unwrap();
        make_kv(&connection).await;
        let mut hoarders = Vec::new();
        for _ in 0..10 {
            let stream = TcpStream::connect(native(), None).await.unwrap();
            let mut wire = Vec::new();
            let options = vec![("CQL_VERSION", "3.0.0")];
            Request::Startup(Startup { options }).encode(&mut wire, Version::V4, 0);
            let query = "x".repeat(LARGE);
            Request::Query(Query { query: &query, parameters: one() }).encode(&mut wire, Version::V4, 1);
            wire.truncate(wire.len() - 1000);
            let sending = stream.clone();
            let sent = runtime::spawn(runtime::Group::QUERY, async move {
                runtime::timeout(Duration::from_secs(20), sending.send_all(wire)).await.is_ok()
            });
            hoarders.push((stream, sent));
        }
        // Small requests go on.
        for _ in 0..20 {
            assert!(is_served(&connection).await);
        }
        let mut taken = 0;
        let mut streams = Vec::new();
        for (stream, sent) in hoarders {
            taken += usize::from(sent.await);
            streams.push(stream);
        }
        assert_eq!(taken, 1, "the others wait");
        let text = "x".repeat(LARGE);
        let options = Options { request_timeout: None, ..Options::new(Version::V4) };
        let connection = Connection::connect(native(), &options).await.unwrap();
        // An honest one may have to come again while they hold the memory, but not for ever.
        runtime::sleep(Duration::from_secs(45)).await;
        let insert = format!("INSERT INTO ks.kv (k, v) VALUES (1, '{text}')");
        let written = connection.query(&insert, one()).await;
        assert!(
            written.is_ok(),
            "{:?}",
            written.err().map(|e| e.to_string().chars().take(300).collect::<String>())
        );
        drop(streams);
    });
    let told = |text: &str| stage.world.log_lines().iter().filter(|(_, line)| line.contains(text)).count();
    assert_eq!((told("does not end, closing it"), told("no memory for a request")), (1, 9));
}

#[test]
fn older_versions_are_rejected_where_that_is_asked_for() {
    let mut stage = Stage::new(6);
    stage.config.clients.older_versions = false;
    stage.boot(1);
    stage.play(async {
        assert!(Connection::connect(native(), &Options::new(Version::V5)).await.is_ok());
        for version in [Version::V3, Version::V4] {
            match Connection::connect(native(), &Options::new(version)).await {
                Err(Error::Failure(failure)) => {
                    let got = version as u8;
                    assert_eq!(failure.kind, FailureKind::Protocol);
                    assert_eq!(failure.message, format!("Rejecting Protocol Version {got}/v{got} < 5/v5."));
                }
                other => panic!("{:?}", other.err()),
            }
        }
    });
}
