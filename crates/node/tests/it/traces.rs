//! Traces over nodes: events of every replica, shown by any node.

use crate::many::{Many, Place, at, connect_to, place};
use crate::tracing::{frame, id_in, query, receive};
use node::config::CommitlogSync;
use protocol::envelope::flag;
use runtime::Bug;
use runtime::net::TcpStream;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use types::{Consistency, Value};

const TABLES: [&str; 2] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'a': 3, 'b': 3}",
    "CREATE TABLE ks.kv (k int PRIMARY KEY, v int) WITH ID = 00000000-0000-1000-8000-00000000abcd \
     AND speculative_retry = 'NEVER'",
];

/// Nodes 1 to 3 in `a`, others in `b`; the first node has two shards.
fn start(seed: u64, count: usize) -> Many {
    let of =
        |n: usize| Place { shards: if n == 1 { 2 } else { 1 }, ..place(if n <= 3 { "a" } else { "b" }, "r") };
    let places: Vec<Place> = (1..=count).map(of).collect();
    let mut many = Many::start(seed, &places, |config| {
        config.commitlog_sync = CommitlogSync::Batch;
        config.hints.flush_period = Duration::from_millis(100);
    });
    let keyspace = if count <= 3 { TABLES[0].replace(", 'b': 3", "") } else { TABLES[0].to_owned() };
    many.define(&[keyspace.as_str(), TABLES[1]]);
    many
}

/// One event: where, what, and when since that node began, in microseconds.
#[derive(Debug, Clone)]
struct Event {
    source: u8,
    activity: String,
    elapsed: i32,
}

/// Runs a statement with TRACING ON through a node; its trace's id.
async fn traced(n: u8, text: &str, level: Consistency) -> String {
    let stream = TcpStream::connect(SocketAddr::from(([10, 0, 0, n], 9042)), None).await.unwrap();
    let mut pending = Vec::new();
    stream.send_all(frame(0, 1, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0")).await.unwrap();
    receive(&stream, &mut pending).await;
    stream.send_all(frame(flag::TRACING, 7, &query(text, level))).await.unwrap();
    let (flags, body) = receive(&stream, &mut pending).await;
    assert_eq!(flags & flag::TRACING, flag::TRACING);
    id_in(&body)
}

/// The events of a trace as a node shows them, and how many sessions of the id it shows.
async fn shown(n: usize, id: &str) -> (Vec<Event>, usize) {
    let connection = connect_to(n).await;
    let text = format!(
        "SELECT activity, source, source_elapsed, source_port, thread FROM system_traces.events WHERE session_id = {id}"
    );
    let events = connection.query(&text, at(Consistency::One)).await.unwrap().rows();
    let event = |row: usize| {
        let (Value::Text(activity), Value::Inet(IpAddr::V4(source)), Value::Int(elapsed)) =
            (events.value(row, 0).unwrap(), events.value(row, 1).unwrap(), events.value(row, 2).unwrap())
        else {
            panic!("{:?}", events.rows[row])
        };
        assert_eq!(events.value(row, 3).unwrap(), Value::Int(7000));
        assert!(events.rows[row].iter().all(Option::is_some));
        Event { source: source.octets()[3], activity: activity.to_string(), elapsed }
    };
    let all = (0..events.rows.len()).map(event).collect();
    let text = format!("SELECT duration, coordinator FROM system_traces.sessions WHERE session_id = {id}");
    let sessions = connection.query(&text, at(Consistency::One)).await.unwrap().rows();
    (all, sessions.rows.len())
}

/// The nodes that say this.
fn who_says(events: &[Event], what: &str) -> BTreeSet<u8> {
    events.iter().filter(|event| event.activity.contains(what)).map(|event| event.source).collect()
}

fn count(events: &[Event], source: u8, what: &str) -> usize {
    events.iter().filter(|event| event.source == source && event.activity.contains(what)).count()
}

#[test]
fn a_trace_has_events_of_every_replica_and_any_node_shows_it() {
    let mut many = start(91, 3);
    let (write, read, writes, reads) = many.play(async {
        connect_to(2)
            .await
            .query("INSERT INTO ks.kv (k, v) VALUES (0, 0)", at(Consistency::All))
            .await
            .unwrap();
        assert!(rows_of(2, "sessions").await.is_empty(), "nothing was traced");
        let write = traced(1, "INSERT INTO ks.kv (k, v) VALUES (1, 1)", Consistency::Quorum).await;
        runtime::sleep(Duration::from_millis(100)).await;
        let read = traced(1, "SELECT v FROM ks.kv WHERE k = 1", Consistency::Quorum).await;
        let (writes, reads) = (shown(1, &write).await, shown(1, &read).await);
        (write, read, writes, reads)
    });
    let (events, sessions) = writes;
    assert_eq!(sessions, 1);
    let all: BTreeSet<u8> = [1, 2, 3].into();
    assert_eq!(who_says(&events, "Appended a mutation to the commitlog"), all, "{events:#?}");
    assert_eq!(who_says(&events, "MUTATION_REQ message received from /10.0.0.1:7000"), [2, 3].into());
    assert_eq!(who_says(&events, "Enqueuing response to /10.0.0.1:7000"), [2, 3].into());
    assert_eq!(
        who_says(&events, "Determining replicas for mutation at QUORUM: /10.0.0.1:7000, /10.0.0.2:7000"),
        [1].into()
    );
    for n in [2, 3] {
        assert_eq!(count(&events, 1, &format!("Sending MUTATION_REQ message to /10.0.0.{n}:7000")), 1);
        assert_eq!(count(&events, 1, &format!("MUTATION_RSP message received from /10.0.0.{n}:7000")), 1);
        let place = |source: u8, what: &str| {
            let is = |event: &Event| event.source == source && event.activity.contains(what);
            events.iter().position(is).unwrap()
        };
        let other = format!("/10.0.0.{n}");
        let order = [
            place(1, &format!("Sending MUTATION_REQ message to {other}")),
            place(n, "MUTATION_REQ message received"),
            place(n, "Appended"),
            place(n, "Enqueuing response"),
            place(1, &format!("MUTATION_RSP message received from {other}")),
        ];
        assert!(order.is_sorted(), "by event_id: {order:?} in {events:#?}");
        let times: Vec<i32> = events.iter().filter(|e| e.source == n).map(|e| e.elapsed).collect();
        assert!(times.is_sorted() && times[0] < 1000, "since that node began: {times:?}");
    }
    let (events, _) = reads;
    assert_eq!(who_says(&events, "Merged data of kv").len(), 2, "{events:#?}");
    assert_eq!(who_says(&events, "read 1 live rows and 0 tombstone cells").len(), 2);
    let asked =
        events.iter().filter(|event| event.activity.starts_with("Sending READ_REQ message for a")).count();
    assert!((1..=2).contains(&asked), "{events:#?}");
    assert_eq!(count(&events, 1, "Answered with 1 rows"), 1);
    // Whichever node a driver asks, it sees the same, and a scan sees what its node coordinated.
    many.play(async move {
        for (id, expected) in [(&write, events_of(1, &write).await), (&read, events_of(1, &read).await)] {
            for n in [2, 3] {
                let (events, sessions) = shown(n, id).await;
                assert_eq!(
                    (events.iter().map(|e| e.activity.clone()).collect::<Vec<_>>(), sessions),
                    (expected.clone(), 1)
                );
            }
        }
        assert_eq!((rows_of(1, "sessions").await.len(), rows_of(2, "sessions").await.len()), (2, 0));
    });
    // A coordinator that is gone takes its traces along.
    let node = many.node(1);
    many.world.kill(node);
    let read = many.play(async move {
        let traced = traced(2, "SELECT v FROM ks.kv WHERE k = 1", Consistency::Quorum).await;
        assert_eq!(shown(3, &traced).await.1, 1);
        traced
    });
    many.world.kill(many.node(2));
    many.play(async move {
        let begun = runtime::now();
        assert_eq!(shown(3, &read).await.1, 0);
        assert!(runtime::now().since(begun) < Duration::from_secs(12));
    });
}

async fn events_of(n: usize, id: &str) -> Vec<String> {
    shown(n, id).await.0.into_iter().map(|event| event.activity).collect()
}

async fn rows_of(n: usize, table: &str) -> Vec<Value> {
    let text = format!("SELECT session_id FROM system_traces.{table}");
    let rows = connect_to(n).await.query(&text, at(Consistency::One)).await.unwrap().rows();
    (0..rows.rows.len()).map(|row| rows.value(row, 0).unwrap()).collect()
}

#[test]
fn differing_replicas_and_a_hint_are_seen() {
    let mut many = start(92, 3);
    many.world.kill(many.node(3));
    let events = many.play(async {
        runtime::sleep(Duration::from_secs(5)).await;
        let id = traced(1, "INSERT INTO ks.kv (k, v) VALUES (7, 7)", Consistency::Quorum).await;
        shown(1, &id).await.0
    });
    assert_eq!(count(&events, 1, "Kept a hint for /10.0.0.3:7000"), 1, "{events:#?}");
    assert_eq!(who_says(&events, "Appended"), [1, 2].into());
    // Read before what was kept for it arrives.
    many.world.cut(many.node(1), many.node(3));
    many.restart(3);
    let events = many.play(async {
        runtime::sleep(Duration::from_secs(2)).await;
        let id = traced(3, "SELECT v FROM ks.kv WHERE k = 7", Consistency::Quorum).await;
        shown(2, &id).await.0
    });
    assert_eq!(who_says(&events, "Digest mismatch"), [3].into(), "{events:#?}");
    assert_eq!(count(&events, 3, "Read-repair of /10.0.0.3:7000"), 1);
    assert!(0 < count(&events, 3, "Appended a mutation"));
    assert!(2 <= count(&events, 2, "READ_REQ message received from /10.0.0.3:7000"), "{events:#?}");
}

#[test]
fn what_a_forwarder_hands_on_is_traced_too() {
    let mut many = start(93, 6);
    let events = many.play(async {
        let id = traced(1, "INSERT INTO ks.kv (k, v) VALUES (1, 1)", Consistency::All).await;
        let (events, sessions) = shown(5, &id).await;
        assert_eq!(sessions, 1);
        events
    });
    assert_eq!(who_says(&events, "Appended"), (1..=6).collect(), "{events:#?}");
    assert_eq!(count(&events, 1, "which forwards it to"), 1);
    let forwarders = who_says(&events, "Forwarding MUTATION_REQ message to");
    let forwarder = *forwarders.first().unwrap();
    assert!(forwarders.len() == 1 && 4 <= forwarder);
    let received = format!("MUTATION_REQ message received from /10.0.0.{forwarder}:7000");
    assert_eq!(who_says(&events, &received), (4..=6).filter(|n| *n != forwarder).collect());
    assert_eq!(count(&events, 1, "MUTATION_RSP message received from"), 5);
}

/// A node of a release before traces; what it does not know it would answer as an unknown verb, and the level would not be met.
fn older(many: &mut Many, n: usize) {
    many.world.kill(many.node(n));
    many.world.run_for(Duration::from_secs(5));
    many.world.plant(many.node(n), Bug::BeforeTraces);
    many.restart(n);
    many.world.run_for(Duration::from_secs(5));
}

#[test]
fn an_older_peer_is_sent_plain_requests_and_has_no_events() {
    let mut many = start(94, 3);
    older(&mut many, 2);
    let (write, read, events) = many.play(async {
        let write = traced(1, "INSERT INTO ks.kv (k, v) VALUES (1, 1)", Consistency::All).await;
        let read = traced(1, "SELECT v FROM ks.kv WHERE k = 1", Consistency::All).await;
        // The older one has none, and asks nobody: it does not know the others' verb.
        let by_older = traced(2, "SELECT v FROM ks.kv WHERE k = 1", Consistency::All).await;
        assert_eq!(shown(1, &by_older).await.1, 0);
        (shown(1, &write).await.0, shown(1, &read).await.0, shown(3, &write).await.0.len())
    });
    assert_eq!(count(&write, 1, "Done"), 1, "{write:#?}");
    assert_eq!(who_says(&write, "Appended"), [1, 3].into());
    assert_eq!(count(&write, 1, "MUTATION_RSP message received from /10.0.0.2:7000"), 1);
    assert_eq!(count(&read, 1, "Answered with 1 rows"), 1, "{read:#?}");
    assert_eq!(who_says(&read, "Merged data of kv"), [1, 3].into());
    assert_eq!(events, write.len());
}

#[test]
fn an_older_forwarder_and_an_older_replica_behind_one_are_no_harm() {
    for n in [4, 5] {
        let mut many = start(95 + n as u64, 6);
        older(&mut many, n);
        let traces = many.play(async {
            let mut traces = Vec::new();
            for k in 0..6 {
                let text = format!("INSERT INTO ks.kv (k, v) VALUES ({k}, 1)");
                let id = traced(1, &text, Consistency::All).await;
                traces.push(shown(1, &id).await.0);
            }
            traces
        });
        let mut seen = BTreeSet::new();
        for events in &traces {
            assert_eq!(count(events, 1, "Done"), 1, "{events:#?}");
            assert_eq!(count(events, 1, "MUTATION_RSP message received from"), 5);
            let written = who_says(events, "Appended");
            assert!(!written.contains(&(n as u8)), "{events:#?}");
            seen.extend(written);
        }
        // By turns each one there is the forwarder; behind one that knows traces the others have events.
        assert_eq!(seen, (1..=6).filter(|other| usize::from(*other) != n).collect());
    }
}
