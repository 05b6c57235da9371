//! Clients over TLS: whatever the port, the dress, the certificates; and everything that is no TLS.

use crate::harness::*;
use client::{Connection, Error, Options, Pool, PoolOptions};
use protocol::assembler::Assembler;
use protocol::compression::Compression;
use protocol::envelope::{Direction, Version};
use protocol::request::{Parameters, Query, Request, Startup};
use runtime::net::TcpStream;
use runtime::sim::main_of;
use std::net::SocketAddr;
use std::time::Duration;
use tls::{ClientAuth, ClientSettings, Connector, Session};
use types::Value;

const SERVER: &[u8] = include_bytes!("../../../tls/testdata/server.pem");
const SERVER_KEY: &[u8] = include_bytes!("../../../tls/testdata/server.key");
const RENEWED: &[u8] = include_bytes!("../../../tls/testdata/renewed.pem");
const RENEWED_KEY: &[u8] = include_bytes!("../../../tls/testdata/renewed.key");
const CLIENT: &[u8] = include_bytes!("../../../tls/testdata/client.pem");
const CLIENT_KEY: &[u8] = include_bytes!("../../../tls/testdata/client.key");
const AUTHORITY: &[u8] = include_bytes!("../../../tls/testdata/authority.pem");
const STRANGER: &[u8] = include_bytes!("../../../tls/testdata/stranger.pem");

async fn put(path: &str, bytes: &[u8]) {
    runtime::file::replace_atomic(path, bytes).await.unwrap();
}

/// A node with keys on its disk, switched off; TLS is asked for and nothing else.
fn keyed(seed: u64) -> Stage {
    let mut stage = Stage::new(seed);
    let main = main_of(|| async {
        put("/server.pem", &[SERVER, SERVER_KEY].concat()).await;
        put("/authority.pem", AUTHORITY).await;
        0
    });
    stage.world.boot(stage.node, 1, main);
    let node = stage.node;
    assert!(stage.world.run_until(|world| !world.alive(node), Duration::from_secs(5)));
    stage.config.clients.is_encrypted = true;
    stage.config.clients.keystore = Some("/server.pem".into());
    stage.config.clients.truststore = Some("/authority.pem".into());
    stage
}

async fn connector(trust: Option<&[u8]>, shown: Option<(&[u8], &[u8])>) -> Connector {
    if let Some(bytes) = trust {
        put("/trust.pem", bytes).await;
    }
    if let Some((certificate, key)) = shown {
        put("/own.pem", certificate).await;
        put("/own.key", key).await;
    }
    let settings = ClientSettings {
        trust: trust.map(|_| "/trust.pem".into()),
        certificate: shown.map(|_| ("/own.pem".into(), "/own.key".into())),
    };
    Connector::load(&settings).await.unwrap()
}

async fn secured(version: Version) -> Options {
    Options { tls: Some(connector(Some(AUTHORITY), None).await), ..Options::new(version) }
}

async fn count(connection: &Connection) -> Value {
    rows(connection, "SELECT count(*) FROM system.local").await.value(0, 0).unwrap()
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(native().ip(), port)
}

#[test]
fn what_is_written_is_read_in_every_dress() {
    let mut stage = keyed(1);
    stage.boot(2);
    stage.play(async {
        make_kv(&Connection::connect(native(), &secured(Version::V4).await).await.unwrap()).await;
        for (version, compression) in [
            (Version::V3, Compression::Snappy),
            (Version::V4, Compression::None),
            (Version::V4, Compression::Lz4),
            (Version::V5, Compression::None),
            (Version::V5, Compression::Lz4),
        ] {
            let options = Options { compression, ..secured(version).await };
            let connection = Connection::connect(native(), &options).await.unwrap();
            let insert = connection.prepare("INSERT INTO ks.kv (k, v) VALUES (?, ?)").await.unwrap();
            for (key, size) in [(1, 0), (2, 1), (3, 40_000), (4, 3_000_000)] {
                let text: String =
                    (0..size).map(|i: u32| char::from(b'a' + (i.wrapping_mul(i) >> 5) as u8 % 26)).collect();
                let values = insert.bind(&[Value::Int(key), Value::Text(text.clone())]).unwrap();
                let parameters = Parameters { values: values.values(), ..one() };
                connection.execute(&insert, parameters).await.unwrap();
                let read = rows(&connection, &format!("SELECT v FROM ks.kv WHERE k = {key}")).await;
                assert!(read.value(0, 0).unwrap() == Value::Text(text));
            }
            let all = rows(&connection, "SELECT v FROM ks.kv").await;
            assert_eq!(all.rows.len(), 4);
        }
    });
}

#[test]
fn an_encrypted_port_takes_nothing_else() {
    let mut stage = keyed(2);
    stage.boot(2);
    stage.play(async {
        let plain = Connection::connect(native(), &Options::new(Version::V4)).await;
        assert!(matches!(plain, Err(Error::Protocol(_) | Error::Closed(_))), "{:?}", plain.err());
        // A driver that spoke plain text is told something: silence would make it wait.
        let stream = TcpStream::connect(native(), None).await.unwrap();
        stream.send_all(vec![4, 0, 0, 0, 5, 0, 0, 0, 0]).await.unwrap();
        assert_eq!(stream.recv().await.unwrap()[0], 21, "an alert");
        let stranger =
            Options { tls: Some(connector(Some(STRANGER), None).await), ..Options::new(Version::V4) };
        let refused = Connection::connect(native(), &stranger).await;
        assert!(matches!(refused, Err(Error::Tls(_))), "{:?}", refused.err());
        for noise in
            [&[22u8, 3, 1, 0, 5, 1, 2, 3, 4, 5][..], &[22; 3000], &[0; 50], b"GET / HTTP/1.1\r\n\r\n"]
        {
            let stream = TcpStream::connect(native(), None).await.unwrap();
            stream.send_all(noise.to_vec()).await.unwrap();
            let until_closed = async { while stream.recv().await.is_ok_and(|bytes| !bytes.is_empty()) {} };
            assert!(runtime::timeout(Duration::from_secs(2), until_closed).await.is_ok(), "{noise:?}");
        }
        let connection = Connection::connect(native(), &secured(Version::V5).await).await.unwrap();
        assert_eq!(count(&connection).await, Value::Bigint(1));
    });
}

#[test]
fn an_optional_port_takes_both_and_pools_find_every_shard() {
    let mut stage = keyed(3);
    stage.config.clients.is_optional = true;
    stage.boot(3);
    stage.play(async {
        for options in [Options::new(Version::V4), secured(Version::V4).await] {
            let options = PoolOptions::new(options);
            let pool = Pool::connect(&[native()], options).await.unwrap();
            for shard in 0..3 {
                let connection = pool.on_shard(0, shard).await.unwrap();
                let sharding = connection.sharding().unwrap();
                assert_eq!(sharding.shard, shard);
                assert_eq!(
                    (sharding.shard_aware_port, sharding.shard_aware_port_ssl),
                    (Some(19042), Some(19042))
                );
                assert_eq!(count(&connection).await, Value::Bigint(1));
            }
        }
    });
}

#[test]
fn encryption_may_have_ports_of_its_own() {
    let mut stage = keyed(4);
    stage.config.clients.ssl_port = Some(9142);
    stage.config.clients.shard_aware_port_ssl = Some(19142);
    stage.boot(2);
    stage.play(async {
        let (plain, secured) = (Options::new(Version::V5), secured(Version::V5).await);
        for (port, fitting, other) in [
            (9042, &plain, &secured),
            (9142, &secured, &plain),
            (19042, &plain, &secured),
            (19142, &secured, &plain),
        ] {
            let connection = Connection::connect(at(port), fitting).await.unwrap();
            let sharding = connection.sharding().unwrap();
            assert_eq!(
                (sharding.shard_aware_port, sharding.shard_aware_port_ssl),
                (Some(19042), Some(19142))
            );
            let other = Options { connect_timeout: Duration::from_secs(2), ..other.clone() };
            assert!(Connection::connect(at(port), &other).await.is_err(), "{port}");
        }
    });
}

#[test]
fn clients_show_certificates_where_they_must() {
    let mut stage = keyed(5);
    stage.config.clients.client_auth = ClientAuth::Required;
    stage.boot(1);
    stage.play(async {
        let nobody = Connection::connect(native(), &secured(Version::V4).await).await;
        assert!(nobody.is_err());
        let own = connector(Some(AUTHORITY), Some((CLIENT, CLIENT_KEY))).await;
        let options = Options { tls: Some(own), ..Options::new(Version::V4) };
        let connection = Connection::connect(native(), &options).await.unwrap();
        assert_eq!(count(&connection).await, Value::Bigint(1));
        let said =
            rows(&connection, "SELECT ssl_enabled, ssl_protocol, ssl_cipher_suite FROM system_views.clients")
                .await;
        assert_eq!(said.value(0, 0).unwrap(), Value::Boolean(true));
        assert_eq!(said.value(0, 1).unwrap(), Value::Text("TLSv1.3".into()));
        assert!(matches!(said.value(0, 2).unwrap(), Value::Text(suite) if suite.starts_with("TLS_")));
    });
}

#[test]
fn keys_that_cannot_be_used_stop_the_start() {
    let mut stage = keyed(6);
    stage.config.clients.keystore = Some("/missing.pem".into());
    let refused = stage.try_boot(1).err().unwrap();
    assert!(refused.contains("client_encryption_options: /missing.pem"), "{refused}");
}

#[test]
fn renewed_certificates_are_served_without_a_restart() {
    let mut stage = keyed(7);
    stage.boot(2);
    let before =
        stage.play(async { Connection::connect(native(), &secured(Version::V4).await).await.unwrap() });
    let told =
        |stage: &Stage, text: &str| stage.world.log_lines().iter().any(|(_, line)| line.contains(text));
    for (content, said) in [
        (b"half a certif".to_vec(), "stay as they were"),
        ([RENEWED, RENEWED_KEY].concat(), "renewed keys and certificates"),
    ] {
        let node = stage.node;
        let mut task = stage.world.spawn(node, async move { put("/server.pem", &content).await });
        assert!(!told(&stage, said));
        stage.world.run_for(tls::limits::LOOK_EVERY * 2);
        assert!(task.done() && task.take().is_some());
        assert!(told(&stage, said), "{said}");
        stage.play(async {
            let connection = Connection::connect(native(), &secured(Version::V4).await).await.unwrap();
            assert_eq!(count(&connection).await, Value::Bigint(1));
        });
    }
    // Who is connected stays.
    stage.play(async move { assert_eq!(count(&before).await, Value::Bigint(1)) });
}

#[test]
fn silent_handshakes_stop_nobody_and_end() {
    let mut stage = keyed(8);
    stage.config.connections_max = Some(700);
    stage.boot(2);
    stage.play(async {
        let mut silent = Vec::new();
        for index in 0..600u32 {
            let stream = TcpStream::connect(native(), None).await.unwrap();
            // Some say nothing, some the beginning of a handshake.
            if index % 2 == 0 {
                stream.send_all(vec![22, 3, 1, 2, 0, 1]).await.unwrap();
            }
            silent.push(stream);
        }
        let begun = runtime::now();
        let connection = Connection::connect(native(), &secured(Version::V4).await).await.unwrap();
        assert_eq!(count(&connection).await, Value::Bigint(1));
        assert!(runtime::now() - begun < Duration::from_secs(1));
        runtime::sleep(Duration::from_secs(61)).await;
        for stream in &silent {
            let end = runtime::timeout(Duration::from_secs(1), stream.recv()).await;
            assert!(end.is_ok_and(|end| end.is_ok_and(|bytes| bytes.is_empty())), "it is cut");
        }
        assert_eq!(count(&connection).await, Value::Bigint(1));
    });
}

/// A client that asks and does not read: it sends so many QUERYs for one large row over a session of its own.
async fn ask_for(text: &str, count: usize) -> (TcpStream, Session) {
    let stream = TcpStream::connect(native(), None).await.unwrap();
    let mut session = connector(Some(AUTHORITY), None).await.session(native().ip()).unwrap();
    loop {
        let mut wire = Vec::new();
        session.output(&mut wire).unwrap();
        if !wire.is_empty() {
            stream.send_all(wire).await.unwrap();
        }
        if !session.is_handshaking() {
            break;
        }
        let bytes = stream.recv().await.unwrap();
        session.receive(&bytes, |_| {}).unwrap();
    }
    let mut requests = Vec::new();
    let options = vec![("CQL_VERSION", "3.0.0")];
    Request::Startup(Startup { options }).encode(&mut requests, Version::V4, 0);
    for stream in 1..=count {
        let query = Query { query: text, parameters: one() };
        Request::Query(query).encode(&mut requests, Version::V4, stream as i16);
    }
    let mut wire = Vec::new();
    session.send(&requests, &mut wire).unwrap();
    stream.send_all(wire).await.unwrap();
    (stream, session)
}

#[test]
fn a_goodbye_with_the_end_of_the_handshake_is_heard() {
    let mut stage = keyed(13);
    stage.boot(1);
    stage.play(async {
        let stream = TcpStream::connect(native(), None).await.unwrap();
        let mut session = connector(Some(AUTHORITY), None).await.session(native().ip()).unwrap();
        let mut wire = Vec::new();
        session.output(&mut wire).unwrap();
        stream.send_all(wire).await.unwrap();
        while session.is_handshaking() {
            let bytes = stream.recv().await.unwrap();
            session.receive(&bytes, |_| {}).unwrap();
        }
        // The client's last part of the handshake, its request and its goodbye arrive as one.
        let (mut request, mut wire) = (Vec::new(), Vec::new());
        Request::Options.encode(&mut request, Version::V4, 7);
        session.send(&request, &mut wire).unwrap();
        session.goodbye(&mut wire).unwrap();
        stream.send_all(wire).await.unwrap();
        let mut plain = Vec::new();
        let to_the_end = async {
            while let Ok(bytes) = stream.recv().await
                && !bytes.is_empty()
            {
                session.receive(&bytes, |piece| plain.extend_from_slice(piece)).unwrap();
            }
        };
        assert!(runtime::timeout(Duration::from_secs(2), to_the_end).await.is_ok(), "it is still open");
        assert_eq!(plain[..5], [0x84, 0, 0, 7, 6], "SUPPORTED");
    });
}

#[test]
fn slow_readers_get_everything_and_those_that_never_read_are_cut() {
    const LARGE: usize = 2_000_000;
    let mut stage = keyed(11);
    stage.boot(1);
    stage.play(async {
        let connection = Connection::connect(native(), &secured(Version::V4).await).await.unwrap();
        make_kv(&connection).await;
        let large = "x".repeat(LARGE);
        run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES (1, '{large}')")).await;
        let text = "SELECT v FROM ks.kv WHERE k = 1";
        let (never, _session) = ask_for(text, 40).await;
        let (slow, mut session) = ask_for(text, 10).await;
        let mut assembler = Assembler::new(Direction::Responses, 1 << 28);
        let mut answers = 0;
        while answers < 11 {
            runtime::sleep(Duration::from_millis(5)).await;
            let bytes = slow.recv().await.unwrap();
            session.receive(&bytes, |plain| assembler.push(plain)).unwrap();
            while let Some(envelope) = assembler.next().unwrap() {
                answers += 1;
                assert!(envelope.header.stream == 0 || envelope.body.len() > LARGE);
            }
        }
        runtime::sleep(Duration::from_secs(61)).await;
        // What was under way arrives, then the end: not all of it.
        let mut arrived = 0;
        while let Ok(bytes) = never.recv().await
            && !bytes.is_empty()
        {
            arrived += bytes.len();
        }
        assert!(arrived < 40 * LARGE, "{arrived}");
        assert_eq!(count(&connection).await, Value::Bigint(1));
    });
    let cut = stage.world.log_lines().iter().any(|(_, line)| line.contains("does not read its answers"));
    assert!(cut);
}

#[test]
fn an_orderly_stop_answers_what_was_asked() {
    let mut stage = keyed(12);
    stage.config.commitlog_sync = node::config::CommitlogSync::Group(Duration::from_millis(200));
    stage.boot(2);
    let connection = stage.play(async {
        let connection = Connection::connect(native(), &secured(Version::V5).await).await.unwrap();
        make_kv(&connection).await;
        connection
    });
    let asking = connection.clone();
    let mut asked = stage.world.spawn(stage.client, async move {
        asking.query("INSERT INTO ks.kv (k, v) VALUES (1, 'x')", one()).await.is_ok()
    });
    stage.world.run_for(Duration::from_millis(20));
    assert!(!asked.done(), "the write waits for its sync");
    stage.stop();
    assert_eq!(asked.take(), Some(true));
    assert!(connection_ends(&mut stage, connection));
}

fn connection_ends(stage: &mut Stage, connection: Connection) -> bool {
    stage.play(async move {
        runtime::sleep(Duration::from_secs(1)).await;
        connection.is_closed()
    })
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = |seed| {
        let mut stage = keyed(seed);
        stage.boot(2);
        stage.play(async {
            let connection = Connection::connect(native(), &secured(Version::V5).await).await.unwrap();
            make_kv(&connection).await;
            for key in 0..20 {
                run(&connection, &format!("INSERT INTO ks.kv (k, v) VALUES ({key}, 'x')")).await;
            }
            assert_eq!(rows(&connection, "SELECT k FROM ks.kv").await.rows.len(), 20);
        });
        stage.stop();
        stage.world.trace_hash()
    };
    assert_eq!(run(9), run(9));
    assert_ne!(run(9), run(10));
}
