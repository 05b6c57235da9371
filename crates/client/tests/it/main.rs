//! The client in a simulated world, against a little server made of the same protocol: every dress of the protocol, many requests in flight,
//! late and lost answers, pages, shards, and the load generator.

mod server;

use client::load::{Draw, LoadOptions, Pace, Workload};
use client::{Connection, Error, Options, Pages, Pool, PoolOptions, Usable};
use protocol::compression::Compression;
use protocol::envelope::Version;
use protocol::failure::FailureKind;
use protocol::request::{Batch, BatchKind, BatchSource, BatchStatement, Parameters, Query, Request};
use runtime::Group;
use runtime::sim::{SimConfig, World};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use types::{Consistency, Value};

fn server_ip() -> IpAddr {
    IpAddr::from([10, 0, 0, 1])
}

fn address() -> SocketAddr {
    SocketAddr::new(server_ip(), server::PORT)
}

fn at_one() -> Parameters<'static> {
    Parameters::at(Consistency::One)
}

/// Runs a client's task against the server and gives what it returns.
fn with_server<T: 'static, F: Future<Output = T> + 'static>(seed: u64, client: impl FnOnce() -> F) -> T {
    let mut world = World::new(seed, SimConfig::calm());
    let node = world.add_node(server_ip());
    let caller = world.add_client(IpAddr::from([10, 0, 0, 99]));
    world.boot(node, 1, server::main());
    world.run_for(Duration::from_millis(10));
    let mut task = world.spawn(caller, client());
    assert!(world.run_until(|_| task.done(), Duration::from_secs(60)), "the client hangs");
    task.take().expect("done")
}

fn every_dress() -> [Options; 7] {
    let with = |version, compression| Options { compression, ..Options::new(version) };
    [
        with(Version::V3, Compression::None),
        with(Version::V3, Compression::Snappy),
        with(Version::V4, Compression::None),
        with(Version::V4, Compression::Snappy),
        with(Version::V4, Compression::Lz4),
        with(Version::V5, Compression::None),
        with(Version::V5, Compression::Lz4),
    ]
}

#[test]
fn statements_in_every_dress() {
    for options in every_dress() {
        with_server(1, || async move {
            let connection = Connection::connect(address(), &options).await.expect("a server");
            let insert =
                connection.prepare("INSERT INTO load.kv (key, value) VALUES (?, ?)").await.expect("insert");
            let read = connection.prepare("SELECT value FROM load.kv WHERE key = ?").await.expect("read");
            let blob = vec![7; 300_000];
            let values = insert.bind(&[Value::text("k"), Value::Blob(blob.clone())]).expect("fits");
            let parameters = Parameters { values: values.values(), ..at_one() };
            connection.execute(&insert, parameters).await.expect("written");
            // The node forgets its statements: they are prepared again without being asked.
            connection.query("forget three more", at_one()).await.expect("forgotten");
            let key = read.bind(&[Value::text("k")]).expect("fits");
            let parameters = Parameters { values: key.values(), ..at_one() };
            let rows = connection.execute(&read, parameters).await.expect("read").rows();
            assert_eq!(rows.values().expect("blobs"), [[Value::Blob(blob)]]);
            let failed = connection.query("bad", at_one()).await.expect_err("bad");
            assert_eq!(failed.failure(), Some(&FailureKind::Invalid));
            connection.query("forget three more", at_one()).await.expect("forgotten");
            let statement =
                BatchStatement { source: BatchSource::Prepared(insert.id()), values: values.values() };
            let batch =
                Batch { kind: BatchKind::Unlogged, statements: vec![statement], parameters: at_one() };
            connection.batch(batch, &[&insert]).await.expect("prepared again");
        });
    }
}

#[test]
fn pages_follow_each_other() {
    with_server(2, || async {
        let connection = Connection::connect(address(), &Options::new(Version::V5)).await.expect("a server");
        let mut pages = Pages::query(&connection, "pages", at_one(), 4);
        let mut sizes = Vec::new();
        while let Some(page) = pages.next_page().await.expect("a page") {
            sizes.push(page.rows.len());
        }
        assert_eq!(sizes, [4, 4, 2]);
        let all = Pages::query(&connection, "pages", at_one(), 3).all().await.expect("rows");
        let flat: Vec<u8> = all.iter().map(|row| row[0].as_deref().expect("a value")[0]).collect();
        assert_eq!(flat, (0..10).collect::<Vec<u8>>());
    });
}

#[test]
fn a_late_answer_meets_nobody_else() {
    with_server(3, || async {
        let options =
            Options { request_timeout: Some(Duration::from_millis(100)), ..Options::new(Version::V4) };
        let connection = Connection::connect(address(), &options).await.expect("a server");
        let given_up = connection.query("slow", at_one()).await.expect_err("too slow");
        assert!(matches!(given_up, Error::Timeout) && given_up.is_unknown());
        assert_eq!(connection.in_flight(), 1);
        for _ in 0..100 {
            let outcome = connection.query("quick", at_one()).await.expect("quick");
            assert!(matches!(outcome, client::Outcome::Void));
            runtime::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(connection.in_flight(), 0);
    });
}

#[test]
fn a_request_has_its_time_and_a_sixteenth_more() {
    with_server(31, || async {
        let limit = Duration::from_millis(160);
        let options = Options { request_timeout: Some(limit), ..Options::new(Version::V4) };
        let connection = Connection::connect(address(), &options).await.expect("a server");
        let ask = |connection: Connection| async move {
            let start = runtime::now();
            let failed = connection.query("slow", at_one()).await.expect_err("too slow");
            assert!(matches!(failed, Error::Timeout));
            runtime::now() - start
        };
        // Each begins at another time after somebody began to look.
        let mut asked = Vec::new();
        for _ in 0..10 {
            asked.push(runtime::spawn(runtime::Group::QUERY, ask(connection.clone())));
            runtime::sleep(Duration::from_millis(7)).await;
        }
        for asked in asked {
            let took = asked.await;
            assert!(limit <= took && took <= limit * 17 / 16 + Duration::from_millis(1), "{took:?}");
        }
    });
}

#[test]
fn what_was_sent_at_once_may_be_given_up() {
    with_server(32, || async {
        let options = Options { in_flight: 2, ..Options::new(Version::V4) };
        let connection = Connection::connect(address(), &options).await.expect("a server");
        let slow = Request::Query(Query { query: "slow", parameters: at_one() });
        let kept = connection.send_now(&slow).expect("room").expect("open");
        let given_up = connection.send_now(&slow).expect("room").expect("open");
        assert!(connection.send_now(&slow).is_none(), "as many are in flight as may be");
        drop(given_up);
        // Its answer is still to come: until then nobody else may have its number.
        assert!(connection.send_now(&slow).is_none());
        assert_eq!(connection.in_flight(), 2);
        assert!(kept.await.expect("slow, but there").is_result());
        runtime::sleep(Duration::from_millis(100)).await;
        assert_eq!(connection.in_flight(), 0);
        // One that waits for room, and one whose answer will never come, hear of the end.
        let unanswered = [0; 2].map(|_| connection.send_now(&slow).expect("room").expect("open"));
        let waiting = connection.clone();
        let waiting =
            runtime::spawn(runtime::Group::QUERY, async move { waiting.query("quick", at_one()).await });
        runtime::sleep(Duration::from_millis(10)).await;
        connection.close();
        assert!(matches!(waiting.await, Err(Error::Closed(_))));
        for unanswered in unanswered {
            assert!(matches!(unanswered.await, Err(Error::Closed(_))));
        }
        assert!(matches!(connection.send_now(&slow), Some(Err(Error::Closed(_)))));
    });
}

#[test]
fn an_answer_that_came_late_is_an_answer_to_who_had_not_looked() {
    with_server(33, || async {
        let limit = Duration::from_millis(100);
        let options = Options { request_timeout: Some(limit), in_flight: 1, ..Options::new(Version::V4) };
        let connection = Connection::connect(address(), &options).await.expect("a server");
        let slow = Request::Query(Query { query: "slow", parameters: at_one() });
        let sent = connection.send_now(&slow).expect("room").expect("open");
        // It was too late for long when the answer came: who looks now sees the answer, and the next request has its number.
        runtime::sleep(Duration::from_secs(3)).await;
        assert!(sent.await.expect("late, but there").is_result());
        assert_eq!(connection.in_flight(), 0);
        connection.query("quick", at_one()).await.expect("room again");
        // Who was told that it is too late has given it up; the answer makes room.
        let sent = connection.send_now(&slow).expect("room").expect("open");
        assert!(matches!(sent.await, Err(Error::Timeout)));
        assert!(connection.send_now(&slow).is_none());
        runtime::sleep(Duration::from_secs(3)).await;
        assert_eq!(connection.in_flight(), 0);
    });
}

#[test]
fn many_requests_share_a_connection() {
    with_server(4, || async {
        let options = Options { in_flight: 50, ..Options::new(Version::V5) };
        let connection = Connection::connect(address(), &options).await.expect("a server");
        let slow = connection.clone();
        let slow = runtime::spawn(runtime::Group::QUERY, async move { slow.query("slow", at_one()).await });
        let tasks: Vec<_> = (0..500)
            .map(|_| {
                let connection = connection.clone();
                runtime::spawn(
                    runtime::Group::QUERY,
                    async move { connection.query("quick", at_one()).await },
                )
            })
            .collect();
        for task in tasks {
            task.await.expect("quick");
        }
        assert!(!slow.is_finished());
        slow.await.expect("slow, but there");
    });
}

#[test]
fn a_dead_server_fails_what_is_in_flight() {
    let mut world = World::new(5, SimConfig::calm());
    let node = world.add_node(server_ip());
    let caller = world.add_client(IpAddr::from([10, 0, 0, 99]));
    world.boot(node, 1, server::main());
    world.run_for(Duration::from_millis(10));
    let mut task = world.spawn(caller, async {
        let connection = Connection::connect(address(), &Options::new(Version::V4)).await.expect("a server");
        let error = connection.query("slow", at_one()).await.expect_err("the server dies");
        assert!(connection.is_closed());
        assert!(matches!(connection.query("quick", at_one()).await, Err(Error::Closed(_))));
        assert!(connection.next_event().await.is_none());
        error
    });
    world.run_for(Duration::from_millis(100));
    world.kill(node);
    assert!(world.run_until(|_| task.done(), Duration::from_secs(30)));
    assert!(matches!(task.take(), Some(Error::Closed(_))));
}

/// The ring of the server names two more nodes, which do not exist.
fn only_this_node() -> PoolOptions {
    let usable = Usable { addresses: vec![address().ip()], ..Usable::default() };
    PoolOptions { usable, ..PoolOptions::new(Options::new(Version::V4)) }
}

#[test]
fn a_pool_asks_the_nodes_it_may_ask() {
    with_server(8, || async {
        let connect = |usable| {
            let mut options = Options::new(Version::V4);
            options.connect_timeout = Duration::from_millis(100);
            let options = PoolOptions { usable, ..PoolOptions::new(options) };
            async move { Pool::connect(&[address()], options).await }
        };
        let all = connect(Usable::default()).await.expect("a server");
        let places: Vec<(String, String)> =
            all.places().map(|place| (place.datacenter.clone(), place.rack.clone())).collect();
        let pair = |dc: &str, rack: &str| (dc.to_owned(), rack.to_owned());
        assert_eq!(places, [pair("dc1", "r1"), pair("dc1", "r2"), pair("dc2", "r1")]);
        assert_eq!(all.cluster(), "test");
        assert_eq!(all.owner(base::Token(500)).0, 1);
        // Its owner cannot be reached: another node is asked.
        assert!(all.ready(Some(base::Token(500))).is_none());
        all.connection(Some(base::Token(500))).await.expect("another node");
        let near = Usable { datacenter: Some("dc1".into()), ..Usable::default() };
        assert_eq!(connect(near).await.expect("a server").node_count(), 2);
        let rack = Usable { datacenter: Some("dc1".into()), rack: Some("r1".into()), ..Usable::default() };
        let here = connect(rack).await.expect("a server");
        assert_eq!((here.node_count(), here.owner(base::Token(500)).0), (1, 0));
        assert!(here.ready(Some(base::Token(500))).is_some());
        let nowhere = Usable { datacenter: Some("dc3".into()), ..Usable::default() };
        let error = connect(nowhere).await.err().expect("no such datacenter");
        assert_eq!(error.to_string(), "no node of the ring is datacenter dc3");
        // A node that is away is not tried for each request: a moment later it is.
        let started = runtime::now();
        for _ in 0..100 {
            assert!(all.on_shard(1, 0).await.is_err());
        }
        assert!(runtime::now() - started < Duration::from_millis(100));
    });
}

/// Who answers each of the next requests for a token.
async fn asked(pool: &Pool, token: i64, times: usize) -> Vec<String> {
    let mut names = Vec::new();
    for _ in 0..times {
        let connection = pool.connection(Some(base::Token(token))).await.expect("connected");
        match connection.query("who", at_one()).await.expect("an answer") {
            client::Outcome::SetKeyspace(name) => names.push(name),
            other => panic!("{other:?}"),
        }
    }
    names
}

/// A world of two servers, the first of which knows nobody else yet.
fn with_two_servers<T: 'static, F: Future<Output = T> + 'static>(seed: u64, client: impl FnOnce() -> F) -> T {
    let mut world = World::new(seed, SimConfig::calm());
    let (one, other) = (world.add_node(server_ip()), world.add_node(IpAddr::from([10, 0, 0, 2])));
    let caller = world.add_client(IpAddr::from([10, 0, 0, 99]));
    world.boot(one, 1, server::main());
    world.boot(other, 1, server::named("other"));
    world.run_for(Duration::from_millis(10));
    let mut task = world.spawn(caller, client());
    assert!(world.run_until(|_| task.done(), Duration::from_secs(60)), "the client hangs");
    task.take().expect("done")
}

#[test]
fn a_definition_waits_for_the_nodes_that_can_be_reached() {
    with_two_servers(23, || async {
        let options = || PoolOptions::new(Options::new(Version::V4));
        let took = async |pool: &Pool| {
            let since = runtime::now();
            let made = pool.define("CREATE TABLE by_and_by", types::Consistency::One).await;
            assert!(matches!(made, Ok(client::Outcome::Void)));
            runtime::now().since(since)
        };
        let tell = Connection::connect(address(), &Options::new(Version::V4)).await.expect("a server");
        tell.query("leave", at_one()).await.expect("told");
        let alone = Pool::connect(&[address()], options()).await.expect("a server");
        assert!(took(&alone).await < client::limits::AGREEMENT_PAUSE, "the other one is not there");
        tell.query("join", at_one()).await.expect("told");
        let pool = Pool::connect(&[address()], options()).await.expect("a server");
        // Whichever of the two is asked.
        for _ in 0..4 {
            let took = took(&pool).await;
            let looks = client::limits::AGREEMENT_PAUSE * 3;
            assert!(took >= looks && took < looks * 2, "{took:?}");
        }
    });
}

#[test]
fn a_pool_follows_keyspaces_that_are_made_later() {
    with_two_servers(22, || async {
        let tell = Connection::connect(address(), &Options::new(Version::V4)).await.expect("a server");
        tell.query("join", at_one()).await.expect("told");
        let later =
            PoolOptions { keyspace: Some("later".into()), ..PoolOptions::new(Options::new(Version::V4)) };
        let pool = Pool::connect(&[address()], later).await.expect("a server");
        assert_eq!(asked(&pool, 500, 4).await, ["other"; 4], "the owner alone");
        tell.query("CREATE KEYSPACE later", at_one()).await.expect("told");
        runtime::sleep(client::limits::EVENTS_REST * 2).await;
        let names = asked(&pool, 500, 6).await;
        assert!(names.iter().filter(|name| *name == "other").count() == 3, "{names:?}");
    });
}

#[test]
fn a_pool_follows_the_ring_and_replicas_take_turns() {
    with_two_servers(21, || async {
        let tell = Connection::connect(address(), &Options::new(Version::V4)).await.expect("a server");
        tell.query("leave", at_one()).await.expect("told");
        let twice =
            PoolOptions { keyspace: Some("twice".into()), ..PoolOptions::new(Options::new(Version::V4)) };
        let pool = Pool::connect(&[address()], twice).await.expect("a server");
        let once =
            Pool::connect(&[address()], PoolOptions::new(Options::new(Version::V4))).await.expect("a server");
        assert_eq!((pool.node_count(), asked(&pool, 500, 3).await), (1, vec!["one".to_owned(); 3]));
        tell.query("join", at_one()).await.expect("told");
        runtime::sleep(client::limits::EVENTS_REST * 2).await;
        assert_eq!((pool.node_count(), pool.owner(base::Token(500)).0), (2, 1));
        // It was connected without being wanted.
        assert!((0..4).all(|_| pool.ready(Some(base::Token(500))).is_some()));
        let names = asked(&pool, 500, 6).await;
        assert!(names.iter().filter(|name| *name == "other").count() == 3, "{names:?}");
        assert!(names.windows(2).all(|two| two[0] != two[1]), "in turn: {names:?}");
        assert_eq!(
            (pool.replicas("twice", base::Token(500)), pool.replicas("?", base::Token(500))),
            (vec![1, 0], vec![1])
        );
        // Without a keyspace, the owner alone.
        assert_eq!(asked(&once, 500, 3).await, ["other"; 3]);
        assert_eq!(asked(&once, 0, 3).await, ["one"; 3]);
        tell.query("leave", at_one()).await.expect("told");
        runtime::sleep(client::limits::EVENTS_REST * 2).await;
        assert_eq!(asked(&pool, 500, 4).await, ["one"; 4]);
        assert_eq!((pool.owner(base::Token(500)).0, pool.tokens().count()), (0, 1));
        // A node that comes back has the number that it had.
        tell.query("join", at_one()).await.expect("told");
        runtime::sleep(client::limits::EVENTS_REST * 2).await;
        assert_eq!((pool.node_count(), pool.owner(base::Token(500)).0), (2, 1));
    });
}

#[test]
fn a_pool_that_is_dropped_closes_what_it_listened_on() {
    with_two_servers(22, || async {
        let pool = Pool::connect(&[address()], only_this_node()).await.expect("a server");
        let connection = pool.connection(None).await.expect("connected");
        drop(pool);
        runtime::sleep(Duration::from_secs(1)).await;
        assert!(!connection.is_closed(), "this handle is left");
        connection.query("who", at_one()).await.expect("an answer");
    });
}

#[test]
fn connections_to_a_node_take_turns_where_no_shard_is_meant() {
    with_server(9, || async {
        let options = PoolOptions { shard_aware: false, connections_per_node: 3, ..only_this_node() };
        let pool = Pool::connect(&[address()], options).await.expect("a server");
        let ready = || pool.ready(Some(base::Token(1)));
        let all = [ready(), ready(), ready()].map(|connection| connection.expect("connected"));
        all[0].close();
        assert!(!all[1].is_closed() && !all[2].is_closed(), "each is another one");
        for place in 0..3 {
            pool.on_shard(0, place).await.expect("connected").close();
            // Its turn comes and is not over; who waits makes it anew.
            let asked = (0..3).take_while(|_| ready().is_some()).count();
            assert!(asked < 3 && ready().is_none());
            pool.connection(Some(base::Token(1))).await.expect("connected");
            assert!([0; 3].iter().all(|_| ready().is_some()));
        }
        // What is made anew takes its own place and nobody else's.
        for place in 0..3 {
            pool.on_shard(0, place).await.expect("connected");
        }
        pool.on_shard(0, 0).await.expect("connected").close();
        pool.on_shard(0, 0).await.expect("connected");
        assert!([0; 3].iter().all(|_| ready().is_some()));
    });
}

#[test]
fn a_pool_reaches_every_shard() {
    with_server(6, || async {
        let pool = Pool::connect(&[address()], only_this_node()).await.expect("a server");
        assert_eq!((pool.node_count(), pool.shard_count(0)), (1, server::SHARDS));
        for shard in 0..server::SHARDS {
            let connection = pool.on_shard(0, shard).await.expect("connected");
            assert_eq!(connection.sharding().map(|s| s.shard), Some(shard));
            // What closes is made anew.
            connection.close();
            let again = pool.on_shard(0, shard).await.expect("connected");
            assert_eq!(again.sharding().map(|s| s.shard), Some(shard));
        }
        let read = pool.prepare("SELECT value FROM load.kv WHERE key = ?").await.expect("read");
        let key = read.bind(&[Value::text("a")]).expect("fits");
        let token = read.token(key.values()).expect("the key is bound");
        assert_eq!(token, base::Token::of_key(b"a"));
        let chosen = pool.connection(Some(token)).await.expect("connected");
        let owner = pool.owner(token).1;
        assert_eq!(chosen.sharding().map(|s| s.shard), Some(owner));
        let parameters = Parameters { values: key.values(), ..at_one() };
        assert!(pool.execute(&read, parameters).await.expect("read").rows().rows.is_empty());
    });
}

#[test]
fn the_load_generator_counts_what_it_does() {
    for (workload, pace, shard_aware) in [
        (Workload::Read, Pace::Closed, false),
        (Workload::Insert, Pace::Closed, true),
        (Workload::Mixed(0.5), Pace::Open(2000.0), false),
    ] {
        let report = with_server(7, || async move {
            let options = LoadOptions {
                connections: 3,
                depth: 4,
                workload,
                pace,
                shard_aware,
                keys: 100,
                duration: Duration::from_secs(1),
                warm_up: Duration::from_millis(100),
                ..LoadOptions::new(vec![address()])
            };
            client::load::run(options).await.expect("a run")
        });
        assert_eq!(report.errors, 0, "{report}");
        assert_eq!(report.operations, report.latencies.count());
        assert!(report.operations > 1000, "{report}");
        let half = report.operations / 2;
        let reads =
            if matches!(workload, Workload::Mixed(_)) { half - half / 5..half + half / 5 } else { 0..1 };
        assert!(reads.contains(&report.read_latencies.count()), "{report}");
        if let Pace::Open(rate) = pace {
            assert!((report.rate() - rate).abs() < rate / 50.0, "{report}");
        }
    }
}

#[test]
fn the_load_generator_prepares_again_what_the_server_forgets() {
    let report = with_server(13, || async move {
        let options = LoadOptions {
            connections: 2,
            depth: 8,
            workload: Workload::Mixed(0.5),
            keys: 100,
            duration: Duration::from_secs(1),
            warm_up: Duration::ZERO,
            ..LoadOptions::new(vec![address()])
        };
        let forgetting = runtime::spawn(Group::QUERY, async {
            let options = Options::new(Version::V4);
            let connection = Connection::connect(address(), &options).await.expect("a server");
            for _ in 0..5 {
                runtime::sleep(Duration::from_millis(150)).await;
                connection.query("forget", at_one()).await.expect("an answer");
            }
        });
        let report = client::load::run(options).await.expect("a run");
        forgetting.await;
        report
    });
    assert_eq!(report.errors, 0, "{report}");
    assert!(report.operations > 1000 && report.slowest_second() > 0.9, "{report}");
}

#[test]
fn the_load_generator_deletes_every_other_key_and_scans_the_rest() {
    let (deleted, scanned) = with_server(11, || async move {
        let options = |workload| LoadOptions {
            workload,
            keys: 100,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(60),
            ..LoadOptions::new(vec![address()])
        };
        let fill = LoadOptions {
            draw: Draw::Sequence,
            fresh_values: true,
            fill: false,
            ..options(Workload::Insert)
        };
        assert_eq!(client::load::run(fill).await.expect("a run").operations, 100);
        let kept = |workload| LoadOptions { prepare_data: false, ..options(workload) };
        let delete = LoadOptions { draw: Draw::Sequence, stride: 2, ..kept(Workload::Delete) };
        let deleted = client::load::run(delete).await.expect("a run");
        (deleted, client::load::run(kept(Workload::Scan)).await.expect("a run"))
    });
    assert_eq!((deleted.operations, deleted.errors), (50, 0), "{deleted}");
    assert_eq!((scanned.operations, scanned.errors), (50, 0), "{scanned}");
}

/// What comes faster than it is answered is late from its intended start, and the server never stood still.
#[test]
fn an_overloaded_server_is_charged_for_lateness_and_not_for_pauses() {
    let report = with_server(12, || async move {
        let options = LoadOptions {
            connections: 1,
            depth: 1,
            pace: Pace::Open(1e6),
            keys: 10,
            duration: Duration::from_secs(3),
            warm_up: Duration::from_secs(1),
            ..LoadOptions::new(vec![address()])
        };
        client::load::run(options).await.expect("a run")
    });
    assert!(report.operations > 1000, "{report}");
    assert!(report.slowest_second() > 0.9 && report.pause < Duration::from_millis(50), "{report}");
    assert!(report.latencies.mean() > Duration::from_secs(1), "{report}");
}

#[test]
fn the_echo_server_echoes() {
    let mut world = World::new(8, SimConfig::calm());
    let node = world.add_node(server_ip());
    let caller = world.add_client(IpAddr::from([10, 0, 0, 99]));
    world.boot(
        node,
        1,
        runtime::sim::main_of(|| async {
            client::echo::serve(SocketAddr::new(IpAddr::from([0, 0, 0, 0]), server::PORT), |_| ())
                .await
                .expect("a free port");
            0
        }),
    );
    world.run_for(Duration::from_millis(10));
    let mut task = world.spawn(caller, async {
        let options = LoadOptions {
            connections: 2,
            depth: 3,
            workload: Workload::Echo,
            duration: Duration::from_millis(200),
            warm_up: Duration::ZERO,
            ..LoadOptions::new(vec![address()])
        };
        client::load::run(options).await.expect("a run")
    });
    assert!(world.run_until(|_| task.done(), Duration::from_secs(30)));
    let report = task.take().expect("done");
    assert!(report.operations > 100 && report.errors == 0, "{report}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = || {
        let mut world = World::new(9, SimConfig::drawn(9));
        let node = world.add_node(server_ip());
        let caller = world.add_client(IpAddr::from([10, 0, 0, 99]));
        world.boot(node, 1, server::main());
        world.run_for(Duration::from_millis(50));
        let seen = Rc::new(std::cell::Cell::new(0));
        let count = seen.clone();
        let task = world.spawn(caller, async move {
            let connection =
                Connection::connect(address(), &Options::new(Version::V5)).await.expect("a server");
            for _ in 0..50 {
                connection.query("quick", at_one()).await.expect("quick");
                count.set(count.get() + 1);
            }
        });
        assert!(world.run_until(|_| task.done(), Duration::from_secs(60)));
        (world.trace_hash(), seen.get())
    };
    assert_eq!(trace(), trace());
}

/// The same on the machine's own network: a few thousand requests, none lost.
#[test]
fn the_echo_server_echoes_for_real() {
    let config = runtime::Config { pin: false, overprovisioned: true, ..runtime::Config::new(1) };
    let main: runtime::Main = std::sync::Arc::new(|| {
        Box::pin(async {
            let (found, ready) = runtime::sync::oneshot::channel();
            let any = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 0);
            runtime::spawn(runtime::Group::MAIN, async move {
                let tell = |address| assert!(found.send(address).is_ok());
                client::echo::serve(any, tell).await.expect("a free port");
            });
            let address = ready.await.expect("it listens");
            let options = LoadOptions {
                connections: 4,
                depth: 16,
                workload: Workload::Echo,
                duration: Duration::from_millis(300),
                warm_up: Duration::from_millis(50),
                ..LoadOptions::new(vec![address])
            };
            let report = client::load::run(options).await.expect("a run");
            println!("{report}");
            assert!(report.operations > 100 && report.errors == 0, "{report}");
            runtime::request_shutdown();
            0
        })
    });
    assert_eq!(runtime::run(config, main), 0);
}
